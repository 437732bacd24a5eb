/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The life of one subscription: its callback, its beginning and end (subscribe/subscribe.c),
 * another session (subscribe/resume.c), and the position that it was begun with
 * (subscribe/position.c).
 *
 * Threads: under the connection's lock; on_message and arg stay as they are. Memory: the heap's.
 */
#pragma once

#include <amb/amb.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

/* session/poll.c */
struct amb_sub_callback {
    amb_msg_fn on_message;
    void *arg;
    bool is_running; /* on `thread` */
    pthread_t thread;
};

struct amb_sub_position {
    uint8_t *resumed; /* the position it was begun with, or NULL */
    size_t resumed_len;
    int64_t since_ns; /* messages of other topics came since then, by the broker's clock */
};

static inline void amb_sub_position_fini(struct amb_sub_position *position)
{
    free(position->resumed);
}

struct amb_sub_life {
    _Atomic bool is_shut; /* gives no more; written under the lock */
    bool is_user_done;    /* closed by the program */
    bool is_ending;       /* the broker was asked to end it, */
    bool is_ended;        /* and has */
    bool is_gone;         /* its handle is another one's: no word on it can be sent any more */
    bool is_open;         /* the broker has answered, */
    bool is_narrowed;     /* ... and leaves out some topics, by roles of the user */
    bool is_restarted;    /* the broker is another one: nobody knows what was lost before the next
                             message */
    uint8_t *ask;         /* the Subscribe, packed, for another session */
    size_t ask_len;
};

static inline void amb_sub_life_fini(struct amb_sub_life *life)
{
    free(life->ask);
}
