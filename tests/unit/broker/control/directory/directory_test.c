/* SPDX-License-Identifier: Apache-2.0 */
/*
 * broker/directory: which topics there are and who reads them, on one shard and across two.
 */
#include "broker/control/directory/directory_counts.h"
#include "tests/unit/broker/control/directory/directory_world.h"

static void test_a_topic_is_made_once_and_keeps_its_home(void **state)
{
    (void)state;
    set_up(2, NULL);
    struct amb_dir_topic *a = topic_of("a", 1);
    assert_ptr_equal(topic_of("a", 0), a);
    assert_int_equal(a->home, 1);
    assert_non_null(a->on_shard[1]);
    assert_null(a->on_shard[0]);
    assert_ptr_equal(amb_shard_topic(f.harness.peers[1], a->id), a->on_shard[1]);
    struct amb_dir_topic *b = topic_of("b", 0);
    assert_int_not_equal(b->id, a->id);
    assert_int_equal(f.directory.topic_count, 2);
    tear_down();
}

/* Both have the same names, and neither reads anything of the other's. */
static void test_tenants_have_no_topic_in_common(void **state)
{
    (void)state;
    struct amb_dir_sub exact[2], early[2], late[2];
    struct amb_dir_topic *topics[2];
    set_up(2, NULL);
    struct amb_session_id session = open_session(0, 0);
    for (unsigned i = 0; i < 2; i++) {
        f.tenant = i;
        (void)subscribe(&exact[i], &session, 3 * i, "a.b");
        (void)subscribe(&early[i], &session, 3 * i + 1, "a.*");
        topics[i] = awake_topic_of("a.b", i);
        assert_int_equal(topics[i]->tenant, i);
        assert_int_equal(topics[i]->on_shard[i]->tenant, i);
    }
    assert_ptr_not_equal(topics[0], topics[1]);
    for (unsigned i = 0; i < 2; i++) {
        f.tenant = i;
        assert_ptr_equal(topic_of("a.b", 0), topics[i]);
        assert_true(amb_directory_has(&f.directory, i, "a.b", 3, AMB_PRIORITY_NORMAL));
        assert_int_equal(amb_directory_matched(topics[i]), 2);
        (void)subscribe(&late[i], &session, 3 * i + 2, ">");
        round_of_work();
        assert_int_equal(amb_directory_matched(topics[i]), 3);
        assert_int_equal(late[i].pair_count, 1);
    }
    assert_int_equal(cursors_of(topics[0], 0), 3);
    assert_int_equal(cursors_of(topics[1], 0), 3);
    assert_false(amb_directory_has(&f.directory, 2, "a.b", 3, AMB_PRIORITY_NORMAL));
    assert_true(amb_directory_is_read(&f.directory, 0, "x", 1));
    assert_false(amb_directory_is_read(&f.directory, 2, "a.b", 3));
    amb_directory_unsubscribe(&f.directory, &exact[1]);
    amb_directory_unsubscribe(&f.directory, &early[1]);
    amb_directory_unsubscribe(&f.directory, &late[1]);
    round_of_work();
    assert_int_equal(amb_directory_matched(topics[0]), 3);
    assert_int_equal(amb_directory_matched(topics[1]), 0);
    assert_false(amb_directory_is_read(&f.directory, 1, "a.b", 3));
    tear_down();
}

static void test_topics_are_limited(void **state)
{
    (void)state;
    set_up(1, few);
    (void)topic_of("a", 0);
    (void)topic_of("b", 0);
    (void)topic_of("c", 0);
    struct amb_dir_topic *topic = NULL;
    assert_int_equal(amb_directory_topic(&f.directory, 0, "d", 1, 0, NULL, &topic), AMB_ELIMIT);
    assert_null(topic);
    (void)topic_of("c", 0); /* Those there are stay usable. */
    assert_int_equal(f.directory.topic_count, 3);
    tear_down();
}

static void test_subscriptions_are_limited(void **state)
{
    (void)state;
    struct amb_dir_sub one, two, three;
    set_up(1, few);
    struct amb_session_id session = open_session(0, 0);
    (void)subscribe(&one, &session, 0, "a");
    assert_true(amb_directory_has_room(&f.directory));
    (void)subscribe(&two, &session, 1, "b");
    assert_false(amb_directory_has_room(&f.directory));
    amb_directory_unsubscribe(&f.directory, &one);
    amb_directory_unsubscribe(&f.directory, &one); /* Harmless. */
    assert_true(amb_directory_has_room(&f.directory));
    (void)subscribe(&three, &session, 2, "c");
    assert_int_equal(f.directory.sub_count, 2);
    tear_down();
}

static void test_who_subscribes_first_reads_from_the_first_message(void **state)
{
    (void)state;
    struct amb_dir_sub exact, wild, other;
    set_up(1, NULL);
    struct amb_session_id session = open_session(0, 0);
    assert_int_equal(subscribe(&exact, &session, 0, "a.b"), 0);
    assert_int_equal(subscribe(&wild, &session, 1, "a.*"), 0);
    assert_int_equal(subscribe(&other, &session, 2, "a.c"), 0);
    struct amb_dir_topic *topic = topic_of("a.b", 0);
    assert_int_equal(amb_directory_matched(topic), 2);
    assert_int_equal(topic->on_shard[0]->audience.matched, 2);
    assert_int_equal(cursors_of(topic, 0), 1); /* That with the wildcard gets one later, */
    wake(topic);
    assert_int_equal(amb_directory_matched(topic), 2);
    assert_int_equal(cursors_of(topic, 0), 2); /* ... before the first message is in the log. */
    assert_int_equal(topic->on_shard[0]->audience.matched, 2);
    tear_down();
}

static void test_who_subscribes_later_finds_the_topics_there_are(void **state)
{
    (void)state;
    struct amb_dir_sub exact, wild, all, none;
    set_up(1, NULL);
    struct amb_session_id session = open_session(0, 0);
    struct amb_dir_topic *ab = awake_topic_of("a.b", 0), *ac = awake_topic_of("a.c", 0),
                         *x = awake_topic_of("x", 0);
    assert_int_equal(subscribe(&exact, &session, 0, "a.b"), 1);
    assert_int_equal(subscribe(&wild, &session, 1, "a.>"), 2);
    assert_int_equal(subscribe(&all, &session, 2, ">"), 3);
    assert_int_equal(subscribe(&none, &session, 3, "a"), 0);
    assert_int_equal(amb_directory_matched(ab), 3);
    assert_int_equal(amb_directory_matched(ac), 2);
    assert_int_equal(amb_directory_matched(x), 1);
    assert_int_equal(x->on_shard[0]->audience.matched, 1);
    amb_directory_unsubscribe(&f.directory, &wild);
    amb_directory_unsubscribe(&f.directory, &none);
    settle();
    assert_int_equal(amb_directory_matched(ab), 2);
    assert_int_equal(amb_directory_matched(ac), 1);
    assert_int_equal(ab->on_shard[0]->audience.matched, 2);
    struct amb_dir_topic *late = topic_of("a.d", 0);
    assert_int_equal(amb_directory_matched(late), 1); /* Those that left see nothing new. */
    tear_down();
}

static unsigned orders_waiting(unsigned shard)
{
    unsigned count = 0;
    struct amb_mpsc_node *node = atomic_load(&f.harness.shards[shard].inbox.posted.head);
    for (; node != NULL; node = node->next) {
        count++;
    }
    return count;
}

/* Or a client with a thousand of both would make a million orders when it comes, and when it goes.
 */
static void test_publishers_are_told_once_of_many_changes(void **state)
{
    (void)state;
    enum {
        SUBS = 20
    };
    set_up(1, NULL);
    struct amb_session_id session = open_session(0, 0);
    struct amb_dir_topic *topic = topic_of("a.b", 0);
    struct amb_dir_publisher publisher = {.session = session};
    amb_list_init(&publisher.of_topic);
    amb_directory_publish(&publisher, topic);
    struct amb_dir_sub subs[SUBS];
    for (uint32_t i = 0; i < SUBS; i++) {
        (void)subscribe(&subs[i], &session, i, i % 2 == 0 ? "a.>" : "a.b");
    }
    assert_int_equal(topic->on_shard[0]->audience.matched, SUBS);
    for (uint32_t i = 0; i < SUBS; i++) {
        amb_directory_unsubscribe(&f.directory, &subs[i]);
    }
    assert_int_equal(orders_waiting(0), 0);
    amb_directory_tell(&f.directory);
    assert_int_equal(orders_waiting(0), 2); /* the topic's home, and the publisher */
    settle();
    assert_int_equal(topic->on_shard[0]->audience.matched, 0);
    amb_directory_unpublish(&f.directory, &publisher);
    tear_down();
}

static void test_reserved_topics_are_not_matched_by_wildcards(void **state)
{
    (void)state;
    struct amb_dir_sub all, system;
    set_up(1, NULL);
    struct amb_session_id session = open_session(0, 0);
    (void)subscribe(&all, &session, 0, ">");
    (void)subscribe(&system, &session, 1, "$SYS.>");
    struct amb_dir_topic *topic = topic_of("$SYS.health", 0);
    assert_int_equal(amb_directory_matched(topic), 1);
    tear_down();
}

static void test_topics_of_another_worker_are_borrowed(void **state)
{
    (void)state;
    struct amb_dir_sub before, after;
    set_up(2, NULL);
    struct amb_session_id session = open_session(0, 0);
    (void)subscribe(&before, &session, 0, "a.>");
    struct amb_dir_topic *topic = awake_topic_of("a.b", 1);
    const struct amb_lend *lend = &topic->on_shard[1]->lending.lends[0];
    assert_int_equal(lend->subs, 1);
    assert_int_equal(lend->holding, 1); /* block is the default */
    assert_ptr_equal(lend->shadow, topic->on_shard[0]);
    assert_int_equal(cursors_of(topic, 0), 1);
    assert_int_equal(cursors_of(topic, 1), 0);
    assert_int_equal(subscribe(&after, &session, 1, "a.b"), 1);
    assert_int_equal(lend->subs, 2);
    assert_int_equal(cursors_of(topic, 0), 2);
    amb_directory_unsubscribe(&f.directory, &before);
    amb_directory_unsubscribe(&f.directory, &after);
    settle();
    assert_int_equal(lend->subs, 0);
    assert_int_equal(lend->holding, 0);
    assert_int_equal(amb_directory_matched(topic), 0);
    tear_down();
}

static void test_holding_follows_the_topic_s_rule(void **state)
{
    (void)state;
    struct amb_dir_sub all;
    set_up(2, few);
    struct amb_session_id session = open_session(0, 0);
    (void)subscribe(&all, &session, 0, ">");
    struct amb_dir_topic *drops = awake_topic_of("drop.a", 1), *holds = awake_topic_of("hold.a", 1);
    assert_int_equal(drops->on_shard[1]->lending.lends[0].subs, 1);
    assert_int_equal(drops->on_shard[1]->lending.lends[0].holding, 0);
    assert_int_equal(holds->on_shard[1]->lending.lends[0].holding, 1);
    tear_down();
}

static void test_publishers_are_counted_by_topic(void **state)
{
    (void)state;
    struct amb_dir_publisher one = {.handle = 0}, two = {.handle = 1};
    set_up(1, NULL);
    struct amb_dir_topic *a = topic_of("a", 0);
    amb_list_init(&one.of_topic);
    amb_list_init(&two.of_topic);
    amb_directory_publish(&one, a);
    amb_directory_publish(&two, a);
    assert_int_equal(a->publisher_count, 2);
    amb_directory_unpublish(&f.directory, &one);
    amb_directory_unpublish(&f.directory, &one); /* Harmless. */
    assert_int_equal(a->publisher_count, 1);
    amb_directory_unpublish(&f.directory, &two);
    assert_int_equal(a->publisher_count, 0);
    assert_true(amb_list_is_empty(&a->publishers));
    tear_down();
}

static void test_readers_of_one_name_are_found_whoever_leaves_first(void **state)
{
    (void)state;
    set_up(1, NULL);
    struct amb_session_id session = open_session(0, 0);
    struct amb_dir_sub subs[4];
    for (uint32_t i = 0; i < 4; i++) {
        (void)subscribe(&subs[i], &session, i, i == 3 ? "a.*" : "a.b");
    }
    amb_directory_unsubscribe(&f.directory, &subs[0]);
    amb_directory_unsubscribe(&f.directory, &subs[2]);
    struct amb_dir_topic *topic = topic_of("a.b", 0);
    assert_int_equal(amb_directory_matched(topic), 2);
    amb_directory_unsubscribe(&f.directory, &subs[1]);
    amb_directory_unsubscribe(&f.directory, &subs[3]);
    assert_int_equal(amb_directory_matched(topic), 0);
    settle();
    tear_down();
}

static void test_each_priority_is_a_topic_beside_the_main_one_of_its_name(void **state)
{
    (void)state;
    set_up(2, NULL);
    struct amb_session_id near = open_session(1, 0), far = open_session(0, 0);
    struct amb_dir_sub before, wild, after;
    (void)subscribe(&before, &far, 0, "a.b");
    struct amb_dir_topic *main = topic_of("a.b", 1);
    assert_ptr_equal(priority_of(main, AMB_PRIORITY_NORMAL), main);
    struct amb_dir_topic *high = priority_of(main, AMB_PRIORITY_HIGH);
    struct amb_dir_topic *low = priority_of(main, AMB_PRIORITY_LOW);
    assert_ptr_equal(priority_of(main, AMB_PRIORITY_HIGH), high);
    assert_ptr_equal(topic_of("a.b", 0), main);
    assert_int_equal(f.directory.topic_count, 3);
    assert_int_equal(high->home, main->home);
    assert_int_equal(high->on_shard[1]->priority, AMB_PRIORITY_HIGH);
    assert_ptr_equal(high->on_shard[1]->kin.main, main->on_shard[1]);
    assert_ptr_equal(low->on_shard[0]->kin.main, main->on_shard[0]);
    /* The readers that were there read all of them, and so do those who come. */
    (void)subscribe(&wild, &near, 0, "a.>");
    (void)subscribe(&after, &near, 1, "a.b");
    struct amb_dir_topic *all[] = {high, main, low};
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(amb_directory_matched(all[i]), 3);
        wake(all[i]);
    }
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(amb_directory_matched(all[i]), 3);
        assert_int_equal(cursors_of(all[i], 0), 1);
        assert_int_equal(cursors_of(all[i], 1), 2);
    }
    unsubscribe(&after);
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(amb_directory_matched(all[i]), 2);
    }
    tear_down();
}

static bool has_no_memory;

void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);

void *__wrap_malloc(size_t size)
{
    return has_no_memory ? NULL : __real_malloc(size);
}

/* Else it would count as one of the topics for ever, and nobody could find it. */
static void test_without_memory_for_its_name_there_is_no_topic(void **state)
{
    (void)state;
    struct amb_dir_topic *topic = NULL;
    set_up(1, NULL);
    has_no_memory = true;
    enum amb_status status = amb_directory_topic(&f.directory, f.tenant, "a", 1, 0, NULL, &topic);
    has_no_memory = false;
    assert_int_equal(status, AMB_ENOMEM);
    assert_int_equal(f.directory.topic_count, 0);
    assert_true(amb_list_is_empty(&f.directory.topics));
    assert_non_null(topic_of("a", 0));
    assert_int_equal(f.directory.topic_count, 1);
    tear_down();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_priority_is_a_topic_beside_the_main_one_of_its_name),
        cmocka_unit_test(test_a_topic_is_made_once_and_keeps_its_home),
        cmocka_unit_test(test_tenants_have_no_topic_in_common),
        cmocka_unit_test(test_topics_are_limited),
        cmocka_unit_test(test_without_memory_for_its_name_there_is_no_topic),
        cmocka_unit_test(test_subscriptions_are_limited),
        cmocka_unit_test(test_who_subscribes_first_reads_from_the_first_message),
        cmocka_unit_test(test_who_subscribes_later_finds_the_topics_there_are),
        cmocka_unit_test(test_publishers_are_told_once_of_many_changes),
        cmocka_unit_test(test_reserved_topics_are_not_matched_by_wildcards),
        cmocka_unit_test(test_topics_of_another_worker_are_borrowed),
        cmocka_unit_test(test_holding_follows_the_topic_s_rule),
        cmocka_unit_test(test_publishers_are_counted_by_topic),
        cmocka_unit_test(test_readers_of_one_name_are_found_whoever_leaves_first),
    };
    return cmocka_run_group_tests_name("broker/directory", tests, NULL, NULL);
}
