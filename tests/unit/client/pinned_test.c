/* SPDX-License-Identifier: Apache-2.0 */
/* Leases in pinned memory, on the fake driver: where they lie, what they wait for, what fails. */
#include "tests/fakecuda/fakecuda.h"
#include "tests/unit/client/session.h"

#include "client/conn/conn.h"
#include "client/drive/lock.h"
#include "client/memory/later.h"
#include "client/memory/slots.h"
#include "wire/mem/cuda.h"

#include <cuda.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define MIB ((size_t)1 << 20)

static struct fake_options with_leases = {.lease_bytes = 64 * MIB, .max_message = 8 * MIB};
static struct fake_options refusing = {
    .lease_bytes = 64 * MIB, .max_message = 8 * MIB, .refuses_leases = true};
static struct fake_options on_stream = {.link = AMB_LINK_STREAM, .max_message = 8 * MIB};

static CUcontext context;
static CUstream stream;
static CUdeviceptr device;

static struct amb_pub *open_pub(struct session *s, const struct fake_options *options,
                                const struct amb_pub_options *pub_options)
{
    struct amb_pub *pub;
    session_open(s, options, NULL);
    assert_int_equal(amb_pub_open(s->conn, "a", pub_options, &pub), AMB_OK);
    return pub;
}

static struct amb_pub *open_pinned(struct session *s, const struct fake_options *options)
{
    return open_pub(s, options, AMB_PUB(.lease_mem = AMB_MEM_PINNED));
}

/* The last thread of a connection's may end after its close. */
static void nothing_stays_pinned(void)
{
    amb_later_wait();
    for (int i = 0; i < 5000 && fakecuda_live_pinned() != 0; i++) {
        (void)usleep(1000);
    }
    assert_int_equal(fakecuda_live_pinned(), 0);
}

static void close_pinned(struct session *s)
{
    assert_int_equal(amb_close(s->conn, 5 * AMB_SEC), AMB_OK);
    fake_broker_stop(s->fake);
    nothing_stays_pinned();
}

static struct amb_lease *take(struct amb_pub *pub, size_t len)
{
    struct amb_mem_place place;
    struct amb_lease *lease;
    assert_int_equal(amb_lease(pub, len, 5 * AMB_SEC, &lease), AMB_OK);
    assert_non_null(amb_lease_data(lease));
    assert_ptr_equal(amb_lease_data_on(lease, stream), amb_lease_data(lease));
    amb_cuda_classify(amb_lease_data(lease), &place);
    assert_int_equal(place.mem, AMB_MEM_PINNED);
    return lease;
}

/* A copy engine writes there, when it is let. */
static void write_on_stream(struct amb_lease *lease, size_t len, uint8_t value)
{
    uint8_t *bytes = malloc(len);
    assert_non_null(bytes);
    memset(bytes, value, len);
    assert_true(fakecuda_poke(device, bytes, len));
    free(bytes);
    assert_int_equal(cuMemcpyDtoHAsync(amb_lease_data(lease), device, len, stream), CUDA_SUCCESS);
}

static void commit(struct amb_lease *lease)
{
    assert_int_equal(amb_lease_commit(lease, AMB_OUT(.stream = stream), NULL), AMB_OK);
}

static uint64_t leased(struct amb_pub *pub)
{
    struct amb_pub_info info = AMB_INIT(amb_pub_info);
    assert_int_equal(amb_pub_stat(pub, &info), AMB_OK);
    return info.leased;
}

static void it_leaves_when_its_stream_has_passed(const struct fake_options *options,
                                                 bool is_in_place)
{
    struct session s;
    struct amb_pub *pub = open_pinned(&s, options);
    const size_t sizes[] = {100, 70000, 3 * MIB};
    uint64_t sent = 0;
    for (unsigned i = 0; i < 3; i++) {
        struct amb_lease *lease = take(pub, sizes[i]);
        fakecuda_hold(true);
        write_on_stream(lease, sizes[i], (uint8_t)(i + 1));
        commit(lease);
        assert_int_equal(amb_pub_flush(pub, 0, 5 * AMB_MS), AMB_ETIMEDOUT);
        fake_broker_look(s.fake, &s.seen);
        assert_int_equal(s.seen.msgs[0], sent);
        fakecuda_hold(false);
        assert_int_equal(amb_pub_flush(pub, 0, 5 * AMB_SEC), AMB_OK);
        fake_broker_look(s.fake, &s.seen);
        assert_int_equal(s.seen.msgs[0], ++sent);
        assert_int_equal(s.seen.last[0], i + 1);
        assert_int_equal(s.seen.last[99], i + 1);
        assert_int_equal(s.seen.last_len, amb_payload_padded(sizes[i]));
        assert_int_equal(leased(pub), is_in_place ? sent : 0);
    }
    close_pinned(&s);
}

static void on_this_host_it_is_read_where_it_was_written(void **state)
{
    (void)state;
    it_leaves_when_its_stream_has_passed(&with_leases, true);
}

static void elsewhere_it_is_transferred(void **state)
{
    (void)state;
    it_leaves_when_its_stream_has_passed(&on_stream, false);
}

static void it_is_transferred_where_the_broker_gives_no_memory(void **state)
{
    (void)state;
    it_leaves_when_its_stream_has_passed(&refusing, false);
}

static void what_comes_behind_one_that_waits_keeps_its_place(const struct fake_options *options)
{
    struct session s;
    struct amb_pub *pub = open_pinned(&s, options);
    fakecuda_hold(true);
    struct amb_lease *late = take(pub, 5000), *soon = take(pub, 5000);
    write_on_stream(late, 5000, 'l');
    commit(late);
    memset(amb_lease_data(soon), 's', 5000); /* The CPU has, and nothing is waited for. */
    CUstream idle;
    assert_int_equal(cuStreamCreate(&idle, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    assert_int_equal(amb_lease_commit(soon, AMB_OUT(.stream = idle, .key = "k"), NULL), AMB_OK);
    assert_int_equal(amb_pub_send(pub, "behind", 6, 5 * AMB_MS), AMB_ETIMEDOUT);
    fake_broker_look(s.fake, &s.seen);
    assert_int_equal(s.seen.msgs[0], 0);
    fakecuda_hold(false);
    assert_int_equal(amb_pub_send(pub, "behind", 6, 5 * AMB_SEC), AMB_OK);
    assert_int_equal(amb_pub_flush(pub, 0, 5 * AMB_SEC), AMB_OK);
    fake_broker_look(s.fake, &s.seen);
    assert_int_equal(s.seen.msgs[0], 3);
    assert_memory_equal(s.seen.last, "behind", 6);
    assert_int_equal(cuStreamDestroy(idle), CUDA_SUCCESS);
    close_pinned(&s);
}

static void order_holds_in_place(void **state)
{
    (void)state;
    what_comes_behind_one_that_waits_keeps_its_place(&with_leases);
}

static void order_holds_where_it_is_transferred(void **state)
{
    (void)state;
    what_comes_behind_one_that_waits_keeps_its_place(&on_stream);
}

/* A question that the driver refuses is no answer: the message waits for its stream all the same.
 */
static void a_refused_question_ends_no_fence(void **state)
{
    (void)state;
    struct session s;
    struct amb_pub *pub = open_pinned(&s, &on_stream);
    struct amb_lease *lease = take(pub, 5000);
    fakecuda_hold(true);
    write_on_stream(lease, 5000, 'x');
    fakecuda_fail("cuEventQuery:1=900,cuEventQuery:2=1,cuEventQuery:3=2");
    commit(lease);
    assert_int_equal(amb_pub_flush(pub, 0, 50 * AMB_MS), AMB_ETIMEDOUT);
    assert_int_equal(s.seen.msgs[0], 0);
    fakecuda_hold(false);
    assert_int_equal(amb_pub_flush(pub, 0, 5 * AMB_SEC), AMB_OK);
    fakecuda_fail(NULL);
    close_pinned(&s);
}

static void a_segment_that_cannot_be_pinned_is_given_back(void **state)
{
    (void)state;
    struct session s;
    struct amb_pub *pub = open_pinned(&s, &with_leases);
    fakecuda_fail("cuMemHostRegister:1=801");
    struct amb_lease *lease = take(pub, 5000); /* Memory of our own is pinned instead. */
    fakecuda_fail(NULL);
    commit(lease);
    assert_int_equal(amb_pub_flush(pub, 0, 5 * AMB_SEC), AMB_OK);
    FAKE_WAIT(s.fake, &s.seen, s.seen.leases_closed == 1);
    assert_int_equal(leased(pub), 0);
    close_pinned(&s);
}

static void without_any_it_says_why_and_plain_leases_go_on(void **state)
{
    (void)state;
    struct session s;
    struct amb_pub *pub = open_pinned(&s, &with_leases), *plain;
    struct amb_lease *lease;
    fakecuda_fail("cuMemHostRegister:1=801,cuMemHostRegister:2=801");
    assert_int_equal(amb_lease(pub, 5000, 5 * AMB_SEC, &lease), AMB_ENOTSUP);
    assert_null(lease);
    assert_non_null(strstr(amb_last_error(s.conn).text, "cuMemHostRegister"));
    fakecuda_fail(NULL);
    assert_int_equal(amb_pub_open(s.conn, "b", NULL, &plain), AMB_OK);
    assert_int_equal(amb_lease(plain, 5000, 5 * AMB_SEC, &lease), AMB_OK);
    assert_null(amb_lease_data_on(lease, stream));
    assert_int_equal(amb_lease_commit(lease, NULL, NULL), AMB_OK);
    assert_int_equal(amb_pub_flush(plain, 0, 5 * AMB_SEC), AMB_OK);
    assert_int_equal(leased(plain), 1);
    close_pinned(&s);
}

static void who_has_all_that_may_be_pinned_waits(void **state)
{
    (void)state;
    struct session s;
    struct amb_pub *pub =
        open_pub(&s, &on_stream, AMB_PUB(.lease_mem = AMB_MEM_PINNED, .window_bytes = 4 * MIB));
    struct amb_lease *leases[4], *more;
    for (unsigned i = 0; i < 4; i++) {
        leases[i] = take(pub, MIB);
    }
    assert_int_equal(amb_lease(pub, MIB, 20 * AMB_MS, &more), AMB_ETIMEDOUT);
    assert_int_equal(amb_lease(pub, 100, AMB_NOWAIT, &more), AMB_EAGAIN);
    commit(leases[0]);
    more = take(pub, MIB);
    amb_lease_abandon(more);
    for (unsigned i = 1; i < 4; i++) {
        amb_lease_abandon(leases[i]);
    }
    assert_int_equal(amb_pub_flush(pub, 0, 5 * AMB_SEC), AMB_OK);
    more = take(pub, 100); /* An idle slot makes room for another size. */
    amb_lease_abandon(more);
    close_pinned(&s);
}

static void it_outlives_its_connection(void **state)
{
    (void)state;
    const struct fake_options *options[] = {&with_leases, &on_stream};
    for (unsigned i = 0; i < 2; i++) {
        struct session s;
        struct amb_pub *pub = open_pinned(&s, options[i]);
        struct amb_lease *lease = take(pub, 5000), *other = take(pub, 5000);
        assert_int_equal(amb_close(s.conn, AMB_NOWAIT), AMB_OK);
        memset(amb_lease_data(lease), 'x', 5000);
        assert_int_equal(amb_lease_commit(lease, AMB_OUT(.stream = stream), NULL), AMB_ECLOSED);
        amb_lease_abandon(other);
        fake_broker_stop(s.fake);
        nothing_stays_pinned();
    }
}

/* A kernel may wait for the program's next message. The session lives on: its broker gives the
 * memory to nobody while it is written. */
static void no_close_waits_for_its_stream(void **state)
{
    (void)state;
    struct session s;
    struct amb_pub *pub = open_pinned(&s, &with_leases);
    struct amb_lease *first = take(pub, 5000), *second = take(pub, 5000);
    fakecuda_hold(true);
    write_on_stream(first, 5000, 'f');
    write_on_stream(second, 5000, 's');
    commit(first);
    (void)amb_pub_close(pub, AMB_NOWAIT);
    assert_int_equal(amb_close(s.conn, AMB_NOWAIT), AMB_OK);
    amb_lease_abandon(second);
    fake_broker_nap();
    fake_broker_look(s.fake, &s.seen);
    assert_false(s.seen.said_bye);
    assert_int_equal(s.seen.msgs[0], 0);
    fakecuda_hold(false);
    FAKE_WAIT(s.fake, &s.seen, s.seen.said_bye);
    fake_broker_stop(s.fake);
    nothing_stays_pinned();
}

/* The slot was the former broker's: once its GPU has done with it, it goes to the next one. */
static void what_waits_when_a_session_ends_goes_to_the_next(void **state)
{
    (void)state;
    struct fake_broker *first = fake_broker_start(&with_leases);
    struct fake_broker *second = fake_broker_start(&with_leases);
    struct fake_seen seen;
    struct amb_conn *conn;
    struct amb_pub *pub;
    char urls[400];
    (void)snprintf(urls, sizeof(urls), "%s,%s", fake_broker_url(first), fake_broker_url(second));
    assert_int_equal(
        amb_connect(urls,
                    AMB_OPTIONS(.reconnect_min_ns = AMB_MS, .reconnect_max_ns = 5 * AMB_MS,
                                .reconnect_attempts = 100),
                    &conn),
        AMB_OK);
    assert_int_equal(amb_pub_open(conn, "a", AMB_PUB(.lease_mem = AMB_MEM_PINNED), &pub), AMB_OK);
    struct amb_lease *lease = take(pub, 5000), *held = take(pub, 5000);
    fakecuda_hold(true);
    write_on_stream(lease, 5000, 'w');
    commit(lease);
    fake_broker_stop(first);
    FAKE_WAIT(second, &seen, seen.opens == 1);
    fake_broker_nap();
    fake_broker_look(second, &seen);
    assert_int_equal(seen.msgs[0], 0);
    assert_true(seen.had_session && !seen.said_unmapped); /* Both lie in the first one's. */
    fakecuda_hold(false);
    FAKE_WAIT(second, &seen, seen.msgs[0] == 1);
    assert_int_equal(seen.commits[0], 0);
    assert_int_equal(seen.last[0], 'w');
    assert_int_equal(seen.last[4999 % sizeof(seen.last)], 'w');
    memset(amb_lease_data(held), 'h', 5000);
    commit(held);
    assert_int_equal(amb_pub_flush(pub, 0, 5 * AMB_SEC), AMB_OK);
    commit(take(pub, 5000)); /* In that one's memory. */
    FAKE_WAIT(second, &seen, seen.commits[0] == 1);
    assert_int_equal(amb_close(conn, 5 * AMB_SEC), AMB_OK);
    fake_broker_stop(second);
    nothing_stays_pinned();
}

/* When the first one goes, the library goes to the second. */
struct pair {
    struct fake_broker *first, *second;
    struct amb_conn *conn;
    struct amb_pub *pub;
};

static void pair_open(struct pair *pair, const struct fake_options *options)
{
    char urls[400];
    pair->first = fake_broker_start(options);
    pair->second = fake_broker_start(options);
    (void)snprintf(urls, sizeof(urls), "%s,%s", fake_broker_url(pair->first),
                   fake_broker_url(pair->second));
    assert_int_equal(
        amb_connect(urls,
                    AMB_OPTIONS(.reconnect_min_ns = 50 * AMB_MS, .reconnect_max_ns = 50 * AMB_MS,
                                .reconnect_attempts = 100),
                    &pair->conn),
        AMB_OK);
    assert_int_equal(
        amb_pub_open(pair->conn, "a", AMB_PUB(.lease_mem = AMB_MEM_PINNED), &pair->pub), AMB_OK);
}

/* Returns while the library is without a broker, or has just found the other. */
static void pair_lose(struct pair *pair)
{
    struct fake_seen seen;
    fake_broker_stop(pair->first);
    FAKE_WAIT(pair->second, &seen,
              amb_conn_has_trouble(pair->conn, AMB_TROUBLE_AWAY) || seen.opens != 0);
}

static void pair_close(struct pair *pair)
{
    assert_int_equal(amb_close(pair->conn, 5 * AMB_SEC), AMB_OK);
    fake_broker_stop(pair->second);
    nothing_stays_pinned();
}

static void a_lease_waits_for_the_next_session(void **state)
{
    (void)state;
    struct pair pair;
    struct fake_seen seen;
    struct amb_lease *lease;
    pair_open(&pair, &with_leases);
    commit(take(pair.pub, 5000));
    assert_int_equal(amb_pub_flush(pair.pub, 0, 5 * AMB_SEC), AMB_OK);
    pair_lose(&pair);
    assert_int_equal(amb_lease(pair.pub, 5000, AMB_NOWAIT, &lease), AMB_EAGAIN);
    lease = take(pair.pub, 5000);
    memset(amb_lease_data(lease), 'n', 5000);
    commit(lease);
    FAKE_WAIT(pair.second, &seen, seen.msgs[0] == 1);
    assert_int_equal(seen.commits[0], 1); /* In that one's memory. */
    assert_int_equal(seen.last[0], 'n');
    pair_close(&pair);
}

static void without_a_session_what_it_has_of_its_own_is_leased(void **state)
{
    (void)state;
    struct pair pair;
    struct fake_seen seen;
    struct amb_lease *lease;
    pair_open(&pair, &on_stream);
    commit(take(pair.pub, 5000));
    assert_int_equal(amb_pub_flush(pair.pub, 0, 5 * AMB_SEC), AMB_OK);
    pair_lose(&pair);
    assert_int_equal(amb_lease(pair.pub, 5000, AMB_NOWAIT, &lease), AMB_OK);
    memset(amb_lease_data(lease), 'o', 5000);
    commit(lease);
    amb_lease_abandon(take(pair.pub, 70000)); /* Of this size there is none yet. */
    FAKE_WAIT(pair.second, &seen, seen.msgs[0] == 1);
    assert_int_equal(seen.last[0], 'o');
    pair_close(&pair);
}

static void a_refusal_of_the_brokers_memory_is_none_of_our_own(void **state)
{
    (void)state;
    struct session s;
    struct amb_pub *pub =
        open_pub(&s, &with_leases, AMB_PUB(.lease_mem = AMB_MEM_PINNED, .window_bytes = 4 * MIB));
    struct amb_lease *leases[4], *more;
    fakecuda_fail("cuMemHostRegister:1=801");
    for (unsigned i = 0; i < 4; i++) {
        leases[i] = take(pub, MIB);
    }
    amb_conn_lock(s.conn);
    s.conn->leases.unpinned[0].at_ns = 0; /* It is long ago. */
    amb_conn_unlock(s.conn);
    fakecuda_fail("cuMemHostRegister:1=801");
    assert_int_equal(amb_lease(pub, MIB, 50 * AMB_MS, &more), AMB_ETIMEDOUT);
    FAKE_WAIT(s.fake, &s.seen, s.seen.leases_closed == 2);
    assert_int_equal(amb_lease(pub, MIB, AMB_NOWAIT, &more), AMB_EAGAIN);
    fakecuda_fail(NULL);
    for (unsigned i = 0; i < 4; i++) {
        amb_lease_abandon(leases[i]);
    }
    close_pinned(&s);
}

struct call {
    struct amb_conn *conn;
    struct amb_pub *pub;
    struct amb_lease *lease;
    enum amb_status status;
    atomic_bool is_over;
};

static void *take_4mib(void *arg)
{
    struct call *call = arg;
    call->status = amb_lease(call->pub, 4 * MIB, 5 * AMB_SEC, &call->lease);
    return NULL;
}

/* 16 slots of 1 MiB and one of 4 are all that may be: another one of 4 needs those. */
static void room_of_another_size_ends_a_wait(void **state)
{
    (void)state;
    struct session s;
    struct amb_pub *pub =
        open_pub(&s, &on_stream, AMB_PUB(.lease_mem = AMB_MEM_PINNED, .window_bytes = 20 * MIB));
    struct amb_lease *small = take(pub, MIB), *large = take(pub, 4 * MIB);
    struct call call = {.pub = pub};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, take_4mib, &call), 0);
    session_wait_inside(&s, 1);
    fake_broker_nap();
    amb_lease_abandon(small);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(call.status, AMB_OK);
    amb_lease_abandon(call.lease);
    amb_lease_abandon(large);
    close_pinned(&s);
}

static uint64_t private_bytes(struct session *s)
{
    amb_conn_lock(s->conn);
    uint64_t bytes = s->conn->leases.private_bytes;
    amb_conn_unlock(s->conn);
    return bytes;
}

/* An unpin waits for the device. Its memory is part of the cap until then. */
static void what_is_not_unpinned_yet_counts(void **state)
{
    (void)state;
    struct session s;
    struct amb_pub *pub =
        open_pub(&s, &on_stream, AMB_PUB(.lease_mem = AMB_MEM_PINNED, .window_bytes = 16 * MIB));
    amb_lease_abandon(take(pub, 4000));
    unsigned before = fakecuda_live_pinned();
    fakecuda_hold(true);
    assert_int_equal(cuMemsetD8Async(device, 0, 64, stream), CUDA_SUCCESS);
    unsigned refused = 0;
    for (unsigned i = 0; i < 40; i++) {
        struct amb_lease *lease;
        enum amb_status status = amb_lease(pub, i % 2 == 0 ? MIB : 4000, 5 * AMB_MS, &lease);
        assert_true(status == AMB_OK || status == AMB_ETIMEDOUT);
        refused += status != AMB_OK;
        amb_lease_abandon(lease);
    }
    assert_int_not_equal(refused, 0);
    assert_int_equal(fakecuda_live_pinned(), before);
    assert_int_equal(private_bytes(&s), 16 * MIB);
    fakecuda_hold(false);
    amb_lease_abandon(take(pub, MIB)); /* It is told when there is room again. */
    amb_later_wait();
    assert_in_range(private_bytes(&s), MIB, 16 * MIB);
    close_pinned(&s);
}

static void *commit_wrongly(void *arg)
{
    struct call *call = arg;
    call->status = amb_lease_commit(call->lease, AMB_OUT(.stream = stream, .expect_seq = 7), NULL);
    atomic_store(&call->is_over, true);
    return NULL;
}

static void nobody_gets_a_slot_while_its_stream_writes(void **state)
{
    (void)state;
    const char *plans[] = {NULL,
                           "cuEventCreate:1=2",
                           "cuEventRecord:1=1",
                           "cuEventQuery:1=1",
                           "cuCtxPushCurrent:2=800",
                           "cuCtxPushCurrent:3=800"};
    for (unsigned i = 0; i < sizeof(plans) / sizeof(plans[0]); i++) {
        struct session s;
        struct amb_pub *pub = open_pinned(&s, &with_leases);
        struct call call = {.lease = take(pub, 5000)};
        pthread_t thread;
        fakecuda_hold(true);
        write_on_stream(call.lease, 5000, 'w');
        fakecuda_fail(plans[i]);
        assert_int_equal(pthread_create(&thread, NULL, commit_wrongly, &call), 0);
        for (unsigned n = 0; n < 20; n++) {
            fake_broker_nap();
        }
        assert_false(atomic_load(&call.is_over));
        fakecuda_hold(false);
        assert_int_equal(pthread_join(thread, NULL), 0);
        assert_int_not_equal(call.status, AMB_OK);
        fakecuda_fail(NULL);
        close_pinned(&s);
    }
}

static void *poll_on(void *arg)
{
    struct call *call = arg;
    while (call->status != AMB_ESTOPPED) {
        call->status = amb_poll(call->conn, 10 * AMB_SEC);
    }
    return NULL;
}

static void without_a_thread_memory_is_there_before_the_next_heartbeat(void **state)
{
    (void)state;
    struct session s;
    struct amb_pub *pub;
    struct fake_options slow = on_stream;
    slow.heartbeat_ns = 60 * AMB_SEC;
    slow.peer_timeout_ns = 120 * AMB_SEC;
    session_open(&s, &slow, AMB_OPTIONS(.progress = AMB_PROGRESS_POLL));
    assert_int_equal(amb_pub_open(s.conn, "a", AMB_PUB(.lease_mem = AMB_MEM_PINNED), &pub), AMB_OK);
    for (size_t len = 100; len < MIB; len *= 20) {
        amb_lease_abandon(take(pub, len));
    }
    struct call call = {.conn = s.conn};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, poll_on, &call), 0);
    for (bool is_asleep = false; !is_asleep; fake_broker_nap()) {
        amb_conn_lock(s.conn);
        is_asleep = s.conn->driver.is_asleep;
        amb_conn_unlock(s.conn);
    }
    amb_lease_abandon(take(pub, 2 * MIB));
    amb_stop(s.conn);
    assert_int_equal(pthread_join(thread, NULL), 0);
    (void)amb_close(s.conn, AMB_NOWAIT);
    fake_broker_stop(s.fake);
    nothing_stays_pinned();
}

static void an_idle_pinned_segment_makes_room_for_plain_leases(void **state)
{
    (void)state;
    struct session s;
    struct fake_options few = with_leases;
    few.lease_bytes = 16 * MIB;
    struct amb_pub *pub = open_pinned(&s, &few), *plain;
    struct amb_lease *lease = take(pub, 4 * MIB);
    assert_int_equal(amb_pub_open(s.conn, "b", NULL, &plain), AMB_OK);
    /* There is less than it has by now, as of another broker. */
    amb_conn_lock(s.conn);
    s.conn->leases.bytes_max = MIB;
    amb_conn_unlock(s.conn);
    struct amb_lease *other;
    assert_int_equal(amb_lease(plain, 5000, 5 * AMB_SEC, &other), AMB_OK);
    amb_lease_abandon(other);
    fake_broker_look(s.fake, &s.seen);
    assert_int_equal(s.seen.leases_opened, 1);
    amb_lease_abandon(lease);
    amb_conn_lock(s.conn);
    s.conn->leases.bytes_max = 16 * MIB;
    AMB_CONTAINER_OF(s.conn->leases.pinned_segments.next, struct amb_slots, node)->was_used = false;
    amb_conn_unlock(s.conn);
    assert_int_equal(amb_lease(plain, 4 * MIB, 5 * AMB_SEC, &other), AMB_OK);
    assert_int_equal(amb_lease_commit(other, NULL, NULL), AMB_OK);
    assert_int_equal(amb_pub_flush(plain, 0, 5 * AMB_SEC), AMB_OK);
    assert_int_equal(leased(plain), 1);
    fake_broker_look(s.fake, &s.seen);
    assert_int_equal(s.seen.leases_closed, 1);
    close_pinned(&s);
}

static void what_no_pinned_lease_goes_with_is_refused(void **state)
{
    (void)state;
    struct session s;
    struct amb_pub *pub;
    session_open(&s, &with_leases, NULL);
    assert_int_equal(amb_pub_open(s.conn, "a", AMB_PUB(.lease_mem = AMB_MEM_CUDA_MANAGED), &pub),
                     AMB_ENOTSUP);
    assert_non_null(strstr(amb_last_error(s.conn).text, "amb_pub_post"));
    assert_int_equal(
        amb_pub_open(s.conn, "a", AMB_PUB(.lease_mem = AMB_MEM_PINNED, .name = "n"), &pub),
        AMB_ENOTSUP);
    assert_int_equal(
        amb_pub_open(s.conn, "a", AMB_PUB(.lease_mem = AMB_MEM_PINNED, .device = 7), &pub),
        AMB_ENOTFOUND);
    assert_int_equal(
        amb_pub_open(s.conn, "a", AMB_PUB(.lease_mem = AMB_MEM_PINNED, .device = 1), &pub), AMB_OK);
    struct amb_lease *lease = take(pub, 100);
    assert_int_equal(amb_lease_commit(lease, AMB_OUT(.mem = AMB_MEM_CUDA), NULL), AMB_ENOTSUP);
    close_pinned(&s);
}

/* In its turn: a lease before it and one behind it are not hurt. It comes last, for the device is
 * lost, and its memory stays pinned. */
static void what_its_gpu_has_spoilt_is_settled_so(void **state)
{
    (void)state;
    struct session s;
    struct amb_pub *pub = open_pinned(&s, &on_stream);
    struct amb_pub_info info = AMB_INIT(amb_pub_info);
    fake_broker_hold(s.fake, true);
    assert_int_equal(amb_pub_send(pub, "before", 6, AMB_NOWAIT), AMB_OK);
    struct amb_lease *lease = take(pub, 5000);
    fakecuda_hold(true);
    write_on_stream(lease, 5000, 'x');
    commit(lease);
    fakecuda_fail("cuEventQuery:1=719");
    fakecuda_hold(false);
    FAKE_WAIT(s.fake, &s.seen, s.seen.msgs[0] == 1);
    fake_broker_nap();
    assert_int_equal(amb_pub_stat(pub, &info), AMB_OK);
    assert_int_equal(info.failed, 0); /* Of the one before it nobody knows yet. */
    fake_broker_hold(s.fake, false);
    assert_int_equal(amb_pub_send(pub, "behind", 6, 5 * AMB_SEC), AMB_OK);
    assert_int_equal(amb_pub_flush(pub, 0, 5 * AMB_SEC), AMB_ECUDA);
    fakecuda_fail(NULL);
    fake_broker_look(s.fake, &s.seen);
    assert_int_equal(s.seen.msgs[0], 2);
    assert_memory_equal(s.seen.last, "behind", 6);
    assert_int_equal(amb_pub_stat(pub, &info), AMB_OK);
    assert_int_equal(info.failed, 1);
    assert_int_equal(info.settled, 3);
    (void)amb_close(s.conn, 5 * AMB_SEC);
    fake_broker_stop(s.fake);
}

/* Also the driver's hold on it. */
static void kept_memory_stays_pinned(void **state)
{
    const struct fake_options *const all[] = {&with_leases, &on_stream};
    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        struct session s;
        struct amb_pub *pub = open_pinned(&s, all[i]);
        struct amb_lease *lease = take(pub, MIB);
        struct amb_keep *keep;
        assert_int_equal(amb_lease_keep(lease, &keep), AMB_OK);
        uint8_t *bytes = amb_lease_data(lease);
        write_on_stream(lease, MIB, 'k');
        commit(lease);
        assert_int_equal(amb_pub_flush(pub, 0, 5 * AMB_SEC), AMB_OK);
        for (unsigned other = 0; other < 8; other++) {
            lease = take(pub, MIB);
            assert_ptr_not_equal(amb_lease_data(lease), bytes);
            write_on_stream(lease, MIB, 'o');
            commit(lease);
            assert_int_equal(amb_pub_flush(pub, 0, 5 * AMB_SEC), AMB_OK);
        }
        assert_int_equal(amb_close(s.conn, 5 * AMB_SEC), AMB_OK);
        fake_broker_stop(s.fake);
        assert_int_not_equal(fakecuda_live_pinned(), 0);
        assert_int_equal(bytes[0], 'k');
        assert_int_equal(bytes[MIB - 1], 'k');
        amb_lease_unkeep(keep);
        nothing_stays_pinned();
    }
}

int main(void)
{
    (void)setenv(AMB_CUDA_LIBRARY_ENV, AMB_FAKECUDA, 1);
    if (cuInit(0) != CUDA_SUCCESS || cuDevicePrimaryCtxRetain(&context, 0) != CUDA_SUCCESS ||
        cuCtxSetCurrent(context) != CUDA_SUCCESS ||
        cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) != CUDA_SUCCESS ||
        cuMemAlloc(&device, 4 * MIB) != CUDA_SUCCESS) {
        return 1;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(on_this_host_it_is_read_where_it_was_written),
        cmocka_unit_test(elsewhere_it_is_transferred),
        cmocka_unit_test(it_is_transferred_where_the_broker_gives_no_memory),
        cmocka_unit_test(order_holds_in_place),
        cmocka_unit_test(order_holds_where_it_is_transferred),
        cmocka_unit_test(a_refused_question_ends_no_fence),
        cmocka_unit_test(a_segment_that_cannot_be_pinned_is_given_back),
        cmocka_unit_test(without_any_it_says_why_and_plain_leases_go_on),
        cmocka_unit_test(who_has_all_that_may_be_pinned_waits),
        cmocka_unit_test(it_outlives_its_connection),
        cmocka_unit_test(no_close_waits_for_its_stream),
        cmocka_unit_test(what_waits_when_a_session_ends_goes_to_the_next),
        cmocka_unit_test(a_lease_waits_for_the_next_session),
        cmocka_unit_test(without_a_session_what_it_has_of_its_own_is_leased),
        cmocka_unit_test(a_refusal_of_the_brokers_memory_is_none_of_our_own),
        cmocka_unit_test(room_of_another_size_ends_a_wait),
        cmocka_unit_test(what_is_not_unpinned_yet_counts),
        cmocka_unit_test(nobody_gets_a_slot_while_its_stream_writes),
        cmocka_unit_test(without_a_thread_memory_is_there_before_the_next_heartbeat),
        cmocka_unit_test(an_idle_pinned_segment_makes_room_for_plain_leases),
        cmocka_unit_test(what_no_pinned_lease_goes_with_is_refused),
        cmocka_unit_test(kept_memory_stays_pinned),
        cmocka_unit_test(what_its_gpu_has_spoilt_is_settled_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
