/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Users: to whom a client's names belong, and whose bytes may be read in place. A client on a Unix
 * socket is the uid that the kernel tells. TCP tells nothing, so all clients there are one user.
 *
 * The overflow uid (65534) is what the kernel shows of every uid that our user namespace does not
 * know: clients that have it have nothing in common. They are nobody, and own no names.
 *
 * Threads: any. Memory: none.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define AMB_USER_REMOTE UINT32_MAX       /* all who come by TCP; no uid has this number */
#define AMB_USER_NOBODY (UINT32_MAX - 1) /* not the same user as anybody, not even as nobody */
#define AMB_USER_ANY AMB_USER_REMOTE     /* whose batch may be read in place: anybody */
#define AMB_USER_TEXT_MAX 16u
#define AMB_USER_NO_NAMES                                                                          \
    "names belong to users, and the kernel does not tell this client's (overflow uid)"

/* The overflow uid of this system, from /proc; 65534 where that cannot be read. */
uint32_t amb_user_overflow(void);
/* The user that a uid of a Unix socket's peer stands for. */
uint32_t amb_user_of_uid(uint32_t uid, uint32_t overflow);

/* May it own names that outlive its connection, or that others share? */
static inline bool amb_user_has_names(uint32_t user)
{
    return user != AMB_USER_NOBODY;
}

static inline bool amb_user_is_same(uint32_t a, uint32_t b)
{
    return a == b && a != AMB_USER_NOBODY;
}

/* "1000", "tcp" or "nobody". */
const char *amb_user_text(uint32_t user, char text[AMB_USER_TEXT_MAX]);
/* The opposite. False: no user. */
bool amb_user_parse(const char *text, uint32_t *out);
