/* SPDX-License-Identifier: Apache-2.0 */
/* Releases of host memory behind a stream, on the fake driver: many have one thread. */
#include "tests/fakecuda/fakecuda.h"
#include "tests/unit/client/session.h"

#include "client/drive/lock.h"
#include "client/memory/aside.h"
#include "client/message/message.h"
#include "tests/support/threads.h"
#include "wire/mem/cuda.h"

#include <cuda.h>
#include <stdlib.h>

#define MANY 100u

static CUcontext context;
static CUstream streams[2];

static void CUDA_CB do_nothing(void *arg)
{
    (void)arg;
}

static void open_with(struct session *s, struct amb_msg **msgs, unsigned n)
{
    struct amb_sub *sub;
    session_open(s, NULL, NULL);
    assert_int_equal(amb_subscribe(s->conn, "t.>", NULL, &sub), AMB_OK);
    for (unsigned i = 0; i < n; i++) {
        fake_broker_deliver(s->fake, 0, 1, "m", 1, 1 + i, 0);
        assert_int_equal(amb_next(sub, 5 * AMB_SEC, &msgs[i]), AMB_OK);
    }
}

static void captures_of_many_messages_have_one_thread(void **state)
{
    (void)state;
    struct session s;
    struct amb_msg *msgs[MANY];
    CUgraph graph;
    open_with(&s, msgs, MANY);
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(cuStreamBeginCapture(streams[i], CU_STREAM_CAPTURE_MODE_RELAXED),
                         CUDA_SUCCESS);
    }
    unsigned before = threads_count();
    for (unsigned i = 0; i < MANY; i++) {
        amb_msg_release_when_free(msgs[i], streams[i % 8 == 0]);
    }
    assert_in_range(threads_count(), before, before + 2);
    fake_broker_nap();
    fake_broker_look(s.fake, &s.seen);
    assert_int_equal(s.seen.release[0], 0);
    /* The stream has yet to run what came behind its capture. */
    fakecuda_hold(true);
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(cuStreamEndCapture(streams[i], &graph), CUDA_SUCCESS);
        assert_int_equal(cuLaunchHostFunc(streams[i], do_nothing, NULL), CUDA_SUCCESS);
    }
    for (unsigned i = 0; i < 10; i++) {
        fake_broker_nap();
    }
    fake_broker_look(s.fake, &s.seen);
    assert_int_equal(s.seen.release[0], 0);
    fakecuda_hold(false);
    FAKE_WAIT(s.fake, &s.seen, s.seen.release[0] == MANY);
    session_close(&s);
}

static void no_capture_that_goes_on_is_waited_for_after_a_close(void **state)
{
    (void)state;
    struct session s;
    struct amb_msg *msgs[2];
    CUgraph graph;
    open_with(&s, msgs, 2);
    struct amb_conn *conn = s.conn;
    amb_conn_ref(conn);
    assert_int_equal(cuStreamBeginCapture(streams[0], CU_STREAM_CAPTURE_MODE_RELAXED),
                     CUDA_SUCCESS);
    amb_msg_release_when_free(msgs[0], streams[0]);
    session_close(&s);
    amb_msg_release_when_free(msgs[1], streams[0]);
    amb_asides_wait(conn);
    amb_conn_unref(conn);
    assert_int_equal(cuStreamEndCapture(streams[0], &graph), CUDA_SUCCESS);
}

struct host_function {
    struct amb_msg *msg;
    CUstream stream;
};

static void CUDA_CB release_in_host_function(void *arg)
{
    const struct host_function *own = arg;
    amb_msg_release_when_free(own->msg, own->stream);
}

/* There nothing may be asked of the driver. The default stream is of each context. */
static void a_host_function_may_give_back(void **state)
{
    (void)state;
    struct session s;
    struct amb_msg *msgs[2];
    open_with(&s, msgs, 2);
    for (unsigned i = 0; i < 2; i++) {
        struct host_function own = {.msg = msgs[i], .stream = i == 0 ? streams[1] : NULL};
        assert_int_equal(cuLaunchHostFunc(streams[0], release_in_host_function, &own),
                         CUDA_SUCCESS);
        assert_int_equal(cuStreamSynchronize(streams[0]), CUDA_SUCCESS);
        FAKE_WAIT(s.fake, &s.seen, s.seen.release[0] == i + 1);
    }
    session_close(&s);
}

int main(void)
{
    (void)setenv(AMB_CUDA_LIBRARY_ENV, AMB_FAKECUDA, 1);
    if (amb_cuda_start() != AMB_OK || cuDevicePrimaryCtxRetain(&context, 0) != CUDA_SUCCESS ||
        cuCtxSetCurrent(context) != CUDA_SUCCESS ||
        cuStreamCreate(&streams[0], CU_STREAM_NON_BLOCKING) != CUDA_SUCCESS ||
        cuStreamCreate(&streams[1], CU_STREAM_NON_BLOCKING) != CUDA_SUCCESS) {
        return 1;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(captures_of_many_messages_have_one_thread),
        cmocka_unit_test(no_capture_that_goes_on_is_waited_for_after_a_close),
        cmocka_unit_test(a_host_function_may_give_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
