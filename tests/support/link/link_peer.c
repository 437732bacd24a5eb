/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/link/link_peer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct link_peer_tx {
    struct amb_link_tx tx;
    struct amb_frame frame;
    struct link_peer *peer;
    struct link_peer_tx *next;
    uint8_t *data, *meta;
    bool is_queued, is_settled;
};

struct link_peer_body {
    struct link_peer *peer;
    struct link_peer_body *next, **link_to_this;
    uint8_t *bytes;
    uint64_t len, seed;
};

/* Not cleared: filling 8 MiB twice would be most of the suite's time. */
static void *must_alloc(size_t size)
{
    void *memory = malloc(size != 0 ? size : 1);
    assert_non_null(memory);
    return memory;
}

static uint64_t pattern_word(uint64_t index, uint64_t seed)
{
    return ((seed + 1) * UINT64_C(0x9e3779b97f4a7c15)) ^
           ((index + 1) * UINT64_C(0xd1b54a32d192ed03));
}

/* Bytes [offset, offset + len) of body `seed`: the same whether they lie in data or in meta. */
static void pattern_fill(uint8_t *out, uint64_t offset, uint64_t len, uint64_t seed)
{
    uint64_t done = 0;
    for (; offset % 8 == 0 && done + 8 <= len; done += 8, offset += 8) {
        uint64_t word = pattern_word(offset / 8, seed);
        memcpy(out + done, &word, 8);
    }
    for (; done < len; done++, offset++) {
        uint64_t word = pattern_word(offset / 8, seed);
        out[done] = ((const uint8_t *)&word)[offset % 8];
    }
}

static bool pattern_is(const uint8_t *bytes, uint64_t len, uint64_t seed)
{
    uint64_t wrong = 0, done = 0;
    for (; done + 8 <= len; done += 8) {
        uint64_t word;
        memcpy(&word, bytes + done, 8);
        wrong |= word ^ pattern_word(done / 8, seed);
    }
    uint64_t last = pattern_word(done / 8, seed);
    return wrong == 0 && memcmp(bytes + done, &last, len - done) == 0;
}

void link_peer_init(struct link_peer *peer, struct link_peer *other, bool is_broker)
{
    *peer = (struct link_peer){.other = other, .is_broker = is_broker};
    peer->expected = must_alloc(sizeof(*peer->expected) * LINK_PEER_EXPECTED_MAX);
}

void link_peer_fini(struct link_peer *peer)
{
    while (peer->txs != NULL) {
        struct link_peer_tx *tx = peer->txs;
        peer->txs = tx->next;
        assert_true(tx->is_settled || !tx->is_queued);
        free(tx->data);
        free(tx->meta);
        free(tx);
    }
    assert_null(peer->bodies);
    assert_int_equal(peer->bodies_given, peer->bodies_ok + peer->bodies_failed);
    assert_true(peer->downs <= 1);
    free(peer->expected);
    peer->expected = NULL;
}

uint8_t link_peer_type(const struct link_peer *peer, unsigned kind)
{
    static const uint8_t client[] = {AMB_FRAME_BATCH, AMB_FRAME_RELEASE_RANGE, AMB_FRAME_SEG_READY,
                                     AMB_FRAME_SEG_GONE, AMB_FRAME_COMMIT};
    static const uint8_t broker[] = {AMB_FRAME_DELIVER, AMB_FRAME_MAP, AMB_FRAME_SETTLED,
                                     AMB_FRAME_TOPIC, AMB_FRAME_MAP_LEASED};
    return peer->is_broker ? broker[kind % sizeof(broker)] : client[kind % sizeof(client)];
}

unsigned link_peer_flow_kinds(const struct link_peer *peer)
{
    return peer->is_broker ? AMB_FLOW_SUBSCRIBERS + 1u : AMB_FLOW_RELEASE + 1u;
}

static void fill_delivery(struct amb_frame *frame, uint64_t body_len, uint64_t n)
{
    frame->topic = (uint32_t)n + 5;
    frame->number = n + 1;
    frame->lost = n * 3;
    frame->status = n != 0 ? (int32_t)AMB_LOSS_SLOW : (int32_t)AMB_LOSS_NONE;
    frame->time_ns = INT64_C(1700000000000000000) + (int64_t)n;
    frame->seq = n + UINT64_C(0x123456789a);
    frame->count = 1;
    frame->meta_len = 16;
    frame->data_len = body_len - 16;
    if (frame->type == AMB_FRAME_MAP) {
        frame->segment = n + 77;
        frame->offset = n * 4096;
        frame->data_len = 1 << 20;
    }
}

/* Only fields that the type uses, and values that a decoder must let pass. */
static void fill_frame(struct amb_frame *frame, uint8_t type, uint64_t body_len, uint64_t n)
{
    *frame = (struct amb_frame){.type = type, .handle = (uint32_t)(n * 7) % AMB_HANDLES_MAX};
    switch (type) {
    case AMB_FRAME_DELIVER:
    case AMB_FRAME_MAP:
        fill_delivery(frame, body_len, n);
        break;
    case AMB_FRAME_COMMIT:
    case AMB_FRAME_MAP_LEASED:
        frame->seq = n + 1;
        frame->number = n + 1;
        frame->segment = n + 3;
        frame->count = 1;
        frame->meta_len = 24 + (uint32_t)body_len % 4096 / 8 * 8;
        frame->data_len = 1 << 20;
        break;
    case AMB_FRAME_BATCH:
        frame->seq = n + 1;
        frame->count = 1;
        frame->meta_len = 16;
        frame->data_len = body_len - 16;
        break;
    case AMB_FRAME_TOPIC:
        frame->topic = (uint32_t)n + 9;
        frame->data_len = 1 + n % 200;
        break;
    case AMB_FRAME_RELEASE_RANGE:
        frame->number = n + 1;
        frame->count = 1 + (uint32_t)n % 100;
        break;
    case AMB_FRAME_SETTLED:
        frame->seq = n + 1;
        frame->number = n + 2;
        frame->status = AMB_EREJECTED;
        frame->count = (uint32_t)n % 100;
        break;
    default:
        frame->handle = 0;
        frame->segment = n + 1;
        break;
    }
}

static struct link_peer_tx *make_tx(struct link_peer *peer, uint8_t type, uint64_t body_len,
                                    uint64_t seed)
{
    struct link_peer_tx *tx = must_alloc(sizeof(*tx));
    *tx = (struct link_peer_tx){.peer = peer, .next = peer->txs};
    peer->txs = tx;
    fill_frame(&tx->frame, type, body_len, peer->sent);
    if (amb_frame_has_body(type)) {
        /* Now and then the end of data begins meta. */
        uint64_t data_len = amb_frame_body_data(&tx->frame);
        uint32_t pad = data_len >= AMB_PAYLOAD_PAD ? (uint32_t)(peer->sent * 5 % 16) : 0;
        data_len -= pad;
        tx->tx.data_pad = pad;
        tx->data = must_alloc(data_len);
        tx->meta = must_alloc(tx->frame.meta_len + pad);
        pattern_fill(tx->data, 0, data_len, seed);
        pattern_fill(tx->meta, data_len, tx->frame.meta_len + pad, seed);
    }
    return tx;
}

/* Its memory is ours again: a link that still reads it sends the wrong bytes. */
static void settle(struct link_peer_tx *tx)
{
    assert_true(tx->is_queued);
    assert_false(tx->is_settled);
    tx->is_settled = true;
    free(tx->data);
    free(tx->meta);
    tx->data = tx->meta = NULL;
}

enum amb_status link_peer_send(struct link_peer *peer, uint8_t type, uint64_t body_len)
{
    struct link_peer *other = peer->other;
    uint64_t seed = peer->sent * 2 + (peer->is_broker ? 1 : 0);
    struct link_peer_tx *tx = make_tx(peer, type, body_len, seed);

    /* The frame itself must not be needed after amb_link_send. */
    struct amb_frame frame = tx->frame;
    tx->tx.frame = &frame;
    tx->tx.data = tx->data;
    tx->tx.meta = tx->meta;
    enum amb_status status = amb_link_send(peer->link, &tx->tx);
    memset(&frame, 0xff, sizeof(frame));
    if (status != AMB_OK && status != AMB_EAGAIN) {
        assert_true(peer->link->is_down);
        return status;
    }
    peer->sent++;
    tx->is_queued = true;
    if (status == AMB_OK) {
        peer->settled_ok++;
        settle(tx);
    }
    assert_true(other->expected_tail - other->expected_head < LINK_PEER_EXPECTED_MAX);
    other->expected[other->expected_tail++ % LINK_PEER_EXPECTED_MAX] =
        (struct link_peer_expected){.frame = tx->frame, .seed = seed};
    return status;
}

void link_peer_flow(struct link_peer *peer, enum amb_flow_kind kind, uint32_t handle,
                    uint64_t value)
{
    amb_link_flow(peer->link, kind, handle, value);
}

uint64_t link_peer_unsettled(const struct link_peer *peer)
{
    return peer->sent - peer->settled_ok - peer->settled_canceled - peer->settled_lost;
}

void link_peer_close(struct link_peer *peer)
{
    struct amb_link *link = peer->link;
    peer->is_closing = true;
    peer->link = NULL;
    if (amb_link_close(link)) {
        assert_int_equal(peer->closes, 0);
        peer->closes++;
        assert_int_equal(link_peer_unsettled(peer), 0);
        assert_null(peer->bodies);
    }
}

bool link_peer_is_closed(const struct link_peer *peer)
{
    return peer->closes != 0;
}

bool link_peer_has_all(const struct link_peer *peer)
{
    return peer->expected_head == peer->expected_tail && peer->bodies == NULL;
}

static void check_frame(const struct amb_frame *want, const struct amb_frame *got)
{
    assert_int_equal(want->type, got->type);
    assert_int_equal(want->flags, got->flags);
    assert_int_equal(want->handle, got->handle);
    assert_int_equal(want->topic, got->topic);
    assert_int_equal(want->count, got->count);
    assert_int_equal(want->first, got->first);
    assert_int_equal(want->meta_len, got->meta_len);
    assert_int_equal(want->status, got->status);
    assert_int_equal(want->data_len, got->data_len);
    assert_int_equal(want->seq, got->seq);
    assert_int_equal(want->number, got->number);
    assert_int_equal(want->lost, got->lost);
    assert_int_equal(want->time_ns, got->time_ns);
    assert_int_equal(want->segment, got->segment);
    assert_int_equal(want->offset, got->offset);
}

static struct link_peer_body *open_body(struct link_peer *peer, uint64_t len, uint64_t seed)
{
    struct link_peer_body *body = must_alloc(sizeof(*body));
    *body = (struct link_peer_body){
        .peer = peer, .next = peer->bodies, .len = len, .seed = seed, .bytes = must_alloc(len)};
    if (body->next != NULL) {
        body->next->link_to_this = &body->next;
    }
    body->link_to_this = &peer->bodies;
    peer->bodies = body;
    peer->bodies_given++;
    return body;
}

static enum amb_status on_frame(void *arg, const struct amb_frame *frame, void **dst, void **cookie,
                                struct amb_link_mem **mem)
{
    struct link_peer *peer = arg;
    (void)mem;
    assert_int_equal(peer->downs, 0);
    assert_false(peer->is_closing);
    assert_true(peer->expected_head < peer->expected_tail);
    const struct link_peer_expected *want =
        &peer->expected[peer->expected_head++ % LINK_PEER_EXPECTED_MAX];
    check_frame(&want->frame, frame);
    peer->frames++;
    if (peer->frame_answer != AMB_OK) {
        return peer->frame_answer;
    }
    if (amb_frame_has_body(frame->type) && !peer->discards) {
        struct link_peer_body *body = open_body(peer, amb_frame_body_len(frame), want->seed);
        *dst = body->bytes;
        *cookie = body;
    }
    if (peer->echoes != 0) {
        peer->echoes--;
        (void)link_peer_send(peer, link_peer_type(peer, 0), 64);
        link_peer_flow(peer, AMB_FLOW_RELEASE, 3, peer->frames);
    }
    return AMB_OK;
}

static enum amb_status on_body(void *arg, void *cookie, enum amb_status status)
{
    struct link_peer *peer = arg;
    struct link_peer_body *body = cookie;
    assert_ptr_equal(body->peer, peer);
    if (status == AMB_OK) {
        assert_true(pattern_is(body->bytes, body->len, body->seed));
        peer->bodies_ok++;
    } else {
        peer->bodies_failed++;
        peer->body_failure = status;
    }
    *body->link_to_this = body->next;
    if (body->next != NULL) {
        body->next->link_to_this = body->link_to_this;
    }
    free(body->bytes);
    free(body);
    return peer->body_answer;
}

static enum amb_status on_flow(void *arg, enum amb_flow_kind kind, uint32_t handle, uint64_t value)
{
    struct link_peer *peer = arg;
    assert_true((unsigned)kind < link_peer_flow_kinds(peer->other));
    assert_true(handle < AMB_HANDLES_MAX);
    /* Tests only send values that grow: an older one after a newer one is an error. */
    assert_true(value >= peer->flow[kind][handle]);
    peer->flow[kind][handle] = value;
    peer->flow_calls++;
    return peer->flow_answer;
}

static void on_sent(void *arg, struct amb_link_tx *tx, enum amb_status status)
{
    struct link_peer *peer = arg;
    struct link_peer_tx *mine = AMB_CONTAINER_OF(tx, struct link_peer_tx, tx);
    assert_ptr_equal(mine->peer, peer);
    settle(mine);
    if (status == AMB_OK) {
        peer->settled_ok++;
    } else if (status == AMB_ECANCELED) {
        peer->settled_canceled++;
    } else {
        assert_int_equal(status, AMB_ELOST);
        peer->settled_lost++;
    }
}

static void on_down(void *arg, enum amb_status why, const char *text)
{
    struct link_peer *peer = arg;
    assert_false(peer->is_closing);
    assert_int_not_equal(why, AMB_OK);
    assert_non_null(text);
    peer->downs++;
    peer->down_status = why;
    assert_int_equal(peer->downs, 1);
}

static void on_closed(void *arg)
{
    struct link_peer *peer = arg;
    assert_true(peer->is_closing);
    peer->closes++;
    assert_int_equal(peer->closes, 1);
}

bool link_peer_move_body(struct link_peer *peer)
{
    void *cookie = NULL;
    uint8_t **at = amb_link_body(peer->link, &cookie);
    if (at == NULL) {
        return false;
    }
    struct link_peer_body *body = cookie;
    uint64_t come = (uint64_t)(*at - body->bytes);
    assert_true(come < body->len);
    uint8_t *bytes = must_alloc(body->len);
    memcpy(bytes, body->bytes, come);
    memset(body->bytes, 0xee, body->len);
    free(body->bytes);
    body->bytes = bytes;
    *at = bytes + come;
    return true;
}

bool link_peer_drop_body(struct link_peer *peer)
{
    void *cookie = NULL;
    uint8_t **at = amb_link_body(peer->link, &cookie);
    if (at == NULL) {
        return false;
    }
    *at = NULL;
    return on_body(peer, cookie, AMB_ECANCELED) == AMB_OK;
}

const struct amb_link_events link_peer_events = {
    .on_frame = on_frame,
    .on_body = on_body,
    .on_flow = on_flow,
    .on_sent = on_sent,
    .on_down = on_down,
    .on_closed = on_closed,
};
