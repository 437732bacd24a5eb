/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pairs of subscriptions with a wildcard and topics: in slices, and within their limits.
 */
#include "broker/base/party.h"
#include "broker/control/directory/directory_accounts.h"
#include "broker/control/directory/directory_chores.h"
#include "broker/control/directory/directory_counts.h"
#include "broker/control/directory/directory_wake.h"
#include "tests/unit/broker/control/directory/directory_world.h"
#include "wire/codec/position.h"

#include <stdio.h>
#include <stdlib.h>

#define TOPICS 2000u

static const char many[] =
    "limits = { max_topics = 5000; max_pairs = 6000; max_pairs_per_client = 4500; };\n"
    "memory = { host = { size = \"16M\"; segment = \"2M\"; }; };\n";

static struct amb_dir_topic *topics[TOPICS];
static struct amb_session_id session;

static void make_topic(unsigned i)
{
    char name[16];
    int len = snprintf(name, sizeof(name), "t.%u", i);
    assert_int_equal(amb_directory_topic(&f.directory, 0, name, (size_t)len, i % f.harness.count,
                                         NULL, &topics[i]),
                     AMB_OK);
}

static void work(void)
{
    for (unsigned i = 0;
         !amb_list_is_empty(&f.directory.chores) || !amb_list_is_empty(&f.directory.wakers); i++) {
        assert_true(i < 1000);
        round_of_work();
    }
    round_of_work();
    assert_int_equal(f.directory.slow_orders, 0);
    assert_int_equal(f.directory.wake_pairs, 0);
}

static void begin(unsigned shards, unsigned count)
{
    set_up(shards, many);
    session = open_session(0, 0);
    for (unsigned i = 0; i < count; i++) {
        make_topic(i);
        amb_directory_heard(&f.directory, topics[i]->on_shard[i % shards]);
    }
    work();
}

static void open_wild(struct amb_dir_sub *sub, uint32_t handle, struct amb_pair_account *account)
{
    open_sub(sub, &session, handle, "t.*");
    sub->account = account;
}

static unsigned cursors(void)
{
    unsigned count = 0;
    for (unsigned i = 0; i < TOPICS; i++) {
        count += topics[i] == NULL ? 0 : cursors_of(topics[i], 0);
    }
    return count;
}

static bool first_found(struct amb_pattern *pattern, void *arg)
{
    *(struct amb_pattern **)arg = pattern;
    return false;
}

static void over(void)
{
    for (;;) {
        struct amb_pattern *pattern = NULL;
        uint32_t steps = UINT32_MAX;
        (void)amb_patterns_match(&f.directory.patterns, 0, "t.0", 3, &steps, first_found, &pattern);
        if (pattern == NULL) {
            break;
        }
        struct amb_list_node *node = pattern->subs.next;
        amb_directory_unsubscribe(&f.directory, AMB_CONTAINER_OF(node, struct amb_dir_sub, same));
    }
    work();
    assert_int_equal(f.directory.pair_count, 0);
    memset(topics, 0, sizeof(topics));
    tear_down();
}

static void test_a_wildcard_comes_in_slices(void **state)
{
    (void)state;
    struct amb_dir_sub sub;
    begin(2, TOPICS);
    open_wild(&sub, 0, NULL);
    unsigned orders = amb_directory_subscribe(&f.directory, &sub, note_answer, NULL);
    assert_in_range(orders, 1, 300);
    settle();
    assert_int_equal(f.answers, orders - 1); /* It has not come yet. */
    unsigned had = cursors();
    while (!amb_list_is_empty(&f.directory.chores)) {
        assert_true(amb_directory_is_busy(&f.directory));
        round_of_work();
        assert_in_range(cursors() - had, 1, 600);
        had = cursors();
    }
    settle();
    assert_int_equal(f.answers, orders);
    assert_int_equal(cursors(), TOPICS);
    assert_int_equal(f.directory.pair_count, TOPICS);
    over();
}

static void test_topics_that_come_meanwhile_are_read_once(void **state)
{
    (void)state;
    struct amb_dir_sub sub;
    begin(2, TOPICS - 100);
    open_wild(&sub, 0, NULL);
    (void)amb_directory_subscribe(&f.directory, &sub, note_answer, NULL);
    for (unsigned i = TOPICS - 100; i < TOPICS; i++) {
        make_topic(i);
        assert_int_equal(amb_directory_matched(topics[i]),
                         1); /* Before anybody can publish to it. */
        amb_directory_heard(&f.directory, topics[i]->on_shard[i % 2]);
    }
    work();
    for (unsigned i = 0; i < TOPICS; i++) {
        assert_int_equal(cursors_of(topics[i], 0), 1);
        assert_int_equal(amb_directory_matched(topics[i]), 1);
    }
    over();
}

static void test_who_goes_before_it_has_come_leaves_nothing(void **state)
{
    (void)state;
    struct amb_dir_sub sub, other;
    begin(2, TOPICS);
    open_wild(&other, 1, NULL);
    (void)amb_directory_subscribe(&f.directory, &other, note_answer, NULL);
    work();
    f.answers = 0;
    open_wild(&sub, 0, NULL);
    unsigned orders = amb_directory_subscribe(&f.directory, &sub, NULL, NULL);
    assert_int_equal(orders, 0);
    amb_directory_work(&f.directory);
    unsubscribe(&sub);
    assert_null(sub.pairs);
    assert_false(amb_list_is_empty(&f.directory.chores)); /* It leaves in slices, too. */
    work();
    for (unsigned i = 0; i < TOPICS; i++) {
        assert_int_equal(amb_directory_matched(topics[i]), 1);
        assert_int_equal(topics[i]->on_shard[i % 2]->audience.matched, 1);
    }
    assert_int_equal(cursors(), TOPICS);
    assert_int_equal(f.directory.pair_count, TOPICS);
    over();
}

/* Where it began is asked of a subscription that is there, and of none that leaves. */
static void test_who_has_begun_at_a_position_leaves_in_slices(void **state)
{
    (void)state;
    uint8_t position[128];
    struct amb_position_writer writer;
    struct amb_dir_sub sub;
    begin(2, TOPICS);
    open_wild(&sub, 0, NULL);
    amb_position_begin(&writer, position, sizeof(position));
    amb_position_add(&writer,
                     &(struct amb_position_topic){.next = 1, .name = "t.0", .name_len = 3});
    assert_int_equal(amb_position_end(&writer, 1, 0), AMB_OK);
    sub.position = position;
    sub.position_len = (uint32_t)writer.len;
    (void)amb_directory_subscribe(&f.directory, &sub, note_answer, NULL);
    work();
    unsubscribe(&sub);
    memset(&sub, 0xff, sizeof(sub)); /* Its client's worker has answered: it is freed. */
    assert_false(amb_list_is_empty(&f.directory.chores));
    work();
    for (unsigned i = 0; i < TOPICS; i++) {
        assert_int_equal(amb_directory_matched(topics[i]), 0);
    }
    over();
}

static void test_pairs_of_a_client_are_bounded(void **state)
{
    (void)state;
    struct amb_dir_sub subs[3];
    begin(1, TOPICS);
    struct amb_pair_account *account = amb_pair_account_create(&f, NULL);
    for (unsigned i = 0; i < 2; i++) {
        assert_null(amb_directory_lacks_pairs(&f.directory, account, 0, "t.*", 3));
        open_wild(&subs[i], i, account);
        (void)amb_directory_subscribe(&f.directory, &subs[i], note_answer, NULL);
        work();
    }
    assert_int_equal(account->pairs, 2 * TOPICS);
    assert_string_equal(amb_directory_lacks_pairs(&f.directory, account, 0, "t.*", 3),
                        "limits.max_pairs_per_client");
    assert_null(amb_directory_lacks_pairs(&f.directory, account, 0, "t.1", 3));
    assert_null(amb_directory_lacks_pairs(&f.directory, account, 0, "u.*", 3));
    /* 251 topics more, of which the last has one pair too many: its publisher is unhurt. */
    struct amb_dir_topic *topic;
    for (unsigned i = 0; i < 251; i++) {
        char name[16];
        int len = snprintf(name, sizeof(name), "t.more%u", i);
        assert_true(amb_list_is_empty(&f.directory.over));
        assert_int_equal(amb_directory_topic(&f.directory, 0, name, (size_t)len, 0, NULL, &topic),
                         AMB_OK);
        amb_directory_heard(&f.directory, topic->on_shard[0]);
        work();
    }
    assert_false(amb_list_is_empty(&f.directory.over));
    assert_string_equal(subs[0].over, "limits.max_pairs_per_client");
    assert_int_equal(account->pairs, 4500);
    work();
    amb_pair_account_unref(&account); /* Its subscriptions have it yet. */
    over();
}

static void test_pairs_of_all_are_bounded(void **state)
{
    (void)state;
    struct amb_dir_sub subs[3];
    begin(1, TOPICS);
    for (unsigned i = 0; i < 3; i++) {
        assert_null(amb_directory_lacks_pairs(&f.directory, NULL, 0, "t.*", 3));
        open_wild(&subs[i], i, NULL);
        (void)amb_directory_subscribe(&f.directory, &subs[i], note_answer, NULL);
        work();
    }
    assert_string_equal(amb_directory_lacks_pairs(&f.directory, NULL, 0, "t.*", 3),
                        "limits.max_pairs");
    assert_int_equal(f.directory.pair_count, 3 * TOPICS);
    over();
}

static void test_who_has_most_pairs_goes_when_there_are_too_many(void **state)
{
    (void)state;
    struct amb_dir_sub subs[3];
    begin(1, TOPICS);
    struct amb_pair_account *rich = amb_pair_account_create(&f, NULL);
    struct amb_pair_account *poor = amb_pair_account_create(&session, NULL);
    for (unsigned i = 0; i < 3; i++) {
        open_wild(&subs[i], i, i < 2 ? rich : poor);
        (void)amb_directory_subscribe(&f.directory, &subs[i], note_answer, NULL);
        work();
    }
    assert_int_equal(f.directory.pair_count, 6000);
    struct amb_dir_topic *topic = awake_topic_of("t.more", 0);
    assert_null(subs[2].over);
    assert_string_equal(subs[0].over, "limits.max_pairs");
    assert_int_equal(poor->pairs, TOPICS + 1);
    assert_int_equal(cursors_of(topic, 0), 1);
    /* Its pairs are its own until they are undone. */
    unsubscribe(&subs[0]);
    assert_in_range(rich->pairs, TOPICS + 1, 2 * TOPICS - 1);
    work();
    assert_int_equal(rich->pairs, TOPICS);
    unsubscribe(&subs[1]);
    work();
    assert_int_equal(rich->pairs, 0);
    (void)awake_topic_of("t.again", 0);
    assert_int_equal(poor->pairs, TOPICS + 2);
    assert_null(subs[2].over);
    amb_pair_account_unref(&rich);
    amb_pair_account_unref(&poor);
    over();
}

/* Or eight clients of one user had them all, and a ninth of anybody none. */
static void test_pairs_of_all_are_shared(void **state)
{
    (void)state;
    struct amb_parties parties = {0};
    struct amb_party *own = NULL, *other = NULL;
    struct amb_dir_sub subs[3];
    begin(1, TOPICS);
    assert_int_equal(amb_parties_init(&parties, 2), AMB_OK);
    assert_int_equal(amb_parties_find(&parties, 1000, "pid 1", &own), AMB_OK);
    assert_int_equal(amb_parties_find(&parties, 1000, "pid 2", &other), AMB_OK);
    struct amb_pair_account *one = amb_pair_account_create(&f, own);
    struct amb_pair_account *two = amb_pair_account_create(&f, other);
    assert_null(amb_directory_lacks_pairs(&f.directory, one, 0, "t.*", 3));
    open_wild(&subs[0], 0, one);
    (void)amb_directory_subscribe(&f.directory, &subs[0], note_answer, NULL);
    work();
    assert_int_equal(own->pairs, TOPICS);
    /* Half of 6,000 is the process's. */
    assert_non_null(
        strstr(amb_directory_lacks_pairs(&f.directory, one, 0, "t.*", 3), "one process"));
    assert_null(amb_directory_lacks_pairs(&f.directory, two, 0, "t.*", 3));
    open_wild(&subs[1], 1, two);
    (void)amb_directory_subscribe(&f.directory, &subs[1], note_answer, NULL);
    work();
    assert_int_equal(own->user->used[AMB_SHARE_PAIRS], 2 * TOPICS);
    own->user->used[AMB_SHARE_PAIRS] += 1000; /* another of its processes, of 5,400 at most */
    struct amb_party *third = NULL;
    assert_int_equal(amb_parties_find(&parties, 1000, "pid 3", &third), AMB_OK);
    struct amb_pair_account *three = amb_pair_account_create(&f, third);
    assert_non_null(
        strstr(amb_directory_lacks_pairs(&f.directory, three, 0, "t.*", 3), "user_share"));
    amb_pair_account_unref(&three);
    amb_party_unref(&third);
    own->user->used[AMB_SHARE_PAIRS] -= 1000;
    unsubscribe(&subs[0]);
    work();
    assert_int_equal(own->pairs, 0);
    assert_int_equal(own->user->used[AMB_SHARE_PAIRS], TOPICS);
    amb_pair_account_unref(&one);
    amb_pair_account_unref(&two); /* Its subscription has it yet. */
    unsubscribe(&subs[1]);
    work();
    assert_int_equal(own->user->used[AMB_SHARE_PAIRS], 0);
    amb_party_unref(&own);
    amb_party_unref(&other);
    amb_parties_fini(&parties);
    over();
}

/* Or a client that comes and goes again and again has a look at all topics made for each time. */
static void test_who_leaves_quiet_topics_leaves_no_work(void **state)
{
    (void)state;
    struct amb_dir_sub sub;
    set_up(1, many);
    session = open_session(0, 0);
    for (unsigned i = 0; i < 5000; i++) {
        char name[16];
        struct amb_dir_topic *topic;
        int len = snprintf(name, sizeof(name), "q.%u", i);
        assert_int_equal(amb_directory_topic(&f.directory, 0, name, (size_t)len, 0, NULL, &topic),
                         AMB_OK);
    }
    settle();
    open_sub(&sub, &session, 0, "none.*");
    (void)amb_directory_subscribe(&f.directory, &sub, note_answer, NULL);
    work();
    amb_directory_unsubscribe(&f.directory, &sub);
    assert_true(amb_list_is_empty(&f.directory.chores));
    over();
}

static void test_topics_that_have_left_take_no_room(void **state)
{
    (void)state;
    struct amb_dir_sub sub;
    begin(1, 10);
    struct amb_pair_account *account = amb_pair_account_create(&f, NULL);
    open_wild(&sub, 0, account);
    (void)amb_directory_subscribe(&f.directory, &sub, note_answer, NULL);
    settle();
    for (unsigned round = 0; round < 12; round++) {
        for (unsigned i = 0; i < 1000; i++) {
            char name[24];
            struct amb_dir_topic *topic;
            int len = snprintf(name, sizeof(name), "t.r%u-%u", round, i);
            assert_int_equal(
                amb_directory_topic(&f.directory, 0, name, (size_t)len, 0, NULL, &topic), AMB_OK);
            amb_directory_heard(&f.directory, topic->on_shard[0]);
            publish_once(topic);
        }
        work();
        advance(f.harness.config->limits.topic_idle_ns + 1);
        assert_int_equal(f.directory.pair_count, 10);
    }
    assert_null(sub.over);
    assert_true(account->pairs <= 4500);
    assert_true(sub.pair_size <= 8192);
    amb_pair_account_unref(&account);
    over();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_wildcard_comes_in_slices),
        cmocka_unit_test(test_topics_that_come_meanwhile_are_read_once),
        cmocka_unit_test(test_who_goes_before_it_has_come_leaves_nothing),
        cmocka_unit_test(test_who_has_begun_at_a_position_leaves_in_slices),
        cmocka_unit_test(test_pairs_of_a_client_are_bounded),
        cmocka_unit_test(test_pairs_of_all_are_bounded),
        cmocka_unit_test(test_pairs_of_all_are_shared),
        cmocka_unit_test(test_who_has_most_pairs_goes_when_there_are_too_many),
        cmocka_unit_test(test_who_leaves_quiet_topics_leaves_no_work),
        cmocka_unit_test(test_topics_that_have_left_take_no_room),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
