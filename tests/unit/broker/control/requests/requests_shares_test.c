/* SPDX-License-Identifier: Apache-2.0 */
/*
 * broker/requests: a user's share of topics, and of durable names that nobody uses; a trust group
 * without room. The counter of GPU messages by clients' word. The control thread and the workers
 * have their turns as the test says.
 */
#include "broker/base/party.h"
#include "broker/config/config.h"
#include "broker/control/directory/directory_topic.h"
#include "broker/control/directory/queues.h"
#include "tests/support/door/stepped_control.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>

#define TOPICS 29u        /* 90 of 100 of 32 */
#define SUBSCRIPTIONS 15u /* ... of 16 */

/* Says it, and returns what is answered; text: of an Error, else "". */
/* The answer's status; OK: it was no refusal. text: the refusal's. */
static enum amb_status status_of(Amb__Control__Control *answer, char text[256])
{
    bool is_error = answer->body_case == AMB__CONTROL__CONTROL__BODY_ERROR;
    enum amb_status status = is_error ? (enum amb_status)answer->error->status : AMB_OK;
    (void)snprintf(text, 256, "%s", is_error ? answer->error->text : "");
    amb_control_free(answer);
    return status;
}

static enum amb_status ask(struct amb_client *client, int fd, const Amb__Control__Control *message,
                           char text[256])
{
    return status_of(stepped_ask(client, fd, message), text);
}

static Amb__Control__Control *ask_to_open(struct amb_client *client, int fd, unsigned i)
{
    Amb__Control__PubOpen open;
    Amb__Control__Control message;
    char topic[16];
    amb__control__pub_open__init(&open);
    amb__control__control__init(&message);
    (void)snprintf(topic, sizeof(topic), "t.%u", i);
    open.handle = i;
    open.topic = topic;
    message.id = 1;
    message.body_case = AMB__CONTROL__CONTROL__BODY_PUB_OPEN;
    message.pub_open = &open;
    return stepped_ask(client, fd, &message);
}

static enum amb_status pub_open(struct amb_client *client, int fd, unsigned i, char text[256])
{
    return status_of(ask_to_open(client, fd, i), text);
}

/* As PubOpened tells it. */
static unsigned group_of_topic(struct amb_client *client, int fd, unsigned i)
{
    Amb__Control__Control *answer = ask_to_open(client, fd, i);
    assert_int_equal(answer->body_case, AMB__CONTROL__CONTROL__BODY_PUB_OPENED);
    unsigned group = answer->pub_opened->group;
    amb_control_free(answer);
    return group;
}

static void pub_close(struct amb_client *client, int fd, unsigned i)
{
    Amb__Control__PubClose close;
    Amb__Control__Control message;
    char text[256];
    amb__control__pub_close__init(&close);
    amb__control__control__init(&message);
    close.handle = i;
    message.id = 1;
    message.body_case = AMB__CONTROL__CONTROL__BODY_PUB_CLOSE;
    message.pub_close = &close;
    assert_int_equal(ask(client, fd, &message, text), AMB_OK);
}

static enum amb_status subscribe(struct amb_client *client, int fd, unsigned i, char text[256])
{
    Amb__Control__Subscribe subscribe;
    Amb__Control__Control message;
    char durable[16];
    amb__control__subscribe__init(&subscribe);
    amb__control__control__init(&message);
    (void)snprintf(durable, sizeof(durable), "d%u", i);
    subscribe.pattern = (char *)(uintptr_t) "a.b";
    subscribe.durable = durable;
    subscribe.ack = AMB_ACK_EXPLICIT;
    message.id = 1;
    message.body_case = AMB__CONTROL__CONTROL__BODY_SUBSCRIBE;
    message.subscribe = &subscribe;
    return ask(client, fd, &message, text);
}

static void unsubscribe(struct amb_client *client, int fd)
{
    Amb__Control__Unsubscribe unsubscribe;
    Amb__Control__Control message;
    char text[256];
    amb__control__unsubscribe__init(&unsubscribe);
    amb__control__control__init(&message);
    message.id = 1;
    message.body_case = AMB__CONTROL__CONTROL__BODY_UNSUBSCRIBE;
    message.unsubscribe = &unsubscribe;
    assert_int_equal(ask(client, fd, &message, text), AMB_OK);
}

/* Its user is none that may have all. */
static struct amb_client *known_client(int *fd)
{
    struct amb_client *client = stepped_connect(true, fd);
    stepped_log_in(client, *fd);
    client->party->user->is_free = false;
    return client;
}

static void test_a_user_leaves_topics_for_others(void **state)
{
    (void)state;
    int fd;
    char text[256];
    struct amb_client *client = known_client(&fd);
    struct amb_party *party = amb_party_ref(client->party);
    const struct amb_directory *directory = &stepped_control()->directory;
    for (unsigned i = 0; i < TOPICS; i++) {
        assert_int_equal(pub_open(client, fd, i, text), AMB_OK);
    }
    assert_int_equal(party->user->used[AMB_SHARE_TOPICS], TOPICS);
    assert_int_equal(pub_open(client, fd, TOPICS, text), AMB_ELIMIT);
    assert_non_null(strstr(text, "one user's share of 32 topics (limits.user_share)"));
    /* A name that nobody uses any more makes room for one that is used now. */
    pub_close(client, fd, 3);
    assert_int_equal(pub_open(client, fd, TOPICS, text), AMB_OK);
    assert_int_equal(party->user->used[AMB_SHARE_TOPICS], TOPICS);
    assert_int_equal(directory->topic_count, TOPICS);
    assert_int_equal(pub_open(client, fd, 3, text), AMB_ELIMIT);
    /* The broker's own topics are nobody's, and those that are there cost nothing. */
    pub_close(client, fd, 5);
    assert_int_equal(pub_open(client, fd, 5, text), AMB_OK);
    stepped_leave(client, fd);
    amb_party_unref(&party);
}

static void test_durable_names_that_wait_count_for_their_user(void **state)
{
    (void)state;
    int fd;
    char text[256];
    struct amb_client *client = known_client(&fd);
    struct amb_party *party = amb_party_ref(client->party);
    for (unsigned i = 0; i < SUBSCRIPTIONS; i++) {
        assert_int_equal(subscribe(client, fd, i, text), AMB_OK);
        assert_int_equal(party->user->used[AMB_SHARE_SUBSCRIPTIONS], i + 1);
        unsubscribe(client, fd);
        assert_int_equal(party->user->used[AMB_SHARE_SUBSCRIPTIONS], i + 1);
    }
    assert_int_equal(subscribe(client, fd, SUBSCRIPTIONS, text), AMB_ELIMIT);
    assert_non_null(strstr(text, "limits.user_share"));
    assert_int_equal(subscribe(client, fd, 4, text), AMB_OK); /* Its own again takes nothing. */
    assert_int_equal(party->user->used[AMB_SHARE_SUBSCRIPTIONS], SUBSCRIPTIONS);
    unsubscribe(client, fd);
    for (unsigned i = 0; i < SUBSCRIPTIONS; i++) {
        char name[16];
        (void)snprintf(name, sizeof(name), "d%u", i);
        assert_int_equal(
            amb_queues_remove_durable(&stepped_control()->directory, name, NULL, AMB_TENANT_ANY),
            AMB_OK);
    }
    assert_int_equal(party->user->used[AMB_SHARE_SUBSCRIPTIONS], 0);
    stepped_leave(client, fd);
    amb_party_unref(&party);
}

/* A topic's group without room for it in the broker. Its publisher is told it by the configuration,
 * and not as the default group, which others map. Memory that is leased for it is nobody's to map.
 */
static void test_a_group_past_its_limit_is_not_told_as_the_default_one(void **state)
{
    (void)state;
    static const char rules[] = "topics = ( { match = \"t.0\"; trust_group = \"cams\"; } );";
    static struct amb_config changed, *with_rules; /* Topics keep its rules. */
    struct amb_control *control = stepped_control();
    struct amb_directory *directory = &control->directory;
    const struct amb_config *former = control->config;
    const struct amb_config_source source = {.text = rules, .text_len = strlen(rules)};
    assert_int_equal(amb_config_create(&source, NULL, 0, &with_rules), AMB_OK);
    changed = *former;
    changed.topics = with_rules->topics;
    changed.trust_groups = with_rules->trust_groups;
    control->config = directory->config = &changed;
    for (unsigned i = 0; i < AMB_TRUST_GROUPS_MAX - 1; i++) {
        directory->trust_groups.items[i].tenant = 7;
    }
    directory->trust_groups.count = AMB_TRUST_GROUPS_MAX - 1;
    int fd;
    struct amb_client *client = known_client(&fd);
    assert_int_equal(group_of_topic(client, fd, 0), 1);
    assert_int_equal(group_of_topic(client, fd, 1), 0);
    const struct amb_dir_topic *topic =
        amb_directory_named(directory, AMB_TENANT_OPERATORS, "t.0", 3);
    assert_non_null(topic);
    assert_true(amb_trust_group_is_private(topic->group));
    assert_int_equal(directory->trust_groups.count, AMB_TRUST_GROUPS_MAX - 1);
    stepped_leave(client, fd);
    directory->trust_groups.count = 0;
    control->config = directory->config = former;
}

static void say_staged(struct amb_client *client, int fd, uint64_t in, uint64_t out)
{
    Amb__Control__Ping ping;
    Amb__Control__Control message;
    amb__control__ping__init(&ping);
    amb__control__control__init(&message);
    ping.staged_in = in;
    ping.staged_out = out;
    ping.staged_in_messages = in;
    ping.staged_out_messages = out;
    message.body_case = AMB__CONTROL__CONTROL__BODY_PING;
    message.ping = &ping;
    Amb__Control__Control *answer = stepped_ask(client, fd, &message);
    assert_int_equal(answer->body_case, AMB__CONTROL__CONTROL__BODY_PONG);
    amb_control_free(answer);
}

/* Clients say totals. The broker's counter outlives them, and no client turns it back. */
static void test_staged_messages_of_all_clients_are_counted(void **state)
{
    (void)state;
    int fds[2];
    struct amb_client *first = stepped_connect(true, &fds[0]);
    struct amb_client *second = stepped_connect(true, &fds[1]);
    stepped_log_in(first, fds[0]);
    stepped_log_in(second, fds[1]);
    const _Atomic uint64_t *staged = &stepped_control()->stats->staged;
    uint64_t before = amb_stat_get(staged);
    say_staged(first, fds[0], 3, 2);
    say_staged(second, fds[1], 10, 0);
    assert_int_equal(amb_stat_get(staged), before + 15);
    say_staged(first, fds[0], 4, 2);
    assert_int_equal(amb_stat_get(staged), before + 16);
    say_staged(first, fds[0], 1, 2); /* less than before */
    say_staged(first, fds[0], UINT64_MAX, 2);
    assert_int_equal(amb_stat_get(staged), before + 16);
    stepped_leave(first, fds[0]);
    stepped_leave(second, fds[1]);
    assert_int_equal(amb_stat_get(staged), before + 16);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_group_past_its_limit_is_not_told_as_the_default_one),
        cmocka_unit_test(test_a_user_leaves_topics_for_others),
        cmocka_unit_test(test_durable_names_that_wait_count_for_their_user),
        cmocka_unit_test(test_staged_messages_of_all_clients_are_counted),
    };
    return cmocka_run_group_tests_name("broker/requests, shares", tests, NULL, NULL);
}
