/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/link/ucxlib/ucx_api.h"

#include "wire/link/ucxlib/ucx_log.h"
#include "wire/link/ucxlib/ucx_release.h"

#include <dlfcn.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct amb_ucx_api amb_ucx_api;

/* The libraries that libucp asks for, in the order in which they ask for each other. */
enum {
    UCM,
    UCS,
    UCT,
    PARTS
};

/* Each symbol from libucp, which brings libucs along. The first that is missing, or NULL. */
static const char *resolve(void *library)
{
    const char *missing = NULL;
#define AMB_UCX_RESOLVE(name)                                                                      \
    do {                                                                                           \
        void *symbol = dlsym(library, #name);                                                      \
        missing = symbol == NULL && missing == NULL ? #name : missing;                             \
        memcpy(&amb_ucx_api.name, &symbol, sizeof(symbol)); /* ISO C has no cast for this. */      \
    } while (0);
    AMB_UCX_API(AMB_UCX_RESOLVE)
#undef AMB_UCX_RESOLVE
    return missing;
}

/* The folder of the file that has this function; false: not known. */
static bool folder_of(void *library, const char *function, char out[PATH_MAX])
{
    Dl_info info;
    void *symbol = dlsym(library, function);
    if (symbol == NULL || dladdr(symbol, &info) == 0 || info.dli_fname == NULL ||
        realpath(info.dli_fname, out) == NULL) {
        return false;
    }
    *strrchr(out, '/') = '\0';
    return true;
}

/* Where a part of this libucp comes from, if that is not where it comes from itself; else NULL. One
 * of each part's functions is asked. */
static const char *stray_part(void *library, char out[PATH_MAX])
{
    static const char *const functions[] = {"ucs_status_string", "uct_component_query",
                                            "ucm_set_event_handler"};
    char own[PATH_MAX];
    bool is_known = folder_of(library, "ucp_get_version", own);
    for (size_t i = 0; is_known && i < sizeof(functions) / sizeof(functions[0]); i++) {
        if (folder_of(library, functions[i], out) && strcmp(own, out) != 0) {
            return out;
        }
    }
    return NULL;
}

/* libucp asks for three others by name. A run path of the program's or LD_LIBRARY_PATH could answer
 * with those of another release, so these come first, from beside it. */
static void load_parts(const char *file, void *handles[PARTS])
{
    static const char *const parts[PARTS] = {"libucm.so.0", "libucs.so.0", "libuct.so.0"};
    char path[PATH_MAX];
    const char *slash = strrchr(file, '/');
    for (size_t i = 0; slash != NULL && i < PARTS; i++) {
        int len = snprintf(path, sizeof(path), "%.*s/%s", (int)(slash - file), file, parts[i]);
        if (len > 0 && (size_t)len < sizeof(path) && access(path, F_OK) == 0) {
            handles[i] = dlopen(path, RTLD_NOW | RTLD_LOCAL); /* libucp says what it misses. */
        }
    }
}

/* libucp cannot be loaded. Its libucm goes again, which has done nothing by itself yet. Once libucs
 * is there it stays, with what it has begun. */
static void drop_parts(void *const handles[PARTS])
{
    if (handles[UCM] != NULL && handles[UCS] == NULL && handles[UCT] == NULL) {
        (void)dlclose(handles[UCM]);
    }
}

/* Is this libucp, which the process has, of another folder than that file? */
static bool is_another(void *library, const char *file)
{
    char own[PATH_MAX], real[PATH_MAX];
    if (!folder_of(library, "ucp_get_version", own) || realpath(file, real) == NULL) {
        return false; /* Not known, and a second one would be worse. */
    }
    *strrchr(real, '/') = '\0';
    return strcmp(own, real) != 0;
}

static enum amb_status check(void *handle, struct amb_ucx_library *library, char *error,
                             size_t error_size)
{
    char text[AMB_UCX_RELEASE_TEXT_MAX], oldest[AMB_UCX_RELEASE_TEXT_MAX], other[PATH_MAX];
    unsigned major = 0, minor = 0, patch = 0;
    const char *missing = resolve(handle);
    if (amb_ucx_api.ucp_get_version == NULL) {
        (void)snprintf(error, error_size, "UCX has no function ucp_get_version (%s)",
                       library->file);
        return AMB_ENOTSUP;
    }
    amb_ucx_api.ucp_get_version(&major, &minor, &patch);
    library->release = AMB_UCX_RELEASE(major, minor, patch);
    (void)amb_ucx_release_text(library->release, text, sizeof(text));
    if (library->release < AMB_UCX_RELEASE_OLDEST) { /* Before what it lacks: that follows. */
        (void)snprintf(error, error_size, "UCX %s is too old: %s is the oldest that works (%s)",
                       text, amb_ucx_release_text(AMB_UCX_RELEASE_OLDEST, oldest, sizeof(oldest)),
                       library->file);
        return AMB_ENOTSUP;
    }
    if (missing != NULL) {
        (void)snprintf(error, error_size, "UCX %s has no function %s (%s)", text, missing,
                       library->file);
        return AMB_ENOTSUP;
    }
    if (stray_part(handle, other) != NULL) {
        (void)snprintf(error, error_size,
                       "UCX %s cannot be used: this process has parts of another UCX already (%s, "
                       "%s)",
                       text, library->file, other);
        return AMB_ENOTSUP;
    }
    return AMB_OK;
}

enum amb_status amb_ucx_api_load(struct amb_ucx_library *library, char *error, size_t error_size)
{
    /* One that the process has already is taken as it is. Never unloaded: UCX has threads and
     * signal handlers of its own. */
    void *there = dlopen("libucs.so.0", RTLD_LAZY | RTLD_NOLOAD);
    if (there != NULL) {
        (void)dlclose(there);
    }
    /* By its name, as its file may have been replaced since. */
    void *handle = dlopen("libucp.so.0", RTLD_NOW | RTLD_NOLOAD);
    if (handle != NULL && is_another(handle, library->file)) {
        (void)snprintf(error, error_size,
                       "this process has another UCX already, loaded meanwhile (chosen: %s)",
                       library->file);
        return AMB_ENOTSUP;
    }
    void *parts[PARTS] = {NULL};
    if (handle == NULL) {
        load_parts(library->file, parts);
        handle = dlopen(library->file, RTLD_NOW | RTLD_LOCAL);
    }
    if (handle == NULL) {
        (void)snprintf(error, error_size, "UCX cannot be loaded: %s", dlerror());
        drop_parts(parts);
        return AMB_ENOTSUP;
    }
    enum amb_status status = check(handle, library, error, error_size);
    if (status == AMB_OK && amb_ucx_log_is_wanted(there != NULL)) {
        amb_ucx_api.ucs_log_push_handler(amb_ucx_log_line);
    }
    return status;
}

void amb_ucx_signals_release(void)
{
    /* 1.13 takes them when it is loaded, before any setting of ours can speak. */
    static const int signals[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGHUP};
    for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++) {
        struct sigaction action;
        Dl_info info;
        if (sigaction(signals[i], NULL, &action) != 0 || action.sa_handler == SIG_DFL ||
            action.sa_handler == SIG_IGN) {
            continue;
        }
        void *handler;
        memcpy(&handler, &action.sa_handler, sizeof(handler));
        if (dladdr(handler, &info) != 0 && info.dli_fname != NULL &&
            strstr(info.dli_fname, "libucs") != NULL) {
            action = (struct sigaction){.sa_handler = SIG_DFL};
            (void)sigaction(signals[i], &action, NULL);
        }
    }
}
