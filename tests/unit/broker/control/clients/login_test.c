/* SPDX-License-Identifier: Apache-2.0 */
/*
 * broker/login: the user of a client. The control thread and the workers have their turns as the
 * test says.
 */
#include "broker/control/clients/login.h"

#include "tests/unit/broker/control/clients/login_world.h"

static void test_a_listed_uid_is_its_user(void **state)
{
    (void)state;
    int fd;
    char text[AMB_AUTH_NAME_MAX];
    use(ALICE BOB);
    struct amb_client *client = connect_as(1000, &fd);
    assert_int_equal(client->state, AMB_CLIENT_LIVE);
    assert_string_equal(client->login.user->name, "alice");
    assert_string_equal(client->login.credential, "uid/1000");
    assert_int_equal(client->login.mechanism, AMB_MECHANISM_UID);
    assert_string_equal(amb_mechanism_name(client->login.mechanism), "uid");
    assert_int_equal(client->user, client->login.user->number);
    assert_int_equal(client->party->user->id, AMB_PARTY_NAMED | client->user);
    assert_string_equal(amb_login_user_text(client, text), "alice");
    assert_string_equal(amb_login_owner_text(client->control, client->user, text), "plant:alice");
    uint32_t number;
    assert_true(amb_login_owner_parse(client->control, "plant:alice", &number));
    assert_int_equal(number, client->user);
    assert_false(amb_login_owner_parse(client->control, "alice", &number));
    assert_true(amb_login_owner_parse(client->control, "1000", &number));
    stepped_leave(client, fd);
    use("");
}

static void test_others_are_out_but_root_and_our_own_uid(void **state)
{
    (void)state;
    int fd;
    char text[AMB_AUTH_NAME_MAX];
    /* Also where a line has them: a mistake there locks nobody out. */
    use(ALICE "root:plant:-:-:off:uid/0\nnone:plant:-:-:-:uid/65534\nlate:plant:-:-:until="
              "2020-01-01:uid/1002\n");
    static const uint32_t out[] = {1001, 1002, 65534, UINT32_MAX, AMB_USER_NAMED};
    uint64_t before = stepped_control()->stats->refused_auth;
    for (unsigned i = 0; i < sizeof(out) / sizeof(out[0]); i++) {
        memset(&stepped_control()->failures, 0, sizeof(stepped_control()->failures));
        struct amb_client *client = connect_as(out[i], &fd);
        assert_int_equal(client->state, AMB_CLIENT_ENDING);
        assert_int_equal(client->end_status, AMB_EAUTH);
        assert_int_equal(stepped_control()->stats->refused_auth, before + i + 1);
        assert_null(client->login.user);
        stepped_leave(client, fd);
    }
    struct amb_client *root = connect_as(0, &fd);
    assert_int_equal(root->state, AMB_CLIENT_LIVE);
    assert_true(root->login.user->is_local_admin);
    assert_int_equal(root->user, 0); /* Its names stay those of its uid. */
    assert_string_equal(amb_login_user_text(root, text), "0");
    stepped_leave(root, fd);
    use("");
}

static void test_a_session_ends_with_the_last_day_of_its_user(void **state)
{
    (void)state;
    int fd;
    use("alice:plant:-:-:until=2099-12-31:uid/1000\n");
    struct amb_client *client = connect_as(1000, &fd);
    assert_false(amb_login_is_over(&client->login, 4102444799));
    assert_true(amb_login_is_over(&client->login, 4102444800));
    amb_client_tick(client, client->seen_ns + 1);
    assert_int_equal(client->state, AMB_CLIENT_LIVE);
    /* As if the day had come: nobody can turn the clock here. */
    struct amb_auth_user late = *client->login.user;
    late.until_s = 1;
    client->login.user = &late;
    amb_client_tick(client, client->seen_ns + 2);
    assert_int_equal(client->state, AMB_CLIENT_ENDING);
    assert_int_equal(client->end_status, AMB_EAUTH);
    stepped_leave(client, fd);
    use("");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_listed_uid_is_its_user),
        cmocka_unit_test(test_others_are_out_but_root_and_our_own_uid),
        cmocka_unit_test(test_a_session_ends_with_the_last_day_of_its_user),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
