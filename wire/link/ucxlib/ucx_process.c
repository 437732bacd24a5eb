/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/link/ucxlib/ucx_process.h"

#include "wire/link/ucxlib/ucx_api.h"
#include "wire/link/ucxlib/ucx_log.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void amb_ucx_own_process(void)
{
    amb_ucx_log_take_all();
}

uint32_t amb_ucx_release(void)
{
    unsigned major = 0;
    unsigned minor = 0;
    unsigned patch = 0;
    if (!amb_ucx_load()) {
        return 0;
    }
    amb_ucx_api.ucp_get_version(&major, &minor, &patch);
    return (uint32_t)major << 16 | (uint32_t)minor << 8 | (uint32_t)patch;
}

bool amb_ucx_modules(char *out, size_t size)
{
    Dl_info info;
    void *symbol;
    if (!amb_ucx_is_loaded()) {
        return false;
    }
    const char *set = getenv("UCX_MODULE_DIR");
    memcpy(&symbol, &amb_ucx_api.ucp_get_version, sizeof(symbol));
    if (set != NULL) {
        (void)snprintf(out, size, "%s", set);
    } else if (dladdr(symbol, &info) != 0 && strchr(info.dli_fname, '/') != NULL) {
        (void)snprintf(out, size, "%.*s/ucx", (int)(strrchr(info.dli_fname, '/') - info.dli_fname),
                       info.dli_fname);
    } else {
        (void)snprintf(out, size, "ucx");
    }
    return true;
}
