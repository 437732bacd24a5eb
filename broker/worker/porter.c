/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/worker/porter.h"

#include "broker/worker/orders_session.h"
#include "wire/base/log.h"
#include "wire/base/passed.h"
#include "wire/link/link.h"
#include "wire/link/ring/ring.h"

#include <poll.h>
#include <sched.h>
#include <semaphore.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef CLOSE_RANGE_UNSHARE
#define CLOSE_RANGE_UNSHARE 2u
#endif

/* May it be posted to? is_running changes while no other thread runs that posts. */
static bool is_open(const struct amb_porter *porter)
{
    return porter != NULL && porter->is_running;
}

/* Closing ------------------------------------------------------------------------------------- */

/* A thread with a table of descriptors of its own, which holds one connection alone. */
struct bearer {
    int fd;
    bool is_ready;
    sem_t ready, go;
};

/* Nothing else may be kept open by a bearer, should its end take long. */
static bool bearer_take(int fd)
{
    unsigned at = (unsigned)fd;
    if (syscall(SYS_close_range, at + 1, ~0u, CLOSE_RANGE_UNSHARE) == 0) {
        return at == 0 || syscall(SYS_close_range, 0, at - 1, 0) == 0;
    }
    return unshare(CLONE_FILES) == 0;
}

static void *bearer_main(void *arg)
{
    struct bearer *bearer = arg;
    bearer->is_ready = bearer_take(bearer->fd);
    (void)sem_post(&bearer->ready);
    while (sem_wait(&bearer->go) != 0) {
    }
    return NULL; /* A thread that ends lingers over no socket. */
}

/* Closes a connection that may take any time to close. Joining the bearer does not wait for that:
 * the kernel tells of a thread's end before it closes the thread's descriptors. */
static void close_by_bearer(int fd)
{
    struct bearer bearer = {.fd = fd};
    pthread_t thread;
    (void)sem_init(&bearer.ready, 0, 0);
    (void)sem_init(&bearer.go, 0, 0);
    bool is_running = pthread_create(&thread, NULL, bearer_main, &bearer) == 0;
    if (is_running) {
        while (sem_wait(&bearer.ready) != 0) {
        }
    }
    if (!is_running || !bearer.is_ready) {
        amb_warn("a connection with descriptors that nobody asked for may take long to close");
    }
    (void)close(fd);
    if (is_running) {
        (void)sem_post(&bearer.go);
        (void)pthread_join(thread, NULL);
    }
    (void)sem_destroy(&bearer.ready);
    (void)sem_destroy(&bearer.go);
}

static bool is_listener(int fd)
{
    int value = 0;
    socklen_t len = sizeof(value);
    return getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &value, &len) == 0 && value != 0;
}

struct closing {
    struct amb_mail mail;
    int fd;
};

static void closing_arrived(struct amb_mail *mail, void *owner)
{
    struct amb_porter *porter = owner;
    struct closing *closing = AMB_CONTAINER_OF(mail, struct closing, mail);
    /* Connections that nobody has accepted go with a listener, and were never looked at. */
    if (is_listener(closing->fd) || amb_passed_is_left(closing->fd)) {
        atomic_fetch_add_explicit(&porter->burdened, 1, memory_order_relaxed);
        close_by_bearer(closing->fd);
    } else {
        (void)close(closing->fd);
    }
    atomic_fetch_sub_explicit(&porter->closing, 1, memory_order_relaxed);
    free(closing);
}

void amb_porter_close(struct amb_porter *porter, int fd)
{
    (void)shutdown(fd, SHUT_RDWR); /* Nothing comes any more, and its peer need not wait. */
    struct closing *closing = is_open(porter) ? malloc(sizeof(*closing)) : NULL;
    if (closing == NULL) {
        (void)close(fd);
        return;
    }
    closing->fd = fd;
    atomic_fetch_add_explicit(&porter->closing, 1, memory_order_relaxed);
    amb_mail_post(&porter->inbox, &closing->mail, closing_arrived);
}

/* Rings --------------------------------------------------------------------------------------- */

static void opening_arrived(struct amb_mail *mail, void *owner)
{
    const struct amb_porter *porter = owner;
    struct amb_order_session_open *open =
        AMB_CONTAINER_OF(mail, struct amb_order_session_open, order.mail);
    open->order.status = atomic_load_explicit(&porter->is_refusing, memory_order_relaxed)
                             ? AMB_ECLOSED
                             : amb_ring_create(open->opening.ring_size, NULL, NULL,
                                               &open->opening.fds, &open->opening.ring);
    amb_order_post(open->order.shard, &open->order);
}

void amb_porter_open(struct amb_porter *porter, struct amb_shard *shard,
                     struct amb_order_session_open *open)
{
    open->order.shard = shard;
    if (is_open(porter)) {
        amb_mail_post(&porter->inbox, &open->order.mail, opening_arrived);
    } else {
        open->order.status = AMB_ECLOSED;
        amb_order_post(shard, &open->order);
    }
}

struct disposal {
    struct amb_mail mail;
    struct amb_link_waste *waste;
};

/* When the broker ends, clients still read what it has sent them. */
static bool contents_go(const struct amb_porter *porter)
{
    return is_open(porter) && !atomic_load_explicit(&porter->is_refusing, memory_order_relaxed);
}

static void disposal_arrived(struct amb_mail *mail, void *owner)
{
    struct disposal *disposal = AMB_CONTAINER_OF(mail, struct disposal, mail);
    disposal->waste->dispose(disposal->waste, contents_go(owner));
    free(disposal);
}

void amb_porter_dispose(struct amb_porter *porter, struct amb_link_waste *waste)
{
    struct disposal *disposal = is_open(porter) ? malloc(sizeof(*disposal)) : NULL;
    if (disposal == NULL) {
        waste->dispose(waste, contents_go(porter)); /* Without memory here, too. */
        return;
    }
    disposal->waste = waste;
    amb_mail_post(&porter->inbox, &disposal->mail, disposal_arrived);
}

/* The thread ---------------------------------------------------------------------------------- */

static void *porter_main(void *arg)
{
    struct amb_porter *porter = arg;
    (void)pthread_setname_np(pthread_self(), "amb-porter");
    while (!porter->is_stopping) {
        struct pollfd bell = {.fd = porter->inbox.bell, .events = POLLIN};
        bool rang = amb_inbox_arm(&porter->inbox) && poll(&bell, 1, -1) > 0;
        amb_inbox_disarm(&porter->inbox, rang);
        (void)amb_inbox_run(&porter->inbox);
    }
    return NULL;
}

enum amb_status amb_porter_start(struct amb_porter *porter)
{
    enum amb_status status = amb_inbox_init(&porter->inbox, porter);
    if (status != AMB_OK) {
        return status;
    }
    int error = pthread_create(&porter->thread, NULL, porter_main, porter);
    if (error != 0) {
        amb_inbox_fini(&porter->inbox);
        return amb_status_from_errno(error);
    }
    porter->is_running = true;
    return AMB_OK;
}

static void stop_arrived(struct amb_mail *mail, void *owner)
{
    (void)mail;
    ((struct amb_porter *)owner)->is_stopping = true;
}

void amb_porter_refuse(struct amb_porter *porter)
{
    atomic_store_explicit(&porter->is_refusing, true, memory_order_relaxed);
}

void amb_porter_stop(struct amb_porter *porter)
{
    if (!porter->is_running) {
        return;
    }
    amb_porter_refuse(porter);
    amb_mail_post(&porter->inbox, &porter->stop, stop_arrived);
    (void)pthread_join(porter->thread, NULL);
    (void)amb_inbox_run(&porter->inbox); /* Mail that came after the stop. */
    porter->is_running = false;
    amb_inbox_fini(&porter->inbox);
}
