/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Something that the control thread's epoll watches: embedded in the object it speaks for.
 * Threads: the control thread.
 */
#pragma once

#include <stdint.h>

struct amb_watch {
    void (*fn)(struct amb_watch *watch, uint32_t events);
};
