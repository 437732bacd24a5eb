/* SPDX-License-Identifier: Apache-2.0 */
/* Kick and block: whose sessions end, who is kept out, and how far an operator reaches. */
#include "broker/control/admin/operate.h"

#include "tests/unit/broker/control/clients/roles_world.h"

#include <sys/socket.h>
#include <unistd.h>

static const char roles[] = "roles = ( { name = \"camera\"; admin = \"operate\"; } );";
static const char users[] = "alice:$:camera:-:-:uid/1000\nbob:plant:-:-:-:uid/1001\n"
                            "carol:plant:camera:-:-:uid/1002\ndave:other:-:-:-:uid/1003\n";

static int begin(void **state)
{
    (void)state;
    use_roles(roles);
    use(users);
    return 0;
}

static int end(void **state)
{
    use("");
    return forget_roles(state);
}

static enum amb_status operate(struct amb_client *by, enum amb_command_kind kind, const char *word,
                               uint64_t *count)
{
    struct amb_command command = {.kind = kind};
    const char *why = NULL;
    (void)snprintf(command.word, sizeof(command.word), "%s", word);
    enum amb_status status = amb_operate(by, &command, count, &why);
    assert_true(status == AMB_OK || why != NULL);
    return status;
}

static void name(struct amb_client *client, const char *text)
{
    (void)snprintf(client->name, sizeof(client->name), "%s", text);
}

/* All at once: some have ended already, and are freed with the first of them that is buried. */
static void leave(struct amb_client *const *clients, const int *fds, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        (void)shutdown(fds[i], SHUT_WR);
        stepped_settle(clients[i]);
        (void)close(fds[i]);
    }
    amb_client_bury(stepped_control());
    assert_int_equal(stepped_control()->client_count, 0);
}

static void test_kick(void **state)
{
    (void)state;
    int fds[4];
    uint64_t count;
    char number[24];
    struct amb_client *alice = connect_as(1000, &fds[0]), *bob = connect_as(1001, &fds[1]),
                      *again = connect_as(1001, &fds[2]), *dave = connect_as(1003, &fds[3]);
    name(bob, "cam");
    name(again, "cam");
    name(dave, "7777");
    assert_int_equal(operate(alice, AMB_COMMAND_KICK, "none", &count), AMB_ENOTFOUND);
    assert_int_equal(operate(alice, AMB_COMMAND_KICK, "cam", &count), AMB_ENOTFOUND);
    (void)snprintf(number, sizeof(number), "%llu", (unsigned long long)bob->id);
    assert_int_equal(operate(alice, AMB_COMMAND_KICK, number, &count), AMB_OK);
    assert_int_equal(count, 1);
    assert_int_equal(bob->revoked, AMB_EKICKED);
    assert_int_equal(operate(alice, AMB_COMMAND_KICK, number, &count), AMB_ENOTFOUND);
    again->is_unrenewed = true; /* as renew.c does in the middle of a reload */
    amb_list_push_back(&stepped_control()->unrenewed, &again->of_revoked);
    assert_int_equal(operate(alice, AMB_COMMAND_KICK, "cam", &count), AMB_OK); /* One is left. */
    assert_true(amb_list_is_empty(&stepped_control()->unrenewed));
    assert_int_equal(again->revoked, AMB_EKICKED);
    assert_int_equal(operate(alice, AMB_COMMAND_KICK, "7777", &count), AMB_OK); /* No number. */
    assert_int_equal(dave->revoked, AMB_EKICKED);
    amb_renew_some(stepped_control());
    assert_int_equal(bob->end_status, AMB_EKICKED);
    assert_int_equal(bob->state, AMB_CLIENT_ENDING);
    assert_int_equal(operate(alice, AMB_COMMAND_KICK_USER, "bob", &count), AMB_ENOTFOUND);
    assert_int_equal(operate(alice, AMB_COMMAND_KICK_USER, "alice", &count), AMB_OK);
    assert_int_equal(count, 1);
    leave((struct amb_client *[]){alice, bob, again, dave}, fds, 4);
}

static void test_block(void **state)
{
    (void)state;
    int fds[4];
    uint64_t count;
    struct amb_client *alice = connect_as(1000, &fds[0]), *bob = connect_as(1001, &fds[1]);
    assert_int_equal(operate(alice, AMB_COMMAND_BLOCK, "nobody", &count), AMB_ENOTFOUND);
    assert_int_equal(operate(alice, AMB_COMMAND_BLOCK, "bob", &count), AMB_OK);
    assert_int_equal(count, 1);
    assert_int_equal(bob->revoked, AMB_EAUTH);
    assert_int_equal(operate(alice, AMB_COMMAND_BLOCK, "bob", &count), AMB_EREJECTED);
    struct amb_client *out = connect_as(1001, &fds[2]);
    assert_int_not_equal(out->state, AMB_CLIENT_LIVE);
    use(users); /* A reload changes nothing. */
    json_t *rows = amb_operate_blocked(alice);
    assert_int_equal(json_array_size(json_object_get(rows, "blocked")), 1);
    json_decref(rows);
    assert_int_equal(operate(alice, AMB_COMMAND_UNBLOCK, "dave", &count), AMB_ENOTFOUND);
    assert_int_equal(operate(alice, AMB_COMMAND_UNBLOCK, "bob", &count), AMB_OK);
    struct amb_client *in = connect_as(1001, &fds[3]);
    assert_int_equal(in->state, AMB_CLIENT_LIVE);
    leave((struct amb_client *[]){alice, bob, out, in}, fds, 4);
}

static void test_an_operator_of_a_tenant_reaches_that_alone(void **state)
{
    (void)state;
    int fds[3];
    uint64_t count;
    char number[24];
    struct amb_client *carol = connect_as(1002, &fds[0]), *bob = connect_as(1001, &fds[1]),
                      *dave = connect_as(1003, &fds[2]);
    assert_string_equal(amb_operate_scope(carol), "plant");
    (void)snprintf(number, sizeof(number), "%llu", (unsigned long long)dave->id);
    assert_int_equal(operate(carol, AMB_COMMAND_KICK, number, &count), AMB_ENOTFOUND);
    assert_int_equal(operate(carol, AMB_COMMAND_KICK_USER, "dave", &count), AMB_ENOTFOUND);
    assert_int_equal(operate(carol, AMB_COMMAND_BLOCK, "dave", &count), AMB_ENOTFOUND);
    assert_int_equal(operate(carol, AMB_COMMAND_BLOCK, "alice", &count), AMB_ENOTFOUND);
    assert_int_equal(dave->revoked, AMB_OK);
    assert_int_equal(amb_blocklist_add(&stepped_control()->blocked, "dave", "other", 100, 0),
                     AMB_OK);
    assert_int_equal(operate(carol, AMB_COMMAND_UNBLOCK, "dave", &count), AMB_ENOTFOUND);
    json_t *rows = amb_operate_blocked(carol);
    assert_int_equal(json_array_size(json_object_get(rows, "blocked")), 0);
    json_decref(rows);
    assert_true(amb_blocklist_remove(&stepped_control()->blocked, "dave"));
    assert_int_equal(operate(carol, AMB_COMMAND_KICK_USER, "bob", &count), AMB_OK);
    assert_int_equal(count, 1);
    leave((struct amb_client *[]){carol, bob, dave}, fds, 3);
}

/* The list is the broker's, and an operator of a tenant has a share of it. */
static void test_an_operator_of_a_tenant_has_a_share_of_the_list(void **state)
{
    (void)state;
    int fds[2];
    uint64_t count;
    struct amb_control *control = stepped_control();
    struct amb_client *carol = connect_as(1002, &fds[0]), *alice = connect_as(1000, &fds[1]);
    enum amb_status status = AMB_OK;
    for (unsigned i = 0; status == AMB_OK; i++) {
        char name[16];
        (void)snprintf(name, sizeof(name), "u%u", i);
        status = amb_blocklist_add(&control->blocked, name, "plant",
                                   control->config->limits.user_share, 0);
    }
    assert_int_equal(status, AMB_ELIMIT);
    assert_in_range(control->blocked.count, AMB_BLOCKLIST_MAX / 2, AMB_BLOCKLIST_MAX - 2);
    assert_int_equal(operate(carol, AMB_COMMAND_BLOCK, "bob", &count), AMB_ELIMIT);
    assert_int_equal(operate(alice, AMB_COMMAND_BLOCK, "bob", &count), AMB_OK);
    assert_int_equal(operate(alice, AMB_COMMAND_BLOCK, "dave", &count), AMB_OK);
    amb_blocklist_fini(&control->blocked);
    leave((struct amb_client *[]){carol, alice}, fds, 2);
}

static void test_without_users_uids_are_blocked(void **state)
{
    (void)state;
    int fds[3];
    uint64_t count;
    use("");
    struct amb_client *root = connect_as(0, &fds[0]), *bob = connect_as(1001, &fds[1]);
    assert_null(amb_operate_scope(root));
    assert_int_equal(operate(root, AMB_COMMAND_BLOCK, "0", &count), AMB_EREJECTED);
    assert_int_equal(operate(root, AMB_COMMAND_BLOCK, "bob", &count), AMB_ENOTFOUND);
    assert_int_equal(operate(root, AMB_COMMAND_BLOCK, "1001", &count), AMB_OK);
    assert_int_equal(count, 1);
    assert_int_equal(bob->revoked, AMB_EAUTH);
    struct amb_client *out = connect_as(1001, &fds[2]);
    assert_int_not_equal(out->state, AMB_CLIENT_LIVE);
    assert_int_equal(operate(root, AMB_COMMAND_UNBLOCK, "1001", &count), AMB_OK);
    leave((struct amb_client *[]){root, bob, out}, fds, 3);
    use(users);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kick),
        cmocka_unit_test(test_block),
        cmocka_unit_test(test_an_operator_of_a_tenant_reaches_that_alone),
        cmocka_unit_test(test_an_operator_of_a_tenant_has_a_share_of_the_list),
        cmocka_unit_test(test_without_users_uids_are_blocked),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
