/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/link/ucxlib/ucx_process.h"

#include "wire/base/assert.h"
#include "wire/base/log.h"
#include "wire/link/ucxlib/ucx_api.h"
#include "wire/link/ucxlib/ucx_log.h"
#include "wire/link/ucxlib/ucx_release.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void amb_ucx_own_process(void)
{
    amb_ucx_log_take_all();
}

/* Guards the choice; the library itself does not change once is_loaded. */
static pthread_mutex_t choosing = PTHREAD_MUTEX_INITIALIZER;
static struct amb_ucx_library library;
static _Atomic bool is_loaded;

static void before_fork(void)
{
    amb_assert(pthread_mutex_lock(&choosing) == 0);
}

static void unlock(void)
{
    amb_assert(pthread_mutex_unlock(&choosing) == 0);
}

static void install(void)
{
    (void)pthread_atfork(before_fork, unlock, unlock);
}

/* A child of fork may choose by itself, and must not wait for a thread that it does not have. */
static void lock(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)pthread_once(&once, install);
    amb_assert(pthread_mutex_lock(&choosing) == 0);
}

const struct amb_ucx_library *amb_ucx_library(void)
{
    return is_loaded ? &library : NULL;
}

static bool is_auto(const struct amb_ucx_wish *wish)
{
    return strcmp(wish->library, "auto") == 0;
}

/* Under the lock. libraries: those there were to choose from. */
static enum amb_status choose(const struct amb_ucx_wish *wish, char *error, size_t error_size,
                              struct amb_ucx_libraries *libraries, struct amb_ucx_library *out)
{
    struct amb_ucx_places places;
    struct amb_ucx_library found;
    const struct amb_ucx_library *has = amb_ucx_library();
    if (has == NULL && amb_ucx_library_here(&found)) {
        has = &found;
    }
    libraries->count = 0;
    if (has == NULL || !is_auto(wish)) { /* Else there is no choice. */
        amb_ucx_places_init(&places);
        amb_ucx_libraries_find(&places, libraries);
    }
    return amb_ucx_choose(libraries, has, wish, error, error_size, out);
}

static void leave_out(struct amb_ucx_libraries *libraries, const struct amb_ucx_library *tried)
{
    size_t kept = 0;
    for (size_t i = 0; i < libraries->count; i++) {
        if (strcmp(libraries->items[i].file, tried->file) != 0) {
            libraries->items[kept++] = libraries->items[i];
        }
    }
    libraries->count = kept;
}

/* With "auto", one that cannot be loaded makes room for the next, as long as nothing of it is here.
 * The error is that of the best one. */
static enum amb_status load(const struct amb_ucx_wish *wish, struct amb_ucx_libraries *libraries,
                            struct amb_ucx_library *chosen, char *error, size_t error_size)
{
    char unused[256];
    struct amb_ucx_library found;
    enum amb_status status = amb_ucx_api_load(chosen, error, error_size);
    while (status != AMB_OK && is_auto(wish) && !amb_ucx_library_here(&found)) {
        struct amb_ucx_library next;
        leave_out(libraries, chosen);
        if (amb_ucx_choose(libraries, NULL, wish, unused, sizeof(unused), &next) != AMB_OK) {
            break;
        }
        amb_info("%s; the next one is %s", error, next.file);
        *chosen = next;
        status = amb_ucx_api_load(chosen, unused, sizeof(unused));
    }
    return status;
}

enum amb_status amb_ucx_library_load(const struct amb_ucx_wish *wish, char *error,
                                     size_t error_size)
{
    struct amb_ucx_libraries libraries;
    struct amb_ucx_library chosen;
    lock();
    enum amb_status status = choose(wish, error, error_size, &libraries, &chosen);
    if (status == AMB_OK && !is_loaded) {
        status = load(wish, &libraries, &chosen, error, error_size);
        if (status == AMB_OK) {
            library = chosen;
            is_loaded = true;
        }
    }
    unlock();
    if (status == AMB_OK && wish->peer != 0 && !amb_ucx_releases_fit(library.release, wish->peer)) {
        char own[AMB_UCX_RELEASE_TEXT_MAX], other[AMB_UCX_RELEASE_TEXT_MAX];
        (void)snprintf(error, error_size,
                       "this process has UCX %s, and the broker %s: these do not understand each "
                       "other (%s)",
                       amb_ucx_release_text(library.release, own, sizeof(own)),
                       amb_ucx_release_text(wish->peer, other, sizeof(other)), library.file);
        status = AMB_ENOTSUP; /* Its file said nothing of its release. */
    }
    return status;
}

enum amb_status amb_ucx_library_expect(const struct amb_ucx_wish *wish, char *error,
                                       size_t error_size, struct amb_ucx_library *out)
{
    struct amb_ucx_libraries libraries;
    lock();
    enum amb_status status = choose(wish, error, error_size, &libraries, out);
    unlock();
    return status;
}

void amb_ucx_wish_environment(struct amb_ucx_wish *wish)
{
    const char *set = secure_getenv(AMB_UCX_LIBRARY_ENV);
    if (set != NULL && set[0] != '\0') {
        wish->library = set;
        wish->source = AMB_UCX_LIBRARY_ENV;
    }
}

bool amb_ucx_load(void)
{
    struct amb_ucx_wish wish = {.library = "auto", .source = "auto"};
    char error[256];
    if (!is_loaded) {
        amb_ucx_wish_environment(&wish);
        if (amb_ucx_library_load(&wish, error, sizeof(error)) != AMB_OK) {
            amb_info("UCX is not there: %s", error);
            return false;
        }
    }
    return true;
}

uint32_t amb_ucx_release(void)
{
    unsigned major = 0, minor = 0, patch = 0;
    if (!amb_ucx_load()) {
        return 0;
    }
    amb_ucx_api.ucp_get_version(&major, &minor, &patch);
    return AMB_UCX_RELEASE(major, minor, patch);
}
