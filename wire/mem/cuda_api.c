/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/mem/cuda_api.h"

#include "wire/base/log.h"

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct amb_cuda_api amb_cuda_api;
CUresult (*amb_cuda_gpu_uuid)(CUuuid *uuid, CUdevice device);

static pthread_mutex_t load_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t watch_once = PTHREAD_ONCE_INIT;
static _Atomic bool is_live;    /* the table is filled */
static _Atomic bool is_useless; /* there is a library, and it does not fit */
static _Atomic unsigned long long seen_adds;
static char load_error[256];

#define NAME_OF_(name) #name
#define NAME_OF(name) NAME_OF_(name)

/* Each symbol; false if one is missing. */
static bool resolve(void *library)
{
#define AMB_CUDA_RESOLVE(name)                                                                     \
    do {                                                                                           \
        void *symbol = dlsym(library, NAME_OF(name));                                              \
        if (symbol == NULL) {                                                                      \
            (void)snprintf(load_error, sizeof(load_error), "the CUDA driver has no %s",            \
                           NAME_OF(name));                                                         \
            return false;                                                                          \
        }                                                                                          \
        memcpy(&amb_cuda_api.name, &symbol, sizeof(symbol)); /* ISO C has no cast for this. */     \
    } while (0);
    AMB_CUDA_API(AMB_CUDA_RESOLVE)
#undef AMB_CUDA_RESOLVE
    void *first_form = dlsym(library, "cuDeviceGetUuid");
    memcpy(&amb_cuda_gpu_uuid, &first_form, sizeof(first_form));
    return true;
}

static const char *library_name(void)
{
    const char *name = secure_getenv(AMB_CUDA_LIBRARY_ENV);
    return name != NULL && name[0] != '\0' ? name : "libcuda.so.1";
}

/* The library is never unloaded again: it has threads of its own. load_lock is held. */
static bool open_library(int more_flags)
{
    if (atomic_load_explicit(&is_live, memory_order_relaxed)) {
        return true;
    }
    if (atomic_load_explicit(&is_useless, memory_order_relaxed)) {
        return false;
    }
    void *library = dlopen(library_name(), RTLD_NOW | RTLD_LOCAL | more_flags);
    if (library == NULL) {
        if (more_flags == 0) {
            (void)snprintf(load_error, sizeof(load_error), "no CUDA driver: %s", dlerror());
        }
        return false;
    }
    if (!resolve(library)) {
        amb_warn("%s", load_error);
        atomic_store_explicit(&is_useless, true, memory_order_relaxed);
        return false;
    }
    /* Release: pairs with the acquire in amb_cuda_is_live; the table is whole. */
    atomic_store_explicit(&is_live, true, memory_order_release);
    return true;
}

/* A thread that the child has not may hold it. */
static void after_fork_child(void)
{
    (void)pthread_mutex_init(&load_lock, NULL);
}

static void watch_forks(void)
{
    (void)pthread_atfork(NULL, NULL, after_fork_child);
}

static void take_lock(void)
{
    (void)pthread_once(&watch_once, watch_forks);
    (void)pthread_mutex_lock(&load_lock);
}

void amb_cuda_disown(void)
{
    atomic_store_explicit(&is_useless, true, memory_order_relaxed);
    atomic_store_explicit(&is_live, false, memory_order_relaxed);
}

bool amb_cuda_load(void)
{
    take_lock();
    bool has_it = open_library(0);
    (void)pthread_mutex_unlock(&load_lock);
    return has_it;
}

const char *amb_cuda_load_error(void)
{
    return load_error;
}

/* Of the first library only: how many have been loaded in all. */
static int read_adds(struct dl_phdr_info *info, size_t size, void *arg)
{
    unsigned long long *adds = arg;
    if (size >= offsetof(struct dl_phdr_info, dlpi_adds) + sizeof(info->dlpi_adds)) {
        *adds = info->dlpi_adds;
    }
    return 1;
}

bool amb_cuda_is_live(void)
{
    if (atomic_load_explicit(&is_live, memory_order_acquire)) {
        return true;
    }
    unsigned long long adds = 0;
    (void)dl_iterate_phdr(read_adds, &adds);
    if (adds == atomic_load_explicit(&seen_adds, memory_order_relaxed)) {
        return false;
    }
    take_lock();
    bool has_it = open_library(RTLD_NOLOAD);
    (void)pthread_mutex_unlock(&load_lock);
    /* A library that was loaded while we looked is looked at next time: the count is from
     * before. */
    atomic_store_explicit(&seen_adds, adds, memory_order_relaxed);
    return has_it;
}
