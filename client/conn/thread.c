/* SPDX-License-Identifier: Apache-2.0 */
#include "client/conn/thread.h"

#include <signal.h>

int amb_thread_begin(pthread_t *thread, void *(*thread_main)(void *), void *arg)
{
    sigset_t all, before;
    (void)sigfillset(&all);
    int error = pthread_sigmask(SIG_SETMASK, &all, &before);
    if (error != 0) {
        return error;
    }
    error = pthread_create(thread, NULL, thread_main, arg);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error;
}

bool amb_thread_begin_detached(void *(*thread_main)(void *), void *arg)
{
    pthread_t thread;
    if (amb_thread_begin(&thread, thread_main, arg) != 0) {
        return false;
    }
    (void)pthread_detach(thread);
    return true;
}
