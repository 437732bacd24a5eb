/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tables of records on the stream link. Where all records are the same, one of them crosses the
 * socket, and the body arrives as it was sent.
 */
#include "wire/codec/frame.h"
#include "wire/link/stream/stream.h"
#include "wire/link/stream/stream_state.h"

#include <endian.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#define UNIT_HEAD 16u
#define RUN 4u
#define BODY_MAX (AMB_STREAM_CHUNK + 65536u)

struct end {
    struct amb_link *link;
    uint8_t *body; /* BODY_MAX bytes and a guard behind them */
    unsigned bodies, failed, sent, downs;
    bool discards;
};

struct pair {
    struct end end[2];
    int fd[2];
};

static enum amb_status on_frame(void *arg, const struct amb_frame *frame, void **dst, void **cookie,
                                struct amb_link_mem **mem)
{
    struct end *end = arg;
    (void)cookie;
    (void)mem;
    assert_true(amb_frame_body_len(frame) <= BODY_MAX);
    memset(end->body, 0xee, BODY_MAX + 16);
    *dst = end->discards ? NULL : end->body;
    return AMB_OK;
}

static enum amb_status on_body(void *arg, void *cookie, enum amb_status status)
{
    struct end *end = arg;
    (void)cookie;
    *(status == AMB_OK ? &end->bodies : &end->failed) += 1;
    return AMB_OK;
}

static enum amb_status on_flow(void *arg, enum amb_flow_kind kind, uint32_t handle, uint64_t value)
{
    (void)arg;
    (void)kind;
    (void)handle;
    (void)value;
    return AMB_OK;
}

static void on_sent(void *arg, struct amb_link_tx *tx, enum amb_status status)
{
    struct end *end = arg;
    (void)tx;
    (void)status;
    end->sent++;
}

static void on_down(void *arg, enum amb_status why, const char *text)
{
    struct end *end = arg;
    (void)why;
    (void)text;
    end->downs++;
}

static void on_closed(void *arg)
{
    (void)arg;
}

static const struct amb_link_events events = {.on_frame = on_frame,
                                              .on_body = on_body,
                                              .on_flow = on_flow,
                                              .on_sent = on_sent,
                                              .on_down = on_down,
                                              .on_closed = on_closed};

static void end_open(struct pair *pair, unsigned i)
{
    pair->end[i].body = malloc(BODY_MAX + 16);
    assert_non_null(pair->end[i].body);
    assert_int_equal(amb_stream_create(pair->fd[i], &events, &pair->end[i], &pair->end[i].link),
                     AMB_OK);
}

/* Both ends are links, or end 0 is a bare socket. */
static void pair_open(struct pair *pair, bool is_raw)
{
    *pair = (struct pair){0};
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair->fd), 0);
    for (unsigned i = is_raw ? 1 : 0; i < 2; i++) {
        end_open(pair, i);
    }
}

static void pair_close(struct pair *pair)
{
    for (unsigned i = 0; i < 2; i++) {
        if (pair->end[i].link != NULL) {
            assert_true(amb_link_close(pair->end[i].link));
            free(pair->end[i].body);
        } else {
            (void)close(pair->fd[i]);
        }
    }
}

static struct amb_frame batch_of(uint32_t count, uint32_t each)
{
    return (struct amb_frame){.type = AMB_FRAME_BATCH,
                              .seq = 1,
                              .count = count,
                              .meta_len = count * (uint32_t)sizeof(struct amb_record),
                              .data_len = (uint64_t)count * each};
}

/* Sends the frame with these bytes. Returns how many crossed the socket. */
static uint64_t cross(struct pair *pair, const struct amb_frame *frame, const uint8_t *data,
                      const struct amb_record *records)
{
    struct amb_link_tx tx = {.frame = frame, .data = data, .meta = records};
    uint64_t before = pair->end[1].link->stats.bytes_received;
    unsigned bodies = pair->end[1].bodies;
    assert_int_equal(amb_link_send(pair->end[0].link, &tx), AMB_EAGAIN);
    while (pair->end[1].bodies == bodies) {
        amb_link_flush(pair->end[0].link);
        (void)amb_link_poll(pair->end[0].link, 16);
        (void)amb_link_poll(pair->end[1].link, 16);
        assert_int_equal(pair->end[1].downs, 0);
    }
    assert_memory_equal(pair->end[1].body, data, frame->data_len);
    assert_memory_equal(pair->end[1].body + frame->data_len, records, frame->meta_len);
    assert_int_equal(pair->end[1].body[frame->data_len + frame->meta_len], 0xee);
    return pair->end[1].link->stats.bytes_received - before;
}

static uint8_t *pattern(size_t size)
{
    uint8_t *data = malloc(size);
    assert_non_null(data);
    for (size_t i = 0; i < size; i++) {
        data[i] = (uint8_t)(i * 31 + i / 256);
    }
    return data;
}

static struct amb_record *alike(uint32_t count, uint32_t len)
{
    struct amb_record *records = calloc(count, sizeof(*records));
    assert_non_null(records);
    for (uint32_t i = 0; i < count; i++) {
        records[i] = (struct amb_record){.len = len, .ttl_ms = 77};
    }
    return records;
}

static void test_records_alike_cross_once(void **state)
{
    (void)state;
    struct pair pair;
    pair_open(&pair, false);
    for (uint32_t count = 1; count <= 700; count = count * 3 + 1) {
        uint8_t *data = pattern((size_t)count * 64);
        struct amb_record *records = alike(count, 61);
        struct amb_frame frame = batch_of(count, 64);
        uint64_t bytes = cross(&pair, &frame, data, records);
        uint64_t table = count >= 4 ? 16 : 16 * count;
        assert_int_equal(bytes, UNIT_HEAD + AMB_FRAME_HEAD_SIZE + 64 * count + table);
        free(data);
        free(records);
    }
    pair_close(&pair);
}

static void test_one_record_that_differs_brings_all_of_them(void **state)
{
    (void)state;
    struct pair pair;
    pair_open(&pair, false);
    enum {
        COUNT = 50
    };
    uint8_t *data = pattern((size_t)COUNT * 64);
    struct amb_frame frame = batch_of(COUNT, 64);
    for (uint32_t odd = 0; odd < COUNT; odd++) {
        struct amb_record *records = alike(COUNT, 64);
        records[odd].ttl_ms++;
        assert_int_equal(cross(&pair, &frame, data, records),
                         UNIT_HEAD + AMB_FRAME_HEAD_SIZE + COUNT * (64 + 16));
        free(records);
    }
    free(data);
    pair_close(&pair);
}

static void test_a_body_in_several_units_is_sent_whole(void **state)
{
    (void)state;
    struct pair pair;
    pair_open(&pair, false);
    const uint32_t count = AMB_STREAM_CHUNK / 4096;
    uint8_t *data = pattern((size_t)count * 4096);
    struct amb_record *records = alike(count, 4096);
    struct amb_frame frame = batch_of(count, 4096);
    assert_int_equal(cross(&pair, &frame, data, records),
                     UNIT_HEAD + AMB_FRAME_HEAD_SIZE + UNIT_HEAD + (uint64_t)count * (4096 + 16));
    free(data);
    free(records);
    pair_close(&pair);
}

static void send_raw(struct pair *pair, uint32_t len, const struct amb_frame *frame,
                     const uint8_t *bytes, size_t size)
{
    uint32_t unit[4] = {htole32(RUN), htole32(len), 0, 0};
    uint8_t head[AMB_FRAME_HEAD_SIZE];
    amb_frame_encode(frame, head);
    const struct {
        const void *bytes;
        size_t len;
    } parts[] = {{unit, sizeof(unit)}, {head, sizeof(head)}, {bytes, size}};
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(send(pair->fd[0], parts[i].bytes, parts[i].len, MSG_NOSIGNAL),
                         parts[i].len);
    }
    while (amb_link_poll(pair->end[1].link, 16) != 0) {
    }
}

static void test_a_run_that_is_thrown_away_leaves_the_link_in_order(void **state)
{
    (void)state;
    struct pair pair;
    pair_open(&pair, true);
    uint8_t *data = pattern(8 * 64 + 16);
    struct amb_frame frame = batch_of(8, 64);
    for (unsigned turn = 0; turn < 2; turn++) {
        pair.end[1].discards = turn == 0;
        send_raw(&pair, AMB_FRAME_HEAD_SIZE + 8 * 64 + 16, &frame, data, 8 * 64 + 16);
        assert_int_equal(pair.end[1].bodies, turn);
    }
    for (unsigned i = 0; i < 8; i++) {
        assert_memory_equal(pair.end[1].body + 512 + (size_t)i * 16, data + 512, 16);
    }
    free(data);
    pair_close(&pair);
}

/* The bytes that a run leaves out are made up from lengths: they must fit each other. */
static void test_runs_that_do_not_add_up_are_refused(void **state)
{
    (void)state;
    struct amb_frame good = batch_of(8, 64), single = batch_of(1, 64), odd = batch_of(8, 64);
    struct amb_frame commit = good, nothing = {.type = AMB_FRAME_RELEASE_RANGE, .count = 1};
    odd.meta_len += 8;
    commit.type = AMB_FRAME_COMMIT;
    const struct {
        const struct amb_frame *frame;
        uint32_t body;
    } runs[] = {{&good, 8 * 64},          {&good, 8 * 64 + 8}, {&good, 8 * 64 + 32}, {&good, 0},
                {&good, 8 * 64 + 8 * 16}, {&single, 64 + 16},  {&odd, 8 * 64 + 16},  {&commit, 16},
                {&commit, 8 * 64 + 16},   {&nothing, 0},       {&nothing, 16}};
    uint8_t *data = pattern(1024);
    for (size_t n = 0; n < sizeof(runs) / sizeof(runs[0]); n++) {
        struct pair pair;
        pair_open(&pair, true);
        send_raw(&pair, AMB_FRAME_HEAD_SIZE + runs[n].body, runs[n].frame, data, runs[n].body);
        assert_int_equal(pair.end[1].downs, 1);
        assert_int_equal(pair.end[1].bodies, 0);
        pair_close(&pair);
    }
    free(data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_records_alike_cross_once),
        cmocka_unit_test(test_one_record_that_differs_brings_all_of_them),
        cmocka_unit_test(test_a_body_in_several_units_is_sent_whole),
        cmocka_unit_test(test_a_run_that_is_thrown_away_leaves_the_link_in_order),
        cmocka_unit_test(test_runs_that_do_not_add_up_are_refused),
    };
    return cmocka_run_group_tests_name("stream, runs of records", tests, NULL, NULL);
}
