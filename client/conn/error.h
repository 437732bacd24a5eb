/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Errors as the program sees them: the last one of a connection, and why a call turns back.
 * Threads: any; the text is under a lock of its own, a leaf. Memory: none.
 */
#pragma once

#include <amb/amb.h>
#include <pthread.h>
#include <stdint.h>

struct amb_conn;

/* The last error of a connection. */
struct amb_conn_error {
    pthread_mutex_t lock;
    struct amb_error last;
};

static inline void amb_conn_error_init(struct amb_conn_error *error)
{
    (void)pthread_mutex_init(&error->lock, NULL);
}

static inline void amb_conn_error_fini(struct amb_conn_error *error)
{
    (void)pthread_mutex_destroy(&error->lock);
}

/* The answer of a call on a connection with this trouble; AMB_OK if it has none of it. */
enum amb_status amb_conn_trouble(struct amb_conn *conn, uint32_t which);
/* Why a call failed so, for its message: the connection's end if that was it. Any thread. */
const char *amb_conn_reason(struct amb_conn *conn, enum amb_status status);
/* Records the error that amb_last_error shows (not EAGAIN, ETIMEDOUT) and returns status. */
enum amb_status amb_conn_fail(struct amb_conn *conn, enum amb_status status, const char *format,
                              ...) __attribute__((format(printf, 3, 4)));
