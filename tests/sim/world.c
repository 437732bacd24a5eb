/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/config/config.h"
#include "broker/control/directory/directory.h"
#include "broker/control/directory/queues.h"
#include "broker/delivery/acks/queue.h"
#include "broker/delivery/reader/subscription.h"
#include "broker/memory/bufpool_check.h"
#include "broker/session/session.h"
#include "broker/shard/entry.h"
#include "broker/shard/entry_share.h"
#include "broker/topic/cursor.h"
#include "broker/topic/log/log.h"
#include "broker/topic/priority.h"
#include "broker/topic/topic.h"
#include "broker/worker/shard_setup.h"
#include "broker/worker/worker.h"
#include "tests/sim/sim.h"
#include "wire/base/assert.h"
#include "wire/base/clock.h"
#include "wire/link/sim.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define ROUNDS_MAX 3000u /* of one end: beyond it nothing comes to an end any more */
#define QUIET_ROUNDS 3u  /* before time passes */
#define QUIET_PASSES 8u  /* before it is over */
#define PASS_NS (40 * AMB_NS_PER_MS)
#define MAKER_TURNS 32 /* of all shards, between two of the maker's */
#define REAL_NS INT64_C(1700000000000000000)
#define START_NS AMB_NS_PER_SEC

struct sim_profile {
    const char *const *texts;
    unsigned shards;
    uint64_t memory; /* of all segments */
};

/* Of most topics: the member of a group that a message goes to. */
#define TOPICS(prefer)                                                                             \
    "topics = ( { match = \"b.>\"; spill_max = \"32K\";" prefer " },\n"                            \
    "           { match = \"d.>\"; full = \"drop-oldest\"; max_messages = 30; spill_max = "        \
    "\"8K\";" prefer " },\n"                                                                       \
    "           { match = \"r.>\"; full = \"reject\"; max_messages = 40; trust = \"verify\"; },\n" \
    "           { match = \"t.>\"; ttl = \"20ms\";" prefer " },\n"                                 \
    "           { match = \"h.>\"; retain = { messages = 50; };" prefer " },\n"                    \
    "           { match = \"a.>\"; retain = { age = \"50ms\"; };" prefer " },\n"                   \
    "           { match = \"s.>\"; max_bytes = \"64K\"; spill_max = \"24K\"; slow_block = "        \
    "\"15ms\";" prefer " },\n"                                                                     \
    "           { match = \"l.>\"; max_messages = 20; slow = \"drop-oldest\"; spill_max = "        \
    "\"4K\"; },\n"                                                                                 \
    "           { match = \"$DLQ.>\"; full = \"drop-oldest\"; } );\n"
#define NEAR " prefer = \"near\";"

#define PLAIN                                                                                      \
    "memory = { host = { size = \"64M\"; segment = \"2M\"; grow_on_demand = true; }; };\n"         \
    "limits = { max_topics = 24; topic_idle = \"1s\"; durable_expiry = \"10m\"; };\n"
#define TIGHT                                                                                      \
    "memory = { host = { size = \"64M\"; segment = \"2M\"; grow_on_demand = true; }; };\n"         \
    "limits = { max_topics = 8; topic_idle = \"1s\"; durable_expiry = \"10m\"; window = "          \
    "\"64K\";\n"                                                                                   \
    "           max_mapped_per_session = \"1M\"; };\n"

/* By whether the seed's topics prefer near members. */
static const char *const plain[] = {PLAIN TOPICS(""), PLAIN TOPICS(NEAR)}, *const tight[] = {
                                                                               TIGHT TOPICS(""),
                                                                               TIGHT TOPICS(NEAR)};

static const struct sim_profile profiles[] = {
    {plain, 1, UINT64_C(64) << 20}, {plain, 2, UINT64_C(64) << 20}, {plain, 3, UINT64_C(64) << 20},
    {tight, 2, UINT64_C(64) << 20}, {tight, 2, UINT64_C(4) << 20},
};
#define PROFILES (sizeof(profiles) / sizeof(profiles[0]))

#define TIGHT_FROM 3u

static struct amb_config *configs[PROFILES][2];

static const char *const all_names[SIM_NAMES] = {"b.1", "d.1", "r.1", "t.1",
                                                 "h.1", "a.1", "s.1", "l.1"};

uint64_t sim_random(struct sim *s)
{
    uint64_t z = s->random += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

/* Once ----------------------------------------------------------------------------------------- */

static struct amb_config *read_config(const char *text)
{
    static const struct amb_config_machine machine = {
        .cores = 4, .ram = UINT64_C(16) << 30, .descriptors = 1024, .host = "sim"};
    const struct amb_config_source source = {
        .text = text, .text_len = strlen(text), .machine = &machine};
    char error[AMB_CONFIG_ERROR_MAX] = "";
    struct amb_config *config = NULL;
    if (amb_config_create(&source, error, sizeof(error), &config) != AMB_OK) {
        (void)fprintf(stderr, "%s\n", error);
        abort();
    }
    return config;
}

static void *memory(size_t size)
{
    void *p = calloc(1, size);
    amb_assert(p != NULL);
    return p;
}

void sim_init(struct sim *s)
{
    for (unsigned i = 0; i < PROFILES; i++) {
        for (unsigned near = 0; near < 2; near++) {
            configs[i][near] = read_config(profiles[i].texts[near]);
        }
    }
    for (unsigned i = 0; i < SIM_CLIENTS; i++) {
        struct sim_client *client = &s->clients[i];
        client->said = memory(SIM_SAID * sizeof(*client->said));
        for (unsigned h = 0; h < SIM_HANDLES; h++) {
            client->pubs[h].log = memory(SIM_BATCHES * sizeof(struct sim_batch));
            client->subs[h].held = memory(SIM_HELD * sizeof(struct sim_held));
        }
    }
}

void sim_fini(struct sim *s)
{
    for (unsigned i = 0; i < SIM_CLIENTS; i++) {
        struct sim_client *client = &s->clients[i];
        free(client->said);
        for (unsigned h = 0; h < SIM_HANDLES; h++) {
            free(client->pubs[h].log);
            free(client->subs[h].held);
        }
    }
    for (unsigned i = 0; i < SIM_SHARDS_MAX; i++) {
        amb_pool_fini(&s->entries[i]);
        amb_pool_fini(&s->txs[i]);
    }
    model_fini(s);
    sim_segments_fini();
    for (unsigned i = 0; i < PROFILES; i++) {
        amb_config_destroy(&configs[i][0]);
        amb_config_destroy(&configs[i][1]);
    }
}

/* A seed begins and ends ----------------------------------------------------------------------- */

static void shard_begin(struct sim *s, unsigned i)
{
    struct amb_shard *shard = &s->shards[i];
    amb_assert(amb_shard_init(shard, i, s->config, &s->budget) == AMB_OK);
    if (s->entries[i].object_size != 0) {
        shard->entries.pool = s->entries[i];
        shard->outgoing.pool = s->txs[i];
    }
    shard->memory.bufpool.options.create = sim_segment_create;
    shard->memory.private_pool.options.create = sim_segment_create;
    if (s->has_maker) {
        shard->memory.maker = &s->maker;
        shard->memory.bufpool.options.make = NULL; /* That takes too long. */
        shard->memory.private_pool.options.make = NULL;
    }
    shard->control = &s->control;
    shard->peers = s->peers;
    shard->peer_count = s->shard_count;
    shard->now_ns = s->now_ns;
    sim_desk_connect_upcalls(shard);
    s->peers[i] = shard;
}

static void shard_end(struct sim *s, unsigned i)
{
    struct amb_shard *shard = &s->shards[i];
    SIM_CHECK(s, amb_bufpool_used(&shard->memory.bufpool) == 0,
              "%" PRIu64 " bytes of buffers are not back",
              amb_bufpool_used(&shard->memory.bufpool));
    SIM_CHECK(s, shard->entries.pool.used == 0, "%zu entries are not back",
              shard->entries.pool.used);
    SIM_CHECK(s, shard->entries.reserved == 0, "%zu entries stay reserved",
              shard->entries.reserved);
    SIM_CHECK(s, shard->outgoing.pool.used == 0, "%zu frames are not back",
              shard->outgoing.pool.used);
    SIM_CHECK(s, amb_stat_get(&shard->stats->granted_refused) == 0,
              "a batch within its window was refused for memory");
    SIM_CHECK(s, amb_stat_get(&shard->stats->quarantined_bytes) == 0, "bytes are in quarantine");
    SIM_CHECK(
        s,
        amb_list_is_empty(&shard->sessions.live) && amb_list_is_empty(&shard->windows.starving) &&
            amb_list_is_empty(&shard->windows.rationed) &&
            amb_list_is_empty(&shard->windows.shut) && amb_list_is_empty(&shard->takers.all) &&
            amb_list_is_empty(&shard->takers.settling) &&
            amb_list_is_empty(&shard->forward.blocked) && shard->queues.known.count == 0,
        "something of a shard is left");
    SIM_CHECK(s, shard->lazy.kept == 0, "payloads of lazy subscriptions are kept");
    s->stats.spilled += amb_stat_get(&shard->stats->spilled);
    s->entries[i] = shard->entries.pool;
    s->txs[i] = shard->outgoing.pool;
    memset(&shard->entries.pool, 0, sizeof(shard->entries.pool));
    memset(&shard->outgoing.pool, 0, sizeof(shard->outgoing.pool));
    shard->upcalls = &amb_shard_no_upcalls;
    amb_shard_fini(shard);
}

static void parties_begin(struct sim *s)
{
    amb_assert(amb_parties_init(&s->parties, s->shard_count) == AMB_OK);
    for (unsigned i = 0; i < SIM_CLIENTS; i++) {
        const char name[] = {(char)('a' + i), '\0'};
        amb_assert(amb_parties_find(&s->parties, AMB_PARTY_NAMED | i % 2, name, &s->party[i]) ==
                   AMB_OK);
    }
}

static void parties_end(struct sim *s)
{
    for (unsigned i = 0; i < SIM_CLIENTS; i++) {
        SIM_CHECK(s, s->party[i]->refs == 2, "a party is charged for what is gone");
        amb_party_unref(&s->party[i]);
    }
    amb_parties_fini(&s->parties);
}

static void begin(struct sim *s, uint64_t seed, uint32_t steps)
{
    s->seed = s->random = seed;
    s->hash = seed;
    s->step = 0;
    s->steps = steps;
    s->now_ns = START_NS;
    s->serials = s->lives = 0;
    s->is_ending = false;
    unsigned which = sim_pick(s, PROFILES);
    s->profile = &profiles[which];
    s->has_near = seed % 7 >= 4;
    s->config = configs[which][s->has_near];
    s->shard_count = s->profile->shards;
    memset(&s->budget, 0, sizeof(s->budget));
    s->budget.max = s->profile->memory;
    s->may_lack_memory = s->profile->memory < (UINT64_C(16) << 20);
    s->has_priorities = seed % 4 == 3; /* Not drawn: the others stay what they were. */
    s->spills = seed % 3 != 0;
    s->has_leases = seed % 3 == 1;
    s->has_lazy = seed % 5 >= 3;
    s->is_slow = seed % 8 == 5;
    s->is_tight = which >= TIGHT_FROM;
    s->has_maker = !s->has_leases && seed % 4 >= 2;
    s->topic_count = 0;
    for (unsigned i = 0; i < SIM_NAMES; i++) {
        if (sim_chance(s, 45) || s->topic_count + SIM_NAMES - i <= 2) {
            s->names[s->topic_count++] = all_names[i];
        }
    }
    for (unsigned i = 0; i < SIM_CLIENTS; i++) {
        struct sim_client *c = &s->clients[i];
        struct sim_said *said = c->said;
        c->sim = s;
        c->slot = i;
        c->is_alive = c->is_up = c->is_held = false;
        c->link = NULL;
        c->id = 0;
        c->frozen_ns = 0;
        c->txs = 0;
        c->fetch_seq = 0;
        c->said = said;
        for (unsigned h = 0; h < SIM_HANDLES; h++) {
            c->pubs[h].state = SIM_CLOSED;
            c->subs[h].state = SIM_CLOSED;
            c->subs[h].queue = c->subs[h].wish = 0;
            c->subs[h].reading_count = 0;
        }
    }
    model_begin(s);
    sim_near_begin();
    for (unsigned i = 0; i < s->shard_count; i++) {
        s->peers[i] = &s->shards[i];
    }
    parties_begin(s);
    sim_desk_begin(s);
    amb_assert(!s->has_maker || amb_maker_init(&s->maker) == AMB_OK);
    for (unsigned i = 0; i < s->shard_count; i++) {
        shard_begin(s, i);
    }
    for (unsigned i = 2 + sim_pick(s, 4); i > 0; i--) {
        sim_script_start(s);
    }
}

/* Turns ---------------------------------------------------------------------------------------- */

/* A client's frames that the broker has read count from here on. */
static void hear_said(struct sim *s, struct sim_client *client)
{
    const struct amb_session *session =
        amb_session_find(s->peers[client->shard], client->index, client->generation);
    if (session == NULL || session->link == NULL) {
        return;
    }
    while (client->said_count > 0) {
        const struct sim_said *said = &client->said[client->said_first];
        if (said->ordinal > session->link->stats.frames_received) {
            return;
        }
        model_said(s, said->queue, said);
        client->said_first = (client->said_first + 1) % SIM_SAID;
        client->said_count--;
    }
}

static unsigned turn(struct sim *s, unsigned i)
{
    s->now_ns += 1000;
    s->stats.turns++;
    sim_watch_before(s, s->peers[i]);
    unsigned done = amb_shard_turn(s->peers[i], s->now_ns, REAL_NS + s->now_ns);
    sim_watch_after(s, s->peers[i]);
    if (s->has_maker && s->now_ns / 1000 % MAKER_TURNS == 0) {
        amb_maker_work(&s->maker);
    }
    for (unsigned c = 0; c < SIM_CLIENTS; c++) {
        if (s->clients[c].said_count > 0 && s->clients[c].shard == i && s->clients[c].is_up) {
            hear_said(s, &s->clients[c]);
        }
    }
    return done;
}

void sim_turn(struct sim *s, unsigned shard)
{
    unsigned done = turn(s, shard);
    SIM_EVENT(s, "turn shard done", shard, done);
}

static bool is_quiet(const struct sim *s)
{
    if (s->has_maker && !amb_list_is_empty(&s->maker.line.unmaking)) {
        return false;
    }
    for (unsigned i = 0; i < s->shard_count; i++) {
        const struct amb_shard *shard = &s->shards[i];
        if (amb_shard_is_dirty(shard) || !amb_mpsc_is_empty(&s->peers[i]->inbox.posted)) {
            return false;
        }
        /* Late acknowledgements, one a turn, may change nothing that could be seen. */
        AMB_LIST_FOR_EACH (node, &shard->sessions.live) {
            const struct amb_session *session = AMB_CONTAINER_OF(node, struct amb_session, live);
            if (session->link != NULL && !session->is_link_down &&
                !amb_sim_is_drained(session->link)) {
                return false;
            }
        }
    }
    return true;
}

/* Returns whether clients or the control thread did anything. */
static bool one_round(struct sim *s)
{
    bool did = sim_desk_turn(s, SIM_ASKS) != 0;
    for (unsigned i = 0; i < s->shard_count; i++) {
        (void)turn(s, i);
    }
    for (unsigned i = 0; i < SIM_CLIENTS; i++) {
        struct sim_client *client = &s->clients[i];
        if (client->is_up) {
            did = sim_catch_up(s, client) || did;
        }
        if (client->is_up) {
            did = sim_client_turn(s, client) != 0 || did;
        }
    }
    return did;
}

/* Bytes of buffers, while a publisher waits for memory; else 0. Other shards give theirs up for it,
 * a topic or a few at a time, and nobody sees that until a segment is free. */
static uint64_t waited_for(const struct sim *s)
{
    uint64_t used = 0;
    bool is_wanted = false;
    for (unsigned i = 0; i < s->shard_count; i++) {
        const struct amb_shard *shard = &s->shards[i];
        used += amb_bufpool_used(&shard->memory.bufpool);
        used += amb_bufpool_used(&shard->memory.private_pool);
        is_wanted = is_wanted || !amb_list_is_empty(&shard->windows.starving);
    }
    return is_wanted ? used : 0;
}

/* Until nothing happens any more that anybody could see, however much time passes. */
static void settle(struct sim *s)
{
    unsigned quiet = 0, passes = 0;
    for (unsigned round = 0; passes < QUIET_PASSES; round++) {
        SIM_CHECK(s, round < ROUNDS_MAX, "no end of what happens");
        uint64_t hash = s->hash, used = waited_for(s);
        bool is_active = one_round(s);
        quiet = !is_active && s->hash == hash && is_quiet(s) ? quiet + 1 : 0;
        passes = s->hash == hash && waited_for(s) >= used ? passes : 0;
        if (quiet >= (passes == 0 ? QUIET_ROUNDS : 1)) {
            s->now_ns += PASS_NS;
            passes++;
            quiet = 0;
        }
    }
}

uint64_t sim_topic_next(const struct sim *s, uint32_t id)
{
    for (unsigned i = 0; i < s->shard_count; i++) {
        const struct amb_topic *topic = amb_shard_topic(&s->shards[i], id);
        if (topic != NULL && amb_topic_is_home(topic)) {
            return topic->log.next_seq;
        }
    }
    return 0;
}

/* Invariants ----------------------------------------------------------------------------------- */

/* The bytes that a lazy one keeps are those that it says, and within its share: or one alone.
 * Returns it. */
static uint64_t inspect_kept(const struct sim *s, const struct amb_subscription *sub)
{
    uint64_t bytes = 0, count = 0;
    for (uint64_t n = sub->released + 1; n <= sub->delivered; n++) {
        const struct amb_delivery *delivery = &sub->deliveries[n & sub->mask];
        if (delivery->lazy == AMB_LAZY_ON && delivery->entry != NULL) {
            bytes += amb_entry_charge(delivery->entry);
            count++;
        }
    }
    SIM_CHECK(s, bytes == sub->kept_bytes,
              "%" PRIu64 " bytes are kept for a lazy one, and it is counted %" PRIu64, bytes,
              sub->kept_bytes);
    SIM_CHECK(s, count <= 1 || bytes <= sub->options.credit_bytes,
              "%" PRIu64 " bytes are kept for a lazy one, more than its share", bytes);
    return bytes;
}

static void inspect_sub(const struct sim *s, const struct amb_subscription *sub)
{
    uint64_t msgs = 0, bytes = 0;
    SIM_CHECK(s, sub->released <= sub->delivered, "more is back than was given");
    for (uint64_t n = sub->released + 1; n <= sub->delivered; n++) {
        const struct amb_delivery *delivery = &sub->deliveries[n & sub->mask];
        msgs += delivery->is_released ? 0 : delivery->msgs;
        bytes += delivery->is_released ? 0 : delivery->bytes;
    }
    SIM_CHECK(s, msgs == amb_subscription_out(sub) && bytes == sub->bytes_out,
              "credit: %" PRIu64 " messages are out, and it is counted %" PRIu64, msgs,
              amb_subscription_out(sub));
}

/* Each entry is of a party, and counted for it. */
static void inspect_shares(const struct sim *s, unsigned shard)
{
    const struct amb_shard_entries *entries = &s->shards[shard].entries;
    size_t used = 0;
    for (unsigned i = 0; i < SIM_CLIENTS; i++) {
        const struct amb_entry_share *share = s->party[i]->entry_shares->of[shard];
        used += share == NULL ? 0 : share->used;
    }
    SIM_CHECK(s, used == entries->pool.used + entries->reserved,
              "%zu entries of parties, but %zu and %zu reserved", used, entries->pool.used,
              entries->reserved);
}

void sim_inspect(struct sim *s)
{
    for (unsigned i = 0; i < s->shard_count; i++) {
        const struct amb_shard *shard = &s->shards[i];
        inspect_shares(s, i);
        amb_bufpool_check(&shard->memory.bufpool);
        amb_bufpool_check(&shard->memory.private_pool);
        for (uint32_t t = 0; t < shard->topics.cells; t++) {
            if (shard->topics.at[t] != NULL) {
                amb_topic_assert(shard->topics.at[t]);
            }
        }
        uint64_t kept = 0;
        AMB_LIST_FOR_EACH (node, &shard->sessions.live) {
            const struct amb_session *session = AMB_CONTAINER_OF(node, struct amb_session, live);
            AMB_LIST_FOR_EACH (sub_node, &session->subscription_list) {
                const struct amb_subscription *sub =
                    AMB_CONTAINER_OF(sub_node, struct amb_subscription, node);
                inspect_sub(s, sub);
                kept += inspect_kept(s, sub);
            }
        }
        SIM_CHECK(s, kept == shard->lazy.kept,
                  "%" PRIu64 " bytes are kept for lazy ones, not %" PRIu64, kept, shard->lazy.kept);
    }
}

static void topic_is_read(const struct sim *s, const struct amb_topic *topic)
{
    AMB_LIST_FOR_EACH (node, &topic->cursors) {
        const struct amb_cursor *cursor = AMB_CONTAINER_OF(node, struct amb_cursor, of_topic);
        bool has_reader = cursor->queue == NULL || cursor->queue->seat_count > 0;
        SIM_CHECK(s, !has_reader || cursor->position == topic->log.hi,
                  "stuck: a reader of %s is %" PRIu64 " entries behind and nothing moves",
                  topic->name, topic->log.hi - cursor->position);
    }
    for (unsigned i = 0; i < topic->lending.count; i++) {
        const struct amb_lend *lend = &topic->lending.lends[i];
        SIM_CHECK(s, lend->subs == 0 || lend->position == topic->log.hi,
                  "stuck: %s is lent to shard %u up to %" PRIu64 " entries from its end",
                  topic->name, i, topic->log.hi - lend->position);
    }
    SIM_CHECK(s, !amb_topic_is_home(topic) || topic->ungranted >= topic->log.hi,
              "stuck: windows of %s do not come back", topic->name);
}

static void queues_are_done(const struct sim *s, const struct amb_shard *shard)
{
    for (uint64_t i = 0; shard->queues.known.count > 0 && i <= shard->queues.known.mask; i++) {
        for (struct amb_idmap_node *node = shard->queues.known.buckets[i]; node != NULL;
             node = node->next) {
            const struct amb_queue *queue = AMB_CONTAINER_OF(node, struct amb_queue, known);
            SIM_CHECK(s, queue->seat_count == 0 || queue->takes == 0,
                      "stuck: %" PRIu64 " takes of a queue are not settled", queue->takes);
        }
    }
}

/* May messages stay where they are, whatever the others do? For a durable name, or a process that
 * has lost a session and still reads there. */
static bool may_keep_slots(const struct sim *s)
{
    if (sim_desk_has_quarantine()) {
        return true;
    }
    for (uint32_t i = 1; i <= s->model.queue_count; i++) {
        if (s->model.queues[i].durable[0] != '\0') {
            return true;
        }
    }
    return false;
}

/* All memory is in segments, and in each lies something, or windows that stand open need it. */
static bool is_strewn(const struct sim *s)
{
    uint64_t used = 0;
    for (unsigned i = 0; i < s->shard_count; i++) {
        const struct amb_bufpool *pool = &s->shards[i].memory.bufpool;
        AMB_LIST_FOR_EACH (node, &pool->segments) {
            const struct amb_segment *segment = AMB_CONTAINER_OF(node, struct amb_segment, node);
            const struct amb_extent *extent = segment->pool_data;
            uint64_t needed = pool->reserved / 4 * 5 / AMB_PAGE_SIZE + 1;
            used += segment->size;
            if (extent->pages != 0 && extent->used_pages == 0 &&
                pool->heap.room >= amb_pageheap_room(extent->pages, AMB_ROOM_PAGES) + needed) {
                return false;
            }
        }
    }
    return used == s->budget.max;
}

/* Everybody has done all he can: nothing may be left. */
static void expect_done(struct sim *s)
{
    bool may_keep = may_keep_slots(s);
    SIM_CHECK(s, sim_desk_is_quiet(), "stuck: a request has no answer");
    for (unsigned i = 0; i < s->shard_count; i++) {
        const struct amb_shard *shard = &s->shards[i];
        for (uint32_t t = 0; t < shard->topics.cells; t++) {
            if (shard->topics.at[t] != NULL) {
                topic_is_read(s, shard->topics.at[t]);
            }
        }
        queues_are_done(s, shard);
    }
    for (unsigned i = 0; i < SIM_CLIENTS; i++) {
        const struct sim_client *client = &s->clients[i];
        for (uint32_t h = 0; client->is_up && h < SIM_HANDLES; h++) {
            const struct sim_publisher *p = &client->pubs[h];
            const struct sim_sub *sub = &client->subs[h];
            SIM_CHECK(s, client->fetch_count == 0, "client %u: a fetch has no answer", i);
            SIM_CHECK(s, may_keep || sim_lease_is_free(client), "client %u: slots do not come back",
                      i);
            SIM_CHECK(s, p->state == SIM_CLOSED || p->state == SIM_OPEN,
                      "client %u: publisher %u has no answer", i, h);
            SIM_CHECK(s, sub->state == SIM_CLOSED || sub->state == SIM_OPEN,
                      "client %u: subscription %u has no answer", i, h);
            if (p->state == SIM_OPEN) {
                /* Half of it may be a lease's whose session is over, and its process is not, or
                 * of which a durable name keeps messages. Or another worker needs all segments,
                 * two in all: nothing moves what lies in them closer together. */
                bool may_wait = s->may_lack_memory && (s->has_leases || is_strewn(s));
                SIM_CHECK(s, p->plan_count == 0 || may_wait,
                          "client %u: publisher %u waits for a window", i, h);
                SIM_CHECK(s, p->accepted == p->batches,
                          "client %u: publisher %u: %" PRIu64 " batches of %" PRIu64
                          " are accepted",
                          i, h, p->accepted, p->batches);
                SIM_CHECK(s, !p->wants_settled || p->settled == p->batches,
                          "client %u: publisher %u: %" PRIu64 " batches of %" PRIu64 " are settled",
                          i, h, p->settled, p->batches);
            }
        }
    }
}

/* The end of a seed ---------------------------------------------------------------------------- */

static void readers_have_all(struct sim *s, bool is_last)
{
    for (unsigned i = 0; i < SIM_CLIENTS; i++) {
        const struct sim_client *client = &s->clients[i];
        for (uint32_t h = 0; client->is_up && h < SIM_HANDLES; h++) {
            if (client->subs[h].state == SIM_OPEN) {
                model_caught_up(s, client, &client->subs[h], is_last);
            }
        }
    }
}

/* One more message in each topic shows what was left out just before it. */
static void publish_last(struct sim *s)
{
    struct sim_client *client = &s->clients[0];
    if (client->is_alive) {
        sim_client_die(s, client);
        settle(s);
    }
    client->is_alive = true;
    client->life = ++s->lives;
    client->shard = 0;
    client->may_map = false;
    amb_assert(sim_desk_open(s, client));
    sim_client_start(s, client);
    for (unsigned t = 0; t < s->topic_count; t += SIM_HANDLES) {
        for (unsigned h = 0; h < SIM_HANDLES && t + h < s->topic_count; h++) {
            struct sim_publisher *p = &client->pubs[h];
            p->state = SIM_ASKED;
            p->topic = t + h;
            p->wants_settled = true;
            p->priority = AMB_PRIORITY_NORMAL;
            p->plan_count = 0;
            sim_client_ask(s, client, SIM_ASK_PUB_OPEN, h, 0);
        }
        settle(s);
        for (unsigned h = 0; h < SIM_HANDLES && t + h < s->topic_count; h++) {
            if (client->pubs[h].state != SIM_OPEN) {
                continue; /* Its topic has left, and there are too many others. */
            }
            client->pubs[h].plan_count = 1;
            client->pubs[h].plan_len = sizeof(struct sim_stamp);
            client->pubs[h].plan_ttl_ms = 0;
            sim_client_publish(s, client, h, 1);
        }
        settle(s);
        expect_done(s);
        for (unsigned h = 0; h < SIM_HANDLES && t + h < s->topic_count; h++) {
            if (client->pubs[h].state == SIM_OPEN) {
                client->pubs[h].state = SIM_CLOSING;
                sim_client_ask(s, client, SIM_ASK_PUB_CLOSE, h, client->pubs[h].batches);
            }
        }
        settle(s);
    }
}

static void finish(struct sim *s)
{
    s->is_ending = true;
    for (unsigned i = 0; i < SIM_CLIENTS; i++) {
        struct sim_client *client = &s->clients[i];
        client->frozen_ns = 0;
        if (client->is_alive && !client->is_up) {
            sim_client_die(s, client);
        }
    }
    settle(s);
    expect_done(s);
    readers_have_all(s, false);
    model_before_last(s);
    publish_last(s);
    readers_have_all(s, true);
    model_end(s);
    for (unsigned i = 0; i < SIM_CLIENTS; i++) {
        struct sim_client *client = &s->clients[i];
        if (client->is_up && sim_chance(s, 50)) {
            sim_client_ask(s, client, SIM_ASK_BYE, 0, 0);
        } else if (client->is_alive) {
            sim_client_die(s, client);
        }
    }
    settle(s);
    for (unsigned i = 0; i < SIM_CLIENTS; i++) {
        if (s->clients[i].is_alive) {
            sim_client_die(s, &s->clients[i]);
        }
        SIM_CHECK(s, s->clients[i].txs == 0, "client %u: frames are lost", i);
    }
    amb_queues_close(&s->directory);
    settle(s);
    for (unsigned i = 0; i < s->shard_count; i++) {
        for (uint32_t t = 0; t < s->shards[i].topics.cells; t++) {
            if (s->shards[i].topics.at[t] != NULL) {
                amb_topic_clear(s->shards[i].topics.at[t]); /* History. */
            }
        }
    }
    settle(s);
    sim_inspect(s);
}

void sim_run(struct sim *s, uint64_t seed, uint32_t steps)
{
    begin(s, seed, steps);
    for (s->step = 1; s->step <= steps; s->step++) {
        sim_step(s);
        if (s->step % 128 == 0) {
            sim_inspect(s);
        }
    }
    s->stats.steps += steps;
    finish(s);
    sim_desk_end(s);
    for (unsigned i = 0; i < s->shard_count; i++) {
        shard_end(s, i);
    }
    amb_maker_stop(&s->maker);
    parties_end(s);
    SIM_CHECK(s, atomic_load(&s->budget.used) == 0, "bytes of segments are not back");
}
