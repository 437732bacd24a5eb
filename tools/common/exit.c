/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/common/exit.h"

#include "tools/common/shown.h"

#include <stdarg.h>
#include <stdio.h>

static const char *tool = "ambroker";

enum amb_exit amb_exit_of(enum amb_status status)
{
    switch (status) {
    case AMB_OK:
        return AMB_EXIT_OK;
    case AMB_ETIMEDOUT:
    case AMB_EAGAIN:
    case AMB_ESTOPPED:
        return AMB_EXIT_TIMEOUT;
    case AMB_EINVAL:
    case AMB_ENOTSUP:
        return AMB_EXIT_USAGE;
    case AMB_ETOPIC:
    case AMB_ETOOLARGE:
    case AMB_EKIND:
    case AMB_ENOTFOUND:
    case AMB_EREJECTED:
    case AMB_EEXPIRED:
    case AMB_ESTALE:
    case AMB_ECANCELED:
    case AMB_EUNKNOWN:
        return AMB_EXIT_DATA;
    case AMB_EFORBIDDEN:
    case AMB_EAUTH:
        return AMB_EXIT_FORBIDDEN;
    case AMB_EUNREACHABLE:
    case AMB_EVERSION:
    case AMB_EBUSY:
    case AMB_ELOST:
    case AMB_EPROTO:
    case AMB_EKICKED:
    case AMB_EDISASSOC:
    case AMB_ECLOSED:
    case AMB_ELIMIT:
    case AMB_ENORESPONDERS:
        return AMB_EXIT_UNAVAILABLE;
    case AMB_ESTATE:
    case AMB_ENOMEM:
    case AMB_ECUDA:
    case AMB_EFORKED:
    case AMB_EUCX:
    case AMB_EINTERNAL:
        break;
    }
    return AMB_EXIT_SOFTWARE;
}

void amb_tool_name(const char *name)
{
    tool = name;
}

void amb_tool_error(const char *format, ...)
{
    char text[1024];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    amb_shown_clean(text); /* Texts come from brokers and file names. */
    (void)fprintf(stderr, "%s: %s\n", tool, text);
}
