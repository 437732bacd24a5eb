/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Life of a ring link: making, mapping, sleeping, closing. The way out is in ring_send.c, the way
 * in in ring_recv.c, pages in ring_pages.c, going down in ring_down.c, the layout in ring_state.h.
 */
#include "wire/link/ring/ring.h"

#include "wire/base/assert.h"
#include "wire/link/ring/ring_bell.h"
#include "wire/link/ring/ring_down.h"
#include "wire/link/ring/ring_pages.h"
#include "wire/link/ring/ring_recv.h"
#include "wire/link/ring/ring_send.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define CONTROLS (2 * sizeof(struct ring_control))
#define MAPPED(size) (CONTROLS + 4 * (size))
#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

static const struct amb_link_ops ring_ops;

/* ---- sleeping ---- */

/* Takes back the word that we sleep. If the peer took it first, it rings, or has done so: an edge
 * too many. */
static void unsleep(struct ring *ring)
{
    if (ring->is_armed) {
        ring->is_armed = false;
        atomic_exchange(&ring->in.control->sleeping, 0);
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
    unsleep(ring_of(link));
}

/* ---- making ---- */

static int ring_fd(const struct amb_link *link)
{
    return ring_of_const(link)->bell;
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
        (void)munmap(ring->control_map, MAPPED(ring->size));
    }
    close_fd(ring->bell);
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

static uint8_t **ring_body(struct amb_link *link, void **cookie)
{
    struct ring_in *in = &ring_of(link)->in;
    *cookie = in->body_cookie;
    return in->body_at != NULL ? &in->body_at : NULL;
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
    .body = ring_body,
    .rereads = true,
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
    ring->link.waits_for_read = is_broker;
    ring->link.waits_for_write = !is_broker;
    ring->bell = -1;
    amb_list_init(&ring->out.queue);
    return ring;
}

/*
 * controls | bytes A | bytes A | bytes B | bytes B: each twice in a row, and by three mappings, for
 * their number is limited (vm.max_map_count). The end of the first one lies past the file's, and
 * under the other two.
 */
static enum amb_status map_all(struct ring *ring, int fd)
{
    const uint64_t size = ring->size;
    const int access = PROT_READ | PROT_WRITE;
    uint8_t *at = mmap(NULL, MAPPED(size), access, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED) {
        return amb_status_from_errno(errno);
    }
    ring->control_map = at;
    uint8_t *a = at + CONTROLS, *b = a + 2 * size;
    if (mmap(a + size, 2 * size, access, MAP_SHARED | MAP_FIXED, fd, (off_t)CONTROLS) ==
            MAP_FAILED ||
        mmap(b + size, size, access, MAP_SHARED | MAP_FIXED, fd, (off_t)(CONTROLS + size)) ==
            MAP_FAILED) {
        return amb_status_from_errno(errno);
    }
    (void)madvise(at, MAPPED(size), MADV_DONTFORK);
    struct ring_control *controls = (void *)at;
    unsigned out = ring->is_broker ? 0 : 1;
    ring->out.control = &controls[out];
    ring->in.control = &controls[1 - out];
    ring->out.bytes = ring->is_broker ? a : b;
    ring->in.bytes = ring->is_broker ? b : a;
    return AMB_OK;
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

bool amb_ring_is_possible(void)
{
    struct ring ring = {.is_broker = true};
    int copy = -1;
    enum amb_status status = ring_bell_make(&ring, &copy);
    close_fd(ring.bell);
    close_fd(copy);
    return status != AMB_ENOTSUP; /* No descriptor is left: that says nothing of the system. */
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
    struct amb_ring_fds made = {-1, -1};
    enum amb_status status = ring_bell_make(ring, &made.bell);
    if (status == AMB_OK) {
        status = make_memory(ring, &made.memory);
    }
    if (status != AMB_OK) {
        close_fd(made.bell);
        ring_free(ring);
        return status;
    }
    *fds = made;
    *out = &ring->link;
    return AMB_OK;
}

/* Two things could hurt us: memory that can shrink under us, a bell that can block us. */
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
    int flags = fcntl(fds->bell, F_GETFL);
    return flags >= 0 && (flags & O_NONBLOCK) != 0 && (flags & O_ACCMODE) == O_RDWR;
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
        close_fd(fds->bell);
        if (ring != NULL) {
            ring_free(ring);
        }
        return status;
    }
    ring->bell = fds->bell;
    *out = &ring->link;
    return AMB_OK;
}
