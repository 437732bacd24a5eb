/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The program's word on whether a call that waits for the broker shall turn back.
 * Threads: the one that waits, without any lock. Memory: none.
 */
#pragma once

#include "wire/base/clock.h"

#include <amb/amb.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* It is asked that often. */
#define AMB_INTERRUPT_NS (100 * AMB_NS_PER_MS)

struct amb_interrupt {
    amb_interrupted_fn ask; /* NULL: nobody is asked */
    void *arg;
};

static inline bool amb_is_interrupted(const struct amb_interrupt *interrupt)
{
    return interrupt->ask != NULL && interrupt->ask(interrupt->arg) != 0;
}

/* How long a wait may go on before it asks. */
static inline int64_t amb_interrupt_slice(const struct amb_interrupt *interrupt, int64_t left_ns)
{
    return interrupt->ask != NULL && left_ns > AMB_INTERRUPT_NS ? AMB_INTERRUPT_NS : left_ns;
}
