/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Logins of users on Unix sockets, and reloads of the users file in between. Mechanisms, names and
 * proofs are the input's.
 *
 * Two things hold always. A session's client has the credential of a user that may enter, by the
 * users in force. And a number belongs to one user for good, whatever file comes and goes.
 *
 *   steps of two bytes: what, how: see step()
 *
 * It does not reach signatures, which threads check, nor TLS.
 */
#include "broker/base/user.h"
#include "broker/control/clients/renew.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/door/stepped_control.h"
#include "wire/base/assert.h"

#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define SLOTS 3u
#define SETS 4u
#define BODY_MAX 200u
#define TOKEN "Kq3v8Zt1"
#define CREDENTIAL                                                                                 \
    "token/sha256-3643537510afef03b9c5824a00c090ba2303028d417c018a773e4d3130077a69" /* its */

struct slot {
    struct amb_client *client; /* NULL: none */
    int fd;
};

static struct slot slots[SLOTS];
static struct amb_auth_numbers *numbers;
static uint32_t number_of_alice;

/* The users files; "": none. */
static const char *const files[SETS] = {
    "",
    "alice:t:-:-:-:uid/1000," CREDENTIAL "\nbob:t:-:-:off:uid/1001\n",
    "bob:t:-:-:-:uid/1001," CREDENTIAL "\nalice:t:-:-:until=2020-01-01:uid/1000\n",
    "carol:t:-:-:-:uid/1002\nbob:u:-:-:-:uid/1000\nalice:t:-:-:-:" CREDENTIAL "\n",
};

static void check_sessions(const struct amb_control *control)
{
    amb_assert(!amb_renew_is_busy(control));
    AMB_LIST_FOR_EACH (node, &control->clients) {
        const struct amb_client *client = AMB_CONTAINER_OF(node, struct amb_client, node);
        if (client->state != AMB_CLIENT_OPENING && client->state != AMB_CLIENT_LIVE) {
            continue;
        }
        const struct amb_auth_user *user = client->login.user;
        amb_assert((user == NULL) == (control->users == NULL));
        if (user != NULL && !user->is_local_admin) {
            amb_assert(user ==
                       amb_auth_users_by_credential(control->users, client->login.credential));
            amb_assert(amb_auth_user_may_enter(user, (int64_t)time(NULL)));
            amb_assert(client->user == user->number);
        }
    }
}

static void reload(struct amb_control *control, unsigned which)
{
    char text[512], why[AMB_AUTH_WHY_MAX];
    struct amb_auth_users *users = NULL;
    if (files[which][0] != '\0') {
        int len = snprintf(text, sizeof(text), "%s", files[which]);
        amb_assert(amb_auth_users_parse(text, (size_t)len, "users", numbers, why, sizeof(why),
                                        &users) == AMB_OK);
        uint32_t number = amb_auth_users_find(users, "alice")->number;
        if (numbers == NULL) {
            numbers = amb_auth_numbers_ref(amb_auth_users_numbers(users));
            number_of_alice = number;
        }
        amb_assert(number == number_of_alice);
    }
    amb_renew_users(control, users);
    amb_auth_users_unref(&users);
    while (amb_renew_is_busy(control)) {
        amb_renew_some(control);
    }
}

static void come(struct slot *slot, unsigned how)
{
    slot->client = stepped_connect(true, &slot->fd);
    slot->client->uid = 1000 + how % 4;
    slot->client->user = amb_user_of_uid(slot->client->uid, 1003);
}

/* Its client is freed by the next burial. */
static void go(struct slot *slot)
{
    if (slot->client != NULL) {
        (void)shutdown(slot->fd, SHUT_RDWR);
        slot->client->watch.fn(&slot->client->watch, EPOLLHUP); /* One that waits is not read. */
        stepped_settle(slot->client);
        (void)close(slot->fd);
        slot->client = NULL;
    }
}

/* Those that have ended are let go, before anybody is buried. */
static void bury(struct amb_control *control)
{
    for (unsigned i = 0; i < SLOTS; i++) {
        if (slots[i].client != NULL && slots[i].client->state == AMB_CLIENT_ENDING) {
            go(&slots[i]);
        }
    }
    amb_client_bury(control);
}

static void say_hello(struct slot *slot)
{
    stepped_say_body(slot->fd, stepped_hello, sizeof(stepped_hello));
    stepped_settle(slot->client);
}

/* The token is right, is short, is none, or is a credential's text. */
static void say_auth(struct slot *slot, unsigned how)
{
    static const char *const mechanisms[] = {"", "uid", "token", "key", "cert", "none", "UID", "t"};
    static const char *const names[] = {"", "alice", "bob", "admin"};
    static const char *const proofs[] = {TOKEN, "Kq3v8Zt", "", CREDENTIAL};
    Amb__Control__Auth auth;
    Amb__Control__Control message;
    amb__control__auth__init(&auth);
    amb__control__control__init(&message);
    auth.mechanism = (char *)(uintptr_t)mechanisms[how & 7];
    auth.user = (char *)(uintptr_t)names[how >> 3 & 3];
    auth.proof.data = (uint8_t *)(uintptr_t)proofs[how >> 5 & 3];
    auth.proof.len = strlen(proofs[how >> 5 & 3]);
    message.body_case = AMB__CONTROL__CONTROL__BODY_AUTH;
    message.auth = &auth;
    stepped_say_message(slot->client, slot->fd, &message);
}

/* The low two bits of `what` are the slot. Returns the bytes that it has taken of the rest. */
static size_t step(uint8_t what, uint8_t how, const uint8_t *rest, size_t len)
{
    struct amb_control *control = stepped_control();
    struct slot *slot = &slots[what % 4 % SLOTS];
    unsigned kind = what / 4 % 6;
    size_t taken = how % BODY_MAX < len ? how % BODY_MAX : len;
    if (kind == 0) {
        reload(control, how % SETS);
    } else if (slot->client == NULL) {
        come(slot, how);
    } else if (kind == 1) {
        go(slot);
    } else if (kind == 2) {
        say_hello(slot);
    } else if (kind == 3) {
        say_auth(slot, how);
    } else if (kind == 4) {
        stepped_say_body(slot->fd, rest, (uint8_t)taken);
        stepped_settle(slot->client);
    } else {
        control->now_ns += how * AMB_NS_PER_MS;
        amb_client_tick(slot->client, control->now_ns);
    }
    return slot->client != NULL && kind == 4 ? taken : 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct amb_control *control = stepped_control();
    memset(&control->failures, 0, sizeof(control->failures));
    while (len >= 2) {
        size_t taken = 2 + step(data[0], data[1], data + 2, len - 2);
        data += taken;
        len -= taken;
        check_sessions(control);
        bury(control);
    }
    for (unsigned i = 0; i < SLOTS; i++) {
        go(&slots[i]);
    }
    bury(control);
    amb_assert(control->client_count == 0 && amb_control_sessions(control) == 0);
    reload(control, 0);
    return 0;
}
