/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/link/ucxlib/ucx_api.h"

#include "wire/base/log.h"
#include "wire/link/ucxlib/ucx_log.h"

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>

struct amb_ucx_api amb_ucx_api;

static pthread_once_t load_once = PTHREAD_ONCE_INIT;
static _Atomic bool is_loaded;

/* Each symbol from libucp, which brings libucs along; false if one is missing. */
static bool resolve(void *library)
{
#define AMB_UCX_RESOLVE(name)                                                                      \
    do {                                                                                           \
        void *symbol = dlsym(library, #name);                                                      \
        if (symbol == NULL) {                                                                      \
            amb_warn("UCX: libucp.so.0 has no %s: %s", #name, dlerror());                          \
            return false;                                                                          \
        }                                                                                          \
        memcpy(&amb_ucx_api.name, &symbol, sizeof(symbol)); /* ISO C has no cast for this. */      \
    } while (0);
    AMB_UCX_API(AMB_UCX_RESOLVE)
#undef AMB_UCX_RESOLVE
    return true;
}

static void load(void)
{
    /* Found as the dynamic linker finds libraries: the run path that the build has set, then the
     * system's. One that the process has already is taken as it is. Never unloaded: UCX has threads
     * and signal handlers of its own. */
    void *there = dlopen("libucs.so.0", RTLD_LAZY | RTLD_NOLOAD);
    if (there != NULL) {
        (void)dlclose(there);
    }
    void *library = dlopen("libucp.so.0", RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        amb_info("UCX is not there: %s", dlerror());
        return;
    }
    if (resolve(library)) {
        if (amb_ucx_log_is_wanted(there != NULL)) {
            amb_ucx_api.ucs_log_push_handler(amb_ucx_log_line);
        }
        is_loaded = true;
    }
}

bool amb_ucx_load(void)
{
    (void)pthread_once(&load_once, load);
    return is_loaded;
}

bool amb_ucx_is_loaded(void)
{
    return is_loaded;
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
