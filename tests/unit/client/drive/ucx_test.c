/* SPDX-License-Identifier: Apache-2.0 */
/* A connection's share of UCX, over TCP on lo: the end of a link whose peer is not looked after. */
#include "client/drive/ucx.h"

#include "client/batch/batches.h"
#include "client/conn/conn.h"
#include "client/drive/lock.h"
#include "client/session/life.h"
#include "client/session/link_events.h"
#include "tests/support/link/ucx_open.h"
#include "wire/link/ucx/ucx_op.h"
#include "wire/link/ucx/ucx_state.h"
#include "wire/link/ucx/ucx_worker.h"

#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <time.h>

#include <cmocka.h>

#define LARGE ((size_t)16 << 20)

static struct amb_batch *send_large(struct amb_conn *conn, uint8_t *bytes)
{
    struct amb_batch *batch = amb_pub_large_get(conn, 0);
    assert_non_null(batch);
    amb_batch_records(batch)[0] = (struct amb_record){.len = LARGE};
    batch->count = 1;
    batch->data = bytes;
    batch->data_len = LARGE;
    amb_batch_close(batch);
    batch->out.frame.seq = 1;
    batch->out.kind = AMB_CONN_TX_BATCH;
    batch->is_waited = true;
    assert_int_equal(amb_conn_tx_send(conn, &batch->out), AMB_EAGAIN);
    amb_conn_flush_link(conn);
    return batch;
}

struct caller {
    struct amb_conn *conn;
    bool has_begun, has_called, is_over; /* with the lock, but for the first */
};

static void *call_meanwhile(void *arg)
{
    struct caller *caller = arg;
    __atomic_store_n(&caller->has_begun, true, __ATOMIC_RELEASE);
    amb_conn_lock(caller->conn);
    caller->has_called = !caller->is_over;
    amb_conn_unlock(caller->conn);
    return NULL;
}

/* A peer that does nothing. */
struct far {
    struct amb_ucx_context *context;
    struct amb_ucx_worker *worker;
};

/* A connection that is locked, and has a link to the peer. */
static struct amb_conn *link_begin(struct far *far)
{
    struct amb_error error;
    size_t len = 0;
    *far = (struct far){.context = ucx_open_context()};
    assert_int_equal(amb_ucx_worker_create(far->context, false, &far->worker), AMB_OK);
    struct amb_conn *conn = amb_conn_create();
    assert_non_null(conn);
    amb_conn_lock(conn);
    conn->ucx.context = ucx_open_context();
    assert_int_equal(amb_ucx_worker_create(conn->ucx.context, true, &conn->ucx.worker), AMB_OK);
    const void *address = amb_ucx_worker_address(far->worker, &len);
    assert_int_equal(amb_client_ucx_attach(conn, address, len, &amb_conn_link_events, &error),
                     AMB_OK);
    return conn;
}

static void link_end(struct amb_conn *conn, struct far *far)
{
    amb_conn_teardown(conn);
    amb_conn_unlock(conn);
    amb_conn_unref(conn);
    amb_ucx_worker_destroy(&far->worker);
    amb_ucx_context_destroy(&far->context);
}

/* UCX 1.13 may not give a request back after a forced close, and the end of a worker waits for it.
 */
static void test_other_calls_go_on_while_a_forced_link_settles(void **state)
{
    (void)state;
    struct far far;
    struct amb_conn *conn = link_begin(&far);
    assert_non_null(amb_ucx_op_get(amb_ucx_link_of(conn->link), AMB_UCX_OP_WORD)); /* Never back. */
    amb_conn_close_link(conn);
    assert_non_null(conn->link);
    struct caller caller = {.conn = conn};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, call_meanwhile, &caller), 0);
    while (!__atomic_load_n(&caller.has_begun, __ATOMIC_ACQUIRE)) {
        (void)sched_yield();
    }
    amb_client_ucx_end(conn, 0);
    caller.is_over = true;
    assert_null(conn->link);
    amb_conn_unlock(conn);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_true(caller.has_called);
    amb_conn_lock(conn);
    link_end(conn, &far);
}

/* Else the session would go on without it, and a thread wait for ever for this batch. */
static void test_a_link_that_does_not_end_in_time_settles_all_it_has(void **state)
{
    (void)state;
    struct far far;
    struct amb_conn *conn = link_begin(&far);
    uint8_t *bytes = calloc(1, LARGE);
    assert_non_null(bytes);
    struct amb_batch *batch = send_large(conn, bytes);
    amb_conn_close_link(conn);
    assert_non_null(conn->link); /* It waits for its peer. */
    assert_true(batch->out.is_queued);
    amb_client_ucx_end(conn, 0);
    assert_false(batch->out.is_queued);
    assert_null(conn->link);
    assert_null(conn->ucx.worker);
    amb_pub_batch_put(conn, batch);
    link_end(conn, &far);
    free(bytes);
}

static const struct amb_ucx_worker *watched;
static size_t left_at_end; /* links, when its UCX goes */
static void (*real_destroy)(ucp_worker_h worker);

static void watched_destroy(ucp_worker_h worker)
{
    if (watched != NULL && worker == watched->handle) {
        left_at_end = watched->link_count;
    }
    real_destroy(worker);
}

/* UCX 1.13 aborts where a worker goes before its requests have. */
static void test_a_process_that_was_stopped_settles_before_its_worker_goes(void **state)
{
    (void)state;
    struct far far;
    struct amb_conn *conn = link_begin(&far);
    uint8_t *bytes = calloc(1, LARGE);
    assert_non_null(bytes);
    struct amb_batch *batch = send_large(conn, bytes);
    amb_conn_close_link(conn);
    amb_ucx_worker_force(conn->ucx.worker);
    const struct timespec stopped = {.tv_sec = AMB_UCX_SETTLE_NS / AMB_NS_PER_SEC};
    (void)nanosleep(&stopped, NULL);
    watched = conn->ucx.worker;
    left_at_end = 0;
    real_destroy = amb_ucx_api.ucp_worker_destroy;
    amb_ucx_api.ucp_worker_destroy = watched_destroy;
    amb_client_ucx_fini(conn);
    amb_ucx_api.ucp_worker_destroy = real_destroy;
    assert_int_equal(left_at_end, 0);
    amb_pub_batch_put(conn, batch);
    link_end(conn, &far);
    free(bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_other_calls_go_on_while_a_forced_link_settles),
        cmocka_unit_test(test_a_link_that_does_not_end_in_time_settles_all_it_has),
        cmocka_unit_test(test_a_process_that_was_stopped_settles_before_its_worker_goes),
    };
    return cmocka_run_group_tests_name("client/ucx", tests, NULL, NULL);
}
