/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lazy subscriptions: deliveries without payloads, and a client's requests for them.
 *
 *   LAZY ──► held ──► FETCH ──► FETCHED: these bytes, or stale, if it may be
 *                          └──► FETCHED_MAP: all of it in place, which stays until the release
 */
#include "broker/memory/segment.h"
#include "tests/sim/sim.h"
#include "wire/base/assert.h"

#include <inttypes.h>
#include <string.h>

#define WORD ((uint64_t)sizeof(uint64_t))

/* Payloads ------------------------------------------------------------------------------------- */

static uint64_t word_at(const struct sim_stamp *stamp, uint64_t index)
{
    return (stamp->check + index) * UINT64_C(0xd6e8feb86659fd93);
}

void sim_payload_fill(uint8_t *to, uint64_t len, const struct sim_stamp *stamp)
{
    memcpy(to, stamp, sizeof(*stamp));
    for (uint64_t at = sizeof(*stamp); at < len; at += WORD) {
        uint64_t word = word_at(stamp, at / WORD);
        memcpy(to + at, &word, len - at < WORD ? len - at : WORD);
    }
}

bool sim_payload_is(const uint8_t *bytes, uint64_t offset, uint64_t len,
                    const struct sim_stamp *stamp)
{
    for (uint64_t i = 0; i < len; i++) {
        uint64_t at = offset + i, word = word_at(stamp, at / WORD);
        const uint8_t *right =
            at < sizeof(*stamp) ? (const uint8_t *)stamp + at : (const uint8_t *)&word + at % WORD;
        if (bytes[i] != *right) {
            return false;
        }
    }
    return true;
}

/* What is asked for ---------------------------------------------------------------------------- */

void sim_fetch_ask(struct sim *s, struct sim_client *client, uint32_t handle, uint64_t number)
{
    const struct sim_sub *sub = &client->subs[handle];
    const struct sim_held *held = sim_held(sub, number);
    if (client->fetch_count == SIM_FETCHES) {
        return;
    }
    struct sim_fetch fetch = {.seq = ++client->fetch_seq,
                              .handle = handle,
                              .serial = sub->serial,
                              .number = number,
                              .index = sim_pick(s, held->count)};
    uint32_t len = held->lens[fetch.index], kind = sim_pick(s, 100);
    if (kind < 40) {
        fetch.offset = sim_pick(s, len);
        fetch.len = 1 + sim_pick(s, len - (uint32_t)fetch.offset);
    } else if (kind < 70) {
        fetch.len = len;
    }
    SIM_EVENT(s, "fetch client sub number index seq offset len", client->slot, handle, number,
              fetch.index, fetch.seq, fetch.offset, fetch.len);
    client->fetches[client->fetch_count++] = fetch;
    sim_send(client, &(struct amb_frame){.type = AMB_FRAME_FETCH,
                                         .handle = handle,
                                         .number = number,
                                         .first = fetch.index,
                                         .seq = fetch.seq,
                                         .offset = fetch.offset,
                                         .data_len = fetch.len});
}

/* Each is answered once. */
static struct sim_fetch fetch_take(struct sim_client *client, const struct amb_frame *frame)
{
    for (uint32_t i = 0; i < client->fetch_count; i++) {
        struct sim_fetch fetch = client->fetches[i];
        if (fetch.seq == frame->seq) {
            client->fetches[i] = client->fetches[--client->fetch_count];
            SIM_CHECK(client->sim, fetch.handle == frame->handle,
                      "client %u: fetch %" PRIu64 " is another subscription's", client->slot,
                      fetch.seq);
            return fetch;
        }
    }
    sim_fail(client->sim, "client %u: an answer to fetch %" PRIu64 ", which waits for none",
             client->slot, frame->seq);
}

/* The delivery it was about; NULL: it is another subscription's handle by now. */
static struct sim_held *held_of(struct sim_client *client, const struct sim_fetch *fetch)
{
    struct sim_sub *sub = &client->subs[fetch->handle];
    struct sim_held *held = sim_held(sub, fetch->number);
    return sub->serial == fetch->serial && sub->state == SIM_OPEN && held->number == fetch->number
               ? held
               : NULL;
}

/* The message's owner, if anybody knows. */
static bool stamp_of(struct sim *s, const struct sim_held *held, const struct sim_fetch *fetch,
                     const uint8_t *bytes, uint64_t len, struct sim_stamp *out)
{
    uint64_t seq = held->seq + fetch->index;
    if (fetch->offset == 0 && len >= sizeof(*out)) {
        memcpy(out, bytes, sizeof(*out));
        SIM_CHECK(s, out->check == sim_stamp_check(out), "bytes of number %" PRIu64 " are wrong",
                  seq);
        model_place(s, held->topic, seq, held->above, out->pub, out->number);
        return true;
    }
    const struct model_topic *topic = &s->model.topics[held->topic];
    if (seq > topic->top || topic->at[seq].pub == 0) {
        return false;
    }
    *out = (struct sim_stamp){.pub = topic->at[seq].pub, .number = topic->at[seq].number};
    out->check = sim_stamp_check(out);
    return true;
}

static void check_bytes(struct sim_client *client, struct sim_held *held,
                        const struct sim_fetch *fetch, const uint8_t *bytes, uint64_t len)
{
    struct sim *s = client->sim;
    struct sim_stamp stamp;
    if (held == NULL) {
        return;
    }
    if (stamp_of(s, held, fetch, bytes, len, &stamp)) {
        SIM_CHECK(s, sim_payload_is(bytes, fetch->offset, len, &stamp),
                  "client %u: fetch %" PRIu64 " of number %" PRIu64 ": its bytes are wrong",
                  client->slot, fetch->seq, held->seq + fetch->index);
    }
}

static bool is_pinned(const struct sim_sub *sub)
{
    return sub->options.lazy == AMB_LAZY_PIN ||
           (sub->options.lazy == AMB_LAZY_ON && sub->queue != 0);
}

/* May what is not pinned have been given up for what came later? By what that may take at most. */
static bool is_crowded_out(const struct sim_client *client, const struct sim_sub *sub,
                           const struct sim_held *held)
{
    uint64_t most = sub->options.credit_bytes, later = 0;
    if (client->sim->is_tight || held->number == sub->last) {
        return client->sim->is_tight; /* Where sessions may not hold much, or memory is short. */
    }
    if (client->sim->has_leases && most > AMB_SEGMENT_ALIGN / 4) {
        most = AMB_SEGMENT_ALIGN / 4; /* Leased bytes have a share of their own. */
    }
    for (uint64_t n = held->number; n <= sub->last; n++) {
        later += sim_held(sub, n)->keeps;
    }
    return later > most;
}

static void check_refused(struct sim_client *client, const struct sim_held *held,
                          const struct sim_fetch *fetch, enum amb_status status)
{
    const struct sim_sub *sub = &client->subs[fetch->handle];
    if (status == AMB_ENOTSUP) {
        SIM_CHECK(client->sim, fetch->len == 0,
                  "client %u: fetch %" PRIu64 " by copy is not possible", client->slot, fetch->seq);
        return;
    }
    SIM_CHECK(client->sim, status == AMB_ESTALE, "client %u: fetch %" PRIu64 ": %s", client->slot,
              fetch->seq, amb_status_text(status));
    client->sim->stats.stale++;
    if (held == NULL || held->is_back) {
        return; /* The release may have overtaken it. */
    }
    SIM_CHECK(client->sim, !is_pinned(sub), "client %u: number %" PRIu64 " is stale, and pinned",
              client->slot, held->seq + fetch->index);
    SIM_CHECK(client->sim, is_crowded_out(client, sub, held),
              "client %u: number %" PRIu64 " is stale, and there was room", client->slot,
              held->seq + fetch->index);
}

void sim_fetch_answered(struct sim_client *client, const struct amb_frame *frame,
                        const uint8_t *bytes)
{
    struct sim_fetch fetch = fetch_take(client, frame);
    struct sim_held *held = held_of(client, &fetch);
    client->sim->stats.fetches++;
    SIM_EVENT(client->sim, "fetched client seq status len", client->slot, frame->seq,
              (uint32_t)-frame->status, frame->data_len);
    if (frame->status != AMB_OK) {
        check_refused(client, held, &fetch, (enum amb_status)frame->status);
        return;
    }
    SIM_CHECK(client->sim, frame->offset == fetch.offset && frame->data_len == fetch.len,
              "client %u: fetch %" PRIu64 " is answered with something else", client->slot,
              fetch.seq);
    check_bytes(client, held, &fetch, bytes, fetch.len);
}

void sim_fetch_mapped(struct sim_client *client, const struct amb_frame *frame)
{
    struct sim_fetch fetch = fetch_take(client, frame);
    struct sim_held *held = held_of(client, &fetch);
    uint64_t size;
    const uint8_t *base = sim_segment_base(frame->segment, &size);
    client->sim->stats.fetches++;
    SIM_EVENT(client->sim, "mapped client seq segment offset", client->slot, frame->seq,
              frame->segment, frame->offset);
    SIM_CHECK(client->sim, fetch.len == 0 && client->maps && client->may_map,
              "client %u: fetch %" PRIu64 " is answered in place", client->slot, fetch.seq);
    if (held == NULL || held->is_back) {
        return; /* It may be somebody else's by now. */
    }
    SIM_CHECK(client->sim,
              base != NULL && frame->offset + frame->data_len <= size &&
                  frame->data_len == held->lens[fetch.index],
              "client %u: fetch %" PRIu64 " is answered outside its segment", client->slot,
              fetch.seq);
    check_bytes(client, held, &fetch, base + frame->offset, frame->data_len);
    held->at = base + frame->offset;
    memcpy(&held->stamp, held->at, sizeof(held->stamp));
}
