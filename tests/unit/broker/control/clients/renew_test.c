/* SPDX-License-Identifier: Apache-2.0 */
/*
 * broker/renew: clients that go over to another users file, and those that are ended by it.
 */
#include "broker/control/clients/renew.h"

#include "tests/unit/broker/control/clients/login_world.h"

static void test_a_reload_takes_clients_along_or_ends_them(void **state)
{
    (void)state;
    int alice_fd, bob_fd, root_fd;
    use(ALICE BOB);
    struct amb_client *alice = connect_as(1000, &alice_fd), *bob = connect_as(1001, &bob_fd);
    struct amb_client *root = connect_as(0, &root_fd);
    const struct amb_auth_user *before = alice->login.user;
    uint32_t number = alice->user;
    use(ALICE); /* With another order, comments, or roles it would be the same. */
    assert_int_equal(alice->state, AMB_CLIENT_LIVE);
    assert_ptr_not_equal(alice->login.user, before);
    assert_ptr_equal(alice->login.user, amb_auth_users_find(alice->control->users, "alice"));
    assert_int_equal(alice->user, number);
    assert_int_equal(bob->state, AMB_CLIENT_ENDING);
    assert_int_equal(bob->end_status, AMB_EAUTH);
    assert_int_equal(root->state, AMB_CLIENT_LIVE);
    assert_ptr_equal(root->login.user, amb_auth_users_local_admin(root->control->users));
    stepped_leave(bob, bob_fd);
    stepped_leave(root, root_fd);
    stepped_leave(alice, alice_fd);
    use("");
}

/* Each of them is a change by which the client's credential does not stand for that user any more.
 * After ELOST it comes again by itself. */
static void test_changes_of_a_user_that_end_its_sessions(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        enum amb_status status;
    } changes[] = {
        {"alice:plant:-:-:off:uid/1000\n", AMB_EAUTH},
        {"alice:plant:-:-:until=2020-01-01:uid/1000\n", AMB_EAUTH},
        {"alice:plant:-:-:-:uid/1003\n", AMB_EAUTH},
        {"alice:plant:-:-:-:-\nbob:plant:-:-:-:uid/1000\n", AMB_EAUTH},
        {"alice:office:-:-:-:uid/1000\n", AMB_ELOST},
        {"", AMB_ELOST},
    };
    for (unsigned i = 0; i < sizeof(changes) / sizeof(changes[0]); i++) {
        int fd;
        use(ALICE);
        struct amb_client *client = connect_as(1000, &fd);
        assert_int_equal(client->state, AMB_CLIENT_LIVE);
        use(changes[i].text);
        assert_int_equal(client->state, AMB_CLIENT_ENDING);
        assert_int_equal(client->end_status, changes[i].status);
        stepped_leave(client, fd);
        use("");
    }
    int fd;
    struct amb_client *client = connect_as(1000, &fd); /* No users file: uids are users. */
    assert_int_equal(client->user, 1000);
    assert_null(client->login.user);
    use(ALICE);
    assert_int_equal(client->end_status, AMB_ELOST);
    stepped_leave(client, fd);
    use("");
}

/* The session of a client that is still being made. */
static void test_a_reload_meets_sessions_in_the_making(void **state)
{
    (void)state;
    int fd;
    use(ALICE);
    struct amb_client *client = stepped_connect(true, &fd);
    client->uid = client->user = 1000;
    stepped_say_body(fd, stepped_hello, sizeof(stepped_hello));
    stepped_say_body(fd, stepped_auth, sizeof(stepped_auth));
    stepped_control_turn(client);
    assert_int_equal(client->state, AMB_CLIENT_OPENING);
    use(BOB);
    assert_int_equal(client->end_status, AMB_EAUTH);
    stepped_settle(client);
    stepped_leave(client, fd);
    use("");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_reload_takes_clients_along_or_ends_them),
        cmocka_unit_test(test_changes_of_a_user_that_end_its_sessions),
        cmocka_unit_test(test_a_reload_meets_sessions_in_the_making),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
