/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/fake_broker/fake_broker_internal.h"

#include "wire/base/assert.h"
#include "wire/base/clock.h"
#include "wire/codec/control.h"
#include "wire/link/ring/ring.h"
#include "wire/link/stream/stream.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

void fake_broker_nap(void)
{
    const struct timespec moment = {.tv_nsec = 100000};
    (void)nanosleep(&moment, NULL);
}

/* ---- link ---- */

static void on_fetch_place(struct fake_broker *fake, const struct amb_frame *frame)
{
    fake->seen.fetch_places++;
    bool is_map = fake->fetch_segment != 0;
    const struct amb_frame answer = {.type = is_map ? AMB_FRAME_FETCHED_MAP : AMB_FRAME_FETCHED,
                                     .handle = frame->handle,
                                     .seq = frame->seq,
                                     .segment = fake->fetch_segment,
                                     .data_len = fake->fetch_len,
                                     .status = is_map ? AMB_OK : AMB_ENOTSUP};
    if (fake->fetch_status != AMB_EINTERNAL) {
        fake_send_frame(fake, &answer, NULL);
    }
}

static void on_fetch(struct fake_broker *fake, const struct amb_frame *frame)
{
    if (frame->data_len == 0) {
        on_fetch_place(fake, frame);
        return;
    }
    fake->seen.fetches++;
    fake->seen.fetch = *frame;
    if (fake->fetch_status == AMB_EINTERNAL) {
        return;
    }
    bool is_here = fake->fetch_status == AMB_OK;
    const struct amb_frame answer = {.type = AMB_FRAME_FETCHED,
                                     .handle = frame->handle,
                                     .seq = frame->seq,
                                     .offset = frame->offset,
                                     .data_len = is_here ? frame->data_len : 0,
                                     .status = fake->fetch_status};
    uint8_t *bytes = is_here ? malloc(frame->data_len) : NULL;
    for (uint64_t i = 0; bytes != NULL && i < frame->data_len; i++) {
        bytes[i] = (uint8_t)('0' + (frame->offset + i) % 10);
    }
    bool is_once = fake->fetch_status == AMB_EAGAIN || fake->fetch_status == AMB_ENOMEM;
    fake->fetch_status = is_once ? AMB_OK : fake->fetch_status;
    fake_send_frame(fake, &answer, bytes);
}

static enum amb_status on_frame(void *arg, const struct amb_frame *frame, void **dst, void **cookie,
                                struct amb_link_mem **mem)
{
    struct fake_broker *fake = arg;
    (void)mem;
    if (frame->type == AMB_FRAME_BATCH || frame->type == AMB_FRAME_COMMIT) {
        amb_assert(frame->handle < FAKE_HANDLES);
        amb_assert(amb_frame_body_len(frame) <= FAKE_BODY_MAX);
        fake->batch = *frame;
        *dst = fake->body;
        *cookie = fake;
    } else if (frame->type == AMB_FRAME_RELEASE_RANGE) {
        fake->seen.ranges++;
        fake->seen.range_first = frame->number;
        fake->seen.range_count = frame->count;
    } else if (frame->type == AMB_FRAME_ACK || frame->type == AMB_FRAME_TERM) {
        fake->seen.acks++;
        fake->seen.ack = *frame;
        memset(fake->seen.reason, 0, sizeof(fake->seen.reason));
        if (frame->type == AMB_FRAME_TERM) {
            *dst = fake->seen.reason;
            *cookie = &fake->seen;
        }
    } else if (frame->type == AMB_FRAME_FETCH) {
        on_fetch(fake, frame);
    } else if (frame->type == AMB_FRAME_SEG_READY) {
        fake->seen.segments_ready++;
    } else if (frame->type == AMB_FRAME_SEG_GONE) {
        fake->seen.segments_gone++;
    }
    return AMB_OK;
}

void fake_send_frame(struct fake_broker *fake, const struct amb_frame *frame, uint8_t *body)
{
    struct outgoing *out = calloc(1, sizeof(*out));
    amb_assert(out != NULL && fake->link != NULL);
    out->frame = *frame;
    out->frame.session = 1;
    out->frame.generation = 2;
    out->frame.secret = 3;
    out->body = body;
    out->tx = (struct amb_link_tx){.frame = &out->frame,
                                   .data = body,
                                   .meta = body != NULL ? body + amb_frame_body_data(frame) : NULL};
    if (amb_link_send(fake->link, &out->tx) != AMB_EAGAIN) {
        free(out->body);
        free(out);
    }
}

static void accept_batches(struct fake_broker *fake, uint32_t handle)
{
    uint64_t taken = fake->seen.bytes[handle];
    if (!fake->is_window_held && taken + fake->options.window > fake->window[handle]) {
        fake->window[handle] = taken + fake->options.window;
        amb_link_flow(fake->link, AMB_FLOW_WINDOW, handle, fake->window[handle]);
    }
    if (!fake->is_held) {
        amb_link_flow(fake->link, AMB_FLOW_ACCEPTED, handle, fake->seen.batches[handle]);
    }
}

static enum amb_status on_body(void *arg, void *cookie, enum amb_status status)
{
    struct fake_broker *fake = arg;
    const struct amb_frame *frame = &fake->batch;
    if (status != AMB_OK || cookie == &fake->seen) { /* The latter: a reason is whole. */
        return AMB_OK;
    }
    bool is_leased = amb_frame_is_leased(frame->type);
    amb_assert(is_leased || amb_body_check(frame, fake->body) == AMB_OK);
    struct fake_seen *seen = &fake->seen;
    amb_assert(frame->seq == seen->batches[frame->handle] + 1);
    seen->batches[frame->handle]++;
    seen->msgs[frame->handle] += frame->count;
    seen->bytes[frame->handle] += is_leased ? 0 : frame->data_len + frame->meta_len;
    amb_assert(seen->bytes[frame->handle] <= fake->window[frame->handle]);
    seen->last_count = frame->count;
    seen->last_len = frame->data_len;
    if (is_leased) {
        fake_lease_commit(fake, frame, fake->body);
    } else {
        uint64_t whole = frame->data_len + frame->meta_len;
        memcpy(seen->last, fake->body, whole < sizeof(seen->last) ? whole : sizeof(seen->last));
    }
    if (!fake->is_held && (fake->tells_settled[frame->handle] || fake->refuse != AMB_OK)) {
        const struct amb_frame settled = {
            .type = AMB_FRAME_SETTLED,
            .handle = frame->handle,
            .seq = frame->seq,
            .number = fake->refuse == AMB_OK ? seen->msgs[frame->handle] - frame->count + 1 : 0,
            .count = 2,
            .status = fake->refuse};
        fake_send_frame(fake, &settled, NULL);
    }
    accept_batches(fake, frame->handle);
    return AMB_OK;
}

static enum amb_status on_flow(void *arg, enum amb_flow_kind kind, uint32_t handle, uint64_t value)
{
    struct fake_broker *fake = arg;
    amb_assert(handle < FAKE_HANDLES);
    if (kind == AMB_FLOW_RELEASE) {
        fake->seen.release[handle] = value;
        return AMB_OK;
    }
    fake->seen.want[handle] = value;
    if (!fake->is_window_held && value > fake->window[handle]) {
        fake->window[handle] = value;
        amb_link_flow(fake->link, AMB_FLOW_WINDOW, handle, value);
    }
    return AMB_OK;
}

static void on_sent(void *arg, struct amb_link_tx *tx, enum amb_status status)
{
    (void)arg;
    (void)status;
    struct outgoing *out = AMB_CONTAINER_OF(tx, struct outgoing, tx);
    free(out->body);
    free(out);
}

static void on_down(void *arg, enum amb_status why, const char *text)
{
    struct fake_broker *fake = arg;
    (void)why;
    (void)text;
    fake->seen.hung_up = true;
}

static void on_closed(void *arg)
{
    (void)arg;
}

const struct amb_link_events fake_link_events = {
    .on_frame = on_frame,
    .on_body = on_body,
    .on_flow = on_flow,
    .on_sent = on_sent,
    .on_down = on_down,
    .on_closed = on_closed,
};

/* ---- life ---- */

static void turn(struct fake_broker *fake)
{
    int fd = accept4(fake->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd >= 0 && fake->control < 0) {
        fake->control = fd;
        fake->seen.has_client = true;
    } else if (fd >= 0) {
        fake->newcomer = fd;
    }
    if (fake->control >= 0 && !fake->is_frozen && !fake_read(fake, fake->control, &fake->reader)) {
        fake->seen.hung_up = true;
    }
    if (fake->newcomer >= 0) {
        (void)fake_read(fake, fake->newcomer, &fake->newcomer_reader);
    }
    if (fake->link != NULL && !fake->is_frozen && !fake->is_stalled) {
        while (!fake->link->is_down && amb_link_poll(fake->link, 64) != 0) {
            amb_link_flush(fake->link);
            if (fake->link->queued > fake->seen.most_queued) {
                fake->seen.most_queued = fake->link->queued;
            }
        }
        amb_link_flush(fake->link);
    }
}

void fake_watch_link(struct fake_broker *fake)
{
    struct epoll_event event = {.events = amb_link_fd_events(fake->link) | EPOLLET};
    int rc = epoll_ctl(fake->link_epoll, EPOLL_CTL_ADD, amb_link_fd(fake->link), &event);
    amb_assert(rc == 0);
}

/* Until something may have happened. Lock held on both ends, given up in between. */
static void rest(struct fake_broker *fake)
{
    struct pollfd fds[4] = {
        {.fd = fake->listener, .events = POLLIN},
        {.fd = fake->newcomer, .events = POLLIN},
        {.fd = fake->seen.hung_up || fake->is_frozen ? -1 : fake->control, .events = POLLIN},
        {.fd = -1, .events = POLLIN}};
    bool has_link =
        fake->link != NULL && !fake->link->is_down && !fake->is_frozen && !fake->is_stalled;
    bool may_sleep = true;
    if (has_link) {
        fds[3].fd = fake->link_epoll;
        may_sleep = amb_link_arm(fake->link, true);
    }
    (void)pthread_mutex_unlock(&fake->lock);
    (void)poll(fds, 4, may_sleep ? 2 : 0);
    struct epoll_event taken;
    (void)epoll_wait(fake->link_epoll, &taken, 1, 0);
    (void)pthread_mutex_lock(&fake->lock);
    if (has_link) {
        amb_link_disarm(fake->link);
    }
}

static void *fake_main(void *arg)
{
    struct fake_broker *fake = arg;
    (void)pthread_mutex_lock(&fake->lock);
    while (!fake->must_stop) {
        turn(fake);
        rest(fake);
    }
    (void)pthread_mutex_unlock(&fake->lock);
    return NULL;
}

struct fake_broker *fake_broker_start(const struct fake_options *options)
{
    struct fake_broker *fake = calloc(1, sizeof(*fake));
    amb_assert(fake != NULL);
    if (options != NULL) {
        fake->options = *options;
    }
    struct fake_options *o = &fake->options;
    o->link = o->link == AMB_LINK_ANY ? AMB_LINK_RING : o->link;
    o->window = o->window != 0 ? o->window : 65536;
    o->max_message = o->max_message != 0 ? o->max_message : UINT64_C(2) << 20;
    o->heartbeat_ns = o->heartbeat_ns != 0 ? o->heartbeat_ns : AMB_NS_PER_SEC;
    o->peer_timeout_ns = o->peer_timeout_ns != 0 ? o->peer_timeout_ns : 5 * AMB_NS_PER_SEC;
    fake->body = malloc(FAKE_BODY_MAX);
    amb_assert(fake->body != NULL);
    fake->control = fake->newcomer = -1;
    amb_control_reader_init(&fake->reader);
    amb_control_reader_init(&fake->newcomer_reader);
    (void)pthread_mutex_init(&fake->lock, NULL);
    (void)snprintf(fake->dir, sizeof(fake->dir), "/tmp/amb-fake-XXXXXX");
    amb_assert(mkdtemp(fake->dir) != NULL);
    (void)snprintf(fake->url, sizeof(fake->url), "unix://%s/s", fake->dir);
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    (void)snprintf(address.sun_path, sizeof(address.sun_path), "%s/s", fake->dir);
    fake->link_epoll = epoll_create1(EPOLL_CLOEXEC);
    amb_assert(fake->link_epoll >= 0);
    fake->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    amb_assert(fake->listener >= 0);
    amb_assert(bind(fake->listener, (const struct sockaddr *)&address, sizeof(address)) == 0);
    amb_assert(listen(fake->listener, 8) == 0);
    amb_assert(pthread_create(&fake->thread, NULL, fake_main, fake) == 0);
    return fake;
}

void fake_broker_stop(struct fake_broker *fake)
{
    (void)pthread_mutex_lock(&fake->lock);
    fake->must_stop = true;
    (void)pthread_mutex_unlock(&fake->lock);
    (void)pthread_join(fake->thread, NULL);
    (void)!amb_link_close(fake->link);
    (void)close(fake->link_epoll);
    (void)close(fake->listener);
    if (fake->control >= 0) {
        (void)close(fake->control);
    }
    if (fake->newcomer >= 0) {
        (void)close(fake->newcomer);
    }
    for (unsigned i = 0; i < SEGMENTS; i++) {
        if (fake->segments[i].base != NULL) {
            (void)munmap(fake->segments[i].base, SEGMENT_SIZE);
        }
    }
    fake_leases_fini(fake);
    char path[80];
    (void)snprintf(path, sizeof(path), "%s/s", fake->dir);
    (void)unlink(path);
    (void)rmdir(fake->dir);
    amb_control_reader_fini(&fake->reader);
    amb_control_reader_fini(&fake->newcomer_reader);
    (void)pthread_mutex_destroy(&fake->lock);
    free(fake->body);
    free(fake);
}

const char *fake_broker_url(const struct fake_broker *fake)
{
    return fake->url;
}

void fake_broker_look(struct fake_broker *fake, struct fake_seen *out)
{
    (void)pthread_mutex_lock(&fake->lock);
    *out = fake->seen;
    (void)pthread_mutex_unlock(&fake->lock);
}

void fake_broker_hold(struct fake_broker *fake, bool is_held)
{
    (void)pthread_mutex_lock(&fake->lock);
    fake->is_held = is_held;
    for (uint32_t i = 0; i < FAKE_HANDLES && !is_held && fake->link != NULL; i++) {
        if (fake->seen.batches[i] != 0) {
            accept_batches(fake, i);
        }
    }
    if (fake->link != NULL) {
        amb_link_flush(fake->link);
    }
    (void)pthread_mutex_unlock(&fake->lock);
}

void fake_broker_accept(struct fake_broker *fake, uint32_t handle, uint64_t batches)
{
    (void)pthread_mutex_lock(&fake->lock);
    amb_link_flow(fake->link, AMB_FLOW_ACCEPTED, handle, batches);
    amb_link_flush(fake->link);
    (void)pthread_mutex_unlock(&fake->lock);
}

void fake_broker_hold_window(struct fake_broker *fake, bool is_held)
{
    (void)pthread_mutex_lock(&fake->lock);
    fake->is_window_held = is_held;
    (void)pthread_mutex_unlock(&fake->lock);
}

void fake_broker_window(struct fake_broker *fake, uint32_t handle, uint64_t window)
{
    (void)pthread_mutex_lock(&fake->lock);
    fake->window[handle] = window;
    amb_link_flow(fake->link, AMB_FLOW_WINDOW, handle, window);
    amb_link_flush(fake->link);
    (void)pthread_mutex_unlock(&fake->lock);
}

void fake_broker_refuse(struct fake_broker *fake, enum amb_status status)
{
    (void)pthread_mutex_lock(&fake->lock);
    fake->refuse = status;
    (void)pthread_mutex_unlock(&fake->lock);
}

void fake_broker_subscribers(struct fake_broker *fake, uint32_t handle, uint64_t count)
{
    (void)pthread_mutex_lock(&fake->lock);
    amb_link_flow(fake->link, AMB_FLOW_SUBSCRIBERS, handle, count);
    amb_link_flush(fake->link);
    (void)pthread_mutex_unlock(&fake->lock);
}

void fake_broker_freeze(struct fake_broker *fake)
{
    (void)pthread_mutex_lock(&fake->lock);
    fake->is_frozen = true;
    (void)pthread_mutex_unlock(&fake->lock);
}

void fake_broker_stall(struct fake_broker *fake, bool is_stalled)
{
    (void)pthread_mutex_lock(&fake->lock);
    fake->is_stalled = is_stalled;
    (void)pthread_mutex_unlock(&fake->lock);
}

void fake_broker_hang_up(struct fake_broker *fake)
{
    (void)pthread_mutex_lock(&fake->lock);
    (void)shutdown(fake->control, SHUT_RDWR);
    fake->is_frozen = true;
    (void)pthread_mutex_unlock(&fake->lock);
}

void fake_broker_kick(struct fake_broker *fake, enum amb_status status, const char *text)
{
    (void)pthread_mutex_lock(&fake->lock);
    fake_say_error(fake->control, 0, status, text);
    (void)pthread_mutex_unlock(&fake->lock);
}

void fake_broker_hold_freed(struct fake_broker *fake, bool is_held)
{
    (void)pthread_mutex_lock(&fake->lock);
    fake->is_freed_held = is_held;
    if (!is_held && fake->link != NULL) {
        amb_link_flow(fake->link, AMB_FLOW_FREED, 0, fake->seen.commit_number);
        amb_link_flush(fake->link);
    }
    (void)pthread_mutex_unlock(&fake->lock);
}

void fake_broker_free(struct fake_broker *fake, uint64_t number, uint32_t count)
{
    const struct amb_frame frame = {.type = AMB_FRAME_FREED, .number = number, .count = count};
    fake_broker_frame(fake, &frame);
}

void fake_broker_fetch_places(struct fake_broker *fake, uint64_t segment, uint64_t len)
{
    (void)pthread_mutex_lock(&fake->lock);
    fake->fetch_segment = segment;
    fake->fetch_len = len;
    (void)pthread_mutex_unlock(&fake->lock);
}

void fake_broker_fetches(struct fake_broker *fake, enum amb_status status)
{
    (void)pthread_mutex_lock(&fake->lock);
    fake->fetch_status = status;
    (void)pthread_mutex_unlock(&fake->lock);
}
