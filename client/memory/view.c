/* SPDX-License-Identifier: Apache-2.0 */
#include "client/memory/view.h"

#include "client/conn/conn.h"
#include "client/drive/control.h"
#include "client/drive/lock.h"
#include "client/memory/aside.h"
#include "client/memory/import.h"
#include "wire/base/assert.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static struct amb_view *find(struct amb_conn *conn, uint64_t id)
{
    AMB_LIST_FOR_EACH (node, &conn->views.current) {
        struct amb_view *view = AMB_CONTAINER_OF(node, struct amb_view, node);
        if (view->id == id) {
            return view;
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

void *amb_view_map(int fd, uint64_t size, int prot)
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

/* A range of GPU memory whose pool is opened aside. */
struct coming {
    struct amb_list_node node; /* in conn->views.coming */
    struct amb_conn *conn;
    uint64_t id, size;
    struct amb_gpu_range range;
    bool is_dropped, is_over; /* by the broker; with its session */
};

static struct coming *find_coming(struct amb_conn *conn, uint64_t id)
{
    AMB_LIST_FOR_EACH (node, &conn->views.coming) {
        struct coming *coming = AMB_CONTAINER_OF(node, struct coming, node);
        if (coming->id == id) {
            return coming;
        }
    }
    return NULL;
}

static bool is_known(struct amb_conn *conn, uint64_t id)
{
    return find(conn, id) != NULL || find_coming(conn, id) != NULL;
}

static void say(struct amb_view *view, uint8_t type)
{
    view->out.kind = AMB_CONN_TX_VIEW;
    view->out.frame = (struct amb_frame){.type = type, .segment = view->id};
    (void)amb_conn_tx_send(view->conn, &view->out);
}

void amb_view_refuse(struct amb_conn *conn, uint64_t id, const char *why)
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

static void enter(struct amb_conn *conn, struct amb_view *view, uint64_t id, uint64_t span,
                  uint8_t *base)
{
    view->conn = conn;
    view->id = id;
    view->span = span;
    view->base = base;
    amb_list_push_back(&conn->views.current, &view->node);
    say(view, AMB_FRAME_SEG_READY);
}

void amb_view_add(struct amb_conn *conn, uint64_t id, uint64_t size, int fd)
{
    struct amb_view *view = !is_known(conn, id) ? calloc(1, sizeof(*view)) : NULL;
    uint8_t *base = view != NULL ? amb_view_map(fd, size, PROT_READ) : NULL;
    if (fd >= 0) {
        (void)close(fd);
    }
    if (base == NULL) {
        free(view);
        amb_view_refuse(conn, id, "");
        return;
    }
    view->size = size;
    enter(conn, view, id, size, base);
}

/* Nothing of it is looked at any more. */
static void unmap(struct amb_view *view)
{
    if (view->gpu != NULL) {
        amb_import_return(view->import);
    } else {
        (void)munmap(view->base, view->size);
    }
    view->base = NULL;
}

/* Unmaps a dropped segment once nothing needs it; frees it once its last frame is sent. */
static void finish_drop(struct amb_view *view)
{
    if (!view->is_dropped || view->held != 0 || view->out.is_queued) {
        return;
    }
    if (view->base != NULL) {
        unmap(view);
        if (!view->is_orphan) {
            say(view, AMB_FRAME_SEG_GONE);
        }
    }
    if (!view->out.is_queued) {
        amb_list_remove(&view->node);
        free(view);
    }
}

/* ---- GPU memory ---- */

/* NULL: no memory, and it is refused. */
static struct amb_view *enter_gpu(struct amb_conn *conn, uint64_t id, uint64_t size,
                                  const struct amb_imported *imported)
{
    struct amb_view *view = calloc(1, sizeof(*view));
    if (view == NULL) {
        amb_import_return(imported->import);
        amb_view_refuse(conn, id, "no memory");
        return NULL;
    }
    view->gpu = imported->gpu;
    view->import = imported->import;
    enter(conn, view, id, size, (uint8_t *)(uintptr_t)imported->address);
    return view;
}

/* On a thread of its own. */
static void open_coming(void *arg)
{
    struct coming *coming = arg;
    struct amb_conn *conn = coming->conn;
    struct amb_imported imported = {.import = NULL};
    const char *why;
    enum amb_status status = amb_gpu_import(conn, &coming->range, coming->size, &imported, &why);
    amb_conn_lock(conn);
    amb_list_remove(&coming->node);
    if (coming->is_over) {
        amb_import_return(imported.import);
    } else if (status != AMB_OK) {
        amb_view_refuse(conn, coming->id, why);
    } else {
        struct amb_view *view = enter_gpu(conn, coming->id, coming->size, &imported);
        if (view != NULL && coming->is_dropped) {
            view->is_dropped = true;
            finish_drop(view);
        }
        amb_conn_push(conn, false); /* SEG_READY: a driver that sleeps would not send it. */
    }
    amb_conn_unlock(conn);
    free(coming);
}

/* False: no memory, or no thread. */
static bool begin_coming(struct amb_conn *conn, uint64_t id, uint64_t size,
                         const struct amb_gpu_range *range)
{
    struct coming *coming = malloc(sizeof(*coming));
    if (coming == NULL) {
        return false;
    }
    *coming = (struct coming){.conn = conn, .id = id, .size = size, .range = *range};
    amb_list_init(&coming->node);
    amb_list_push_back(&conn->views.coming, &coming->node);
    bool has_begun = amb_aside(conn, open_coming, coming);
    if (!has_begun) {
        amb_list_remove(&coming->node);
        free(coming);
    }
    return has_begun;
}

void amb_view_add_gpu(struct amb_conn *conn, uint64_t id, uint64_t size,
                      const struct amb_gpu_range *range)
{
    struct amb_imported imported;
    enum amb_status status = AMB_EPROTO;
    if (range != NULL && !is_known(conn, id)) {
        status = amb_gpu_import_open(conn, range, size, &imported);
    }
    if (status == AMB_OK) {
        (void)enter_gpu(conn, id, size, &imported);
    } else if (status == AMB_EPROTO) {
        amb_view_refuse(conn, id, "malformed");
    } else if (!begin_coming(conn, id, size, range)) {
        amb_view_refuse(conn, id, "no memory or no thread to open the broker's GPU memory");
    }
}

/* ---- the end ---- */

void amb_view_drop(struct amb_conn *conn, uint64_t id)
{
    struct coming *coming = find_coming(conn, id);
    if (coming != NULL) {
        coming->is_dropped = true;
        return;
    }
    struct amb_view *view = find(conn, id);
    if (view != NULL) {
        view->is_dropped = true;
        finish_drop(view);
    }
}

uint8_t *amb_view_borrow(struct amb_conn *conn, uint64_t id, uint64_t offset, uint64_t len,
                         struct amb_view **out)
{
    struct amb_view *view = find(conn, id);
    if (view == NULL || view->is_dropped || offset > view->size || len > view->size - offset ||
        (offset & (AMB_PAYLOAD_PAD - 1)) != 0) {
        return NULL;
    }
    /* Few segments and one of them in use at a time: keep it where it is found first. */
    amb_list_remove(&view->node);
    amb_list_push_front(&conn->views.current, &view->node);
    view->held++;
    *out = view;
    return view->base + offset;
}

void amb_view_return(struct amb_view *view)
{
    amb_assert(view->held != 0);
    view->held--;
    finish_drop(view);
}

void amb_view_sent(struct amb_view *view)
{
    finish_drop(view);
}

void amb_views_orphan(struct amb_conn *conn)
{
    amb_views_drop_all(conn);
    struct amb_list_node *node;
    while ((node = amb_list_pop_front(&conn->views.current)) != NULL) {
        AMB_CONTAINER_OF(node, struct amb_view, node)->is_orphan = true;
        amb_list_push_back(&conn->views.former, node);
    }
}

bool amb_views_are_gone(const struct amb_conn *conn)
{
    return amb_list_is_empty(&conn->views.current) && amb_list_is_empty(&conn->views.former);
}

static void discard(struct amb_view *view)
{
    if (view->base != NULL) {
        unmap(view);
    }
    amb_list_remove(&view->node);
    free(view);
}

void amb_views_drop_all(struct amb_conn *conn)
{
    AMB_LIST_FOR_EACH_SAFE (node, &conn->views.current) {
        struct amb_view *view = AMB_CONTAINER_OF(node, struct amb_view, node);
        if (view->held == 0 && !view->out.is_queued) {
            discard(view);
        } else {
            view->is_dropped = true; /* The last message in it, or the link, sees to the rest. */
        }
    }
    struct amb_list_node *node;
    while ((node = amb_list_pop_front(&conn->views.coming)) != NULL) {
        AMB_CONTAINER_OF(node, struct coming, node)->is_over = true; /* Its thread frees it. */
    }
}

void amb_views_init(struct amb_conn *conn)
{
    amb_list_init(&conn->views.current);
    amb_list_init(&conn->views.former);
    amb_list_init(&conn->views.coming);
}

void amb_views_fini(struct amb_conn *conn)
{
    AMB_LIST_FOR_EACH_SAFE (node, &conn->views.current) {
        discard(AMB_CONTAINER_OF(node, struct amb_view, node));
    }
    AMB_LIST_FOR_EACH_SAFE (node, &conn->views.former) {
        discard(AMB_CONTAINER_OF(node, struct amb_view, node));
    }
}
