/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Users: the owners of names, and of bytes that their own clients may read in place. The user of a
 * client on a Unix socket is the uid that the kernel tells. TCP tells nothing, so all clients there
 * are one user. Shares of limits are counted by user too (party.h).
 *
 * The kernel shows the overflow uid (65534) in place of every uid that our user namespace does not
 * know. So clients with that uid have nothing in common: they are nobody, and own no names.
 *
 * With a users file (auth.users) users are those of the file. They have numbers from AMB_USER_NAMED
 * on, and a uid that is as large stands for nobody.
 *
 * Threads: any. Memory: none.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define AMB_USER_TCP UINT32_MAX             /* all TCP clients; no uid has this number */
#define AMB_USER_NOBODY (UINT32_MAX - 1)    /* not the same user as anybody, not even as nobody */
#define AMB_USER_NAMED UINT32_C(0x80000000) /* the first number of a users file: auth/numbers.h */
#define AMB_USER_ANY AMB_USER_TCP /* of a batch: any user's clients may read it in place */
#define AMB_USER_TEXT_MAX 16u
#define AMB_USER_NO_NAMES                                                                          \
    "names belong to users, and the kernel does not tell this client's (overflow uid)"

/* The overflow uid of this system, from /proc; 65534 where that cannot be read. */
uint32_t amb_user_overflow(void);
/* The user that a uid of a Unix socket's peer stands for. */
uint32_t amb_user_of_uid(uint32_t uid, uint32_t overflow);

/* Is it a user of a users file? */
static inline bool amb_user_is_named(uint32_t user)
{
    return user >= AMB_USER_NAMED && user < AMB_USER_NOBODY;
}

/* May the user own names, which outlive a connection or are shared? */
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
