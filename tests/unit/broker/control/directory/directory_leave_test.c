/* SPDX-License-Identifier: Apache-2.0 */
/*
 * broker/directory_leave: the topics that leave, when, and the end of their names and ids.
 */
#include "broker/control/directory/directory_counts.h"
#include "broker/control/directory/directory_leave.h"
#include "broker/ingest/publisher.h"
#include "broker/worker/orders_session.h"
#include "tests/support/shard/shard_client.h"
#include "tests/unit/broker/control/directory/directory_world.h"

static void test_a_topic_that_nobody_uses_leaves_after_its_time(void **state)
{
    (void)state;
    struct amb_dir_sub sub;
    set_up(3, NULL);
    int64_t idle_ns = f.harness.config->limits.topic_idle_ns;
    struct amb_session_id session = open_session(0, 0), third = open_session(2, 0);
    struct amb_dir_topic *a = topic_of("a", 1);
    uint32_t id = a->id;
    publish_once(a);
    advance(idle_ns - 1);
    assert_int_equal(f.directory.topic_count, 1);
    (void)subscribe(&sub, &session, 0, "a"); /* in use again, and on a second worker */
    advance(idle_ns);
    assert_int_equal(f.directory.topic_count, 1);
    unsubscribe(&sub);
    (void)subscribe(&sub, &third, 0, "a");
    advance(idle_ns);
    unsubscribe(&sub);
    advance(idle_ns - 1);
    assert_int_equal(f.directory.topic_count, 1);
    advance(1);
    assert_int_equal(f.directory.topic_count, 0);
    assert_true(amb_list_is_empty(&f.directory.leaving));
    for (unsigned i = 0; i < 3; i++) {
        assert_null(amb_shard_topic(f.harness.peers[i], id));
    }
    /* The name may come again, at another home; its readers find it. */
    (void)subscribe(&sub, &session, 1, "a");
    struct amb_dir_topic *again = topic_of("a", 2);
    assert_int_equal(again->home, 2);
    assert_int_not_equal(again->id, id);
    assert_int_equal(amb_directory_matched(again), 1);
    tear_down();
}

static void test_a_wildcard_does_not_keep_a_topic_but_finds_it_again(void **state)
{
    (void)state;
    struct amb_dir_sub near, far;
    set_up(2, NULL);
    int64_t idle_ns = f.harness.config->limits.topic_idle_ns;
    struct amb_session_id here = open_session(0, 0), there = open_session(1, 0);
    (void)subscribe(&near, &here, 0, ">");
    (void)subscribe(&far, &there, 0, "*");
    struct amb_dir_topic *a = topic_of("a", 0);
    uint32_t id = a->id;
    assert_int_equal(amb_directory_matched(a), 2);
    wake(a);
    assert_int_equal(amb_directory_matched(a), 2);
    publish_once(a);
    advance(idle_ns);
    harness_settle(&f.harness);
    assert_int_equal(f.directory.topic_count, 0);
    assert_true(amb_list_is_empty(&f.directory.leaving));
    assert_null(amb_shard_topic(f.harness.peers[0], id));
    assert_null(amb_shard_topic(f.harness.peers[1], id));
    struct amb_dir_topic *again = topic_of("a", 1);
    assert_int_equal(amb_directory_matched(again), 2);
    assert_int_equal(cursors_of(again, 0) + cursors_of(again, 1), 0);
    wake(again);
    assert_int_equal(cursors_of(again, 0), 1);
    assert_int_equal(cursors_of(again, 1), 1);
    unsubscribe(&near);
    unsubscribe(&far);
    assert_int_equal(amb_directory_matched(again), 0);
    tear_down();
}

static void test_a_topic_that_is_not_read_to_its_end_stays(void **state)
{
    (void)state;
    struct amb_dir_sub all;
    set_up(1, NULL);
    struct amb_session_id session = open_session(0, 0);
    (void)subscribe(&all, &session, 0, ">");
    struct amb_dir_topic *a = awake_topic_of("a", 0);
    publish_once(a);
    struct amb_topic *topic = a->on_shard[0];
    topic->log.hi++; /* as if there were a message behind the cursor */
    advance(f.harness.config->limits.topic_idle_ns);
    assert_int_equal(f.directory.topic_count, 1);
    topic->log.hi--;
    publish_once(a); /* used in between: its time begins anew */
    advance(f.harness.config->limits.topic_idle_ns - 1);
    assert_int_equal(f.directory.topic_count, 1);
    advance(1);
    assert_int_equal(f.directory.topic_count, 0);
    tear_down();
}

static void test_a_topic_waits_for_its_name_to_be_sent(void **state)
{
    (void)state;
    set_up(1, NULL);
    struct amb_dir_topic *a = topic_of("a", 0);
    publish_once(a);
    a->on_shard[0]->naming = 1; /* a frame in the link of a client that does not read */
    advance(f.harness.config->limits.topic_idle_ns);
    assert_int_equal(f.directory.topic_count, 0); /* the name is free */
    assert_false(amb_list_is_empty(&f.directory.leaving));
    a->on_shard[0]->naming = 0;
    advance(1);
    assert_true(amb_list_is_empty(&f.directory.leaving));
    tear_down();
}

static void test_a_full_table_gives_up_the_topic_idle_for_longest(void **state)
{
    (void)state;
    set_up(1, few);
    struct amb_dir_topic *a = topic_of("a", 0), *b = topic_of("b", 0);
    (void)topic_of("c", 0);
    publish_once(b);
    f.directory.now_ns++;
    publish_once(a);
    (void)topic_of("d", 0);
    assert_int_equal(f.directory.topic_count, 3);
    assert_ptr_equal(topic_of("a", 0), a);
    struct amb_dir_topic *topic = NULL;
    (void)topic_of("e", 0); /* a leaves */
    assert_int_equal(amb_directory_topic(&f.directory, 0, "f", 1, 0, NULL, &topic), AMB_ELIMIT);
    tear_down();
}

/* The last batches of its last publisher, on another worker, before it closed. */
static void test_a_topic_that_must_leave_takes_the_last_messages(void **state)
{
    (void)state;
    const unsigned batches = 2000; /* Heard in slices. */
    set_up(2, NULL);
    struct amb_dir_topic *a = awake_topic_of("a", 0);
    struct amb_topic *topic = a->on_shard[0];
    uint32_t id = a->id;
    struct shard_client *client = shard_client_create(&f.harness, 1, NULL);
    struct amb_session *session = client->session;
    struct amb_dir_publisher publisher = {.session = {1, session->index, session->generation}};
    amb_list_init(&publisher.of_topic);
    amb_directory_publish(&publisher, a);
    struct amb_publisher *open;
    assert_int_equal(amb_publisher_create(session, 0, id, 0, false, &amb_trust_group_main, &open),
                     AMB_OK);
    client->pubs[0] = (struct client_pub){.is_open = true, .topic = id, .opened = open->opened};
    for (unsigned i = 0; i < batches; i++) {
        client_send(client, 0, 1, 0);
    }
    (void)shard_client_turn(client);
    amb_directory_unpublish(&f.directory, &publisher); /* As the control thread does it: */
    struct amb_order *order = amb_order_new(&amb_order_session_close, note_answer, NULL);
    order->session = publisher.session;
    amb_order_post(f.harness.peers[1], order);
    assert_true(amb_directory_leave_oldest(&f.directory)); /* Another one needs its place. */
    uint64_t msgs = 0;
    for (unsigned i = 0; i < 1000 && amb_shard_topic(f.harness.peers[0], id) == topic; i++) {
        (void)harness_turn(&f.harness, 0);
        (void)harness_turn(&f.harness, 1);
        if (amb_shard_topic(f.harness.peers[0], id) == topic) {
            msgs = topic->counts.msgs_in;
        }
        (void)amb_inbox_run(&f.harness.control);
    }
    assert_null(amb_shard_topic(f.harness.peers[0], id));
    assert_int_equal(msgs, batches);
    client->session = NULL;
    client->is_closed = true;
    tear_down();
}

static void test_an_id_comes_again_late_and_never_the_same(void **state)
{
    (void)state;
    set_up(1, few); /* at most three topics */
    uint32_t last[64];
    for (unsigned i = 0; i < 64; i++) {
        struct amb_dir_topic *topic = topic_of("churn", 0);
        last[i] = topic->id;
        for (unsigned j = 0; j < i; j++) {
            assert_int_not_equal(last[j], topic->id);
        }
        assert_ptr_equal(amb_shard_topic(f.harness.peers[0], topic->id), topic->on_shard[0]);
        if (i > 0) {
            assert_null(amb_shard_topic(f.harness.peers[0], last[i - 1]));
        }
        publish_once(topic);
        advance(f.harness.config->limits.topic_idle_ns);
    }
    assert_true(f.harness.shards[0].topics.cells <= 64);
    assert_int_equal(f.directory.cells, 3);
    tear_down();
}

static void test_a_topic_stays_as_long_as_it_has_other_priorities(void **state)
{
    (void)state;
    set_up(2, NULL);
    int64_t idle_ns = f.harness.config->limits.topic_idle_ns;
    struct amb_dir_topic *main = topic_of("a", 1);
    struct amb_dir_topic *high = priority_of(main, AMB_PRIORITY_HIGH);
    struct amb_dir_publisher publisher = {.handle = 0};
    amb_list_init(&publisher.of_topic);
    amb_directory_publish(&publisher, high);
    publish_once(main);
    advance(idle_ns);
    assert_int_equal(f.directory.topic_count, 2); /* One has a publisher, and so both stay. */
    amb_directory_unpublish(&f.directory, &publisher);
    advance(idle_ns);
    assert_int_equal(f.directory.topic_count, 1);
    assert_null(main->kin[AMB_PRIORITY_HIGH]);
    assert_int_equal(main->kin_count, 0);
    advance(idle_ns);
    assert_int_equal(f.directory.topic_count, 0);
    assert_true(amb_list_is_empty(&f.directory.leaving));
    tear_down();
}

static void test_what_nobody_came_to_use_leaves_like_others(void **state)
{
    (void)state;
    set_up(2, NULL);
    int64_t idle_ns = f.harness.config->limits.topic_idle_ns;
    struct amb_dir_topic *low = priority_of(topic_of("a", 1), AMB_PRIORITY_LOW);
    advance(idle_ns);
    assert_int_equal(f.directory.topic_count, 2);
    amb_directory_unused(&f.directory, low);
    advance(idle_ns);
    assert_int_equal(f.directory.topic_count, 1);
    advance(idle_ns);
    assert_int_equal(f.directory.topic_count, 0);
    tear_down();
}

static void test_one_count_goes_on_when_a_priority_comes_again(void **state)
{
    (void)state;
    set_up(1, NULL);
    int64_t idle_ns = f.harness.config->limits.topic_idle_ns;
    struct amb_dir_topic *main = topic_of("a", 0);
    struct amb_dir_topic *high = priority_of(main, AMB_PRIORITY_HIGH);
    main->on_shard[0]->log.above = 5; /* It has had so many. */
    publish_once(high);
    advance(idle_ns);
    assert_int_equal(f.directory.topic_count, 1);
    assert_int_equal(main->on_shard[0]->log.above, 5);
    high = priority_of(main, AMB_PRIORITY_HIGH);
    assert_int_equal(high->on_shard[0]->log.above, 5);
    tear_down();
}

/* Other priorities leave first, as slowly as they are read. A topic that somebody publishes to
 * meanwhile lives as others do: it does not go with its last publisher, and it keeps its history.
 */
static void test_a_removed_topic_that_is_used_again_stays(void **state)
{
    (void)state;
    set_up(2, NULL);
    int64_t idle_ns = f.harness.config->limits.topic_idle_ns;
    struct amb_dir_topic *main = topic_of("a", 1);
    publish_once(priority_of(main, AMB_PRIORITY_HIGH));
    publish_once(main);
    assert_null(amb_directory_remove(&f.directory, main));
    assert_int_equal(main->kin_count, 1); /* It is under way. */
    publish_once(main);
    settle();
    assert_int_equal(main->kin_count, 0);
    assert_int_equal(f.directory.topic_count, 1);
    advance(idle_ns);
    assert_int_equal(f.directory.topic_count, 0);
    /* Without anybody in between both go at once. */
    main = topic_of("b", 1);
    publish_once(priority_of(main, AMB_PRIORITY_HIGH));
    assert_null(amb_directory_remove(&f.directory, main));
    settle();
    assert_int_equal(f.directory.topic_count, 0);
    assert_true(amb_list_is_empty(&f.directory.leaving));
    tear_down();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_topic_that_nobody_uses_leaves_after_its_time),
        cmocka_unit_test(test_a_wildcard_does_not_keep_a_topic_but_finds_it_again),
        cmocka_unit_test(test_a_topic_that_is_not_read_to_its_end_stays),
        cmocka_unit_test(test_a_topic_waits_for_its_name_to_be_sent),
        cmocka_unit_test(test_a_full_table_gives_up_the_topic_idle_for_longest),
        cmocka_unit_test(test_a_topic_that_must_leave_takes_the_last_messages),
        cmocka_unit_test(test_an_id_comes_again_late_and_never_the_same),
        cmocka_unit_test(test_a_topic_stays_as_long_as_it_has_other_priorities),
        cmocka_unit_test(test_what_nobody_came_to_use_leaves_like_others),
        cmocka_unit_test(test_one_count_goes_on_when_a_priority_comes_again),
        cmocka_unit_test(test_a_removed_topic_that_is_used_again_stays),
    };
    return cmocka_run_group_tests_name("broker/directory_leave", tests, NULL, NULL);
}
