/* SPDX-License-Identifier: Apache-2.0 */
/*
 * broker/queues: the members that share a queue, and its end. On shards without threads.
 */
#include "broker/control/directory/directory_chores.h"
#include "broker/control/directory/directory_counts.h"
#include "broker/control/directory/directory_wake.h"
#include "broker/control/directory/queues.h"
#include "broker/delivery/acks/queue_life.h"
#include "broker/topic/cursor.h"
#include "broker/worker/orders_session.h"
#include "broker/worker/orders_subscription.h"

#include "broker/base/tenant.h"
#include "broker/base/user.h"
#include "broker/config/config.h"
#include "broker/session/session.h"
#include "broker/topic/topic.h"
#include "tests/support/shard/shard_harness.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

struct member {
    struct amb_dir_sub sub;
    struct amb_session_id session;
    enum amb_status status;
    const char *why;
};

static struct {
    struct shard_harness harness;
    struct amb_directory directory;
    unsigned waiting;
    enum amb_slow slow; /* of who joins next */
    int64_t slow_block_ns;
    uint32_t user;
    const char *filter;
    struct amb_queue_options options; /* max_deliver, backoff */
} f;

static void set_up(void)
{
    memset(&f, 0, sizeof(f));
    f.filter = "";
    harness_init(&f.harness, 2, NULL);
    assert_int_equal(amb_directory_init(&f.directory, f.harness.config, f.harness.peers, 2),
                     AMB_OK);
}

static void tear_down(void)
{
    amb_queues_close(&f.directory);
    harness_settle(&f.harness);
    for (unsigned i = 0; i < 2; i++) {
        AMB_LIST_FOR_EACH_SAFE (node, &f.harness.shards[i].sessions.live) {
            struct amb_session *session = AMB_CONTAINER_OF(node, struct amb_session, live);
            struct amb_order *order = amb_order_new(&amb_order_session_close, NULL, NULL);
            order->session = (struct amb_session_id){i, session->index, session->generation};
            amb_order_post(f.harness.peers[i], order);
        }
    }
    harness_settle(&f.harness);
    amb_queues_forget(&f.directory);
    amb_directory_fini(&f.directory);
    for (unsigned i = 0; i < 2; i++) {
        for (uint32_t id = 0; id < f.harness.shards[i].topics.cells; id++) {
            f.harness.shards[i].topics.at[id] = NULL; /* They were the directory's. */
        }
    }
    harness_fini(&f.harness);
}

static void done(void *control, struct amb_order *order)
{
    (void)control;
    assert_int_equal(order->status, AMB_OK);
    f.waiting--;
    amb_order_free(order);
}

static void join(struct member *m, unsigned shard, const char *pattern, const char *group,
                 const char *durable, enum amb_ack ack)
{
    static uint32_t next_index;
    struct amb_session *session;
    uint32_t index = next_index++;
    assert_int_equal(amb_session_create(f.harness.peers[shard], index, 1, 0, 0, &session), AMB_OK);
    memset(m, 0, sizeof(*m));
    m->session = (struct amb_session_id){shard, index, 1};
    m->sub.id = amb_directory_next_sub(&f.directory);
    m->sub.session = m->session;
    m->sub.pattern_len = (uint32_t)strlen(pattern);
    memcpy(m->sub.pattern, pattern, m->sub.pattern_len);
    struct amb_queue_wish wish = {.user = f.user,
                                  .group = group,
                                  .durable = durable,
                                  .filter = f.filter,
                                  .options = f.options};
    wish.options.ack = ack;
    wish.options.ack_wait_ns = AMB_ACK_WAIT_DEFAULT_NS;
    m->sub.options.slow = wish.options.slow = f.slow;
    m->sub.options.slow_block_ns = wish.options.slow_block_ns = f.slow_block_ns;
    struct amb_order_subscription_open *open =
        amb_order_new(&amb_order_subscription_open, done, NULL);
    open->order.session = m->session;
    open->id = m->sub.id;
    unsigned posted;
    m->status =
        amb_queues_subscribe(&f.directory, &m->sub, &wish, open, done, NULL, &posted, &m->why);
    if (m->status != AMB_OK) {
        assert_true(m->why[0] != '\0');
        amb_order_free(&open->order);
        return;
    }
    f.waiting += posted + 1;
    amb_order_post(f.harness.peers[shard], &open->order);
    harness_settle(&f.harness);
    assert_int_equal(f.waiting, 0);
}

static void leave(struct member *m)
{
    struct amb_order *order = amb_order_new(&amb_order_session_close, NULL, NULL);
    order->session = m->session;
    amb_order_post(f.harness.peers[m->session.shard], order);
    amb_queues_unsubscribe(&f.directory, &m->sub);
    amb_queues_unsubscribe(&f.directory, &m->sub); /* harmless twice */
    harness_settle(&f.harness);
}

static unsigned queues(void)
{
    return (unsigned)(f.harness.shards[0].queues.known.count +
                      f.harness.shards[1].queues.known.count);
}

static void test_a_group_is_one_reader_of_its_topics_and_goes_with_its_last_member(void **state)
{
    (void)state;
    set_up();
    struct member a, b, other;
    struct amb_dir_topic *topic;
    assert_int_equal(amb_directory_topic(&f.directory, 0, "jobs", 4, 1, NULL, &topic), AMB_OK);
    join(&a, 0, "jobs", "g", "", AMB_ACK_EXPLICIT);
    join(&b, 1, "jobs", "g", "", AMB_ACK_EXPLICIT);
    join(&other, 1, "jobs", "h", "", AMB_ACK_EXPLICIT);
    assert_int_equal(amb_directory_matched(topic), 2);
    assert_int_equal(queues(), 2);
    leave(&a);
    assert_int_equal(queues(), 2);
    leave(&b);
    assert_int_equal(queues(), 1);
    assert_int_equal(amb_directory_matched(topic), 1);
    leave(&other);
    assert_int_equal(amb_directory_matched(topic), 0);
    tear_down();
}

static void test_without_names_each_has_its_own(void **state)
{
    (void)state;
    set_up();
    struct member a, b;
    join(&a, 0, "jobs", "", "", AMB_ACK_EXPLICIT);
    join(&b, 0, "jobs", "", "", AMB_ACK_CUMULATIVE);
    assert_int_equal(queues(), 2);
    leave(&a);
    leave(&b);
    assert_int_equal(queues(), 0);
    tear_down();
}

static void test_a_durable_name_is_one_subscriptions_unless_it_is_a_groups(void **state)
{
    (void)state;
    set_up();
    struct member a, b, c, d;
    join(&a, 0, "jobs", "", "d", AMB_ACK_EXPLICIT);
    join(&b, 1, "jobs", "", "d", AMB_ACK_EXPLICIT);
    assert_int_equal(b.status, AMB_EBUSY);
    join(&b, 1, "other", "", "d", AMB_ACK_EXPLICIT);
    assert_int_equal(b.status, AMB_EINVAL);
    leave(&a);
    join(&b, 1, "jobs", "", "d", AMB_ACK_CUMULATIVE);
    assert_int_equal(b.status, AMB_EINVAL);
    join(&b, 1, "jobs", "", "d", AMB_ACK_EXPLICIT);
    assert_int_equal(b.status, AMB_OK);
    assert_int_equal(queues(), 1);
    join(&c, 1, "jobs", "g", "e", AMB_ACK_EXPLICIT);
    join(&d, 0, "jobs", "g", "e", AMB_ACK_EXPLICIT);
    assert_int_equal(d.status, AMB_OK);
    assert_int_equal(queues(), 2);
    leave(&b);
    leave(&c);
    leave(&d);
    assert_int_equal(queues(), 2);
    tear_down();
}

static void test_a_durable_name_ends_by_time_or_by_hand(void **state)
{
    (void)state;
    set_up();
    struct member a;
    f.directory.now_ns = 1;
    join(&a, 0, "jobs", "", "d", AMB_ACK_EXPLICIT);
    assert_int_equal(amb_queues_remove_durable(&f.directory, "d", NULL, AMB_TENANT_ANY), AMB_EBUSY);
    assert_int_equal(amb_queues_remove_durable(&f.directory, "x", NULL, AMB_TENANT_ANY),
                     AMB_ENOTFOUND);
    assert_int_equal(amb_queues_remove_durable(&f.directory, "", NULL, AMB_TENANT_ANY),
                     AMB_ENOTFOUND);
    f.directory.now_ns += f.harness.config->limits.durable_expiry_ns;
    amb_queues_tick(&f.directory);
    assert_int_equal(queues(), 1); /* it is in use */
    leave(&a);
    f.directory.now_ns += f.harness.config->limits.durable_expiry_ns - 1;
    amb_queues_tick(&f.directory);
    harness_settle(&f.harness);
    assert_int_equal(queues(), 1);
    f.directory.now_ns++;
    amb_queues_tick(&f.directory);
    harness_settle(&f.harness);
    assert_int_equal(queues(), 0);
    join(&a, 0, "jobs", "", "d", AMB_ACK_EXPLICIT);
    leave(&a);
    assert_int_equal(amb_queues_remove_durable(&f.directory, "d", NULL, AMB_TENANT_ANY), AMB_OK);
    harness_settle(&f.harness);
    assert_int_equal(queues(), 0);
    tear_down();
}

static void test_names_of_two_users_are_two_names(void **state)
{
    (void)state;
    set_up();
    struct member mine, theirs, group_a, group_b;
    f.user = 1000;
    join(&mine, 0, "jobs", "", "d", AMB_ACK_EXPLICIT);
    join(&group_a, 0, "jobs", "g", "", AMB_ACK_EXPLICIT);
    leave(&mine); /* Idle, with a backlog that is its owner's. */
    assert_int_equal(queues(), 2);
    f.user = 1001;
    join(&theirs, 1, "jobs", "", "d", AMB_ACK_CUMULATIVE);
    assert_int_equal(theirs.status, AMB_OK);
    assert_int_equal(queues(), 3);
    join(&group_b, 1, "jobs", "g", "", AMB_ACK_EXPLICIT);
    assert_int_equal(group_b.status, AMB_OK);
    assert_int_equal(queues(), 4);
    assert_ptr_not_equal(group_a.sub.queue, group_b.sub.queue);
    leave(&theirs);
    const uint32_t users[] = {1000, 1001, AMB_USER_TCP};
    assert_int_equal(amb_queues_remove_durable(&f.directory, "d", NULL, AMB_TENANT_ANY),
                     AMB_EINVAL);
    assert_int_equal(amb_queues_remove_durable(&f.directory, "d", &users[2], AMB_TENANT_ANY),
                     AMB_ENOTFOUND);
    assert_int_equal(amb_queues_remove_durable(&f.directory, "d", &users[0], AMB_TENANT_ANY),
                     AMB_OK);
    assert_int_equal(amb_queues_remove_durable(&f.directory, "d", NULL, AMB_TENANT_ANY), AMB_OK);
    leave(&group_a);
    leave(&group_b);
    assert_int_equal(queues(), 0);
    tear_down();
}

static void test_nobody_has_no_names(void **state)
{
    (void)state;
    set_up();
    struct member a, b, c;
    f.user = AMB_USER_NOBODY;
    join(&a, 0, "jobs", "", "d", AMB_ACK_EXPLICIT);
    assert_int_equal(a.status, AMB_EFORBIDDEN);
    join(&b, 0, "jobs", "g", "", AMB_ACK_EXPLICIT);
    assert_int_equal(b.status, AMB_EFORBIDDEN);
    join(&c, 0, "jobs", "", "", AMB_ACK_EXPLICIT); /* Needs no name. */
    assert_int_equal(c.status, AMB_OK);
    leave(&c);
    assert_int_equal(queues(), 0);
    tear_down();
}

static void refuse(const char *field)
{
    struct member m;
    join(&m, 1, "jobs", "g", "d", AMB_ACK_EXPLICIT);
    assert_int_equal(m.status, AMB_EINVAL);
    assert_memory_equal(m.why, field, strlen(field));
}

static void test_the_options_of_a_group_are_those_of_its_first_member(void **state)
{
    (void)state;
    set_up();
    struct member first, same, again;
    f.filter = "a = 1";
    f.slow = AMB_SLOW_BLOCK;
    f.slow_block_ns = 7;
    f.options =
        (struct amb_queue_options){.max_deliver = 3, .backoff_count = 2, .backoff_ns = {1, 2}};
    join(&first, 0, "jobs", "g", "d", AMB_ACK_EXPLICIT);
    join(&same, 1, "jobs", "g", "d", AMB_ACK_EXPLICIT);
    assert_int_equal(same.status, AMB_OK);
    f.filter = "";
    refuse("filter");
    f.filter = "a = 1";
    f.options.max_deliver = 0;
    refuse("max_deliver");
    f.options.max_deliver = 3;
    f.options.backoff_ns[1] = 3;
    refuse("backoff");
    f.options.backoff_ns[1] = 2;
    f.slow = AMB_SLOW_DROP_OLDEST;
    refuse("slow:");
    f.slow = AMB_SLOW_BLOCK;
    f.slow_block_ns = 8;
    refuse("slow_block");
    leave(&first);
    refuse("slow_block");
    leave(&same); /* The name is idle: the next comer is its first member. */
    join(&again, 0, "jobs", "g", "d", AMB_ACK_EXPLICIT);
    assert_int_equal(again.status, AMB_OK);
    assert_int_equal(again.sub.queue->options.slow_block_ns, 8);
    leave(&again);
    tear_down();
}

static void test_a_broker_that_drains_waits_for_nobody_who_is_not_there(void **state)
{
    (void)state;
    set_up();
    struct member a, b;
    join(&a, 0, "jobs", "", "a", AMB_ACK_EXPLICIT);
    join(&b, 0, "jobs", "", "b", AMB_ACK_EXPLICIT);
    leave(&a);
    assert_int_equal(queues(), 2);
    amb_queues_end(&f.directory);
    harness_settle(&f.harness);
    assert_int_equal(queues(), 1);
    leave(&b);
    assert_int_equal(queues(), 0);
    tear_down();
}

static void test_names_are_short_and_plain(void **state)
{
    (void)state;
    char name[AMB_QUEUE_NAME_MAX + 2] = {0};
    memset(name, 'a', AMB_QUEUE_NAME_MAX);
    assert_true(amb_queue_name_check(name));
    name[AMB_QUEUE_NAME_MAX] = 'a';
    assert_false(amb_queue_name_check(name));
    assert_true(amb_queue_name_check("Resize-2.x_y:z@w"));
    assert_false(amb_queue_name_check("two words"));
    assert_false(amb_queue_name_check("\xc3\xa9"));
}

static void expect_lent(const struct amb_lend *lend, unsigned subs, unsigned holding,
                        unsigned spilling)
{
    assert_int_equal(lend->subs, subs);
    assert_int_equal(lend->holding, holding);
    assert_int_equal(lend->spilling, spilling);
}

static void test_home_hears_whether_a_queue_elsewhere_may_hold_publishers(void **state)
{
    (void)state;
    set_up();
    struct member m;
    struct amb_dir_topic *topic;
    assert_int_equal(amb_directory_topic(&f.directory, 0, "jobs.a", 6, 1, NULL, &topic), AMB_OK);
    amb_directory_heard(&f.directory, topic->on_shard[1]);
    amb_directory_work(&f.directory);
    harness_settle(&f.harness);
    const struct amb_topic *home = topic->on_shard[1];
    const struct amb_lend *lend = &home->lending.lends[0];
    f.slow = AMB_SLOW_BLOCK;
    join(&m, 0, "jobs.>", "", "d", AMB_ACK_EXPLICIT);
    expect_lent(lend, 1, 1, 0);
    leave(&m);
    expect_lent(lend, 1, 0, 0); /* The name stays, and nobody is there to catch up. */
    join(&m, 0, "jobs.>", "", "d", AMB_ACK_EXPLICIT);
    expect_lent(lend, 1, 1, 0);
    leave(&m);
    f.slow = AMB_SLOW_SPILL;
    join(&m, 0, "jobs.>", "", "d", AMB_ACK_EXPLICIT);
    expect_lent(lend, 1, 0, 1);
    assert_int_equal(home->spill.readers, 1);
    leave(&m);
    expect_lent(lend, 1, 0, 1);
    f.slow = AMB_SLOW_DROP_OLDEST;
    join(&m, 0, "jobs.>", "", "d", AMB_ACK_EXPLICIT);
    expect_lent(lend, 1, 0, 0);
    assert_int_equal(home->spill.readers, 0);
    leave(&m);
    assert_int_equal(amb_queues_remove_durable(&f.directory, "d", NULL, AMB_TENANT_ANY), AMB_OK);
    harness_settle(&f.harness);
    expect_lent(lend, 0, 0, 0);
    tear_down();
}

static void test_who_has_stopped_holds_nobody_though_it_keeps_what_it_has(void **state)
{
    (void)state;
    set_up();
    struct member a, b;
    struct amb_dir_topic *topic;
    assert_int_equal(amb_directory_topic(&f.directory, 0, "jobs", 4, 1, NULL, &topic), AMB_OK);
    harness_settle(&f.harness);
    const struct amb_lend *lend = &topic->on_shard[1]->lending.lends[0];
    f.slow = AMB_SLOW_BLOCK;
    join(&a, 0, "jobs", "g", "", AMB_ACK_EXPLICIT);
    join(&b, 1, "jobs", "g", "", AMB_ACK_EXPLICIT);
    amb_queues_stop(&f.directory, &a.sub);
    amb_queues_stop(&f.directory, &a.sub);
    harness_settle(&f.harness);
    expect_lent(lend, 1, 1, 0);
    amb_queues_stop(&f.directory, &b.sub);
    harness_settle(&f.harness);
    expect_lent(lend, 1, 0, 0);
    leave(&a);
    leave(&b);
    expect_lent(lend, 0, 0, 0);
    tear_down();
}

static struct amb_cursor *cursor_of(const struct amb_dir_topic *topic, unsigned shard)
{
    return AMB_CONTAINER_OF(topic->on_shard[shard]->cursors.next, struct amb_cursor, of_topic);
}

static void test_how_long_a_queue_holds_publishers_is_its_newest_members_word(void **state)
{
    (void)state;
    set_up();
    struct member m;
    struct amb_dir_topic *topic;
    assert_int_equal(amb_directory_topic(&f.directory, 0, "jobs", 4, 0, NULL, &topic), AMB_OK);
    f.slow = AMB_SLOW_DROP_OLDEST;
    f.slow_block_ns = INT64_MAX;
    join(&m, 0, "jobs", "", "d", AMB_ACK_EXPLICIT);
    struct amb_cursor *cursor = cursor_of(topic, 0);
    assert_false(cursor->hold.holds);
    leave(&m);
    f.slow = AMB_SLOW_BLOCK;
    f.slow_block_ns = 77;
    join(&m, 0, "jobs", "", "d", AMB_ACK_EXPLICIT);
    assert_true(cursor->hold.holds);
    assert_int_equal(cursor->hold.limit_ns, 77);
    cursor->hold.is_dropping = true; /* Its time is over; a member that comes back has all of it
                                      * again. */
    leave(&m);
    assert_false(cursor->hold.holds || cursor->hold.is_dropping);
    join(&m, 0, "jobs", "", "d", AMB_ACK_EXPLICIT);
    assert_true(cursor->hold.holds && !cursor->hold.is_dropping);

    struct amb_queue *queue = cursor->queue;
    const struct amb_queue_options old = {.slow = AMB_SLOW_DROP_OLDEST};
    struct amb_seat late = {.to = {.sub = m.sub.id - 1}}; /* Its worker was slow to say so. */
    struct amb_filter *filter = NULL;
    amb_queue_join(queue, &late, &old, &filter);
    assert_int_equal(queue->options.slow, AMB_SLOW_BLOCK);
    assert_int_equal(queue->seat_count, 2);
    amb_list_remove(&late.node);
    queue->seat_count--;
    leave(&m);
    tear_down();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_who_has_stopped_holds_nobody_though_it_keeps_what_it_has),
        cmocka_unit_test(test_how_long_a_queue_holds_publishers_is_its_newest_members_word),
        cmocka_unit_test(test_home_hears_whether_a_queue_elsewhere_may_hold_publishers),
        cmocka_unit_test(test_a_group_is_one_reader_of_its_topics_and_goes_with_its_last_member),
        cmocka_unit_test(test_without_names_each_has_its_own),
        cmocka_unit_test(test_a_durable_name_is_one_subscriptions_unless_it_is_a_groups),
        cmocka_unit_test(test_a_durable_name_ends_by_time_or_by_hand),
        cmocka_unit_test(test_a_broker_that_drains_waits_for_nobody_who_is_not_there),
        cmocka_unit_test(test_names_are_short_and_plain),
        cmocka_unit_test(test_names_of_two_users_are_two_names),
        cmocka_unit_test(test_nobody_has_no_names),
        cmocka_unit_test(test_the_options_of_a_group_are_those_of_its_first_member),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
