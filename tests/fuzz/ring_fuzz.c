/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The broker's end of a ring, of which a client writes the memory. An input is a row of acts. Some
 * write units as an honest client has them, or spoilt ones. Others write positions, flow values and
 * flags of any value. The broker has its turn between them. A ring is made for each input, and so
 * this is slow.
 */
#include "tests/fuzz/fuzz_target.h"
#include "wire/link/ring/ring.h"
#include "wire/link/ring/ring_state.h"

#include <sys/mman.h>
#include <unistd.h>

#define SIZE AMB_RING_SIZE_MIN
#define TOTAL (2 * sizeof(struct ring_control) + 2 * SIZE)
#define BODY_MAX (UINT64_C(256) << 10)
#define BUDGET 8u

enum act {
    ACT_UNIT,     /* a unit behind the former one, and the tail behind it */
    ACT_TAIL,     /* a step of the tail, or any value of it */
    ACT_HEAD,     /* the same of the head of what the broker sends */
    ACT_FLOW,     /* a flow value, marked as it should be */
    ACT_WORDS,    /* the map of flow values */
    ACT_FLAGS,    /* one is closed, or sleeps */
    ACT_SCRIBBLE, /* bytes anywhere */
    ACT_SEND,     /* the broker sends a frame */
    ACTS,
};

/* The broker's end, and the client's memory. */
struct victim {
    struct fuzz_target target;
    struct amb_link *link;
    uint8_t *memory;
    struct ring_control *to_client, *to_broker;
    uint8_t *bytes;
    uint64_t tail;
    struct amb_link_tx tx;
    struct amb_frame frame;
    bool is_sending;
};

/* The rest of the input. Behind its end there are zeros. */
struct input {
    const uint8_t *at;
    size_t len;
};

FUZZ_PLAIN static uint64_t take(struct input *input, unsigned bytes)
{
    uint64_t value = 0;
    for (unsigned i = 0; i < bytes && input->len > 0; i++, input->at++, input->len--) {
        value |= (uint64_t)*input->at << 8 * i;
    }
    return value;
}

/* ---- the owner of the link ---- */

static enum amb_status on_frame(void *arg, const struct amb_frame *frame, void **dst, void **cookie,
                                struct amb_link_mem **mem)
{
    struct victim *victim = arg;
    (void)mem;
    uint64_t len = fuzz_note_frame(&victim->target, frame);
    amb_assert(frame->handle < AMB_HANDLES_MAX && frame->meta_len <= AMB_META_MAX);
    if (frame->handle == 666) {
        return AMB_EPROTO;
    }
    if (len != 0 && len <= BODY_MAX) { /* Larger ones are discarded. */
        *dst = *cookie = fuzz_body_begin(&victim->target, len);
    }
    return AMB_OK;
}

static enum amb_status on_body(void *arg, void *cookie, enum amb_status status)
{
    struct victim *victim = arg;
    amb_assert(cookie != NULL && cookie == victim->target.open);
    fuzz_body_end(&victim->target);
    return status;
}

static enum amb_status on_flow(void *arg, enum amb_flow_kind kind, uint32_t handle, uint64_t value)
{
    struct victim *victim = arg;
    amb_assert((unsigned)kind < RING_FLOW_OUT_KINDS_CLIENT);
    fuzz_note_flow(&victim->target, kind, handle, value);
    return value == 666 ? AMB_EPROTO : AMB_OK;
}

static void on_sent(void *arg, struct amb_link_tx *tx, enum amb_status status)
{
    struct victim *victim = arg;
    (void)status;
    amb_assert(tx == &victim->tx && victim->is_sending);
    victim->is_sending = false;
}

static void on_down(void *arg, enum amb_status why, const char *text)
{
    struct victim *victim = arg;
    fuzz_note_down(&victim->target, why, text);
}

static void on_closed(void *arg)
{
    (void)arg;
    abort(); /* Nothing outlives the close of a ring. */
}

static const struct amb_link_events events = {.on_frame = on_frame,
                                              .on_body = on_body,
                                              .on_flow = on_flow,
                                              .on_sent = on_sent,
                                              .on_down = on_down,
                                              .on_closed = on_closed};

/* ---- the client ---- */

/* Bytes of the ring, round its end. */
FUZZ_PLAIN static void put(struct victim *victim, uint64_t at, const void *from, size_t len)
{
    const uint8_t *bytes = from;
    for (size_t i = 0; i < len; i++) {
        victim->bytes[(at + i) % SIZE] = bytes[i];
    }
}

/* Its kind and length, the head of a frame if it is one, and bytes of the input. */
static void put_unit(struct victim *victim, struct input *input)
{
    uint8_t head[AMB_FRAME_HEAD_SIZE];
    const uint64_t what = take(input, 1);
    uint32_t len = (uint32_t)take(input, 2), body = (uint32_t)take(input, 2);
    struct ring_unit unit = {.len = len,
                             .kind = what % 4 == 3   ? (uint32_t)take(input, 4)
                                     : what % 4 == 2 ? RING_UNIT_CHUNK
                                                     : RING_UNIT_FRAME};
    if (what % 4 < 2) {
        struct amb_frame frame = {.type = AMB_FRAME_BATCH,
                                  .handle = (uint32_t)take(input, 2),
                                  .count = 1,
                                  .meta_len = 16,
                                  .data_len = body,
                                  .seq = 1};
        amb_frame_encode(&frame, head);
        unit.len = what % 8 < 4 ? unit.len : AMB_FRAME_HEAD_SIZE + 16 + body;
        put(victim, victim->tail + RING_HEAD, head, sizeof(head));
    }
    uint64_t own_at = victim->tail + RING_HEAD + take(input, 1);
    size_t own = (size_t)take(input, 1);
    own = own < input->len ? own : input->len;
    put(victim, own_at, input->at, own);
    input->at += own;
    input->len -= own;
    put(victim, victim->tail, &unit, sizeof(unit));
    victim->tail += ring_pad(RING_HEAD + (uint64_t)unit.len);
    atomic_store(&victim->to_broker->tail, victim->tail);
}

static void put_flow(struct victim *victim, struct input *input)
{
    uint32_t slot = (uint32_t)take(input, 2) % (AMB_FLOW_KINDS * AMB_HANDLES_MAX);
    atomic_store(&victim->to_broker->flow[slot], take(input, 8));
    atomic_fetch_or(&victim->to_broker->flow_map[slot / 64], UINT64_C(1) << slot % 64);
    atomic_fetch_or(&victim->to_broker->flow_words, UINT64_C(1) << slot / 64);
}

static void scribble(struct victim *victim, struct input *input)
{
    uint64_t at = take(input, 4) % TOTAL;
    for (size_t left = take(input, 1) % 32; left > 0; left--, at++) {
        victim->memory[at % TOTAL] = (uint8_t)take(input, 1);
    }
}

static void send_frame(struct victim *victim, struct input *input)
{
    static uint8_t data[24 << 10];
    if (victim->is_sending || victim->target.downs != 0) {
        return;
    }
    victim->frame = (struct amb_frame){.type = AMB_FRAME_DELIVER,
                                       .count = 1,
                                       .data_len = take(input, 2) % 1536 * 16,
                                       .meta_len = 16};
    victim->tx = (struct amb_link_tx){.frame = &victim->frame, .data = data, .meta = data};
    victim->is_sending = true;
    victim->is_sending = amb_link_send(victim->link, &victim->tx) == AMB_EAGAIN;
}

static void act(struct victim *victim, struct input *input)
{
    uint64_t what = take(input, 1);
    switch ((enum act)(what % ACTS)) {
    case ACT_UNIT:
        put_unit(victim, input);
        break;
    case ACT_TAIL:
        victim->tail = what < 128 ? victim->tail + take(input, 1) * RING_PAD : take(input, 8);
        atomic_store(&victim->to_broker->tail, victim->tail);
        break;
    case ACT_HEAD:
        atomic_store(&victim->to_client->head,
                     what < 128 ? atomic_load(&victim->to_client->tail) : take(input, 8));
        break;
    case ACT_FLOW:
        put_flow(victim, input);
        break;
    case ACT_WORDS:
        atomic_store(&victim->to_broker->flow_map[take(input, 1) % RING_FLOW_WORDS],
                     take(input, 8));
        atomic_store(&victim->to_broker->flow_words, take(input, 8));
        break;
    case ACT_FLAGS:
        atomic_store(&victim->to_client->sleeping, (uint32_t)take(input, 1));
        atomic_store(&victim->to_broker->sleeping, (uint32_t)take(input, 1));
        atomic_store(&victim->to_broker->closed, (uint32_t)(take(input, 1) == 7));
        break;
    case ACT_SCRIBBLE:
        scribble(victim, input);
        break;
    case ACT_SEND:
    case ACTS:
        send_frame(victim, input);
        break;
    }
}

static void turn(struct victim *victim)
{
    amb_link_flow(victim->link, AMB_FLOW_WINDOW, 7, victim->tail);
    amb_link_flush(victim->link);
    amb_assert(amb_link_poll(victim->link, BUDGET) <= 2 * BUDGET + 256);
    if (amb_link_arm(victim->link, true)) {
        amb_link_disarm(victim->link);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct victim victim = {.tail = 0};
    struct input input = {.at = data, .len = len};
    struct amb_ring_fds fds;
    if (amb_ring_create(SIZE, &events, &victim, &fds, &victim.link) != AMB_OK) {
        return 0;
    }
    victim.memory = mmap(NULL, TOTAL, PROT_READ | PROT_WRITE, MAP_SHARED, fds.memory, 0);
    amb_assert(victim.memory != MAP_FAILED);
    victim.to_client = (void *)victim.memory;
    victim.to_broker = victim.to_client + 1;
    victim.bytes = victim.memory + 2 * sizeof(struct ring_control) + SIZE;
    while (input.len > 0 && victim.target.downs == 0) {
        act(&victim, &input);
        turn(&victim);
    }
    amb_assert(amb_link_close(victim.link));
    amb_assert(victim.target.open == NULL && !victim.is_sending);
    (void)munmap(victim.memory, TOTAL);
    (void)close(fds.memory);
    (void)close(fds.bell);
    return 0;
}
