/* SPDX-License-Identifier: Apache-2.0 */
/* A client's publishers: their messages, and the answers to these. */
#include "tests/sim/sim.h"
#include "wire/base/assert.h"
#include "wire/codec/props.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* What goes ------------------------------------------------------------------------------------ */

void sim_publish_begin(struct sim *s, struct sim_client *client, uint32_t handle,
                       struct amb_frame *frame)
{
    struct sim_publisher *p = &client->pubs[handle];
    frame->seq = ++p->batches;
    SIM_CHECK(s, p->batches - p->settled < SIM_BATCHES, "too many batches under way");
    p->log[p->batches & (SIM_BATCHES - 1)] =
        (struct sim_batch){.first = p->next, .count = p->plan_count};
    SIM_EVENT(s, "publish client pub batch first count len", client->slot, handle, frame->seq,
              p->next, p->plan_count, p->plan_len);
    s->stats.sent += p->plan_count;
}

struct sim_stamp sim_publish_next(struct sim *s, struct sim_publisher *publisher,
                                  struct amb_record *record)
{
    struct sim_publisher *p = publisher;
    struct sim_stamp stamp = {.pub = p->pub, .number = p->next};
    model_send(s, p->pub, p->next++, p);
    stamp.check = sim_stamp_check(&stamp);
    *record = (struct amb_record){.len = p->plan_len,
                                  .key_hash = stamp.number % 3 == 0 ? stamp.number % 7 : 0,
                                  .ttl_ms = p->plan_ttl_ms};
    return stamp;
}

uint32_t sim_publish_props(const struct sim_publisher *publisher, const struct sim_stamp *stamp,
                           uint8_t *to)
{
    struct amb_props_writer writer;
    if (!publisher->plan_props) {
        return 0;
    }
    memset(to, 0, SIM_PROPS);
    amb_props_writer_init(&writer, to, SIM_PROPS);
    amb_assert(amb_props_add(&writer, "s", stamp, sizeof(*stamp)) == AMB_OK);
    return (uint32_t)writer.len;
}

void sim_publish_payload(const struct sim *s, uint8_t *to, const struct sim_publisher *publisher,
                         const struct sim_stamp *stamp)
{
    if (s->has_lazy) {
        sim_payload_fill(to, publisher->plan_len, stamp);
    } else {
        memcpy(to, stamp, sizeof(*stamp)); /* Nobody looks at the rest. */
    }
}

/* Of as many messages as are planned; those that were sent in a former session come again. */
static void send_batch(struct sim *s, struct sim_client *client, uint32_t handle)
{
    struct sim_publisher *p = &client->pubs[handle];
    uint64_t padded = amb_payload_padded(p->plan_len);
    uint32_t record_size = (uint32_t)sizeof(struct amb_record) + (p->plan_props ? SIM_PROPS : 0);
    struct amb_frame frame = {
        .type = AMB_FRAME_BATCH,
        .flags = p->plan_ttl_ms != 0 ? AMB_FRAME_FLAG_TTL : 0,
        .handle = handle,
        .count = p->plan_count,
        .data_len = p->plan_count * padded,
        .meta_len = p->plan_count * record_size,
    };
    struct sim_tx *tx = sim_tx_make(client, frame.data_len + frame.meta_len);
    sim_publish_begin(s, client, handle, &frame);
    uint8_t *records = tx->body + frame.data_len;
    uint8_t *props = records + p->plan_count * sizeof(struct amb_record);
    for (uint32_t i = 0; i < p->plan_count; i++) {
        struct amb_record record;
        struct sim_stamp stamp = sim_publish_next(s, p, &record);
        record.props_len = (uint16_t)sim_publish_props(p, &stamp, props + i * SIM_PROPS);
        sim_publish_payload(s, tx->body + i * padded, p, &stamp);
        memcpy(records + i * sizeof(record), &record, sizeof(record));
    }
    p->bytes += frame.data_len + frame.meta_len;
    sim_tx_send(client, tx, &frame);
}

static void plan(struct sim *s, struct sim_publisher *p)
{
    uint32_t kind = sim_pick(s, 100), fresh = s->model.pubs[p->pub].count + 1 - p->next;
    p->plan_count = kind < 50 ? 1 : 1 + sim_pick(s, 12);
    if (fresh > 0) {
        p->plan_count = fresh < p->plan_count ? fresh : p->plan_count; /* Some come again. */
    }
    p->plan_len = (uint32_t)sizeof(struct sim_stamp) + sim_pick(s, 200);
    if (kind == 99 || (kind > 95 && s->may_lack_memory)) {
        p->plan_len += sim_pick(s, s->may_lack_memory ? 400000 : 60000);
        p->plan_count = 1;
    } else if (kind > 92) {
        p->plan_len += sim_pick(s, 4000);
    }
    p->plan_ttl_ms = sim_chance(s, 4) ? 1 + sim_pick(s, 40) : 0;
    p->plan_props = s->has_lazy && sim_chance(s, 50);
    p->plan_leased = s->has_leases && sim_chance(s, 75);
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
        uint64_t padded = amb_payload_padded(p->plan_len);
        if (p->plan_leased && sim_lease_has_room(client, p->plan_count, padded)) {
            sim_lease_commit(s, client, handle);
            p->plan_count = 0;
            continue;
        }
        uint64_t upto = p->bytes + p->plan_count * (padded + sizeof(struct amb_record) +
                                                    (p->plan_props ? SIM_PROPS : 0));
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

/* What comes ----------------------------------------------------------------------------------- */

void sim_publish_settled(struct sim_client *client, const struct amb_frame *frame)
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

void sim_publish_flow(struct sim_client *client, enum amb_flow_kind kind, uint32_t handle,
                      uint64_t value)
{
    struct sim *s = client->sim;
    struct sim_publisher *p = &client->pubs[handle % SIM_HANDLES];
    if (kind == AMB_FLOW_FREED) {
        sim_lease_flow(client, value);
        return;
    }
    if (p->state == SIM_CLOSED || (p->state == SIM_ASKED && kind != AMB_FLOW_WINDOW)) {
        return; /* Of a former one. A window may overtake the answer. */
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
}

void sim_publish_opened(struct sim *s, struct sim_client *client, const struct sim_ask *answer)
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
    pub->life = client->life;
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

void sim_publish_forget(struct sim *s, struct sim_publisher *p)
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
