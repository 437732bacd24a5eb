/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/observe/objects.h"

#include "broker/count/counters_slots.h"
#include "broker/count/figures.h"
#include "broker/delivery/acks/queue.h"
#include "broker/delivery/acks/queue_life.h"
#include "broker/delivery/acks/taker.h"
#include "broker/delivery/lend.h"
#include "broker/delivery/reader/nearness.h"
#include "broker/delivery/reader/subscription.h"
#include "broker/delivery/spill.h"
#include "broker/delivery/traced.h"
#include "broker/memory/segment.h"
#include "broker/session/outgoing.h"
#include "broker/session/session.h"
#include "broker/shard/entry.h"
#include "broker/shard/shard.h"
#include "broker/shard/shard_memory.h"
#include "broker/topic/cursor.h"
#include "broker/topic/topic.h"
#include "broker/topic/topic_tail.h"
#include "wire/base/clock.h"
#include "wire/link/link.h"

#include <string.h>

#define TICK_NS (100 * AMB_NS_PER_MS)
/* The work of one turn: a look at a place, a cursor, an entry or a shadow is one, a written slot
 * SLOT_COST. So a regular part takes about 50 us, an asked one about 100 us;
 * tests/bench/observed.py measures it. */
#define REGULAR_BUDGET 2000u
#define ASKED_BUDGET 4000u
#define SLOT_COST 8u
#define SCAN 16u          /* places without anything that count as one look */
#define ENTRIES_MAX 256u  /* of one object that are looked at, for GPU memory */
#define CURSORS_MAX 1024u /* of one object that are looked at */

struct walk {
    struct amb_shard *shard;
    struct amb_observe_pass *pass;
    unsigned cost;
    bool is_full; /* There was no free slot: that search is long, and not made again. */
};

/* Takes a slot where the object has none yet. False: there is none. */
static bool may_write(struct walk *walk, uint32_t *slot)
{
    walk->cost += SLOT_COST;
    if (*slot == 0 && !walk->is_full) {
        *slot = amb_counters_take_numbers(walk->shard->counters);
        walk->is_full = *slot == 0;
    }
    walk->pass->unlisted += *slot == 0;
    return *slot != 0;
}

/* ---- topics ---- */

static void add_shadow(struct amb_topic_numbers *numbers, const struct amb_topic *topic)
{
    numbers->dropped += topic->counts.msgs_dropped;
    numbers->spilled += topic->spill.msgs;
    numbers->spilled_bytes += topic->spill.bytes;
    numbers->spill_failed += topic->spill.failed;
    numbers->spill_dropped += topic->spill.lost;
    if (topic->spill.readers != 0) {
        struct amb_topic_tail tail = {0};
        amb_topic_tail(topic, &tail);
        numbers->spill_kept_bytes += amb_topic_tail_bytes(topic, &tail);
    }
}

/* Says to home what a shadow's log has. A home that sleeps hears that it has become less; more
 * comes from there. */
static void note_kept(struct amb_topic *shadow)
{
    struct amb_topic_shadow *said = &shadow->shadow;
    uint64_t before = atomic_load_explicit(&said->kept_msgs, memory_order_relaxed);
    if (before == 0 && shadow->log.msgs == 0) {
        return;
    }
    atomic_store_explicit(&said->kept_msgs, shadow->log.msgs, memory_order_relaxed);
    atomic_store_explicit(&said->kept_bytes, shadow->log.bytes, memory_order_relaxed);
    if (shadow->log.msgs < before) {
        amb_lend_kick(shadow);
    }
}

/* The same of all that are on this worker. */
static void note_all_kept(struct amb_topic *topic)
{
    if (!amb_topic_is_home(topic)) {
        note_kept(topic);
    }
    AMB_LIST_FOR_EACH (node, &topic->privates.all) {
        note_kept(AMB_CONTAINER_OF(node, struct amb_topic, privates.node));
    }
}

/* Of one of a topic's shadows. */
struct kept {
    uint64_t msgs, bytes;
};

static uint64_t first_seq_at(const struct amb_log *log, uint64_t position)
{
    return position < log->hi ? amb_log_at(log, position)->first_seq : log->next_seq;
}

static uint64_t more_of(uint64_t most, uint64_t there, uint64_t both)
{
    uint64_t more = there > both ? there - both : 0;
    return more > most ? more : most;
}

/* *most: of the shadow with the most, that part which home's log has not any more. All shadows have
 * the same messages. */
static void count_lent(const struct amb_topic *topic, const struct amb_lend *lend,
                       struct kept *most)
{
    const struct amb_log *log = &topic->log;
    if (lend->subs == 0) {
        return;
    }
    struct kept both = {0};
    if (log->lo < log->hi && lend->position > log->lo) {
        both.msgs = first_seq_at(log, lend->position) - first_seq_at(log, log->lo);
        both.bytes = amb_log_bytes_from(log, log->lo) - amb_log_bytes_from(log, lend->position);
    }
    struct amb_topic_shadow *said = &lend->shadow->shadow;
    uint64_t msgs = atomic_load_explicit(&said->kept_msgs, memory_order_relaxed);
    uint64_t bytes = atomic_load_explicit(&said->kept_bytes, memory_order_relaxed);
    most->msgs = more_of(most->msgs, msgs, both.msgs);
    most->bytes = more_of(most->bytes, bytes, both.bytes);
}

static struct kept kept_elsewhere(struct walk *walk, const struct amb_topic *topic)
{
    struct kept most = {0};
    for (unsigned i = 0; i < topic->lending.count; i++) {
        count_lent(topic, &topic->lending.lends[i], &most);
        walk->cost += topic->lending.lends[i].subs != 0;
    }
    walk->cost += topic->lending.count / SCAN; /* Most topics are lent to few workers, or none. */
    AMB_LIST_FOR_EACH (node, &topic->lending.replays) {
        count_lent(topic, &AMB_CONTAINER_OF(node, struct amb_replay, node)->lend, &most);
        walk->cost++;
    }
    return most;
}

/* Its own figures, and those of private shadows beside it. Returns how many these are. */
static unsigned add_shadows(struct amb_topic_numbers *numbers, const struct amb_topic *topic)
{
    unsigned count = 0;
    add_shadow(numbers, topic);
    AMB_LIST_FOR_EACH (node, &topic->privates.all) {
        add_shadow(numbers, AMB_CONTAINER_OF(node, struct amb_topic, privates.node));
        count++;
    }
    return count;
}

static bool shadow_counts(const struct amb_topic *topic)
{
    return topic->counts.msgs_dropped != 0 || topic->spill.readers != 0 || topic->spill.msgs != 0 ||
           topic->spill.lost != 0 || !amb_list_is_empty(&topic->privates.all);
}

static uint64_t topics_at(struct walk *walk, uint64_t at)
{
    struct amb_topic *t = walk->shard->topics.at[at];
    struct amb_topic_numbers numbers = {0};
    if (t != NULL) {
        note_all_kept(t);
    }
    if (t == NULL || (!amb_topic_is_home(t) && !shadow_counts(t)) ||
        !may_write(walk, &t->counters_slot)) {
        return at + 1;
    }
    if (amb_topic_is_home(t)) {
        numbers.subscriptions = t->audience.matched;
        numbers.messages = t->counts.msgs_in;
        numbers.bytes = t->counts.bytes_in;
        struct kept elsewhere = kept_elsewhere(walk, t);
        numbers.log_messages = t->log.msgs + elsewhere.msgs;
        numbers.log_bytes = t->log.bytes + elsewhere.bytes;
        numbers.last_seq = t->log.next_seq - 1 + t->log.above;
        numbers.rejected = t->counts.msgs_rejected;
    }
    walk->cost += add_shadows(&numbers, t);
    amb_counters_put_numbers(walk->shard->counters, t->counters_slot, AMB_COUNTERS_TOPIC,
                             walk->shard->index, t->id, &numbers, sizeof(numbers));
    return at + 1;
}

static uint64_t topics_end(const struct amb_shard *shard)
{
    return shard->topics.cells;
}

/* ---- what waits in logs ---- */

struct waiting {
    uint64_t bytes, spilled_bytes;
    uint64_t gpu_bytes; /* of `bytes`, those in GPU memory, as far as entries are looked at */
    uint64_t topics;    /* that were looked at; UINT64_MAX: all */
};

static uint64_t gpu_bytes_from(const struct amb_log *log, uint64_t position, unsigned *budget)
{
    uint64_t bytes = 0;
    while (*budget > 0 && position < log->hi) {
        const struct amb_entry *entry = amb_log_at(log, position);
        bytes += entry->segment->gpu != NULL ? amb_entry_charge(entry) : 0;
        position++;
        --*budget;
    }
    return bytes;
}

static struct waiting waiting_of(struct walk *walk, const struct amb_list_node *cursors)
{
    struct waiting waiting = {.topics = UINT64_MAX};
    const unsigned most = walk->shard->memory.gpus == NULL ? 0 : ENTRIES_MAX;
    unsigned count = 0, entries = most;
    AMB_LIST_FOR_EACH (node, cursors) {
        const struct amb_cursor *cursor = AMB_CONTAINER_OF(node, struct amb_cursor, of_sub);
        if (count++ == CURSORS_MAX) {
            waiting.topics = CURSORS_MAX;
            break;
        }
        const struct amb_log *log = &cursor->topic->log;
        /* It may be trimmed past a parked reader. */
        uint64_t position = cursor->position < log->lo ? log->lo : cursor->position;
        waiting.bytes += amb_log_bytes_from(log, position);
        waiting.gpu_bytes += gpu_bytes_from(log, position, &entries);
        waiting.spilled_bytes += cursor->sub == NULL ? 0 : amb_spill_waiting(cursor);
    }
    walk->cost += count + (most - entries);
    return waiting;
}

/* ---- subscriptions ---- */

static void count_taker(struct amb_subscription_numbers *numbers, const struct amb_taker *taker)
{
    if (taker != NULL) {
        numbers->redelivered = taker->redelivered;
        numbers->acked = taker->acked;
        numbers->naked = taker->naked;
        numbers->termed = taker->termed;
        numbers->ack_expired = taker->expired;
        numbers->ack_late = taker->late;
    }
}

static void put_subscription(struct walk *walk, const struct amb_subscription *sub)
{
    struct waiting waiting = waiting_of(walk, &sub->cursors);
    struct amb_subscription_numbers numbers = {
        .delivered = sub->msgs,
        .bytes = sub->bytes,
        .lost = sub->lost,
        .lost_slow = sub->lost_by[AMB_LOSS_SLOW],
        .lost_trimmed = sub->lost_by[AMB_LOSS_TRIMMED],
        .lost_expired = sub->lost_by[AMB_LOSS_EXPIRED],
        .lost_purged = sub->lost_by[AMB_LOSS_PURGED],
        .outstanding = amb_subscription_out(sub),
        .outstanding_bytes = sub->bytes_out,
        .credit_bytes = sub->options.credit_bytes,
        .pending_bytes = waiting.bytes,
        .spilled = sub->spilled,
        .spilled_waiting_bytes = waiting.spilled_bytes,
        .gpu_delivered = sub->gpu_msgs,
        .gpu_bytes = sub->gpu_bytes,
        .held_host_bytes = sub->held_bytes,
        .held_gpu_bytes = sub->held_gpu_bytes,
        .pending_gpu_bytes = waiting.gpu_bytes,
        .pending_topics = waiting.topics,
    };
    count_taker(&numbers, sub->taker);
    (void)strncpy((char *)numbers.nearness, amb_nearness_name(amb_nearness_of(sub)),
                  sizeof(numbers.nearness) - 1);
    amb_counters_put_numbers(walk->shard->counters, sub->counters_slot, AMB_COUNTERS_SUBSCRIPTION,
                             walk->shard->index, sub->id, &numbers, sizeof(numbers));
}

static uint64_t subscriptions_at(struct walk *walk, uint64_t at)
{
    const struct amb_session *s = walk->shard->sessions.at[at / AMB_HANDLES_MAX];
    if (s == NULL || amb_list_is_empty(&s->subscription_list)) {
        return (at / AMB_HANDLES_MAX + 1) * AMB_HANDLES_MAX;
    }
    if (s->handles[at % AMB_HANDLES_MAX / AMB_HANDLES_EACH] == NULL) {
        return (at / AMB_HANDLES_EACH + 1) * AMB_HANDLES_EACH;
    }
    struct amb_subscription *sub = amb_session_subscription(s, at % AMB_HANDLES_MAX);
    if (sub != NULL && may_write(walk, &sub->counters_slot)) {
        put_subscription(walk, sub);
    }
    return at + 1;
}

static uint64_t subscriptions_end(const struct amb_shard *shard)
{
    return (uint64_t)shard->sessions.cells * AMB_HANDLES_MAX;
}

/* ---- queues ---- */

static void put_queue(struct walk *walk, const struct amb_queue *queue)
{
    struct waiting waiting = waiting_of(walk, &queue->cursors);
    const struct amb_queue_numbers numbers = {
        .delivered = queue->given,
        .delivered_remote = queue->given_remote,
        .pending = amb_queue_out(queue),
        .pending_limit = queue->credit_msgs,
        .to_redeliver = queue->kept_msgs,
        .redelivered = queue->redelivered,
        .settled_late = queue->settled_late,
        .dead = queue->dead,
        .lost = queue->lost,
        .waiting_bytes = waiting.bytes,
        .pending_topics = waiting.topics,
    };
    amb_counters_put_numbers(walk->shard->counters, queue->counters_slot, AMB_COUNTERS_QUEUE,
                             walk->shard->index, queue->id, &numbers, sizeof(numbers));
}

static uint64_t queues_at(struct walk *walk, uint64_t at)
{
    for (struct amb_idmap_node *node = walk->shard->queues.known.buckets[at]; node != NULL;
         node = node->next) {
        struct amb_queue *queue = AMB_CONTAINER_OF(node, struct amb_queue, known);
        if (may_write(walk, &queue->counters_slot)) {
            put_queue(walk, queue);
        }
    }
    return at + 1;
}

static uint64_t queues_end(const struct amb_shard *shard)
{
    return shard->queues.known.count > 0 ? shard->queues.known.mask + 1 : 0;
}

/* ---- sessions ---- */

static uint64_t sessions_at(struct walk *walk, uint64_t at)
{
    struct amb_session *s = walk->shard->sessions.at[at];
    if (s == NULL || !may_write(walk, &s->counters_slot)) {
        return at + 1;
    }
    struct amb_client_numbers numbers = {
        .messages_in = amb_paths_msgs(&s->paths.in),
        .bytes_in = amb_paths_bytes(&s->paths.in),
        .messages_out = s->msgs_out,
        .bytes_out = s->bytes_out,
        .mapped_bytes = s->mapped_bytes,
        .mapped_limit_bytes =
            s->mapped_host_max < s->mapped_max ? s->mapped_host_max : s->mapped_max,
        .leased_bytes = s->book.bytes,
        .commits = s->book.committed,
        .queued_frames = s->link == NULL ? 0 : s->link->queued,
        .ignored_frames = s->frames_ignored,
        .heap_bytes = amb_outgoing_heap(s),
        .heap_peak_bytes = s->heap.peak,
        .heap_limit_bytes = s->heap.limit,
        .heap_refused = s->heap.refused,
    };
    if (s->link != NULL) {
        amb_link_describe(s->link, (char *)numbers.lanes, sizeof(numbers.lanes));
    } else {
        memcpy(numbers.lanes, "none", sizeof("none"));
    }
    amb_counters_put_numbers(walk->shard->counters, s->counters_slot, AMB_COUNTERS_CLIENT,
                             walk->shard->index, s->client_id, &numbers, sizeof(numbers));
    return at + 1;
}

static uint64_t sessions_end(const struct amb_shard *shard)
{
    return shard->sessions.cells;
}

/* ---- passes ---- */

static void set_due(struct amb_shard *shard, int64_t due_ns)
{
    shard->observe.pass_due_ns = due_ns;
    amb_shard_observe_gate(&shard->observe, shard->trace.is_watching);
}

static const struct {
    enum amb_counters_scope scope;
    uint64_t (*end)(const struct amb_shard *shard);
    /* Looks at that place, and returns the next. */
    uint64_t (*at)(struct walk *walk, uint64_t at);
} tables[] = {
    {AMB_COUNTERS_TOPIC, topics_end, topics_at},
    {AMB_COUNTERS_SUBSCRIPTION, subscriptions_end, subscriptions_at},
    {AMB_COUNTERS_QUEUE, queues_end, queues_at},
    {AMB_COUNTERS_CLIENT, sessions_end, sessions_at},
};
#define TABLES (sizeof(tables) / sizeof(tables[0]))

/* As far as the budget goes; scope 0: through all tables. True: it is over. Tables may grow and
 * change between two turns; an object is then met once more, or has come after the pass began. */
static bool pass_run(struct amb_shard *shard, struct amb_observe_pass *pass,
                     enum amb_counters_scope scope, unsigned budget)
{
    struct walk walk = {.shard = shard, .pass = pass};
    for (; pass->table < TABLES; pass->table++, pass->at = 0) {
        if (scope != 0 && tables[pass->table].scope != scope) {
            continue;
        }
        while (pass->at < tables[pass->table].end(shard)) {
            if (walk.cost >= budget) {
                return false;
            }
            walk.cost++;
            pass->at = tables[pass->table].at(&walk, pass->at);
        }
    }
    return true;
}

static void ask_arrived(struct amb_mail *mail, void *owner)
{
    struct amb_shard *shard = owner;
    struct amb_objects_ask *ask = AMB_CONTAINER_OF(mail, struct amb_objects_ask, mail);
    if (shard->counters == NULL) {
        amb_mail_post(ask->to, &ask->mail, ask->done);
        return;
    }
    if (amb_list_is_empty(&shard->observe.asks)) {
        shard->observe.asked = (struct amb_observe_pass){0};
    }
    amb_list_push_back(&shard->observe.asks, &ask->node);
    set_due(shard, shard->now_ns);
}

void amb_objects_ask(struct amb_shard *shard, struct amb_objects_ask *ask)
{
    amb_list_init(&ask->node);
    amb_mail_post(&shard->inbox, &ask->mail, ask_arrived);
}

static void asked_run(struct amb_shard *shard)
{
    struct amb_shard_observe *observe = &shard->observe;
    struct amb_objects_ask *ask =
        AMB_CONTAINER_OF(observe->asks.next, struct amb_objects_ask, node);
    if (pass_run(shard, &observe->asked, ask->scope, ASKED_BUDGET)) {
        amb_list_remove(&ask->node);
        observe->asked = (struct amb_observe_pass){0};
        amb_mail_post(ask->to, &ask->mail, ask->done);
    }
    set_due(shard, amb_list_is_empty(&observe->asks) ? amb_deadline_ns(shard->now_ns, TICK_NS)
                                                     : shard->now_ns);
}

static void put_used(struct amb_shard *shard)
{
    amb_stat_set(&shard->stats->memory_used, amb_shard_memory_used(shard));
}

static void regular_run(struct amb_shard *shard)
{
    struct amb_shard_observe *observe = &shard->observe;
    struct amb_observe_pass *pass = &observe->regular;
    if (pass->table == 0 && pass->at == 0) {
        observe->has_moved = false;
    }
    bool is_over = pass_run(shard, pass, 0, REGULAR_BUDGET);
    if (is_over) {
        amb_stat_set(&shard->stats->unlisted, pass->unlisted);
        put_used(shard);
        *pass = (struct amb_observe_pass){0};
    }
    bool is_quiet = is_over && !observe->has_moved;
    set_due(shard, is_quiet ? INT64_MAX : amb_deadline_ns(shard->now_ns, TICK_NS));
}

void amb_objects_turn(struct amb_shard *shard)
{
    if (shard->trace.is_watching) {
        amb_traced_look(shard);
    }
    if (shard->now_ns < shard->observe.pass_due_ns) {
        return;
    }
    if (shard->counters == NULL) {
        set_due(shard, INT64_MAX);
    } else if (!amb_list_is_empty(&shard->observe.asks)) {
        asked_run(shard);
    } else {
        regular_run(shard);
    }
}

int64_t amb_objects_due(struct amb_shard *shard)
{
    put_used(shard); /* Memory that goes by time alone begins no pass. */
    return shard->observe.pass_due_ns;
}

void amb_objects_moved(struct amb_shard *shard)
{
    shard->observe.has_moved = true;
    if (shard->observe.pass_due_ns == INT64_MAX) {
        set_due(shard, amb_deadline_ns(shard->now_ns, TICK_NS));
    }
}

void amb_objects_end(struct amb_shard *shard)
{
    struct amb_list_node *node;
    shard->counters = NULL;
    while ((node = amb_list_pop_front(&shard->observe.asks)) != NULL) {
        struct amb_objects_ask *ask = AMB_CONTAINER_OF(node, struct amb_objects_ask, node);
        amb_mail_post(ask->to, &ask->mail, ask->done);
    }
}
