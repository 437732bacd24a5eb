/* SPDX-License-Identifier: Apache-2.0 */
/* Attacks on the ring's own words: positions, flow values, units, and the wake-ups. */
#include "tests/support/hostile/hostile.h"

#include "wire/base/clock.h"
#include "wire/link/ring/ring_state.h"

#include <string.h>
#include <unistd.h>

#define CONTROLS (2 * sizeof(struct ring_control))

static struct ring_control *to_client(const struct hostile *h)
{
    return (struct ring_control *)(void *)h->memory;
}

static struct ring_control *to_broker(const struct hostile *h)
{
    return to_client(h) + 1;
}

static void ring_the_bell(const struct hostile *h)
{
    const uint64_t one = 1;
    (void)!write(h->ring.bell, &one, sizeof(one));
}

/* A unit as it should not be, behind what was sent so far. After it the link is of no use. */
static void put_unit(struct hostile *h, uint32_t kind, uint32_t len, const void *bytes, size_t n)
{
    amb_link_flush(h->link);
    struct ring_control *c = to_broker(h);
    uint64_t tail = atomic_load(&c->tail);
    uint8_t *ring = h->memory + CONTROLS + h->ring_size;
    uint8_t unit[16 + 4096] = {0};
    const struct ring_unit head = {.len = len, .kind = kind, .reserved = hostile_random(h)};
    memcpy(unit, &head, sizeof(head));
    memcpy(unit + 16, bytes, n);
    for (size_t i = 0; i < 16 + n; i++) {
        ring[(tail + i) & (h->ring_size - 1)] = unit[i];
    }
    uint64_t whole = ring_pad(16 + (uint64_t)len);
    atomic_exchange(&c->tail, tail + (whole > h->ring_size ? h->ring_size : whole));
    atomic_exchange(&c->sleeping, 0);
    ring_the_bell(h);
    h->is_down = true;
}

static void scribble_one(struct hostile *h)
{
    struct ring_control *c = hostile_below(h, 2) == 0 ? to_client(h) : to_broker(h);
    uint64_t old, value = hostile_edge(h);
    switch (hostile_below(h, 7)) {
    case 0:
        old = atomic_load(&c->tail);
        atomic_store(&c->tail, hostile_below(h, 2) == 0 ? old + value % 4096 : value);
        break;
    case 1:
        old = atomic_load(&c->head);
        atomic_store(&c->head, hostile_below(h, 2) == 0 ? old + value % 4096 : value);
        break;
    case 2:
        atomic_store(&c->flow_words, value);
        break;
    case 3:
        atomic_store(&c->sleeping, (uint32_t)value);
        break;
    case 4:
        atomic_store(&c->flow_map[hostile_below(h, RING_FLOW_WORDS)], value);
        break;
    case 5:
        atomic_store(&c->flow[hostile_below(h, AMB_FLOW_KINDS * AMB_HANDLES_MAX)], value);
        break;
    default:
        if (hostile_below(h, 50) == 0) {
            atomic_store(&c->closed, (uint32_t)value);
        }
    }
}

static enum hostile_verdict indices(struct hostile *h)
{
    unsigned rounds = (unsigned)hostile_below(h, 200);
    for (unsigned i = 0; i < rounds && !h->is_over; i++) {
        scribble_one(h);
        ring_the_bell(h);
        if (i % 8 == 0) {
            hostile_traffic(h, 1);
        }
    }
    return HOSTILE_EITHER;
}

/* Flow values and sleeping alone: nothing that ends the ring at once. */
static enum hostile_verdict flow_words(struct hostile *h)
{
    for (unsigned i = 0; i < 100 && !h->is_over; i++) {
        struct ring_control *c = to_broker(h);
        uint64_t word = hostile_below(h, 32); /* kinds that a client has */
        atomic_store(&c->flow_map[word], hostile_random(h));
        atomic_store(&c->flow_words, hostile_random(h));
        atomic_store(&to_client(h)->sleeping, (uint32_t)hostile_random(h));
        ring_the_bell(h);
        if (i % 10 == 0) {
            hostile_traffic(h, 1);
        }
    }
    return HOSTILE_EITHER;
}

static enum hostile_verdict flow_kinds(struct hostile *h)
{
    struct ring_control *c = to_broker(h);
    uint64_t word = 32 + hostile_below(h, 32);
    atomic_store(&c->flow_map[word], hostile_random(h) | 1);
    atomic_store(&c->flow_words, UINT64_C(1) << word);
    ring_the_bell(h);
    return HOSTILE_ENDS;
}

static enum hostile_verdict all_bytes(struct hostile *h)
{
    unsigned rounds = 1 + (unsigned)hostile_below(h, 100);
    for (unsigned i = 0; i < rounds && !h->is_over; i++) {
        uint64_t len = 1 + hostile_below(h, 4096), at = hostile_below(h, h->memory_size - len);
        hostile_bytes(h, h->memory + at, len);
        ring_the_bell(h);
        hostile_traffic(h, 0);
    }
    return HOSTILE_EITHER;
}

/* The broker looks at bytes while they change: the frames we send, over and over. */
static enum hostile_verdict racing_bytes(struct hostile *h)
{
    uint8_t *ring = h->memory + CONTROLS + h->ring_size;
    int64_t until_ns = amb_clock_monotonic_ns() + 10 * AMB_NS_PER_MS;
    while (amb_clock_monotonic_ns() < until_ns && !h->is_over) {
        (void)hostile_publish(h, 0, hostile_below(h, 4096));
        amb_link_flush(h->link);
        uint64_t tail = atomic_load(&to_broker(h)->tail);
        for (unsigned i = 0; i < 50; i++) {
            uint64_t at = (tail - 1 - hostile_below(h, 512)) & (h->ring_size - 1);
            ring[at] = (uint8_t)hostile_random(h);
        }
        (void)amb_link_poll(h->link, 64);
    }
    return HOSTILE_EITHER;
}

static enum hostile_verdict tail_lies(struct hostile *h)
{
    struct ring_control *c = to_broker(h);
    amb_link_flush(h->link);
    h->is_down = true;
    uint64_t tail = atomic_load(&c->tail);
    switch (hostile_below(h, 3)) {
    case 0:
        tail += 1 + hostile_below(h, 63);
        break;
    case 1:
        tail += h->ring_size * 2 + 64 * hostile_below(h, UINT32_MAX);
        break;
    default:
        tail -= h->ring_size * 4;
    }
    atomic_exchange(&c->tail, tail);
    ring_the_bell(h);
    return HOSTILE_ENDS;
}

/* The broker looks at our head when it wants room. */
static enum hostile_verdict head_lies(struct hostile *h)
{
    struct ring_control *c = to_client(h);
    h->is_down = true;
    atomic_exchange(&c->head, atomic_load(&c->head) + h->ring_size * 2 + hostile_edge(h) % 4096);
    for (int i = 0; i < 3; i++) {
        ring_the_bell(h);
        hostile_hear(h, 10);
    }
    return HOSTILE_EITHER;
}

static enum hostile_verdict unit_kinds(struct hostile *h)
{
    uint8_t bytes[512];
    hostile_bytes(h, bytes, sizeof(bytes));
    uint32_t kind = (uint32_t)hostile_random(h);
    if (hostile_below(h, 2) == 0) {
        kind = RING_UNIT_CHUNK; /* of no body */
    }
    put_unit(h, kind, (uint32_t)hostile_below(h, sizeof(bytes)), bytes, sizeof(bytes));
    return HOSTILE_ENDS;
}

static enum hostile_verdict unit_lengths(struct hostile *h)
{
    uint8_t bytes[512];
    hostile_bytes(h, bytes, sizeof(bytes));
    uint32_t len = (uint32_t)(hostile_edge(h) | UINT64_C(0x80000000));
    put_unit(h, RING_UNIT_FRAME, len, bytes, sizeof(bytes));
    return HOSTILE_ENDS;
}

/* A head that is one, but for some bytes. */
static enum hostile_verdict unit_heads(struct hostile *h)
{
    struct amb_frame frame = {.type = (uint8_t)(1 + hostile_below(h, 6)),
                              .handle = (uint32_t)hostile_below(h, 3),
                              .seq = h->pubs[0].batches + 1,
                              .number = hostile_edge(h),
                              .segment = hostile_edge(h),
                              .count = (uint32_t)(1 + hostile_below(h, 4)),
                              .meta_len = (uint32_t)(16 * hostile_below(h, 8)),
                              .data_len = 16 * hostile_below(h, 8)};
    uint8_t unit[AMB_FRAME_HEAD_SIZE + 512];
    amb_frame_encode(&frame, unit);
    hostile_bytes(h, unit + AMB_FRAME_HEAD_SIZE, 512);
    for (uint64_t n = hostile_below(h, 4); n > 0; n--) {
        unit[hostile_below(h, AMB_FRAME_HEAD_SIZE)] = (uint8_t)hostile_random(h);
    }
    put_unit(h, RING_UNIT_FRAME, (uint32_t)(100 + hostile_below(h, 512)), unit, sizeof(unit));
    return HOSTILE_EITHER;
}

static enum hostile_verdict wakes(struct hostile *h)
{
    int64_t until_ns = amb_clock_monotonic_ns() + 30 * AMB_NS_PER_MS;
    while (amb_clock_monotonic_ns() < until_ns) {
        ring_the_bell(h);
        atomic_store(&to_client(h)->sleeping, RING_WAIT_DATA | RING_WAIT_FLOW);
    }
    hostile_traffic(h, 2);
    return HOSTILE_LIVES;
}

/* Publishes and subscribes, and reads nothing at all. */
static enum hostile_verdict never_reads(struct hostile *h)
{
    h->keeps_deliveries = true;
    int64_t until_ns = amb_clock_monotonic_ns() + 50 * AMB_NS_PER_MS;
    while (amb_clock_monotonic_ns() < until_ns) {
        if (!hostile_publish(h, 0, hostile_below(h, 1000))) {
            h->pubs[0].window += 4096; /* Our own word for it; in the end it is too much. */
        }
        amb_link_flush(h->link);
    }
    return HOSTILE_EITHER;
}

static enum hostile_verdict closed_word(struct hostile *h)
{
    atomic_exchange(&to_broker(h)->closed, (uint32_t)hostile_random(h) | 1);
    ring_the_bell(h);
    (void)hostile_publish(h, 0, 100);
    amb_link_flush(h->link);
    h->is_down = true;
    return HOSTILE_EITHER;
}

const struct hostile_attack hostile_ring_attacks[] = {
    {.name = "indices", .run = indices},
    {.name = "flow-words", .run = flow_words},
    {.name = "flow-kinds", .run = flow_kinds},
    {.name = "all-bytes", .run = all_bytes},
    {.name = "racing-bytes", .run = racing_bytes},
    {.name = "tail-lies", .run = tail_lies},
    {.name = "head-lies", .run = head_lies},
    {.name = "unit-kinds", .run = unit_kinds},
    {.name = "unit-lengths", .run = unit_lengths},
    {.name = "unit-heads", .run = unit_heads},
    {.name = "wakes", .run = wakes},
    {.name = "never-reads", .run = never_reads},
    {.name = "closed-word", .run = closed_word},
    {.name = NULL},
};
