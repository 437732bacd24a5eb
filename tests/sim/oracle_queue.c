/* SPDX-License-Identifier: Apache-2.0 */
/* The part of model.h that is about queues: the holder of each message, and whether it may hold
 * it. */
#include "broker/delivery/acks/queue.h"

#include "tests/sim/model.h"
#include "tests/sim/sim.h"
#include "wire/base/assert.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static struct model_queue *queue_make(struct sim *s)
{
    struct model *m = &s->model;
    SIM_CHECK(s, m->queue_count + 1 < MODEL_QUEUES, "more queues than the model has room for");
    return &m->queues[++m->queue_count];
}

uint32_t model_wish(struct sim *s, const char *group, const char *durable, const char *pattern,
                    const struct amb_queue_options *options)
{
    struct model *m = &s->model;
    for (uint32_t i = 1; i <= m->queue_count; i++) {
        const struct model_queue *queue = &m->queues[i];
        bool is_it = durable[0] != '\0' ? strcmp(queue->durable, durable) == 0
                                        : group[0] != '\0' && queue->durable[0] == '\0' &&
                                              strcmp(queue->group, group) == 0 &&
                                              strcmp(queue->pattern, pattern) == 0;
        if (is_it && queue->id == 0) {
            return i;
        }
    }
    struct model_queue *queue = queue_make(s);
    queue->options = *options;
    strncpy(queue->group, group, sizeof(queue->group) - 1);
    strncpy(queue->durable, durable, sizeof(queue->durable) - 1);
    strncpy(queue->pattern, pattern, sizeof(queue->pattern) - 1);
    return m->queue_count;
}

uint32_t model_queue(struct sim *s, uint32_t wish, uint64_t id)
{
    struct model *m = &s->model;
    for (uint32_t i = m->queue_count; i > 0; i--) {
        if (m->queues[i].id == id) {
            return i;
        }
    }
    struct model_queue *queue = queue_make(s);
    *queue = m->queues[wish];
    queue->id = id;
    return m->queue_count;
}

static struct model_turn *turn_of(struct sim *s, struct model_queue *queue, uint32_t topic,
                                  uint64_t seq)
{
    unsigned i = 0;
    while (i < queue->count && queue->on[i].topic != topic) {
        i++;
    }
    if (i == queue->count) {
        SIM_CHECK(s, i < SIM_READINGS, "more topics than a queue has room for");
        queue->on[queue->count++].topic = topic;
    }
    if (seq >= queue->on[i].cap) {
        uint64_t cap = queue->on[i].cap == 0 ? 128 : queue->on[i].cap;
        while (cap <= seq) {
            cap *= 2;
        }
        queue->on[i].turns = realloc(queue->on[i].turns, cap * sizeof(struct model_turn));
        amb_assert(queue->on[i].turns != NULL);
        memset(queue->on[i].turns + queue->on[i].cap, 0,
               (cap - queue->on[i].cap) * sizeof(struct model_turn));
        queue->on[i].cap = cap;
    }
    return &queue->on[i].turns[seq];
}

/* A late ACK settles it. One delivery may be under way to a member, and one more may have gone
 * before the queue's worker has heard of that ACK. */
#define AFTER_LATE_ACK 2u
static void turn_after(struct sim *s, struct model_turn *turn, const struct sim_held *held,
                       uint64_t seq)
{
    turn->after += turn->late_ns != 0 && held->low_ns > turn->late_ns;
    SIM_CHECK(s, turn->after <= AFTER_LATE_ACK,
              "%s: number %" PRIu64 " comes again and again, and it was acknowledged late",
              s->model.topics[held->topic].name, seq);
}

void model_turn(struct sim *s, const struct sim_sub *sub, const struct sim_held *held, uint64_t seq)
{
    struct model_queue *queue = &s->model.queues[sub->queue];
    struct model_turn *turn = turn_of(s, queue, held->topic, seq);
    const char *name = s->model.topics[held->topic].name;
    uint32_t attempt = held->attempt + 1;
    uint64_t bit = UINT64_C(1) << (attempt & 63);
    SIM_CHECK(s, attempt < 64 && (turn->seen & bit) == 0,
              "%s: number %" PRIu64 " comes twice with count %" PRIu32, name, seq, held->attempt);
    turn->seen |= bit;
    turn_after(s, turn, held, seq);
    if (attempt < turn->attempt) {
        SIM_CHECK(s, turn->owner != sub->serial,
                  "%s: number %" PRIu64 " comes with count %" PRIu32 " after %" PRIu32, name, seq,
                  held->attempt, turn->attempt - 1);
        return;
    }
    SIM_CHECK(s, !turn->is_over, "%s: number %" PRIu64 " comes again, and it was settled", name,
              seq);
    SIM_CHECK(s, turn->attempt == 0 || s->now_ns >= turn->low_ns,
              "%s: number %" PRIu64 " comes again too soon", name, seq);
    SIM_CHECK(s, queue->options.max_deliver == 0 || attempt <= queue->options.max_deliver,
              "%s: number %" PRIu64 " comes too often", name, seq);
    s->stats.redelivered += turn->attempt != 0;
    turn->attempt = attempt;
    /* Its holder has it for so long. */
    turn->owner = sub->is_leaving ? 0 : sub->serial;
    turn->low_ns = sub->is_leaving ? 0 : held->low_ns + queue->options.ack_wait_ns;
}

static int64_t backoff_ns(const struct model_queue *queue, uint32_t attempt)
{
    uint32_t count = queue->options.backoff_count;
    uint32_t i = attempt < count ? attempt : count - 1;
    return count == 0 ? 0 : queue->options.backoff_ns[i];
}

static void turn_said(struct sim *s, const struct model_queue *queue, const struct sim_said *said,
                      struct model_turn *turn)
{
    /* It may have expired: then what was said of it counts for nothing, or it was in time. */
    bool is_in_time = s->now_ns < turn->low_ns;
    switch (said->kind) {
    case AMB_ACK_KIND_ACK:
        turn->is_over = turn->is_over || is_in_time;
        turn->late_ns = turn->late_ns == 0 && !is_in_time ? s->now_ns : turn->late_ns;
        break;
    case AMB_ACK_KIND_TERM:
        turn->is_over = turn->is_over || is_in_time;
        break;
    case AMB_ACK_KIND_NAK: {
        int64_t delay_ns =
            said->delay_ns > 0 ? said->delay_ns : backoff_ns(queue, turn->attempt - 1);
        if (is_in_time) {
            turn->low_ns = s->now_ns + delay_ns;
            turn->owner = 0;
        }
        break;
    }
    case AMB_ACK_KIND_IN_PROGRESS:
        if (is_in_time) {
            turn->low_ns = s->now_ns + queue->options.ack_wait_ns;
        }
        break;
    }
}

/* May the broker know that subscription yet? It hears nothing of one that leaves. */
static bool is_staying(const struct sim *s, uint32_t serial)
{
    for (unsigned c = 0; c < SIM_CLIENTS; c++) {
        for (unsigned h = 0; h < SIM_HANDLES; h++) {
            const struct sim_sub *sub = &s->clients[c].subs[h];
            if (sub->serial == serial) {
                return !sub->is_leaving;
            }
        }
    }
    return false;
}

/* Of a former delivery, while another one is out. */
static void turn_said_late(struct sim *s, const struct sim_said *said, struct model_turn *turn)
{
    if (said->kind == AMB_ACK_KIND_ACK && said->attempt + 1 < turn->attempt && turn->late_ns == 0 &&
        is_staying(s, said->serial)) {
        turn->late_ns = s->now_ns;
    }
}

void model_said(struct sim *s, uint32_t queue_index, const struct sim_said *said)
{
    struct model_queue *queue = &s->model.queues[queue_index];
    for (uint32_t i = 0; said->open >> i != 0; i++) {
        struct model_turn *turn = turn_of(s, queue, said->topic, said->seq + i);
        if ((said->open >> i & 1) == 0) {
            continue;
        }
        if (turn->owner == said->serial && turn->attempt == said->attempt + 1) {
            turn_said(s, queue, said, turn);
        } else {
            turn_said_late(s, said, turn);
        }
    }
}

void model_left(struct sim *s, struct sim_sub *sub)
{
    sub->is_leaving = true;
    struct model_queue *queue = &s->model.queues[sub->queue];
    for (unsigned i = 0; i < queue->count; i++) {
        for (uint64_t seq = 1; seq < queue->on[i].cap; seq++) {
            struct model_turn *turn = &queue->on[i].turns[seq];
            if (turn->owner == sub->serial) {
                turn->owner = 0;
                turn->low_ns = 0;
            }
        }
    }
}
