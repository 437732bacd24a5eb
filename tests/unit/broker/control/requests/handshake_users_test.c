/* SPDX-License-Identifier: Apache-2.0 */
/*
 * broker/handshake, with a users file: a session, and its stream, are for its own user alone. A ucx
 * link is for users with a role that says so.
 */
#include "broker/config/config.h"
#include "tests/unit/broker/control/clients/login_world.h"

#include <stdlib.h>
#include <sys/socket.h>

/* A client of that uid that says it had the session of `former`. */
static struct amb_client *connect_after(uint32_t uid, const struct amb_client *former, int *fd)
{
    struct amb_client *client = stepped_connect(true, fd);
    client->uid = client->user = uid;
    stepped_say_body(*fd, stepped_hello, sizeof(stepped_hello));
    Amb__Control__Former named;
    Amb__Control__Auth auth;
    Amb__Control__Control message;
    amb__control__former__init(&named);
    amb__control__auth__init(&auth);
    amb__control__control__init(&message);
    named.session = former->session.index;
    named.generation = former->session.generation;
    named.secret = former->secret;
    auth.former = &named;
    message.body_case = AMB__CONTROL__CONTROL__BODY_AUTH;
    message.auth = &auth;
    stepped_say_message(client, *fd, &message);
    return client;
}

static void test_nobody_takes_the_place_of_another_users_session(void **state)
{
    (void)state;
    int alice_fd, bob_fd, again_fd;
    use(ALICE BOB);
    struct amb_client *alice = connect_as(1000, &alice_fd);
    struct amb_client *bob = connect_after(1001, alice, &bob_fd);
    assert_int_equal(bob->state, AMB_CLIENT_LIVE);   /* With a session of its own, */
    assert_int_equal(alice->state, AMB_CLIENT_LIVE); /* ... and hers goes on. */
    struct amb_client *again = connect_after(1000, alice, &again_fd);
    assert_int_equal(again->state, AMB_CLIENT_LIVE);
    assert_int_equal(alice->state, AMB_CLIENT_ENDING);
    stepped_leave(alice, alice_fd);
    stepped_leave(bob, bob_fd);
    stepped_leave(again, again_fd);
    use("");
    /* Without a users file the secret is enough, as ever. */
    alice = connect_as(1000, &alice_fd);
    bob = connect_after(1001, alice, &bob_fd);
    assert_int_equal(bob->state, AMB_CLIENT_LIVE);
    assert_int_equal(alice->state, AMB_CLIENT_ENDING);
    stepped_leave(alice, alice_fd);
    stepped_leave(bob, bob_fd);
}

/* A connection of that uid that wants to be the stream of a session. True: it is. */
static bool attach(const struct amb_client *target, bool is_unix, uint32_t uid)
{
    int fd;
    struct amb_client *client = stepped_connect(is_unix, &fd);
    struct amb_control *control = client->control;
    uint64_t before = control->stats->attached;
    memset(&control->failures, 0, sizeof(control->failures));
    client->uid = client->user = uid;
    Amb__Control__Attach attach;
    Amb__Control__Control message;
    amb__control__attach__init(&attach);
    amb__control__control__init(&message);
    attach.session = target->session.index;
    attach.generation = target->session.generation;
    attach.secret = target->secret;
    message.id = 1;
    message.body_case = AMB__CONTROL__CONTROL__BODY_ATTACH;
    message.attach = &attach;
    stepped_say_message(client, fd, &message);
    bool is_attached = control->stats->attached > before;
    stepped_leave(client, fd);
    return is_attached;
}

static void test_a_stream_is_of_the_sessions_own_user(void **state)
{
    (void)state;
    int fd;
    use(ALICE BOB);
    struct amb_client *alice = connect_as(1000, &fd);
    assert_false(attach(alice, true, 1001));
    assert_false(attach(alice, true, 0));
    assert_false(attach(alice, false, 1000));
    assert_int_equal(alice->state, AMB_CLIENT_LIVE);
    assert_true(attach(alice, true, 1000));
    stepped_settle(alice);
    stepped_leave(alice, fd);
    use("");
    alice = connect_as(1000, &fd);
    assert_true(attach(alice, true, 1001)); /* As ever. */
    stepped_settle(alice);
    stepped_leave(alice, fd);
}

/* Behind Hello the link is to be ucx: there is no UCX here. */
static struct amb_client *connect_by_ucx(uint32_t uid, bool insists, bool is_late, int *fd)
{
    struct amb_client *client = stepped_connect(true, fd);
    client->uid = client->user = uid;
    stepped_say_body(*fd, stepped_hello, sizeof(stepped_hello));
    stepped_settle(client);
    assert_int_equal(client->state, AMB_CLIENT_AUTH);
    client->link = AMB_LINK_UCX;
    client->insists = insists;
    client->ucx_late = is_late;
    stepped_say_body(*fd, stepped_auth, sizeof(stepped_auth));
    stepped_settle(client);
    return client;
}

static void test_a_ucx_link_needs_a_role(void **state)
{
    (void)state;
    int fd;
    use(ALICE BOB);
    struct amb_client *client = connect_by_ucx(1000, true, true, &fd);
    assert_int_equal(client->end_status, AMB_EFORBIDDEN);
    stepped_leave(client, fd);
    client = connect_by_ucx(1000, false, false, &fd); /* One that cannot do without any more. */
    assert_int_equal(client->end_status, AMB_EFORBIDDEN);
    stepped_leave(client, fd);
    client = connect_by_ucx(1000, false, true, &fd);
    assert_int_equal(client->state, AMB_CLIENT_LIVE);
    assert_int_equal(client->link, AMB_LINK_STREAM);
    assert_string_equal(client->link_reason, "link ucx: no role of this user has ucx");
    stepped_leave(client, fd);
    client = connect_by_ucx(0, true, true, &fd); /* It may, and then has no address. */
    assert_int_equal(client->end_status, AMB_ENOTSUP);
    stepped_leave(client, fd);
    use("");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nobody_takes_the_place_of_another_users_session),
        cmocka_unit_test(test_a_stream_is_of_the_sessions_own_user),
        cmocka_unit_test(test_a_ucx_link_needs_a_role),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
