/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parts that the tests of the directory share. It is a directory with shards that have no
 * threads, so that its orders are seen in their topics.
 * Threads: one. Memory: the test's.
 */
#pragma once

#include "broker/config/config.h"
#include "broker/control/directory/directory.h"
#include "broker/control/directory/directory_chores.h"
#include "broker/control/directory/directory_counts.h"
#include "broker/control/directory/directory_leave.h"
#include "broker/control/directory/directory_wake.h"
#include "broker/session/session.h"
#include "broker/topic/topic.h"
#include "broker/worker/orders_session.h"
#include "broker/worker/orders_subscription.h"
#include "tests/support/shard/shard_harness.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

static const char few[] = "limits = { max_topics = 3; max_subscriptions = 2; };\n"
                          "memory = { host = { size = \"16M\"; segment = \"2M\"; }; };\n"
                          "topics = ( { match = \"drop.>\"; slow = \"drop-oldest\"; } );\n";

struct fixture {
    struct shard_harness harness;
    struct amb_directory directory;
    unsigned answers, heard;
    uint32_t tenant; /* of topics and subscriptions to come */
};

static struct fixture f;

static inline void set_up(unsigned shards, const char *config)
{
    memset(&f, 0, sizeof(f));
    harness_init(&f.harness, shards, config);
    assert_int_equal(amb_directory_init(&f.directory, f.harness.config, f.harness.peers, shards),
                     AMB_OK);
}

static inline void settle(void)
{
    amb_directory_tell(&f.directory);
    harness_settle(&f.harness);
}

/* A round of the control thread, and turns of the workers. */
static inline void round_of_work(void)
{
    amb_directory_work(&f.directory);
    settle();
}

static inline void tear_down(void)
{
    settle();
    for (unsigned i = 0; i < f.harness.count; i++) {
        AMB_LIST_FOR_EACH_SAFE (node, &f.harness.shards[i].sessions.live) {
            struct amb_session *session = AMB_CONTAINER_OF(node, struct amb_session, live);
            struct amb_order *order = amb_order_new(&amb_order_session_close, NULL, NULL);
            order->session = (struct amb_session_id){i, session->index, session->generation};
            amb_order_post(f.harness.peers[i], order);
        }
    }
    settle();
    AMB_LIST_FOR_EACH (node, &f.directory.subs) { /* The test's, which does not end them. */
        free(AMB_CONTAINER_OF(node, struct amb_dir_sub, node)->pairs);
    }
    amb_directory_fini(&f.directory);
    for (unsigned i = 0; i < f.harness.count; i++) {
        for (uint32_t id = 0; id < f.harness.shards[i].topics.cells; id++) {
            f.harness.shards[i].topics.at[id] = NULL; /* They were the directory's. */
        }
    }
    harness_fini(&f.harness);
}

static inline struct amb_dir_topic *topic_of(const char *name, unsigned home)
{
    struct amb_dir_topic *topic = NULL;
    assert_int_equal(
        amb_directory_topic(&f.directory, f.tenant, name, strlen(name), home, NULL, &topic),
        AMB_OK);
    settle();
    return topic;
}

/* As its first message does. */
static inline void wake(struct amb_dir_topic *topic)
{
    amb_directory_heard(&f.directory, topic->on_shard[topic->home]);
    while (topic->wake != AMB_DIR_AWAKE) {
        round_of_work();
    }
}

static inline struct amb_dir_topic *awake_topic_of(const char *name, unsigned home)
{
    struct amb_dir_topic *topic = topic_of(name, home);
    wake(topic);
    return topic;
}

static inline void note_answer(void *control, struct amb_order *order)
{
    assert_ptr_equal(control, &f.harness);
    assert_int_equal(order->status, AMB_OK);
    f.answers++;
    amb_order_free(order);
}

/* A session on that shard, without link. */
static inline struct amb_session_id open_session(unsigned shard, uint32_t index)
{
    struct amb_session *session;
    assert_int_equal(amb_session_create(f.harness.peers[shard], index, 1, 0, 0, &session), AMB_OK);
    return (struct amb_session_id){shard, index, 1};
}

/* Makes a subscription, and its worker knows it. */
static inline void open_sub(struct amb_dir_sub *sub, const struct amb_session_id *session,
                            uint32_t handle, const char *pattern)
{
    memset(sub, 0, sizeof(*sub));
    sub->id = amb_directory_next_sub(&f.directory);
    sub->session = *session;
    sub->handle = handle;
    sub->tenant = f.tenant;
    sub->options.slow = AMB_SLOW_DEFAULT;
    sub->pattern_len = (uint32_t)strlen(pattern);
    memcpy(sub->pattern, pattern, sub->pattern_len);
    struct amb_order_subscription_open *open =
        amb_order_new(&amb_order_subscription_open, NULL, NULL);
    open->order.session = *session;
    open->handle = handle;
    open->id = sub->id;
    open->options = sub->options;
    amb_order_post(f.harness.peers[session->shard], &open->order);
}

/* ... and enters it; returns how many orders are to be answered. */
static inline unsigned subscribe(struct amb_dir_sub *sub, const struct amb_session_id *session,
                                 uint32_t handle, const char *pattern)
{
    open_sub(sub, session, handle, pattern);
    unsigned before = f.answers;
    unsigned orders = amb_directory_subscribe(&f.directory, sub, note_answer, NULL);
    settle();
    assert_int_equal(f.answers, before + orders);
    return orders;
}

static inline unsigned cursors_of(const struct amb_dir_topic *topic, unsigned shard)
{
    unsigned count = 0;
    if (topic->on_shard[shard] != NULL) {
        AMB_LIST_FOR_EACH (node, &topic->on_shard[shard]->cursors) {
            count++;
        }
    }
    return count;
}

static inline void advance(int64_t ns)
{
    f.directory.now_ns += ns;
    amb_directory_tick(&f.directory);
    settle();
}

static inline void publish_once(struct amb_dir_topic *topic)
{
    struct amb_dir_publisher publisher = {.handle = 0};
    amb_list_init(&publisher.of_topic);
    amb_directory_publish(&publisher, topic);
    amb_directory_unpublish(&f.directory, &publisher);
}

/* As a client's Unsubscribe: the worker first. */
static inline void unsubscribe(struct amb_dir_sub *sub)
{
    struct amb_order_subscription_close *close =
        amb_order_new(&amb_order_subscription_close, NULL, NULL);
    close->order.session = sub->session;
    close->handle = sub->handle;
    amb_order_post(f.harness.peers[sub->session.shard], &close->order);
    amb_directory_unsubscribe(&f.directory, sub);
    settle();
}

static inline struct amb_dir_topic *priority_of(struct amb_dir_topic *main,
                                                enum amb_priority priority)
{
    struct amb_dir_topic *topic = NULL;
    assert_int_equal(amb_directory_priority(&f.directory, main, priority, NULL, &topic), AMB_OK);
    settle();
    return topic;
}
