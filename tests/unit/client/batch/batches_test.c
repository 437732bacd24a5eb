/* SPDX-License-Identifier: Apache-2.0 */
/* The memory of batches. Packed copies are the same batch. The memory of closed batches has a
 * limit, at which publishing waits, and nothing waits for it in vain. */
#include "tests/unit/client/session.h"

#include "client/batch/batches.h"

#include <stdlib.h>

#define KIB UINT64_C(1024)
#define MIB (KIB * 1024)
#define WAIT (20 * AMB_SEC) /* long, for busy machines */
#define PUBS 8u             /* FAKE_HANDLES */

static struct fake_options ring = {.window = 64 * MIB};
static struct fake_options stream = {.link = AMB_LINK_STREAM, .window = 64 * MIB};
static struct fake_options leases = {.window = 64 * MIB, .lease_bytes = 64 * MIB};

static void a_packed_batch_is_the_same_in_less_memory(void **state)
{
    (void)state;
    struct amb_batch *batch = amb_batch_create(60000);
    assert_non_null(batch);
    amb_batch_add(batch, "one", 3);
    amb_batch_add(batch, "", 0);
    amb_batch_add(batch, "three", 5);
    assert_int_equal(amb_batch_add_props(batch, (const uint8_t *)"props", 5, 7, 9), AMB_OK);
    uint64_t size = amb_batch_size(batch), copy_size = amb_batch_copy_size(batch);
    assert_true(copy_size < 1024 && amb_batch_whole(batch) > 120000);
    struct amb_batch *copy = amb_batch_copy(batch, aligned_alloc(64, 1024));
    copy->owned_len = 1024;
    assert_int_equal(amb_batch_whole(copy), 1024);
    assert_int_equal(amb_batch_size(copy), size);
    assert_int_equal(amb_batch_size(batch), size);
    for (int i = 0; i < 2; i++) { /* It may be sent twice. */
        amb_batch_close(copy);
        assert_int_equal(copy->out.frame.type, AMB_FRAME_BATCH);
        assert_int_equal(copy->out.frame.flags, AMB_FRAME_FLAG_TTL);
        assert_int_equal(copy->out.frame.count, 3);
        assert_int_equal(copy->out.frame.data_len + copy->out.frame.meta_len, size);
        assert_memory_equal(copy->out.tx.data, batch->out.tx.data, copy->out.frame.data_len);
        assert_memory_equal(copy->out.tx.meta, batch->out.tx.meta, copy->out.frame.meta_len);
        assert_ptr_not_equal(copy->out.tx.meta, batch->out.tx.meta);
    }
    free(copy);
    amb_batch_destroy(&batch);
}

struct eight {
    struct session s;
    struct amb_pub *pubs[PUBS];
};

static void open_eight(struct eight *eight, const struct fake_options *options, uint64_t max)
{
    session_open(&eight->s, options, AMB_OPTIONS(.send_memory_max = max));
    for (unsigned i = 0; i < PUBS; i++) {
        assert_int_equal(amb_pub_open(eight->s.conn, "a",
                                      AMB_PUB(.linger_ns = 1, .window_msgs = 1 << 20),
                                      &eight->pubs[i]),
                         AMB_OK);
    }
}

/* Short batches on eight publishers in turn, until one has no room. Returns how many messages. */
static uint64_t fill(struct eight *eight, size_t len, uint64_t *most)
{
    static const char payload[60000];
    uint64_t sent = 0;
    *most = 0;
    for (;; sent++) {
        struct amb_pub *pub = eight->pubs[sent % PUBS];
        enum amb_status status = amb_pub_send(pub, payload, len, AMB_NOWAIT);
        if (status == AMB_EAGAIN) {
            return sent;
        }
        assert_int_equal(status, AMB_OK);
        (void)!amb_pub_flush(pub, 0, AMB_NOWAIT);
        uint64_t held = atomic_load(&eight->s.conn->batches.bytes);
        *most = held > *most ? held : *most;
        assert_true(sent < 1000000);
    }
}

static void drained(struct eight *eight, uint64_t sent)
{
    for (unsigned i = 0; i < PUBS; i++) {
        assert_int_equal(amb_pub_flush(eight->pubs[i], 0, WAIT), AMB_OK);
    }
    fake_broker_look(eight->s.fake, &eight->s.seen);
    uint64_t come = 0;
    for (unsigned i = 0; i < PUBS; i++) {
        come += eight->s.seen.msgs[i];
    }
    assert_int_equal(come, sent);
    assert_int_equal(atomic_load(&eight->s.conn->batches.bytes), 0);
}

static void at_the_limit_publishing_waits_and_all_of_it_arrives(void **state)
{
    struct eight eight;
    uint64_t most;
    open_eight(&eight, *state, 4 * MIB);
    fake_broker_stall(eight.s.fake, true);
    uint64_t sent = fill(&eight, 100, &most);
    /* Not before the limit, and then by one batch at most. */
    assert_true(most >= 4 * MIB && most < 4 * MIB + 200 * KIB);
    /* Short ones are packed: else 4 MiB would be thirty of them, beside what the link takes. */
    assert_true(sent > 3000);
    struct amb_pub_info info = AMB_INIT(amb_pub_info);
    assert_int_equal(amb_pub_stat(eight.pubs[0], &info), AMB_OK);
    assert_int_equal(info.blocked, AMB_BLOCKED_MEMORY);
    unsigned next = (unsigned)(sent % PUBS);
    assert_int_equal(amb_pub_send(eight.pubs[next], "x", 1, 20 * AMB_MS), AMB_ETIMEDOUT);
    struct amb_lease *lease;
    assert_int_equal(amb_lease(eight.pubs[0], 10, AMB_NOWAIT, &lease), AMB_EAGAIN);
    assert_int_equal(amb_lease(eight.pubs[0], 10, 20 * AMB_MS, &lease), AMB_ETIMEDOUT);
    fake_broker_stall(eight.s.fake, false);
    assert_int_equal(amb_pub_send(eight.pubs[next], "x", 1, WAIT), AMB_OK);
    drained(&eight, sent + 1);
    session_close(&eight.s);
}

static void full_batches_are_not_copied_and_count_whole(void **state)
{
    struct eight eight;
    uint64_t most;
    open_eight(&eight, *state, 4 * MIB);
    fake_broker_stall(eight.s.fake, true);
    uint64_t sent = fill(&eight, 59000, &most);
    assert_true(most >= 4 * MIB && most < 4 * MIB + 200 * KIB);
    fake_broker_stall(eight.s.fake, false);
    drained(&eight, sent);
    session_close(&eight.s);
}

static void what_is_larger_than_the_rest_passes_when_nothing_is_held(void **state)
{
    struct eight eight;
    uint64_t most;
    open_eight(&eight, *state, MIB);
    static char payload[2000000]; /* The broker takes 2 MiB. */
    const struct amb_iov pieces[] = {{payload, 1000000}, {payload, 1000000}};
    const struct amb_out *large = AMB_OUT(.iov = pieces, .iov_count = 2);
    assert_int_equal(amb_pub_post(eight.pubs[0], large, WAIT, NULL), AMB_OK);
    assert_int_equal(amb_pub_flush(eight.pubs[0], 0, WAIT), AMB_OK);
    fake_broker_stall(eight.s.fake, true);
    uint64_t sent = fill(&eight, 100, &most);
    assert_int_equal(amb_pub_post(eight.pubs[0], large, AMB_NOWAIT, NULL), AMB_EAGAIN);
    assert_int_equal(amb_pub_post(eight.pubs[0], large, 20 * AMB_MS, NULL), AMB_ETIMEDOUT);
    fake_broker_stall(eight.s.fake, false);
    assert_int_equal(amb_pub_post(eight.pubs[0], large, WAIT, NULL), AMB_OK);
    drained(&eight, sent + 2);
    session_close(&eight.s);
}

static void a_named_publisher_keeps_as_much_and_passes_its_own_batch(void **state)
{
    struct session s;
    session_open(&s, *state, AMB_OPTIONS(.send_memory_max = MIB));
    struct amb_pub *pub;
    assert_int_equal(amb_pub_open(s.conn, "a", AMB_PUB(.name = "me", .linger_ns = AMB_SEC), &pub),
                     AMB_OK);
    static char payload[2000000];
    /* A batch that waits, and behind it what alone is more than all there is. */
    for (int i = 0; i < 3; i++) {
        assert_int_equal(amb_pub_send(pub, "small", 5, WAIT), AMB_OK);
        assert_int_equal(amb_pub_send(pub, payload, sizeof(payload), WAIT), AMB_OK);
    }
    assert_int_equal(amb_pub_flush(pub, 0, WAIT), AMB_OK);
    assert_int_equal(atomic_load(&s.conn->batches.bytes), 0);
    fake_broker_hold(s.fake, true); /* Nothing is confirmed, so all is kept. */
    uint64_t sent = 6;
    while (amb_pub_send(pub, payload, 3000, AMB_NOWAIT) == AMB_OK) {
        assert_true(sent++ < 10000);
    }
    assert_true(sent > 6 + 8 * 19);
    assert_true(atomic_load(&s.conn->batches.bytes) < MIB + 200 * KIB);
    fake_broker_hold(s.fake, false);
    assert_int_equal(amb_pub_send(pub, payload, 3000, WAIT), AMB_OK);
    assert_int_equal(amb_pub_flush(pub, 0, WAIT), AMB_OK);
    fake_broker_look(s.fake, &s.seen);
    assert_int_equal(s.seen.msgs[0], sent + 1);
    session_close(&s);
}

static void commits_are_packed_too(void **state)
{
    struct eight eight;
    open_eight(&eight, *state, 4 * MIB);
    struct amb_lease *lease;
    uint64_t sent = 0;
    for (bool is_stalled = false; sent < 1000; sent++) { /* 1,000 of 160 KB would be too much. */
        struct amb_pub *pub = eight.pubs[sent % PUBS];
        assert_int_equal(amb_lease(pub, 100, WAIT, &lease), AMB_OK);
        memset(amb_lease_data(lease), 'l', 100);
        assert_int_equal(amb_lease_commit(lease, NULL, NULL), AMB_OK);
        (void)!amb_pub_flush(pub, 0, AMB_NOWAIT);
        if (!is_stalled) {
            assert_int_equal(amb_pub_flush(pub, 0, WAIT), AMB_OK);
            fake_broker_stall(eight.s.fake, true);
            static const char payload[60000];
            for (int i = 0; i < 30; i++, sent++) { /* The link is full. */
                assert_int_equal(amb_pub_send(pub, payload, 59000, WAIT), AMB_OK);
            }
            is_stalled = true;
        }
    }
    assert_true(atomic_load(&eight.s.conn->batches.bytes) < 4 * MIB);
    fake_broker_stall(eight.s.fake, false);
    drained(&eight, sent);
    assert_true(eight.s.seen.commit_msgs[1] > 0);
    session_close(&eight.s);
}

static void ignore_settled(struct amb_pub *pub, const struct amb_settled *settled, void *arg)
{
    (void)pub;
    (void)settled;
    (void)arg;
}

/* The broker ends who has 16 Ki receipts unread. */
static void whoever_sends_what_has_waited_reads_as_fast(void **state)
{
    struct session s;
    session_open(&s, *state, AMB_OPTIONS(.send_memory_max = 64 * MIB));
    struct amb_pub *pub;
    assert_int_equal(
        amb_pub_open(s.conn, "a",
                     AMB_PUB(.linger_ns = 1, .window_msgs = 1 << 20, .on_settled = ignore_settled),
                     &pub),
        AMB_OK);
    fake_broker_stall(s.fake, true);
    for (unsigned i = 0; i < 40000; i++) { /* Each is a batch of its own. */
        assert_int_equal(amb_pub_send(pub, "short", 5, WAIT), AMB_OK);
        (void)!amb_pub_flush(pub, 0, AMB_NOWAIT);
    }
    fake_broker_stall(s.fake, false);
    assert_int_equal(amb_pub_flush(pub, 0, WAIT), AMB_OK);
    fake_broker_look(s.fake, &s.seen);
    assert_true(s.seen.batches[0] > 30000);
    assert_true(s.seen.most_queued < 4096);
    session_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_packed_batch_is_the_same_in_less_memory),
        cmocka_unit_test_prestate(at_the_limit_publishing_waits_and_all_of_it_arrives, &ring),
        cmocka_unit_test_prestate(at_the_limit_publishing_waits_and_all_of_it_arrives, &stream),
        cmocka_unit_test_prestate(full_batches_are_not_copied_and_count_whole, &ring),
        cmocka_unit_test_prestate(full_batches_are_not_copied_and_count_whole, &stream),
        cmocka_unit_test_prestate(what_is_larger_than_the_rest_passes_when_nothing_is_held, &ring),
        cmocka_unit_test_prestate(what_is_larger_than_the_rest_passes_when_nothing_is_held,
                                  &stream),
        cmocka_unit_test_prestate(a_named_publisher_keeps_as_much_and_passes_its_own_batch, &ring),
        cmocka_unit_test_prestate(whoever_sends_what_has_waited_reads_as_fast, &ring),
        cmocka_unit_test_prestate(whoever_sends_what_has_waited_reads_as_fast, &stream),
        cmocka_unit_test_prestate(commits_are_packed_too, &leases),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
