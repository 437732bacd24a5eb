/* SPDX-License-Identifier: Apache-2.0 */
/*
 * In steady state nothing between a batch's arrival and the return of its deliveries touches the
 * heap. That holds on one shard or on three, by copy or in place, sent or leased. The linker sends
 * the heap's functions through counters here (--wrap), and the link is one that allocates nothing
 * itself.
 */
#include "broker/delivery/reader/subscription.h"
#include "broker/ingest/publisher.h"
#include "broker/session/session.h"
#include "broker/shard/entry.h"
#include "broker/shard/tally.h"
#include "broker/topic/topic.h"
#include "broker/worker/dispatch.h"
#include "tests/support/shard/shard_client.h"
#include "tests/support/shard/shard_harness.h"
#include "tests/support/shard/shard_lease.h"
#include "tests/support/shard/shard_queue.h"
#include "tests/support/shard/shard_trace.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define WARM_UP 2000u
#define MEASURED 10000u

static unsigned long heap_calls;
static bool is_counting;

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *old, size_t size);
void *__real_aligned_alloc(size_t alignment, size_t size);
void __real_free(void *memory);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *old, size_t size);
void *__wrap_aligned_alloc(size_t alignment, size_t size);
void __wrap_free(void *memory);

void *__wrap_malloc(size_t size)
{
    heap_calls += is_counting;
    return __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
    heap_calls += is_counting;
    return __real_calloc(count, size);
}

void *__wrap_realloc(void *old, size_t size)
{
    heap_calls += is_counting;
    return __real_realloc(old, size);
}

void *__wrap_aligned_alloc(size_t alignment, size_t size)
{
    heap_calls += is_counting;
    return __real_aligned_alloc(alignment, size);
}

void __wrap_free(void *memory)
{
    heap_calls += is_counting;
    __real_free(memory);
}

/* A client that is its link. It publishes `left` batches, one a poll and within its window, and
 * gives back each delivery at the next poll. */
struct short_link {
    struct amb_link link;
    struct amb_session *session;
    unsigned left;
    uint64_t batches, bytes, accepted, window;
    uint64_t delivered, released, maps;
    uint64_t ready;                   /* a segment to say SEG_READY for */
    const struct client_lease *lease; /* NULL: batches; else commits, in slots that are free */
    uint64_t freed, freed_early;
    bool acks; /* its returns, too */
};

static const uint32_t message_len = 200;

static struct short_link *short_of(struct amb_link *link)
{
    return AMB_CONTAINER_OF(link, struct short_link, link);
}

static enum amb_status short_send(struct amb_link *link, struct amb_link_tx *tx)
{
    struct short_link *s = short_of(link);
    uint8_t type = tx->frame->type;
    s->freed_early += type == AMB_FRAME_FREED ? tx->frame->count : 0;
    if (type == AMB_FRAME_DELIVER || type == AMB_FRAME_MAP || type == AMB_FRAME_MAP_LEASED) {
        assert_int_equal(tx->frame->number, s->delivered + 1);
        assert_int_equal(tx->frame->lost, 0);
        s->delivered++;
        s->maps += type != AMB_FRAME_DELIVER;
    }
    return AMB_OK;
}

static void short_flow(struct amb_link *link, enum amb_flow_kind kind, uint32_t handle,
                       uint64_t value)
{
    struct short_link *s = short_of(link);
    (void)handle;
    if (kind == AMB_FLOW_ACCEPTED) {
        s->accepted = value;
    } else if (kind == AMB_FLOW_WINDOW) {
        s->window = value;
    } else if (kind == AMB_FLOW_FREED) {
        s->freed = value;
    }
}

static void short_flush(struct amb_link *link)
{
    (void)link;
}

/* One message in each commit, in the slots in turn. */
static void short_commit(struct short_link *s)
{
    struct amb_frame frame = {
        .type = AMB_FRAME_COMMIT,
        .count = 1,
        .data_len = amb_payload_padded(message_len),
        .meta_len = sizeof(struct amb_record) + sizeof(uint64_t),
        .seq = s->batches + 1,
        .number = s->batches + 1,
        .segment = s->lease->segment,
    };
    uint64_t slots = s->lease->size / s->lease->slot;
    if (s->batches - s->freed >= slots) {
        return;
    }
    uint64_t offset = s->batches % slots * s->lease->slot;
    s->batches++;
    s->left--;
    void *dst = NULL, *cookie = NULL;
    struct amb_link_mem *mem = NULL;
    assert_int_equal(s->link.events->on_frame(s->link.arg, &frame, &dst, &cookie, &mem), AMB_OK);
    assert_non_null(dst);
    *(struct amb_record *)dst = (struct amb_record){.len = message_len};
    memcpy((uint8_t *)dst + sizeof(struct amb_record), &offset, sizeof(offset));
    assert_int_equal(s->link.events->on_body(s->link.arg, cookie, AMB_OK), AMB_OK);
}

static void short_publish(struct short_link *s)
{
    if (s->lease != NULL) {
        short_commit(s);
        return;
    }
    uint64_t padded = amb_payload_padded(message_len);
    struct amb_frame frame = {
        .type = AMB_FRAME_BATCH,
        .count = 4,
        .data_len = 4 * padded,
        .meta_len = 4 * sizeof(struct amb_record),
        .seq = s->batches + 1,
    };
    if (s->bytes + frame.data_len + frame.meta_len > s->window) {
        return;
    }
    s->batches++;
    s->bytes += frame.data_len + frame.meta_len;
    s->left--;
    void *dst = NULL, *cookie = NULL;
    struct amb_link_mem *mem = NULL;
    assert_int_equal(s->link.events->on_frame(s->link.arg, &frame, &dst, &cookie, &mem), AMB_OK);
    assert_non_null(dst);
    struct amb_record *records = (struct amb_record *)(void *)((uint8_t *)dst + frame.data_len);
    for (unsigned i = 0; i < 4; i++) {
        records[i] = (struct amb_record){.len = message_len};
    }
    assert_int_equal(s->link.events->on_body(s->link.arg, cookie, AMB_OK), AMB_OK);
}

static unsigned short_poll(struct amb_link *link, unsigned budget)
{
    struct short_link *s = short_of(link);
    (void)budget;
    if (s->ready != 0) {
        const struct amb_frame frame = {.type = AMB_FRAME_SEG_READY, .segment = s->ready};
        void *dst, *cookie;
        struct amb_link_mem *mem;
        s->ready = 0;
        assert_int_equal(link->events->on_frame(link->arg, &frame, &dst, &cookie, &mem), AMB_OK);
    }
    for (uint64_t i = s->released + 1; s->acks && i <= s->delivered; i++) {
        const struct amb_frame frame = {
            .type = AMB_FRAME_ACK, .number = i, .count = 4, .status = AMB_ACK_KIND_ACK};
        void *dst, *cookie;
        struct amb_link_mem *mem;
        assert_int_equal(link->events->on_frame(link->arg, &frame, &dst, &cookie, &mem), AMB_OK);
    }
    if (s->delivered > s->released) {
        s->released = s->delivered;
        assert_int_equal(link->events->on_flow(link->arg, AMB_FLOW_RELEASE, 0, s->released),
                         AMB_OK);
    }
    if (s->left > 0) {
        short_publish(s);
    }
    return s->left > 0;
}

static bool short_arm(struct amb_link *link, bool want_flow)
{
    (void)link;
    (void)want_flow;
    return false;
}

static void short_disarm(struct amb_link *link)
{
    (void)link;
}

static int short_fd(const struct amb_link *link)
{
    (void)link;
    return -1;
}

static bool short_close(struct amb_link *link)
{
    (void)link;
    return true;
}

static void short_describe(const struct amb_link *link, char *out, size_t size)
{
    (void)link;
    out[0] = size > 0 ? '\0' : out[0];
}

static const struct amb_link_ops short_ops = {
    .kind = AMB_LINK_SIM,
    .send = short_send,
    .flow = short_flow,
    .flush = short_flush,
    .poll = short_poll,
    .arm = short_arm,
    .disarm = short_disarm,
    .fd = short_fd,
    .close = short_close,
    .describe = short_describe,
};

/* The client's session gets the short link in place of its own. */
static struct shard_client *make(struct shard_harness *h, unsigned shard, bool may_map,
                                 struct short_link *link)
{
    struct shard_client *client =
        shard_client_create(h, shard, &(struct client_options){.may_map = may_map});
    assert_true(amb_link_close(client->session->link));
    *link = (struct short_link){
        .link = {.ops = &short_ops, .events = &amb_dispatch_events, .arg = client->session},
        .session = client->session,
    };
    client->session->link = &link->link;
    return client;
}

static bool is_tracing; /* the tests that follow have a trace armed while they measure */

/* As amb_order_trace_arm does it. NULL: there is none. */
static struct amb_trace *trace_begin(struct shard_harness *h)
{
    for (unsigned i = 0; i < h->count && is_tracing; i++) {
        amb_tallies_reserve(&h->shards[i], AMB_TRACE_BATCHES_MAX * h->count);
    }
    return is_tracing ? harness_arm(h, "a", 1, AMB_TRACE_BATCHES_MAX) : NULL;
}

static void trace_end(struct shard_harness *h, struct amb_trace *trace)
{
    if (trace != NULL) {
        assert_int_equal(trace->taken, AMB_TRACE_BATCHES_MAX);
        assert_true(harness_noted(trace, AMB_TRACE_WRITTEN, 0, NULL) >= AMB_TRACE_BATCHES_MAX);
        harness_disarm(h, &trace);
    }
}

static void pump(struct shard_harness *h, struct short_link *p, unsigned batches,
                 struct short_link *const *readers, unsigned count)
{
    uint64_t upto = p->batches + batches;
    p->left = batches;
    for (unsigned turn = 0; turn < batches * 20; turn++) {
        (void)amb_inbox_run(&h->control);
        for (unsigned i = 0; i < h->count; i++) {
            (void)harness_turn(h, i);
        }
        bool is_done = p->accepted == upto;
        for (unsigned i = 0; i < count; i++) {
            is_done = is_done && readers[i]->released == upto;
        }
        if (is_done) {
            return;
        }
    }
    fail_msg("stuck at batch %llu of %llu", (unsigned long long)p->accepted,
             (unsigned long long)upto);
}

static void run(unsigned shards, unsigned home, const unsigned *where, const bool *maps,
                unsigned count, bool is_leased)
{
    struct shard_harness *h = calloc(1, sizeof(*h));
    assert_non_null(h);
    harness_init(h, shards, NULL);
    uint32_t topic = harness_topic(h, "a", home);
    struct short_link p, readers[4], *list[4];
    struct shard_client *publisher = make(h, 0, is_leased, &p);
    client_open_pub(publisher, 0, topic, true);
    struct client_lease lease;
    if (is_leased) {
        assert_int_equal(client_lease_open(publisher, 4096, 512, &lease), AMB_OK);
        assert_int_equal(client_lease_map(publisher, &lease), AMB_OK);
        p.lease = &lease;
    }
    p.window = AMB_WINDOW_FIRST;
    struct shard_client *clients[4];
    for (unsigned i = 0; i < count; i++) {
        list[i] = &readers[i];
        clients[i] = make(h, where[i], maps[i], &readers[i]);
        client_subscribe(clients[i], 0, topic, NULL);
    }
    heap_calls = 0;
    is_counting = true;
    pump(h, &p, 100, list, count);
    is_counting = false;
    assert_true(heap_calls > 0); /* The counters count: pools and tables have grown. */
    for (unsigned i = 0; i < count; i++) {
        assert_int_equal(clients[i]->segment_count, maps[i]);
        readers[i].ready = maps[i] ? clients[i]->segments[0].id : 0;
    }
    pump(h, &p, WARM_UP, list, count);
    struct amb_trace *trace = trace_begin(h);
    heap_calls = 0;
    is_counting = true;
    pump(h, &p, MEASURED, list, count);
    is_counting = false;
    assert_int_equal(heap_calls, 0);
    trace_end(h, trace);
    for (unsigned i = 0; i < count; i++) {
        assert_true(maps[i] ? readers[i].maps >= MEASURED : readers[i].maps == 0);
    }
    if (is_leased) {
        for (unsigned i = 0; i < 8 * shards; i++) { /* the last ones' way home */
            (void)harness_turn(h, i % shards);
        }
        assert_int_equal(p.freed, p.batches);
        client_lease_fini(&lease);
    }
    harness_fini(h);
    free(h);
}

/* One member, which acknowledges each batch: on the queue's worker, or another one. */
static void run_acked(unsigned shards, unsigned queue_at, unsigned member_at)
{
    struct shard_harness *h = calloc(1, sizeof(*h));
    assert_non_null(h);
    harness_init(h, shards, NULL);
    uint32_t topic = harness_topic(h, "a", 0);
    struct harness_queue queue;
    struct short_link p, reader, *list[1] = {&reader};
    client_open_pub(make(h, 0, false, &p), 0, topic, true);
    p.window = AMB_WINDOW_FIRST;
    struct shard_client *client = make(h, member_at, false, &reader);
    reader.acks = true;
    harness_queue_open(h, queue_at, NULL, &queue);
    harness_queue_read(&queue, topic);
    client_join(client, 0, &queue, NULL);
    pump(h, &p, WARM_UP, list, 1);
    struct amb_trace *trace = trace_begin(h);
    heap_calls = 0;
    is_counting = true;
    pump(h, &p, MEASURED, list, 1);
    is_counting = false;
    assert_int_equal(heap_calls, 0);
    trace_end(h, trace);
    client_close(client, false);
    harness_settle(h);
    harness_queue_close(&queue);
    harness_fini(h);
    free(h);
}

static void test_acknowledged_batches_allocate_nothing(void **state)
{
    (void)state;
    run_acked(1, 0, 0);
    run_acked(3, 1, 2);
}

static void test_one_shard_allocates_nothing_per_batch(void **state)
{
    (void)state;
    const unsigned where[] = {0, 0};
    const bool maps[] = {false, true};
    run(1, 0, where, maps, 2, false);
    run(1, 0, where, maps, 2, true);
}

static void test_three_shards_allocate_nothing_per_batch(void **state)
{
    (void)state;
    const unsigned where[] = {0, 1, 2, 2};
    const bool maps[] = {true, false, true, false};
    run(3, 1, where, maps, 4, false);
    run(3, 1, where, maps, 4, true);
}

static void test_traced_batches_allocate_nothing(void **state)
{
    is_tracing = true;
    test_acknowledged_batches_allocate_nothing(state);
    test_one_shard_allocates_nothing_per_batch(state);
    test_three_shards_allocate_nothing_per_batch(state);
    is_tracing = false;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_acknowledged_batches_allocate_nothing),
        cmocka_unit_test(test_one_shard_allocates_nothing_per_batch),
        cmocka_unit_test(test_three_shards_allocate_nothing_per_batch),
        cmocka_unit_test(test_traced_batches_allocate_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
