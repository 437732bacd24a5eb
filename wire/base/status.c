/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/base/status.h"

#include <errno.h>
#include <stddef.h>

struct status_entry {
    enum amb_status status;
    const char *name, *text;
};

/* Cold path: a linear search keeps this a table that reads like the enum. */
static const struct status_entry entries[] = {
    {AMB_OK, "OK", "ok"},
    {AMB_EAGAIN, "EAGAIN", "would have to wait"},
    {AMB_ETIMEDOUT, "ETIMEDOUT", "timed out"},
    {AMB_ESTOPPED, "ESTOPPED", "stopped by the program"},
    {AMB_EINVAL, "EINVAL", "invalid argument"},
    {AMB_ESTATE, "ESTATE", "not possible in this state"},
    {AMB_ENOMEM, "ENOMEM", "out of memory"},
    {AMB_ENOTSUP, "ENOTSUP", "not supported"},
    {AMB_ETOPIC, "ETOPIC", "not a valid topic or pattern"},
    {AMB_EFORBIDDEN, "EFORBIDDEN", "forbidden"},
    {AMB_ELIMIT, "ELIMIT", "a limit is reached"},
    {AMB_ETOOLARGE, "ETOOLARGE", "message too large"},
    {AMB_ENOTFOUND, "ENOTFOUND", "not found"},
    {AMB_EKIND, "EKIND", "memory of this kind cannot be used here"},
    {AMB_ENORESPONDERS, "ENORESPONDERS", "nobody is there to respond"},
    {AMB_EREJECTED, "EREJECTED", "rejected by the topic"},
    {AMB_EEXPIRED, "EEXPIRED", "expired before it was delivered"},
    {AMB_ESTALE, "ESTALE", "the payload is gone"},
    {AMB_ECANCELED, "ECANCELED", "canceled"},
    {AMB_ECUDA, "ECUDA", "cuda error"},
    {AMB_EUNKNOWN, "EUNKNOWN", "outcome unknown: it may or may not have arrived"},
    {AMB_EUNREACHABLE, "EUNREACHABLE", "broker unreachable"},
    {AMB_EAUTH, "EAUTH", "authentication failed"},
    {AMB_EVERSION, "EVERSION", "no protocol version in common"},
    {AMB_EBUSY, "EBUSY", "broker busy"},
    {AMB_ELOST, "ELOST", "connection lost"},
    {AMB_EPROTO, "EPROTO", "protocol error"},
    {AMB_EKICKED, "EKICKED", "disconnected by an operator or a policy"},
    {AMB_EDISASSOC, "EDISASSOC", "disassociated from its session"},
    {AMB_ECLOSED, "ECLOSED", "closed"},
    {AMB_EFORKED, "EFORKED", "used in a forked child"},
    {AMB_EUCX, "EUCX", "ucx error"},
    {AMB_EINTERNAL, "EINTERNAL", "internal error"},
};

static const struct status_entry *entry_of(enum amb_status status)
{
    for (size_t i = 0; i < sizeof(entries) / sizeof(entries[0]); i++) {
        if (entries[i].status == status) {
            return &entries[i];
        }
    }
    return NULL;
}

const char *amb_status_text(enum amb_status status)
{
    const struct status_entry *entry = entry_of(status);
    return entry != NULL ? entry->text : "unknown status";
}

const char *amb_status_name(enum amb_status status)
{
    const struct status_entry *entry = entry_of(status);
    return entry != NULL ? entry->name : "?";
}

/* The ranges are part of <amb/types.h>: each group starts at a multiple of 32. */
enum amb_scope amb_status_scope_of(enum amb_status status)
{
    int value = (int)status;
    if (value >= 0) {
        return AMB_SCOPE_NONE;
    }
    if (value > AMB_ENORESPONDERS) {
        return AMB_SCOPE_CALL;
    }
    if (value > AMB_EUNREACHABLE) {
        return AMB_SCOPE_MESSAGE;
    }
    if (value > AMB_EFORKED) {
        return AMB_SCOPE_SESSION;
    }
    return AMB_SCOPE_PROCESS;
}

enum amb_status amb_status_from_errno(int error)
{
    switch (error) {
    case ENOMEM:
        return AMB_ENOMEM;
    case EAGAIN: /* and EWOULDBLOCK, the same value on Linux */
        return AMB_EAGAIN;
    case EMFILE:
    case ENFILE:
        return AMB_ELIMIT;
    case EACCES:
    case EPERM:
        return AMB_EFORBIDDEN;
    case ECONNREFUSED:
    case EHOSTUNREACH:
    case EHOSTDOWN:
    case ENETUNREACH:
    case ENETDOWN:
    case EADDRNOTAVAIL:
    case ETIMEDOUT:
    case ENOENT: /* a Unix socket whose broker does not run */
        return AMB_EUNREACHABLE;
    case ECONNRESET:
    case ECONNABORTED:
    case ENETRESET:
    case EPIPE:
    case ENOTCONN:
    case ESHUTDOWN:
        return AMB_ELOST;
    default:
        return AMB_EINTERNAL;
    }
}
