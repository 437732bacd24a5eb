/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The login as a state machine, by random sequences of messages: right ones, wrong ones, those of
 * another time. A model says who may have a session. Nobody else gets one, and nothing is answered
 * before that. $AMB_SEQUENCES is how many there are.
 */
#include "broker/base/user.h"
#include "broker/config/config.h"
#include "broker/control/clients/renew.h"
#include "broker/control/requests/prove.h"
#include "broker/tls/handshaker.h"
#include "tests/support/door/stepped_control.h"
#include "wire/auth/signer.h"

#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#define SEQUENCES 20000u
#define STEPS 6u
#define TOKEN "a-token-of-web"
#define ALICE 4711u /* her uid */

enum step {
    HELLO,
    HELLO_OF_ANOTHER_VERSION,
    AUTH_NOTHING,
    AUTH_UID,
    AUTH_UID_AS_OTHER,
    AUTH_TOKEN,
    AUTH_WRONG_TOKEN,
    AUTH_KEY,
    AUTH_WRONG_SIGNATURE,
    AUTH_REPLAYED,
    AUTH_STRANGE_KEY,
    AUTH_CERT,
    ATTACH,
    PUB_OPEN,
    PING,
    STEP_COUNT,
};

static uint64_t seed = 1;
static struct amb_signer *alice, *stranger;
static struct amb_handshakers handshakers;
static uint8_t old_signature[AMB_SIGNATURE_SIZE];
static unsigned sessions_made, refusals;

static uint32_t random_below(uint32_t most)
{
    seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(seed >> 33) % most;
}

static void no_connection(struct amb_mail *mail, void *owner)
{
    (void)mail;
    (void)owner;
    fail_msg("no connection was given");
}

static int setup(void **state)
{
    (void)state;
    struct amb_control *control = stepped_control();
    struct amb_auth_users *users = NULL;
    char text[4096], key[AMB_CREDENTIAL_MAX + 1], token[AMB_CREDENTIAL_MAX + 1];
    char why[AMB_AUTH_WHY_MAX];
    uint8_t public[AMB_CREDENTIAL_KEY_SIZE];
    if (amb_signer_create(&alice) != AMB_OK || amb_signer_create(&stranger) != AMB_OK ||
        !amb_credential_of_token(TOKEN, strlen(TOKEN), token)) {
        return -1;
    }
    amb_signer_public(alice, public);
    amb_credential_of_key(public, key);
    (void)snprintf(text, sizeof(text), "alice:t:-:-:-:%s,uid/4711\nweb:t:-:-:-:%s\n", key, token);
    if (amb_auth_users_parse(text, strlen(text), "users", NULL, why, sizeof(why), &users) !=
        AMB_OK) {
        return -1;
    }
    amb_renew_users(control, users);
    amb_auth_users_unref(&users);
    control->handshakers = &handshakers;
    return amb_handshakers_start(&handshakers, 1, &control->inbox, no_connection) != AMB_OK;
}

static int teardown(void **state)
{
    (void)state;
    amb_handshakers_stop(&handshakers);
    stepped_control()->handshakers = NULL;
    amb_renew_users(stepped_control(), NULL);
    amb_signer_free(&alice);
    amb_signer_free(&stranger);
    return 0;
}

/* ---- messages ---- */

static void send_message(int fd, const Amb__Control__Control *message)
{
    uint8_t bytes[2048];
    size_t len = amb_control_packed_size(message);
    assert_true(len > 0 && len <= sizeof(bytes));
    amb_control_pack(message, bytes);
    stepped_say(fd, bytes, len);
}

static void send_hello(int fd, uint32_t version)
{
    Amb__Control__Control message;
    Amb__Control__Hello hello;
    amb__control__control__init(&message);
    amb__control__hello__init(&hello);
    hello.version_min = hello.version_max = version;
    hello.link = (char *)(uintptr_t) "stream";
    message.body_case = AMB__CONTROL__CONTROL__BODY_HELLO;
    message.hello = &hello;
    send_message(fd, &message);
}

static void send_auth(int fd, const char *mechanism, const char *user, const uint8_t *proof,
                      size_t len, const struct amb_signer *signer)
{
    Amb__Control__Control message;
    Amb__Control__Auth auth;
    uint8_t key[AMB_CREDENTIAL_KEY_SIZE];
    amb__control__control__init(&message);
    amb__control__auth__init(&auth);
    auth.mechanism = (char *)(uintptr_t)mechanism;
    auth.user = (char *)(uintptr_t)user;
    auth.proof.data = (uint8_t *)(uintptr_t)proof;
    auth.proof.len = len;
    if (signer != NULL) {
        amb_signer_public(signer, key);
        auth.key.data = key;
        auth.key.len = sizeof(key);
    }
    message.body_case = AMB__CONTROL__CONTROL__BODY_AUTH;
    message.auth = &auth;
    send_message(fd, &message);
}

static void sign_login(const struct amb_client *client, const struct amb_signer *signer,
                       uint8_t out[AMB_SIGNATURE_SIZE])
{
    uint8_t text[AMB_LOGIN_TEXT_MAX];
    const struct amb_login_facts facts = {client->nonce, client->control->epoch,
                                          client->control->config->server.name, NULL};
    size_t len = amb_login_text(&facts, text);
    assert_true(amb_signer_sign(signer, text, len, out));
}

static void send_other(int fd, enum step step)
{
    Amb__Control__Control message;
    Amb__Control__Attach attach;
    Amb__Control__PubOpen open;
    Amb__Control__Ping ping;
    amb__control__control__init(&message);
    amb__control__attach__init(&attach);
    amb__control__pub_open__init(&open);
    amb__control__ping__init(&ping);
    message.id = 1;
    if (step == ATTACH) {
        attach.session = random_below(4);
        attach.generation = 1 + random_below(4);
        message.body_case = AMB__CONTROL__CONTROL__BODY_ATTACH;
        message.attach = &attach;
    } else if (step == PUB_OPEN) {
        open.topic = (char *)(uintptr_t) "a";
        message.body_case = AMB__CONTROL__CONTROL__BODY_PUB_OPEN;
        message.pub_open = &open;
    } else {
        message.body_case = AMB__CONTROL__CONTROL__BODY_PING;
        message.ping = &ping;
    }
    send_message(fd, &message);
}

static void take_step(const struct amb_client *client, int fd, enum step step)
{
    uint8_t signature[AMB_SIGNATURE_SIZE];
    switch (step) {
    case HELLO:
    case HELLO_OF_ANOTHER_VERSION:
        send_hello(fd, AMB_CONTROL_VERSION + (step == HELLO_OF_ANOTHER_VERSION));
        break;
    case AUTH_NOTHING:
        send_auth(fd, "", "", NULL, 0, NULL);
        break;
    case AUTH_UID:
    case AUTH_UID_AS_OTHER:
        send_auth(fd, "uid", step == AUTH_UID ? "" : "web", NULL, 0, NULL);
        break;
    case AUTH_TOKEN:
    case AUTH_WRONG_TOKEN:
        send_auth(fd, "token", "", (const uint8_t *)TOKEN,
                  strlen(TOKEN) - (step == AUTH_WRONG_TOKEN), NULL);
        break;
    case AUTH_KEY:
    case AUTH_WRONG_SIGNATURE:
        sign_login(client, alice, signature);
        signature[random_below(AMB_SIGNATURE_SIZE)] ^= step == AUTH_WRONG_SIGNATURE ? 0x10 : 0;
        send_auth(fd, "key", "", signature, sizeof(signature), alice);
        break;
    case AUTH_REPLAYED:
        send_auth(fd, "key", "", old_signature, sizeof(old_signature), alice);
        break;
    case AUTH_STRANGE_KEY:
        sign_login(client, stranger, signature);
        send_auth(fd, "key", "", signature, sizeof(signature), stranger);
        break;
    case AUTH_CERT:
        send_auth(fd, "cert", "", NULL, 0, NULL);
        break;
    case ATTACH:
    case PUB_OPEN:
    case PING:
    case STEP_COUNT:
        send_other(fd, step);
        break;
    }
}

/* ---- the model ---- */

struct model {
    bool is_asked, is_in, is_over; /* has a Challenge; has a session; nothing more is heard */
    bool is_unix;
    uint32_t uid;
};

static bool proves(const struct model *model, enum step step)
{
    if (step == AUTH_NOTHING || step == AUTH_UID) {
        return model->is_unix && model->uid == ALICE;
    }
    return step == AUTH_KEY || (step == AUTH_TOKEN && model->is_unix);
}

static void expect_step(struct model *model, enum step step)
{
    if (model->is_over) {
        return;
    }
    if (!model->is_asked) {
        model->is_asked = step == HELLO;
        model->is_over = step != HELLO;
    } else if (!model->is_in) {
        model->is_in = step >= AUTH_NOTHING && step <= AUTH_CERT && proves(model, step);
        model->is_over = !model->is_in;
    } else {
        model->is_over = step != PUB_OPEN && step != PING;
    }
}

/* ---- the run ---- */

/* Until the answer to a signature is there, if one is under way. */
static void settle(struct amb_client *client)
{
    struct amb_control *control = stepped_control();
    stepped_settle(client);
    while (client->kept != NULL) {
        if (amb_inbox_arm(&control->inbox)) {
            struct pollfd bell = {.fd = control->inbox.bell, .events = POLLIN};
            assert_int_equal(poll(&bell, 1, 10000), 1);
        }
        amb_inbox_disarm(&control->inbox, true);
        stepped_settle(client);
    }
}

static void run_sequence(void)
{
    int fd;
    struct amb_control *control = stepped_control();
    struct model model = {.is_unix = random_below(2) == 0, .uid = ALICE + random_below(2)};
    struct amb_client *client = stepped_connect(model.is_unix, &fd);
    client->uid = model.is_unix ? model.uid : UINT32_MAX;
    client->user = model.is_unix ? model.uid : AMB_USER_TCP;
    memset(&control->failures, 0, sizeof(control->failures)); /* Without delays. */
    control->now_ns += INT64_C(1000000000); /* No quota of requests is in use any more. */
    bool was_in = false;
    for (unsigned i = 0; i < STEPS && client->state != AMB_CLIENT_ENDING; i++) {
        /* Most begin well, or few would come far. */
        enum step step =
            i == 0 && random_below(8) != 0 ? HELLO : (enum step)random_below(STEP_COUNT);
        take_step(client, fd, step);
        settle(client);
        expect_step(&model, step);
        if (step == AUTH_KEY && model.is_asked) {
            sign_login(client, alice, old_signature); /* Of this nonce: no other one's. */
        }
        was_in = was_in || model.is_in;
        assert_int_equal(client->state == AMB_CLIENT_LIVE, model.is_in && !model.is_over);
        assert_int_equal(client->state == AMB_CLIENT_ENDING, model.is_over);
        assert_int_equal(client->login.user != NULL, was_in);
        assert_int_equal(client->publisher_count != 0 && !was_in, 0);
    }
    sessions_made += was_in;
    refusals += client->end_status == AMB_EAUTH;
    stepped_leave(client, fd);
}

static void test_only_who_proves_it_gets_a_session(void **state)
{
    (void)state;
    const char *wanted = getenv("AMB_SEQUENCES");
    unsigned long count = wanted == NULL ? SEQUENCES : strtoul(wanted, NULL, 10);
    for (unsigned long i = 0; i < count; i++) {
        run_sequence();
    }
    print_message("%lu sequences, %u sessions, %u refusals\n", count, sessions_made, refusals);
    assert_true(sessions_made > count / 20 && refusals > count / 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_only_who_proves_it_gets_a_session),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
