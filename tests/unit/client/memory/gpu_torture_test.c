/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any call of the driver fails, at any turn, while GPU memory is published and received. The call
 * or the message fails, the connection goes on with host memory, nothing crashes and nothing
 * arrives wrong. Each round in a process of its own; every sixth turn, with an argument every turn.
 */
#include "client/memory/later.h"
#include "tests/fakecuda/fakecuda.h"
#include "tests/unit/client/session.h"

#include "wire/mem/cuda.h"

#include <cuda.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define TURNS 72u
#define AT_ONCE 16u /* rounds */
#define LEN ((size_t)40000)

static unsigned step = 6;
static uint8_t bytes[LEN];

static CUdeviceptr device_memory(void)
{
    CUcontext context;
    CUdeviceptr memory = 0;
    memset(bytes, 0x6b, LEN);
    if (cuInit(0) != CUDA_SUCCESS || cuDevicePrimaryCtxRetain(&context, 0) != CUDA_SUCCESS ||
        cuCtxSetCurrent(context) != CUDA_SUCCESS || cuMemAlloc(&memory, LEN) != CUDA_SUCCESS ||
        !fakecuda_poke(memory, bytes, LEN)) {
        return 0;
    }
    return memory;
}

/* 0, or the fault. */
static int receive(struct session *s, struct amb_sub *sub)
{
    struct amb_msg *msg;
    fake_broker_deliver(s->fake, 0, 1, "m", 2, 1, 0);
    while (amb_next(sub, 20 * AMB_MS, &msg) == AMB_OK) {
        char text[2] = "";
        const void *data = amb_msg_data_on(msg, NULL);
        if (data == NULL || amb_msg_size(msg) != 2 || !fakecuda_peek((uintptr_t)data, text, 2) ||
            text[0] != 'm') {
            return 10;
        }
        amb_msg_release_on(msg, NULL);
    }
    return 0;
}

static int go_through(unsigned turn, int error)
{
    struct session s = {.fake = fake_broker_start(NULL)};
    struct amb_pub *pub;
    struct amb_sub *sub;
    CUdeviceptr memory = device_memory();
    char plan[32];
    if (memory == 0 || amb_connect(fake_broker_url(s.fake), NULL, &s.conn) != AMB_OK ||
        amb_pub_open(s.conn, "a", NULL, &pub) != AMB_OK) {
        return 1;
    }
    (void)snprintf(plan, sizeof(plan), "*:%u=%d", turn, error);
    fakecuda_fail(plan);
    int result = 0;
    const size_t sizes[] = {100, LEN};
    for (size_t i = 0; i < 2 && result == 0; i++) {
        const struct amb_out *out =
            AMB_OUT(.mem = AMB_MEM_CUDA, .len = sizes[i], .data = (const void *)(uintptr_t)memory);
        if (amb_pub_post(pub, out, 5 * AMB_SEC, NULL) == AMB_OK) {
            if (amb_pub_flush(pub, 0, 5 * AMB_SEC) != AMB_OK) {
                return 2;
            }
            fake_broker_look(s.fake, &s.seen);
            result = memcmp(s.seen.last, bytes, 100) == 0 ? 0 : 3;
        }
    }
    if (result == 0 && amb_subscribe(s.conn, "t.>", AMB_SUB(.mem = AMB_MEM_CUDA), &sub) == AMB_OK) {
        result = receive(&s, sub);
    }
    /* Host memory goes on, whatever has become of the device. */
    if (result == 0 && (amb_pub_post(pub, AMB_OUT(.mem = AMB_MEM_HOST, .data = "h", .len = 1),
                                     5 * AMB_SEC, NULL) != AMB_OK ||
                        amb_pub_flush(pub, 0, 5 * AMB_SEC) != AMB_OK)) {
        result = 4;
    }
    session_close(&s);
    /* Our own memory is left. An end may fail to free objects when it did not get into the context:
     * two chunks, a stream, three events. */
    amb_later_wait();
    fakecuda_fail(NULL);
    bool is_lost = error == CUDA_ERROR_LAUNCH_FAILED;
    if (result == 0 && !is_lost &&
        fakecuda_live_device() + fakecuda_live_pinned() + fakecuda_live_streams() +
                fakecuda_live_events() >
            7) {
        result = 5;
    }
    return result;
}

static void any_call_of_the_driver_may_fail(void **state)
{
    (void)state;
    pid_t pids[AT_ONCE];
    for (unsigned first = 1; first <= TURNS; first += AT_ONCE / 2 * step) {
        for (unsigned i = 0; i < AT_ONCE; i++) {
            int error = i % 2 == 0 ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_LAUNCH_FAILED;
            pids[i] = fork();
            if (pids[i] == 0) {
                _exit(go_through(first + i / 2 * step, error));
            }
        }
        for (unsigned i = 0; i < AT_ONCE; i++) {
            int status = 0;
            assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
            if (status != 0) {
                (void)fprintf(stderr, "turn %u, sticky %u: status %#x\n", first + i / 2 * step,
                              i % 2, (unsigned)status);
            }
            assert_int_equal(status, 0);
        }
    }
}

int main(int argc, char **argv)
{
    (void)argv;
    step = argc > 1 ? 1 : step;
    (void)setenv(AMB_CUDA_LIBRARY_ENV, AMB_FAKECUDA, 1);
    const struct CMUnitTest tests[] = {cmocka_unit_test(any_call_of_the_driver_may_fail)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
