/* SPDX-License-Identifier: Apache-2.0 */
/* Leases: taken, written in place, committed, abandoned, closed and forked. */
#include "tests/unit/client/session.h"

#include "wire/codec/props.h"

#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define MIB (UINT64_C(1) << 20)

static struct fake_options with_leases = {.lease_bytes = 64 * MIB, .max_message = 8 * MIB};
static struct fake_options refusing = {
    .lease_bytes = 64 * MIB, .max_message = 8 * MIB, .refuses_leases = true};
static struct fake_options on_stream = {.link = AMB_LINK_STREAM, .max_message = 8 * MIB};

static struct amb_pub *open_pub(struct session *s, const struct fake_options *options)
{
    session_open(s, options, NULL);
    struct amb_pub *pub;
    assert_int_equal(amb_pub_open(s->conn, "a", NULL, &pub), AMB_OK);
    return pub;
}

static struct amb_lease *take(struct amb_pub *pub, size_t len)
{
    struct amb_lease *lease;
    assert_int_equal(amb_lease(pub, len, 5 * AMB_SEC, &lease), AMB_OK);
    assert_non_null(amb_lease_data(lease));
    return lease;
}

static void commit_text(struct amb_pub *pub, const char *text)
{
    struct amb_lease *lease = take(pub, strlen(text));
    memcpy(amb_lease_data(lease), text, strlen(text));
    assert_int_equal(amb_lease_commit(lease, NULL, NULL), AMB_OK);
}

static void a_committed_payload_is_read_where_it_was_written(void **state)
{
    (void)state;
    struct session s;
    struct amb_pub *pub = open_pub(&s, &with_leases);
    struct amb_lease *lease = take(pub, MIB);
    memset(amb_lease_data(lease), 'x', MIB);
    uint64_t seq = 0;
    assert_int_equal(
        amb_lease_commit(
            lease, AMB_OUT(.len = 100, .content_type = "c", .key = "k", .ttl_ns = AMB_MS), &seq),
        AMB_OK);
    assert_int_equal(seq, 1);
    assert_int_equal(amb_pub_flush(pub, seq, 5 * AMB_SEC), AMB_OK);
    fake_broker_look(s.fake, &s.seen);
    assert_int_equal(s.seen.commits[0], 1);
    assert_int_equal(s.seen.bytes[0], 0);
    assert_int_equal(s.seen.last_len, amb_payload_padded(100));
    assert_int_equal(s.seen.last[99], 'x');
    struct amb_record record;
    memcpy(&record, s.seen.last_meta, sizeof(record));
    assert_int_equal(record.len, 100);
    assert_int_equal(record.ttl_ms, 1);
    struct amb_prop_view view;
    assert_true(amb_props_find(s.seen.last_meta + 24, record.props_len, AMB_PROP_KEY, &view));
    struct amb_pub_info info = AMB_INIT(amb_pub_info);
    assert_int_equal(amb_pub_stat(pub, &info), AMB_OK);
    assert_int_equal(info.settled, 1);
    assert_int_equal(info.leased, 1);
    assert_int_equal(info.leases, 0);
    assert_int_equal(info.inflight_bytes, 0);
    session_close(&s);
}

static void commits_gather_and_keep_their_place_among_sends(void **state)
{
    (void)state;
    struct session s;
    session_open(&s, &with_leases, NULL);
    struct amb_pub *pub;
    assert_int_equal(amb_pub_open(s.conn, "a", AMB_PUB(.linger_ns = AMB_SEC), &pub), AMB_OK);
    struct amb_lease *leases[200];
    for (unsigned i = 0; i < 200; i++) {
        leases[i] = take(pub, 64);
        memcpy(amb_lease_data(leases[i]), &i, sizeof(i));
    }
    fake_broker_hold(s.fake, true);
    assert_int_equal(amb_pub_send(pub, "first", 5, AMB_NOWAIT), AMB_OK);
    FAKE_WAIT(s.fake, &s.seen, s.seen.batches[0] == 1);
    /* One is in flight: company is waited for. */
    assert_int_equal(amb_pub_send(pub, "second", 6, AMB_NOWAIT), AMB_OK);
    for (unsigned i = 0; i < 200; i++) {
        uint64_t seq;
        assert_int_equal(amb_lease_commit(leases[i], NULL, &seq), AMB_OK);
        assert_int_equal(seq, 3 + i);
    }
    assert_int_equal(amb_pub_send(pub, "last", 4, AMB_NOWAIT), AMB_OK);
    fake_broker_hold(s.fake, false);
    assert_int_equal(amb_pub_flush(pub, 0, 5 * AMB_SEC), AMB_OK);
    fake_broker_look(s.fake, &s.seen);
    assert_int_equal(s.seen.msgs[0], 203);
    assert_int_equal(s.seen.commit_msgs[0], 200);
    assert_int_equal(s.seen.commits[0], 1);
    assert_int_equal(s.seen.batches[0], 4);
    assert_memory_equal(s.seen.last, "last", 4);
    session_close(&s);
}

static void a_commit_behind_a_stuck_batch_waits_for_it_and_not_the_caller(void **state)
{
    (void)state;
    struct session s;
    struct fake_options options = with_leases;
    options.window = 1024;
    struct amb_pub *pub = open_pub(&s, &options);
    fake_broker_hold_window(s.fake, true);
    static const char payload[600];
    struct amb_lease *one = take(pub, 10), *two = take(pub, 5000);
    assert_int_equal(amb_pub_send(pub, payload, sizeof(payload), AMB_NOWAIT), AMB_OK);
    assert_int_equal(amb_pub_send(pub, payload, sizeof(payload), AMB_NOWAIT), AMB_OK);
    uint64_t seq;
    assert_int_equal(amb_lease_commit(one, NULL, &seq), AMB_OK);
    assert_int_equal(amb_lease_commit(two, NULL, &seq), AMB_OK);
    assert_int_equal(seq, 4);
    /* Nothing overtakes them. */
    assert_int_equal(amb_pub_send(pub, "x", 1, AMB_NOWAIT), AMB_EAGAIN);
    assert_int_equal(amb_pub_flush(pub, 0, 5 * AMB_MS), AMB_ETIMEDOUT);
    fake_broker_look(s.fake, &s.seen);
    assert_int_equal(s.seen.commits[0], 0);
    fake_broker_window(s.fake, 0, 65536);
    assert_int_equal(amb_pub_send(pub, "x", 1, 5 * AMB_SEC), AMB_OK);
    assert_int_equal(amb_pub_flush(pub, 0, 5 * AMB_SEC), AMB_OK);
    fake_broker_look(s.fake, &s.seen);
    assert_int_equal(s.seen.commit_msgs[0], 2);
    assert_int_equal(s.seen.msgs[0], 5);
    session_close(&s);
}

static void a_lease_waits_for_a_slot(void **state)
{
    (void)state;
    struct session s;
    struct fake_options options = with_leases;
    options.lease_bytes = 16 * MIB;
    struct amb_pub *pub = open_pub(&s, &options);
    fake_broker_hold_freed(s.fake, true);
    for (unsigned i = 0; i < 4; i++) {
        assert_int_equal(amb_lease_commit(take(pub, 4 * MIB), NULL, NULL), AMB_OK);
    }
    struct amb_lease *lease = (void *)1;
    assert_int_equal(amb_lease(pub, 4 * MIB, AMB_NOWAIT, &lease), AMB_EAGAIN);
    assert_null(lease);
    assert_int_equal(amb_lease(pub, 4 * MIB, 5 * AMB_MS, &lease), AMB_ETIMEDOUT);
    assert_int_equal(amb_pub_flush(pub, 0, 5 * AMB_SEC), AMB_OK); /* settled, but in use */
    fake_broker_free(s.fake, 3, 1);
    lease = take(pub, 4 * MIB);
    fake_broker_look(s.fake, &s.seen);
    assert_int_equal(s.seen.commits[0], 4);
    memset(amb_lease_data(lease), 'y', 100);
    assert_int_equal(amb_lease_commit(lease, NULL, NULL), AMB_OK);
    fake_broker_hold_freed(s.fake, false);
    lease = take(pub, 4 * MIB);
    amb_lease_abandon(lease);
    session_close(&s);
}

static void a_lease_waits_a_moment_only_while_there_are_slots(void **state)
{
    (void)state;
    struct session s;
    struct fake_options options = with_leases;
    options.lease_bytes = 16 * MIB;
    struct amb_pub *pub = open_pub(&s, &options);
    fake_broker_hold_freed(s.fake, true);
    for (unsigned i = 0; i < 3; i++) { /* The third one waited in vain for one of the first two. */
        assert_int_equal(amb_lease_commit(take(pub, 4 * MIB), NULL, NULL), AMB_OK);
        assert_int_equal(amb_pub_flush(pub, 0, 5 * AMB_SEC), AMB_OK);
    }
    struct amb_lease *lease; /* A caller that may not wait at all does not. */
    assert_int_equal(amb_lease(pub, 4 * MIB, AMB_NOWAIT, &lease), AMB_OK);
    amb_lease_abandon(lease);
    fake_broker_hold_freed(s.fake, false);
    session_close(&s);
}

static void without_any_more_slots_a_lease_is_private(void **state)
{
    (void)state;
    struct session s;
    struct fake_options options = with_leases;
    options.lease_bytes = 16 * MIB;
    struct amb_pub *pub = open_pub(&s, &options);
    struct amb_lease *leases[6];
    for (unsigned i = 0; i < 6; i++) { /* The program holds all slots there can be. */
        leases[i] = take(pub, 4 * MIB - 64);
        memset(amb_lease_data(leases[i]), 'a' + (int)i, 4 * MIB - 64);
    }
    struct amb_pub_info info = AMB_INIT(amb_pub_info);
    assert_int_equal(amb_pub_stat(pub, &info), AMB_OK);
    assert_int_equal(info.leases, 6);
    for (unsigned i = 0; i < 6; i++) {
        assert_int_equal(amb_lease_commit(leases[i], AMB_OUT(.len = 3 * MIB), NULL), AMB_OK);
    }
    assert_int_equal(amb_pub_flush(pub, 0, 5 * AMB_SEC), AMB_OK);
    fake_broker_look(s.fake, &s.seen);
    assert_int_equal(s.seen.commits[0], 4);
    assert_int_equal(s.seen.batches[0], 6);
    assert_int_equal(s.seen.last[0], 'f');
    assert_int_equal(s.conn->leases.buffers.used, 0);
    session_close(&s);
}

static void the_calls_are_the_same_without_segments(void **state)
{
    struct session s;
    struct amb_pub *pub = open_pub(&s, *state);
    commit_text(pub, "small");
    static const char large[] = "large";
    struct amb_lease *lease = take(pub, 3 * MIB);
    memcpy(amb_lease_data(lease), large, sizeof(large));
    uint64_t seq;
    assert_int_equal(amb_lease_commit(lease, AMB_OUT(.key = "k"), &seq), AMB_OK);
    assert_int_equal(seq, 2);
    assert_int_equal(amb_pub_send(pub, "sent", 4, AMB_SEC), AMB_OK);
    amb_lease_abandon(take(pub, MIB));
    assert_int_equal(amb_pub_flush(pub, 0, 5 * AMB_SEC), AMB_OK);
    fake_broker_look(s.fake, &s.seen);
    assert_int_equal(s.seen.msgs[0], 3);
    assert_int_equal(s.seen.commits[0], 0);
    assert_memory_equal(s.seen.last, "sent", 4);
    assert_int_equal(s.conn->leases.buffers.used, 0);
    session_close(&s);
}

static void private_leases_are_bounded_by_the_publishers_window(void **state)
{
    (void)state;
    struct session s;
    session_open(&s, &on_stream, NULL);
    struct amb_pub *pub;
    assert_int_equal(amb_pub_open(s.conn, "a", AMB_PUB(.window_bytes = 2 * MIB), &pub), AMB_OK);
    struct amb_lease *one = take(pub, MIB), *two = take(pub, MIB), *three;
    assert_int_equal(amb_lease(pub, MIB, AMB_NOWAIT, &three), AMB_EAGAIN);
    amb_lease_abandon(one);
    three = take(pub, MIB);
    amb_lease_abandon(three);
    assert_int_equal(amb_lease_commit(two, NULL, NULL), AMB_OK);
    assert_int_equal(amb_pub_flush(pub, 0, 5 * AMB_SEC), AMB_OK);
    session_close(&s);
}

static void wrong_commits_consume_their_lease(void **state)
{
    (void)state;
    struct session s;
    struct amb_pub *pub = open_pub(&s, &with_leases);
    struct amb_lease *lease = (void *)1;
    assert_int_equal(amb_lease(pub, 8 * MIB + 1, AMB_SEC, &lease), AMB_ETOOLARGE);
    assert_null(lease);
    assert_int_equal(amb_lease(NULL, 1, AMB_SEC, &lease), AMB_EINVAL);
    assert_int_equal(amb_lease(pub, 1, -1, &lease), AMB_EINVAL);
    const struct amb_prop reserved[] = {AMB_PROP("$key", "mine")};
    assert_int_equal(amb_lease_commit(take(pub, 10), AMB_OUT(.len = 11), NULL), AMB_EINVAL);
    assert_non_null(strstr(amb_last_error(s.conn).text, "of a lease of 10"));
    assert_int_equal(amb_lease_commit(take(pub, 10), AMB_OUT(.data = "x", .len = 1), NULL),
                     AMB_EINVAL);
    assert_int_equal(
        amb_lease_commit(take(pub, 10), AMB_OUT(.props = reserved, .prop_count = 1), NULL),
        AMB_EINVAL);
    assert_int_equal(amb_lease_commit(take(pub, 10), AMB_OUT(.stream = &s), NULL), AMB_ENOTSUP);
    assert_int_equal(amb_lease_commit(NULL, NULL, NULL), AMB_EINVAL);
    amb_lease_abandon(NULL);
    struct amb_pub_info info = AMB_INIT(amb_pub_info);
    assert_int_equal(amb_pub_stat(pub, &info), AMB_OK);
    assert_int_equal(info.leases, 0);
    assert_int_equal(info.posted, 0);
    struct amb_pub *other;
    assert_int_equal(amb_pub_open(s.conn, "b", AMB_PUB(.lease_mem = AMB_MEM_CUDA), &other),
                     AMB_ENOTSUP);
    session_close(&s);
}

static void a_lease_outlives_its_publisher_as_memory(void **state)
{
    (void)state;
    struct session s;
    struct amb_pub *pub = open_pub(&s, &with_leases);
    struct amb_lease *one = take(pub, MIB), *two = take(pub, MIB);
    assert_int_equal(amb_pub_close(pub, AMB_SEC), AMB_OK);
    memset(amb_lease_data(one), 'x', MIB);
    assert_int_equal(amb_lease_commit(one, NULL, NULL), AMB_ECLOSED);
    amb_lease_abandon(two);
    session_close(&s);
}

static void a_lease_outlives_its_connection(void **state)
{
    struct session s;
    struct amb_pub *pub = open_pub(&s, *state);
    struct amb_lease *one = take(pub, MIB), *two = take(pub, MIB);
    assert_int_equal(amb_close(s.conn, AMB_SEC), AMB_OK);
    memset(amb_lease_data(one), 'x', MIB);
    memset(amb_lease_data(two), 'x', MIB);
    assert_int_equal(amb_lease_commit(one, NULL, NULL), AMB_ECLOSED);
    fake_broker_look(s.fake, &s.seen);
    assert_true(!s.seen.said_bye || s.seen.leases_mapped == 0);
    amb_lease_abandon(two);
    FAKE_WAIT(s.fake, &s.seen, s.seen.said_bye);
    fake_broker_stop(s.fake);
}

static void a_lease_outlives_a_lost_session(void **state)
{
    (void)state;
    struct session s;
    struct amb_pub *pub = open_pub(&s, &with_leases);
    struct amb_lease *one = take(pub, MIB), *two = take(pub, MIB), *three;
    fake_broker_hang_up(s.fake);
    FAKE_WAIT(s.fake, &s.seen, amb_pub_send(pub, "x", 1, AMB_NOWAIT) == AMB_ELOST);
    assert_int_equal(amb_lease(pub, MIB, AMB_SEC, &three), AMB_ELOST);
    memset(amb_lease_data(one), 'x', MIB);
    assert_int_equal(amb_lease_commit(one, NULL, NULL), AMB_ELOST);
    (void)amb_close(s.conn, AMB_NOWAIT);
    memset(amb_lease_data(two), 'x', MIB);
    amb_lease_abandon(two);
    fake_broker_stop(s.fake);
}

static void what_waits_in_the_queue_is_canceled_by_a_close(void **state)
{
    struct session s;
    struct fake_options options = *(const struct fake_options *)*state;
    options.window = 64;
    struct amb_pub *pub = open_pub(&s, &options);
    fake_broker_hold_window(s.fake, true);
    struct amb_lease *one = take(pub, 1000), *two = take(pub, 100000);
    static const char payload[600];
    assert_int_equal(amb_pub_send(pub, payload, sizeof(payload), AMB_NOWAIT), AMB_OK);
    assert_int_equal(amb_lease_commit(one, NULL, NULL), AMB_OK);
    assert_int_equal(amb_lease_commit(two, NULL, NULL), AMB_OK);
    assert_int_equal(amb_pub_close(pub, AMB_NOWAIT), AMB_OK);
    fake_broker_look(s.fake, &s.seen);
    assert_int_equal(s.seen.msgs[0], 0);
    assert_int_equal(s.conn->leases.buffers.used, 0);
    session_close(&s);
}

static void a_forked_child_has_no_leases(void **state)
{
    (void)state;
    struct session s;
    struct amb_pub *pub = open_pub(&s, &with_leases);
    struct amb_lease *lease = take(pub, MIB), *other = (void *)1;
    pid_t pid = fork();
    if (pid == 0) {
        bool is_good = amb_lease_data(lease) == NULL &&
                       amb_lease(pub, 1, AMB_NOWAIT, &other) == AMB_EFORKED && other == NULL &&
                       amb_lease_commit(lease, NULL, NULL) == AMB_EFORKED;
        amb_lease_abandon(lease);
        _exit(is_good ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    memset(amb_lease_data(lease), 'x', MIB);
    assert_int_equal(amb_lease_commit(lease, NULL, NULL), AMB_OK);
    session_close(&s);
}

static void leases_work_without_a_thread(void **state)
{
    (void)state;
    struct session s;
    session_open(&s, &with_leases, AMB_OPTIONS(.progress = AMB_PROGRESS_POLL));
    struct amb_pub *pub;
    assert_int_equal(amb_pub_open(s.conn, "a", NULL, &pub), AMB_OK);
    commit_text(pub, "in place");
    assert_int_equal(amb_pub_flush(pub, 0, 5 * AMB_SEC), AMB_OK);
    fake_broker_look(s.fake, &s.seen);
    assert_int_equal(s.seen.commits[0], 1);
    assert_memory_equal(s.seen.last, "in place", 8);
    struct amb_lease *lease = take(pub, 10);
    assert_int_equal(amb_close(s.conn, AMB_SEC), AMB_OK);
    amb_lease_abandon(lease);
    FAKE_WAIT(s.fake, &s.seen, s.seen.said_bye);
    fake_broker_stop(s.fake);
}

static void *lease_many(void *arg)
{
    struct amb_pub *pub = arg;
    for (unsigned i = 0; i < 3000; i++) {
        struct amb_lease *lease;
        if (amb_lease(pub, i % 3 == 0 ? 100 : 70000, AMB_FOREVER, &lease) != AMB_OK) {
            return NULL;
        }
        memset(amb_lease_data(lease), 'z', 100);
        if (i % 10 == 0) {
            amb_lease_abandon(lease);
        } else if (amb_lease_commit(lease, NULL, NULL) != AMB_OK) {
            return NULL;
        }
    }
    return pub;
}

static void threads_may_share_a_publisher(void **state)
{
    struct session s;
    struct amb_pub *pub = open_pub(&s, *state);
    pthread_t threads[3];
    for (int i = 0; i < 3; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, lease_many, pub), 0);
    }
    for (int i = 0; i < 3; i++) {
        void *result;
        assert_int_equal(pthread_join(threads[i], &result), 0);
        assert_ptr_equal(result, pub);
    }
    assert_int_equal(amb_pub_flush(pub, 0, 5 * AMB_SEC), AMB_OK);
    fake_broker_look(s.fake, &s.seen);
    assert_int_equal(s.seen.msgs[0], 3 * 2700);
    session_close(&s);
}

int main(void)
{
#define WITH(test, options) cmocka_unit_test_prestate(test, &(options))
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_committed_payload_is_read_where_it_was_written),
        cmocka_unit_test(commits_gather_and_keep_their_place_among_sends),
        cmocka_unit_test(a_commit_behind_a_stuck_batch_waits_for_it_and_not_the_caller),
        cmocka_unit_test(a_lease_waits_for_a_slot),
        cmocka_unit_test(a_lease_waits_a_moment_only_while_there_are_slots),
        cmocka_unit_test(without_any_more_slots_a_lease_is_private),
        WITH(the_calls_are_the_same_without_segments, on_stream),
        WITH(the_calls_are_the_same_without_segments, refusing),
        cmocka_unit_test(private_leases_are_bounded_by_the_publishers_window),
        cmocka_unit_test(wrong_commits_consume_their_lease),
        cmocka_unit_test(a_lease_outlives_its_publisher_as_memory),
        WITH(a_lease_outlives_its_connection, with_leases),
        WITH(a_lease_outlives_its_connection, on_stream),
        cmocka_unit_test(a_lease_outlives_a_lost_session),
        WITH(what_waits_in_the_queue_is_canceled_by_a_close, with_leases),
        WITH(what_waits_in_the_queue_is_canceled_by_a_close, on_stream),
        cmocka_unit_test(a_forked_child_has_no_leases),
        cmocka_unit_test(leases_work_without_a_thread),
        WITH(threads_may_share_a_publisher, with_leases),
        WITH(threads_may_share_a_publisher, on_stream),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
