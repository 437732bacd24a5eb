/* SPDX-License-Identifier: Apache-2.0 */
/*
 * broker/permit: rights of a user, as its client is told of them. The control
 * thread and the workers have their turns as the test says.
 */
#include "broker/control/requests/permit.h"

#include "broker/base/user.h"
#include "broker/control/directory/queues.h"
#include "broker/worker/orders_session.h"
#include "tests/support/door/stepped_control.h"
#include "tests/support/rights_try.h"

#include <stdint.h>

#define OWN 1000u
#define OTHER 1001u
#define TENANT 5000u
#define INBOX "$INBOX.0123456789abcdef0123456789abcdef"

static enum amb_status status_of(Amb__Control__Control *answer, const char *part)
{
    bool is_error = answer->body_case == AMB__CONTROL__CONTROL__BODY_ERROR;
    enum amb_status status = is_error ? (enum amb_status)answer->error->status : AMB_OK;
    if (is_error && strstr(answer->error->text, part) == NULL) {
        fail_msg("\"%s\" is not in: %s", part, answer->error->text);
    }
    amb_control_free(answer);
    return status;
}

static enum amb_status publish(struct amb_client *client, int fd, uint32_t handle,
                               const char *topic, const char *name, const char *part)
{
    Amb__Control__PubOpen open;
    Amb__Control__Control message;
    amb__control__pub_open__init(&open);
    amb__control__control__init(&message);
    open.handle = handle;
    open.topic = (char *)(uintptr_t)topic;
    open.name = (char *)(uintptr_t)name;
    message.id = 1;
    message.body_case = AMB__CONTROL__CONTROL__BODY_PUB_OPEN;
    message.pub_open = &open;
    return status_of(stepped_ask(client, fd, &message), part);
}

struct wish {
    const char *pattern, *group, *durable;
    bool acks;
};

/* *narrowed: as the answer says it. */
static enum amb_status subscribe(struct amb_client *client, int fd, uint32_t handle,
                                 const struct wish *wish, uint32_t *narrowed, const char *part)
{
    Amb__Control__Subscribe subscribe;
    Amb__Control__Control message;
    amb__control__subscribe__init(&subscribe);
    amb__control__control__init(&message);
    subscribe.handle = handle;
    subscribe.pattern = (char *)(uintptr_t)wish->pattern;
    subscribe.group = (char *)(uintptr_t)(wish->group != NULL ? wish->group : "");
    subscribe.durable = (char *)(uintptr_t)(wish->durable != NULL ? wish->durable : "");
    subscribe.ack = wish->acks ? AMB_ACK_EXPLICIT : 0;
    subscribe.credit_msgs = 1;
    message.id = 1;
    message.body_case = AMB__CONTROL__CONTROL__BODY_SUBSCRIBE;
    message.subscribe = &subscribe;
    Amb__Control__Control *answer = stepped_ask(client, fd, &message);
    *narrowed = answer->body_case == AMB__CONTROL__CONTROL__BODY_OK ? answer->ok->narrowed : 0;
    return status_of(answer, part);
}

static enum amb_status read_of(struct amb_client *client, int fd, uint32_t handle,
                               const char *pattern, const char *part)
{
    uint32_t narrowed;
    const struct wish wish = {.pattern = pattern};
    return subscribe(client, fd, handle, &wish, &narrowed, part);
}

/* A live client of that user with the rights, of which it takes the reference. */
static struct amb_client *client_with(uint32_t user, struct amb_rights *rights, int *fd)
{
    struct amb_client *client = stepped_connect(true, fd);
    client->user = user;
    client->sharer = TENANT;
    client->rights = rights;
    stepped_log_in(client, *fd);
    return client;
}

static struct amb_rights *rights_of(const struct try_role *role)
{
    const struct amb_role *roles[] = {&role->role};
    const struct amb_rights_of of = {roles, 1, "u", "t"};
    struct amb_rights *rights = NULL;
    assert_int_equal(amb_rights_make(&of, &rights), AMB_OK);
    return rights;
}

static void test_topics_and_patterns_that_no_role_has_are_refused(void **state)
{
    (void)state;
    struct try_role role = {.role = {.name = "r"}};
    try_add(&role, 0, "a.>");
    try_add(&role, 1, "a.secret");
    try_add(&role, 2, "b.*");
    try_add(&role, 3, "b.secret");
    int fd;
    struct amb_client *client = client_with(OWN, rights_of(&role), &fd);
    uint64_t before = client->control->stats->forbidden;
    assert_int_equal(publish(client, fd, 0, "a.b", "", ""), AMB_OK);
    assert_int_equal(publish(client, fd, 1, "b", "", "no role of this user allows it"),
                     AMB_EFORBIDDEN);
    assert_int_equal(publish(client, fd, 1, "a.secret", "", "a role of this user denies it"),
                     AMB_EFORBIDDEN);
    assert_int_equal(read_of(client, fd, 0, "b.x", ""), AMB_OK);
    assert_int_equal(read_of(client, fd, 1, "a.b", "no role of this user allows it"),
                     AMB_EFORBIDDEN);
    assert_int_equal(read_of(client, fd, 1, ">", "no role of this user allows it"), AMB_EFORBIDDEN);
    assert_int_equal(read_of(client, fd, 1, "$SYS.>", "no role of this user allows it"),
                     AMB_EFORBIDDEN);
    assert_int_equal(read_of(client, fd, 1, "b.secret", "a role of this user denies it"),
                     AMB_EFORBIDDEN);
    assert_int_equal(client->control->stats->forbidden, before + 6);
    assert_int_equal(client->state, AMB_CLIENT_LIVE); /* It goes on. */
    assert_int_equal(read_of(client, fd, 1, "b.y", ""), AMB_OK);
    stepped_leave(client, fd);
}

static void test_a_deny_narrows_and_the_answer_says_so(void **state)
{
    (void)state;
    struct try_role role = {.role = {.name = "r"}};
    try_add(&role, 2, "b.>");
    try_add(&role, 3, "*.secret");
    int fd;
    uint32_t narrowed;
    struct amb_rights *rights = rights_of(&role);
    struct amb_client *client = client_with(OWN, rights, &fd);
    const struct wish plain = {.pattern = "b.*"}, whole = {.pattern = "b.x.*"};
    assert_int_equal(subscribe(client, fd, 0, &plain, &narrowed, ""), AMB_OK);
    assert_int_equal(narrowed, 1);
    assert_int_equal(rights->refs, 2);
    assert_int_equal(subscribe(client, fd, 1, &whole, &narrowed, ""), AMB_OK);
    assert_int_equal(narrowed, 0);
    assert_int_equal(rights->refs, 2);
    /* Queues take a pattern as a whole. */
    static const struct wish queues[] = {{.pattern = "b.*", .acks = true},
                                         {.pattern = "b.*", .group = "g"},
                                         {.pattern = "b.*", .durable = "d"}};
    for (size_t i = 0; i < sizeof(queues) / sizeof(queues[0]); i++) {
        assert_int_equal(subscribe(client, fd, 2, &queues[i], &narrowed, "as a whole"),
                         AMB_EFORBIDDEN);
    }
    const struct wish queue = {.pattern = "b.x.*", .group = "g"};
    assert_int_equal(subscribe(client, fd, 2, &queue, &narrowed, ""), AMB_OK);
    stepped_leave(client, fd);
}

static void test_inboxes_go_by_request_and_reply(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 4; i++) {
        struct try_role role = {
            .role = {.name = "r", .request = (i & 1) != 0, .reply = (i & 2) != 0}};
        try_add(&role, 0, ">");
        try_add(&role, 2, ">");
        int fd;
        struct amb_client *client = client_with(OWN, rights_of(&role), &fd);
        assert_int_equal(read_of(client, fd, 0, INBOX, "has request"),
                         (i & 1) != 0 ? AMB_OK : AMB_EFORBIDDEN);
        assert_int_equal(publish(client, fd, 0, INBOX, "", "has reply"),
                         (i & 2) != 0 ? AMB_OK : AMB_EFORBIDDEN);
        stepped_leave(client, fd);
    }
}

static unsigned queues_of(const struct amb_control *control, uint32_t owner)
{
    unsigned count = 0;
    AMB_LIST_FOR_EACH (node, &control->directory.queues) {
        count += AMB_CONTAINER_OF(node, struct amb_dir_queue, node)->user == owner;
    }
    return count;
}

static void test_names_are_the_users_or_the_tenants(void **state)
{
    (void)state;
    static const char *const shared[] = {"workers"};
    struct try_role role = {.role = {.name = "r", .shared = {shared, 1, NULL}}};
    try_add(&role, 0, ">");
    try_add(&role, 2, ">");
    struct try_role alone = role;
    alone.role.shared.count = 0;
    alone.role.publish.allow.items = alone.lists[0];
    alone.role.subscribe.allow.items = alone.lists[2];
    int one_fd, two_fd, three_fd;
    uint32_t narrowed;
    struct amb_client *one = client_with(OWN, rights_of(&role), &one_fd);
    struct amb_client *two = client_with(OTHER, rights_of(&role), &two_fd);
    struct amb_client *three = client_with(OWN, rights_of(&alone), &three_fd);
    struct amb_control *control = one->control;
    const struct wish workers = {.pattern = "a", .group = "workers"};
    const struct wish own = {.pattern = "a", .group = "own"};
    assert_int_equal(subscribe(one, one_fd, 0, &workers, &narrowed, ""), AMB_OK);
    assert_int_equal(subscribe(two, two_fd, 0, &workers, &narrowed, ""), AMB_OK);
    assert_int_equal(queues_of(control, TENANT), 1); /* They have it in common. */
    assert_int_equal(subscribe(one, one_fd, 1, &own, &narrowed, ""), AMB_OK);
    assert_int_equal(subscribe(two, two_fd, 1, &own, &narrowed, ""), AMB_OK);
    assert_int_equal(queues_of(control, OWN), 1);
    assert_int_equal(queues_of(control, OTHER), 1);
    /* A role that does not list it has another name in mind. */
    assert_int_equal(subscribe(three, three_fd, 0, &workers, &narrowed, ""), AMB_OK);
    assert_int_equal(queues_of(control, TENANT), 1);
    assert_int_equal(queues_of(control, OWN), 2);
    /* The durable name decides. */
    const struct wish both = {.pattern = "b", .group = "own", .durable = "workers"};
    assert_int_equal(subscribe(one, one_fd, 2, &both, &narrowed, ""), AMB_OK);
    assert_int_equal(queues_of(control, TENANT), 2);
    /* So it is with publishers. */
    assert_int_equal(publish(one, one_fd, 0, "t", "own", ""), AMB_OK);
    assert_int_equal(publish(two, two_fd, 0, "t", "own", ""), AMB_OK);
    assert_int_equal(publish(one, one_fd, 1, "t", "workers", ""), AMB_OK);
    assert_int_equal(publish(two, two_fd, 1, "t", "workers", "another one has it"), AMB_EBUSY);
    assert_int_equal(publish(three, three_fd, 0, "t", "own", "another one has it"), AMB_EBUSY);
    assert_int_equal(publish(three, three_fd, 0, "t", "workers", ""), AMB_OK);
    stepped_leave(one, one_fd);
    const uint32_t tenant = TENANT; /* The durable one stays. */
    assert_int_equal(
        amb_queues_remove_durable(&control->directory, "workers", &tenant, AMB_TENANT_ANY), AMB_OK);
    stepped_leave(three, three_fd);
    stepped_leave(two, two_fd);
}

static void test_without_rights_everything_is_allowed(void **state)
{
    (void)state;
    int fd;
    uint32_t narrowed;
    struct amb_client *client = client_with(OWN, NULL, &fd);
    assert_int_equal(publish(client, fd, 0, "a", "workers", ""), AMB_OK);
    assert_int_equal(publish(client, fd, 1, INBOX, "", ""), AMB_OK);
    const struct wish wish = {.pattern = ">"}, queue = {.pattern = ">", .group = "workers"};
    assert_int_equal(subscribe(client, fd, 0, &wish, &narrowed, ""), AMB_OK);
    assert_int_equal(narrowed, 0);
    assert_int_equal(subscribe(client, fd, 1, &queue, &narrowed, ""), AMB_OK);
    assert_int_equal(queues_of(client->control, OWN), 1);
    assert_int_equal(read_of(client, fd, 2, "$SYS.>", ""), AMB_OK);
    stepped_leave(client, fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_topics_and_patterns_that_no_role_has_are_refused),
        cmocka_unit_test(test_a_deny_narrows_and_the_answer_says_so),
        cmocka_unit_test(test_inboxes_go_by_request_and_reply),
        cmocka_unit_test(test_names_are_the_users_or_the_tenants),
        cmocka_unit_test(test_without_rights_everything_is_allowed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
