/* SPDX-License-Identifier: Apache-2.0 */
/*
 * broker/handshake: from a connection to a session, on both doors, and every way to be refused. A
 * real broker, a client that speaks byte by byte.
 */
#include "broker/control/clients/control.h"
#include "broker/control/clients/failures.h"
#include "tests/support/door/door_harness.h"
#include "tests/support/lingering.h"
#include "wire/base/clock.h"
#include "wire/link/ring/ring.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static void make_proof(const char *token, const Amb__Control__Challenge *challenge,
                       uint8_t proof[32])
{
    unsigned len = 0;
    assert_int_equal(challenge->nonce.len, 32);
    assert_non_null(HMAC(EVP_sha256(), token, (int)strlen(token), challenge->nonce.data,
                         challenge->nonce.len, proof, &len));
    assert_int_equal(len, 32);
}

/* Hello, then a proof made from this token; the answer is left to be read. */
static void answer_challenge(struct door_client *client, const char *token, uint8_t proof[32])
{
    door_send_hello(client, "");
    Amb__Control__Control *message = door_expect(client, AMB__CONTROL__CONTROL__BODY_CHALLENGE);
    assert_string_equal(message->challenge->mechanism, "token");
    make_proof(token, message->challenge, proof);
    amb_control_free(message);
    door_send_auth(client, proof);
}

static void send_hello_versions(struct door_client *client, uint32_t min, uint32_t max)
{
    Amb__Control__Hello hello;
    amb__control__hello__init(&hello);
    hello.version_min = min;
    hello.version_max = max;
    Amb__Control__Control message;
    amb__control__control__init(&message);
    message.body_case = AMB__CONTROL__CONTROL__BODY_HELLO;
    message.hello = &hello;
    door_send(client, &message);
}

static void send_attach(struct door_client *client, const struct door_session *session,
                        uint64_t secret)
{
    Amb__Control__Attach attach;
    amb__control__attach__init(&attach);
    attach.session = session->session;
    attach.generation = session->generation;
    attach.secret = secret;
    Amb__Control__Control message;
    amb__control__control__init(&message);
    message.id = 1;
    message.body_case = AMB__CONTROL__CONTROL__BODY_ATTACH;
    message.attach = &attach;
    door_send(client, &message);
}

/* A link's callbacks that nobody shall call. */
static enum amb_status no_frame(void *arg, const struct amb_frame *frame, void **dst, void **cookie,
                                struct amb_link_mem **mem)
{
    (void)arg, (void)frame, (void)dst, (void)cookie, (void)mem;
    return AMB_EPROTO;
}
static enum amb_status no_body(void *arg, void *cookie, enum amb_status status)
{
    (void)arg, (void)cookie, (void)status;
    return AMB_EPROTO;
}
static enum amb_status no_flow(void *arg, enum amb_flow_kind kind, uint32_t handle, uint64_t value)
{
    (void)arg, (void)kind, (void)handle, (void)value;
    return AMB_EPROTO;
}
static void no_sent(void *arg, struct amb_link_tx *tx, enum amb_status status)
{
    (void)arg, (void)tx, (void)status;
}
static void note_down(void *arg, enum amb_status why, const char *text)
{
    (void)why, (void)text;
    *(bool *)arg = true;
}
static void no_closed(void *arg)
{
    (void)arg;
}
static const struct amb_link_events quiet_events = {.on_frame = no_frame,
                                                    .on_body = no_body,
                                                    .on_flow = no_flow,
                                                    .on_sent = no_sent,
                                                    .on_down = note_down,
                                                    .on_closed = no_closed};

static void test_unix_client_gets_a_ring_with_sealed_memory(void **state)
{
    (void)state;
    struct door door;
    struct door_client client;
    struct door_session session;
    door_open(&door, NULL);
    door_connect_unix(&door, &client);
    door_login(&client, "", &session);
    assert_string_equal(session.link, "ring");
    assert_int_equal(session.ring_size, 64 << 10);
    assert_int_equal(session.may_map, 1);
    assert_int_not_equal(session.secret, 0);
    assert_int_equal(client.fd_count, 2);
    int seals = fcntl(client.fds[0], F_GET_SEALS);
    assert_int_equal(seals & (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL),
                     F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
    struct amb_ring_fds fds = {client.fds[0], client.fds[1]};
    client.fd_count = 0;
    bool is_down = false;
    struct amb_link *link;
    assert_int_equal(amb_ring_attach(session.ring_size, &fds, &quiet_events, &is_down, &link),
                     AMB_OK);
    (void)amb_link_poll(link, 16);
    assert_false(is_down);
    assert_true(amb_link_close(link));
    door_disconnect(&client);
    door_close(&door);
}

static void test_challenge_says_who_the_broker_is(void **state)
{
    (void)state;
    struct door door;
    struct door_client client;
    door_open(&door, NULL);
    door_connect_unix(&door, &client);
    door_send_hello(&client, "");
    Amb__Control__Control *message = door_expect(&client, AMB__CONTROL__CONTROL__BODY_CHALLENGE);
    assert_int_equal(message->challenge->version, AMB_CONTROL_VERSION);
    assert_int_equal(message->challenge->nonce.len, 32);
    assert_int_not_equal(message->challenge->epoch, 0);
    assert_string_equal(message->challenge->mechanism, "peer");
    assert_string_equal(message->challenge->link, "ring");
    struct stat st;
    assert_int_equal(stat("/proc/self/ns/pid", &st), 0);
    assert_int_equal(message->challenge->peer->pid_ns, st.st_ino);
    amb_control_free(message);
    door_disconnect(&client);
    door_close(&door);
}

static void test_tcp_client_gets_a_stream_and_attaches_it_once(void **state)
{
    (void)state;
    struct door door;
    struct door_client client, data, again;
    struct door_session session;
    door_open(&door, NULL);
    door_connect_tcp(&door, &client);
    door_login(&client, "", &session);
    assert_string_equal(session.link, "stream");
    assert_int_equal(session.may_map, 0);
    assert_int_equal(client.fd_count, 0);
    door_connect_tcp(&door, &data);
    send_attach(&data, &session, session.secret);
    door_expect_ok(&data, 1);
    door_pub_open(&client, 0, "a.b");
    /* The second stream ends, and its session with it: nobody else knows the secret. */
    door_connect_tcp(&door, &again);
    send_attach(&again, &session, session.secret);
    door_expect_ok(&again, 1);
    door_expect_closed(&again);
    door_expect_error(&client, 0, AMB_ESTATE, "attached");
    door_expect_closed(&client);
    door_disconnect(&again);
    door_disconnect(&data);
    door_disconnect(&client);
    door_close(&door);
}

static void test_unix_client_may_ask_for_a_stream(void **state)
{
    (void)state;
    struct door door;
    struct door_client client, data;
    struct door_session session;
    door_open(&door, NULL);
    door_connect_unix(&door, &client);
    door_login(&client, "stream", &session);
    assert_string_equal(session.link, "stream");
    assert_int_equal(client.fd_count, 0);
    door_connect_unix(&door, &data);
    send_attach(&data, &session, session.secret);
    door_expect_ok(&data, 1);
    door_disconnect(&data);
    /* A stream that ends takes its session along. */
    door_expect_closed(&client);
    door_disconnect(&client);
    door_close(&door);
}

static void test_attach_without_the_secret_is_refused(void **state)
{
    (void)state;
    struct door door;
    struct door_client client, data;
    struct door_session session;
    door_open(&door, NULL);
    door_connect_tcp(&door, &client);
    door_login(&client, "", &session);
    door_connect_tcp(&door, &data);
    send_attach(&data, &session, session.secret ^ 1);
    door_expect_error(&data, 0, AMB_EAUTH, "not authenticated");
    door_expect_closed(&data);
    door_disconnect(&data);
    session.generation += 2;
    door_connect_tcp(&door, &data);
    send_attach(&data, &session, session.secret);
    door_expect_error(&data, 0, AMB_EAUTH, "not authenticated");
    door_disconnect(&data);
    door_pub_open(&client, 0, "still.there");
    door_disconnect(&client);
    door_close(&door);
}

static void test_attach_to_a_ring_session_is_refused(void **state)
{
    (void)state;
    struct door door;
    struct door_client client, data;
    struct door_session session;
    door_open(&door, NULL);
    door_connect_unix(&door, &client);
    door_login(&client, "", &session);
    door_connect_tcp(&door, &data);
    send_attach(&data, &session, session.secret);
    door_expect_error(&data, 0, AMB_EAUTH, "not authenticated");
    door_disconnect(&data);
    door_disconnect(&client);
    door_close(&door);
}

static const char *const with_token[] = {"auth.token=open sesame", NULL};

static void test_right_token_is_welcome(void **state)
{
    (void)state;
    struct door door;
    struct door_client client;
    uint8_t proof[32];
    door_open(&door, with_token);
    door_connect_tcp(&door, &client);
    answer_challenge(&client, "open sesame", proof);
    amb_control_free(door_expect(&client, AMB__CONTROL__CONTROL__BODY_WELCOME));
    door_disconnect(&client);
    door_close(&door);
}

static void test_wrong_missing_or_replayed_proof_is_refused_with_one_text(void **state)
{
    (void)state;
    struct door door;
    struct door_client client;
    uint8_t proof[32], replayed[32];
    door_open(&door, with_token);
    door_connect_tcp(&door, &client);
    answer_challenge(&client, "open barley", proof);
    door_expect_error(&client, 0, AMB_EAUTH, "not authenticated");
    door_expect_closed(&client);
    door_disconnect(&client);

    door_connect_tcp(&door, &client);
    door_send_hello(&client, "");
    amb_control_free(door_expect(&client, AMB__CONTROL__CONTROL__BODY_CHALLENGE));
    door_send_auth(&client, NULL);
    door_expect_error(&client, 0, AMB_EAUTH, "not authenticated");
    door_disconnect(&client);

    door_connect_tcp(&door, &client);
    answer_challenge(&client, "open sesame", replayed);
    amb_control_free(door_expect(&client, AMB__CONTROL__CONTROL__BODY_WELCOME));
    door_disconnect(&client);
    door_connect_tcp(&door, &client); /* Another nonce: an overheard answer is worth nothing. */
    door_send_hello(&client, "");
    amb_control_free(door_expect(&client, AMB__CONTROL__CONTROL__BODY_CHALLENGE));
    int64_t before_ns = amb_clock_monotonic_ns();
    door_send_auth(&client, replayed);
    door_expect_error(&client, 0, AMB_EAUTH, "not authenticated");
    door_expect_closed(&client);
    /* The third failure of this address: it was let wait. */
    assert_true(amb_clock_monotonic_ns() - before_ns >= AMB_FAILURES_DELAY_NS * 9 / 10);
    door_disconnect(&client);
    door_close(&door);
}

static void test_unix_client_needs_no_token(void **state)
{
    (void)state;
    struct door door;
    struct door_client client;
    door_open(&door, with_token);
    door_login_unix(&door, &client);
    door_disconnect(&client);
    door_close(&door);
}

static void test_other_versions_are_refused_with_ours(void **state)
{
    (void)state;
    static const uint32_t ranges[][2] = {{2, 9}, {0, 0}, {5, 1}};
    struct door door;
    struct door_client client;
    door_open(&door, NULL);
    for (size_t i = 0; i < 3; i++) {
        door_connect_unix(&door, &client);
        send_hello_versions(&client, ranges[i][0], ranges[i][1]);
        door_expect_error(&client, 0, AMB_EVERSION, "this broker speaks 1 to 1");
        door_expect_closed(&client);
        door_disconnect(&client);
    }
    door_connect_unix(&door, &client);
    send_hello_versions(&client, 1, 7);
    amb_control_free(door_expect(&client, AMB__CONTROL__CONTROL__BODY_CHALLENGE));
    door_disconnect(&client);
    door_close(&door);
}

static void expect_link_refused(const struct door *door, bool is_unix, const char *link,
                                enum amb_status status, const char *text)
{
    struct door_client client;
    if (is_unix) {
        door_connect_unix(door, &client);
    } else {
        door_connect_tcp(door, &client);
    }
    door_send_hello(&client, link);
    door_expect_error(&client, 0, status, text);
    door_expect_closed(&client);
    door_disconnect(&client);
}

static void test_links_that_cannot_be_had_are_refused_with_a_reason(void **state)
{
    (void)state;
    struct door door;
    door_open(&door, NULL);
    expect_link_refused(&door, false, "ucx", AMB_ENOTSUP, "transports.trusted");
    expect_link_refused(&door, true, "ucx", AMB_ENOTSUP, "transports.trusted");
    expect_link_refused(&door, false, "ring", AMB_EINVAL, "unix://");
    expect_link_refused(&door, true, "pigeon", AMB_EINVAL, "unknown link");
    door_close(&door);
}

static void test_ucx_needs_trust_on_the_client_too(void **state)
{
    (void)state;
    static const char *const options[] = {"transports.trusted=lo", NULL};
    struct door door;
    door_open(&door, options);
    expect_link_refused(&door, false, "ucx", AMB_ENOTSUP, "trusted_network");
    door_close(&door);
}

static void test_ucx_address_only_where_it_is_asked_for(void **state)
{
    (void)state;
    struct door door;
    struct door_client client;
    door_open(&door, NULL);
    door_connect_unix(&door, &client);
    door_send_hello(&client, "");
    amb_control_free(door_expect(&client, AMB__CONTROL__CONTROL__BODY_CHALLENGE));
    Amb__Control__Auth auth;
    amb__control__auth__init(&auth);
    uint8_t address[5000] = {1};
    auth.ucx_address.data = address;
    auth.ucx_address.len = sizeof(address);
    Amb__Control__Control message;
    amb__control__control__init(&message);
    message.body_case = AMB__CONTROL__CONTROL__BODY_AUTH;
    message.auth = &auth;
    door_send(&client, &message);
    door_expect_error(&client, 0, AMB_EPROTO, "UCX worker address");
    door_disconnect(&client);
    door_close(&door);
}

static void test_commands_come_after_authentication(void **state)
{
    (void)state;
    struct door door;
    struct door_client client;
    door_open(&door, NULL);
    door_connect_unix(&door, &client);
    (void)door_ask_pub_open(&client, 0, "a");
    door_expect_error(&client, 0, AMB_EAUTH, "authentication comes first");
    door_expect_closed(&client);
    door_disconnect(&client);

    door_connect_tcp(&door, &client);
    door_send_hello(&client, "");
    amb_control_free(door_expect(&client, AMB__CONTROL__CONTROL__BODY_CHALLENGE));
    (void)door_ask_subscribe(&client, 0, ">");
    door_expect_error(&client, 0, AMB_EAUTH, "authentication comes first");
    door_disconnect(&client);

    door_connect_tcp(&door, &client);
    door_send_auth(&client, NULL);
    door_expect_error(&client, 0, AMB_EAUTH, "authentication comes first");
    door_disconnect(&client);
    door_close(&door);
}

static void test_descriptors_that_are_not_asked_for_end_the_session(void **state)
{
    (void)state;
    struct door door;
    struct door_client client;
    door_open(&door, NULL);
    unsigned before = door_count_fds();
    Amb__Control__Ping ping;
    amb__control__ping__init(&ping);
    Amb__Control__Control message;
    amb__control__control__init(&message);
    message.body_case = AMB__CONTROL__CONTROL__BODY_PING;
    message.ping = &ping;
    const int fds[4] = {0, 0, 0, 0};
    for (unsigned count = 1; count <= 4; count++) {
        door_login_unix(&door, &client);
        door_send_with(&client, &message, fds, count);
        door_expect_error(&client, 0, AMB_EPROTO, "descriptors were passed and not asked for");
        door_expect_closed(&client);
        door_disconnect(&client);
    }
    door_await_fds(before);
    door_close(&door);
}

/* Closed by the broker's thread, each of these would hold it up for a minute. */
static void test_a_passed_socket_that_lingers_keeps_nobody_waiting(void **state)
{
    (void)state;
    struct door door;
    struct door_client client, other, stream;
    struct door_session session;
    int peers[4];
    door_open(&door, NULL);
    door_connect_unix(&door, &client); /* Read, before anybody has said who it is. */
    lingering_pass(client.fd, "AMB", &peers[0]);
    door_login_unix(&door, &other);
    door_disconnect(&client);
    door_connect_unix(&door, &client); /* Nor has it said anything when it is pushed out. */
    lingering_pass(client.fd, "A", &peers[1]);
    door_disconnect(&client);
    door_send_ping(&other, 1);
    amb_control_free(door_expect(&other, AMB__CONTROL__CONTROL__BODY_PONG));
    door_connect_unix(&door, &client); /* On a stream, where a worker reads. */
    door_login(&client, "stream", &session);
    door_connect_unix(&door, &stream);
    send_attach(&stream, &session, session.secret);
    door_expect_ok(&stream, 1);
    lingering_pass(stream.fd, "not a unit", &peers[2]);
    door_expect_error(&client, 0, AMB_EPROTO, "descriptors were passed on a stream");
    door_disconnect(&stream);
    door_disconnect(&client);
    door_connect_unix(&door, &client); /* Behind what ends the connection: never read. */
    assert_int_equal(send(client.fd, "nonsense", 8, MSG_NOSIGNAL), 8);
    lingering_pass(client.fd, "AMB", &peers[3]);
    amb_control_free(door_receive(&client)); /* It may be told, or not. */
    door_disconnect(&client);
    door_pub_open(&other, 0, "a"); /* A worker answers. */
    door_disconnect(&other);
    door_close(&door);
    for (unsigned i = 0; i < 4; i++) {
        (void)close(peers[i]);
    }
}

/* A kernel before SO_PEERPIDFD, and a client in a PID namespace that we do not see into. */
static bool is_kernel_old;

int __real_getsockopt(int fd, int level, int name, void *value, socklen_t *len);
int __wrap_getsockopt(int fd, int level, int name, void *value, socklen_t *len);

int __wrap_getsockopt(int fd, int level, int name, void *value, socklen_t *len)
{
    if (is_kernel_old && level == SOL_SOCKET && name == 77) {
        errno = ENOPROTOOPT;
        return -1;
    }
    int rc = __real_getsockopt(fd, level, name, value, len);
    if (is_kernel_old && rc == 0 && level == SOL_SOCKET && name == SO_PEERCRED) {
        ((struct ucred *)value)->pid = 0;
    }
    return rc;
}

static void send_auth_with(const struct door *door, struct door_client *client, const int *fds,
                           unsigned count)
{
    if (door != NULL) {
        door_connect_unix(door, client);
    }
    door_send_hello(client, "");
    Amb__Control__Control *challenge = door_expect(client, AMB__CONTROL__CONTROL__BODY_CHALLENGE);
    assert_int_equal(challenge->challenge->knows_process, !is_kernel_old);
    amb_control_free(challenge);
    Amb__Control__Auth auth;
    amb__control__auth__init(&auth);
    Amb__Control__Control message;
    amb__control__control__init(&message);
    message.body_case = AMB__CONTROL__CONTROL__BODY_AUTH;
    message.auth = &auth;
    door_send_with(client, &message, fds, count);
}

static void expect_welcome(struct door_client *client, bool may_map)
{
    Amb__Control__Control *welcome = door_expect(client, AMB__CONTROL__CONTROL__BODY_WELCOME);
    assert_int_equal(welcome->welcome->may_map, may_map);
    amb_control_free(welcome);
}

static void test_the_kernel_s_word_for_a_process_is_enough(void **state)
{
    (void)state;
    struct door door;
    struct door_client client;
    door_open(&door, NULL);
    int pidfd = (int)syscall(SYS_pidfd_open, getpid(), 0);
    assert_true(pidfd >= 0);
    send_auth_with(&door, &client, NULL, 0);
    expect_welcome(&client, true);
    door_disconnect(&client);
    send_auth_with(&door, &client, &pidfd, 1);
    door_expect_error(&client, 0, AMB_EPROTO, "descriptors were passed and not asked for");
    door_disconnect(&client);
    (void)close(pidfd);
    door_close(&door);
}

static void test_a_pidfd_that_is_asked_for_is_taken_and_nothing_else(void **state)
{
    (void)state;
    struct door door;
    struct door_client client;
    is_kernel_old = true;
    door_open(&door, NULL);
    int pidfd = (int)syscall(SYS_pidfd_open, getpid(), 0);
    assert_true(pidfd >= 0);
    const int two[] = {pidfd, pidfd}, wrong[] = {0, 1};
    send_auth_with(&door, &client, &pidfd, 1);
    expect_welcome(&client, true);
    door_disconnect(&client);
    send_auth_with(&door, &client, NULL, 0);
    expect_welcome(&client, false);
    door_disconnect(&client);
    for (unsigned i = 0; i < AMB_KEPT_FDS_MAX / 2; i++) {
        send_auth_with(&door, &client, i % 2 == 0 ? two : wrong, 2);
        door_expect_error(&client, 0, AMB_EPROTO, "descriptors were passed and not asked for");
        door_disconnect(&client);
    }
    /* As many are kept as may be: nobody is asked any more. */
    door_connect_unix(&door, &client);
    door_send_hello(&client, "");
    Amb__Control__Control *challenge = door_expect(&client, AMB__CONTROL__CONTROL__BODY_CHALLENGE);
    assert_int_equal(challenge->challenge->knows_process, 1);
    amb_control_free(challenge);
    door_disconnect(&client);
    (void)close(pidfd);
    door_close(&door);
    is_kernel_old = false;
}

/* Items in the epolls of this process, the broker's and nobody else's. */
static unsigned count_epoll_items(void)
{
    unsigned count = 0;
    for (int fd = 0; fd < 1024; fd++) {
        char path[64], line[256];
        (void)snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
        FILE *info = fopen(path, "re");
        while (info != NULL && fgets(line, sizeof(line), info) != NULL) {
            count += strncmp(line, "tfd:", 4) == 0;
        }
        if (info != NULL) {
            (void)fclose(info);
        }
    }
    return count;
}

static void test_no_item_is_left_of_a_bell_that_its_client_keeps(void **state)
{
    (void)state;
    struct door door;
    struct door_client client;
    door_open(&door, NULL);
    unsigned before = count_epoll_items();
    door_login_unix(&door, &client);
    assert_int_equal(client.fd_count, 2); /* memory, bell */
    assert_true(count_epoll_items() > before);
    (void)close(client.fd);
    client.fd = -1;
    int64_t deadline_ns = amb_clock_monotonic_ns() + 10 * AMB_NS_PER_SEC;
    while (count_epoll_items() != before && amb_clock_monotonic_ns() < deadline_ns) {
        (void)usleep(1000);
    }
    assert_int_equal(count_epoll_items(), before);
    door_disconnect(&client);
    door_close(&door);
}

static void test_a_process_that_ends_after_its_client_was_freed_hurts_nobody(void **state)
{
    (void)state;
    struct door door;
    struct door_client client, other;
    is_kernel_old = true; /* So that the broker watches the client's own. */
    door_open(&door, NULL);
    unsigned before = door_count_fds();
    pid_t pid = door_connect_as_another(&door, &client);
    int pidfd = (int)syscall(SYS_pidfd_open, pid, 0); /* Kept, as a child of the client would. */
    assert_true(pidfd >= 0);
    send_auth_with(NULL, &client, &pidfd, 1);
    expect_welcome(&client, true);
    Amb__Control__Bye bye;
    amb__control__bye__init(&bye);
    Amb__Control__Control message;
    amb__control__control__init(&message);
    message.body_case = AMB__CONTROL__CONTROL__BODY_BYE;
    message.bye = &bye;
    door_send(&client, &message);
    door_expect_closed(&client);
    door_disconnect(&client);
    door_await_fds(before + 1); /* With our pidfd: it is buried. */
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    door_login_unix(&door, &other); /* The broker has had its turns. */
    door_disconnect(&other);
    (void)close(pidfd);
    door_close(&door);
    is_kernel_old = false;
}

static void test_everything_is_given_back_when_clients_leave(void **state)
{
    (void)state;
    struct door door;
    struct door_client client;
    door_open(&door, NULL);
    door_login_unix(&door, &client);
    door_disconnect(&client);
    unsigned before = door_count_fds(); /* May still hold the first session. */
    for (int i = 0; i < 50; i++) {
        door_connect_unix(&door, &client);
        door_login(&client, i % 2 == 0 ? "ring" : "stream", NULL);
        door_disconnect(&client);
    }
    door_close(&door);
    assert_true(door_count_fds() < before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_unix_client_gets_a_ring_with_sealed_memory),
        cmocka_unit_test(test_challenge_says_who_the_broker_is),
        cmocka_unit_test(test_tcp_client_gets_a_stream_and_attaches_it_once),
        cmocka_unit_test(test_unix_client_may_ask_for_a_stream),
        cmocka_unit_test(test_attach_without_the_secret_is_refused),
        cmocka_unit_test(test_attach_to_a_ring_session_is_refused),
        cmocka_unit_test(test_right_token_is_welcome),
        cmocka_unit_test(test_wrong_missing_or_replayed_proof_is_refused_with_one_text),
        cmocka_unit_test(test_unix_client_needs_no_token),
        cmocka_unit_test(test_other_versions_are_refused_with_ours),
        cmocka_unit_test(test_links_that_cannot_be_had_are_refused_with_a_reason),
        cmocka_unit_test(test_ucx_needs_trust_on_the_client_too),
        cmocka_unit_test(test_ucx_address_only_where_it_is_asked_for),
        cmocka_unit_test(test_commands_come_after_authentication),
        cmocka_unit_test(test_descriptors_that_are_not_asked_for_end_the_session),
        cmocka_unit_test(test_a_passed_socket_that_lingers_keeps_nobody_waiting),
        cmocka_unit_test(test_the_kernel_s_word_for_a_process_is_enough),
        cmocka_unit_test(test_a_pidfd_that_is_asked_for_is_taken_and_nothing_else),
        cmocka_unit_test(test_no_item_is_left_of_a_bell_that_its_client_keeps),
        cmocka_unit_test(test_a_process_that_ends_after_its_client_was_freed_hurts_nobody),
        cmocka_unit_test(test_everything_is_given_back_when_clients_leave),
    };
    return cmocka_run_group_tests_name("broker/handshake", tests, NULL, NULL);
}
