/* SPDX-License-Identifier: Apache-2.0 */
/*
 * broker/renew: other roles take rights away. Sessions end by that, and queues that their owner may
 * read no more.
 */
#include "broker/base/party.h"
#include "broker/control/directory/queues.h"
#include "broker/control/requests/requests.h"
#include "broker/rights/rights_table.h"
#include "tests/unit/broker/control/clients/roles_world.h"
#include "wire/base/hash.h"

#include <sys/socket.h>

#define CAMERA(rest) "roles = ( { name = \"camera\"; " rest " } );"

/* The one user, with these roles in force. */
static struct amb_client *connect_alice(const char *roles, int *fd)
{
    use_roles(roles);
    use(ALICE);
    return connect_as(1000, fd);
}

static bool may_publish(const struct amb_client *client, const char *topic)
{
    return amb_rights_publish(client->rights, topic, strlen(topic), NULL);
}

static void test_a_login_has_the_rights_of_its_roles(void **state)
{
    (void)state;
    int alice_fd, bob_fd, carol_fd, root_fd;
    use_roles(CAMERA("publish = ( \"cam.%t.>\" );"));
    use(ALICE BOB "carol:plant:camera:-:-:uid/1002\n");
    struct amb_client *alice = connect_as(1000, &alice_fd), *bob = connect_as(1001, &bob_fd);
    struct amb_client *carol = connect_as(1002, &carol_fd), *root = connect_as(0, &root_fd);
    assert_true(may_publish(alice, "cam.plant.a"));
    assert_false(may_publish(alice, "cam.other.a"));
    assert_ptr_equal(alice->rights, carol->rights); /* They share them. */
    assert_int_equal(alice->tenant, carol->tenant);
    assert_int_not_equal(alice->tenant, alice->user);
    assert_false(may_publish(bob, "cam.plant.a")); /* No roles, no rights. */
    assert_null(root->rights);
    assert_true(may_publish(root, "anything"));
    assert_int_equal(amb_map_count(alice->control->rights.by_key), 2);
    stepped_leave(alice, alice_fd);
    stepped_leave(bob, bob_fd);
    stepped_leave(carol, carol_fd);
    stepped_leave(root, root_fd);
    assert_int_equal(amb_map_count(stepped_control()->rights.by_key), 0);
    use("");
}

/* A session is charged for its rights, also where others have the same. So is its user. */
static void test_a_session_is_charged_for_its_rights(void **state)
{
    (void)state;
    int fd, carol_fd;
    use_roles(CAMERA("publish = ( \"cam.%u\" );"));
    use(ALICE "carol:plant:camera:-:-:uid/1002\n");
    struct amb_client *alice = connect_as(1000, &fd), *carol = connect_as(1002, &carol_fd);
    uint64_t few = amb_rights_heap(alice->rights), before = alice->heap.bytes;
    assert_true(few > 0);
    assert_int_equal(alice->heap.bytes, carol->heap.bytes); /* Their names are as long. */
    use_roles(CAMERA("publish = ( \"cam.%u\", \"log.%u\", \"cfg\" );"));
    use(ALICE "carol:plant:camera:-:-:uid/1002\n");
    assert_true(amb_rights_heap(alice->rights) > few);
    assert_int_equal(alice->heap.bytes, before - few + amb_rights_heap(alice->rights));
    assert_true(amb_account_used(&alice->party->user->account, AMB_QUOTA_HEAP) >=
                alice->heap.bytes);
    stepped_leave(alice, fd);
    stepped_leave(carol, carol_fd);
    use("");
}

static void test_losses_end_sessions_and_gains_do_not(void **state)
{
    (void)state;
    static const struct {
        const char *roles;
        bool is_lost;
    } changes[] = {
        {CAMERA("publish = ( \"cam.>\" ); request = true;"), false},
        {CAMERA("publish = ( \"cam.>\", \"log\" ); subscribe = ( \"cfg\" ); request = true;"),
         false},
        {CAMERA("publish = { allow = ( \"cam.>\" ); deny = ( \"other\" ); }; request = true;"),
         false},
        {CAMERA("publish = { allow = ( \"cam.>\" ); deny = ( \"cam.x\" ); }; request = true;"),
         true},
        {CAMERA("publish = ( \"cam.*\" ); request = true;"), true},
        {CAMERA("publish = ( \"cam.>\" );"), true},
        {"roles = ( { name = \"other\"; } );", true},
    };
    for (unsigned i = 0; i < sizeof(changes) / sizeof(changes[0]); i++) {
        int fd, root_fd;
        use_roles(CAMERA("publish = ( \"cam.>\" ); request = true;"));
        use(ALICE);
        struct amb_client *client = connect_as(1000, &fd), *root = connect_as(0, &root_fd);
        assert_int_equal(client->state, AMB_CLIENT_LIVE);
        use_roles(changes[i].roles);
        use(ALICE);
        assert_int_equal(client->state, changes[i].is_lost ? AMB_CLIENT_ENDING : AMB_CLIENT_LIVE);
        assert_int_equal(client->end_status, changes[i].is_lost ? AMB_ELOST : AMB_OK);
        assert_int_equal(root->state, AMB_CLIENT_LIVE);
        if (i == 1) {
            assert_true(may_publish(client, "log")); /* The gain holds at once. */
        }
        stepped_leave(client, fd);
        stepped_leave(root, root_fd);
        use("");
        (void)forget_roles(NULL);
    }
}

/* The roles of a line are other ones. */
static void test_a_role_less_is_a_loss(void **state)
{
    (void)state;
    int fd;
    use_roles(CAMERA("publish = ( \"a\" ); }, { name = \"more\"; publish = ( \"b\" );"));
    use("alice:plant:camera,more:-:-:uid/1000\n");
    struct amb_client *client = connect_as(1000, &fd);
    use("alice:plant:more,camera:-:-:uid/1000\n");
    assert_int_equal(client->state, AMB_CLIENT_LIVE);
    use(ALICE);
    assert_int_equal(client->end_status, AMB_ELOST);
    stepped_leave(client, fd);
    use("");
}

static void open_publisher(struct amb_client *client, const char *topic)
{
    Amb__Control__PubOpen open;
    Amb__Control__Control message;
    amb__control__pub_open__init(&open);
    amb__control__control__init(&message);
    open.topic = (char *)(uintptr_t)topic;
    message.id = 1;
    message.body_case = AMB__CONTROL__CONTROL__BODY_PUB_OPEN;
    message.pub_open = &open;
    amb_request_handle(client, &message);
}

/* As renew.c does: its turn to be compared has not come. */
static void reload_begins(struct amb_client *client)
{
    amb_rights_table_renew(&client->control->rights);
    client->is_unrenewed = true;
    amb_list_push_back(&client->control->unrenewed, &client->of_revoked);
}

/* Many clients are compared in slices. One that asks for something before its turn is compared
 * first. */
static void test_a_client_that_waits_for_its_turn_has_no_former_rights(void **state)
{
    (void)state;
    int fd;
    struct amb_client *client = connect_alice(CAMERA("publish = ( \"a\" );"), &fd);
    struct amb_control *control = client->control;
    use_roles(CAMERA("publish = ( \"a\", \"b\" );"));
    for (unsigned i = 0; i < 2; i++) {
        reload_begins(client);
        assert_true(amb_renew_is_busy(control));
        open_publisher(client, "b");
        assert_false(client->is_unrenewed);
        assert_int_equal(client->publisher_count, i == 0 ? 1 : 0); /* A gain, then a loss. */
        assert_int_equal(client->revoked, i == 0 ? AMB_OK : AMB_ELOST);
        stepped_settle(client);
        Amb__Control__PubClose close;
        Amb__Control__Control message;
        amb__control__pub_close__init(&close);
        amb__control__control__init(&message);
        message.id = 2;
        message.body_case = AMB__CONTROL__CONTROL__BODY_PUB_CLOSE;
        message.pub_close = &close;
        if (i == 0) {
            stepped_say_message(client, fd, &message);
            assert_int_equal(client->publisher_count, 0);
        }
        use_roles(CAMERA("publish = ( \"b\" );"));
    }
    amb_renew_some(control);
    assert_int_equal(client->end_status, AMB_ELOST);
    assert_false(amb_renew_is_busy(control));
    stepped_leave(client, fd);
    use("");
}

/* Many clients are ended in slices: meanwhile nothing that one asks for is carried out. */
static void test_a_client_that_waits_for_its_end_is_not_heard(void **state)
{
    (void)state;
    int fd;
    struct amb_client *client = connect_alice(CAMERA("publish = ( \"a\" );"), &fd);
    client->revoked = AMB_ELOST; /* as renew.c does */
    amb_list_push_back(&client->control->revoked, &client->of_revoked);
    open_publisher(client, "a");
    assert_int_equal(client->publisher_count, 0);
    amb_renew_some(client->control);
    assert_int_equal(client->state, AMB_CLIENT_ENDING);
    assert_true(amb_list_is_empty(&client->control->revoked));
    stepped_leave(client, fd);
    use("");
}

#define ROLES CAMERA("publish = ( \"a\" );")
#define LESS "roles = ( { name = \"other\"; } );"

/* A process keeps what it has mapped, whatever ends its session in the middle of a reload. */
static void test_a_kick_hides_no_loss(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        int fd;
        struct amb_client *client = connect_alice(ROLES, &fd);
        use_roles(LESS);
        if (i == 1) {
            reload_begins(client);
        }
        amb_renew_revoke(client, AMB_EKICKED);
        assert_int_equal(client->loses_maps, i == 1); /* A kick alone takes no right away. */
        use(ALICE);
        assert_true(client->loses_maps);
        assert_int_equal(client->end_status, AMB_EKICKED);
        stepped_leave(client, fd);
        use("");
    }
}

static void test_a_client_that_leaves_in_a_reload_hides_no_loss(void **state)
{
    (void)state;
    static const char *const roles[] = {ROLES, LESS};
    for (unsigned i = 0; i < 2; i++) {
        int fd;
        struct amb_client *client = connect_alice(ROLES, &fd);
        use_roles(roles[i]);
        reload_begins(client);
        amb_client_end(client, "it leaves");
        assert_int_equal(client->loses_maps, i == 1);
        assert_false(amb_renew_is_busy(client->control));
        stepped_leave(client, fd);
        use("");
    }
}

static void subscribe(struct amb_client *client, int fd, uint32_t handle, const char *pattern,
                      const char *durable)
{
    Amb__Control__Subscribe subscribe;
    Amb__Control__Control message;
    amb__control__subscribe__init(&subscribe);
    amb__control__control__init(&message);
    subscribe.handle = handle;
    subscribe.pattern = (char *)(uintptr_t)pattern;
    subscribe.durable = (char *)(uintptr_t)durable;
    subscribe.ack = AMB_ACK_EXPLICIT;
    subscribe.credit_msgs = 1;
    message.id = 1;
    message.body_case = AMB__CONTROL__CONTROL__BODY_SUBSCRIBE;
    message.subscribe = &subscribe;
    stepped_say_message(client, fd, &message);
    assert_non_null(amb_client_sub(client, handle));
}

static unsigned queue_count(void)
{
    unsigned count = 0;
    AMB_LIST_FOR_EACH (node, &stepped_control()->directory.queues) {
        count++;
    }
    return count;
}

static bool has_queue(const char *durable)
{
    AMB_LIST_FOR_EACH (node, &stepped_control()->directory.queues) {
        if (strcmp(AMB_CONTAINER_OF(node, struct amb_dir_queue, node)->durable, durable) == 0) {
            return true;
        }
    }
    return false;
}

static void remove_idle(const char *durable)
{
    assert_int_equal(
        amb_queues_remove_durable(&stepped_control()->directory, durable, NULL, AMB_TENANT_ANY),
        AMB_OK);
}

static void test_queues_go_when_their_owner_loses_the_right(void **state)
{
    (void)state;
    int fd, root_fd;
    use_roles(CAMERA("subscribe = ( \"job.>\", \"log\" ); shared = ( \"all\" );"));
    use(ALICE);
    struct amb_client *root = connect_as(0, &root_fd); /* It stays, and so does its own. */
    subscribe(root, root_fd, 0, "job.a", "of-root");
    struct amb_client *alice = connect_as(1000, &fd);
    subscribe(alice, fd, 0, "job.a", "idle");
    subscribe(alice, fd, 1, "log", "kept");
    subscribe(alice, fd, 2, "job.b", "all");
    stepped_leave(alice, fd);
    alice = connect_as(1000, &fd);
    subscribe(alice, fd, 0, "job.c", "used");
    assert_int_equal(queue_count(), 5);
    use_roles(CAMERA("subscribe = { allow = ( \"job.>\", \"log\" ); deny = ( \"job.*\" ); }; "
                     "shared = ( \"all\" );"));
    use(ALICE);
    assert_int_equal(alice->end_status, AMB_ELOST);
    stepped_leave(alice, fd);
    assert_int_equal(queue_count(), 3); /* of root, kept, and the tenant's */
    use(BOB);                           /* There is no alice any more. */
    assert_int_equal(queue_count(), 2);
    assert_true(has_queue("all") && has_queue("of-root"));
    remove_idle("all");
    Amb__Control__Unsubscribe unsubscribe;
    Amb__Control__Control message;
    amb__control__unsubscribe__init(&unsubscribe);
    amb__control__control__init(&message);
    message.id = 2;
    message.body_case = AMB__CONTROL__CONTROL__BODY_UNSUBSCRIBE;
    message.unsubscribe = &unsubscribe;
    stepped_say_message(root, root_fd, &message);
    remove_idle("of-root");
    stepped_leave(root, root_fd);
    use("");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_a_login_has_the_rights_of_its_roles, forget_roles),
        cmocka_unit_test_teardown(test_a_session_is_charged_for_its_rights, forget_roles),
        cmocka_unit_test_teardown(test_losses_end_sessions_and_gains_do_not, forget_roles),
        cmocka_unit_test_teardown(test_a_role_less_is_a_loss, forget_roles),
        cmocka_unit_test_teardown(test_a_client_that_waits_for_its_turn_has_no_former_rights,
                                  forget_roles),
        cmocka_unit_test_teardown(test_a_client_that_waits_for_its_end_is_not_heard, forget_roles),
        cmocka_unit_test_teardown(test_a_kick_hides_no_loss, forget_roles),
        cmocka_unit_test_teardown(test_a_client_that_leaves_in_a_reload_hides_no_loss,
                                  forget_roles),
        cmocka_unit_test_teardown(test_queues_go_when_their_owner_loses_the_right, forget_roles),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
