/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/ctl/habit.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* Is there a token of this one sign, between signs that divide here or elsewhere? */
static bool has_token(const char *pattern, char sign)
{
    for (const char *at = pattern; *at != '\0';) {
        size_t len = strcspn(at, "./");
        if (len == 1 && *at == sign) {
            return true;
        }
        at += len;
        at += *at != '\0';
    }
    return false;
}

const char *amb_habit_of_pattern(const char *pattern)
{
    if (has_token(pattern, '#')) {
        return "'#' is a name like any other here: a.> matches all below a";
    }
    if (has_token(pattern, '+')) {
        return "'+' is a name like any other here: a.*.b matches any one token";
    }
    return NULL;
}
