/* SPDX-License-Identifier: Apache-2.0 */
/*
 * broker/handshake: clients that load their UCX once they have seen the broker's release, and those
 * that had theirs before. A real broker, a client that speaks byte by byte.
 */
#include "tests/support/door/door_harness.h"
#include "wire/link/ucxlib/ucx_process.h"
#include "wire/link/ucxlib/ucx_release.h"
#include "wire/link/ucxlib/ucx_settings.h"

#include <string.h>

#define FITS(release) ((release) | 0xffu) /* another patch of it */
#define ADDRESS_MAX 4096u                 /* bytes of a worker's that a broker takes */
#define MISFIT UINT32_C(0x011100)         /* 1.17.0 stands between all borders */

/* Hello of a client that loads its UCX when it has seen the broker's; up to the Challenge. The
 * broker's release, or 0: this broker has no UCX. */
static uint32_t say_late_hello(const struct door *door, struct door_client *client,
                               const char *link, Amb__Control__Peer *peer)
{
    char *trusted[] = {(char *)(uintptr_t) "lo"};
    door_connect_tcp(door, client);
    amb__control__peer__init(peer);
    peer->features = AMB_PEER_UCX_LATE;
    peer->ucx_release = MISFIT; /* Its expectation counts for nothing. */
    amb_ucx_segment_sizes(&peer->ucx_tx_seg, &peer->ucx_rx_seg);
    peer->trusted = trusted;
    peer->n_trusted = 1;
    Amb__Control__Hello hello;
    amb__control__hello__init(&hello);
    hello.version_min = hello.version_max = AMB_CONTROL_VERSION;
    hello.client_version = (char *)(uintptr_t) "test";
    hello.name = (char *)(uintptr_t) "late";
    hello.link = (char *)(uintptr_t)link;
    hello.peer = peer;
    Amb__Control__Control message, *answer;
    amb__control__control__init(&message);
    message.body_case = AMB__CONTROL__CONTROL__BODY_HELLO;
    message.hello = &hello;
    door_send(client, &message);
    answer = door_expect(client, AMB__CONTROL__CONTROL__BODY_CHALLENGE);
    uint32_t release = answer->challenge->peer->ucx_release;
    assert_string_equal(answer->challenge->link, "ucx");
    amb_control_free(answer);
    return release;
}

static void say_late_auth(struct door_client *client, uint32_t release, const char *reason,
                          size_t address_len)
{
    static uint8_t address[ADDRESS_MAX + 1] = {1};
    Amb__Control__Auth auth;
    amb__control__auth__init(&auth);
    auth.ucx_release = release;
    auth.ucx_reason = (char *)(uintptr_t)reason;
    auth.ucx_address.data = address;
    auth.ucx_address.len = address_len;
    Amb__Control__Control message;
    amb__control__control__init(&message);
    message.body_case = AMB__CONTROL__CONTROL__BODY_AUTH;
    message.auth = &auth;
    door_send(client, &message);
}

static void expect_stream(struct door_client *client, const char *first, const char *second)
{
    Amb__Control__Control *answer = door_expect(client, AMB__CONTROL__CONTROL__BODY_WELCOME);
    assert_string_equal(answer->welcome->link, "stream");
    assert_non_null(strstr(answer->welcome->link_reason, first));
    assert_non_null(strstr(answer->welcome->link_reason, second));
    assert_int_equal(answer->welcome->ucx_address.len, 0);
    amb_control_free(answer);
    door_disconnect(client);
}

static void test_a_ucx_that_is_loaded_late_is_judged_late(void **state)
{
    (void)state;
    static const char *const options[] = {"transports.trusted=lo", "transports.tcp=on", NULL};
    struct door door;
    struct door_client client;
    Amb__Control__Peer peer;
    char own[AMB_UCX_RELEASE_TEXT_MAX];
    if (!amb_ucx_load()) {
        skip();
    }
    door_open(&door, options);
    /* It has none that fits: a stream serves, and its reason is told, as far as it prints. */
    uint32_t release = say_late_hello(&door, &client, "", &peer);
    assert_int_equal(release, amb_ucx_release());
    (void)amb_ucx_release_text(release, own, sizeof(own));
    say_late_auth(&client, 0, "no UCX\x07 here", 0);
    expect_stream(&client, "no UCX? here", "");
    (void)say_late_hello(&door, &client, "", &peer);
    say_late_auth(&client, 0, "", 0);
    expect_stream(&client, "opened no port", "");
    /* Or it thinks that its own fits, and the broker knows better. */
    (void)say_late_hello(&door, &client, "", &peer);
    say_late_auth(&client, MISFIT, "", 64);
    expect_stream(&client, "1.17.0", own);
    (void)say_late_hello(&door, &client, "ucx", &peer);
    say_late_auth(&client, MISFIT, "", 64);
    door_expect_error(&client, 0, AMB_ENOTSUP, "the client has UCX 1.17.0");
    door_disconnect(&client);
    (void)say_late_hello(&door, &client, "ucx", &peer);
    say_late_auth(&client, 0, "", 0);
    door_expect_error(&client, 0, AMB_ENOTSUP, "the client has no UCX");
    door_disconnect(&client);
    (void)say_late_hello(&door, &client, "ucx", &peer);
    say_late_auth(&client, FITS(release), "", 0);
    door_expect_error(&client, 0, AMB_EPROTO, "UCX worker address is missing");
    door_disconnect(&client);
    /* Too long is too long, whether it would be used or not. */
    for (unsigned i = 0; i < 2; i++) {
        (void)say_late_hello(&door, &client, "", &peer);
        say_late_auth(&client, i == 0 ? MISFIT : FITS(release), "", ADDRESS_MAX + 1);
        door_expect_error(&client, 0, AMB_EPROTO, "UCX worker address is too long");
        door_disconnect(&client);
    }
    /* A reason of its own that is longer than any text of ours. */
    char reason[4 * AMB_CONTROL_TEXT_MAX];
    memset(reason, '%', sizeof(reason) - 1);
    reason[sizeof(reason) - 1] = '\0';
    (void)say_late_hello(&door, &client, "", &peer);
    say_late_auth(&client, UINT32_MAX, reason, 0);
    expect_stream(&client, "%%%", "");
    door_close(&door);
}

static void test_a_ucx_that_is_told_early_is_judged_early(void **state)
{
    (void)state;
    static const char *const options[] = {"transports.trusted=lo", NULL};
    struct door door;
    struct door_client client;
    Amb__Control__Peer peer;
    char *trusted[] = {(char *)(uintptr_t) "lo"};
    if (!amb_ucx_load()) {
        skip();
    }
    door_open(&door, options);
    door_connect_tcp(&door, &client);
    amb__control__peer__init(&peer);
    peer.ucx_release = MISFIT;
    peer.trusted = trusted;
    peer.n_trusted = 1;
    Amb__Control__Hello hello;
    amb__control__hello__init(&hello);
    hello.version_min = hello.version_max = AMB_CONTROL_VERSION;
    hello.link = (char *)(uintptr_t) "ucx";
    hello.peer = &peer;
    Amb__Control__Control message;
    amb__control__control__init(&message);
    message.body_case = AMB__CONTROL__CONTROL__BODY_HELLO;
    message.hello = &hello;
    door_send(&client, &message);
    door_expect_error(&client, 0, AMB_ENOTSUP, "the client has UCX 1.17.0");
    door_disconnect(&client);
    door_close(&door);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_ucx_that_is_loaded_late_is_judged_late),
        cmocka_unit_test(test_a_ucx_that_is_told_early_is_judged_early),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
