/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The users of a broker, as its users file (`auth.users`) had them when it was read.
 *
 * A set never changes. A reload makes another one. A session has a reference to the set that its
 * user is of, so that a user lives as long as anybody looks at him.
 *
 * Root and the broker's own uid are in every set, beside the file: `local_admin`, whose tenant is
 * the operators'. They come by a Unix socket only.
 *
 * Threads: any; the last reference frees it. Memory: counted. A user takes about 300 bytes and his
 * line.
 */
#pragma once

#include "broker/auth/numbers.h"
#include "wire/auth/credential.h"
#include "wire/auth/user_line.h"
#include "wire/base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define AMB_AUTH_USERS_MAX 100000u
#define AMB_AUTH_FILE_MAX ((size_t)64 << 20) /* bytes of a users file */
#define AMB_AUTH_WHY_MAX 512u                /* any reason fits */
#define AMB_AUTH_DIGEST_SIZE 32u

/* A user; all texts are the set's. */
struct amb_auth_user {
    const char *name;
    const char *tenant;       /* AMB_USER_OPERATORS: the operators' */
    const char *quota;        /* its name; NULL: the default one */
    const char *const *roles; /* their names, */
    unsigned role_count;
    const char *const *credentials; /* credential.h */
    unsigned credential_count;
    uint32_t number; /* the owner of names: broker/base/user.h. Of local_admin: his uid counts */
    unsigned line;   /* of the file; 0: of none */
    int64_t until_s; /* since 1970; AMB_USER_FOR_EVER */
    bool is_off;
    bool is_local_admin; /* may do everything: root, and the broker's own uid */
};

struct amb_auth_users;

/*
 * Reads a users file. numbers: those of this broker's life, so that users keep theirs; NULL: none
 * have been given yet. EINVAL: `why` has "FILE:LINE: reason". ENOMEM, ELIMIT: the same.
 */
AMB_MUST_CHECK enum amb_status amb_auth_users_load(const char *path,
                                                   struct amb_auth_numbers *numbers, char *why,
                                                   size_t why_size, struct amb_auth_users **out);
/* The same of a text, of which `len` bytes and a NUL are written to. `path` is for reasons. */
AMB_MUST_CHECK enum amb_status amb_auth_users_parse(char *text, size_t len, const char *path,
                                                    struct amb_auth_numbers *numbers, char *why,
                                                    size_t why_size, struct amb_auth_users **out);
struct amb_auth_users *amb_auth_users_ref(struct amb_auth_users *users);
/* Sets *users to NULL; NULL is allowed. */
void amb_auth_users_unref(struct amb_auth_users **users);

/* Have both been read of the same bytes? NULL: of none. */
bool amb_auth_users_is_same(const struct amb_auth_users *a, const struct amb_auth_users *b);
size_t amb_auth_users_count(const struct amb_auth_users *users);
/* In the order of the file, without local_admin. */
const struct amb_auth_user *amb_auth_users_at(const struct amb_auth_users *users, size_t index);
/* The user of that name, also one who may not log in; NULL: there is none. */
const struct amb_auth_user *amb_auth_users_find(const struct amb_auth_users *users,
                                                const char *name);
/* The user who has that credential (credential.h); the same. */
const struct amb_auth_user *amb_auth_users_by_credential(const struct amb_auth_users *users,
                                                         const char *credential);
/* Root, and the broker's own uid, on a Unix socket. */
const struct amb_auth_user *amb_auth_users_local_admin(const struct amb_auth_users *users);
struct amb_auth_numbers *amb_auth_users_numbers(const struct amb_auth_users *users);
/* When the file was last written, as it was read; since 1970. 0: of a text. */
int64_t amb_auth_users_modified_ns(const struct amb_auth_users *users);

/* May the user be here now? now_s since 1970. */
static inline bool amb_auth_user_may_enter(const struct amb_auth_user *user, int64_t now_s)
{
    return !user->is_off && now_s < user->until_s;
}
/* Has the user that credential? */
bool amb_auth_user_has(const struct amb_auth_user *user, const char *credential);
