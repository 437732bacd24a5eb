/* SPDX-License-Identifier: Apache-2.0 */
/* Handshakes that come through, those that do not, and the sentence for each. */
#include "wire/tls/tls.h"

#include "tests/support/tls/tls_made.h"
#include "tests/support/tls/tls_two.h"
#include "wire/tls/tls_bind.h"
#include "wire/tls/tls_io.h"
#include "wire/tls/tls_state.h"

#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

static struct tls_made made;
static struct amb_tls_context *server, *client;

static int setup(void **state)
{
    (void)state;
    tls_made_ends(&made, "broker.example", &server, &client);
    tls_made_plain(&made, "numbered", AMB_TLS_SERVER, "127.0.0.1");
    tls_made_plain(&made, "visitor", AMB_TLS_CLIENT, "cam7");
    tls_made_issue(&made, NULL, "stranger", AMB_TLS_SERVER, "broker.example",
                   (struct tls_made_time){-TLS_MADE_DAY, TLS_MADE_DAY});
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    tls_made_ends_fini(&made, &server, &client);
    return 0;
}

static const struct amb_tls_wish plain_wish = {.name = "broker.example"};

static void shake(struct tls_two *two, struct amb_tls_context *broker, struct amb_tls_context *from,
                  const struct amb_tls_wish *wish)
{
    tls_two_make(two, broker, from, wish);
    tls_two_shake(two);
}

/* The client must refuse the broker, with these words. */
static void client_refuses(struct amb_tls_context *broker, const struct amb_tls_wish *wish,
                           const char *words)
{
    struct tls_two two;
    shake(&two, broker, client, wish);
    assert_int_equal(two.client_status, AMB_EUNREACHABLE);
    assert_int_not_equal(two.broker_status, AMB_OK);
    if (strstr(amb_tls_why(two.client), words) == NULL) {
        fail_msg("%s, and not: %s", amb_tls_why(two.client), words);
    }
    tls_two_fini(&two);
}

static void test_both_agree_on_tls_1_3_a_suite_and_a_protocol(void **state)
{
    (void)state;
    struct tls_two two;
    for (unsigned alpn = 0; alpn < 2; alpn++) {
        struct amb_tls_wish wish = {.alpn = (enum amb_tls_alpn)alpn, .name = "broker.example"};
        shake(&two, server, client, &wish);
        assert_int_equal(two.client_status, AMB_OK);
        assert_int_equal(two.broker_status, AMB_OK);
        assert_int_equal(amb_tls_agreed(two.broker), alpn);
        assert_int_equal(SSL_version(two.broker->ssl), TLS1_3_VERSION);
        assert_string_equal(amb_tls_suite(two.client), "TLS_AES_128_GCM_SHA256");
        tls_two_fini(&two);
    }
}

static void test_a_name_or_an_address_must_be_the_certificates(void **state)
{
    (void)state;
    struct tls_two two;
    struct amb_tls_context *numbered = tls_made_server(&made, "numbered", AMB_TLS_CLIENTS_NONE);
    shake(&two, numbered, client, &(struct amb_tls_wish){.name = "127.0.0.1"});
    assert_int_equal(two.client_status, AMB_OK);
    tls_two_fini(&two);
    client_refuses(server, &(struct amb_tls_wish){.name = "other.example"},
                   "is for broker.example, and not for other.example");
    client_refuses(numbered, &(struct amb_tls_wish){.name = "::1"},
                   "is for 127.0.0.1, and not for ::1");
    client_refuses(server, &(struct amb_tls_wish){.name = "127.0.0.1"}, "and not for 127.0.0.1");
    amb_tls_context_unref(&numbered);
}

/* ".example" would take the certificate of each host below it. */
static void test_a_name_that_is_none_is_refused(void **state)
{
    (void)state;
    static const char *const none[] = {"", "%eth0", ".example"};
    struct amb_tls *tls = NULL;
    for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++) {
        assert_int_equal(
            amb_tls_create_connecting(client, -1, &(struct amb_tls_wish){.name = none[i]}, &tls),
            AMB_EINVAL);
        assert_null(tls);
    }
}

/* The subject of a certificate is for people (RFC 9525, 2): it may be anybody's wish. */
static void test_a_subject_is_no_name_of_a_host(void **state)
{
    (void)state;
    tls_made_plain(&made, "sub.example", AMB_TLS_SERVER, NULL);
    struct amb_tls_context *named = tls_made_server(&made, "sub.example", AMB_TLS_CLIENTS_NONE);
    client_refuses(named, &(struct amb_tls_wish){.name = "sub.example"},
                   "is for no host, and not for sub.example");
    amb_tls_context_unref(&named);
}

static void test_an_unknown_authority_and_an_expired_certificate_are_told(void **state)
{
    (void)state;
    struct amb_tls_context *stranger = tls_made_server(&made, "stranger", AMB_TLS_CLIENTS_NONE);
    client_refuses(stranger, &plain_wish, "is unknown");
    amb_tls_context_unref(&stranger);
    /* It is valid while it is loaded, and not any more at the handshake. */
    tls_made_issue(&made, made.ca, "brief", AMB_TLS_SERVER, "broker.example",
                   (struct tls_made_time){-TLS_MADE_DAY, 2});
    struct amb_tls_context *brief = tls_made_server(&made, "brief", AMB_TLS_CLIENTS_NONE);
    while (amb_tls_context_used(brief, AMB_TLS_CERTIFICATE)->expires_s >= (int64_t)time(NULL)) {
        (void)poll(NULL, 0, 50);
    }
    client_refuses(brief, &plain_wish, "the broker's certificate expired on 20");
    amb_tls_context_unref(&brief);
}

static void test_a_pin_needs_no_authority_and_no_name(void **state)
{
    (void)state;
    struct amb_tls_context *stranger = tls_made_server(&made, "stranger", AMB_TLS_CLIENTS_NONE);
    struct amb_tls_pair *pair = tls_made_read(&made, "stranger");
    char pin[AMB_TLS_PIN_TEXT_MAX];
    assert_true(amb_tls_pair_pin(pair, pin, sizeof(pin)));
    amb_tls_pair_free(&pair);
    struct tls_two two;
    struct amb_tls_wish wish = {.name = "whatever.example", .pin = pin};
    shake(&two, stranger, client, &wish);
    assert_int_equal(two.client_status, AMB_OK);
    tls_two_fini(&two);
    client_refuses(server, &wish, "has another public key than the pin says: its own is sha256/");
    amb_tls_context_unref(&stranger);
    struct amb_tls *tls = NULL;
    assert_int_equal(
        amb_tls_create_connecting(client, -1,
                                  &(struct amb_tls_wish){.name = "a", .pin = "sha256/AAAA"}, &tls),
        AMB_EINVAL);
}

/* A certificate of a client is the broker's to refuse: by then the client is through. */
static void broker_refuses(struct amb_tls_context *asks, struct amb_tls_context *from,
                           const char *broker_words, const char *client_words)
{
    struct tls_two two;
    shake(&two, asks, from, &plain_wish);
    assert_int_not_equal(two.broker_status, AMB_OK);
    assert_non_null(strstr(amb_tls_why(two.broker), broker_words));
    uint8_t byte;
    const struct iovec iov = {.iov_base = &byte, .iov_len = 1};
    while (two.client_status == AMB_OK && amb_tls_receive(two.client, &iov, 1) < 0 &&
           errno == EAGAIN) {
        tls_two_await(two.client_fd);
    }
    if (strstr(amb_tls_why(two.client), client_words) == NULL) {
        fail_msg("%s, and not: %s", amb_tls_why(two.client), client_words);
    }
    tls_two_fini(&two);
}

static void test_certificates_of_clients_are_checked_where_they_are_asked_for(void **state)
{
    (void)state;
    struct tls_two two;
    struct amb_tls_context *asks = tls_made_server(&made, "server", AMB_TLS_CLIENTS_REQUIRED);
    struct amb_tls_context *likes = tls_made_server(&made, "server", AMB_TLS_CLIENTS_OPTIONAL);
    struct amb_tls_context *visitor = tls_made_client(&made, "visitor");
    struct amb_tls_context *stranger = tls_made_client(&made, "stranger");
    shake(&two, asks, visitor, &plain_wish);
    assert_int_equal(two.broker_status, AMB_OK);
    tls_two_fini(&two);
    shake(&two, likes, client, &plain_wish);
    assert_int_equal(two.broker_status, AMB_OK);
    tls_two_fini(&two);
    broker_refuses(asks, client, "certificate", "wants a certificate, and there is none");
    broker_refuses(asks, stranger, "the client's certificate does not do",
                   "does not know the authority");
    broker_refuses(likes, stranger, "the client's certificate does not do", "does not");
    amb_tls_context_unref(&asks);
    amb_tls_context_unref(&likes);
    amb_tls_context_unref(&visitor);
    amb_tls_context_unref(&stranger);
}

/* A broker that has these authorities, and a list of what they have revoked. */
static struct amb_tls_context *revokes(const char *ca, const char *crl)
{
    struct amb_tls_files files = {.certificate = tls_made_path(&made, "server.pem"),
                                  .key = tls_made_path(&made, "server.key"),
                                  .ca = tls_made_path(&made, ca),
                                  .crl = tls_made_path(&made, crl)};
    struct amb_tls_complaint complaint;
    struct amb_tls_context *context = NULL;
    assert_int_equal(
        amb_tls_context_create_server(&files, AMB_TLS_CLIENTS_REQUIRED, &complaint, &context),
        AMB_OK);
    return context;
}

static void test_a_revoked_certificate_does_not_come_in(void **state)
{
    (void)state;
    struct tls_two two;
    tls_made_plain(&made, "thief", AMB_TLS_CLIENT, "cam8");
    tls_made_revoke(&made, "thief.crl", "thief.pem",
                    (struct tls_made_time){-TLS_MADE_DAY, TLS_MADE_DAY});
    struct amb_tls_context *asks = revokes("ca.pem", "thief.crl");
    struct amb_tls_context *thief = tls_made_client(&made, "thief");
    struct amb_tls_context *visitor = tls_made_client(&made, "visitor");
    broker_refuses(asks, thief, "revoked", "it is revoked");
    shake(&two, asks, visitor, &plain_wish);
    assert_int_equal(two.broker_status, AMB_OK);
    tls_two_fini(&two);
    amb_tls_context_unref(&asks);
    amb_tls_context_unref(&thief);
    amb_tls_context_unref(&visitor);
}

static void test_nobody_comes_in_by_a_revoked_authority(void **state)
{
    (void)state;
    const struct tls_made_time now = {-TLS_MADE_DAY, TLS_MADE_DAY};
    struct tls_two two;
    tls_made_plain(&made, "between", AMB_TLS_AUTHORITY, NULL);
    struct amb_tls_pair *between = tls_made_read(&made, "between");
    tls_made_issue(&made, between, "cam9", AMB_TLS_CLIENT, "cam9", now);
    amb_tls_pair_free(&between);
    tls_made_join(&made, "both.pem", "ca.pem", "between.pem");
    tls_made_revoke_by(&made, "between", "between.crl", NULL, now);
    tls_made_revoke(&made, "none.crl", NULL, now);
    tls_made_revoke(&made, "gone.crl", "between.pem", now);
    tls_made_join(&made, "before.crl", "none.crl", "between.crl");
    tls_made_join(&made, "after.crl", "gone.crl", "between.crl");
    struct amb_tls_context *cam9 = tls_made_client(&made, "cam9");
    /* It knows two authorities, of which the first has issued the second. */
    struct amb_tls_context *before = revokes("both.pem", "before.crl");
    struct amb_tls_context *after = revokes("both.pem", "after.crl");
    shake(&two, before, cam9, &plain_wish);
    assert_int_equal(two.broker_status, AMB_OK);
    tls_two_fini(&two);
    broker_refuses(after, cam9, "revoked", "it is revoked");
    amb_tls_context_unref(&before);
    amb_tls_context_unref(&after);
    amb_tls_context_unref(&cam9);
}

/* Bytes that are no TLS 1.3 hello of ours, to a broker's end. */
static void broker_gets(const void *bytes, size_t len, bool is_plain, const char *words)
{
    struct tls_two two;
    short events;
    tls_two_connect(&two);
    assert_int_equal(amb_tls_create_accepting(server, two.broker_fd, &two.broker), AMB_OK);
    assert_int_equal(send(two.client_fd, bytes, len, MSG_NOSIGNAL), len);
    assert_int_equal(shutdown(two.client_fd, SHUT_WR), 0);
    enum amb_status status;
    do {
        tls_two_await(two.broker_fd);
        status = amb_tls_step(two.broker, &events);
    } while (status == AMB_EAGAIN);
    assert_int_not_equal(status, AMB_OK);
    assert_int_equal(amb_tls_is_plain(two.broker), is_plain);
    if (strstr(amb_tls_why(two.broker), words) == NULL) {
        fail_msg("%s, and not: %s", amb_tls_why(two.broker), words);
    }
    uint8_t answer[64];
    (void)shutdown(two.broker_fd, SHUT_WR);
    tls_two_await(two.client_fd);
    ssize_t got = recv(two.client_fd, answer, sizeof(answer), 0);
    /* Nothing, or an alert of TLS. */
    assert_true(is_plain ? got == 0 : got == 0 || answer[0] == 21);
    tls_two_fini(&two);
}

static void test_strangers_at_the_door(void **state)
{
    (void)state;
    broker_gets("GET / HTTP/1.1\r\n\r\n", 18, true, "does not speak TLS");
    broker_gets("AMB1", 4, true, "does not speak TLS");
    broker_gets("\x16", 1, false, "the client has gone");
    broker_gets("\x16\x03\x01\x00\x05hello", 10, false, "TLS has failed");
}

/* The largest ClientHello that libssl takes has 128 KiB, and comes in one piece here. */
static void test_a_hello_without_end_gets_a_small_buffer(void **state)
{
    (void)state;
    enum {
        RECORDS = 7,
        HEADER = 5,
        RECORD = HEADER + (16 << 10)
    };
    static const uint8_t record[HEADER] = {22, 3, 1, 0x40, 0}, hello[4] = {1, 2, 0, 0};
    static uint8_t bytes[RECORDS][RECORD];
    struct tls_two two;
    short events;
    for (size_t i = 0; i < RECORDS; i++) {
        memcpy(bytes[i], record, sizeof(record));
    }
    memcpy(bytes[0] + HEADER, hello, sizeof(hello));
    tls_two_connect(&two);
    assert_int_equal(amb_tls_create_accepting(server, two.broker_fd, &two.broker), AMB_OK);
    assert_int_equal(send(two.client_fd, bytes, sizeof(bytes), MSG_NOSIGNAL), sizeof(bytes));
    for (size_t heard = 0; heard < 4; heard = two.broker->moved) {
        tls_two_await(two.broker_fd);
        assert_int_equal(amb_tls_step(two.broker, &events), AMB_EAGAIN);
        assert_in_range(two.broker->pipe.in.cap, 0, AMB_TLS_BUFFER_MIN);
    }
    tls_two_fini(&two);
}

static void test_tls_at_a_plain_door(void **state)
{
    (void)state;
    struct tls_two two;
    short events;
    tls_two_connect(&two);
    assert_int_equal(amb_tls_create_connecting(client, two.client_fd, &plain_wish, &two.client),
                     AMB_OK);
    assert_int_equal(amb_tls_step(two.client, &events), AMB_EAGAIN);
    tls_two_await(two.broker_fd);
    (void)close(two.broker_fd); /* Unread bytes: the client finds a reset. */
    two.broker_fd = dup(two.client_fd);
    tls_two_await(two.client_fd);
    assert_int_equal(amb_tls_step(two.client, &events), AMB_EUNREACHABLE);
    assert_non_null(strstr(amb_tls_why(two.client), "is it a tcp:// listener?"));
    tls_two_fini(&two);
}

static void test_a_protocol_that_is_not_ours_is_refused(void **state)
{
    (void)state;
    struct tls_two two;
    static const unsigned char other[] = "\x02h2";
    tls_two_make(&two, server, client, &plain_wish);
    assert_int_equal(SSL_set_alpn_protos(two.client->ssl, other, 3), 0);
    tls_two_shake(&two);
    assert_int_not_equal(two.broker_status, AMB_OK);
    assert_non_null(strstr(amb_tls_why(two.client), "is no door of ambroker"));
    tls_two_fini(&two);
    tls_two_make(&two, server, client, &plain_wish);
    assert_int_equal(SSL_set_alpn_protos(two.client->ssl, NULL, 0), 0);
    tls_two_shake(&two);
    assert_int_not_equal(two.broker_status, AMB_OK);
    assert_non_null(strstr(amb_tls_why(two.broker), "does not say that it is one of ambroker"));
    tls_two_fini(&two);
}

static void test_tls_1_2_is_refused(void **state)
{
    (void)state;
    struct tls_two two;
    tls_two_make(&two, server, client, &plain_wish);
    assert_int_equal(SSL_set_min_proto_version(two.client->ssl, TLS1_2_VERSION), 1);
    assert_int_equal(SSL_set_max_proto_version(two.client->ssl, TLS1_2_VERSION), 1);
    tls_two_shake(&two);
    assert_int_not_equal(two.broker_status, AMB_OK);
    assert_int_equal(two.client_status, AMB_EUNREACHABLE);
    assert_non_null(strstr(amb_tls_why(two.client), "does not speak TLS 1.3"));
    tls_two_fini(&two);
}

static void test_a_proof_is_of_two_connections_a_session_and_a_generation(void **state)
{
    (void)state;
    struct tls_two a, b, c;
    uint8_t ours[AMB_TLS_PROOF_SIZE], theirs[AMB_TLS_PROOF_SIZE];
    shake(&a, server, client, &plain_wish);
    shake(&b, server, client, &plain_wish);
    shake(&c, server, client, &plain_wish);
    assert_true(amb_tls_bind(a.client, b.client, 7, 9, ours));
    assert_true(amb_tls_bind(a.broker, b.broker, 7, 9, theirs));
    assert_true(amb_tls_proof_is(ours, sizeof(ours), theirs));
    assert_false(amb_tls_proof_is(ours, sizeof(ours) - 1, theirs));
    assert_false(amb_tls_proof_is(ours, 0, theirs));
    struct amb_tls *const others[][2] = {
        {a.broker, c.broker}, {c.broker, b.broker}, {b.broker, a.broker}};
    for (unsigned i = 0; i < 3; i++) {
        assert_true(amb_tls_bind(others[i][0], others[i][1], 7, 9, theirs));
        assert_false(amb_tls_proof_is(ours, sizeof(ours), theirs));
    }
    assert_true(amb_tls_bind(a.broker, b.broker, 8, 9, theirs));
    assert_false(amb_tls_proof_is(ours, sizeof(ours), theirs));
    assert_true(amb_tls_bind(a.broker, b.broker, 7, 10, theirs));
    assert_false(amb_tls_proof_is(ours, sizeof(ours), theirs));
    tls_two_fini(&a);
    tls_two_fini(&b);
    tls_two_fini(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_both_agree_on_tls_1_3_a_suite_and_a_protocol),
        cmocka_unit_test(test_a_name_or_an_address_must_be_the_certificates),
        cmocka_unit_test(test_a_name_that_is_none_is_refused),
        cmocka_unit_test(test_a_subject_is_no_name_of_a_host),
        cmocka_unit_test(test_an_unknown_authority_and_an_expired_certificate_are_told),
        cmocka_unit_test(test_a_pin_needs_no_authority_and_no_name),
        cmocka_unit_test(test_certificates_of_clients_are_checked_where_they_are_asked_for),
        cmocka_unit_test(test_a_revoked_certificate_does_not_come_in),
        cmocka_unit_test(test_nobody_comes_in_by_a_revoked_authority),
        cmocka_unit_test(test_strangers_at_the_door),
        cmocka_unit_test(test_a_hello_without_end_gets_a_small_buffer),
        cmocka_unit_test(test_tls_at_a_plain_door),
        cmocka_unit_test(test_a_protocol_that_is_not_ours_is_refused),
        cmocka_unit_test(test_tls_1_2_is_refused),
        cmocka_unit_test(test_a_proof_is_of_two_connections_a_session_and_a_generation),
    };
    return cmocka_run_group_tests_name("tls", tests, setup, teardown);
}
