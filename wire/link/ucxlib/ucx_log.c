/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/link/ucxlib/ucx_log.h"

#include "wire/base/clock.h"
#include "wire/base/log.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TEXT_MAX 512u
/* UCX repeats some faults as fast as it finds them: 80,000 lines a second without a descriptor. */
#define LINES_A_SECOND 20u

/* The answer of a handler to a line; of ucs/debug/log_def.h, which is not C17. */
enum {
    LOG_STOP = 0,
    LOG_CONTINUE = 1
};

_Thread_local unsigned amb_ucx_depth;
_Thread_local bool amb_ucx_is_hushed;

static bool is_own_process;   /* set before there are threads */
static bool is_own_ucx;       /* set when it is loaded */
static _Atomic int64_t now_s; /* the second that is counted */
static _Atomic uint32_t said; /* lines in it */

void amb_ucx_log_take_all(void)
{
    is_own_process = true;
}

static bool is_ucx_thread(void)
{
    char name[16] = "";
    return pthread_getname_np(pthread_self(), name, sizeof(name)) == 0 &&
           strcmp(name, "async") == 0;
}

static bool is_ours(void)
{
    return is_own_process || amb_ucx_depth != 0 || (is_own_ucx && is_ucx_thread());
}

static enum amb_log_level level_of(ucs_log_level_t level)
{
    if (level <= UCS_LOG_LEVEL_ERROR) {
        return AMB_LOG_ERROR;
    }
    if (level == UCS_LOG_LEVEL_WARN) {
        return AMB_LOG_WARN;
    }
    return level <= UCS_LOG_LEVEL_INFO || level == UCS_LOG_LEVEL_PRINT ? AMB_LOG_INFO
                                                                       : AMB_LOG_DEBUG;
}

/* Is there room for a line in this second? *kept_back: how many the last one had none for. */
static bool take_turn(uint32_t *kept_back)
{
    int64_t second = amb_clock_monotonic_ns() / AMB_NS_PER_SEC, last = atomic_load(&now_s);
    *kept_back = 0;
    if (last != second && atomic_compare_exchange_strong(&now_s, &last, second)) {
        uint32_t lines = atomic_exchange(&said, 0);
        *kept_back = lines > LINES_A_SECOND ? lines - LINES_A_SECOND : 0;
    }
    return atomic_fetch_add(&said, 1) < LINES_A_SECOND;
}

int amb_ucx_log_line(const char *file, unsigned line, const char *function, ucs_log_level_t level,
                     const ucs_log_component_config_t *component, const char *message, va_list ap)
{
    (void)function;
    (void)component;
    if (!is_ours()) {
        return LOG_CONTINUE;
    }
    uint32_t kept_back;
    if (amb_ucx_is_hushed || level_of(level) > amb_log_level() || !take_turn(&kept_back)) {
        return LOG_STOP;
    }
    if (kept_back != 0) {
        amb_warn("ucx: %u more lines in one second were kept back", kept_back);
    }
    char text[TEXT_MAX];
    const char *slash = strrchr(file, '/');
    (void)vsnprintf(text, sizeof(text), message, ap);
    amb_log(level_of(level), "ucx: %s (%s:%u)", text, slash == NULL ? file : slash + 1, line);
    return LOG_STOP;
}

bool amb_ucx_log_is_wanted(bool was_there)
{
    const char *file = getenv("UCX_LOG_FILE");
    is_own_ucx = !was_there;
    return file == NULL || file[0] == '\0';
}
