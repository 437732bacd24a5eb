/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The events, step by step: whose turn it is, how much time passes, and a client's actions in its
 * turn. Everything is drawn from the seed.
 */
#include "broker/config/config.h"
#include "broker/topic/begin.h"
#include "tests/sim/sim.h"
#include "wire/base/clock.h"
#include "wire/link/sim.h"

#include <stdio.h>
#include <string.h>

void sim_script_start(struct sim *s)
{
    for (unsigned i = 0; i < SIM_CLIENTS; i++) {
        struct sim_client *client = &s->clients[i];
        if (!client->is_alive) {
            client->is_alive = true;
            client->life = ++s->lives;
            client->shard = sim_pick(s, s->shard_count);
            client->may_map = sim_chance(s, 60);
            client->maps = sim_chance(s, 85);
            for (unsigned h = 0; h < SIM_HANDLES; h++) {
                client->subs[h].state = SIM_CLOSED;
            }
            if (sim_desk_open(s, client)) {
                sim_client_start(s, client);
            } else {
                client->is_alive = false;
            }
            return;
        }
    }
}

/* Publishers ----------------------------------------------------------------------------------- */

static void do_open_pub(struct sim *s, struct sim_client *client, uint32_t handle)
{
    struct sim_publisher *p = &client->pubs[handle];
    if (p->state != SIM_CLOSED) {
        return;
    }
    p->state = SIM_ASKED;
    p->topic = sim_pick(s, s->topic_count);
    p->name = sim_chance(s, 35) ? 1 + sim_pick(s, 3) : 0;
    p->wants_settled = p->name != 0 || sim_chance(s, 80);
    p->priority = s->has_priorities ? (enum amb_priority)sim_pick(s, 3) : AMB_PRIORITY_NORMAL;
    sim_client_ask(s, client, SIM_ASK_PUB_OPEN, handle, 0);
}

static void do_close_pub(struct sim *s, struct sim_client *client, uint32_t handle)
{
    struct sim_publisher *p = &client->pubs[handle];
    bool is_settled = p->wants_settled ? p->settled == p->batches : p->accepted == p->batches;
    if (p->state == SIM_OPEN && (is_settled || sim_chance(s, 20))) {
        p->state = SIM_CLOSING;
        sim_client_ask(s, client, SIM_ASK_PUB_CLOSE, handle, p->batches);
    }
}

static void do_lease(struct sim *s, struct sim_client *client)
{
    if (client->lease.state == SIM_CLOSED) {
        sim_lease_ask(s, client);
    } else if (client->lease.state == SIM_OPEN && sim_chance(s, 20)) {
        sim_lease_close(s, client);
    }
}

/* Subscriptions -------------------------------------------------------------------------------- */

static void pick_pattern(struct sim *s, struct sim_sub *sub)
{
    const char *name = s->names[sim_pick(s, s->topic_count)];
    uint32_t kind = sim_pick(s, 100);
    if (kind < 80) {
        (void)snprintf(sub->pattern, sizeof(sub->pattern), "%s", name);
    } else if (kind < 90) {
        (void)snprintf(sub->pattern, sizeof(sub->pattern), "%c.*", name[0]);
    } else if (kind < 95) {
        (void)snprintf(sub->pattern, sizeof(sub->pattern), ">");
    } else {
        (void)snprintf(sub->pattern, sizeof(sub->pattern), "$DLQ.>");
    }
}

static void pick_begin(struct sim *s, struct sim_sub *sub)
{
    static const enum amb_start starts[] = {AMB_START_LAST, AMB_START_LAST_N, AMB_START_FIRST,
                                            AMB_START_SEQ, AMB_START_TIME};
    sub->begin = (struct amb_begin){.start = AMB_START_NEW};
    if (sim_chance(s, 35)) {
        sub->begin.start = starts[sim_pick(s, 5)];
        sub->begin.at =
            sub->begin.start == AMB_START_TIME
                ? (uint64_t)(INT64_C(1700000000000000000) + s->now_ns) - sim_pick(s, 50000000)
                : 1 + sim_pick(s, 60);
    }
}

static void pick_queue(struct sim *s, struct sim_sub *sub)
{
    char group[4] = "", durable[4] = "";
    uint32_t kind = sim_pick(s, 3);
    struct amb_queue_options options = {
        .ack = kind == 0           ? AMB_ACK_CUMULATIVE
               : sim_chance(s, 85) ? AMB_ACK_EXPLICIT
                                   : AMB_ACK_NONE,
        .ack_wait_ns = (int64_t)(5 + sim_pick(s, 60)) * AMB_NS_PER_MS,
        .max_deliver = sim_chance(s, 40) ? 1 + sim_pick(s, 4) : 0,
        .backoff_count = sim_chance(s, 30) ? 1 + sim_pick(s, 3) : 0,
        .slow = sim_chance(s, 70) ? AMB_SLOW_BLOCK : AMB_SLOW_DROP_OLDEST,
        .slow_block_ns = sim_chance(s, 70) ? INT64_MAX : 10 * AMB_NS_PER_MS,
    };
    if (s->spills && sim_chance(s, 30)) {
        options.slow = AMB_SLOW_SPILL;
    }
    for (uint32_t i = 0; i < options.backoff_count; i++) {
        options.backoff_ns[i] = (int64_t)(1 + sim_pick(s, 20)) * AMB_NS_PER_MS;
    }
    if (kind == 1) {
        (void)snprintf(group, sizeof(group), "g%c", (char)('a' + sim_pick(s, 2)));
    }
    if (kind == 2 || (kind == 1 && sim_chance(s, 30))) {
        (void)snprintf(durable, sizeof(durable), "d%c", (char)('a' + sim_pick(s, 2)));
    }
    sub->wish = model_wish(s, group, durable, sub->pattern, &options);
    const struct model_queue *queue = &s->model.queues[sub->wish];
    memcpy(sub->pattern, queue->pattern, sizeof(sub->pattern)); /* A durable name's is fixed. */
    sub->options.slow = queue->options.slow;
    sub->options.slow_block_ns = queue->options.slow_block_ns;
}

static void do_subscribe(struct sim *s, struct sim_client *client, uint32_t handle)
{
    static const enum amb_slow slows[] = {
        AMB_SLOW_DEFAULT,     AMB_SLOW_BLOCK,  AMB_SLOW_BLOCK,     AMB_SLOW_DROP_OLDEST,
        AMB_SLOW_DROP_NEWEST, AMB_SLOW_LATEST, AMB_SLOW_DISCONNECT};
    struct sim_sub *sub = &client->subs[handle];
    if (sub->state != SIM_CLOSED) {
        return;
    }
    sub->serial = ++s->serials;
    sub->options = (struct amb_subscription_options){
        .slow = slows[sim_pick(s, sim_chance(s, 20) ? 7 : 6)],
        .slow_block_ns = sim_chance(s, 60) ? INT64_MAX : (int64_t)sim_pick(s, 30) * AMB_NS_PER_MS,
        .credit_msgs = sim_chance(s, 60) ? 100 : 1 + sim_pick(s, 60),
        .credit_bytes = sim_chance(s, 60) ? 1000000 : 1 + sim_pick(s, 100000),
        .copy = sim_chance(s, 20),
    };
    if (s->spills && sim_chance(s, 40)) {
        sub->options.slow = AMB_SLOW_SPILL;
    }
    if (s->has_lazy && sim_chance(s, 45)) {
        static const enum amb_lazy kinds[] = {AMB_LAZY_ON, AMB_LAZY_ON, AMB_LAZY_PIN, AMB_LAZY_PIN,
                                              AMB_LAZY_HEADERS};
        sub->options.lazy = kinds[sim_pick(s, 5)];
    }
    sub->resumes = sub->is_leaving = false;
    sub->queue = sub->wish = 0;
    sub->reading_count = 0;
    pick_pattern(s, sub);
    pick_begin(s, sub);
    if (sim_chance(s, 45)) {
        pick_queue(s, sub);
    }
    sub->state = SIM_ASKED;
    sub->first = sub->last;
    sub->acks = 0;
    sub->asked_step = s->step;
    sub->ok_step = 0;
    sub->first_ns = s->now_ns;
    const struct model_queue *queue = &s->model.queues[sub->wish];
    SIM_EVENT(s, "subscribe client sub pattern slow block_ms msgs bytes start at queue ack wait_us",
              client->slot, handle, (uint8_t)sub->pattern[0], (uint64_t)sub->options.slow,
              (uint64_t)(sub->options.slow_block_ns / AMB_NS_PER_MS), sub->options.credit_msgs,
              sub->options.credit_bytes, (uint64_t)sub->begin.start, sub->begin.at, sub->wish,
              (uint64_t)queue->options.ack, (uint64_t)queue->options.ack_wait_ns / 1000);
    sim_client_ask(s, client, SIM_ASK_SUBSCRIBE, handle, 0);
}

static void do_unsubscribe(struct sim *s, struct sim_client *client, uint32_t handle)
{
    struct sim_sub *sub = &client->subs[handle];
    if (sub->state == SIM_OPEN) {
        sub->state = SIM_CLOSING;
        model_left(s, sub);
        sim_client_ask(s, client, SIM_ASK_UNSUBSCRIBE, handle, sub->acks);
    }
}

static void do_release(struct sim *s, struct sim_client *client, uint32_t handle)
{
    struct sim_sub *sub = &client->subs[handle];
    if (sub->state == SIM_CLOSED || sub->last == sub->released) {
        return;
    }
    uint32_t open = (uint32_t)(sub->last - sub->released);
    if (sim_chance(s, 25)) {
        uint32_t offset = sim_pick(s, open);
        sim_client_release_range(s, client, handle, sub->released + 1 + offset,
                                 1 + sim_pick(s, open - offset));
    } else {
        sim_client_release(s, client, handle, sub->released + 1 + sim_pick(s, open));
    }
}

static void do_fetch(struct sim *s, struct sim_client *client, uint32_t handle)
{
    struct sim_sub *sub = &client->subs[handle];
    bool may_ask = sub->options.lazy == AMB_LAZY_ON || sub->options.lazy == AMB_LAZY_PIN;
    if (sub->state != SIM_OPEN || !may_ask || sub->last == sub->first) {
        return;
    }
    for (uint32_t n = 1 + sim_pick(s, 6); n > 0; n--) {
        uint64_t back = sub->last - sub->first;
        uint64_t number = sub->last - sim_pick(s, back < 16 ? (uint32_t)back : 16);
        if (!sim_held(sub, number)->is_back || sim_chance(s, 20)) {
            sim_fetch_ask(s, client, handle, number);
        }
    }
}

static void do_say(struct sim *s, struct sim_client *client, uint32_t handle)
{
    struct sim_sub *sub = &client->subs[handle];
    if (sub->state != SIM_OPEN || sub->queue == 0 || sub->last == sub->first ||
        s->model.queues[sub->queue].options.ack == AMB_ACK_NONE) {
        return;
    }
    uint64_t back = sub->last - sub->first;
    uint64_t number = sub->last - sim_pick(s, back < 8 ? (uint32_t)back : 8);
    const struct sim_held *held = sim_held(sub, number);
    uint64_t open = sim_chance(s, 70) ? held->open : held->open & sim_random(s);
    uint32_t kind = sim_pick(s, 100);
    if (kind < 75) {
        sim_client_say(s, client, handle, number, open, AMB_ACK_KIND_ACK, 0);
    } else if (kind < 88) {
        sim_client_say(s, client, handle, number, open, AMB_ACK_KIND_NAK,
                       sim_chance(s, 50) ? 0 : (int64_t)(1 + sim_pick(s, 20)) * AMB_NS_PER_MS);
    } else if (kind < 96) {
        sim_client_say(s, client, handle, number, open, AMB_ACK_KIND_IN_PROGRESS, 0);
    } else {
        sim_client_say(s, client, handle, number, open, AMB_ACK_KIND_TERM, 0);
    }
}

/* Lives ---------------------------------------------------------------------------------------- */

/* Those that it had open, unless the program has done with them. */
static void reopen_pubs(struct sim *s, struct sim_client *client, const struct sim_publisher *had)
{
    for (uint32_t h = 0; h < SIM_HANDLES; h++) {
        struct sim_publisher *p = &client->pubs[h];
        if (had[h].was_open && sim_chance(s, 80)) {
            p->state = SIM_ASKED;
            p->topic = had[h].topic;
            p->name = had[h].name;
            p->wants_settled = had[h].wants_settled;
            p->priority = had[h].priority;
            sim_client_ask(s, client, SIM_ASK_PUB_OPEN, h, 0);
        }
    }
}

/* With a new session: publishers are opened again, subscriptions go on where they were, queues are
 * joined again. */
static void do_reconnect(struct sim *s, struct sim_client *client)
{
    if (!sim_desk_end_former(s, client)) {
        return;
    }
    client->shard = sim_pick(s, s->shard_count);
    if (!sim_desk_open(s, client)) {
        return;
    }
    struct sim_publisher had[SIM_HANDLES];
    memcpy(had, client->pubs, sizeof(had));
    sim_client_start(s, client);
    s->stats.reconnects++;
    reopen_pubs(s, client, had);
    for (uint32_t h = 0; h < SIM_HANDLES; h++) {
        struct sim_sub *sub = &client->subs[h];
        bool goes_on = sub->state == SIM_OPEN && (sub->wish == 0 || sim_chance(s, 80));
        sub->state = SIM_CLOSED;
        if (!goes_on) {
            continue;
        }
        sub->serial = ++s->serials;
        sub->is_leaving = false;
        sub->queue = 0;
        if (sub->wish == 0) {
            sub->resumes = true;
            for (unsigned i = 0; i < sub->reading_count; i++) {
                sub->readings[i].is_resumed = true;
            }
        }
        sub->state = SIM_ASKED;
        sub->first = sub->last;
        sub->acks = 0;
        sub->ok_step = 0;
        sim_client_ask(s, client, SIM_ASK_SUBSCRIBE, h, 0);
    }
}

/* Its last words are many, so that its worker has not heard them when it comes back. It says Bye,
 * or takes its session for lost, and the broker does not know. */
static void do_leave(struct sim *s, struct sim_client *client)
{
    for (uint32_t h = 0; h < SIM_HANDLES; h++) {
        sim_client_publish(s, client, h, 8);
    }
    amb_link_flush(client->link);
    if (sim_chance(s, 60)) {
        sim_client_ask(s, client, SIM_ASK_BYE, 0, 0);
    } else {
        sim_client_lost(s, client);
    }
}

static void do_trouble(struct sim *s, struct sim_client *client)
{
    uint32_t kind = sim_pick(s, 100);
    if (kind < 25) {
        sim_client_die(s, client);
    } else if (kind < 45) {
        SIM_EVENT(s, "break client", client->slot);
        amb_sim_break(client->link);
    } else if (kind < 65) {
        client->frozen_ns = s->now_ns + (int64_t)sim_pick(s, 300) * AMB_NS_PER_MS;
        SIM_EVENT(s, "freeze client", client->slot);
    } else if (kind < 90) {
        client->is_held = !client->is_held;
        SIM_EVENT(s, "hold client", client->slot, client->is_held);
        amb_sim_hold(client->link, client->is_held);
    } else {
        do_leave(s, client);
    }
}

static void do_client(struct sim *s, struct sim_client *client)
{
    uint32_t handle = sim_pick(s, SIM_HANDLES), kind = sim_pick(s, 1000);
    if (!client->is_alive || client->frozen_ns > s->now_ns) {
        return;
    }
    if (!client->is_up) {
        if (kind < 500) {
            do_reconnect(s, client);
        } else if (kind < 530) {
            sim_client_die(s, client);
        }
        return;
    }
    bool may_ask = client->answers.count < SIM_ASKS / 2;
    if (s->is_slow && may_ask && sim_chance(s, 2)) {
        do_leave(s, client);
        return;
    }
    if (s->has_lazy && sim_chance(s, 15)) {
        do_fetch(s, client, handle);
        return;
    }
    if (s->has_leases && may_ask && sim_chance(s, 3)) {
        do_lease(s, client);
        return;
    }
    if (kind < 330) {
        (void)sim_client_turn(s, client);
    } else if (kind < 560) {
        sim_client_publish(s, client, handle, 1 + sim_pick(s, 4));
    } else if (kind < 740) {
        do_release(s, client, handle);
    } else if (kind < 880) {
        do_say(s, client, handle);
    } else if (kind < 930 && may_ask) {
        do_open_pub(s, client, handle);
    } else if (kind < 980 && may_ask) {
        do_subscribe(s, client, handle);
    } else if (kind < 988 && may_ask) {
        do_unsubscribe(s, client, handle);
    } else if (kind < 995 && may_ask) {
        do_close_pub(s, client, handle);
    } else if (kind < 1000 && may_ask) {
        do_trouble(s, client);
    }
}

static void do_pass(struct sim *s)
{
    uint32_t kind = sim_pick(s, 100);
    int64_t ns = kind < 60   ? (int64_t)sim_pick(s, 200) * AMB_NS_PER_US
                 : kind < 95 ? (int64_t)sim_pick(s, 10) * AMB_NS_PER_MS
                             : (int64_t)sim_pick(s, 200) * AMB_NS_PER_MS;
    s->now_ns += ns;
    SIM_EVENT(s, "pass ns", (uint64_t)ns);
}

void sim_step(struct sim *s)
{
    uint32_t kind = sim_pick(s, 1000);
    if (kind < 350) {
        if (!s->is_slow || sim_chance(s, 20)) {
            sim_turn(s, sim_pick(s, s->shard_count));
        }
    } else if (kind < 400) {
        unsigned done = sim_desk_turn(s, 1 + sim_pick(s, 4));
        SIM_EVENT(s, "desk done", done);
    } else if (kind < 420) {
        do_pass(s);
    } else if (kind < 435) {
        sim_script_start(s);
    } else {
        unsigned at = sim_pick(s, SIM_CLIENTS), n = 0;
        while (n++ < SIM_CLIENTS && !s->clients[at].is_alive) {
            at = (at + 1) % SIM_CLIENTS;
        }
        do_client(s, &s->clients[at]);
    }
}

/* The end -------------------------------------------------------------------------------------- */

static bool settle_sub(struct sim *s, struct sim_client *client, uint32_t handle)
{
    struct sim_sub *sub = &client->subs[handle];
    bool did = false;
    bool is_acked = sub->queue != 0 && sub->state == SIM_OPEN &&
                    s->model.queues[sub->queue].options.ack != AMB_ACK_NONE;
    uint64_t n = sub->last > SIM_HELD / 2 ? sub->last - SIM_HELD / 2 : 1;
    for (n = n > sub->first ? n : sub->first + 1; is_acked && n <= sub->last; n++) {
        struct sim_held *held = sim_held(sub, n);
        if (held->open != 0) {
            sim_client_say(s, client, handle, n, held->open, AMB_ACK_KIND_ACK, 0);
            did = true;
        }
    }
    if (sub->last > sub->released) {
        sim_client_release(s, client, handle, sub->last);
        did = true;
    }
    return did;
}

bool sim_catch_up(struct sim *s, struct sim_client *client)
{
    bool did = false;
    if (client->is_held) {
        client->is_held = false;
        amb_sim_hold(client->link, false);
        did = true;
    }
    if (s->may_lack_memory && client->lease.state == SIM_OPEN) {
        sim_lease_close(s, client); /* A window may wait for that memory. */
        did = did || client->lease.state == SIM_CLOSED;
    }
    for (uint32_t h = 0; h < SIM_HANDLES; h++) {
        struct sim_publisher *p = &client->pubs[h];
        if (p->state == SIM_OPEN && p->plan_count != 0) {
            uint64_t batches = p->batches;
            sim_client_publish(s, client, h, 1);
            did = did || p->batches > batches;
        }
        if (client->subs[h].state != SIM_CLOSED) {
            did = settle_sub(s, client, h) || did;
        }
    }
    return did;
}
