/* SPDX-License-Identifier: Apache-2.0 */
#include "client/memory/view.h"

#include "client/conn/conn.h"
#include "client/drive/control.h"
#include "client/memory/import.h"
#include "wire/base/assert.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static struct amb_segment *find(struct amb_conn *conn, uint64_t id)
{
    AMB_LIST_FOR_EACH (node, &conn->segments.mapped) {
        struct amb_segment *segment = AMB_CONTAINER_OF(node, struct amb_segment, node);
        if (segment->id == id) {
            return segment;
        }
    }
    return NULL;
}

/* Reading past a file's end is SIGBUS: it must be as long as said and unable to shrink. */
static bool is_safe(int fd, uint64_t size)
{
    struct stat st;
    if (fd < 0 || size == 0 || size > SIZE_MAX / 2 || fstat(fd, &st) != 0 ||
        (uint64_t)st.st_size < size) {
        return false;
    }
    int seals = fcntl(fd, F_GET_SEALS);
    return seals >= 0 && (seals & F_SEAL_SHRINK) != 0;
}

void *amb_segment_map(int fd, uint64_t size, int prot)
{
    if (!is_safe(fd, size)) {
        return NULL;
    }
    void *base = mmap(NULL, size, prot, MAP_SHARED | MAP_POPULATE, fd, 0);
    if (base == MAP_FAILED) {
        return NULL;
    }
    if (madvise(base, size, MADV_DONTFORK) != 0) {
        (void)munmap(base, size);
        return NULL;
    }
    return base;
}

static void say(struct amb_segment *segment, uint8_t type)
{
    segment->out.kind = AMB_OUTGOING_SEGMENT;
    segment->out.frame = (struct amb_frame){.type = type, .segment = segment->id};
    (void)amb_outgoing_send(segment->conn, &segment->out);
}

void amb_segment_refuse(struct amb_conn *conn, uint64_t id, const char *why)
{
    Amb__Control__Control message;
    amb__control__control__init(&message);
    Amb__Control__SegRefused refused;
    amb__control__seg_refused__init(&refused);
    refused.segment = id;
    refused.reason = (char *)(uintptr_t)why;
    message.seg_refused = &refused;
    message.body_case = AMB__CONTROL__CONTROL__BODY_SEG_REFUSED;
    amb_control_send(conn, &message);
}

static void enter(struct amb_conn *conn, struct amb_segment *segment, uint64_t id, uint64_t span,
                  uint8_t *base)
{
    segment->conn = conn;
    segment->id = id;
    segment->span = span;
    segment->base = base;
    amb_list_push_back(&conn->segments.mapped, &segment->node);
    say(segment, AMB_FRAME_SEG_READY);
}

void amb_segment_add(struct amb_conn *conn, uint64_t id, uint64_t size, int fd)
{
    struct amb_segment *segment = find(conn, id) == NULL ? calloc(1, sizeof(*segment)) : NULL;
    uint8_t *base = segment != NULL ? amb_segment_map(fd, size, PROT_READ) : NULL;
    if (fd >= 0) {
        (void)close(fd);
    }
    if (base == NULL) {
        free(segment);
        amb_segment_refuse(conn, id, "");
        return;
    }
    segment->size = size;
    enter(conn, segment, id, size, base);
}

void amb_segment_add_gpu(struct amb_conn *conn, uint64_t id, uint64_t size,
                         const struct amb_gpu_range *range)
{
    struct amb_segment *segment = find(conn, id) == NULL ? calloc(1, sizeof(*segment)) : NULL;
    uint64_t address = 0;
    const char *why = "malformed";
    if (segment == NULL || range == NULL ||
        amb_gpu_import(conn, range, size, &segment->gpu, &address, &why) != AMB_OK) {
        free(segment);
        amb_segment_refuse(conn, id, why);
        return;
    }
    enter(conn, segment, id, size, (uint8_t *)(uintptr_t)address);
}

/* Unmaps a dropped segment once nothing needs it; frees it once its last frame has left. */
static void settle(struct amb_segment *segment)
{
    if (!segment->is_dropped || segment->held != 0 || segment->out.is_queued) {
        return;
    }
    if (segment->base != NULL) {
        if (segment->gpu == NULL) {
            (void)munmap(segment->base, segment->size);
        }
        segment->base = NULL;
        if (!segment->is_orphan) {
            say(segment, AMB_FRAME_SEG_GONE);
        }
    }
    if (!segment->out.is_queued) {
        amb_list_remove(&segment->node);
        free(segment);
    }
}

void amb_segment_drop(struct amb_conn *conn, uint64_t id)
{
    struct amb_segment *segment = find(conn, id);
    if (segment != NULL) {
        segment->is_dropped = true;
        settle(segment);
    }
}

uint8_t *amb_segment_borrow(struct amb_conn *conn, uint64_t id, uint64_t offset, uint64_t len,
                            struct amb_segment **out)
{
    struct amb_segment *segment = find(conn, id);
    if (segment == NULL || segment->is_dropped || offset > segment->size ||
        len > segment->size - offset || (offset & (AMB_PAYLOAD_PAD - 1)) != 0) {
        return NULL;
    }
    /* Few segments and one of them in use at a time: keep it where it is found first. */
    amb_list_remove(&segment->node);
    amb_list_push_front(&conn->segments.mapped, &segment->node);
    segment->held++;
    *out = segment;
    return segment->base + offset;
}

void amb_segment_return(struct amb_segment *segment)
{
    amb_assert(segment->held != 0);
    segment->held--;
    settle(segment);
}

void amb_segment_sent(struct amb_segment *segment)
{
    settle(segment);
}

void amb_segments_orphan(struct amb_conn *conn)
{
    amb_segments_drop_all(conn);
    struct amb_list_node *node;
    while ((node = amb_list_pop_front(&conn->segments.mapped)) != NULL) {
        AMB_CONTAINER_OF(node, struct amb_segment, node)->is_orphan = true;
        amb_list_push_back(&conn->segments.former, node);
    }
}

bool amb_segments_are_gone(const struct amb_conn *conn)
{
    return amb_list_is_empty(&conn->segments.mapped) && amb_list_is_empty(&conn->segments.former);
}

static void discard(struct amb_segment *segment)
{
    if (segment->base != NULL && segment->gpu == NULL) {
        (void)munmap(segment->base, segment->size);
    }
    amb_list_remove(&segment->node);
    free(segment);
}

void amb_segments_drop_all(struct amb_conn *conn)
{
    AMB_LIST_FOR_EACH_SAFE (node, &conn->segments.mapped) {
        struct amb_segment *segment = AMB_CONTAINER_OF(node, struct amb_segment, node);
        if (segment->held == 0 && !segment->out.is_queued) {
            discard(segment);
        } else {
            segment->is_dropped = true; /* The last message in it, or the link, sees to the rest. */
        }
    }
}

void amb_segments_init(struct amb_conn *conn)
{
    amb_list_init(&conn->segments.mapped);
    amb_list_init(&conn->segments.former);
}

void amb_segments_fini(struct amb_conn *conn)
{
    AMB_LIST_FOR_EACH_SAFE (node, &conn->segments.mapped) {
        discard(AMB_CONTAINER_OF(node, struct amb_segment, node));
    }
    AMB_LIST_FOR_EACH_SAFE (node, &conn->segments.former) {
        discard(AMB_CONTAINER_OF(node, struct amb_segment, node));
    }
}
