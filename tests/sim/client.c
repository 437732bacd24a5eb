/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A client: what libamb does on a link, without its threads. What it does, and when, the script
 * says; what comes is told to the model.
 */
#include "tests/sim/sim.h"
#include "wire/base/assert.h"
#include "wire/link/sim.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct client_tx {
    struct amb_link_tx tx;
    _Alignas(16) uint8_t body[];
};

struct client_body {
    struct amb_frame frame;
    _Alignas(16) uint8_t bytes[];
};

/* What comes ----------------------------------------------------------------------------------- */

static uint64_t stamp_check(const struct sim_stamp *stamp)
{
    return ((uint64_t)stamp->pub << 32 | stamp->number) * UINT64_C(0x9e3779b97f4a7c15);
}

/* The messages of a delivery, one by one. */
static void note_messages(struct sim_client *client, struct sim_sub *sub, struct sim_held *held,
                          const struct amb_frame *frame, struct amb_body_iter *iter)
{
    struct sim *s = client->sim;
    struct amb_message_view view;
    for (uint32_t i = 0; i < frame->first + held->count; i++) {
        SIM_CHECK(s, amb_body_iter_next(iter, &view), "a body has less messages than its head");
        if (i < frame->first) {
            continue;
        }
        struct sim_stamp stamp;
        SIM_CHECK(s, view.len >= sizeof(stamp), "a message is too short");
        memcpy(&stamp, view.payload, sizeof(stamp));
        SIM_CHECK(s, stamp.check == stamp_check(&stamp), "bytes of number %" PRIu64 " are wrong",
                  held->seq + i - frame->first);
        if (i == frame->first) {
            held->stamp = stamp;
            held->at = frame->type == AMB_FRAME_DELIVER ? NULL : view.payload;
        }
        model_given(s, client, sub, held, held->seq + (i - frame->first), stamp.pub, stamp.number);
    }
}

static void note_delivery(struct sim_client *client, const struct amb_frame *frame,
                          struct amb_body_iter *iter)
{
    struct sim *s = client->sim;
    SIM_CHECK(s, frame->handle < SIM_HANDLES, "a delivery to handle %" PRIu32, frame->handle);
    struct sim_sub *sub = &client->subs[frame->handle];
    uint32_t count = frame->count - frame->first - frame->rest;
    SIM_CHECK(s, sub->state != SIM_CLOSED, "client %u: a delivery to handle %" PRIu32 ", closed",
              client->slot, frame->handle);
    SIM_CHECK(s, frame->number == sub->last + 1 && count >= 1 && count <= frame->count,
              "client %u: delivery %" PRIu64 ", and %" PRIu64 " was the last", client->slot,
              frame->number, sub->last);
    SIM_CHECK(s, sub->last - sub->released < SIM_HELD, "more deliveries than its credit");
    sub->last++;
    uint32_t topic = model_topic(s, frame->topic, NULL, AMB_PRIORITY_NORMAL);
    SIM_EVENT(s, "delivery client sub topic seq count attempt lost why", client->slot,
              frame->handle, topic, frame->seq, count, frame->attempt, frame->lost,
              (uint32_t)frame->status);
    model_delivery(s, client, sub, frame, topic);
    struct sim_held *held = sim_held(sub, sub->last);
    *held = (struct sim_held){
        .number = sub->last,
        .seq = frame->seq,
        .above = frame->above,
        .bytes = frame->data_len + frame->meta_len,
        .open = count == 64 ? UINT64_MAX : (UINT64_C(1) << count) - 1,
        .topic = topic,
        .count = count,
        .attempt = frame->attempt,
        .low_ns = client->low_ns,
    };
    note_messages(client, sub, held, frame, iter);
}

static void note_body(struct sim_client *client, const struct amb_frame *frame, const uint8_t *body)
{
    struct amb_frame check = *frame;
    check.type = AMB_FRAME_BATCH;
    SIM_CHECK(client->sim, amb_body_check(&check, body) == AMB_OK, "a malformed body");
    struct amb_body_iter iter;
    amb_body_iter_init(&iter, body, frame->data_len, frame->count);
    note_delivery(client, frame, &iter);
}

static const uint8_t *segment_of(const struct sim_client *client, const struct amb_frame *frame,
                                 uint64_t *size)
{
    const uint8_t *base = sim_segment_base(frame->segment, size);
    SIM_CHECK(client->sim, base != NULL, "a delivery in segment %" PRIu64 ", which is gone",
              frame->segment);
    return base;
}

static void note_map(struct sim_client *client, const struct amb_frame *frame)
{
    uint64_t size;
    const uint8_t *base = segment_of(client, frame, &size);
    SIM_CHECK(client->sim, frame->offset + frame->data_len + frame->meta_len <= size,
              "a delivery outside its segment");
    note_body(client, frame, base + frame->offset);
}

/* A dead letter that stays where the message was. */
static void note_leased(struct sim_client *client, const struct amb_frame *frame,
                        const uint8_t *meta)
{
    uint64_t size;
    const uint8_t *base = segment_of(client, frame, &size);
    SIM_CHECK(client->sim, amb_leased_check(frame, meta, size) == AMB_OK, "a malformed body");
    struct amb_body_iter iter;
    amb_body_iter_init_leased(&iter, base, meta, frame->count);
    note_delivery(client, frame, &iter);
}

static void note_settled(struct sim_client *client, const struct amb_frame *frame)
{
    struct sim *s = client->sim;
    struct sim_publisher *p = &client->pubs[frame->handle % SIM_HANDLES];
    if (p->state == SIM_CLOSED || p->state == SIM_ASKED || frame->seq < p->first_batch) {
        return; /* Of a former one, which did not wait for it. */
    }
    SIM_EVENT(s, "settled client pub batch seq status", client->slot, frame->handle, frame->seq,
              frame->number, (uint32_t)-frame->status);
    SIM_CHECK(s, frame->seq <= p->batches, "batch %" PRIu64 " is settled and was not sent",
              frame->seq);
    SIM_CHECK(s, frame->seq > p->settled && (!p->wants_settled || frame->seq == p->settled + 1),
              "client %u: batch %" PRIu64 " is settled after batch %" PRIu64, client->slot,
              frame->seq, p->settled);
    struct sim_batch *batch = &p->log[frame->seq & (SIM_BATCHES - 1)];
    SIM_CHECK(s, batch->settled++ == 0, "batch %" PRIu64 " is settled twice", frame->seq);
    p->settled = frame->seq;
    model_settle(s, p->pub, batch->first, batch->count, (enum amb_status)frame->status,
                 frame->number - frame->above, frame->above);
}

static enum amb_status on_frame(void *arg, const struct amb_frame *frame, void **dst, void **cookie,
                                struct amb_link_mem **mem)
{
    struct sim_client *client = arg;
    (void)mem;
    switch (frame->type) {
    case AMB_FRAME_TOPIC:
    case AMB_FRAME_MAP_LEASED:
    case AMB_FRAME_DELIVER: {
        struct client_body *body = malloc(sizeof(*body) + amb_frame_body_len(frame));
        amb_assert(body != NULL);
        body->frame = *frame;
        *dst = body->bytes;
        *cookie = body;
        return AMB_OK;
    }
    case AMB_FRAME_MAP:
        note_map(client, frame);
        return AMB_OK;
    case AMB_FRAME_SETTLED:
        note_settled(client, frame);
        return AMB_OK;
    case AMB_FRAME_SEG_DROP:
        return AMB_OK;
    default:
        sim_fail(client->sim, "a frame of type %u for a client", frame->type);
    }
}

static enum amb_status on_body(void *arg, void *cookie, enum amb_status status)
{
    struct sim_client *client = arg;
    struct client_body *body = cookie;
    if (status == AMB_OK && body->frame.type == AMB_FRAME_TOPIC) {
        char name[32] = "";
        SIM_CHECK(client->sim, body->frame.data_len < sizeof(name), "a long name");
        memcpy(name, body->bytes, body->frame.data_len);
        (void)model_topic(client->sim, body->frame.topic, name,
                          (enum amb_priority)body->frame.count);
    } else if (status == AMB_OK && body->frame.type == AMB_FRAME_MAP_LEASED) {
        note_leased(client, &body->frame, body->bytes);
    } else if (status == AMB_OK) {
        note_body(client, &body->frame, body->bytes);
    }
    free(body);
    return AMB_OK;
}

static enum amb_status on_flow(void *arg, enum amb_flow_kind kind, uint32_t handle, uint64_t value)
{
    struct sim_client *client = arg;
    struct sim *s = client->sim;
    struct sim_publisher *p = &client->pubs[handle % SIM_HANDLES];
    if (p->state == SIM_CLOSED || (p->state == SIM_ASKED && kind != AMB_FLOW_WINDOW)) {
        return AMB_OK; /* Of a former one. A window may overtake the answer. */
    }
    if (kind == AMB_FLOW_ACCEPTED && value >= p->first_batch - 1) {
        SIM_CHECK(s, value >= p->accepted && value <= p->batches,
                  "client %u: %" PRIu64 " batches are accepted, of %" PRIu64, client->slot, value,
                  p->batches);
        for (uint64_t i = p->accepted + 1; !p->wants_settled && i <= value; i++) {
            /* Refused ones were told before; of the others nobody says which numbers they have. */
            const struct sim_batch *batch = &p->log[i & (SIM_BATCHES - 1)];
            model_forget(s, p->pub, batch->first, batch->count);
        }
        p->accepted = value;
    } else if (kind == AMB_FLOW_WINDOW) {
        /* The answer to its opening may overtake what the link has of the handle's former one. */
        SIM_CHECK(s, value >= p->window || !p->has_heard,
                  "client %u: the window of publisher %" PRIu32 " moves back, from %" PRIu64
                  " to %" PRIu64,
                  client->slot, handle, p->window, value);
        p->has_heard = p->has_heard || (p->state == SIM_OPEN && value > p->window);
        p->window = value > p->window ? value : p->window;
    }
    return AMB_OK;
}

static void on_sent(void *arg, struct amb_link_tx *tx, enum amb_status status)
{
    struct sim_client *client = arg;
    (void)status;
    client->txs--;
    free(AMB_CONTAINER_OF(tx, struct client_tx, tx));
}

static void on_down(void *arg, enum amb_status why, const char *text)
{
    struct sim_client *client = arg;
    SIM_CHECK(client->sim, why == AMB_ELOST, "a client's link goes down: %s", text);
    SIM_EVENT(client->sim, "down client", client->slot);
}

static void on_closed(void *arg)
{
    sim_fail(((struct sim_client *)arg)->sim, "a sim link closes at once");
}

const struct amb_link_events sim_client_events = {
    .on_frame = on_frame,
    .on_body = on_body,
    .on_flow = on_flow,
    .on_sent = on_sent,
    .on_down = on_down,
    .on_closed = on_closed,
};

/* What goes ------------------------------------------------------------------------------------ */

static struct client_tx *tx_make(struct sim_client *client, uint64_t len)
{
    struct client_tx *tx = malloc(sizeof(*tx) + len);
    amb_assert(tx != NULL);
    memset(&tx->tx, 0, sizeof(tx->tx));
    client->txs++;
    return tx;
}

static void tx_send(struct sim_client *client, struct client_tx *tx, const struct amb_frame *frame)
{
    tx->tx.frame = frame;
    tx->tx.data = tx->body;
    tx->tx.meta = tx->body + amb_frame_body_data(frame);
    client->frames++;
    if (amb_link_send(client->link, &tx->tx) != AMB_EAGAIN) {
        client->txs--;
        free(tx);
    }
}

static void send_frame(struct sim_client *client, const struct amb_frame *frame)
{
    tx_send(client, tx_make(client, 0), frame);
}

/* Of as many messages as are planned; those that were sent in a former session come again. */
static void send_batch(struct sim *s, struct sim_client *client, uint32_t handle)
{
    struct sim_publisher *p = &client->pubs[handle];
    uint64_t padded = amb_payload_padded(p->plan_len);
    struct amb_frame frame = {
        .type = AMB_FRAME_BATCH,
        .flags = p->plan_ttl_ms != 0 ? AMB_FRAME_FLAG_TTL : 0,
        .handle = handle,
        .seq = ++p->batches,
        .count = p->plan_count,
        .data_len = p->plan_count * padded,
        .meta_len = p->plan_count * (uint32_t)sizeof(struct amb_record),
    };
    struct client_tx *tx = tx_make(client, frame.data_len + frame.meta_len);
    struct sim_batch *batch = &p->log[p->batches & (SIM_BATCHES - 1)];
    SIM_CHECK(s, p->batches - p->settled < SIM_BATCHES, "too many batches under way");
    *batch = (struct sim_batch){.first = p->next, .count = p->plan_count};
    for (uint32_t i = 0; i < p->plan_count; i++) {
        struct sim_stamp stamp = {.pub = p->pub, .number = p->next};
        model_send(s, p->pub, p->next++, p->plan_ttl_ms);
        stamp.check = stamp_check(&stamp);
        memcpy(tx->body + i * padded, &stamp, sizeof(stamp));
        struct amb_record record = {.len = p->plan_len,
                                    .key_hash = stamp.number % 3 == 0 ? stamp.number % 7 : 0,
                                    .ttl_ms = p->plan_ttl_ms};
        memcpy(tx->body + frame.data_len + i * sizeof(record), &record, sizeof(record));
    }
    SIM_EVENT(s, "publish client pub batch first count len", client->slot, handle, frame.seq,
              batch->first, batch->count, p->plan_len);
    p->bytes += frame.data_len + frame.meta_len;
    s->stats.sent += p->plan_count;
    tx_send(client, tx, &frame);
}

static void plan(struct sim *s, struct sim_publisher *p)
{
    uint32_t kind = sim_pick(s, 100), fresh = s->model.pubs[p->pub].count + 1 - p->next;
    p->plan_count = kind < 50 ? 1 : 1 + sim_pick(s, 12);
    if (fresh > 0) {
        p->plan_count = fresh < p->plan_count ? fresh : p->plan_count; /* Some come again. */
    }
    p->plan_len = (uint32_t)sizeof(struct sim_stamp) + sim_pick(s, 200);
    if (kind == 99) {
        p->plan_len += sim_pick(s, s->may_lack_memory ? 400000 : 60000);
        p->plan_count = 1;
    } else if (kind > 92) {
        p->plan_len += sim_pick(s, 4000);
    }
    p->plan_ttl_ms = sim_chance(s, 4) ? 1 + sim_pick(s, 40) : 0;
}

void sim_client_publish(struct sim *s, struct sim_client *client, uint32_t handle, unsigned most)
{
    struct sim_publisher *p = &client->pubs[handle];
    if (p->state == SIM_OPEN && s->model.pubs[p->pub].holder != client->id) {
        p->plan_count = 0;
        return; /* Its session is over, and another one has its name. */
    }
    for (; most > 0 && p->state == SIM_OPEN; most--) {
        if (p->plan_count == 0) {
            plan(s, p);
        }
        uint64_t upto = p->bytes + p->plan_count * (amb_payload_padded(p->plan_len) +
                                                    sizeof(struct amb_record));
        if (upto > p->window) {
            if (upto > p->want) {
                p->want = upto;
                amb_link_flow(client->link, AMB_FLOW_WANT, handle, upto);
            }
            return;
        }
        send_batch(s, client, handle);
        p->plan_count = 0;
    }
}

void sim_client_check_held(struct sim *s, const struct sim_client *client, uint32_t handle,
                           const struct sim_held *held)
{
    if (held->at != NULL && !held->is_back && !client->said_bye) {
        SIM_CHECK(s, memcmp(held->at, &held->stamp, sizeof(held->stamp)) == 0,
                  "client %u: delivery %" PRIu64 " of sub %" PRIu32 " has changed in its place",
                  client->slot, held->number, handle);
    }
}

static void give_back(struct sim *s, struct sim_client *client, uint32_t handle, uint64_t number)
{
    struct sim_held *held = sim_held(&client->subs[handle], number);
    sim_client_check_held(s, client, handle, held);
    held->is_back = true;
}

void sim_client_release(struct sim *s, struct sim_client *client, uint32_t handle, uint64_t upto)
{
    struct sim_sub *sub = &client->subs[handle];
    while (sub->released < upto) {
        give_back(s, client, handle, ++sub->released);
    }
    SIM_EVENT(s, "release client sub upto", client->slot, handle, upto);
    amb_link_flow(client->link, AMB_FLOW_RELEASE, handle, upto);
}

void sim_client_release_range(struct sim *s, struct sim_client *client, uint32_t handle,
                              uint64_t number, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        give_back(s, client, handle, number + i);
    }
    SIM_EVENT(s, "release_range client sub number count", client->slot, handle, number, count);
    send_frame(client, &(struct amb_frame){.type = AMB_FRAME_RELEASE_RANGE,
                                           .handle = handle,
                                           .number = number,
                                           .count = count});
}

static void note_said(struct sim *s, struct sim_client *client, const struct sim_sub *sub,
                      const struct sim_held *held, uint64_t open, enum amb_ack_kind kind,
                      int64_t delay_ns)
{
    SIM_CHECK(s, client->said_count < SIM_SAID, "too many acknowledgements under way");
    client->said[(client->said_first + client->said_count++) % SIM_SAID] =
        (struct sim_said){.ordinal = client->frames,
                          .seq = held->seq,
                          .open = open,
                          .queue = sub->queue,
                          .serial = sub->serial,
                          .topic = held->topic,
                          .attempt = held->attempt,
                          .delay_ns = delay_ns,
                          .kind = kind};
}

/* A cumulative one says it of what came before, too. */
static void note_said_before(struct sim *s, struct sim_client *client, struct sim_sub *sub,
                             uint64_t number, enum amb_ack_kind kind)
{
    uint64_t n = sub->last > SIM_HELD / 2 ? sub->last - SIM_HELD / 2 : 1;
    for (n = n > sub->first ? n : sub->first + 1; n <= number; n++) {
        struct sim_held *held = sim_held(sub, n);
        if (held->open != 0) {
            note_said(s, client, sub, held, held->open, kind, 0);
            held->open = kind == AMB_ACK_KIND_ACK ? 0 : held->open;
        }
    }
}

void sim_client_say(struct sim *s, struct sim_client *client, uint32_t handle, uint64_t number,
                    uint64_t open, enum amb_ack_kind kind, int64_t delay_ns)
{
    struct sim_sub *sub = &client->subs[handle];
    struct sim_held *held = sim_held(sub, number);
    bool is_cumulative = s->model.queues[sub->queue].options.ack == AMB_ACK_CUMULATIVE;
    open &= held->open;
    if (open == 0) {
        return;
    }
    uint32_t first = (uint32_t)__builtin_ctzll(open);
    uint32_t count = (uint32_t)(64 - __builtin_clzll(open)) - first;
    uint64_t run = count == 64 ? UINT64_MAX : ((UINT64_C(1) << count) - 1) << first;
    SIM_EVENT(s, "say client sub number open kind delay", client->slot, handle, number,
              run & held->open, (uint64_t)kind, (uint64_t)delay_ns);
    struct amb_frame frame = {.type = kind == AMB_ACK_KIND_TERM ? AMB_FRAME_TERM : AMB_FRAME_ACK,
                              .handle = handle,
                              .number = number,
                              .first = first,
                              .count = count,
                              .status = (int32_t)kind,
                              .data_len = kind == AMB_ACK_KIND_TERM ? 3 : 0,
                              .time_ns = delay_ns};
    struct client_tx *tx = tx_make(client, 3);
    memcpy(tx->body, "bad", 3);
    tx_send(client, tx, &frame);
    sub->acks += kind == AMB_ACK_KIND_ACK || kind == AMB_ACK_KIND_TERM;
    for (uint32_t i = first; kind == AMB_ACK_KIND_TERM && i < first + count; i++) {
        const struct model_at *at = &s->model.topics[held->topic].at[held->seq + i];
        model_message(s, at->pub, at->number)->may_die = true;
    }
    if (is_cumulative && kind == AMB_ACK_KIND_ACK) {
        run |= run - 1; /* All of it up to there. */
        note_said_before(s, client, sub, number - 1, kind);
    }
    if (kind == AMB_ACK_KIND_IN_PROGRESS) {
        run = held->open; /* Of the delivery as a whole. */
    }
    note_said(s, client, sub, held, run & held->open, kind, delay_ns);
    if (kind != AMB_ACK_KIND_IN_PROGRESS) {
        held->open &= ~run;
    }
}

void sim_client_ask(struct sim *s, struct sim_client *client, enum sim_ask_kind kind,
                    uint32_t handle, uint64_t number)
{
    const struct sim_ask ask = {.kind = kind, .handle = handle, .number = number};
    SIM_EVENT(s, "ask client kind handle number", client->slot, (uint64_t)kind, handle, number);
    SIM_CHECK(s, sim_desk_ask(s, client, &ask), "too many requests wait");
    client->said_bye = client->said_bye || kind == SIM_ASK_BYE;
}

/* Life ----------------------------------------------------------------------------------------- */

void sim_client_start(struct sim *s, struct sim_client *client)
{
    client->is_up = true;
    client->said_bye = false;
    client->is_held = false;
    client->frames = 0;
    for (uint32_t h = 0; h < SIM_HANDLES; h++) {
        struct sim_publisher *p = &client->pubs[h];
        struct sim_sub *sub = &client->subs[h];
        *p = (struct sim_publisher){.log = p->log};
        sub->last = sub->released = sub->first = 0;
    }
    client->said_first = client->said_count = 0;
    client->answers.count = 0;
    client->offer_count = 0;
    client->turned_ns = client->low_ns = s->now_ns;
}

static void forget_publisher(struct sim *s, struct sim_publisher *p)
{
    if (p->state == SIM_CLOSED || p->state == SIM_ASKED) {
        p->state = SIM_CLOSED;
        return;
    }
    uint64_t first = p->wants_settled ? p->settled + 1 : p->first_batch;
    for (uint64_t i = first; i <= p->batches; i++) {
        const struct sim_batch *batch = &p->log[i & (SIM_BATCHES - 1)];
        model_forget(s, p->pub, batch->first, batch->count);
    }
    p->state = SIM_CLOSED;
}

void sim_client_lost(struct sim *s, struct sim_client *client)
{
    SIM_EVENT(s, "lost client", client->slot);
    client->is_up = false;
    if (client->link != NULL) {
        amb_assert(amb_link_close(client->link));
        client->link = NULL;
    }
    client->answers.count = 0;
    for (uint32_t h = 0; h < SIM_HANDLES; h++) {
        forget_publisher(s, &client->pubs[h]);
        struct sim_sub *sub = &client->subs[h];
        bool reads = sub->state != SIM_CLOSED && !client->said_bye;
        for (uint64_t n = sub->released + 1; reads && n <= sub->last; n++) {
            sim_client_check_held(s, client, h, sim_held(sub, n));
        }
        if (sub->queue != 0 && sub->state != SIM_CLOSED) {
            model_left(s, sub);
        }
    }
}

void sim_client_die(struct sim *s, struct sim_client *client)
{
    SIM_EVENT(s, "die client", client->slot);
    if (client->is_up) {
        sim_client_lost(s, client);
    }
    for (uint32_t h = 0; h < SIM_HANDLES; h++) {
        client->subs[h].state = SIM_CLOSED;
    }
    client->is_alive = false;
    s->stats.deaths++;
    sim_desk_died(s, client->slot);
}

static void pub_opened(struct sim *s, struct sim_client *client, const struct sim_ask *answer)
{
    struct sim_publisher *p = &client->pubs[answer->handle];
    if (answer->status != AMB_OK) {
        p->state = SIM_CLOSED; /* Its name is another's, or its worker has not let go of it. */
        return;
    }
    p->pub = model_publisher(s, p->topic + SIM_NAMES * (uint32_t)p->priority, p->name);
    struct model_pub *pub = &s->model.pubs[p->pub];
    uint32_t topic = model_topic(s, answer->topic, s->names[p->topic], p->priority);
    pub->topic = topic;
    pub->holder = client->id;
    p->next = pub->count + 1;
    if (p->name != 0) {
        SIM_CHECK(s, answer->last_seq <= pub->count,
                  "publisher %" PRIu32 " is said to have sent %" PRIu64 " messages, of %" PRIu32,
                  p->name, answer->last_seq, pub->count);
        p->next = (uint32_t)answer->last_seq + 1;
    }
    SIM_EVENT(s, "opened client pub publisher name topic next", client->slot, answer->handle,
              p->pub, p->name, topic, p->next);
    p->state = SIM_OPEN;
    p->window = answer->number > p->window ? answer->number : p->window;
    p->want = p->plan_count = 0;
    p->has_heard = false;
    p->first_batch = p->batches + 1;
    p->accepted = p->settled = p->batches;
}

static void sub_opened(struct sim *s, struct sim_client *client, const struct sim_ask *answer)
{
    struct sim_sub *sub = &client->subs[answer->handle];
    if (answer->status == AMB_OK) {
        sub->state = SIM_OPEN;
        sub->ok_step = s->step;
        return;
    }
    SIM_CHECK(s,
              answer->status == AMB_EBUSY || answer->status == AMB_EINVAL ||
                  answer->status == AMB_ENOTFOUND,
              "a subscription is refused: %s", amb_status_text(answer->status));
    if (sub->queue != 0) {
        model_left(s, sub);
    }
    sub->state = SIM_CLOSED;
}

static void hear(struct sim *s, struct sim_client *client, const struct sim_ask *answer)
{
    SIM_EVENT(s, "answer client kind handle status number", client->slot, (uint64_t)answer->kind,
              answer->handle, (uint32_t) - (int32_t)answer->status, answer->number);
    switch (answer->kind) {
    case SIM_ASK_PUB_OPEN:
        pub_opened(s, client, answer);
        break;
    case SIM_ASK_PUB_CLOSE:
        forget_publisher(s, &client->pubs[answer->handle]);
        break;
    case SIM_ASK_SUBSCRIBE:
        sub_opened(s, client, answer);
        break;
    case SIM_ASK_UNSUBSCRIBE:
        if (client->subs[answer->handle].queue != 0) {
            model_left(s, &client->subs[answer->handle]);
        }
        client->subs[answer->handle].state = SIM_CLOSED;
        break;
    case SIM_ASK_OFFER:
        if (client->maps) {
            send_frame(client,
                       &(struct amb_frame){.type = AMB_FRAME_SEG_READY, .segment = answer->number});
        } else {
            sim_client_ask(s, client, SIM_ASK_REFUSE, 0, answer->number);
        }
        break;
    case SIM_ASK_ENDED:
    case SIM_ASK_REFUSE:
    case SIM_ASK_BYE:
        break;
    }
}

unsigned sim_client_turn(struct sim *s, struct sim_client *client)
{
    unsigned done = 0;
    client->turned_ns = s->now_ns;
    while (client->answers.count > 0) {
        struct sim_ask answer = client->answers.items[client->answers.first];
        client->answers.first = (client->answers.first + 1) % SIM_ASKS;
        client->answers.count--;
        done++;
        if (answer.kind == SIM_ASK_ENDED) {
            sim_client_lost(s, client);
            return done;
        }
        hear(s, client, &answer);
    }
    done += amb_link_poll(client->link, 64);
    if (client->link->is_down) {
        sim_client_lost(s, client);
        return done + 1;
    }
    if (amb_sim_is_drained(client->link)) {
        client->low_ns = s->now_ns;
    }
    size_t queued = client->link->queued;
    amb_link_flush(client->link);
    return done + (unsigned)(queued - client->link->queued);
}
