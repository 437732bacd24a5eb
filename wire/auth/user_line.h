/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A line of a users file.
 *
 *   name:tenant:roles:quota:flags:credentials
 *   cam7:plant:camera,viewer:small:until=2027-06-30:key/MCowBQYDK2VwAyEA...,uid/1000
 *
 * Roles, flags and credentials are lists with commas. "-" is an empty roles, quota, flags or
 * credentials. The last field has the rest of the line, colons too. A line that begins with '#' is
 * a comment, and an empty one is nothing.
 *
 * Names are letters, digits, '-', '_' and '@', and begin with a letter or '_'. So a name is one
 * token of a topic, and is taken neither for a uid nor for a wildcard. The tenant "$" is the
 * operators'.
 *
 * Threads: any. Memory: the line's own.
 */
#pragma once

#include "wire/auth/credential.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define AMB_USER_LINE_MAX 4096u /* bytes, without the line's end */
#define AMB_USER_NAME_MAX 64u   /* of a user, a tenant, a role, a quota */
#define AMB_USER_ROLES_MAX 32u
#define AMB_USER_CREDENTIALS_MAX 32u
#define AMB_USER_OPERATORS "$" /* the tenant of operators */
#define AMB_USER_LINE_WHY_MAX 256u
#define AMB_USER_FOR_EVER INT64_MAX

struct amb_user_line {
    const char *name, *tenant;
    const char *quota; /* NULL: the default one */
    const char *roles[AMB_USER_ROLES_MAX];
    unsigned role_count;
    int64_t until_s; /* since 1970: the first second in which the user may not be here;
                        AMB_USER_FOR_EVER */
    bool is_off;     /* may not log in */
    const char *credentials[AMB_USER_CREDENTIALS_MAX];
    unsigned credential_count;
};

enum amb_user_line_kind {
    AMB_USER_LINE_WRONG, /* `why` has the reason */
    AMB_USER_LINE_NOTHING,
    AMB_USER_LINE_USER,
};

/* Writes into the line, whose `len` bytes are followed by a NUL: *out has pointers into it. */
enum amb_user_line_kind amb_user_line_parse(char *line, size_t len, struct amb_user_line *out,
                                            char why[AMB_USER_LINE_WHY_MAX]);
/* The opposite, in its one spelling: the line without its end. The day of until_s is the one before
 * it. `out` has AMB_USER_LINE_MAX + 1 bytes. False: it would be longer. */
bool amb_user_line_format(const struct amb_user_line *line, char *out);
/* Parts of a line as it has them, "-" where there is nothing: "until=2027-06-30,off"; "a,b" of
 * items that a line has room for. `out` as above. */
void amb_user_flags_format(const struct amb_user_line *line, char *out);
void amb_user_list_format(const char *const *items, unsigned count, char *out);
/* "2027-06-30" as the first second after that day, of UTC. False: it is no day. */
bool amb_user_day_parse(const char *text, int64_t *until_s);
/* Is it a name of a user, a tenant, a role or a quota? */
bool amb_user_name_is(const char *name);
