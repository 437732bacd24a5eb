/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/shard/shard_harness.h"
#include "broker/memory/bufpool_check.h"
#include "broker/worker/orders_topic.h"
#include "broker/worker/shard_setup.h"

#include "broker/config/config.h"
#include "broker/ingest/route.h"
#include "broker/session/retire.h"
#include "broker/shard/entry.h"
#include "broker/topic/log/log.h"
#include "broker/topic/topic.h"
#include "broker/topic/trim.h"
#include "broker/worker/orders.h"
#include "broker/worker/worker.h"
#include "tests/support/config_try.h"
#include "tests/support/shard/shard_client.h"

#include <stdio.h>
#include <unistd.h>

#define ROUNDS_MAX 20000u

static const char small_config[] =
    "memory = { host = { size = \"16M\"; segment = \"2M\"; grow_on_demand = true; }; };\n";

static struct shard_harness *harness_of(struct amb_shard *shard)
{
    return shard->control->owner;
}

static void offer_segment(struct amb_shard *shard, uint64_t client_id, uint64_t segment,
                          uint64_t size, int fd)
{
    struct shard_client *client = harness_of(shard)->clients[client_id];
    if (client == NULL) {
        (void)close(fd);
        return;
    }
    shard_client_offered(client, segment, size, fd);
}

static void session_ended(struct amb_shard *shard, uint64_t client_id, enum amb_status why,
                          const char *text)
{
    struct shard_client *client = harness_of(shard)->clients[client_id];
    assert_non_null(text);
    if (client != NULL) {
        client->ended++;
        client->ended_why = why;
        (void)snprintf(client->ended_text, sizeof(client->ended_text), "%s", text);
    }
}

/* To the topic of that name, if the test has made it. */
static void dead_letter(struct amb_shard *shard, struct amb_entry *entry, uint32_t tenant,
                        const char *name)
{
    (void)tenant;
    struct shard_harness *harness = harness_of(shard);
    unsigned home = shard->index;
    entry->status = AMB_ENOTFOUND;
    for (uint32_t i = 0; i < harness->topic_count; i++) {
        if (strcmp(harness->names[i], name) == 0) {
            entry->status = AMB_OK;
            entry->topic = i;
            home = harness->topic_home[i];
        }
    }
    amb_route_hand_over(harness->peers[home], entry);
}

void harness_init(struct shard_harness *harness, unsigned shards, const char *config)
{
    assert_true(shards >= 1 && shards <= HARNESS_SHARDS_MAX);
    memset(harness, 0, sizeof(*harness));
    harness->config = try_accept(config == NULL ? small_config : config);
    harness->budget.max = harness->config->memory.host.size;
    harness->count = shards;
    harness->now_ns = 1000000000;
    harness->real_ahead_ns = INT64_C(1700000000000000000);
    harness->upcalls = (struct amb_shard_upcalls){
        .offer_segment = offer_segment,
        .segment_gone = amb_retire_segment,
        .session_ended = session_ended,
        .dead_letter = dead_letter,
    };
    assert_int_equal(amb_inbox_init(&harness->control, harness), AMB_OK);
    for (unsigned i = 0; i < shards; i++) {
        struct amb_shard *shard = &harness->shards[i];
        assert_int_equal(amb_shard_init(shard, i, harness->config, &harness->budget), AMB_OK);
        shard->control = &harness->control;
        shard->peers = harness->peers;
        shard->peer_count = shards;
        shard->upcalls = &harness->upcalls;
        shard->now_ns = harness->now_ns;
        harness->peers[i] = shard;
    }
}

static void harness_expect_empty(const struct shard_harness *harness)
{
    harness_check(harness);
    for (unsigned i = 0; i < harness->count; i++) {
        const struct amb_shard *shard = &harness->shards[i];
        assert_int_equal(amb_bufpool_used(&shard->memory.bufpool), 0);
        assert_int_equal(amb_bufpool_used(&shard->memory.private_pool), 0);
        assert_int_equal(shard->entries.pool.used, 0);
        assert_int_equal(shard->outgoing.pool.used, 0);
        assert_int_equal(shard->tallies.pool.used, 0);
        assert_int_equal(amb_stat_get(&shard->stats->quarantined_bytes), 0);
        assert_true(amb_list_is_empty(&shard->sessions.live));
        assert_true(amb_list_is_empty(&shard->windows.starving) &&
                    amb_list_is_empty(&shard->windows.rationed) &&
                    amb_list_is_empty(&shard->windows.shut));
        assert_true(amb_list_is_empty(&shard->takers.all));
        assert_true(amb_list_is_empty(&shard->takers.settling));
        assert_int_equal(shard->queues.known.count, 0);
        assert_true(amb_list_is_empty(&shard->forward.blocked));
    }
}

void harness_forget(struct shard_harness *harness)
{
    for (unsigned i = 0; i < harness->client_count; i++) {
        shard_client_destroy(&harness->clients[i]);
    }
    harness_settle(harness);
    for (uint32_t i = 0; i < harness->topic_count; i++) {
        struct amb_topic *home = harness_home(harness, i);
        amb_topic_forget(home, home->log.hi);
    }
    harness_settle(harness);
}

void harness_fini(struct shard_harness *harness)
{
    for (unsigned i = 0; i < harness->client_count; i++) {
        shard_client_destroy(&harness->clients[i]);
    }
    harness_settle(harness);
    harness_expect_empty(harness);
    for (unsigned t = 0; t < harness->topic_count; t++) {
        for (unsigned i = 0; i < harness->count; i++) {
            amb_topic_destroy(&harness->topics[t][i]);
        }
    }
    for (unsigned i = 0; i < harness->count; i++) {
        harness->shards[i].upcalls = &amb_shard_no_upcalls;
        amb_shard_fini(&harness->shards[i]);
    }
    amb_inbox_fini(&harness->control);
    assert_int_equal(atomic_load(&harness->budget.used), 0);
    amb_config_destroy(&harness->config);
}

uint32_t harness_topic(struct shard_harness *harness, const char *name, unsigned home)
{
    assert_true(harness->topic_count < HARNESS_TOPICS_MAX && home < harness->count);
    uint32_t id = harness->topic_count++;
    harness->topic_home[id] = home;
    (void)snprintf(harness->names[id], sizeof(harness->names[id]), "%s", name);
    (void)harness_topic_on(harness, id, home);
    return id;
}

uint32_t harness_priority(struct shard_harness *harness, uint32_t main, enum amb_priority priority)
{
    assert_true(harness->topic_count < HARNESS_TOPICS_MAX);
    uint32_t id = harness->topic_count++;
    harness->topic_home[id] = harness->topic_home[main];
    harness->topic_priority[id] = priority;
    harness->topic_main[id] = main;
    memcpy(harness->names[id], harness->names[main], sizeof(harness->names[id]));
    (void)harness_topic_on(harness, id, harness->topic_home[id]);
    return id;
}

struct amb_topic *harness_topic_on(struct shard_harness *harness, uint32_t topic, unsigned shard)
{
    struct amb_topic **at = &harness->topics[topic][shard];
    if (*at == NULL) {
        const char *name = harness->names[topic];
        assert_int_equal(amb_topic_create(harness->peers[shard], harness->config, topic,
                                          harness->topic_home[topic], name, strlen(name), at),
                         AMB_OK);
        if (harness->topic_priority[topic] != AMB_PRIORITY_NORMAL) {
            amb_topic_set_priority(*at, harness->topic_priority[topic]);
            (*at)->kin.main = harness_topic_on(harness, harness->topic_main[topic], shard);
        }
        struct amb_order_topic add = {.topic = *at};
        amb_order_topic_add.run(harness->peers[shard], &add.order);
        assert_int_equal(add.order.status, AMB_OK);
    }
    return *at;
}

struct amb_entry *harness_entry(struct amb_shard *shard, uint32_t count)
{
    struct amb_entry *entry = amb_pool_get(&shard->entries.pool);
    assert_non_null(entry);
    entry->refs = 1;
    entry->home = shard;
    entry->count = count;
    return entry;
}

bool harness_shed(struct amb_topic *topic)
{
    return amb_topic_shed(topic, NULL);
}

struct amb_topic *harness_home(struct shard_harness *harness, uint32_t topic)
{
    return harness_topic_on(harness, topic, harness->topic_home[topic]);
}

/* The session may have ended meanwhile. */
static void lend_done(void *control, struct amb_order *order)
{
    (void)control;
    assert_true(order->status == AMB_OK || order->status == AMB_ENOTFOUND ||
                order->status == AMB_ECLOSED);
    amb_order_free(order);
}

void harness_lend(struct shard_harness *harness, uint32_t topic, const struct shard_client *client,
                  uint32_t handle, int subs, int holding)
{
    struct amb_order_lend *lend = amb_order_new(&amb_order_lend, lend_done, NULL);
    assert_non_null(lend);
    lend->order.session =
        (struct amb_session_id){client->shard, (uint32_t)client->id, client->session->generation};
    lend->sub = client->subs[handle].id;
    lend->handle = handle;
    lend->begin = client->subs[handle].begin;
    lend->topic = topic;
    lend->borrower = client->shard;
    lend->subs = subs;
    lend->holding = holding;
    lend->spilling = client->subs[handle].options.slow == AMB_SLOW_SPILL ? subs : 0;
    lend->shadow = harness_topic_on(harness, topic, client->shard);
    amb_order_post(harness->peers[harness->topic_home[topic]], &lend->order);
}

unsigned harness_turn(struct shard_harness *harness, unsigned shard)
{
    harness->now_ns += 1000;
    return amb_shard_turn(harness->peers[shard], harness->now_ns,
                          harness->real_ahead_ns + harness->now_ns);
}

static bool harness_is_quiet(const struct shard_harness *harness)
{
    for (unsigned i = 0; i < harness->count; i++) {
        const struct amb_shard *shard = &harness->shards[i];
        if (amb_shard_is_dirty(shard) || atomic_load(&shard->inbox.posted.head) != NULL) {
            return false;
        }
    }
    return true;
}

void harness_settle(struct shard_harness *harness)
{
    unsigned quiet = 0;
    for (unsigned round = 0; quiet < 3; round++) {
        assert_true(round < ROUNDS_MAX);
        unsigned done = amb_inbox_run(&harness->control);
        for (unsigned i = 0; i < harness->count; i++) {
            done += harness_turn(harness, i);
        }
        for (unsigned i = 0; i < harness->client_count; i++) {
            if (harness->clients[i] != NULL) {
                done += shard_client_turn(harness->clients[i]);
            }
        }
        quiet = done == 0 && harness_is_quiet(harness) ? quiet + 1 : 0;
    }
}

void harness_pass(struct shard_harness *harness, int64_t ns)
{
    harness->now_ns += ns;
}

void harness_hog(struct amb_shard *shard)
{
    struct amb_buf bufs[256];
    unsigned count = 0;
    while (count < 256 &&
           amb_bufpool_alloc(&shard->memory.bufpool, 100 << 10, &bufs[count]) == AMB_OK) {
        count++;
    }
    while (count > 0) {
        amb_bufpool_free(&shard->memory.bufpool, &bufs[--count]);
    }
}

uint64_t harness_used(const struct shard_harness *harness)
{
    uint64_t used = 0;
    for (unsigned i = 0; i < harness->count; i++) {
        used += amb_bufpool_used(&harness->shards[i].memory.bufpool);
        used += amb_bufpool_used(&harness->shards[i].memory.private_pool);
    }
    return used;
}

/* The pools of a shard have reserved as much as its sessions together. */
static void check_reserved(const struct amb_shard *shard)
{
    uint64_t reserved = 0;
    AMB_LIST_FOR_EACH (node, &shard->sessions.live) {
        reserved += AMB_CONTAINER_OF(node, struct amb_session, live)->reserved;
    }
    assert_int_equal(shard->memory.bufpool.reserved + shard->memory.private_pool.reserved,
                     reserved);
}

void harness_check(const struct shard_harness *harness)
{
    for (unsigned i = 0; i < harness->count; i++) {
        amb_bufpool_check(&harness->shards[i].memory.bufpool);
        amb_bufpool_check(&harness->shards[i].memory.private_pool);
        check_reserved(&harness->shards[i]);
        for (unsigned t = 0; t < harness->topic_count; t++) {
            if (harness->topics[t][i] != NULL) {
                amb_topic_assert(harness->topics[t][i]);
            }
        }
    }
}
