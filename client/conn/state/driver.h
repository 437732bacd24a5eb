/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The threads that move a connection's link: the driver, its followers, and the I/O thread.
 * drive/drive.c and drive/wake.c work on the driver, session/io.c on the I/O thread.
 *
 * Threads: under the connection's lock, but for what is atomic. Memory: descriptors, closed by the
 * end of the connection.
 */
#pragma once

#include "wire/base/spin.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct amb_wait;

struct amb_conn_driver {
    uint64_t activity;           /* callers' turns at the link */
    bool is_taken;               /* a thread drives */
    bool is_asleep;              /* ... and sleeps on the link, */
    bool wants_flow;             /* ... where flow values wake it, too */
    bool is_woken;               /* while it sleeps: another thread has woken it */
    bool has_changed;            /* something that followers wait for, since they were woken */
    uint32_t followers;          /* threads that wait for `change` */
    uint32_t flow_waits;         /* waits that flow values may end */
    _Atomic uint32_t change;     /* a futex */
    int wake_fd;                 /* eventfd: wakes a sleeping driver; amb_stop writes it */
    const struct amb_wait *wait; /* its own wait */
    uint64_t turns;              /* how often a thread has become the driver */
    struct amb_spin spin;
    int64_t waited_ns; /* when its last wait ended */
};

enum amb_io_mode {
    AMB_IO_NONE,  /* no thread */
    AMB_IO_AWAKE, /* running */
    AMB_IO_WATCH, /* asleep on the link, armed */
    AMB_IO_TICK,  /* asleep for a moment: callers move the link themselves, or a batch lingers */
    AMB_IO_DEEP,  /* asleep until a timer: a caller sleeps on the link */
};

struct amb_conn_io {
    _Atomic uint32_t mode; /* enum amb_io_mode */
    int wake_fd;           /* eventfd: wakes the I/O thread */
    pthread_t thread;
    bool has_thread, must_stop;
    bool is_lingering; /* amb_close has left the connection to it: messages are still out */
};

static inline void amb_conn_driver_init(struct amb_conn_driver *driver)
{
    driver->wake_fd = -1;
}

static inline void amb_conn_io_init(struct amb_conn_io *io)
{
    io->wake_fd = -1;
}
