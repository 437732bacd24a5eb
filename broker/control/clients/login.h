/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The user of a client, by the broker's users file. client->login.user is set from the moment that
 * its Auth is good, and has a reference to the set it is of. NULL: the broker has no users file,
 * or the client has not logged in. client->rights are those of its roles.
 *
 * A reload brings another set: see renew.h.
 *
 * Threads: the control thread. Memory: a copy of the credential's text.
 */
#pragma once

#include "broker/auth/users.h"

struct amb_client;
struct amb_control;
struct amb_rights;

/* How a client proves who it is. */
enum amb_mechanism {
    AMB_MECHANISM_NONE, /* it does not */
    AMB_MECHANISM_KEY,
    AMB_MECHANISM_TOKEN,
    AMB_MECHANISM_CERT,
    AMB_MECHANISM_UID,
    AMB_MECHANISMS,
};

struct amb_login {
    struct amb_auth_users *users; /* a reference */
    const struct amb_auth_user *user;
    enum amb_mechanism mechanism;
    char *credential; /* credential.h; NULL: of the local admin */
};

/* "none", "key", "token", "cert", "uid": on the wire, in the log and in tables. */
const char *amb_mechanism_name(enum amb_mechanism mechanism);

/* The user who has that credential and may enter now; else NULL. */
const struct amb_auth_user *amb_login_find(const struct amb_auth_users *users,
                                           const char *credential);
/* The client is that user of the control thread's set, with its rights. credential may be NULL.
 * ENOMEM, ELIMIT. */
AMB_MUST_CHECK enum amb_status amb_login_set(struct amb_client *client,
                                             const struct amb_auth_user *user,
                                             enum amb_mechanism mechanism, const char *credential);
/* The rights of the user by the roles in force, with a reference; NULL: it may do everything.
 * ENOMEM. */
AMB_MUST_CHECK enum amb_status amb_login_rights(struct amb_control *control,
                                                const struct amb_auth_user *user,
                                                struct amb_rights **out);
/* The client has these rights from here on, of which it takes the reference over. They are charged
 * to its session as if nobody shared them, and the former ones are not any more. */
void amb_login_change_rights(struct amb_client *client, struct amb_rights *rights);
/* Harmless twice, and on zeros. */
void amb_login_fini(struct amb_login *login);
/* May its user not be here any more? now_s since 1970. */
bool amb_login_is_over(const struct amb_login *login, int64_t now_s);

/* "cam7", "1000", "tcp": for people. `out` has AMB_AUTH_NAME_MAX bytes. */
const char *amb_login_user_text(const struct amb_client *client, char *out);
/* The same of an owner of names: "plant:cam7". */
const char *amb_login_owner_text(const struct amb_control *control, uint32_t user, char *out);
/* The user who has that number, of those in force; NULL: there is none any more. */
const struct amb_auth_user *amb_login_owner(const struct amb_control *control, uint32_t number);
/* The opposite of amb_login_owner_text. False: there is no such user. */
bool amb_login_owner_parse(const struct amb_control *control, const char *text, uint32_t *out);
