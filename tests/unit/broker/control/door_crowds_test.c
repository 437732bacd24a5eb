/* SPDX-License-Identifier: Apache-2.0 */
/*
 * broker/door: crowds in front of it, of which some connection has to go. The address with most of
 * them pays, and its refusals that wait go before its other connections. No refusal is told before
 * its time.
 */
#include "broker/control/clients/failures.h"
#include "broker/control/door.h"
#include "tests/support/door/door_harness.h"
#include "tests/support/door/door_tls.h"
#include "wire/base/clock.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define TOKEN "open sesame"
#define MORE 88u /* than may be half open */
#define CROWD_MAX (AMB_HALF_OPEN_MAX + MORE)
#define FEW_FILES 400 /* few descriptors, and so few that are half open */
#define HOST(n) (0x7f000000u + (n))

static const char *const with_token[] = {"auth.token=" TOKEN, NULL};
static struct door_client crowd[CROWD_MAX];

/* The broker has so many descriptors, or as many as there are for 0. Returns the limit before,
 * which the crowd needs. */
static struct rlimit limit_files(rlim_t count)
{
    struct rlimit files, few;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &files), 0);
    few = files;
    few.rlim_cur = count != 0 ? count : files.rlim_cur;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    return files;
}

static void open_with_files(struct door *door, const char *const *options, rlim_t count)
{
    const struct rlimit files = limit_files(count);
    door_open(door, options);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &files), 0);
}

/* ---- a login in two halves ---- */

struct halfway {
    struct door_client client;
    uint8_t proof[32];
};

static void take_challenge(struct halfway *half)
{
    Amb__Control__Control *message =
        door_expect(&half->client, AMB__CONTROL__CONTROL__BODY_CHALLENGE);
    const ProtobufCBinaryData *nonce = &message->challenge->nonce;
    assert_non_null(HMAC(EVP_sha256(), TOKEN, (int)strlen(TOKEN), nonce->data, nonce->len,
                         half->proof, &(unsigned){0}));
    amb_control_free(message);
}

static void begin(struct halfway *half)
{
    door_send_hello(&half->client, "");
    take_challenge(half);
}

static void finish(struct halfway *half)
{
    door_send_auth(&half->client, half->proof);
    amb_control_free(door_expect(&half->client, AMB__CONTROL__CONTROL__BODY_WELCOME));
}

/* ---- counters ---- */

static uint64_t counter(struct door_client *asker, const char *name)
{
    char *text = door_admin(asker, "status");
    char key[64];
    (void)snprintf(key, sizeof(key), "\"%s\":", name);
    const char *at = strstr(text, key);
    assert_non_null(at);
    uint64_t count = strtoull(at + strlen(key), NULL, 10);
    free(text);
    return count;
}

/* By one more client, for which there is room. */
static uint64_t limit_refusals(const struct door *door)
{
    struct halfway asker;
    door_connect_unix(door, &asker.client);
    begin(&asker);
    finish(&asker);
    uint64_t count = counter(&asker.client, "refused_limit");
    door_disconnect(&asker.client);
    return count;
}

/* ---- tests ---- */

/* A few at a time: their Auth is heard before so many have come that one has to go. */
static void fail_in_a_crowd(const struct door *door, unsigned count)
{
    const uint8_t wrong[32] = {1};
    for (unsigned i = 0; i < count; i++) {
        door_connect_tcp(door, &crowd[i]);
        door_send_hello(&crowd[i], "");
        door_send_auth(&crowd[i], wrong);
        for (unsigned j = i & ~7u; (i & 7u) == 7 && j <= i; j++) {
            amb_control_free(door_expect(&crowd[j], AMB__CONTROL__CONTROL__BODY_CHALLENGE));
        }
    }
    for (unsigned j = count & ~7u; j < count; j++) {
        amb_control_free(door_expect(&crowd[j], AMB__CONTROL__CONTROL__BODY_CHALLENGE));
    }
}

static void disconnect_crowd(unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        door_disconnect(&crowd[i]);
    }
}

/* No more of the crowd than an address has free have an answer by now. */
static void expect_none_told_early(unsigned count, int64_t began_ns)
{
    unsigned told = 0;
    for (unsigned i = 0; i < count; i++) {
        uint8_t byte;
        told += recv(crowd[i].fd, &byte, 1, MSG_DONTWAIT | MSG_PEEK) > 0;
    }
    if (amb_clock_monotonic_ns() - began_ns < AMB_FAILURES_DELAY_NS) { /* Else we are too slow. */
        assert_in_range(told, 0, AMB_FAILURES_FREE);
    }
}

/* Each has an answer, or was closed without one. */
static void hear_crowd(unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        Amb__Control__Control *message = door_receive(&crowd[i]);
        if (message == NULL) {
            continue;
        }
        assert_int_equal(message->body_case, AMB__CONTROL__CONTROL__BODY_ERROR);
        assert_int_equal(message->error->status, AMB_EAUTH);
        assert_string_equal(message->error->text, "not authenticated");
        amb_control_free(message);
        door_expect_closed(&crowd[i]);
    }
}

/* Honest clients come first, and so are the oldest: one over TCP, one that has said nothing yet,
 * and one over the Unix socket. */
static void stand_against_wrong_logins(rlim_t files, uint32_t crowd_host, uint32_t honest_host)
{
    struct door door;
    struct halfway spoken, silent, local;
    open_with_files(&door, with_token, files);
    const unsigned count = door.config->server.max_half_open + MORE;
    door.from = honest_host;
    door_connect_tcp(&door, &spoken.client);
    begin(&spoken);
    door_connect_tcp(&door, &silent.client);
    door_connect_unix(&door, &local.client);
    begin(&local);
    door.from = crowd_host;
    int64_t began_ns = amb_clock_monotonic_ns();
    fail_in_a_crowd(&door, count);
    expect_none_told_early(count, began_ns);
    finish(&spoken);
    begin(&silent);
    finish(&silent);
    finish(&local);
    hear_crowd(count);
    assert_int_equal(counter(&local.client, "refused_auth"), count);
    assert_int_equal(counter(&local.client, "refused_limit"), 0); /* Each has one reason. */
    disconnect_crowd(count);
    door_disconnect(&spoken.client);
    door_disconnect(&silent.client);
    door_disconnect(&local.client);
    door_close(&door);
}

static void test_wrong_logins_of_an_address_push_out_none_of_another(void **state)
{
    (void)state;
    stand_against_wrong_logins(0, HOST(2), HOST(3));
}

/* The same, with a crowd that is there within the delay on any machine. */
static void test_with_few_descriptors_wrong_logins_push_out_no_other_address(void **state)
{
    (void)state;
    stand_against_wrong_logins(FEW_FILES, HOST(2), HOST(3));
}

static void test_wrong_logins_go_before_others_of_the_same_address(void **state)
{
    (void)state;
    stand_against_wrong_logins(FEW_FILES, HOST(1), HOST(1));
}

static void test_silent_clients_of_an_address_push_out_none_of_another(void **state)
{
    (void)state;
    struct door door;
    struct halfway silent, spoken;
    open_with_files(&door, with_token, FEW_FILES);
    const unsigned count = door.config->server.max_half_open + MORE;
    door.from = HOST(3);
    door_connect_tcp(&door, &silent.client);
    door_connect_tcp(&door, &spoken.client);
    begin(&spoken);
    door.from = HOST(2);
    for (unsigned i = 0; i < count; i++) {
        door_connect_tcp(&door, &crowd[i]);
    }
    for (unsigned i = 0; i < MORE + 2; i++) {
        door_expect_closed(&crowd[i]);
    }
    begin(&silent);
    finish(&silent);
    finish(&spoken);
    assert_int_equal(limit_refusals(&door), MORE + 2);
    disconnect_crowd(count);
    door_disconnect(&silent.client);
    door_disconnect(&spoken.client);
    door_close(&door);
}

/* Hello costs nothing, and so helps no crowd. */
static void test_half_logins_of_an_address_push_out_none_of_another(void **state)
{
    (void)state;
    struct door door;
    struct halfway spoken;
    open_with_files(&door, with_token, FEW_FILES);
    const unsigned count = door.config->server.max_half_open + MORE;
    door.from = HOST(3);
    door_connect_tcp(&door, &spoken.client);
    begin(&spoken);
    door.from = HOST(2);
    for (unsigned i = 0; i < count; i++) {
        door_connect_tcp(&door, &crowd[i]);
        door_send_hello(&crowd[i], "");
        amb_control_free(door_expect(&crowd[i], AMB__CONTROL__CONTROL__BODY_CHALLENGE));
    }
    for (unsigned i = 0; i < MORE + 1; i++) {
        door_expect_closed(&crowd[i]);
    }
    finish(&spoken);
    assert_int_equal(limit_refusals(&door), MORE + 1);
    disconnect_crowd(count);
    door_disconnect(&spoken.client);
    door_close(&door);
}

/* ---- TLS beside others ---- */

static struct tls_made made;

static void open_with_tls(struct door *door)
{
    const struct rlimit files = limit_files(FEW_FILES);
    door_open_tls(door, &made, with_token[0]);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &files), 0);
}

/* A connection that says nothing at the door of TLS. */
static void stand_at_tls(const struct door *door, uint32_t host, struct door_client *client)
{
    struct door at = *door;
    at.from = host;
    at.tcp_port = door->tls_port;
    door_connect_tcp(&at, client);
}

/* All connections that came before are known to the door. */
static void settle(struct door *door)
{
    struct halfway asker;
    door_connect_unix(door, &asker.client);
    begin(&asker);
    finish(&asker);
    door_disconnect(&asker.client);
}

/* A third of a full door came by TLS from one address. All others came by TCP, each from an address
 * of its own. So the crowd by TLS is the largest. */
static void test_a_crowd_by_tls_pays_for_newcomers_by_tcp(void **state)
{
    (void)state;
    struct door door;
    static struct halfway plain[CROWD_MAX];
    struct door_client late[4];
    open_with_tls(&door);
    const unsigned most = door.config->server.max_half_open, at_tls = most / 3;
    assert_true(at_tls > 4);
    for (unsigned i = 0; i < most - at_tls - 1; i++) { /* One of `most` is for settle(). */
        door.from = HOST(10 + i);
        door_connect_tcp(&door, &plain[i].client);
        begin(&plain[i]);
    }
    for (unsigned i = 0; i < at_tls; i++) {
        stand_at_tls(&door, HOST(2), &crowd[i]);
    }
    settle(&door);
    for (unsigned i = 0; i < 4; i++) {
        door.from = HOST(200 + i);
        door_connect_tcp(&door, &late[i]);
    }
    for (unsigned i = 0; i < 3; i++) {
        door_expect_closed(&crowd[i]);
    }
    for (unsigned i = 0; i < most - at_tls - 1; i++) {
        finish(&plain[i]);
    }
    assert_int_equal(limit_refusals(&door), 0);
    for (unsigned i = 0; i < most - at_tls - 1; i++) {
        door_disconnect(&plain[i].client);
    }
    for (unsigned i = 0; i < 4; i++) {
        door_disconnect(&late[i]);
    }
    disconnect_crowd(at_tls);
    door_close(&door);
}

/* A third of a full door came by TCP from one address, and all others by TLS. */
static void test_a_crowd_by_tcp_pays_for_newcomers_by_tls(void **state)
{
    (void)state;
    struct door door;
    static struct door_client at_tls[CROWD_MAX];
    struct door_client late[4];
    open_with_tls(&door);
    const unsigned most = door.config->server.max_half_open, plain = most / 3;
    for (unsigned i = 0; i < most - plain - 1; i++) {
        stand_at_tls(&door, HOST(10 + i), &at_tls[i]);
    }
    door.from = HOST(2);
    for (unsigned i = 0; i < plain; i++) {
        door_connect_tcp(&door, &crowd[i]);
    }
    settle(&door);
    for (unsigned i = 0; i < 4; i++) {
        stand_at_tls(&door, HOST(200 + i), &late[i]);
    }
    for (unsigned i = 0; i < 3; i++) {
        door_expect_closed(&crowd[i]);
    }
    settle(&door);
    for (unsigned i = 0; i < most - plain - 1; i++) {
        uint8_t byte;
        assert_int_equal(recv(at_tls[i].fd, &byte, 1, MSG_DONTWAIT), -1); /* Nothing, no end. */
    }
    for (unsigned i = 0; i < most - plain - 1; i++) {
        door_disconnect(&at_tls[i]);
    }
    for (unsigned i = 0; i < 4; i++) {
        door_disconnect(&late[i]);
    }
    disconnect_crowd(plain);
    door_close(&door);
}

/* ---- a handshaker that has much else to do ---- */

static atomic_bool handshaker_waits; /* with its next close */

int __real_close(int fd);
int __wrap_close(int fd);

int __wrap_close(int fd)
{
    char name[16] = "";
    const struct timespec pause = {.tv_nsec = 1000000};
    while (atomic_load(&handshaker_waits) &&
           pthread_getname_np(pthread_self(), name, sizeof(name)) == 0 &&
           strcmp(name, "amb-handshaker") == 0) {
        (void)nanosleep(&pause, NULL);
    }
    return __real_close(fd);
}

#define STANDING 6u
#define FILLERS_MAX 512u

/* Without a descriptor one goes for each that comes: the next one not before that has closed. */
static void test_one_handshake_alone_goes_however_long_its_close_takes(void **state)
{
    (void)state;
    struct door door;
    struct halfway asker;
    struct door_client late = {.fd = -1};
    struct rlimit files, none;
    static int fillers[FILLERS_MAX];
    const struct timespec many_pauses = {.tv_nsec = 200000000};
    unsigned filled = 0, gone = 0;
    open_with_tls(&door);
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    memcpy(address.sun_path, door.socket_path, sizeof(door.socket_path));
    door_connect_unix(&door, &asker.client);
    begin(&asker);
    finish(&asker);
    for (unsigned i = 0; i < STANDING; i++) {
        stand_at_tls(&door, HOST(2), &crowd[i]);
    }
    while (counter(&asker.client, "tls_half_open") != STANDING) { /* The test has a time limit. */
    }
    late.fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(late.fd >= 0);
    /* From here on this process has only the descriptors that it gives back. */
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &files), 0);
    none = files;
    none.rlim_cur = (rlim_t)late.fd + 1;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    while (filled < FILLERS_MAX && (fillers[filled] = dup(asker.client.fd)) >= 0) {
        filled++;
    }
    assert_true(filled < FILLERS_MAX);
    atomic_store(&handshaker_waits, true);
    assert_int_equal(connect(late.fd, (const struct sockaddr *)&address, sizeof(address)), 0);
    (void)nanosleep(&many_pauses, NULL);
    atomic_store(&handshaker_waits, false);
    door_expect_closed(&crowd[0]);
    amb_control_reader_init(&late.reader);
    door_send_hello(&late, "");
    amb_control_free(door_expect(&late, AMB__CONTROL__CONTROL__BODY_CHALLENGE));
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &files), 0);
    for (unsigned i = 0; i < filled; i++) {
        (void)close(fillers[i]);
    }
    settle(&door);
    for (unsigned i = 0; i < STANDING; i++) {
        uint8_t byte;
        gone += recv(crowd[i].fd, &byte, 1, MSG_DONTWAIT | MSG_PEEK) == 0;
    }
    assert_int_equal(gone, 1);
    disconnect_crowd(STANDING);
    door_disconnect(&late);
    door_disconnect(&asker.client);
    door_close(&door);
}

#define T(test) cmocka_unit_test(test)

int main(void)
{
    static const struct CMUnitTest tests[] = {
        T(test_wrong_logins_of_an_address_push_out_none_of_another),
        T(test_with_few_descriptors_wrong_logins_push_out_no_other_address),
        T(test_wrong_logins_go_before_others_of_the_same_address),
        T(test_silent_clients_of_an_address_push_out_none_of_another),
        T(test_half_logins_of_an_address_push_out_none_of_another),
        T(test_a_crowd_by_tls_pays_for_newcomers_by_tcp),
        T(test_a_crowd_by_tcp_pays_for_newcomers_by_tls),
        T(test_one_handshake_alone_goes_however_long_its_close_takes),
    };
    tls_made_init(&made);
    tls_made_plain(&made, "server", AMB_TLS_SERVER, "localhost");
    int failed = cmocka_run_group_tests_name("broker/door_crowds", tests, NULL, NULL);
    tls_made_fini(&made);
    return failed;
}
