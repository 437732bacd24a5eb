/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/tls/handshaker.h"

#include "wire/base/assert.h"
#include "wire/base/clock.h"
#include "wire/base/log.h"
#include "wire/tls/tls.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#define EVENTS 64
#define FOREVER INT64_MAX

/* ---- a connection ---- */

void amb_handshake_way_free(struct amb_handshake_way *way)
{
    amb_tls_context_unref(&way->context);
    free(way);
}

static void shut(struct amb_handshake_way *way)
{
    amb_tls_destroy(&way->tls);
    if (way->fd >= 0) {
        (void)close(way->fd);
        way->fd = -1;
    }
}

void amb_handshake_way_close(struct amb_handshake_way *way)
{
    shut(way);
    amb_handshake_way_free(way);
}

static bool is_evicted(const struct amb_handshake_way *way)
{
    return atomic_load_explicit(&way->is_evicted, memory_order_relaxed);
}

/* On the control thread. An evicted one may have mail on its way to the handshaker, and is freed
 * when that was read. */
static void way_back(struct amb_mail *mail, void *owner)
{
    struct amb_handshake_way *way = AMB_CONTAINER_OF(mail, struct amb_handshake_way, mail);
    struct amb_handshakers *all = way->handshaker->all;
    bool is_given_up = is_evicted(way);
    if (is_given_up && way->fd >= 0) { /* Its handshake is done, and in vain. */
        way->end = AMB_HANDSHAKE_EVICTED;
        shut(way);
    }
    all->stats.ended[way->end]++;
    all->half_open--;
    if (!is_given_up) {
        all->on_end(mail, owner);
        return;
    }
    all->closing--;
    if (way->has_heard) {
        amb_handshake_way_free(way);
    }
}

static void unwatch(struct amb_handshaker *handshaker, struct amb_handshake_way *way)
{
    if (way->events != 0) {
        (void)epoll_ctl(handshaker->epoll_fd, EPOLL_CTL_DEL, way->fd, NULL);
        way->events = 0;
    }
}

/* It goes to the control thread, which counts its end. */
static void leave(struct amb_handshaker *handshaker, struct amb_handshake_way *way,
                  enum amb_handshake_end end)
{
    unwatch(handshaker, way);
    amb_list_remove(&way->node);
    way->is_under_way = false;
    way->end = end;
    amb_mail_post(handshaker->all->control, &way->mail, way_back);
}

static void drop(struct amb_handshaker *handshaker, struct amb_handshake_way *way,
                 enum amb_handshake_end end, const char *why)
{
    amb_debug("TLS: a connection has ended: %s", why);
    unwatch(handshaker, way);
    shut(way);
    leave(handshaker, way, end);
}

static void fail(struct amb_handshaker *handshaker, struct amb_handshake_way *way)
{
    drop(handshaker, way, amb_tls_is_plain(way->tls) ? AMB_HANDSHAKE_PLAIN : AMB_HANDSHAKE_FAILED,
         amb_tls_why(way->tls));
}

/* False: the kernel has no room for one more watch. */
static bool watch(struct amb_handshaker *handshaker, struct amb_handshake_way *way, short events)
{
    if (way->events == events) {
        return true;
    }
    struct epoll_event event = {.data.ptr = way};
    event.events = ((events & POLLIN) != 0 ? (uint32_t)EPOLLIN : 0u) |
                   ((events & POLLOUT) != 0 ? (uint32_t)EPOLLOUT : 0u);
    int what = way->events == 0 ? EPOLL_CTL_ADD : EPOLL_CTL_MOD;
    if (epoll_ctl(handshaker->epoll_fd, what, way->fd, &event) != 0) {
        return false;
    }
    way->events = events;
    return true;
}

static void evict(struct amb_handshaker *handshaker, struct amb_handshake_way *way)
{
    drop(handshaker, way, AMB_HANDSHAKE_EVICTED,
         "too many have not said who they are, most of them from its address");
}

static void step(struct amb_handshaker *handshaker, struct amb_handshake_way *way)
{
    short events = POLLIN;
    if (is_evicted(way)) { /* That mail is yet to come, and a signature is not to be wasted. */
        evict(handshaker, way);
        return;
    }
    enum amb_status status = amb_tls_step(way->tls, &events);
    if (status == AMB_OK) {
        leave(handshaker, way, AMB_HANDSHAKE_DONE);
    } else if (status != AMB_EAGAIN) {
        fail(handshaker, way);
    } else if (!watch(handshaker, way, events)) {
        drop(handshaker, way, AMB_HANDSHAKE_FAILED, "the kernel has no room to watch it");
    }
}

/* ---- those that come and go ---- */

static void way_arrived(struct amb_mail *mail, void *owner)
{
    struct amb_handshaker *handshaker = owner;
    struct amb_handshake_way *way = AMB_CONTAINER_OF(mail, struct amb_handshake_way, mail);
    way->is_under_way = true;
    amb_list_push_back(&handshaker->under_way, &way->node);
    if (handshaker->is_stopping ||
        amb_tls_create_accepting(way->context, way->fd, &way->tls) != AMB_OK) {
        drop(handshaker, way, AMB_HANDSHAKE_FAILED, "the broker ends, or has no memory");
        return;
    }
    if (way->deadline_ns < handshaker->next_deadline_ns) {
        handshaker->next_deadline_ns = way->deadline_ns;
    }
    step(handshaker, way);
}

/* On the control thread, behind way_back. */
static void eviction_back(struct amb_mail *mail, void *owner)
{
    (void)owner;
    amb_handshake_way_free(AMB_CONTAINER_OF(mail, struct amb_handshake_way, evicted));
}

static void eviction_arrived(struct amb_mail *mail, void *owner)
{
    struct amb_handshaker *handshaker = owner;
    struct amb_handshake_way *way = AMB_CONTAINER_OF(mail, struct amb_handshake_way, evicted);
    if (way->is_under_way) {
        way->has_heard = true;
        evict(handshaker, way);
    } else {
        amb_mail_post(handshaker->all->control, &way->evicted, eviction_back);
    }
}

static void end_late(struct amb_handshaker *handshaker, int64_t now_ns)
{
    int64_t next_ns = FOREVER;
    AMB_LIST_FOR_EACH_SAFE (node, &handshaker->under_way) {
        struct amb_handshake_way *way = AMB_CONTAINER_OF(node, struct amb_handshake_way, node);
        if (now_ns >= way->deadline_ns) {
            drop(handshaker, way, AMB_HANDSHAKE_LATE, "its handshake has taken too long");
        } else if (way->deadline_ns < next_ns) {
            next_ns = way->deadline_ns;
        }
    }
    handshaker->next_deadline_ns = next_ns;
}

/* ---- the thread ---- */

static int timeout_ms(const struct amb_handshaker *handshaker, int64_t now_ns)
{
    if (handshaker->next_deadline_ns == FOREVER) {
        return -1;
    }
    int64_t left_ns = handshaker->next_deadline_ns - now_ns;
    return left_ns <= 0 ? 0 : (int)(left_ns / AMB_NS_PER_MS) + 1;
}

/* Sockets before mail: those that have waited longer. */
static void turn(struct amb_handshaker *handshaker)
{
    struct epoll_event events[EVENTS];
    bool may_sleep = amb_inbox_arm(&handshaker->inbox);
    int most_ms = may_sleep ? timeout_ms(handshaker, amb_clock_monotonic_ns()) : 0;
    int count = epoll_wait(handshaker->epoll_fd, events, EVENTS, most_ms);
    amb_inbox_disarm(&handshaker->inbox, true);
    for (int i = 0; i < count; i++) {
        if (events[i].data.ptr != NULL) { /* NULL: the inbox's bell. */
            step(handshaker, events[i].data.ptr);
        }
    }
    (void)amb_inbox_run(&handshaker->inbox);
    int64_t now_ns = amb_clock_monotonic_ns();
    if (now_ns >= handshaker->next_deadline_ns) {
        end_late(handshaker, now_ns);
    }
}

static void *handshaker_main(void *arg)
{
    struct amb_handshaker *handshaker = arg;
    (void)pthread_setname_np(pthread_self(), "amb-handshaker");
    while (!handshaker->is_stopping) {
        turn(handshaker);
    }
    AMB_LIST_FOR_EACH_SAFE (node, &handshaker->under_way) {
        drop(handshaker, AMB_CONTAINER_OF(node, struct amb_handshake_way, node),
             AMB_HANDSHAKE_FAILED, "the broker ends");
    }
    return NULL;
}

/* ---- all of them ---- */

static enum amb_status open_one(struct amb_handshaker *handshaker)
{
    enum amb_status status = amb_inbox_init(&handshaker->inbox, handshaker);
    if (status != AMB_OK) {
        return status;
    }
    handshaker->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event bell = {.events = EPOLLIN, .data.ptr = NULL};
    if (handshaker->epoll_fd < 0 ||
        epoll_ctl(handshaker->epoll_fd, EPOLL_CTL_ADD, handshaker->inbox.bell, &bell) != 0) {
        status = amb_status_from_errno(errno);
    }
    if (status == AMB_OK) {
        int error = pthread_create(&handshaker->thread, NULL, handshaker_main, handshaker);
        status = error == 0 ? AMB_OK : amb_status_from_errno(error);
    }
    return status;
}

static void close_one(struct amb_handshaker *handshaker)
{
    if (handshaker->epoll_fd >= 0) {
        (void)close(handshaker->epoll_fd);
    }
    amb_inbox_fini(&handshaker->inbox);
}

enum amb_status amb_handshakers_start(struct amb_handshakers *all, unsigned threads,
                                      struct amb_inbox *control, amb_mail_fn on_end)
{
    amb_assert(threads >= 1 && threads <= AMB_HANDSHAKERS_MAX);
    all->control = control;
    all->on_end = on_end;
    for (unsigned i = 0; i < threads; i++) {
        struct amb_handshaker *handshaker = &all->threads[i];
        *handshaker = (struct amb_handshaker){
            .all = all, .epoll_fd = -1, .next_deadline_ns = FOREVER}; /* It may have stopped. */
        amb_list_init(&handshaker->under_way);
        enum amb_status status = open_one(handshaker);
        if (status != AMB_OK) {
            close_one(handshaker);
            return status;
        }
        all->count++;
    }
    return AMB_OK;
}

static void stop_arrived(struct amb_mail *mail, void *owner)
{
    (void)mail;
    ((struct amb_handshaker *)owner)->is_stopping = true;
}

void amb_handshakers_stop(struct amb_handshakers *all)
{
    for (unsigned i = 0; i < all->count; i++) {
        amb_mail_post(&all->threads[i].inbox, &all->threads[i].stop, stop_arrived);
    }
    for (unsigned i = 0; i < all->count; i++) {
        struct amb_handshaker *handshaker = &all->threads[i];
        (void)pthread_join(handshaker->thread, NULL);
        (void)amb_inbox_run(&handshaker->inbox); /* Mail that came after the stop. */
        close_one(handshaker);
    }
    all->count = 0;
}

static struct amb_handshaker *next_thread(struct amb_handshakers *all, unsigned *turn)
{
    *turn = *turn + 1 < all->count ? *turn + 1 : 0;
    return &all->threads[*turn];
}

struct amb_inbox *amb_handshakers_inbox(struct amb_handshakers *all)
{
    return &next_thread(all, &all->next_other)->inbox;
}

struct amb_handshake_way *amb_handshakers_give(struct amb_handshakers *all, int fd,
                                               const struct sockaddr_storage *from,
                                               struct amb_tls_context *context, int64_t deadline_ns)
{
    struct amb_handshake_way *way = all->count == 0 ? NULL : calloc(1, sizeof(*way));
    if (way == NULL) {
        (void)close(fd);
        return NULL;
    }
    way->context = context;
    amb_tls_context_ref(context);
    way->fd = fd;
    way->from = *from;
    way->deadline_ns = deadline_ns;
    way->handshaker = next_thread(all, &all->next);
    all->half_open++;
    amb_mail_post(&way->handshaker->inbox, &way->mail, way_arrived);
    return way;
}

void amb_handshakers_evict(struct amb_handshake_way *way)
{
    atomic_store_explicit(&way->is_evicted, true, memory_order_relaxed);
    way->handshaker->all->closing++;
    amb_mail_post(&way->handshaker->inbox, &way->evicted, eviction_arrived);
}
