/* SPDX-License-Identifier: Apache-2.0 */
/*
 * broker/directory_wake: a topic without messages has no pairs, and none of its messages is missed.
 */
#include "broker/control/directory/directory_chores.h"
#include "broker/control/directory/directory_counts.h"
#include "broker/control/directory/directory_leave.h"
#include "broker/control/directory/directory_wake.h"
#include "broker/ingest/route.h"
#include "broker/shard/entry.h"
#include "broker/topic/cursor.h"
#include "tests/unit/broker/control/directory/directory_world.h"

#define SUBS 1500u

static const struct amb_record record;

static const char roomy[] = "limits = { max_subscriptions = 5000; max_pairs = 100000; };\n"
                            "memory = { host = { size = \"16M\"; segment = \"2M\"; }; };\n";

static void heard(struct amb_topic *topic)
{
    (void)topic;
    f.heard++;
}

static void begin(unsigned shards)
{
    set_up(shards, roomy);
    f.harness.upcalls.topic_heard = heard;
}

/* News that may be told later are told. */
static void refresh(void)
{
    f.directory.now_ns += INT64_C(250000000);
    round_of_work();
}

/* A message comes to the topic's home. */
static void publish(struct amb_dir_topic *topic)
{
    struct amb_shard *shard = f.harness.peers[topic->home];
    struct amb_entry *entry = amb_pool_get(&shard->entries.pool);
    assert_non_null(entry);
    *entry = (struct amb_entry){
        .refs = 1,
        .home = shard,
        .count = 1,
        .topic = topic->id,
        .meta_len = sizeof(struct amb_record),
        .meta = (const uint8_t *)&record,
        .origin = {.session = UINT32_MAX},
    };
    amb_route(shard, entry, topic->home);
}

static void test_a_topic_without_messages_has_no_pairs(void **state)
{
    (void)state;
    struct amb_dir_sub near, far, late;
    begin(2);
    struct amb_session_id here = open_session(0, 0), there = open_session(1, 0);
    (void)subscribe(&near, &here, 0, ">");
    struct amb_dir_topic *topic = topic_of("a.b", 0);
    (void)subscribe(&far, &there, 0, "a.*");
    assert_int_equal(amb_directory_matched(topic), 2);
    refresh();
    assert_int_equal(topic->on_shard[0]->audience.matched, 2);
    assert_null(topic->on_shard[1]); /* Another worker does not even know it. */
    assert_int_equal(f.directory.pair_count, 0);
    unsubscribe(&near);
    refresh();
    assert_int_equal(topic->on_shard[0]->audience.matched, 1);
    wake(topic);
    (void)subscribe(&late, &here, 1, "*.b");
    assert_int_equal(f.directory.pair_count, 2);
    assert_int_equal(topic->on_shard[0]->audience.matched, 2);
    assert_int_equal(cursors_of(topic, 0), 1);
    assert_int_equal(cursors_of(topic, 1), 1);
    tear_down();
}

static void test_the_first_messages_wait_for_all_cursors(void **state)
{
    (void)state;
    struct amb_dir_sub near, far, name;
    begin(2);
    struct amb_session_id here = open_session(0, 0), there = open_session(1, 0);
    (void)subscribe(&near, &here, 0, ">");
    (void)subscribe(&far, &there, 0, ">");
    (void)subscribe(&name, &here, 1, "a");
    struct amb_dir_topic *topic = topic_of("a", 0);
    struct amb_topic *home = topic->on_shard[0];
    publish(topic);
    publish(topic);
    assert_int_equal(f.heard, 1); /* once */
    assert_int_equal(home->log.hi, 0);
    for (unsigned i = 0; i < 98; i++) {
        publish(topic);
    }
    wake(topic);
    assert_false(home->audience.is_quiet); /* in slices */
    assert_int_equal(home->log.hi, 100);
    AMB_LIST_FOR_EACH (node, &home->cursors) {
        assert_int_equal(AMB_CONTAINER_OF(node, struct amb_cursor, of_topic)->loss.expected_seq,
                         home->log.next_seq - 100);
    }
    assert_int_equal(cursors_of(topic, 0), 2);
    assert_int_equal(topic->on_shard[1]->log.next_seq, home->log.next_seq); /* Lent, both. */
    publish(topic);
    assert_int_equal(f.heard, 1);
    assert_int_equal(home->log.hi, 101);
    tear_down();
}

static void test_many_readers_get_their_cursors_in_slices(void **state)
{
    (void)state;
    static struct amb_dir_sub subs[SUBS];
    begin(2);
    struct amb_session_id sessions[] = {open_session(0, 0), open_session(1, 0)};
    for (unsigned i = 0; i < SUBS; i++) {
        (void)subscribe(&subs[i], &sessions[i % 2], i / 2, i % 3 == 0 ? ">" : "a.*");
    }
    struct amb_dir_topic *topic = topic_of("a.b", 0), *other = topic_of("a.c", 1);
    publish(topic);
    publish(other);
    amb_directory_heard(&f.directory, topic->on_shard[0]);
    amb_directory_heard(&f.directory, other->on_shard[1]);
    assert_true(amb_directory_is_busy(&f.directory));
    for (unsigned slice = 1; slice < 3; slice++) {
        round_of_work();
        assert_int_equal(cursors_of(topic, 0) + cursors_of(topic, 1), slice * 512);
        assert_int_equal(amb_directory_matched(topic), SUBS);
        assert_int_equal(topic->on_shard[0]->log.hi, 0);
    }
    /* One that goes before its slice, one that has its cursor, and one that has just come. */
    unsubscribe(&subs[SUBS - 1]);
    unsubscribe(&subs[0]);
    struct amb_dir_sub late;
    (void)subscribe(&late, &sessions[1], 800, "a.b.>");
    assert_int_equal(amb_directory_matched(topic), SUBS - 2);
    amb_directory_unsubscribe(&f.directory, &late);
    (void)subscribe(&late, &sessions[1], 801, "*.b");
    while (amb_directory_is_busy(&f.directory)) {
        round_of_work();
    }
    settle();
    assert_int_equal(topic->wake, AMB_DIR_AWAKE);
    assert_int_equal(cursors_of(topic, 0) + cursors_of(topic, 1), SUBS - 1);
    assert_int_equal(amb_directory_matched(topic), SUBS - 1);
    assert_int_equal(cursors_of(other, 0) + cursors_of(other, 1), SUBS - 2);
    assert_int_equal(topic->on_shard[0]->log.hi, 1);
    assert_int_equal(other->on_shard[1]->log.hi, 1);
    assert_int_equal(f.directory.wake_pairs, 0);
    tear_down();
}

/* No more is made than homes have carried out: or a mailbox would fill. */
static void test_what_is_under_way_bounds_what_is_made(void **state)
{
    (void)state;
    static struct amb_dir_sub subs[SUBS];
    begin(1);
    struct amb_session_id sessions[] = {open_session(0, 0), open_session(0, 1)};
    for (unsigned i = 0; i < SUBS; i++) {
        (void)subscribe(&subs[i], &sessions[i % 2], i / 2, ">");
    }
    struct amb_dir_topic *topic = topic_of("a", 0);
    amb_directory_heard(&f.directory, topic->on_shard[0]);
    for (unsigned i = 0; i < 10; i++) {
        amb_directory_work(&f.directory);
    }
    assert_false(amb_directory_is_busy(&f.directory));
    assert_in_range(f.directory.pair_count, 1024, 1024);
    settle();
    assert_true(amb_directory_is_busy(&f.directory));
    amb_directory_work(&f.directory);
    settle();
    assert_int_equal(topic->wake, AMB_DIR_AWAKE);
    assert_int_equal(f.directory.pair_count, SUBS);
    tear_down();
}

static void publish_as(struct amb_dir_publisher *publisher, struct amb_party *party,
                       struct amb_dir_topic *topic)
{
    *publisher = (struct amb_dir_publisher){.session = {.index = UINT32_MAX}, .party = party};
    amb_list_init(&publisher->of_topic);
    amb_directory_publish(publisher, topic);
    amb_directory_heard(&f.directory, topic->on_shard[topic->home]);
}

static void test_who_wakes_many_topics_delays_nobody_else(void **state)
{
    (void)state;
    enum {
        GREEDY = 8,
        READERS = 600 /* so that a topic takes two slices */
    };
    static struct amb_dir_sub subs[READERS];
    struct amb_dir_publisher publishers[GREEDY + 1];
    struct amb_dir_topic *topics[GREEDY];
    struct amb_parties parties = {0};
    struct amb_party *greedy = NULL, *modest = NULL;
    begin(1);
    assert_int_equal(amb_parties_init(&parties, 2), AMB_OK);
    assert_int_equal(amb_parties_find(&parties, 1000, "pid 1", &greedy), AMB_OK);
    assert_int_equal(amb_parties_find(&parties, 1000, "pid 2", &modest), AMB_OK);
    struct amb_session_id session = open_session(0, 0);
    for (unsigned i = 0; i < READERS; i++) {
        (void)subscribe(&subs[i], &session, i, ">");
    }
    for (unsigned i = 0; i < GREEDY; i++) {
        topics[i] = topic_of((const char[]){(char)('a' + i), '\0'}, 0);
        publish_as(&publishers[i], greedy, topics[i]);
    }
    round_of_work(); /* The first of them is half way. */
    struct amb_dir_topic *other = topic_of("z", 0);
    publish_as(&publishers[GREEDY], modest, other);
    for (unsigned i = 0; other->wake != AMB_DIR_AWAKE; i++) {
        assert_in_range(i, 0, 3);
        round_of_work();
    }
    assert_int_equal(topics[0]->wake, AMB_DIR_AWAKE);
    assert_int_equal(topics[2]->wake, AMB_DIR_WAKING);
    amb_party_unref(&modest);
    while (amb_directory_is_busy(&f.directory)) {
        round_of_work();
    }
    for (unsigned i = 0; i < GREEDY; i++) {
        assert_int_equal(topics[i]->wake, AMB_DIR_AWAKE);
        assert_int_equal(cursors_of(topics[i], 0), READERS);
    }
    for (unsigned i = 0; i <= GREEDY; i++) {
        amb_directory_unpublish(&f.directory, &publishers[i]);
    }
    assert_int_equal(greedy->refs, 2); /* the table's and ours */
    amb_party_unref(&greedy);
    amb_parties_fini(&parties);
    tear_down();
}

/* Its publisher has gone, and its name, before the control thread has heard. */
static void test_a_topic_that_leaves_meanwhile_is_read(void **state)
{
    (void)state;
    struct amb_dir_sub far;
    begin(2);
    struct amb_session_id there = open_session(1, 0);
    (void)subscribe(&far, &there, 0, ">");
    struct amb_dir_topic *topic = topic_of("a", 0);
    publish(topic);
    amb_directory_unused(&f.directory, topic);
    assert_true(amb_directory_leave_oldest(&f.directory));
    settle();
    assert_int_equal(f.directory.topic_count, 0);
    assert_int_equal(f.heard, 1);
    wake(topic);
    assert_int_equal(topic->on_shard[0]->log.next_seq, 2);
    assert_int_equal(topic->on_shard[1]->log.next_seq, 2);
    assert_int_equal(f.directory.pair_count, 1);
    struct amb_cursor *cursor =
        AMB_CONTAINER_OF(topic->on_shard[1]->cursors.next, struct amb_cursor, of_topic);
    while (amb_cursor_has_next(cursor)) {
        amb_cursor_advance(cursor);
    }
    amb_topic_mark(topic->on_shard[1]);
    settle();
    for (unsigned i = 0; i < 4; i++) {
        advance(1);
    }
    assert_true(amb_list_is_empty(&f.directory.leaving));
    assert_int_equal(f.directory.pair_count, 0);
    tear_down();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_topic_without_messages_has_no_pairs),
        cmocka_unit_test(test_the_first_messages_wait_for_all_cursors),
        cmocka_unit_test(test_many_readers_get_their_cursors_in_slices),
        cmocka_unit_test(test_what_is_under_way_bounds_what_is_made),
        cmocka_unit_test(test_who_wakes_many_topics_delays_nobody_else),
        cmocka_unit_test(test_a_topic_that_leaves_meanwhile_is_read),
    };
    return cmocka_run_group_tests_name("broker/directory_wake", tests, NULL, NULL);
}
