/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A client: what libamb does on a link, without its threads. The script says what it does, and
 * when; messages that come are told to the model.
 */
#include "tests/sim/sim.h"
#include "wire/base/assert.h"
#include "wire/codec/props.h"
#include "wire/link/sim.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct client_body {
    struct amb_frame frame;
    _Alignas(16) uint8_t bytes[];
};

/* What comes ----------------------------------------------------------------------------------- */

static bool stamp_of_props(const struct amb_message_view *view, struct sim_stamp *out)
{
    struct amb_prop_view prop;
    if (!amb_props_find(view->props, view->props_len, "s", &prop) ||
        prop.value_len != sizeof(*out)) {
        return false;
    }
    memcpy(out, prop.value, sizeof(*out));
    return true;
}

/* Its properties tell its owner, if it has some. */
static void note_lazy_message(struct sim_client *client, struct sim_sub *sub, struct sim_held *held,
                              const struct amb_message_view *view, uint32_t index)
{
    struct sim *s = client->sim;
    struct sim_stamp stamp;
    uint64_t seq = held->seq + index;
    SIM_CHECK(s, index < SIM_BATCH_MSGS && view->len >= sizeof(stamp), "a message is too short");
    held->lens[index] = (uint32_t)view->len;
    if (stamp_of_props(view, &stamp)) {
        SIM_CHECK(s, stamp.check == sim_stamp_check(&stamp),
                  "properties of number %" PRIu64 " are wrong", seq);
        model_given(s, client, sub, held, seq, stamp.pub, stamp.number);
    }
    held->keeps += model_given_unseen(s, sub, held, seq, view->len);
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
        if (sub->queue != 0) {
            sim_near_given(s, sub, held, held->seq + (i - frame->first), view.key_hash);
        }
        if (frame->type == AMB_FRAME_LAZY) {
            note_lazy_message(client, sub, held, &view, i - frame->first);
            continue;
        }
        struct sim_stamp stamp;
        SIM_CHECK(s, view.len >= sizeof(stamp), "a message is too short");
        memcpy(&stamp, view.payload, sizeof(stamp));
        SIM_CHECK(s, stamp.check == sim_stamp_check(&stamp),
                  "bytes of number %" PRIu64 " are wrong", held->seq + i - frame->first);
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
        .bytes = sim_delivery_bytes(sub, frame),
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

static void note_lazy(struct sim_client *client, const struct amb_frame *frame, const uint8_t *meta)
{
    const struct sim_sub *sub = &client->subs[frame->handle % SIM_HANDLES];
    SIM_CHECK(client->sim, sub->options.lazy != AMB_LAZY_OFF,
              "client %u: a delivery without payloads, and it wants them", client->slot);
    SIM_CHECK(client->sim, amb_lazy_check(frame, meta) == AMB_OK, "a malformed body");
    struct amb_body_iter iter;
    amb_body_iter_init_lazy(&iter, frame, meta);
    note_delivery(client, frame, &iter);
}

static enum amb_status on_frame(void *arg, const struct amb_frame *frame, void **dst, void **cookie,
                                struct amb_link_mem **mem)
{
    struct sim_client *client = arg;
    (void)mem;
    if (frame->type == AMB_FRAME_FETCHED && frame->data_len == 0) {
        sim_fetch_answered(client, frame, NULL); /* No body, and so no end of it. */
        return AMB_OK;
    }
    switch (frame->type) {
    case AMB_FRAME_TOPIC:
    case AMB_FRAME_MAP_LEASED:
    case AMB_FRAME_LAZY:
    case AMB_FRAME_FETCHED:
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
    case AMB_FRAME_FETCHED_MAP:
        sim_fetch_mapped(client, frame);
        return AMB_OK;
    case AMB_FRAME_SETTLED:
        sim_publish_settled(client, frame);
        return AMB_OK;
    case AMB_FRAME_FREED:
        sim_lease_freed(client, frame);
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
    } else if (status == AMB_OK && body->frame.type == AMB_FRAME_LAZY) {
        note_lazy(client, &body->frame, body->bytes);
    } else if (status == AMB_OK && body->frame.type == AMB_FRAME_FETCHED) {
        sim_fetch_answered(client, &body->frame, body->bytes);
    } else if (status == AMB_OK) {
        note_body(client, &body->frame, body->bytes);
    }
    free(body);
    return AMB_OK;
}

static enum amb_status on_flow(void *arg, enum amb_flow_kind kind, uint32_t handle, uint64_t value)
{
    sim_publish_flow(arg, kind, handle, value);
    return AMB_OK;
}

static void on_sent(void *arg, struct amb_link_tx *tx, enum amb_status status)
{
    struct sim_client *client = arg;
    (void)status;
    client->txs--;
    free(AMB_CONTAINER_OF(tx, struct sim_tx, tx));
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

struct sim_tx *sim_tx_make(struct sim_client *client, uint64_t len)
{
    struct sim_tx *tx = malloc(sizeof(*tx) + len);
    amb_assert(tx != NULL);
    memset(&tx->tx, 0, sizeof(tx->tx));
    client->txs++;
    return tx;
}

void sim_tx_send(struct sim_client *client, struct sim_tx *tx, const struct amb_frame *frame)
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

void sim_send(struct sim_client *client, const struct amb_frame *frame)
{
    sim_tx_send(client, sim_tx_make(client, 0), frame);
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
    sim_send(client, &(struct amb_frame){.type = AMB_FRAME_RELEASE_RANGE,
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
    struct sim_tx *tx = sim_tx_make(client, 3);
    memcpy(tx->body, "bad", 3);
    sim_tx_send(client, tx, &frame);
    sub->acks++;
    for (uint32_t i = first; kind == AMB_ACK_KIND_TERM && i < first + count; i++) {
        model_may_die(s, held->topic, held->seq + i);
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
    client->lease.state = SIM_CLOSED;
    client->fetch_count = 0;
    client->commits = client->freed = 0;
    client->turned_ns = client->low_ns = s->now_ns;
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
        client->pubs[h].was_open = client->pubs[h].state == SIM_OPEN;
        sim_publish_forget(s, &client->pubs[h]);
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
        sim_publish_opened(s, client, answer);
        break;
    case SIM_ASK_PUB_CLOSE:
        sim_publish_forget(s, &client->pubs[answer->handle]);
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
    case SIM_ASK_LEASE:
        sim_lease_opened(s, client, answer);
        break;
    case SIM_ASK_OFFER:
        if (client->maps) {
            sim_send(client,
                     &(struct amb_frame){.type = AMB_FRAME_SEG_READY, .segment = answer->number});
        } else {
            sim_client_ask(s, client, SIM_ASK_REFUSE, 0, answer->number);
        }
        break;
    case SIM_ASK_ENDED:
    case SIM_ASK_LEASE_CLOSE:
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
