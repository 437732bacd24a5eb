/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The member of a group that a message goes to, by credit or by nearness. A turn begins and ends
 * with so many messages that a member has out, and these are bounds for all of the turn. So it may
 * be certain that one was better than another, which got something. Only the client sees the
 * messages: one with a key goes by that. So they are doubted here, and judged when they come.
 */
#include "broker/config/config.h"
#include "broker/delivery/acks/queue_life.h"
#include "broker/delivery/acks/queue_private.h"
#include "broker/shard/entry_share.h"
#include "tests/sim/sim.h"

#include <inttypes.h>

#define QUEUES_MAX 64u
#define SEATS_MAX 16u
#define DOUBTS 1024u

/* A member before the turn. */
struct place {
    uint64_t sub, given_msgs, given_bytes, back_msgs, back_bytes;
    bool is_full;
};

struct group {
    uint64_t id;
    unsigned count;
    struct place places[SEATS_MAX];
};

/* The worth of a member in the turn, at best or at worst. */
struct merit {
    unsigned rank; /* 0: it has not half of its credit left; 1: remote; 2: on this host */
    uint64_t left;
};

struct member {
    uint64_t sub, from, to; /* messages that it was given, ever */
    bool has_credit;        /* for certain */
    struct merit best, worst;
};

/* Messages from..to-1 of those that a member was given: another one was the better one. */
struct doubt {
    uint64_t sub, from, to, better;
    unsigned rank, better_rank;
    bool is_by_nearness; /* ... on topics that prefer that; else where credit counts */
};

static struct group groups[QUEUES_MAX];
static unsigned group_count;
static struct doubt doubts[DOUBTS];
static unsigned doubt_at;

void sim_near_begin(void)
{
    doubt_at = group_count = 0;
    for (unsigned i = 0; i < DOUBTS; i++) {
        doubts[i] = (struct doubt){0};
    }
}

static void note_group(const struct amb_queue *queue)
{
    struct group *group = &groups[group_count];
    if (queue->seat_count < 2 || queue->seat_count > SEATS_MAX || group_count == QUEUES_MAX) {
        return;
    }
    *group = (struct group){.id = queue->id};
    AMB_LIST_FOR_EACH (node, &queue->seats) {
        const struct amb_seat *seat = AMB_CONTAINER_OF(node, struct amb_seat, node);
        group->places[group->count++] = (struct place){
            .sub = seat->to.sub,
            .given_msgs = seat->given_msgs,
            .given_bytes = seat->given_bytes,
            .back_msgs = atomic_load(&seat->back_msgs),
            .back_bytes = atomic_load(&seat->back_bytes),
            .is_full = atomic_load(&seat->is_full),
        };
    }
    group_count++;
}

void sim_near_before(const struct amb_shard *shard)
{
    group_count = 0;
    for (uint64_t i = 0; shard->queues.known.count > 0 && i <= shard->queues.known.mask; i++) {
        for (struct amb_idmap_node *node = shard->queues.known.buckets[i]; node != NULL;
             node = node->next) {
            note_group(AMB_CONTAINER_OF(node, struct amb_queue, known));
        }
    }
}

/* NULL: it has gone, or its client does not know. */
static const struct sim_client *client_of(const struct sim *s, const struct amb_seat *seat)
{
    for (unsigned i = 0; i < SIM_CLIENTS; i++) {
        const struct sim_client *client = &s->clients[i];
        if (client->is_up && client->shard == seat->shard->index &&
            client->index == seat->to.session && client->generation == seat->to.generation) {
            return client;
        }
    }
    return NULL;
}

static uint64_t less(uint64_t a, uint64_t b)
{
    return a > b ? a - b : 0;
}

static struct merit merit_of(const struct amb_seat *seat, bool is_local, uint64_t msgs,
                             uint64_t bytes)
{
    bool has_half = msgs == 0 || (2 * msgs <= seat->credit_msgs && 2 * bytes <= seat->credit_bytes);
    return (struct merit){.rank = !has_half  ? 0
                                  : is_local ? 2
                                             : 1,
                          .left = less(seat->credit_msgs, msgs)};
}

/* Of a party that has its share of the entries, a member elsewhere has one take at a time. */
static bool may_be_over(const struct amb_seat *seat)
{
    const struct amb_shard *shard = seat->queue->shard;
    return seat->shard != shard && !amb_entry_shares_are_idle(shard);
}

static struct member member_of(const struct amb_seat *seat, bool is_local,
                               const struct place *before)
{
    uint64_t msgs = seat->given_msgs - before->back_msgs;
    uint64_t bytes = seat->given_bytes - before->back_bytes;
    bool was_full = before->is_full || atomic_load(&seat->is_full);
    return (struct member){
        .sub = seat->to.sub,
        .from = before->given_msgs,
        .to = seat->given_msgs,
        .has_credit = !was_full && !may_be_over(seat) && msgs < seat->credit_msgs &&
                      bytes < seat->credit_bytes,
        .best = merit_of(seat, is_local, less(before->given_msgs, atomic_load(&seat->back_msgs)),
                         less(before->given_bytes, atomic_load(&seat->back_bytes))),
        .worst = merit_of(seat, is_local, msgs, bytes),
    };
}

static void doubt(const struct member *of, const struct member *better, bool is_by_nearness)
{
    doubts[doubt_at++ % DOUBTS] = (struct doubt){.sub = of->sub,
                                                 .from = of->from,
                                                 .to = of->to,
                                                 .better = better->sub,
                                                 .rank = of->best.rank,
                                                 .better_rank = better->worst.rank,
                                                 .is_by_nearness = is_by_nearness};
}

static void compare(const struct member *of, const struct member *other)
{
    unsigned best = of->best.rank, worst = other->worst.rank;
    bool has_more = other->worst.left > of->best.left;
    if (worst > best || (worst == best && has_more)) {
        doubt(of, other, true);
    }
    if (has_more) {
        doubt(of, other, false);
    }
}

static void look_at(const struct sim *s, const struct amb_queue *queue, const struct group *group)
{
    struct member members[SEATS_MAX];
    unsigned count = 0;
    if (queue->seat_count != group->count) {
        return; /* Somebody came or went. */
    }
    AMB_LIST_FOR_EACH (node, &queue->seats) {
        const struct amb_seat *seat = AMB_CONTAINER_OF(node, struct amb_seat, node);
        const struct sim_client *client = client_of(s, seat);
        unsigned i = 0;
        while (i < group->count && group->places[i].sub != seat->to.sub) {
            i++;
        }
        if (i == group->count) {
            return;
        }
        if (client != NULL) {
            members[count++] = member_of(seat, client->may_map, &group->places[i]);
        }
    }
    for (unsigned i = 0; i < count; i++) {
        for (unsigned k = 0; members[i].to > members[i].from && k < count; k++) {
            if (k != i && members[k].has_credit) {
                compare(&members[i], &members[k]);
            }
        }
    }
}

void sim_near_after(const struct sim *s, const struct amb_shard *shard)
{
    for (unsigned i = 0; i < group_count; i++) {
        const struct amb_queue *queue = amb_shard_queue(shard, groups[i].id);
        if (queue != NULL) {
            look_at(s, queue, &groups[i]);
        }
    }
}

void sim_near_given(struct sim *s, struct sim_sub *sub, const struct sim_held *held, uint64_t seq,
                    uint32_t key)
{
    const struct model_topic *topic = &s->model.topics[held->topic];
    /* A message that comes again goes by credit. */
    bool is_by_nearness = topic->rule->prefer == AMB_PREFER_NEAR && held->attempt == 0;
    uint64_t at = sub->given++;
    for (unsigned i = 0; i < DOUBTS; i++) {
        struct doubt *doubt = &doubts[i];
        if (doubt->sub != sub->id || at < doubt->from) {
            continue;
        }
        SIM_CHECK(s, key != 0 || at >= doubt->to || doubt->is_by_nearness != is_by_nearness,
                  "%s: number %" PRIu64 " went to subscription %" PRIu64 " of rank %u, and %" PRIu64
                  " of rank %u was the better one by %s",
                  topic->name, seq, sub->id, doubt->rank, doubt->better, doubt->better_rank,
                  is_by_nearness ? "nearness" : "credit");
        if (at + 1 >= doubt->to) {
            doubt->sub = 0;
        }
    }
}
