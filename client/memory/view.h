/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Views: segments of the broker that this process reads in place. A view of host memory is a
 * mapping; of GPU memory a view has the device's address.
 *
 *   SegAdd (control) ─► map, read-only ─► SEG_READY (link) ... MAP descriptors ...
 *   SEG_DROP (link) ─► when nothing in it is held: unmap ─► SEG_GONE
 *
 * Threads: under the connection's lock. Memory: one mapping a segment, not inherited by fork.
 */
#pragma once

#include "client/drive/tx.h"
#include "wire/base/list.h"

struct amb_conn;
struct amb_gpu;
struct amb_gpu_range;
struct amb_import;

struct amb_view {
    struct amb_list_node node;
    struct amb_conn *conn;
    uint64_t id;               /* of the segment */
    uint64_t size;             /* bytes that the host can read: 0 of GPU memory */
    uint64_t span;             /* bytes of the segment */
    struct amb_gpu *gpu;       /* the memory's owner, base is a device address then; NULL: host */
    struct amb_import *import; /* of the pool that it lies in then */
    uint8_t *base;
    uint64_t held; /* deliveries that lie in it */
    bool is_dropped;
    bool is_orphan;         /* of a session that is over, while the connection has another */
    struct amb_conn_tx out; /* SEG_READY, then SEG_GONE */
};

/* The whole of a segment, PROT_*; NULL: it cannot be mapped, or could become shorter. Leaves fd.
 * Any thread, no lock needed. */
void *amb_view_map(int fd, uint64_t size, int prot);
/* Maps and says SEG_READY, or says SegRefused. Takes fd. */
void amb_view_add(struct amb_conn *conn, uint64_t id, uint64_t size, int fd);
/* The same of a range of GPU memory; NULL: malformed, refused. A pool that is not open yet is
 * opened aside, which may take seconds. */
void amb_view_add_gpu(struct amb_conn *conn, uint64_t id, uint64_t size,
                      const struct amb_gpu_range *range);
/* Says SegRefused, and why. */
void amb_view_refuse(struct amb_conn *conn, uint64_t id, const char *why);
/* The broker wants it unmapped. */
void amb_view_drop(struct amb_conn *conn, uint64_t id);
/* `len` bytes at offset, and counts one more delivery in it; NULL: no such range. Of a GPU view
 * nothing but (0, 0) is a range: the caller checks its own against span. */
uint8_t *amb_view_borrow(struct amb_conn *conn, uint64_t id, uint64_t offset, uint64_t len,
                         struct amb_view **out);
void amb_view_return(struct amb_view *view);
/* The link has sent, or will never send, a segment's tx. */
void amb_view_sent(struct amb_view *view);
/* The session ends: unmaps what no message lies in, now, and the rest when its last message is
 * back. Messages outlive amb_close, also that of a connection that was lost. The broker does not
 * hear of it. */
void amb_views_drop_all(struct amb_conn *conn);
/* The same where another session follows: those that are left are not of it. */
void amb_views_orphan(struct amb_conn *conn);
/* Is nothing of the broker's mapped, of whatever session? */
bool amb_views_are_gone(const struct amb_conn *conn);
void amb_views_init(struct amb_conn *conn);
/* No delivery is out any more. */
void amb_views_fini(struct amb_conn *conn);
