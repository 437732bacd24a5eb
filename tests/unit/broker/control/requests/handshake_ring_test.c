/* SPDX-License-Identifier: Apache-2.0 */
/*
 * broker/handshake and what it gives: a ring whose client keeps it when its session has ended, and
 * a stream where the system has no rings. A real broker, clients that speak byte by byte.
 */
#include "tests/support/door/door_harness.h"
#include "wire/base/clock.h"
#include "wire/link/ring/ring_state.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

/* Until nothing of the ring is left, though the client has it open. */
static void await_emptied(int fd)
{
    int64_t deadline_ns = amb_clock_monotonic_ns() + DOOR_DEADLINE_MS * AMB_NS_PER_MS;
    struct stat st;
    do {
        assert_true(amb_clock_monotonic_ns() < deadline_ns);
        (void)usleep(1000);
        assert_int_equal(fstat(fd, &st), 0);
    } while (st.st_blocks != 0);
    (void)close(fd);
}

/* Its ring's descriptor, which the client keeps. */
static int login_and_keep(const struct door *door, struct door_client *client,
                          struct door_session *session)
{
    door_connect_unix(door, client);
    door_login(client, "ring", session);
    int kept = dup(client->fds[0]);
    assert_true(kept >= 0);
    return kept;
}

static void test_a_ring_that_is_kept_keeps_no_memory(void **state)
{
    (void)state;
    struct door door;
    struct door_client client;
    struct door_session session;
    door_open(&door, NULL);
    int kept = login_and_keep(&door, &client, &session);
    door_disconnect(&client); /* Without a word; but it has read all there was. */
    await_emptied(kept);
    kept = login_and_keep(&door, &client, &session);
    Amb__Control__Bye bye;
    amb__control__bye__init(&bye);
    Amb__Control__Control message;
    amb__control__control__init(&message);
    message.body_case = AMB__CONTROL__CONTROL__BODY_BYE;
    message.bye = &bye;
    door_send(&client, &message);
    await_emptied(kept);
    door_disconnect(&client);
    door_close(&door);
}

/* Frames that the broker has sent may still be read by a process that lives: they count. */
static void test_a_ring_with_something_unread_is_quarantined(void **state)
{
    (void)state;
    static const char *const options[] = {"server.max_connections=2", NULL};
    struct door door;
    struct door_client client, next, other;
    struct door_session session;
    struct stat st;
    door_open(&door, options);
    int kept = login_and_keep(&door, &client, &session);
    struct ring_control *control = mmap(NULL, sizeof(*control), PROT_READ | PROT_WRITE, MAP_SHARED,
                                        kept, 0); /* From the broker. */
    assert_true(control != MAP_FAILED);
    atomic_store(&control->head, 64); /* A lie: as much as there may be is unread. */
    door_disconnect(&client);
    door_login_unix(&door, &other);
    int64_t deadline_ns = amb_clock_monotonic_ns() + DOOR_DEADLINE_MS * AMB_NS_PER_MS;
    char *json = door_admin(&other, "status");
    while (strstr(json, "\"quarantined\":1") == NULL) {
        assert_true(amb_clock_monotonic_ns() < deadline_ns);
        free(json);
        (void)usleep(1000);
        json = door_admin(&other, "status");
    }
    free(json);
    assert_int_equal(fstat(kept, &st), 0);
    assert_true(st.st_blocks > 0);
    door_connect_unix(&door, &next); /* It has taken a place of two. */
    door_send_hello(&next, "");
    amb_control_free(door_expect(&next, AMB__CONTROL__CONTROL__BODY_CHALLENGE));
    door_send_auth(&next, NULL);
    door_expect_error(&next, 0, AMB_EBUSY, "max_connections");
    door_disconnect(&next);
    door_connect_unix(&door, &next);
    door_send_auth_after(&next, &session, 1); /* Its next session says that nothing is. */
    amb_control_free(door_expect(&next, AMB__CONTROL__CONTROL__BODY_WELCOME));
    await_emptied(kept);
    assert_int_equal(munmap(control, sizeof(*control)), 0);
    door_disconnect(&next);
    door_disconnect(&other);
    door_close(&door);
}

/* A system before Linux 5.8. */
static bool is_system_old;

ssize_t __real_preadv2(int fd, const struct iovec *iov, int count, off_t at, int flags);
ssize_t __wrap_preadv2(int fd, const struct iovec *iov, int count, off_t at, int flags);

ssize_t __wrap_preadv2(int fd, const struct iovec *iov, int count, off_t at, int flags)
{
    if (is_system_old) {
        errno = EOPNOTSUPP;
        return -1;
    }
    return __real_preadv2(fd, iov, count, at, flags);
}

static void attach_stream(const struct door *door, struct door_client *data,
                          const Amb__Control__Welcome *welcome)
{
    Amb__Control__Attach attach;
    amb__control__attach__init(&attach);
    attach.session = welcome->session;
    attach.generation = welcome->generation;
    attach.secret = welcome->secret;
    Amb__Control__Control message;
    amb__control__control__init(&message);
    message.id = 1;
    message.body_case = AMB__CONTROL__CONTROL__BODY_ATTACH;
    message.attach = &attach;
    door_connect_unix(door, data);
    door_send(data, &message);
    door_expect_ok(data, 1);
}

static void test_where_there_are_no_rings_clients_have_streams(void **state)
{
    (void)state;
    struct door door;
    struct door_client client, data;
    is_system_old = true;
    door_open(&door, NULL);
    door_connect_unix(&door, &client);
    door_send_hello(&client, "");
    Amb__Control__Control *challenge = door_expect(&client, AMB__CONTROL__CONTROL__BODY_CHALLENGE);
    assert_string_equal(challenge->challenge->link, "stream");
    amb_control_free(challenge);
    door_send_auth(&client, NULL);
    Amb__Control__Control *welcome = door_expect(&client, AMB__CONTROL__CONTROL__BODY_WELCOME);
    assert_string_equal(welcome->welcome->link, "stream");
    assert_non_null(strstr(welcome->welcome->link_reason, "Linux 5.8"));
    assert_int_equal(welcome->welcome->may_map, 0);
    attach_stream(&door, &data, welcome->welcome);
    amb_control_free(welcome);
    door_pub_open(&client, 0, "a");
    door_disconnect(&data);
    door_disconnect(&client);
    door_connect_unix(&door, &client); /* One that insists. */
    door_send_hello(&client, "ring");
    door_expect_error(&client, 0, AMB_ENOTSUP, "Linux 5.8");
    door_disconnect(&client);
    door_close(&door);
    is_system_old = false;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_ring_that_is_kept_keeps_no_memory),
        cmocka_unit_test(test_a_ring_with_something_unread_is_quarantined),
        cmocka_unit_test(test_where_there_are_no_rings_clients_have_streams),
    };
    return cmocka_run_group_tests_name("broker/handshake, rings", tests, NULL, NULL);
}
