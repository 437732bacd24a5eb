/* SPDX-License-Identifier: Apache-2.0 */
#include "client/memory/aside.h"

#include "client/conn/conn.h"
#include "client/conn/thread.h"
#include "client/drive/lock.h"

#include <pthread.h>
#include <stdlib.h>

struct aside {
    struct amb_conn *conn;
    amb_aside_fn fn;
    void *arg;
};

static pthread_mutex_t asides_lock = PTHREAD_MUTEX_INITIALIZER; /* of all counts; a leaf */
static pthread_cond_t asides_fewer = PTHREAD_COND_INITIALIZER;

/* False: it is the last reference. */
static bool unref_unless_last(struct amb_conn *conn)
{
    uint32_t refs = atomic_load_explicit(&conn->refs, memory_order_relaxed);
    while (refs > 1) {
        if (atomic_compare_exchange_weak_explicit(&conn->refs, &refs, refs - 1,
                                                  memory_order_release, memory_order_relaxed)) {
            return true;
        }
    }
    return false;
}

/* A thread that waits for this is the last holder then, if it holds the connection at all. */
static void count_out(struct amb_conn *conn)
{
    (void)pthread_mutex_lock(&asides_lock);
    conn->gpu.asides--;
    bool is_last = !unref_unless_last(conn);
    (void)pthread_cond_broadcast(&asides_fewer);
    (void)pthread_mutex_unlock(&asides_lock);
    if (is_last) {
        amb_conn_unref(conn);
    }
}

static void *aside_main(void *arg)
{
    struct aside own = *(struct aside *)arg;
    (void)pthread_setname_np(pthread_self(), "amb-aside");
    free(arg);
    own.fn(own.arg);
    count_out(own.conn);
    return NULL;
}

bool amb_aside(struct amb_conn *conn, amb_aside_fn fn, void *arg)
{
    struct aside *aside = malloc(sizeof(*aside));
    if (aside == NULL) {
        return false;
    }
    *aside = (struct aside){.conn = conn, .fn = fn, .arg = arg};
    amb_conn_ref(conn);
    (void)pthread_mutex_lock(&asides_lock);
    conn->gpu.asides++;
    (void)pthread_mutex_unlock(&asides_lock);
    if (amb_thread_begin_detached(aside_main, aside)) {
        return true;
    }
    free(aside);
    count_out(conn);
    return false;
}

void amb_asides_wait(const struct amb_conn *conn)
{
    (void)pthread_mutex_lock(&asides_lock);
    while (conn->gpu.asides != 0) {
        (void)pthread_cond_wait(&asides_fewer, &asides_lock);
    }
    (void)pthread_mutex_unlock(&asides_lock);
}

void amb_asides_lock(void)
{
    (void)pthread_mutex_lock(&asides_lock);
}

void amb_asides_unlock(void)
{
    (void)pthread_mutex_unlock(&asides_lock);
}
