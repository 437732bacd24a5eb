/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Publishing device memory: by one copy on the device into a range of the broker's there, or by way
 * of the host. In the host small messages go into the open batch. Larger ones go into a leased
 * slot, where subscribers on this machine read them in place. Threads: any, no lock held. Memory:
 * out's, for the call.
 */
#pragma once

#include "client/batch/pub.h"
#include "wire/mem/cuda.h"

/* A clock of the processor's, in whatever unit. */
static inline uint64_t amb_staged_ticks(void)
{
#if defined(__x86_64__)
    return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
    uint64_t ticks;
    __asm__ volatile("mrs %0, cntvct_el0" : "=r"(ticks));
    return ticks << 6; /* 25 MHz to 1 GHz. */
#else
    return 0; /* It never stands still for long enough: looked at each time. */
#endif
}

/* Well below what a driver takes to be loaded and to give out memory. */
#define AMB_STAGED_LOOK_TICKS ((uint64_t)1 << 20)

/*
 * May the next message of an open batch be read without a look at where it is? As long as there is
 * no driver, and none can have come since it was last looked for. Publisher's lock held.
 */
static inline bool amb_staged_may_read(struct amb_pub *pub)
{
    uint32_t wary = atomic_load_explicit(&pub->wary, memory_order_relaxed);
    if (__builtin_expect(wary == 0, 1)) {
        return true;
    }
    uint64_t ticks = amb_staged_ticks();
    if ((wary & AMB_WARY_LIVE) == 0 && ticks - pub->looked_ticks - 1 < AMB_STAGED_LOOK_TICKS) {
        return true;
    }
    pub->looked_ticks = ticks;
    return (wary & AMB_WARY_LIVE) == 0 && !amb_cuda_is_live();
}

/* Must these bytes be fetched from a device? Quick, above all in a process without a driver. One
 * question to the driver; place: its answer, if yes. Else place->mem alone is set: HOST, PINNED, or
 * DEFAULT if nobody was asked. */
bool amb_staged_is_wanted(struct amb_pub *pub, const void *data, uint64_t len,
                          struct amb_mem_place *place);

/*
 * Is out's payload of the kind it says (EKIND), and may it be read? Waits for out->stream where the
 * host reads. *is_staged: it is in device memory, at *place, for amb_staged_post. Else place->mem
 * alone is set, as amb_staged_is_wanted does. EKIND, ENOTSUP, ECUDA.
 */
enum amb_status amb_staged_check(struct amb_pub *pub, const struct amb_out *out, bool *is_staged,
                                 struct amb_mem_place *place);

/*
 * Publishes out->data, which is device memory, after what is on out->stream; options are checked.
 * Into the broker's memory on that device, where there is some; else by way of the host. The bytes
 * are the caller's again when it returns (is_waited), or when it is settled. Errors as
 * amb_pub_post, and ECUDA.
 */
enum amb_status amb_staged_post(struct amb_pub *pub, const struct amb_out *out,
                                const struct amb_mem_place *place, bool is_waited,
                                int64_t timeout_ns, uint64_t *seq);
