/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Life of a ring link: making, mapping, sleeping, closing. The way out is in ring_send.c, the way
 * in in ring_recv.c, pages in ring_pages.c, going down in ring_down.c, the layout in ring_state.h.
 */
#include "wire/link/ring/ring.h"

#include "wire/base/assert.h"
#include "wire/link/ring/ring_down.h"
#include "wire/link/ring/ring_pages.h"
#include "wire/link/ring/ring_recv.h"
#include "wire/link/ring/ring_send.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define CONTROLS (2 * sizeof(struct ring_control))
#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

static const struct amb_link_ops ring_ops;

/* ---- sleeping ---- */

/* Takes back the word that we sleep. If the peer took it first, it rings, or has done so. */
static void unsleep(struct ring *ring)
{
    if (ring->is_armed) {
        ring->is_armed = false;
        if (atomic_exchange(&ring->in.control->sleeping, 0) == 0) {
            ring->bells_owed++;
        }
    }
}

static bool ring_arm(struct amb_link *link, bool want_flow)
{
    struct ring *ring = ring_of(link);
    if (link->is_down) {
        return true;
    }
    ring_push_out(ring);
    bool wants_room = link->queued > 0;
    bool wants_flow = want_flow || wants_room;
    uint32_t mask = RING_WAIT_DATA | (wants_flow ? (uint32_t)RING_WAIT_FLOW : 0u) |
                    (wants_room ? (uint32_t)RING_WAIT_ROOM : 0u);
    unsleep(ring);
    atomic_exchange(&ring->in.control->sleeping, mask);
    ring->is_armed = true;
    if (ring_can_poll(ring, wants_flow) || ring_can_pump(ring) || ring->broken != NULL) {
        unsleep(ring);
        return false;
    }
    return true;
}

static void ring_disarm(struct amb_link *link)
{
    struct ring *ring = ring_of(link);
    unsleep(ring);
    if (ring->is_broker) {
        ring->bells_owed = 0; /* Its eventfd is never read: edges alone count. */
    }
    if (ring->bells_owed > 0) {
        char bytes[64];
        ssize_t n = read(ring->bell_in, bytes, sizeof(bytes));
        if (n > 0) {
            ring->bells_owed -= (size_t)n < ring->bells_owed ? (uint32_t)n : ring->bells_owed;
        }
    }
}

/* ---- making ---- */

static int ring_fd(const struct amb_link *link)
{
    return ring_of_const(link)->bell_in;
}

static void ring_describe(const struct amb_link *link, char *out, size_t size)
{
    const struct ring *ring = ring_of_const(link);
    (void)snprintf(out, size, "ring %llu KiB", (unsigned long long)(ring->size / 1024));
}

static void close_fd(int fd)
{
    if (fd >= 0) {
        (void)close(fd);
    }
}

static void ring_free(struct ring *ring)
{
    if (ring->control_map != NULL) {
        (void)munmap(ring->control_map, CONTROLS);
    }
    if (ring->in.bytes != NULL) {
        (void)munmap(ring->in.bytes, 2 * ring->size);
    }
    if (ring->out.bytes != NULL) {
        (void)munmap(ring->out.bytes, 2 * ring->size);
    }
    close_fd(ring->bell_in);
    close_fd(ring->bell_out);
    close_fd(ring->bell_keep);
    free(ring);
}

/* The seals allow no shrinking, but holes. Pages that the client has mapped are gone too, and pages
 * that it touches there from now on are its own. The controls first: a tail of 0 says so
 * (ring_down). */
static void ring_empty(const struct ring *ring)
{
    (void)madvise(ring->control_map, CONTROLS, MADV_REMOVE);
    (void)madvise(ring->in.bytes, ring->size, MADV_REMOVE);
    (void)madvise(ring->out.bytes, ring->size, MADV_REMOVE);
}

static void ring_dispose(struct amb_link_waste *waste, bool empties)
{
    struct ring *ring = AMB_CONTAINER_OF(waste, struct ring, waste);
    if (empties && ring->is_broker) {
        ring_empty(ring);
    }
    ring_free(ring);
}

/* The bytes that the peer has not read yet; all there may be, if it lies about that. */
static uint64_t ring_unread(const struct ring *ring)
{
    const struct ring_out *out = &ring->out;
    uint64_t head = atomic_load_explicit(&out->control->head, memory_order_acquire);
    uint64_t unread = out->published - head;
    return unread > ring->size ? ring->size : unread;
}

static bool ring_close(struct amb_link *link)
{
    struct ring *ring = ring_of(link);
    ring_say_closed(ring);
    link->is_down = true;
    ring_settle(ring, AMB_ECANCELED, AMB_ECANCELED);
    ring->waste = (struct amb_link_waste){
        .dispose = ring_dispose, .bytes = CONTROLS + 2 * ring->size, .unread = ring_unread(ring)};
    if (link->events != NULL && link->events->on_waste != NULL) {
        link->events->on_waste(link->arg, &ring->waste);
    } else {
        ring_free(ring);
    }
    return true;
}

void amb_ring_adopt(struct amb_link *link, const struct amb_link_events *events, void *arg)
{
    amb_assert(link->ops == &ring_ops && link->events == NULL);
    link->events = events;
    link->arg = arg;
}

static const struct amb_link_ops ring_ops = {
    .kind = AMB_LINK_RING,
    .send = ring_send,
    .flow = ring_flow,
    .flush = ring_flush,
    .poll = ring_poll,
    .arm = ring_arm,
    .disarm = ring_disarm,
    .fd = ring_fd,
    .close = ring_close,
    .describe = ring_describe,
    .trim = ring_pages_trim,
};

static bool is_valid_size(uint64_t size)
{
    return size >= AMB_RING_SIZE_MIN && size <= AMB_RING_SIZE_MAX && (size & (size - 1)) == 0;
}

static struct ring *ring_new(uint64_t size, bool is_broker, const struct amb_link_events *events,
                             void *arg)
{
    struct ring *ring = calloc(1, sizeof(*ring));
    if (ring == NULL) {
        return NULL;
    }
    ring->link = (struct amb_link){.ops = &ring_ops, .events = events, .arg = arg};
    ring->size = size;
    ring->is_broker = is_broker;
    ring->bell_in = ring->bell_out = ring->bell_keep = -1;
    amb_list_init(&ring->out.queue);
    return ring;
}

/* The bytes twice in a row. */
static uint8_t *map_twice(int fd, uint64_t offset, uint64_t size)
{
    uint8_t *at = mmap(NULL, 2 * size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) {
        return NULL;
    }
    for (int i = 0; i < 2; i++) {
        void *half = mmap(at + (uint64_t)i * size, size, PROT_READ | PROT_WRITE,
                          MAP_SHARED | MAP_FIXED, fd, (off_t)offset);
        if (half == MAP_FAILED) {
            (void)munmap(at, 2 * size);
            return NULL;
        }
    }
    (void)madvise(at, 2 * size, MADV_DONTFORK);
    return at;
}

static enum amb_status map_all(struct ring *ring, int fd)
{
    void *control = mmap(NULL, CONTROLS, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (control == MAP_FAILED) {
        return amb_status_from_errno(errno);
    }
    (void)madvise(control, CONTROLS, MADV_DONTFORK);
    ring->control_map = control;
    struct ring_control *controls = control;
    unsigned out = ring->is_broker ? 0 : 1;
    ring->out.control = &controls[out];
    ring->in.control = &controls[1 - out];
    ring->out.bytes = map_twice(fd, CONTROLS + out * ring->size, ring->size);
    ring->in.bytes = map_twice(fd, CONTROLS + (1 - out) * ring->size, ring->size);
    return ring->out.bytes == NULL || ring->in.bytes == NULL ? AMB_ENOMEM : AMB_OK;
}

/* The controls are allocated before anybody maps them, so that no page of theirs is ever missing;
 * the rings' pages come with use. Sealed before anybody gets it, so that nobody can cut it off. */
static enum amb_status make_memory(struct ring *ring, int *out)
{
    int fd = memfd_create("ambroker-ring", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0) {
        return amb_status_from_errno(errno);
    }
    int rc;
    do {
        rc = fchmod(fd, 0600) != 0 ? -1 : ftruncate(fd, (off_t)(CONTROLS + 2 * ring->size));
        rc = rc == 0 ? fallocate(fd, 0, 0, (off_t)CONTROLS) : rc;
    } while (rc != 0 && errno == EINTR);
    enum amb_status status = AMB_OK;
    if (rc != 0) {
        status = errno == ENOSPC ? AMB_ENOMEM : amb_status_from_errno(errno);
    } else if (fcntl(fd, F_ADD_SEALS, SEALS) != 0) {
        status = amb_status_from_errno(errno);
    } else {
        status = map_all(ring, fd);
    }
    if (status != AMB_OK) {
        (void)close(fd);
        return status;
    }
    *out = fd;
    return AMB_OK;
}

/*
 * The client gets the same eventfd, which we only ever poll, and the read end of a pipe. It could
 * make its read end blocking, but not our write end: that one is another open file.
 */
static enum amb_status make_bells(struct ring *ring, struct amb_ring_fds *fds)
{
    int pipe_ends[2];
    if (pipe2(pipe_ends, O_NONBLOCK | O_CLOEXEC) != 0) {
        return amb_status_from_errno(errno);
    }
    ring->bell_keep = pipe_ends[0];
    ring->bell_out = pipe_ends[1];
    ring->bell_in = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (ring->bell_in < 0) {
        return amb_status_from_errno(errno);
    }
    fds->broker_bell = fcntl(ring->bell_in, F_DUPFD_CLOEXEC, 0);
    fds->client_bell = fcntl(ring->bell_keep, F_DUPFD_CLOEXEC, 0);
    return fds->broker_bell < 0 || fds->client_bell < 0 ? amb_status_from_errno(errno) : AMB_OK;
}

enum amb_status amb_ring_create(uint64_t size, const struct amb_link_events *events, void *arg,
                                struct amb_ring_fds *fds, struct amb_link **out)
{
    if (!is_valid_size(size)) {
        return AMB_EINVAL;
    }
    struct ring *ring = ring_new(size, true, events, arg);
    if (ring == NULL) {
        return AMB_ENOMEM;
    }
    struct amb_ring_fds made = {-1, -1, -1};
    enum amb_status status = make_bells(ring, &made);
    if (status == AMB_OK) {
        status = make_memory(ring, &made.memory);
    }
    if (status != AMB_OK) {
        close_fd(made.broker_bell);
        close_fd(made.client_bell);
        ring_free(ring);
        return status;
    }
    *fds = made;
    *out = &ring->link;
    return AMB_OK;
}

/* Two things could hurt us: memory that can shrink under us, bells that can block us. */
static bool is_sound(const struct amb_ring_fds *fds, uint64_t size)
{
    struct stat st;
    if (fstat(fds->memory, &st) != 0 || (uint64_t)st.st_size != CONTROLS + 2 * size) {
        return false;
    }
    int seals = fcntl(fds->memory, F_GET_SEALS);
    if (seals < 0 || (seals & SEALS) != SEALS) {
        return false;
    }
    int broker = fcntl(fds->broker_bell, F_GETFL), client = fcntl(fds->client_bell, F_GETFL);
    return broker >= 0 && (broker & O_NONBLOCK) != 0 && client >= 0 && (client & O_NONBLOCK) != 0 &&
           fstat(fds->client_bell, &st) == 0 && S_ISFIFO(st.st_mode);
}

enum amb_status amb_ring_attach(uint64_t size, const struct amb_ring_fds *fds,
                                const struct amb_link_events *events, void *arg,
                                struct amb_link **out)
{
    struct ring *ring = NULL;
    enum amb_status status = AMB_EPROTO;
    if (is_valid_size(size) && is_sound(fds, size)) {
        ring = ring_new(size, false, events, arg);
        status = ring == NULL ? AMB_ENOMEM : map_all(ring, fds->memory);
    }
    close_fd(fds->memory);
    if (status != AMB_OK) {
        close_fd(fds->broker_bell);
        close_fd(fds->client_bell);
        if (ring != NULL) {
            ring_free(ring);
        }
        return status;
    }
    ring->bell_in = fds->client_bell;
    ring->bell_out = fds->broker_bell;
    *out = &ring->link;
    return AMB_OK;
}
