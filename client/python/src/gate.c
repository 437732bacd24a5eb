/* SPDX-License-Identifier: Apache-2.0 */
#include "client/python/src/gate.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define NS_PER_SEC INT64_C(1000000000)

static int64_t now_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * NS_PER_SEC + now.tv_nsec;
}

bool amb_gate_enter(struct amb_gate *gate)
{
    /* Acquire: pairs with the release of the thread that made the handle known. */
    uint32_t before = atomic_fetch_add_explicit(&gate->state, 1, memory_order_acquire);
    if ((before & AMB_GATE_CLOSED) != 0) {
        amb_gate_leave(gate);
        return false;
    }
    return true;
}

void amb_gate_reenter(struct amb_gate *gate)
{
    (void)atomic_fetch_add_explicit(&gate->state, 1, memory_order_relaxed);
}

void amb_gate_leave(struct amb_gate *gate)
{
    /* Release: pairs with the acquire of amb_gate_await. */
    uint32_t before = atomic_fetch_sub_explicit(&gate->state, 1, memory_order_release);
    if (before == (AMB_GATE_CLOSED | 1)) {
        (void)syscall(SYS_futex, &gate->state, FUTEX_WAKE_PRIVATE, INT32_MAX, NULL, NULL, 0);
    }
}

bool amb_gate_close(struct amb_gate *gate)
{
    uint32_t before = atomic_fetch_or_explicit(&gate->state, AMB_GATE_CLOSED, memory_order_acq_rel);
    return (before & AMB_GATE_CLOSED) == 0;
}

bool amb_gate_await(struct amb_gate *gate, int64_t timeout_ns)
{
    int64_t begin = now_ns(), passed = 0;
    for (;;) {
        uint32_t state = atomic_load_explicit(&gate->state, memory_order_acquire);
        if (state == AMB_GATE_CLOSED) {
            return true;
        }
        if (passed >= timeout_ns) {
            return false;
        }
        int64_t left = timeout_ns - passed;
        struct timespec ts = {.tv_sec = left / NS_PER_SEC, .tv_nsec = left % NS_PER_SEC};
        (void)syscall(SYS_futex, &gate->state, FUTEX_WAIT_PRIVATE, state, &ts, NULL, 0);
        passed = now_ns() - begin;
    }
}
