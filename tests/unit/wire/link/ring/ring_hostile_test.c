/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The attacks of a hostile client on the broker's end of a ring. It may write every byte of the
 * mapping at any time, and keep or close its descriptors. It must never make the broker crash,
 * write where it was not told to, block, or stay in one call.
 */
#include "wire/link/ring/ring.h"
#include "wire/link/ring/ring_state.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#define SIZE (UINT64_C(64) << 10)
#define TOTAL (2 * sizeof(struct ring_control) + 2 * SIZE)
#define BODY_MAX (UINT64_C(256) << 10)

/* The broker's end, and the client's bare memory. */
struct victim {
    struct amb_link *link;
    struct amb_ring_fds fds;
    uint8_t *memory;
    struct ring_control *to_client, *to_broker;
    uint8_t *bytes_to_broker;
    uint64_t tail; /* where the client writes its next unit */

    uint8_t *body; /* given to the link, just as large as it was asked for */
    unsigned frames, bodies, flows, sent, downs;
    enum amb_status down_status;
    struct amb_link_tx tx;
    struct amb_frame frame;
    bool is_sending;
};

static enum amb_status on_frame(void *arg, const struct amb_frame *frame, void **dst, void **cookie,
                                struct amb_link_mem **mem)
{
    struct victim *v = arg;
    (void)mem;
    assert_null(v->body);
    assert_int_equal(v->downs, 0);
    assert_true(frame->handle < AMB_HANDLES_MAX && frame->meta_len <= AMB_META_MAX);
    v->frames++;
    uint64_t len = frame->data_len + frame->meta_len;
    if (amb_frame_has_body(frame->type) && len > 0 && len <= BODY_MAX && v->frames % 8 != 0) {
        v->body = malloc(len); /* The sanitizer watches both ends. */
        assert_non_null(v->body);
        *dst = v->body;
        *cookie = v->body;
    }
    return AMB_OK;
}

static enum amb_status on_body(void *arg, void *cookie, enum amb_status status)
{
    struct victim *v = arg;
    (void)status;
    assert_ptr_equal(cookie, v->body);
    assert_non_null(cookie);
    free(v->body);
    v->body = NULL;
    v->bodies++;
    return AMB_OK;
}

static enum amb_status on_flow(void *arg, enum amb_flow_kind kind, uint32_t handle, uint64_t value)
{
    struct victim *v = arg;
    (void)value;
    assert_true((unsigned)kind <= AMB_FLOW_RELEASE && handle < AMB_HANDLES_MAX);
    v->flows++;
    return AMB_OK;
}

static void on_sent(void *arg, struct amb_link_tx *tx, enum amb_status status)
{
    struct victim *v = arg;
    (void)status;
    assert_ptr_equal(tx, &v->tx);
    assert_true(v->is_sending);
    v->is_sending = false;
    v->sent++;
}

static void on_down(void *arg, enum amb_status why, const char *text)
{
    struct victim *v = arg;
    assert_non_null(text);
    assert_null(v->body);
    v->downs++;
    v->down_status = why;
}

static void on_closed(void *arg)
{
    (void)arg;
    fail();
}

static const struct amb_link_events events = {.on_frame = on_frame,
                                              .on_body = on_body,
                                              .on_flow = on_flow,
                                              .on_sent = on_sent,
                                              .on_down = on_down,
                                              .on_closed = on_closed};

static void victim_init(struct victim *v)
{
    memset(v, 0, sizeof(*v));
    assert_int_equal(amb_ring_create(SIZE, &events, v, &v->fds, &v->link), AMB_OK);
    v->memory = mmap(NULL, TOTAL, PROT_READ | PROT_WRITE, MAP_SHARED, v->fds.memory, 0);
    assert_ptr_not_equal(v->memory, MAP_FAILED);
    void *controls = v->memory;
    v->to_client = controls;
    v->to_broker = v->to_client + 1;
    v->bytes_to_broker = v->memory + 2 * sizeof(struct ring_control) + SIZE;
}

static void victim_fini(struct victim *v)
{
    assert_true(amb_link_close(v->link));
    assert_false(v->is_sending);
    assert_null(v->body);
    assert_int_equal(munmap(v->memory, TOTAL), 0);
    assert_int_equal(close(v->fds.memory) | close(v->fds.bell), 0);
}

static void store_u64(uint8_t *at, uint64_t value)
{
    /* Racing on purpose, so not by memcpy. */
    void *word = at;
    atomic_store_explicit((_Atomic uint64_t *)word, value, memory_order_relaxed);
}

/* A unit as an honest client writes it, but for what is given. Never past the end of the ring. */
static void put_unit(struct victim *v, uint32_t kind, uint32_t len, const void *front,
                     size_t front_len)
{
    uint8_t *at = v->bytes_to_broker + v->tail % SIZE;
    store_u64(at, (uint64_t)kind << 32 | len);
    store_u64(at + 8, 0);
    for (size_t i = 0; i < front_len; i += 8) {
        uint64_t word;
        memcpy(&word, (const uint8_t *)front + i, sizeof(word));
        store_u64(at + RING_HEAD + i, word);
    }
    v->tail += ring_pad(RING_HEAD + (uint64_t)len);
    atomic_store(&v->to_broker->tail, v->tail);
}

static void put_frame(struct victim *v, uint32_t body, uint32_t piece)
{
    struct amb_frame frame = {
        .type = AMB_FRAME_BATCH, .count = 1, .data_len = body - 16, .meta_len = 16, .seq = 1};
    uint8_t head[AMB_FRAME_HEAD_SIZE];
    amb_frame_encode(&frame, head);
    put_unit(v, RING_UNIT_FRAME, AMB_FRAME_HEAD_SIZE + piece, head, sizeof(head));
}

static void expect_down(struct victim *v)
{
    (void)amb_link_poll(v->link, 64);
    amb_link_flush(v->link);
    (void)amb_link_poll(v->link, 64);
    assert_int_equal(v->downs, 1);
    assert_int_equal(v->down_status, AMB_EPROTO);
    assert_true(v->link->is_down);
    assert_int_equal(amb_link_poll(v->link, 64), 0);
    assert_true(amb_link_arm(v->link, true));
    amb_link_disarm(v->link);
    victim_fini(v);
}

static void test_a_unit_by_hand_is_received(void **state)
{
    (void)state;
    struct victim v;
    victim_init(&v);
    put_frame(&v, 4096, 4096);
    put_frame(&v, 4096, 1024);
    put_unit(&v, RING_UNIT_CHUNK, 3072, NULL, 0);
    assert_int_equal(amb_link_poll(v.link, 64), 3);
    assert_int_equal(v.bodies, 2);
    victim_fini(&v);
}

static void test_a_tail_out_of_range_takes_the_link_down(void **state)
{
    (void)state;
    static const uint64_t bad[] = {
        1, 63, SIZE + 64, UINT64_MAX, UINT64_MAX - 63, UINT64_C(1) << 63};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct victim v;
        victim_init(&v);
        atomic_store(&v.to_broker->tail, bad[i]);
        expect_down(&v);
    }
}

static void test_a_tail_that_goes_back_takes_the_link_down(void **state)
{
    (void)state;
    struct victim v;
    victim_init(&v);
    put_frame(&v, 1024, 1024);
    assert_int_equal(amb_link_poll(v.link, 64), 1);
    atomic_store(&v.to_broker->tail, v.tail - 64);
    expect_down(&v);
}

static void test_a_head_out_of_range_takes_the_link_down(void **state)
{
    (void)state;
    static const uint64_t bad[] = {SIZE * 8, UINT64_MAX, UINT64_C(1) << 63};
    static uint8_t data[2 * SIZE];
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct victim v;
        victim_init(&v);
        v.frame = (struct amb_frame){
            .type = AMB_FRAME_DELIVER, .count = 1, .data_len = sizeof(data) - 16, .meta_len = 16};
        v.tx = (struct amb_link_tx){.frame = &v.frame, .data = data, .meta = data};
        atomic_store(&v.to_client->head, bad[i]);
        v.is_sending = true;
        assert_int_equal(amb_link_send(v.link, &v.tx), AMB_EAGAIN);
        assert_int_equal(v.downs, 0); /* Not from inside send. */
        expect_down(&v);
        assert_int_equal(v.sent, 1);
    }
}

static void test_malformed_units_take_the_link_down(void **state)
{
    (void)state;
    enum {
        CASES = 9
    };
    static const uint8_t zeros[AMB_FRAME_HEAD_SIZE];
    for (int i = 0; i < CASES; i++) {
        struct victim v;
        victim_init(&v);
        switch (i) {
        case 0: /* No such kind. */
            put_unit(&v, 7, 64, NULL, 0);
            break;
        case 1: /* Longer than what is there. */
            put_unit(&v, RING_UNIT_FRAME, 4096, NULL, 0);
            atomic_store(&v.to_broker->tail, 1024);
            break;
        case 2: /* As long as 32 bits can say. */
            put_unit(&v, RING_UNIT_FRAME, UINT32_MAX, NULL, 0);
            atomic_store(&v.to_broker->tail, 1024);
            break;
        case 3: /* Too short for a head. */
            put_unit(&v, RING_UNIT_FRAME, AMB_FRAME_HEAD_SIZE - 1, NULL, 0);
            break;
        case 4: /* No head. */
            put_unit(&v, RING_UNIT_FRAME, AMB_FRAME_HEAD_SIZE, zeros, sizeof(zeros));
            break;
        case 5: /* More body than the head says. */
            put_frame(&v, 1024, 1040);
            break;
        case 6: /* More of a body that nobody began. */
            put_unit(&v, RING_UNIT_CHUNK, 64, NULL, 0);
            break;
        case 7: /* Another frame inside a body. */
            put_frame(&v, 4096, 1024);
            put_frame(&v, 4096, 1024);
            break;
        default: /* More than is left of a body. */
            put_frame(&v, 4096, 1024);
            put_unit(&v, RING_UNIT_CHUNK, 3073, NULL, 0);
            break;
        }
        expect_down(&v);
    }
}

static void test_flow_values_of_foreign_kinds_take_the_link_down(void **state)
{
    (void)state;
    struct victim v;
    victim_init(&v);
    atomic_store(&v.to_broker->flow_map[RING_FLOW_WORDS - 1], 1);
    atomic_store(&v.to_broker->flow_words, UINT64_C(1) << (RING_FLOW_WORDS - 1));
    expect_down(&v);
}

static void test_flow_bits_beyond_the_map_are_ignored(void **state)
{
    (void)state;
    struct victim v;
    victim_init(&v);
    atomic_store(&v.to_broker->flow_words, ~UINT64_C(0));
    assert_int_equal(amb_link_poll(v.link, 64), 0);
    assert_true(amb_link_arm(v.link, true));
    amb_link_disarm(v.link);
    victim_fini(&v);
}

static void test_a_poll_is_bounded_however_much_there_is(void **state)
{
    (void)state;
    struct victim v;
    victim_init(&v);
    for (uint32_t w = 0; w < RING_FLOW_OUT_KINDS_CLIENT * AMB_HANDLES_MAX / 64; w++) {
        atomic_store(&v.to_broker->flow_map[w], ~UINT64_C(0));
    }
    atomic_store(&v.to_broker->flow_words, UINT32_MAX);
    for (int i = 0; i < 200; i++) {
        put_frame(&v, 32, 32);
    }
    assert_int_equal(amb_link_poll(v.link, 16), 32);
    assert_int_equal(v.flows, 16);
    assert_int_equal(v.frames, 16);
    victim_fini(&v);
}

/* The open file is the client's as much as the broker's. */
static void test_a_client_that_uses_its_bell_up_does_not_block(void **state)
{
    (void)state;
    struct victim v;
    victim_init(&v);
    int other = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    assert_true(other >= 0);
    assert_int_equal(dup2(other, v.fds.bell), v.fds.bell);
    assert_int_equal(dup2(other, amb_link_fd(v.link)), amb_link_fd(v.link));
    assert_int_equal(close(other), 0);
    assert_int_equal(fcntl(v.fds.bell, F_SETFL, 0), 0);
    for (unsigned i = 0; i < 70000; i++) {
        atomic_store(&v.to_client->sleeping, UINT32_MAX);
        amb_link_flow(v.link, AMB_FLOW_WINDOW, 0, i);
        amb_link_flush(v.link);
    }
    assert_int_equal(v.link->stats.wakes_sent, 70000);
    assert_int_equal(v.downs, 0);
    victim_fini(&v);
}

/* A write that would pass the end blocks too: the broker only reads. */
static void test_a_client_that_fills_its_bell_does_not_block(void **state)
{
    (void)state;
    struct victim v;
    victim_init(&v);
    const uint64_t rest = UINT64_MAX - 1 - (UINT64_C(1) << 62) + 1;
    assert_int_equal(write(v.fds.bell, &rest, sizeof(rest)), sizeof(rest));
    assert_int_equal(fcntl(v.fds.bell, F_SETFL, 0), 0);
    for (unsigned i = 0; i < 100; i++) {
        atomic_store(&v.to_client->sleeping, UINT32_MAX);
        amb_link_flow(v.link, AMB_FLOW_WINDOW, 0, i);
        amb_link_flush(v.link);
    }
    assert_int_equal(v.link->stats.wakes_sent, 100);
    victim_fini(&v);
}

/* ---- scribbling ---- */

static uint64_t next_random(uint64_t *rng)
{
    *rng ^= *rng << 13;
    *rng ^= *rng >> 7;
    *rng ^= *rng << 17;
    return *rng;
}

/* Writes something plausible, or anything, somewhere it may hurt. */
static void scribble(struct victim *v, uint64_t *rng)
{
    uint64_t r = next_random(rng), what = r >> 8;
    uint64_t near = atomic_load_explicit(&v->to_broker->head, memory_order_relaxed);
    switch (r % 12) {
    case 0:
        atomic_store(&v->to_broker->tail, near + (what % (2 * SIZE) & ~UINT64_C(63)));
        break;
    case 1:
        atomic_store(&v->to_broker->tail, what % 3 == 0 ? what : near + 64 * (what % 64));
        break;
    case 2:
        atomic_store(&v->to_client->head, near + what % SIZE);
        break;
    case 3:
        atomic_store(&v->to_client->sleeping, (uint32_t)what);
        atomic_store(&v->to_broker->sleeping, (uint32_t)(what >> 32));
        break;
    case 4:
        atomic_store(&v->to_broker->flow_words, what);
        atomic_store(&v->to_broker->flow_map[what % 40], what);
        break;
    case 5: /* Other lengths and kinds where the broker reads next. */
        store_u64(v->bytes_to_broker + near % SIZE,
                  (what % 8 < 4 ? (uint64_t)RING_UNIT_FRAME : (uint64_t)RING_UNIT_CHUNK) << 32 |
                      (what >> 8) % (what % 2 == 0 ? 8192 : UINT32_MAX));
        break;
    case 6: /* Words of a frame's head. */
        store_u64(v->bytes_to_broker + (near + RING_HEAD + 8 * (what % 16)) % SIZE, what >> 4);
        break;
    default:
        store_u64(v->memory + (what % TOTAL & ~UINT64_C(7)), next_random(rng));
        break;
    }
}

/* The broker's turn on whatever is there; false once the link is down. */
static bool broker_turn(struct victim *v, uint64_t *rng)
{
    static uint8_t data[24 << 10];
    uint64_t r = next_random(rng);
    if (!v->is_sending && r % 4 == 0) {
        v->frame = (struct amb_frame){.type = AMB_FRAME_DELIVER,
                                      .count = 1,
                                      .data_len = (r >> 8) % 1536 * 16,
                                      .meta_len = 16};
        v->tx = (struct amb_link_tx){.frame = &v->frame, .data = data, .meta = data};
        v->is_sending = true;
        v->is_sending = amb_link_send(v->link, &v->tx) == AMB_EAGAIN;
    }
    amb_link_flow(v->link, AMB_FLOW_WINDOW, (uint32_t)(r >> 40) % AMB_HANDLES_MAX, r);
    amb_link_flush(v->link);
    assert_true(amb_link_poll(v->link, 8) <= 8 + 8 + 256);
    if (amb_link_arm(v->link, r % 2 == 0)) {
        amb_link_disarm(v->link);
    }
    return v->downs == 0;
}

static void test_random_scribbles_do_no_harm(void **state)
{
    (void)state;
    uint64_t rng = 0x2545f4914f6cdd1d;
    unsigned bodies = 0;
    for (unsigned round = 0; round < 1500; round++) {
        struct victim v;
        victim_init(&v);
        for (unsigned i = 0; i < 20; i++) {
            if (v.tail % SIZE < SIZE - 8192) {
                put_frame(&v, 1024, i % 3 == 0 ? 512 : 1024);
                if (i % 3 == 0) {
                    put_unit(&v, RING_UNIT_CHUNK, 512, NULL, 0);
                }
            }
            if (i > 3) {
                scribble(&v, &rng);
            }
            if (!broker_turn(&v, &rng)) {
                break;
            }
        }
        bodies += v.bodies;
        victim_fini(&v);
    }
    assert_true(bodies > 1500);
}

struct scribbler {
    struct victim *victim;
    _Atomic bool is_over;
    uint64_t rng;
};

static void *scribbler_run(void *arg)
{
    struct scribbler *s = arg;
    while (!atomic_load_explicit(&s->is_over, memory_order_relaxed)) {
        scribble(s->victim, &s->rng);
    }
    return NULL;
}

static void test_scribbles_while_the_broker_works_do_no_harm(void **state)
{
    (void)state;
    uint64_t rng = 0x9e3779b97f4a7c15;
    for (unsigned round = 0; round < 150; round++) {
        struct victim v;
        victim_init(&v);
        struct scribbler s = {.victim = &v, .rng = rng + round};
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, scribbler_run, &s), 0);
        for (unsigned i = 0; i < 200; i++) {
            if (v.tail % SIZE < SIZE - 8192) {
                put_frame(&v, 1024, 1024);
            }
            if (!broker_turn(&v, &rng)) {
                break;
            }
        }
        atomic_store(&s.is_over, true);
        assert_int_equal(pthread_join(thread, NULL), 0);
        victim_fini(&v);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_unit_by_hand_is_received),
        cmocka_unit_test(test_a_tail_out_of_range_takes_the_link_down),
        cmocka_unit_test(test_a_tail_that_goes_back_takes_the_link_down),
        cmocka_unit_test(test_a_head_out_of_range_takes_the_link_down),
        cmocka_unit_test(test_malformed_units_take_the_link_down),
        cmocka_unit_test(test_flow_values_of_foreign_kinds_take_the_link_down),
        cmocka_unit_test(test_flow_bits_beyond_the_map_are_ignored),
        cmocka_unit_test(test_a_poll_is_bounded_however_much_there_is),
        cmocka_unit_test(test_a_client_that_uses_its_bell_up_does_not_block),
        cmocka_unit_test(test_a_client_that_fills_its_bell_does_not_block),
        cmocka_unit_test(test_random_scribbles_do_no_harm),
        cmocka_unit_test(test_scribbles_while_the_broker_works_do_no_harm),
    };
    return cmocka_run_group_tests_name("ring, hostile", tests, NULL, NULL);
}
