/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Quotas of users where a charge goes over, from session to session and from user to user. Rows,
 * events and reloads are tests/trust/quotas.py.
 */
#include "broker/control/clients/quotas.h"

#include "broker/base/party.h"
#include "broker/control/directory/queues.h"
#include "tests/support/quota.h"
#include "tests/unit/broker/control/clients/roles_world.h"

#include <unistd.h>

#define CAMERA                                                                                     \
    "roles = ( { name = \"camera\"; publish = ( \">\" ); subscribe = ( \">\" ); shared = ( \"s\" " \
    "); } );"
#define CAROL "carol:plant:camera:-:-:uid/1002\n"

/* A client of that uid, in a process of its own. */
static struct amb_client *process_of(uint32_t uid, pid_t pid, int *fd)
{
    struct amb_client *client = stepped_connect(true, fd);
    client->uid = uid;
    client->pid = pid;
    client->user = amb_user_of_uid(uid, 65534);
    stepped_log_in(client, *fd);
    assert_int_equal(client->state, AMB_CLIENT_LIVE);
    return client;
}

static enum amb_status ask(struct amb_client *client, int fd, const Amb__Control__Control *message)
{
    Amb__Control__Control *answer = stepped_ask(client, fd, message);
    bool is_error = answer->body_case == AMB__CONTROL__CONTROL__BODY_ERROR;
    enum amb_status status = is_error ? (enum amb_status)answer->error->status : AMB_OK;
    amb_control_free(answer);
    return status;
}

static enum amb_status name(struct amb_client *client, int fd, uint32_t handle, const char *name)
{
    Amb__Control__PubOpen open = AMB__CONTROL__PUB_OPEN__INIT;
    Amb__Control__Control message = AMB__CONTROL__CONTROL__INIT;
    open.handle = handle;
    open.topic = (char *)(uintptr_t) "t";
    open.name = (char *)(uintptr_t)name;
    message.id = 1;
    message.body_case = AMB__CONTROL__CONTROL__BODY_PUB_OPEN;
    message.pub_open = &open;
    return ask(client, fd, &message);
}

static enum amb_status durable(struct amb_client *client, int fd, uint32_t handle, const char *name)
{
    Amb__Control__Subscribe subscribe = AMB__CONTROL__SUBSCRIBE__INIT;
    Amb__Control__Control message = AMB__CONTROL__CONTROL__INIT;
    subscribe.handle = handle;
    subscribe.pattern = (char *)(uintptr_t) "a";
    subscribe.durable = (char *)(uintptr_t)name;
    subscribe.ack = AMB_ACK_EXPLICIT;
    message.id = 1;
    message.body_case = AMB__CONTROL__CONTROL__BODY_SUBSCRIBE;
    message.subscribe = &subscribe;
    return ask(client, fd, &message);
}

static uint64_t used(const struct amb_account *account, enum amb_quota row)
{
    return amb_account_used(account, row);
}

/* Its process ends, and the next one comes as its publisher. It has the name within the quota. */
static void test_a_name_is_its_users_in_every_process(void **state)
{
    (void)state;
    int fd;
    use_roles(CAMERA);
    use(ALICE CAROL);
    struct amb_client *alice = process_of(1000, 11, &fd);
    struct amb_party *party = amb_party_ref(alice->party);
    struct amb_account *account = amb_client_account(alice);
    quota_limit(account, AMB_QUOTA_NAMES, 1);
    assert_int_equal(name(alice, fd, 0, "n"), AMB_OK);
    assert_int_equal(name(alice, fd, 1, "m"), AMB_ELIMIT);
    stepped_leave(alice, fd);
    assert_int_equal(used(account, AMB_QUOTA_NAMES), 1);
    alice = process_of(1000, 12, &fd);
    quota_limit(account, AMB_QUOTA_NAMES, 1);
    assert_int_equal(name(alice, fd, 0, "n"), AMB_OK);
    assert_int_equal(used(account, AMB_QUOTA_NAMES), 1);
    assert_int_equal(used(account->above, AMB_QUOTA_NAMES), 1);
    stepped_leave(alice, fd);
    /* Of a name that they share it is the one who has it that is charged. */
    alice = process_of(1000, 12, &fd);
    quota_limit(account, AMB_QUOTA_NAMES, 2);
    quota_limit(account->above, AMB_QUOTA_NAMES, 2);
    assert_int_equal(name(alice, fd, 0, "s"), AMB_OK);
    stepped_leave(alice, fd);
    struct amb_client *carol = process_of(1002, 13, &fd);
    quota_limit(account->above, AMB_QUOTA_NAMES, 2);
    assert_int_equal(name(carol, fd, 0, "m"), AMB_ELIMIT);
    assert_int_equal(name(carol, fd, 0, "s"), AMB_OK);
    assert_int_equal(used(account, AMB_QUOTA_NAMES), 1);
    assert_int_equal(used(account->above, AMB_QUOTA_NAMES), 2);
    stepped_leave(carol, fd);
    quota_limit(account->above, AMB_QUOTA_NAMES, AMB_QUOTA_NONE);
    amb_party_unref(&party);
}

/* A durable name that waits is charged to who has left it. */
static void test_a_shared_durable_is_of_who_reads_it(void **state)
{
    (void)state;
    int fd, other_fd;
    use_roles(CAMERA);
    use(ALICE CAROL BOB);
    struct amb_client *other = process_of(1001, 20, &other_fd); /* Somebody is there always. */
    struct amb_client *alice = process_of(1000, 21, &fd);
    struct amb_party *party = amb_party_ref(alice->party);
    struct amb_account *account = amb_client_account(alice);
    assert_int_equal(durable(alice, fd, 0, "s"), AMB_OK);
    stepped_leave(alice, fd);
    assert_int_equal(used(account, AMB_QUOTA_SUBSCRIPTIONS), 1);
    struct amb_client *carol = process_of(1002, 22, &fd);
    quota_limit(amb_client_account(carol), AMB_QUOTA_SUBSCRIPTIONS, 0);
    assert_int_equal(durable(carol, fd, 0, "s"), AMB_ELIMIT);
    quota_limit(amb_client_account(carol), AMB_QUOTA_SUBSCRIPTIONS, 1);
    quota_limit(account->above, AMB_QUOTA_SUBSCRIPTIONS, 1);
    assert_int_equal(durable(carol, fd, 0, "s"), AMB_OK);
    assert_int_equal(used(account, AMB_QUOTA_SUBSCRIPTIONS), 0);
    assert_int_equal(used(account->above, AMB_QUOTA_SUBSCRIPTIONS), 1);
    assert_int_equal(durable(carol, fd, 1, "own"), AMB_ELIMIT);
    stepped_leave(carol, fd);
    quota_limit(account->above, AMB_QUOTA_SUBSCRIPTIONS, AMB_QUOTA_NONE);
    assert_int_equal(
        amb_queues_remove_durable(&stepped_control()->directory, "s", NULL, AMB_TENANT_ANY),
        AMB_OK);
    assert_int_equal(used(account->above, AMB_QUOTA_SUBSCRIPTIONS), 0);
    stepped_leave(other, other_fd);
    amb_party_unref(&party);
}

/* Each second may have a little less than the limit, though the rest waits. */
static void test_a_rate_that_holds_somebody_is_full(void **state)
{
    (void)state;
    int fd;
    use_roles(CAMERA);
    use(ALICE);
    struct amb_control *control = stepped_control();
    struct amb_client *alice = process_of(1000, 31, &fd);
    struct amb_account *account = amb_client_account(alice);
    quota_limit(account, AMB_QUOTA_REQUESTS, 1000);
    for (unsigned i = 0; i < 2; i++) {
        (void)atomic_fetch_add(&account->passed[AMB_QUOTA_REQUESTS], 990);
        (void)atomic_fetch_add(&account->refused[AMB_QUOTA_REQUESTS], i);
        control->now_ns = control->quotas_seen_ns + AMB_NS_PER_SEC;
        amb_quotas_tick(control);
        assert_in_range(used(account, AMB_QUOTA_REQUESTS), 900, 999);
        assert_int_equal(account->told[AMB_QUOTA_REQUESTS], i == 0 ? 75 : 100);
    }
    stepped_leave(alice, fd);
}

/* It could write more than a second's worth before it is billed. Or host memory has no room beside
 * what it has leased, so that no slot would come back. */
static void test_who_has_leased_comes_back_for_a_quota_that_is_less(void **state)
{
    (void)state;
    static const char *const quotas[] = {"in_bytes = 5;", "in_bytes = 5000;",
                                         "host_bytes = \"64K\";", "host_bytes = \"128K\";"};
    for (unsigned i = 0; i < 4; i++) {
        int leased_fd, plain_fd;
        char text[256];
        use_roles(CAMERA);
        use(ALICE CAROL);
        struct amb_client *leased = process_of(1000, 31, &leased_fd);
        struct amb_client *plain = process_of(1002, 32, &plain_fd);
        leased->has_leased = true;
        amb_account_add(amb_client_account(leased), AMB_QUOTA_LEASED, 1000);
        amb_renew_quotas(leased->control);
        assert_int_equal(leased->revoked, AMB_OK);
        (void)snprintf(text, sizeof(text), "%s quotas = ( { name = \"default\"; %s } );", CAMERA,
                       quotas[i]);
        use_roles(text);
        amb_renew_quotas(leased->control);
        assert_int_equal(leased->revoked, i % 2 == 0 ? AMB_ELOST : AMB_OK);
        assert_int_equal(plain->revoked, AMB_OK);
        amb_account_sub(amb_client_account(leased), AMB_QUOTA_LEASED, 1000);
        amb_renew_some(leased->control);
        assert_int_equal(leased->state, i % 2 == 0 ? AMB_CLIENT_ENDING : AMB_CLIENT_LIVE);
        stepped_leave(leased, leased_fd);
        stepped_leave(plain, plain_fd);
    }
    use_roles(CAMERA);
    use("");
}

static enum amb_status topic(struct amb_client *client, int fd, uint32_t handle,
                             enum amb_priority priority)
{
    Amb__Control__PubOpen open = AMB__CONTROL__PUB_OPEN__INIT;
    Amb__Control__Control message = AMB__CONTROL__CONTROL__INIT;
    char text[16];
    (void)snprintf(text, sizeof(text), "t.%u", handle % 100);
    open.handle = handle;
    open.topic = text;
    open.priority = priority;
    message.id = 1;
    message.body_case = AMB__CONTROL__CONTROL__BODY_PUB_OPEN;
    message.pub_open = &open;
    return ask(client, fd, &message);
}

static void close_pub(struct amb_client *client, int fd, uint32_t handle)
{
    Amb__Control__PubClose close = AMB__CONTROL__PUB_CLOSE__INIT;
    Amb__Control__Control message = AMB__CONTROL__CONTROL__INIT;
    close.handle = handle;
    message.id = 1;
    message.body_case = AMB__CONTROL__CONTROL__BODY_PUB_CLOSE;
    message.pub_close = &close;
    assert_int_equal(ask(client, fd, &message), AMB_OK);
}

/* Idle ones leave for those that come, a few for each. */
static void test_topics_are_within_the_quota_whatever_leaves_for_them(void **state)
{
    (void)state;
    int fd;
    use_roles(CAMERA);
    use(ALICE);
    struct amb_client *alice = process_of(1000, 51, &fd);
    struct amb_account *account = amb_client_account(alice);
    quota_limit(account, AMB_QUOTA_TOPICS, 2);
    assert_int_equal(topic(alice, fd, 1, AMB_PRIORITY_NORMAL), AMB_OK);
    assert_int_equal(topic(alice, fd, 2, AMB_PRIORITY_NORMAL), AMB_OK);
    close_pub(alice, fd, 1);
    /* The idle one that leaves is the one that it needs beside it. */
    assert_int_equal(topic(alice, fd, 101, AMB_PRIORITY_HIGH), AMB_ELIMIT);
    assert_true(used(account, AMB_QUOTA_TOPICS) <= 2);
    quota_limit(account, AMB_QUOTA_TOPICS, AMB_QUOTA_NONE);
    for (uint32_t i = 3; i < 23; i++) {
        assert_int_equal(topic(alice, fd, i, AMB_PRIORITY_NORMAL), AMB_OK);
        close_pub(alice, fd, i);
    }
    quota_limit(account, AMB_QUOTA_TOPICS, 2);
    assert_int_equal(topic(alice, fd, 30, AMB_PRIORITY_NORMAL), AMB_ELIMIT);
    assert_in_range(used(account, AMB_QUOTA_TOPICS), 5, 6);
    assert_int_equal(topic(alice, fd, 30, AMB_PRIORITY_NORMAL), AMB_OK);
    assert_int_equal(used(account, AMB_QUOTA_TOPICS), 2);
    stepped_leave(alice, fd);
}

/* A client of that uid whose Auth names the session of `former`. No worker has had its turn since.
 */
static struct amb_client *come_after(const struct amb_client *former, int *fd)
{
    struct amb_client *client = stepped_connect(true, fd);
    client->uid = former->uid;
    client->user = former->user;
    stepped_say_body(*fd, stepped_hello, sizeof(stepped_hello));
    stepped_control_turn(client);
    stepped_say_auth_after(*fd, former);
    stepped_control_turn(client);
    return client;
}

/* A session that goes makes room for one. Its worker has not closed it yet. */
static void test_one_session_takes_the_place_of_another(void **state)
{
    (void)state;
    int fds[3];
    use_roles(CAMERA " quotas = ( { name = \"default\"; connections = 1; } );");
    use(ALICE);
    struct amb_client *alice = process_of(1000, 41, &fds[0]);
    struct amb_client *second = come_after(alice, &fds[1]), *third = come_after(alice, &fds[2]);
    assert_int_equal(alice->state, AMB_CLIENT_ENDING);
    assert_int_equal(second->state, AMB_CLIENT_OPENING);
    assert_int_equal(third->state, AMB_CLIENT_ENDING);
    stepped_settle(second);
    (void)close(fds[2]);
    stepped_leave(alice, fds[0]); /* Both are buried. */
    assert_int_equal(second->state, AMB_CLIENT_LIVE);
    assert_int_equal(used(amb_client_account(second), AMB_QUOTA_CONNECTIONS), 1);
    stepped_leave(second, fds[1]);
    use_roles(CAMERA);
    use("");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_name_is_its_users_in_every_process),
        cmocka_unit_test(test_a_shared_durable_is_of_who_reads_it),
        cmocka_unit_test(test_a_rate_that_holds_somebody_is_full),
        cmocka_unit_test(test_topics_are_within_the_quota_whatever_leaves_for_them),
        cmocka_unit_test(test_one_session_takes_the_place_of_another),
        cmocka_unit_test(test_who_has_leased_comes_back_for_a_quota_that_is_less),
    };
    return cmocka_run_group_tests_name("broker/quotas", tests, NULL, forget_roles);
}
