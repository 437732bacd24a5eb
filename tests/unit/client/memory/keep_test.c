/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of leases that is kept beyond their commit, against a fake broker. */
#include "client/drive/lock.h"
#include "client/memory/slots.h"
#include "tests/unit/client/session.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define MIB (UINT64_C(1) << 20)
#define WAIT (10 * AMB_SEC)

static struct fake_options with_leases = {.lease_bytes = 64 * MIB, .max_message = 8 * MIB};
static struct fake_options on_stream = {
    .link = AMB_LINK_STREAM, .max_message = 8 * MIB, .window = 16 * MIB};

static struct amb_pub *open_pub(struct session *s, const struct fake_options *options)
{
    session_open(s, options, NULL);
    struct amb_pub *pub;
    assert_int_equal(amb_pub_open(s->conn, "a", NULL, &pub), AMB_OK);
    return pub;
}

/* A lease whose memory is kept, filled with the value. */
static struct amb_lease *take_kept(struct amb_pub *pub, size_t len, uint8_t value, uint8_t **bytes,
                                   struct amb_keep **keep)
{
    struct amb_lease *lease;
    assert_int_equal(amb_lease(pub, len, WAIT, &lease), AMB_OK);
    assert_int_equal(amb_lease_keep(lease, keep), AMB_OK);
    assert_non_null(*keep);
    *bytes = amb_lease_data(lease);
    memset(*bytes, value, len);
    return lease;
}

static void commit_and_flush(struct amb_pub *pub, struct amb_lease *lease)
{
    assert_int_equal(amb_lease_commit(lease, NULL, NULL), AMB_OK);
    assert_int_equal(amb_pub_flush(pub, 0, WAIT), AMB_OK);
}

/* Readable, writable, and as it was left. */
static void assert_kept(uint8_t *bytes, size_t len, uint8_t value)
{
    for (size_t i = 0; i < len; i += 512) {
        assert_int_equal(bytes[i], value);
    }
    assert_int_equal(bytes[len - 1], value);
    bytes[0] = 0;
    bytes[0] = value;
}

/* Bytes of private memory that leases, messages and kept ones have. */
static uint64_t private_used(struct session *s)
{
    amb_conn_lock(s->conn);
    uint64_t used = s->conn->leases.buffers.used;
    amb_conn_unlock(s->conn);
    return used;
}

/* Until the broker has freed all commits. */
static void await_freed(struct session *s)
{
    bool is_freed = false;
    while (!is_freed) {
        (void)amb_poll(s->conn, AMB_MS);
        amb_conn_lock(s->conn);
        is_freed = s->conn->leases.freed == s->conn->leases.said;
        amb_conn_unlock(s->conn);
    }
}

static void no_other_lease_gets_kept_memory(void **state)
{
    struct session s;
    struct amb_pub *pub = open_pub(&s, *state);
    uint8_t *bytes[4], *other;
    struct amb_keep *keeps[4], *last;
    for (unsigned i = 0; i < 4; i++) {
        commit_and_flush(pub, take_kept(pub, MIB, (uint8_t)('a' + i), &bytes[i], &keeps[i]));
        await_freed(&s);
    }
    for (unsigned i = 0; i < 20; i++) {
        struct amb_lease *lease;
        assert_int_equal(amb_lease(pub, MIB, WAIT, &lease), AMB_OK);
        other = amb_lease_data(lease);
        for (unsigned k = 0; k < 4; k++) {
            assert_ptr_not_equal(other, bytes[k]);
        }
        memset(other, 'z', MIB);
        if (i % 4 == 0) {
            amb_lease_abandon(lease);
        } else {
            commit_and_flush(pub, lease);
        }
    }
    await_freed(&s);
    for (unsigned i = 0; i < 4; i++) {
        assert_kept(bytes[i], MIB, (uint8_t)('a' + i));
    }
    /* Given back, it is the next lease's: last in, first out. */
    amb_lease_unkeep(keeps[2]);
    amb_lease_abandon(take_kept(pub, MIB, 'l', &other, &last));
    assert_ptr_equal(other, bytes[2]);
    amb_lease_unkeep(last);
    amb_lease_unkeep(keeps[0]);
    amb_lease_unkeep(keeps[1]);
    amb_lease_unkeep(keeps[3]);
    amb_lease_unkeep(NULL);
    assert_int_equal(private_used(&s), 0);
    session_close(&s);
}

static void a_lease_that_is_out_may_be_kept_again(void **state)
{
    struct session s;
    struct amb_pub *pub = open_pub(&s, *state);
    uint8_t *bytes;
    struct amb_keep *keep, *again;
    struct amb_lease *lease = take_kept(pub, MIB, 'a', &bytes, &keep);
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(amb_lease_keep(lease, &again), AMB_ESTATE);
        assert_null(again);
        amb_lease_unkeep(keep);
        assert_int_equal(amb_lease_keep(lease, &keep), AMB_OK);
    }
    commit_and_flush(pub, lease);
    await_freed(&s);
    assert_kept(bytes, MIB, 'a');
    amb_lease_unkeep(keep);
    assert_int_equal(private_used(&s), 0);
    session_close(&s);
}

static void what_is_unkept_early_goes_on_as_if_it_had_not_been(void **state)
{
    struct session s;
    struct amb_pub *pub = open_pub(&s, *state);
    uint8_t *bytes;
    struct amb_keep *keep;
    for (unsigned round = 0; round < 3; round++) {
        struct amb_lease *lease = take_kept(pub, MIB, 'a', &bytes, &keep);
        if (round == 0) {
            amb_lease_unkeep(keep); /* still a lease */
            commit_and_flush(pub, lease);
        } else if (round == 1) {
            fake_broker_stall(s.fake, true);
            assert_int_equal(amb_lease_commit(lease, NULL, NULL), AMB_OK);
            amb_lease_unkeep(keep); /* a message on its way */
            fake_broker_stall(s.fake, false);
            assert_int_equal(amb_pub_flush(pub, 0, WAIT), AMB_OK);
        } else {
            fake_broker_hold_freed(s.fake, true);
            commit_and_flush(pub, lease);
            amb_lease_unkeep(keep); /* a message that is read */
            fake_broker_hold_freed(s.fake, false);
        }
        await_freed(&s);
        fake_broker_look(s.fake, &s.seen);
        assert_int_equal(s.seen.msgs[0], round + 1);
        assert_int_equal(s.seen.last[0], 'a');
    }
    assert_int_equal(private_used(&s), 0);
    session_close(&s);
}

static void slots_that_are_kept_make_nobody_wait(void **state)
{
    (void)state;
    struct fake_options options = with_leases;
    options.lease_bytes = 16 * MIB;
    struct session s;
    struct amb_pub *pub = open_pub(&s, &options);
    uint8_t *bytes[5];
    struct amb_keep *keeps[5];
    for (unsigned i = 0; i < 5; i++) { /* The last one finds all slots of the session kept. */
        commit_and_flush(pub, take_kept(pub, 7 * MIB / 2, 'a', &bytes[i], &keeps[i]));
        await_freed(&s);
    }
    assert_int_not_equal(private_used(&s), 0);
    for (unsigned i = 0; i < 5; i++) {
        amb_lease_unkeep(keeps[i]);
    }
    assert_int_equal(private_used(&s), 0);
    session_close(&s);
}

static void small_ones_in_one_commit_are_kept_one_by_one(void **state)
{
    (void)state;
    struct session s;
    struct amb_pub *pub = open_pub(&s, &with_leases);
    struct amb_lease *leases[60];
    struct amb_keep *keeps[60];
    uint8_t *bytes[60];
    for (unsigned i = 0; i < 60; i++) {
        leases[i] = take_kept(pub, 1000, (uint8_t)i, &bytes[i], &keeps[i]);
        if (i % 3 != 0) {
            amb_lease_unkeep(keeps[i]);
        }
    }
    for (unsigned i = 0; i < 60; i++) {
        assert_int_equal(amb_lease_commit(leases[i], NULL, NULL), AMB_OK);
    }
    assert_int_equal(amb_pub_flush(pub, 0, WAIT), AMB_OK);
    await_freed(&s);
    amb_conn_lock(s.conn);
    const struct amb_slots *slots =
        AMB_CONTAINER_OF(s.conn->leases.segments.next, struct amb_slots, node);
    assert_int_equal(slots->keep_count, 20);
    assert_int_equal(slots->taken, 20);
    assert_int_equal(slots->free_count, slots->count - 20);
    amb_conn_unlock(s.conn);
    for (unsigned i = 0; i < 60; i += 3) {
        assert_kept(bytes[i], 1000, (uint8_t)i);
        amb_lease_unkeep(keeps[i]);
    }
    amb_conn_lock(s.conn);
    assert_int_equal(slots->keep_count, 0);
    assert_int_equal(slots->free_count, slots->count);
    amb_conn_unlock(s.conn);
    session_close(&s);
}

static void it_outlives_publisher_and_connection(void **state)
{
    struct session s;
    struct amb_pub *pub = open_pub(&s, *state), *other;
    uint8_t *bytes[4];
    struct amb_keep *keeps[4];
    assert_int_equal(amb_pub_open(s.conn, "b", NULL, &other), AMB_OK);
    commit_and_flush(pub, take_kept(pub, MIB, 'a', &bytes[0], &keeps[0]));
    amb_lease_abandon(take_kept(pub, MIB, 'b', &bytes[1], &keeps[1]));
    struct amb_lease *lease = take_kept(pub, MIB, 'c', &bytes[2], &keeps[2]);
    assert_int_equal(amb_pub_close(pub, AMB_SEC), AMB_OK);
    assert_int_equal(amb_lease_commit(lease, NULL, NULL), AMB_ECLOSED);
    /* One that has not left when the connection is closed. */
    fake_broker_stall(s.fake, true);
    lease = take_kept(other, MIB, 'd', &bytes[3], &keeps[3]);
    assert_int_equal(amb_lease_commit(lease, NULL, NULL), AMB_OK);
    (void)amb_close(s.conn, AMB_NOWAIT);
    fake_broker_stop(s.fake);
    for (unsigned i = 0; i < 4; i++) {
        assert_kept(bytes[i], MIB, (uint8_t)('a' + i));
        amb_lease_unkeep(keeps[i]);
    }
}

static void it_outlives_a_lost_session(void **state)
{
    struct session s;
    struct amb_pub *pub = open_pub(&s, *state);
    uint8_t *bytes[3];
    struct amb_keep *keeps[3];
    commit_and_flush(pub, take_kept(pub, MIB, 'a', &bytes[0], &keeps[0]));
    fake_broker_hold_freed(s.fake, true);
    commit_and_flush(pub, take_kept(pub, MIB, 'b', &bytes[1], &keeps[1]));
    struct amb_lease *lease = take_kept(pub, MIB, 'c', &bytes[2], &keeps[2]);
    fake_broker_hang_up(s.fake);
    FAKE_WAIT(s.fake, &s.seen, amb_pub_send(pub, "x", 1, AMB_NOWAIT) == AMB_ELOST);
    assert_int_equal(amb_lease_commit(lease, NULL, NULL), AMB_ELOST);
    for (unsigned i = 0; i < 3; i++) {
        assert_kept(bytes[i], MIB, (uint8_t)('a' + i));
    }
    amb_lease_unkeep(keeps[1]);
    (void)amb_close(s.conn, AMB_NOWAIT);
    fake_broker_stop(s.fake);
    assert_kept(bytes[0], MIB, 'a');
    amb_lease_unkeep(keeps[0]);
    assert_kept(bytes[2], MIB, 'c');
    amb_lease_unkeep(keeps[2]);
}

static void wrong_calls_and_forked_children_change_nothing(void **state)
{
    struct session s;
    struct amb_pub *pub = open_pub(&s, *state);
    uint8_t *bytes;
    struct amb_keep *keep, *second = (void *)1;
    struct amb_lease *lease = take_kept(pub, MIB, 'a', &bytes, &keep);
    assert_int_equal(amb_lease_keep(lease, &second), AMB_ESTATE);
    assert_null(second);
    assert_int_equal(amb_lease_keep(NULL, &second), AMB_EINVAL);
    assert_int_equal(amb_lease_keep(lease, NULL), AMB_EINVAL);
    pid_t pid = fork();
    if (pid == 0) {
        bool is_good = amb_lease_keep(lease, &second) == AMB_EFORKED && second == NULL;
        amb_lease_unkeep(keep);
        _exit(is_good ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    commit_and_flush(pub, lease);
    await_freed(&s);
    assert_kept(bytes, MIB, 'a');
    amb_lease_unkeep(keep);
    session_close(&s);
}

#define ROUNDS 1500u
#define HELD 4u

static void *keep_many(void *arg)
{
    struct amb_pub *pub = arg;
    uint8_t *bytes[HELD] = {NULL}, marks[HELD] = {0};
    size_t lens[HELD] = {0};
    struct amb_keep *keeps[HELD] = {NULL};
    bool is_good = true;
    for (unsigned i = 0; i < ROUNDS && is_good; i++) {
        unsigned at = i % HELD;
        if (bytes[at] != NULL) {
            is_good = bytes[at][0] == marks[at] && bytes[at][lens[at] - 1] == marks[at];
            amb_lease_unkeep(keeps[at]);
        }
        struct amb_lease *lease;
        lens[at] = i % 3 == 0 ? 100 : 70000;
        marks[at] = (uint8_t)((uintptr_t)&lease / 64 + i);
        if (amb_lease(pub, lens[at], AMB_FOREVER, &lease) != AMB_OK ||
            amb_lease_keep(lease, &keeps[at]) != AMB_OK) {
            return NULL;
        }
        bytes[at] = amb_lease_data(lease);
        memset(bytes[at], marks[at], lens[at]);
        if (i % 10 == 0) {
            amb_lease_abandon(lease);
        } else if (amb_lease_commit(lease, NULL, NULL) != AMB_OK) {
            return NULL;
        }
    }
    for (unsigned i = 0; i < HELD; i++) {
        amb_lease_unkeep(keeps[i]);
    }
    return is_good ? pub : NULL;
}

static void threads_keep_what_they_lease(void **state)
{
    struct session s;
    struct amb_pub *pub = open_pub(&s, *state);
    pthread_t threads[3];
    for (int i = 0; i < 3; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, keep_many, pub), 0);
    }
    for (int i = 0; i < 3; i++) {
        void *result;
        assert_int_equal(pthread_join(threads[i], &result), 0);
        assert_ptr_equal(result, pub);
    }
    assert_int_equal(amb_pub_flush(pub, 0, WAIT), AMB_OK);
    await_freed(&s);
    assert_int_equal(private_used(&s), 0);
    session_close(&s);
}

int main(void)
{
#define BOTH(test)                                                                                 \
    cmocka_unit_test_prestate(test, &with_leases), cmocka_unit_test_prestate(test, &on_stream)
    const struct CMUnitTest tests[] = {
        BOTH(no_other_lease_gets_kept_memory),
        BOTH(a_lease_that_is_out_may_be_kept_again),
        BOTH(what_is_unkept_early_goes_on_as_if_it_had_not_been),
        cmocka_unit_test(slots_that_are_kept_make_nobody_wait),
        cmocka_unit_test(small_ones_in_one_commit_are_kept_one_by_one),
        BOTH(it_outlives_publisher_and_connection),
        BOTH(it_outlives_a_lost_session),
        BOTH(wrong_calls_and_forked_children_change_nothing),
        BOTH(threads_keep_what_they_lease),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
