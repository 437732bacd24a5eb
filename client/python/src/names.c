/* SPDX-License-Identifier: Apache-2.0 */
#include "client/python/src/names.h"

#include <stddef.h>

const char *amb_py_loss_name(enum amb_loss loss)
{
    static const char *const names[] = {"none",           "slow",  "trimmed", "expired", "transfer",
                                        "broker_restart", "mixed", "away",    "purged"};
    return (size_t)loss < sizeof(names) / sizeof(names[0]) ? names[loss] : "unknown";
}

const char *amb_py_mem_name(enum amb_mem mem)
{
    static const char *const names[] = {NULL, "as_sent", "host", "pinned", "cuda", "managed"};
    return (size_t)mem < sizeof(names) / sizeof(names[0]) ? names[mem] : NULL;
}

const char *amb_py_priority_name(enum amb_priority priority)
{
    return priority == AMB_PRIORITY_HIGH ? "high" : priority == AMB_PRIORITY_LOW ? "low" : "normal";
}

const char *amb_py_event_name(enum amb_event_type type)
{
    switch (type) {
    case AMB_EVENT_LOST:
        return "lost";
    case AMB_EVENT_RESTORED:
        return "restored";
    case AMB_EVENT_CLOSED:
        return "closed";
    case AMB_EVENT_GAP:
        return "gap";
    case AMB_EVENT_SLOW:
        return "slow";
    case AMB_EVENT_RECOVERED:
        return "recovered";
    case AMB_EVENT_SUBSCRIBERS:
        return "subscribers";
    case AMB_EVENT_DRAINING:
        return "draining";
    case AMB_EVENT_RESOURCE:
        return "resource";
    case AMB_EVENT_ROOM:
        return "room";
    }
    return "unknown";
}

const char *amb_py_blocked_name(enum amb_blocked blocked)
{
    static const char *const names[] = {NULL,     "window", "log_full", "slow_subscriber",
                                        "memory", "lost"};
    return (size_t)blocked < sizeof(names) / sizeof(names[0]) ? names[blocked] : "unknown";
}
