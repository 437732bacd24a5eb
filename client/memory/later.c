/* SPDX-License-Identifier: Apache-2.0 */
#include "client/memory/later.h"

#include "client/conn/thread.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

static struct {
    pthread_mutex_t lock; /* a leaf; not held while a job is done */
    pthread_cond_t is_done;
    struct amb_later *first, **last;
    uint64_t put_off, done;
    pid_t thread_of; /* the process whose thread it is; 0: there is none */
} later = {.lock = PTHREAD_MUTEX_INITIALIZER, .is_done = PTHREAD_COND_INITIALIZER};

static _Thread_local bool is_here;

static void *later_main(void *arg)
{
    is_here = true;
    (void)pthread_setname_np(pthread_self(), "amb-later");
    (void)pthread_mutex_lock(&later.lock);
    while (later.first != NULL) {
        struct amb_later *job = later.first;
        later.first = job->next;
        (void)pthread_mutex_unlock(&later.lock);
        job->fn(job);
        (void)pthread_mutex_lock(&later.lock);
        later.done++;
        (void)pthread_cond_broadcast(&later.is_done);
    }
    later.thread_of = 0;
    (void)pthread_mutex_unlock(&later.lock);
    return arg;
}

void amb_later(struct amb_later *job, amb_later_fn fn)
{
    *job = (struct amb_later){.fn = fn};
    (void)pthread_mutex_lock(&later.lock);
    if (later.thread_of != getpid()) { /* A child of fork has its parent's list, and no thread. */
        later.first = NULL;
        later.done = later.put_off;
        later.thread_of = amb_thread_begin_detached(later_main, NULL) ? getpid() : 0;
    }
    bool is_put_off = later.thread_of != 0;
    if (is_put_off) {
        later.last = later.first == NULL ? &later.first : later.last;
        *later.last = job;
        later.last = &job->next;
        later.put_off++;
    }
    (void)pthread_mutex_unlock(&later.lock);
    if (!is_put_off) {
        fn(job);
    }
}

bool amb_later_is_here(void)
{
    return is_here;
}

void amb_later_wait(void)
{
    (void)pthread_mutex_lock(&later.lock);
    while (later.done < later.put_off && later.thread_of == getpid()) {
        (void)pthread_cond_wait(&later.is_done, &later.lock);
    }
    (void)pthread_mutex_unlock(&later.lock);
}

void amb_later_lock(void)
{
    (void)pthread_mutex_lock(&later.lock);
}

void amb_later_unlock(void)
{
    (void)pthread_mutex_unlock(&later.lock);
}
