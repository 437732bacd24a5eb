/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The handshake over TLS: the protocols of a door, the proof that Attach brings, and connections
 * that are not the ones of a session. A leaked secret is worth nothing.
 */
#include "tests/support/door/door_harness.h"
#include "tests/support/door/door_tls.h"
#include "wire/tls/tls_bind.h"
#include "wire/tls/tls_io.h"

#include <stdlib.h>
#include <string.h>

#define SWAPS 50u

static struct tls_made made;
static struct amb_tls_context *context;
static struct door door;

static const struct amb_tls_wish control_wish = {.alpn = AMB_TLS_ALPN_CONTROL, .name = "localhost"};
static const struct amb_tls_wish link_wish = {.alpn = AMB_TLS_ALPN_LINK, .name = "localhost"};

static int setup(void **state)
{
    (void)state;
    door_open_tls(&door, &made, "auth.token=secret");
    assert_int_not_equal(door.tls_port, 0);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    door_close(&door);
    return 0;
}

/* HMAC-SHA256 of the challenge's nonce by the token, as a client of that token has it. */
static void log_in(struct door_client *client, struct door_session *session)
{
    door_login_by_token(client, "secret", session);
}

static void log_in_tls(struct door_client *client, struct door_session *session)
{
    door_connect_tls(&door, client, context, &control_wish);
    log_in(client, session);
    assert_string_equal(session->link, "stream");
}

static void send_attach(struct door_client *link, const struct door_session *session,
                        const uint8_t *proof, size_t len)
{
    Amb__Control__Control message;
    amb__control__control__init(&message);
    Amb__Control__Attach attach;
    amb__control__attach__init(&attach);
    attach.session = session->session;
    attach.generation = session->generation;
    attach.secret = session->secret;
    attach.proof.data = (uint8_t *)(uintptr_t)proof;
    attach.proof.len = len;
    message.id = 7;
    message.body_case = AMB__CONTROL__CONTROL__BODY_ATTACH;
    message.attach = &attach;
    door_send(link, &message);
}

static void refused(struct door_client *link, const struct door_session *session,
                    const uint8_t *proof, size_t len)
{
    send_attach(link, session, proof, len);
    door_expect_error(link, 0, AMB_EAUTH, "not authenticated");
    door_expect_closed(link);
    door_disconnect(link);
}

static void test_a_link_comes_with_a_proof_and_works(void **state)
{
    (void)state;
    struct door_client client, link;
    struct door_session session;
    uint8_t proof[AMB_TLS_PROOF_SIZE];
    log_in_tls(&client, &session);
    door_connect_tls(&door, &link, context, &link_wish);
    assert_true(amb_tls_bind(client.tls, link.tls, session.session, session.generation, proof));
    send_attach(&link, &session, proof, sizeof(proof));
    door_expect_ok(&link, 7);
    door_subscribe(&client, 1, "a");
    door_send_ping(&client, 5);
    amb_control_free(door_expect(&client, AMB__CONTROL__CONTROL__BODY_PONG));
    door_disconnect(&link);
    door_disconnect(&client);
}

static void test_a_secret_without_the_right_proof_is_worth_nothing(void **state)
{
    (void)state;
    struct door_client victim, thief, link;
    struct door_session session, other;
    uint8_t proof[AMB_TLS_PROOF_SIZE];
    log_in_tls(&victim, &session);
    log_in_tls(&thief, &other);
    door_connect_tls(&door, &link, context, &link_wish);
    refused(&link, &session, NULL, 0);
    door_connect_tls(&door, &link, context, &link_wish);
    memset(proof, 0, sizeof(proof));
    refused(&link, &session, proof, sizeof(proof));
    /* By the thief's own connections. */
    door_connect_tls(&door, &link, context, &link_wish);
    assert_true(amb_tls_bind(thief.tls, link.tls, session.session, session.generation, proof));
    refused(&link, &session, proof, sizeof(proof));
    /* The right one, a byte short, and for another session. */
    door_connect_tls(&door, &link, context, &link_wish);
    assert_true(amb_tls_bind(victim.tls, link.tls, session.session, session.generation, proof));
    refused(&link, &session, proof, sizeof(proof) - 1);
    door_connect_tls(&door, &link, context, &link_wish);
    assert_true(amb_tls_bind(victim.tls, link.tls, other.session, other.generation, proof));
    refused(&link, &session, proof, sizeof(proof));
    door_disconnect(&victim);
    door_disconnect(&thief);
}

/* AMB_ATTACH_TRIES: more of them. */
static unsigned swaps_to_try(void)
{
    const char *text = getenv("AMB_ATTACH_TRIES");
    return text != NULL ? (unsigned)strtoul(text, NULL, 10) : SWAPS;
}

static uint64_t refused_so_far(void)
{
    struct door_client asker;
    door_login_unix(&door, &asker);
    char *status = door_admin(&asker, "status");
    const char *key = "\"refused_auth\":", *at = strstr(status, key);
    assert_non_null(at);
    uint64_t count = strtoull(at + strlen(key), NULL, 10);
    free(status);
    door_disconnect(&asker);
    return count;
}

/* On a connection of somebody who knows all that was said, and has sessions of its own. */
static void try_swapped(unsigned how, const struct door_client *thief,
                        const struct door_session *session, const struct door_session *other,
                        const uint8_t *seen)
{
    struct door_session said = how % 5 == 1 ? *other : *session;
    struct door_client relay;
    uint8_t proof[AMB_TLS_PROOF_SIZE];
    door_connect_tls(&door, &relay, context, &link_wish);
    memcpy(proof, seen, sizeof(proof)); /* 0, 1: as it was seen, for either session */
    if (how % 5 >= 2) {                 /* of the thief's own pair of connections */
        assert_true(amb_tls_bind(thief->tls, relay.tls,
                                 how % 5 == 3 ? other->session : said.session,
                                 how % 5 == 3 ? other->generation : said.generation, proof));
    }
    if (how % 5 == 4) {
        said.generation--;
    }
    send_attach(&relay, &said, proof, sizeof(proof));
    /* After the second one they are answered a second late: this need not wait for it. */
    door_disconnect(&relay);
}

static void test_a_swapped_attach_never_passes(void **state)
{
    (void)state;
    struct door_client victim, thief, link;
    struct door_session session, other;
    uint8_t proof[AMB_TLS_PROOF_SIZE];
    uint64_t before = refused_so_far();
    log_in_tls(&victim, &session);
    log_in_tls(&thief, &other);
    door_connect_tls(&door, &link, context, &link_wish);
    assert_true(amb_tls_bind(victim.tls, link.tls, session.session, session.generation, proof));
    unsigned swaps = swaps_to_try();
    for (unsigned i = 0; i < swaps; i++) {
        try_swapped(i, &thief, &session, &other, proof);
    }
    for (unsigned i = 0; i < 1000 && refused_so_far() < before + swaps; i++) {
        door_send_ping(&victim, 5); /* The broker's turn. */
        amb_control_free(door_expect(&victim, AMB__CONTROL__CONTROL__BODY_PONG));
    }
    assert_int_equal(refused_so_far(), before + swaps);
    print_message("%u swapped Attach, 0 passed\n", swaps);
    /* Neither session has a link yet. The first link may be too old by now. */
    door_disconnect(&link);
    door_connect_tls(&door, &link, context, &link_wish);
    assert_true(amb_tls_bind(victim.tls, link.tls, session.session, session.generation, proof));
    send_attach(&link, &session, proof, sizeof(proof));
    door_expect_ok(&link, 7);
    door_disconnect(&link);
    door_connect_tls(&door, &link, context, &link_wish);
    assert_true(amb_tls_bind(thief.tls, link.tls, other.session, other.generation, proof));
    send_attach(&link, &other, proof, sizeof(proof));
    door_expect_ok(&link, 7);
    door_disconnect(&link);
    door_disconnect(&thief);
    door_disconnect(&victim);
}

static void test_plain_and_encrypted_connections_do_not_mix(void **state)
{
    (void)state;
    struct door_client encrypted, plain, link;
    struct door_session secret, open;
    uint8_t proof[AMB_TLS_PROOF_SIZE] = {1};
    log_in_tls(&encrypted, &secret);
    door_connect_tcp(&door, &plain);
    log_in(&plain, &open);
    door_connect_tcp(&door, &link);
    refused(&link, &secret, NULL, 0);
    door_connect_tls(&door, &link, context, &link_wish);
    refused(&link, &open, proof, sizeof(proof));
    door_disconnect(&encrypted);
    door_disconnect(&plain);
}

static void test_each_protocol_has_its_own_first_message(void **state)
{
    (void)state;
    struct door_client victim, other;
    struct door_session session;
    uint8_t proof[AMB_TLS_PROOF_SIZE];
    log_in_tls(&victim, &session);
    door_connect_tls(&door, &other, context, &link_wish);
    door_send_hello(&other, "");
    door_expect_error(&other, 0, AMB_EPROTO, "a connection of a stream link says Attach");
    door_disconnect(&other);
    door_connect_tls(&door, &other, context, &control_wish);
    assert_true(amb_tls_bind(victim.tls, other.tls, session.session, session.generation, proof));
    refused(&other, &session, proof, sizeof(proof));
    door_disconnect(&victim);
}

/* All of it comes in one record: no socket tells of the second message. */
static void test_messages_that_come_together_are_all_read(void **state)
{
    (void)state;
    struct door_client client;
    struct door_session session;
    log_in_tls(&client, &session);
    uint8_t bytes[16384];
    size_t len = 0;
    unsigned pings = 0;
    Amb__Control__Control message;
    amb__control__control__init(&message);
    Amb__Control__Ping ping;
    amb__control__ping__init(&ping);
    message.body_case = AMB__CONTROL__CONTROL__BODY_PING;
    message.ping = &ping;
    for (; pings < 200; pings++) {
        ping.time_ns = pings + 1;
        size_t size = amb_control_packed_size(&message);
        assert_true(len + size <= sizeof(bytes));
        amb_control_pack(&message, bytes + len);
        len += size;
    }
    door_send_bytes(&client, bytes, len);
    int64_t newest = 0;
    while (newest < pings) {
        Amb__Control__Control *answer = door_expect(&client, AMB__CONTROL__CONTROL__BODY_PONG);
        assert_true(answer->pong->time_ns > newest);
        newest = answer->pong->time_ns;
        amb_control_free(answer);
    }
    door_disconnect(&client);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_link_comes_with_a_proof_and_works, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_secret_without_the_right_proof_is_worth_nothing,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_swapped_attach_never_passes, setup, teardown),
        cmocka_unit_test_setup_teardown(test_plain_and_encrypted_connections_do_not_mix, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_each_protocol_has_its_own_first_message, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_messages_that_come_together_are_all_read, setup,
                                        teardown),
    };
    tls_made_init(&made);
    tls_made_plain(&made, "server", AMB_TLS_SERVER, "localhost");
    context = tls_made_client(&made, NULL);
    int failed = cmocka_run_group_tests_name("handshake_tls", tests, NULL, NULL);
    amb_tls_context_unref(&context);
    tls_made_fini(&made);
    return failed;
}
