/* SPDX-License-Identifier: Apache-2.0 */
/* The certificate that a client has shown: its pin and its names; and connections without one. */
#include "wire/tls/tls_peer.h"

#include "tests/support/tls/tls_made.h"
#include "tests/support/tls/tls_two.h"
#include "wire/tls/tls_bind.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static struct tls_made made;
static struct amb_tls_context *server;

static const struct amb_tls_wish wish = {.name = "broker.example"};

static int setup(void **state)
{
    (void)state;
    tls_made_init(&made);
    tls_made_plain(&made, "server", AMB_TLS_SERVER, "broker.example");
    tls_made_plain(&made, "web", AMB_TLS_CLIENT, "spiffe://plant/web");
    tls_made_plain(&made, "cam", AMB_TLS_CLIENT, "cam7.plant");
    tls_made_plain(&made, "number", AMB_TLS_CLIENT, "192.0.2.1");
    server = tls_made_server(&made, "server", AMB_TLS_CLIENTS_OPTIONAL);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    amb_tls_context_unref(&server);
    tls_made_fini(&made);
    return 0;
}

struct names {
    unsigned count, most;
    char last[64];
};

static bool note(const char *name, void *arg)
{
    struct names *names = arg;
    names->count++;
    (void)snprintf(names->last, sizeof(names->last), "%s", name);
    return names->count < names->most;
}

/* base NULL: without a certificate. */
static void connect_as(struct tls_two *two, const char *base)
{
    struct amb_tls_context *client = tls_made_client(&made, base);
    tls_two_make(two, server, client, &wish);
    assert_false(amb_tls_peer_has_certificate(two->broker)); /* Before the handshake. */
    tls_two_shake(two);
    assert_int_equal(two->broker_status, AMB_OK);
    amb_tls_context_unref(&client);
}

static void has_name(const char *base, unsigned count, const char *name)
{
    struct tls_two two;
    struct names names = {.most = 9};
    char pin[AMB_TLS_PIN_TEXT_MAX], own[AMB_TLS_PIN_TEXT_MAX];
    connect_as(&two, base);
    assert_true(amb_tls_peer_has_certificate(two.broker));
    amb_tls_peer_names(two.broker, note, &names);
    assert_int_equal(names.count, count);
    assert_string_equal(names.last, name);
    assert_true(amb_tls_peer_pin(two.broker, pin));
    struct amb_tls_pair *pair = tls_made_read(&made, base);
    assert_true(amb_tls_pair_pin(pair, own, sizeof(own)));
    assert_string_equal(pin, own);
    amb_tls_pair_free(&pair);
    tls_two_fini(&two);
}

static void test_names_have_their_kind(void **state)
{
    (void)state;
    has_name("web", 1, "uri=spiffe://plant/web");
    has_name("cam", 1, "dns=cam7.plant");
    has_name("number", 0, ""); /* An address is no name of a user. */
}

static void test_without_a_certificate(void **state)
{
    (void)state;
    struct tls_two two;
    struct names names = {.most = 9};
    char pin[AMB_TLS_PIN_TEXT_MAX];
    connect_as(&two, NULL);
    assert_false(amb_tls_peer_has_certificate(two.broker));
    assert_false(amb_tls_peer_pin(two.broker, pin));
    amb_tls_peer_names(two.broker, note, &names);
    assert_int_equal(names.count, 0);
    tls_two_fini(&two);
}

/* The text that a signature covers is known to both ends, and differs from connection to
 * connection. */
static void test_an_exporter_is_of_two_ends(void **state)
{
    (void)state;
    struct tls_two one, other;
    uint8_t ours[AMB_TLS_EXPORTER_SIZE], theirs[AMB_TLS_EXPORTER_SIZE];
    connect_as(&one, NULL);
    connect_as(&other, NULL);
    assert_true(amb_tls_login_exporter(one.broker, ours));
    assert_true(amb_tls_login_exporter(one.client, theirs));
    assert_memory_equal(ours, theirs, sizeof(ours));
    assert_true(amb_tls_login_exporter(other.client, theirs));
    assert_memory_not_equal(ours, theirs, sizeof(ours));
    tls_two_fini(&one);
    tls_two_fini(&other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names_have_their_kind),
        cmocka_unit_test(test_without_a_certificate),
        cmocka_unit_test(test_an_exporter_is_of_two_ends),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
