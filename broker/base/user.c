/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/base/user.h"

#include "wire/base/file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OVERFLOW_UID 65534u

uint32_t amb_user_overflow(void)
{
    char text[AMB_USER_TEXT_MAX];
    bool is_read = amb_file_line("", "/proc/sys/kernel/overflowuid", text, sizeof(text));
    uint32_t uid;
    return is_read && amb_user_parse(text, &uid) && uid < AMB_USER_NOBODY ? uid : OVERFLOW_UID;
}

uint32_t amb_user_of_uid(uint32_t uid, uint32_t overflow)
{
    /* (uid_t)-1 is none, and (uid_t)-2 the "nobody" of other systems. */
    return uid == overflow || uid >= AMB_USER_NAMED ? AMB_USER_NOBODY : uid;
}

const char *amb_user_text(uint32_t user, char text[AMB_USER_TEXT_MAX])
{
    if (user == AMB_USER_TCP) {
        return "tcp";
    }
    if (user == AMB_USER_NOBODY) {
        return "nobody";
    }
    (void)snprintf(text, AMB_USER_TEXT_MAX, "%u", (unsigned)user);
    return text;
}

bool amb_user_parse(const char *text, uint32_t *out)
{
    if (strcmp(text, "tcp") == 0) {
        *out = AMB_USER_TCP;
        return true;
    }
    size_t len = strlen(text);
    if (len == 0 || len > 10 || strspn(text, "0123456789") != len) {
        return false;
    }
    unsigned long long uid = strtoull(text, NULL, 10);
    *out = (uint32_t)uid;
    return uid < AMB_USER_NAMED;
}
