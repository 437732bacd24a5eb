/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For tests of logins: a users file for the stepped control thread, and clients of any uid.
 * Threads: the test's.
 */
#pragma once

#include "broker/base/user.h"
#include "broker/control/clients/renew.h"
#include "tests/support/door/stepped_control.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define ALICE "alice:plant:camera:-:-:uid/1000\n"
#define BOB "bob:plant:-:-:-:uid/1001\n"

/* "": no users file. */
static inline void use(const char *text)
{
    struct amb_control *control = stepped_control();
    struct amb_auth_users *users = NULL;
    char why[AMB_AUTH_WHY_MAX] = "", copy[1024];
    (void)snprintf(copy, sizeof(copy), "%s", text);
    struct amb_auth_numbers *numbers =
        control->users == NULL ? NULL : amb_auth_users_numbers(control->users);
    if (text[0] != '\0' && amb_auth_users_parse(copy, strlen(copy), "users", numbers, why,
                                                sizeof(why), &users) != AMB_OK) {
        fail_msg("%s", why);
    }
    amb_renew_users(control, users);
    amb_auth_users_unref(&users);
}

/* A client on a Unix socket, of that uid. */
static inline struct amb_client *connect_as(uint32_t uid, int *fd)
{
    struct amb_client *client = stepped_connect(true, fd);
    client->uid = uid;
    client->user = amb_user_of_uid(uid, 65534);
    stepped_say_body(*fd, stepped_hello, sizeof(stepped_hello));
    stepped_say_body(*fd, stepped_auth, sizeof(stepped_auth));
    stepped_settle(client);
    return client;
}
