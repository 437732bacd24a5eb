/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/config/libconfig_api.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static struct amb_libconfig_api api;
static pthread_once_t load_once = PTHREAD_ONCE_INIT;
static bool is_loaded;
static char reason[256];

/* Each symbol; false if one is missing. */
static bool resolve(void *library)
{
#define AMB_LIBCONFIG_RESOLVE(name)                                                                \
    do {                                                                                           \
        void *symbol = dlsym(library, #name);                                                      \
        if (symbol == NULL) {                                                                      \
            (void)snprintf(reason, sizeof(reason), "%s has no %s", AMB_LIBCONFIG_SONAME, #name);   \
            return false;                                                                          \
        }                                                                                          \
        memcpy(&api.name, &symbol, sizeof(symbol)); /* ISO C has no cast for this. */              \
    } while (0);
    AMB_LIBCONFIG_API(AMB_LIBCONFIG_RESOLVE)
#undef AMB_LIBCONFIG_RESOLVE
    return true;
}

/* The dynamic linker looks first in what the program is linked to. Where that is another release of
 * libconfig, ours would call its functions. */
static bool is_alone(void)
{
    void *first = dlsym(RTLD_DEFAULT, "config_read_string");
    void *ours;
    memcpy(&ours, &api.config_read_string, sizeof(ours));
    if (first == NULL || first == ours) {
        return true;
    }
    (void)snprintf(reason, sizeof(reason), "this program has a libconfig that is not %s",
                   AMB_LIBCONFIG_SONAME);
    return false;
}

/* Never unloaded: that frees nothing worth it, and leaks are told by its name. */
static void load(void)
{
    void *library = dlopen(AMB_LIBCONFIG_SONAME, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        (void)snprintf(reason, sizeof(reason), "%s", dlerror());
        return;
    }
    is_loaded = resolve(library) && is_alone();
}

const struct amb_libconfig_api *amb_libconfig(const char **why)
{
    (void)pthread_once(&load_once, load);
    *why = reason;
    return is_loaded ? &api : NULL;
}
