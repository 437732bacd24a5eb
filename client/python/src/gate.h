/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The calls inside a handle, so that a close by one thread frees nothing that another one is in.
 * It knows nothing of Python.
 *
 *   enter ─► inside ─► leave
 *   close: enter fails from here on ─► await: the last one inside has left ─► the handle may go
 *
 * A call that waits looks at amb_gate_is_closed now and then, and turns back.
 *
 * Threads: any; the first one that closes frees the handle. Memory: one word, part of an object
 * that callers hold a reference to.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define AMB_GATE_CLOSED (UINT32_C(1) << 31)

/* Zeros: open, and nobody inside. At most 2^31 - 1 calls are inside at a time. */
struct amb_gate {
    _Atomic uint32_t state; /* calls inside, and AMB_GATE_CLOSED; a futex */
};

/* False: it is closed, and the caller is not inside. */
bool amb_gate_enter(struct amb_gate *gate);
/* The caller has closed it, and is inside once more. Others that await the gate wait for this one.
 */
void amb_gate_reenter(struct amb_gate *gate);
/* The last touch of the handle. */
void amb_gate_leave(struct amb_gate *gate);
/* No call enters any more. True: nobody has closed it before. */
bool amb_gate_close(struct amb_gate *gate);
/* Waits up to timeout_ns until nobody is inside a closed gate. All that calls did is seen then.
 * False: somebody still is. A caller that is inside itself waits in vain. */
bool amb_gate_await(struct amb_gate *gate, int64_t timeout_ns);

static inline bool amb_gate_is_closed(const struct amb_gate *gate)
{
    return (atomic_load_explicit(&gate->state, memory_order_relaxed) & AMB_GATE_CLOSED) != 0;
}
