/* SPDX-License-Identifier: Apache-2.0 */
/*
 * broker/directory: which topics there are and who reads them, on one shard and across two. The
 * shards have no threads: what the directory orders is seen in their topics.
 */
#include "broker/directory.h"

#include "broker/config.h"
#include "broker/session.h"
#include "broker/topic.h"
#include "tests/support/shard_harness.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

static const char few[] = "limits = { max_topics = 3; max_subscriptions = 2; };\n"
                          "memory = { host = { size = \"16M\"; segment = \"2M\"; }; };\n"
                          "topics = ( { match = \"drop.>\"; slow = \"drop-oldest\"; } );\n";

struct fixture {
    struct shard_harness harness;
    struct amb_directory directory;
    unsigned answers;
};

static struct fixture f;

static void set_up(unsigned shards, const char *config)
{
    memset(&f, 0, sizeof(f));
    harness_init(&f.harness, shards, config);
    assert_int_equal(amb_directory_init(&f.directory, f.harness.config, f.harness.peers, shards),
                     AMB_OK);
}

static void settle(void)
{
    amb_directory_tell(&f.directory);
    harness_settle(&f.harness);
}

static void tear_down(void)
{
    settle();
    for (unsigned i = 0; i < f.harness.count; i++) {
        AMB_LIST_FOR_EACH_SAFE (node, &f.harness.shards[i].live_sessions) {
            struct amb_session *session = AMB_CONTAINER_OF(node, struct amb_session, live);
            struct amb_order *order = amb_order_create(amb_order_session_close, NULL, NULL);
            order->session = (struct amb_session_id){i, session->index, session->generation};
            amb_order_post(f.harness.peers[i], order);
        }
    }
    settle();
    amb_directory_fini(&f.directory);
    for (unsigned i = 0; i < f.harness.count; i++) {
        for (uint32_t id = 0; id < f.harness.shards[i].topic_slots; id++) {
            f.harness.shards[i].topics[id] = NULL; /* They were the directory's. */
        }
    }
    harness_fini(&f.harness);
}

static struct amb_dir_topic *topic_of(const char *name, unsigned home)
{
    struct amb_dir_topic *topic = NULL;
    assert_int_equal(amb_directory_topic(&f.directory, name, strlen(name), home, &topic), AMB_OK);
    settle();
    return topic;
}

static void note_answer(void *control, struct amb_order *order)
{
    assert_ptr_equal(control, &f.harness);
    assert_int_equal(order->status, AMB_OK);
    f.answers++;
    amb_order_free(order);
}

/* A session on that shard, without link. */
static struct amb_session_id open_session(unsigned shard, uint32_t index)
{
    struct amb_session *session;
    assert_int_equal(amb_session_create(f.harness.peers[shard], index, 1, 0, 0, &session), AMB_OK);
    return (struct amb_session_id){shard, index, 1};
}

/* Enters a subscription; returns how many orders are to be answered. */
static unsigned subscribe(struct amb_dir_sub *sub, const struct amb_session_id *session,
                          uint32_t handle, const char *pattern)
{
    memset(sub, 0, sizeof(*sub));
    sub->id = amb_directory_next_sub(&f.directory);
    sub->session = *session;
    sub->handle = handle;
    sub->options.slow = AMB_SLOW_DEFAULT;
    sub->pattern_len = (uint32_t)strlen(pattern);
    memcpy(sub->pattern, pattern, sub->pattern_len);
    struct amb_order *order = amb_order_create(amb_order_subscription_open, NULL, NULL);
    order->session = *session;
    order->u.subscription.handle = handle;
    order->u.subscription.id = sub->id;
    order->u.subscription.options = sub->options;
    amb_order_post(f.harness.peers[session->shard], order);
    unsigned before = f.answers;
    unsigned orders = amb_directory_subscribe(&f.directory, sub, note_answer, NULL);
    settle();
    assert_int_equal(f.answers, before + orders);
    return orders;
}

static unsigned cursors_of(const struct amb_dir_topic *topic, unsigned shard)
{
    unsigned count = 0;
    if (topic->on_shard[shard] != NULL) {
        AMB_LIST_FOR_EACH (node, &topic->on_shard[shard]->cursors) {
            count++;
        }
    }
    return count;
}

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

static void test_topics_are_limited(void **state)
{
    (void)state;
    set_up(1, few);
    (void)topic_of("a", 0);
    (void)topic_of("b", 0);
    (void)topic_of("c", 0);
    struct amb_dir_topic *topic = NULL;
    assert_int_equal(amb_directory_topic(&f.directory, "d", 1, 0, &topic), AMB_ELIMIT);
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
    assert_int_equal(topic->matched, 2);
    assert_int_equal(cursors_of(topic, 0), 2);
    assert_int_equal(topic->on_shard[0]->matched, 2);
    tear_down();
}

static void test_who_subscribes_later_finds_the_topics_there_are(void **state)
{
    (void)state;
    struct amb_dir_sub exact, wild, all, none;
    set_up(1, NULL);
    struct amb_session_id session = open_session(0, 0);
    struct amb_dir_topic *ab = topic_of("a.b", 0), *ac = topic_of("a.c", 0), *x = topic_of("x", 0);
    assert_int_equal(subscribe(&exact, &session, 0, "a.b"), 1);
    assert_int_equal(subscribe(&wild, &session, 1, "a.>"), 2);
    assert_int_equal(subscribe(&all, &session, 2, ">"), 3);
    assert_int_equal(subscribe(&none, &session, 3, "a"), 0);
    assert_int_equal(ab->matched, 3);
    assert_int_equal(ac->matched, 2);
    assert_int_equal(x->matched, 1);
    assert_int_equal(x->on_shard[0]->matched, 1);
    amb_directory_unsubscribe(&f.directory, &wild);
    amb_directory_unsubscribe(&f.directory, &none);
    settle();
    assert_int_equal(ab->matched, 2);
    assert_int_equal(ac->matched, 1);
    assert_int_equal(ab->on_shard[0]->matched, 2);
    struct amb_dir_topic *late = topic_of("a.d", 0);
    assert_int_equal(late->matched, 1); /* Those that left see nothing new. */
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
    assert_int_equal(topic->on_shard[0]->matched, SUBS);
    for (uint32_t i = 0; i < SUBS; i++) {
        amb_directory_unsubscribe(&f.directory, &subs[i]);
    }
    assert_int_equal(orders_waiting(0), 0);
    amb_directory_tell(&f.directory);
    assert_int_equal(orders_waiting(0), 2); /* the topic's home, and the publisher */
    settle();
    assert_int_equal(topic->on_shard[0]->matched, 0);
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
    assert_int_equal(topic->matched, 1);
    tear_down();
}

static void test_topics_of_another_worker_are_borrowed(void **state)
{
    (void)state;
    struct amb_dir_sub before, after;
    set_up(2, NULL);
    struct amb_session_id session = open_session(0, 0);
    (void)subscribe(&before, &session, 0, "a.>");
    struct amb_dir_topic *topic = topic_of("a.b", 1);
    const struct amb_lend *lend = &topic->on_shard[1]->lends[0];
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
    assert_int_equal(topic->matched, 0);
    tear_down();
}

static void test_holding_follows_the_topic_s_rule(void **state)
{
    (void)state;
    struct amb_dir_sub all;
    set_up(2, few);
    struct amb_session_id session = open_session(0, 0);
    (void)subscribe(&all, &session, 0, ">");
    struct amb_dir_topic *drops = topic_of("drop.a", 1), *holds = topic_of("hold.a", 1);
    assert_int_equal(drops->on_shard[1]->lends[0].subs, 1);
    assert_int_equal(drops->on_shard[1]->lends[0].holding, 0);
    assert_int_equal(holds->on_shard[1]->lends[0].holding, 1);
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

static void advance(int64_t ns)
{
    f.directory.now_ns += ns;
    amb_directory_tick(&f.directory);
    settle();
}

static void publish_once(struct amb_dir_topic *topic)
{
    struct amb_dir_publisher publisher = {.handle = 0};
    amb_list_init(&publisher.of_topic);
    amb_directory_publish(&publisher, topic);
    amb_directory_unpublish(&f.directory, &publisher);
}

/* As a client's Unsubscribe: the worker first. */
static void unsubscribe(struct amb_dir_sub *sub)
{
    struct amb_order *order = amb_order_create(amb_order_subscription_close, NULL, NULL);
    order->session = sub->session;
    order->u.subscription.handle = sub->handle;
    amb_order_post(f.harness.peers[sub->session.shard], order);
    amb_directory_unsubscribe(&f.directory, sub);
    settle();
}

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
    assert_int_equal(again->matched, 1);
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
    assert_int_equal(a->matched, 2);
    publish_once(a);
    advance(idle_ns);
    harness_settle(&f.harness);
    assert_int_equal(f.directory.topic_count, 0);
    assert_true(amb_list_is_empty(&f.directory.leaving));
    assert_null(amb_shard_topic(f.harness.peers[0], id));
    assert_null(amb_shard_topic(f.harness.peers[1], id));
    struct amb_dir_topic *again = topic_of("a", 1);
    assert_int_equal(again->matched, 2);
    assert_int_equal(cursors_of(again, 0), 1);
    assert_int_equal(cursors_of(again, 1), 1);
    unsubscribe(&near);
    unsubscribe(&far);
    assert_int_equal(again->matched, 0);
    tear_down();
}

static void test_a_topic_that_is_not_read_to_its_end_stays(void **state)
{
    (void)state;
    struct amb_dir_sub all;
    set_up(1, NULL);
    struct amb_session_id session = open_session(0, 0);
    (void)subscribe(&all, &session, 0, ">");
    struct amb_dir_topic *a = topic_of("a", 0);
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
    assert_int_equal(amb_directory_topic(&f.directory, "f", 1, 0, &topic), AMB_ELIMIT);
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
    assert_true(f.harness.shards[0].topic_slots <= 64);
    assert_int_equal(f.directory.slots, 3);
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
    assert_int_equal(topic->matched, 2);
    amb_directory_unsubscribe(&f.directory, &subs[1]);
    amb_directory_unsubscribe(&f.directory, &subs[3]);
    assert_int_equal(topic->matched, 0);
    settle();
    tear_down();
}

static struct amb_dir_topic *priority_of(struct amb_dir_topic *main, enum amb_priority priority)
{
    struct amb_dir_topic *topic = NULL;
    assert_int_equal(amb_directory_priority(&f.directory, main, priority, &topic), AMB_OK);
    settle();
    return topic;
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
    assert_ptr_equal(high->on_shard[1]->main, main->on_shard[1]);
    assert_ptr_equal(low->on_shard[0]->main, main->on_shard[0]);
    /* Who was there reads all of them, and so do those who come. */
    (void)subscribe(&wild, &near, 0, "a.>");
    (void)subscribe(&after, &near, 1, "a.b");
    struct amb_dir_topic *all[] = {high, main, low};
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(all[i]->matched, 3);
        assert_int_equal(cursors_of(all[i], 0), 1);
        assert_int_equal(cursors_of(all[i], 1), 2);
    }
    unsubscribe(&after);
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(all[i]->matched, 2);
    }
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_priority_is_a_topic_beside_the_main_one_of_its_name),
        cmocka_unit_test(test_a_topic_stays_as_long_as_it_has_other_priorities),
        cmocka_unit_test(test_what_nobody_came_to_use_leaves_like_others),
        cmocka_unit_test(test_one_count_goes_on_when_a_priority_comes_again),
        cmocka_unit_test(test_a_topic_is_made_once_and_keeps_its_home),
        cmocka_unit_test(test_topics_are_limited),
        cmocka_unit_test(test_subscriptions_are_limited),
        cmocka_unit_test(test_who_subscribes_first_reads_from_the_first_message),
        cmocka_unit_test(test_who_subscribes_later_finds_the_topics_there_are),
        cmocka_unit_test(test_publishers_are_told_once_of_many_changes),
        cmocka_unit_test(test_reserved_topics_are_not_matched_by_wildcards),
        cmocka_unit_test(test_topics_of_another_worker_are_borrowed),
        cmocka_unit_test(test_holding_follows_the_topic_s_rule),
        cmocka_unit_test(test_publishers_are_counted_by_topic),
        cmocka_unit_test(test_a_topic_that_nobody_uses_leaves_after_its_time),
        cmocka_unit_test(test_a_wildcard_does_not_keep_a_topic_but_finds_it_again),
        cmocka_unit_test(test_a_topic_that_is_not_read_to_its_end_stays),
        cmocka_unit_test(test_a_topic_waits_for_its_name_to_be_sent),
        cmocka_unit_test(test_a_full_table_gives_up_the_topic_idle_for_longest),
        cmocka_unit_test(test_an_id_comes_again_late_and_never_the_same),
        cmocka_unit_test(test_readers_of_one_name_are_found_whoever_leaves_first),
    };
    return cmocka_run_group_tests_name("broker/directory", tests, NULL, NULL);
}
