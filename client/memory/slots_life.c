/* SPDX-License-Identifier: Apache-2.0 */
#include "client/memory/slots_life.h"

#include "client/conn/conn.h"
#include "client/drive/lock.h"
#include "client/drive/wake.h"
#include "client/memory/aside.h"
#include "client/memory/gpu.h"
#include "client/memory/import.h"
#include "client/memory/keep.h"
#include "client/memory/slots_private.h"
#include "client/memory/view.h"
#include "wire/base/numa.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define SLOTS_MAX 4096u
#define REFUSED_NS AMB_NS_PER_SEC /* how long a refusal is taken for an answer */

static uint32_t slot_count(uint64_t slot)
{
    uint64_t count = AMB_SLOTS_BYTES / slot;
    return count < AMB_SLOTS_FEW ? AMB_SLOTS_FEW : (uint32_t)count;
}

static void say_close(struct amb_conn *conn, uint64_t id)
{
    Amb__Control__Control message;
    amb__control__control__init(&message);
    Amb__Control__LeaseClose body;
    amb__control__lease_close__init(&body);
    body.segment = id;
    message.lease_close = &body;
    message.body_case = AMB__CONTROL__CONTROL__BODY_LEASE_CLOSE;
    amb_control_send(conn, &message);
}

/* Gives a segment back in which nothing lies. */
static void give_back(struct amb_slots *slots)
{
    struct amb_conn *conn = slots->conn;
    uint64_t id = slots->state == AMB_SLOTS_ASKED ? 0 : slots->id;
    bool is_known = slots->state != AMB_SLOTS_ASKED && !slots->is_private;
    amb_slots_unmap(slots);
    if (is_known) {
        say_close(conn, id);
    }
    amb_conn_changed(conn);
}

static bool is_idle(const struct amb_slots *slots)
{
    return slots->state == AMB_SLOTS_READY && slots->free_count == slots->count;
}

/* The one of these, or oldest (NULL: none), that has been idle for longest. */
static struct amb_slots *older(struct amb_list_node *list, struct amb_slots *oldest)
{
    AMB_LIST_FOR_EACH (node, list) {
        struct amb_slots *slots = amb_slots_of(node);
        if (is_idle(slots) && !slots->was_used &&
            (oldest == NULL || slots->used_ns < oldest->used_ns)) {
            oldest = slots;
        }
    }
    return oldest;
}

/* Gives idle segments back, the longest idle first, until there are `need` bytes below the cap. */
static bool make_room(struct amb_leases *leases, uint64_t need)
{
    while (leases->bytes + need > leases->bytes_max) {
        struct amb_slots *oldest = NULL;
        oldest = older(&leases->segments, oldest);
        oldest = older(&leases->pinned_segments, oldest);
        if (oldest == NULL) {
            return false;
        }
        give_back(oldest);
    }
    return true;
}

/* As many slots as the cap has room for, at most `count`; 0: none. */
static uint32_t fit_count(struct amb_leases *leases, uint64_t slot, uint32_t count)
{
    if (slot > leases->bytes_max) {
        return 0;
    }
    if (make_room(leases, slot * count)) {
        return count;
    }
    if (leases->bytes >= leases->bytes_max) { /* Leases of a broker that gave more, for one. */
        return 0;
    }
    uint64_t left = (leases->bytes_max - leases->bytes) / slot;
    /* Half a segment is better than none; a sliver of one is not worth its mappings. */
    return left * 4 >= count || left >= AMB_SLOTS_FEW ? (uint32_t)left : 0;
}

static void on_answer(struct amb_conn *conn, struct amb_control_request *request);

static void ask_open(struct amb_slots *slots)
{
    Amb__Control__Control message;
    amb__control__control__init(&message);
    Amb__Control__LeaseOpen body;
    amb__control__lease_open__init(&body);
    body.slot = slots->slot;
    body.slots = slots->count;
    body.group = slots->group;
    body.node = (uint32_t)(amb_numa_here() + 1); /* The caller writes there, most likely. */
    if (slots->gpu != NULL) {
        body.device = (char *)(uintptr_t)amb_cuda_info(amb_gpu_cuda(slots->gpu))->uuid;
    }
    message.lease_open = &body;
    message.body_case = AMB__CONTROL__CONTROL__BODY_LEASE_OPEN;
    slots->request =
        (struct amb_control_request){.on_answer = on_answer, .is_for_segment = true, .fd = -1};
    amb_control_ask(slots->conn, &message, &slots->request);
}

/* Puts it into that list, in no state yet. NULL: no memory. */
static struct amb_slots *add(struct amb_conn *conn, struct amb_list_node *list,
                             const struct amb_slots *what)
{
    struct amb_slots *slots = calloc(1, sizeof(*slots) + what->count * sizeof(slots->next[0]));
    if (slots == NULL) {
        return NULL;
    }
    *slots = *what;
    slots->conn = conn;
    slots->fd = -1;
    slots->free_head = AMB_SLOT_NONE;
    amb_list_init(&slots->request.node);
    *amb_slots_sum(slots) += slots->slot * slots->count;
    amb_list_push_back(list, &slots->node);
    return slots;
}

/* Asks for a segment. False: no memory. */
static bool begin(struct amb_conn *conn, const struct amb_slots *what)
{
    struct amb_leases *leases = &conn->leases;
    struct amb_slots *slots =
        add(conn, what->gpu != NULL ? &leases->gpu_segments : &leases->segments, what);
    if (slots != NULL) {
        ask_open(slots);
    }
    return slots != NULL;
}

/* How many there are. Asked when more are to come: then none of these is the first any more. */
static uint32_t slots_join(struct amb_leases *leases, uint64_t slot, uint32_t group)
{
    uint32_t count = 0;
    AMB_LIST_FOR_EACH (node, &leases->segments) {
        struct amb_slots *slots = amb_slots_of(node);
        if (!slots->is_over && slots->slot == slot && slots->group == group) {
            count += slots->count;
            slots->is_first = false;
        }
    }
    return count;
}

bool amb_slots_open(struct amb_conn *conn, struct amb_slot_wish wish)
{
    struct amb_leases *leases = &conn->leases;
    if (leases->bytes_max == 0 || conn->session.down != AMB_OK || wish.group == AMB_GROUP_UNKNOWN ||
        (leases->refused_ns != 0 && amb_clock_monotonic_ns() - leases->refused_ns < REFUSED_NS)) {
        return false;
    }
    uint64_t slot = amb_slot_size(wish.len);
    uint32_t count = slot_count(slot);
    bool is_first = false;
    if (slot >= AMB_SLOTS_LARGE) {
        uint32_t others = slots_join(leases, slot, wish.group);
        is_first = others == 0;
        count = is_first ? 1 : others < count ? count - others : count;
    }
    count = fit_count(leases, slot, count < SLOTS_MAX ? count : SLOTS_MAX);
    const struct amb_slots what = {
        .slot = slot, .count = count, .group = wish.group, .is_first = is_first};
    return count != 0 && begin(conn, &what);
}

bool amb_slots_open_gpu(struct amb_conn *conn, struct amb_gpu *gpu, uint64_t len)
{
    const struct amb_gpu_room *room = amb_gpu_room_of(gpu);
    if (conn->leases.bytes_max == 0 || conn->session.down != AMB_OK || room->is_hopeless ||
        (room->refused_ns != 0 && amb_clock_monotonic_ns() - room->refused_ns < REFUSED_NS)) {
        return false;
    }
    uint64_t slot = amb_slot_size(len);
    uint32_t count = slot_count(slot);
    const struct amb_slots what = {
        .gpu = gpu, .slot = slot, .count = count < SLOTS_MAX ? count : SLOTS_MAX};
    return begin(conn, &what);
}

/* The I/O thread, or the driver, has something to map. */
static void have_mapped(struct amb_conn *conn)
{
    conn->leases.has_work = true;
    if (conn->io.has_thread) {
        amb_io_kick(conn);
    } else if (conn->driver.is_asleep) {
        amb_conn_wake_all(conn);
    }
}

/* Those in which nothing lies. */
static void give_back_all(struct amb_list_node *list)
{
    AMB_LIST_FOR_EACH_SAFE (node, list) {
        if (is_idle(amb_slots_of(node))) {
            give_back(amb_slots_of(node));
        }
    }
}

/* One of this process's own: as many slots as there may be, one always. False: there is room when
 * something comes back, or is unpinned. */
static bool begin_private(struct amb_conn *conn, struct amb_gpu *gpu, uint64_t slot, uint64_t max)
{
    struct amb_leases *leases = &conn->leases;
    if (leases->private_bytes - leases->unpinning_bytes + slot > max) {
        give_back_all(&leases->private_segments);
    }
    uint64_t left = leases->private_bytes < max ? (max - leases->private_bytes) / slot : 0;
    uint64_t count = slot_count(slot) < left ? slot_count(slot) : left;
    count = count == 0 && leases->private_bytes == 0 ? 1 : count;
    const struct amb_slots what = {.pin = gpu,
                                   .is_private = true,
                                   .slot = slot,
                                   .count = (uint32_t)(count < SLOTS_MAX ? count : SLOTS_MAX)};
    struct amb_slots *slots = what.count != 0 ? add(conn, &leases->private_segments, &what) : NULL;
    if (slots != NULL) {
        slots->state = AMB_SLOTS_OPENED;
        slots->size = slots->slot * slots->count;
        have_mapped(conn);
    }
    return slots != NULL;
}

static bool was_just(int64_t then_ns)
{
    return then_ns != 0 && amb_clock_monotonic_ns() - then_ns < REFUSED_NS;
}

enum amb_status amb_slots_why_unpinned(const struct amb_conn *conn)
{
    const struct amb_unpinned *own = &conn->leases.unpinned[true];
    return was_just(own->at_ns) ? own->why : AMB_OK;
}

bool amb_slots_open_pinned(struct amb_conn *conn, struct amb_gpu *gpu, struct amb_slot_wish wish,
                           uint64_t private_max)
{
    struct amb_leases *leases = &conn->leases;
    uint64_t slot = amb_slot_size(wish.len);
    if (conn->session.down != AMB_OK || was_just(leases->unpinned[private_max != 0].at_ns)) {
        return false;
    }
    if (private_max != 0) {
        return begin_private(conn, gpu, slot, private_max);
    }
    if (leases->bytes_max == 0 || was_just(leases->refused_ns)) {
        return false;
    }
    uint32_t count = slot_count(slot);
    const struct amb_slots what = {
        .pin = gpu,
        .group = wish.group,
        .slot = slot,
        .count = fit_count(leases, slot, count < SLOTS_MAX ? count : SLOTS_MAX)};
    struct amb_slots *slots = what.count != 0 ? add(conn, &leases->pinned_segments, &what) : NULL;
    if (slots != NULL) {
        ask_open(slots);
    }
    return slots != NULL;
}

/* There was no room on a GPU: gives back what is idle there. False: nothing is. */
static bool make_gpu_room(struct amb_leases *leases, const struct amb_gpu *gpu)
{
    bool has_given = false;
    AMB_LIST_FOR_EACH_SAFE (node, &leases->gpu_segments) {
        struct amb_slots *slots = amb_slots_of(node);
        if (slots->gpu == gpu && is_idle(slots)) {
            give_back(slots);
            has_given = true;
        }
    }
    return has_given;
}

/* It will never be ready. */
static void fail(struct amb_slots *slots, enum amb_status why, const char *text)
{
    struct amb_conn *conn = slots->conn;
    if (slots->gpu != NULL) {
        struct amb_gpu_room *room = amb_gpu_room_of(slots->gpu);
        room->refused_ns = amb_clock_monotonic_ns();
        room->refused = why;
        room->is_hopeless = why != AMB_ENOMEM && why != AMB_ELIMIT && why != AMB_EBUSY;
        (void)snprintf(room->text, sizeof(room->text), "%s", text);
        if (!room->is_hopeless && make_gpu_room(&conn->leases, slots->gpu)) {
            room->refused_ns = 0; /* Worth another try. */
        }
    } else {
        conn->leases.refused_ns = amb_clock_monotonic_ns();
    }
    give_back(slots);
    amb_leases_wake(conn);
}

static void on_answer(struct amb_conn *conn, struct amb_control_request *request)
{
    struct amb_slots *slots = AMB_CONTAINER_OF(request, struct amb_slots, request);
    if (slots->state == AMB_SLOTS_ASKED) {
        if (request->status != AMB_OK) {
            fail(slots, request->status, request->text);
            return;
        }
        slots->state = AMB_SLOTS_OPENED;
        slots->id = request->segment;
        slots->size = request->size;
        slots->fd = request->fd;
        have_mapped(conn);
        return;
    }
    if (request->status != AMB_OK) {
        fail(slots, request->status, request->text);
        return;
    }
    amb_slots_make_ready(slots);
}

/* ---- mapping ---- */

static void say_mapped(struct amb_slots *slots)
{
    Amb__Control__Control message;
    amb__control__control__init(&message);
    Amb__Control__LeaseMapped body;
    amb__control__lease_mapped__init(&body);
    body.segment = slots->id;
    message.lease_mapped = &body;
    message.body_case = AMB__CONTROL__CONTROL__BODY_LEASE_MAPPED;
    slots->state = AMB_SLOTS_SAID;
    slots->request =
        (struct amb_control_request){.on_answer = on_answer, .is_for_segment = true, .fd = -1};
    amb_control_ask(slots->conn, &message, &slots->request);
}

/* The same of GPU memory: the pool is opened, if it is not. */
static void map_gpu(struct amb_slots *slots)
{
    struct amb_conn *conn = slots->conn;
    struct amb_imported imported = {.import = NULL};
    const struct amb_gpu_range range = slots->request.range;
    uint64_t need = slots->slot * slots->count, size = slots->size;
    const char *why = "the broker gave less than was asked for";
    amb_conn_unlock(conn);
    enum amb_status status =
        size < need ? AMB_EPROTO : amb_gpu_import(conn, &range, size, &imported, &why);
    amb_conn_lock(conn);
    slots->import = imported.import;
    slots->base = (uint8_t *)(uintptr_t)imported.address;
    if (conn->session.down != AMB_OK || slots->is_over) {
        amb_slots_unmap(slots);
    } else if (status != AMB_OK || imported.gpu != slots->gpu) {
        amb_view_refuse(conn, slots->id, why); /* For people who ask the broker. */
        fail(slots, status != AMB_OK ? status : AMB_EPROTO, why);
    } else {
        say_mapped(slots);
    }
}

/* The driver would not pin it; base is mapped or NULL. */
static void fail_pinned(struct amb_slots *slots, enum amb_status why)
{
    struct amb_conn *conn = slots->conn;
    conn->leases.unpinned[slots->is_private] =
        (struct amb_unpinned){.at_ns = amb_clock_monotonic_ns(), .why = why};
    give_back(slots);
    amb_leases_wake(conn);
}

/* Memory of this process's own, pinned. */
static void map_private(struct amb_slots *slots)
{
    struct amb_conn *conn = slots->conn;
    uint64_t size = slots->size, at = 0;
    amb_conn_unlock(conn);
    void *base = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    base = base != MAP_FAILED ? base : NULL;
    if (base != NULL) {
        (void)madvise(base, size, MADV_DONTFORK); /* A copy engine writes to these very pages. */
    }
    enum amb_status status = base != NULL ? amb_gpu_pin(slots->pin, base, size, &at) : AMB_ENOMEM;
    amb_conn_lock(conn);
    slots->base = base;
    slots->pinned_at = at;
    if (status != AMB_OK) {
        fail_pinned(slots, status);
    } else {
        conn->leases.unpinned[true].at_ns = 0;
        amb_slots_make_ready(slots);
        amb_leases_wake(conn);
    }
}

/* Lock held, given up meanwhile. Nobody else touches a segment that is MAPPING. */
static void map_here(struct amb_slots *slots)
{
    struct amb_conn *conn = slots->conn;
    if (slots->gpu != NULL) {
        map_gpu(slots);
        return;
    }
    if (slots->is_private) {
        map_private(slots);
        return;
    }
    int fd = slots->fd;
    uint64_t size = slots->size, need = slots->slot * slots->count, at = 0;
    slots->fd = -1;
    amb_conn_unlock(conn);
    void *base = size < need ? NULL : amb_view_map(fd, size, PROT_READ | PROT_WRITE);
    if (fd >= 0) {
        (void)close(fd);
    }
    enum amb_status pinned =
        base != NULL && slots->pin != NULL ? amb_gpu_pin(slots->pin, base, size, &at) : AMB_OK;
    amb_conn_lock(conn);
    slots->base = base;
    slots->pinned_at = at;
    if (conn->session.down != AMB_OK || slots->is_over) {
        amb_slots_unmap(slots);
    } else if (base == NULL) {
        fail(slots, AMB_ENOMEM, "");
    } else if (pinned != AMB_OK) {
        fail_pinned(slots, pinned);
    } else {
        say_mapped(slots);
    }
}

/* On a thread of its own. */
static void map_aside(void *arg)
{
    struct amb_slots *slots = arg;
    struct amb_conn *conn = slots->conn;
    amb_conn_lock(conn);
    map_here(slots);
    amb_conn_unlock(conn);
}

/* Pages of host memory are brought in here. A driver may take seconds, so it is called aside. */
static void map(struct amb_slots *slots)
{
    slots->state = AMB_SLOTS_MAPPING;
    bool has_driver = slots->gpu != NULL || slots->pin != NULL;
    if (!has_driver || !amb_aside(slots->conn, map_aside, slots)) {
        map_here(slots);
    }
}

static void give_back_idle(struct amb_list_node *list, int64_t now_ns)
{
    AMB_LIST_FOR_EACH_SAFE (node, list) {
        struct amb_slots *slots = amb_slots_of(node);
        if (slots->was_used || !is_idle(slots)) {
            slots->was_used = false;
            slots->used_ns = now_ns;
        } else if (now_ns - slots->used_ns > AMB_SLOTS_IDLE_NS) {
            give_back(slots);
        }
    }
}

/* False: there is none to be mapped. The list may have changed. */
static bool map_one(struct amb_list_node *list)
{
    AMB_LIST_FOR_EACH (node, list) {
        if (amb_slots_of(node)->state == AMB_SLOTS_OPENED) {
            map(amb_slots_of(node));
            return true;
        }
    }
    return false;
}

void amb_slots_turn(struct amb_conn *conn, int64_t now_ns)
{
    struct amb_leases *leases = &conn->leases;
    if (conn->session.down != AMB_OK) {
        return;
    }
    if (now_ns - leases->look_ns > AMB_NS_PER_SEC) {
        leases->look_ns = now_ns;
        give_back_idle(&leases->segments, now_ns);
        give_back_idle(&leases->gpu_segments, now_ns);
        give_back_idle(&leases->pinned_segments, now_ns);
        give_back_idle(&leases->private_segments, now_ns);
    }
    while (leases->has_work) {
        leases->has_work = map_one(&leases->segments) || map_one(&leases->gpu_segments) ||
                           map_one(&leases->pinned_segments) || map_one(&leases->private_segments);
    }
}

/* ---- the end ---- */

static void drop_list(struct amb_list_node *list)
{
    AMB_LIST_FOR_EACH_SAFE (node, list) {
        struct amb_slots *slots = amb_slots_of(node);
        slots->is_over = true;
        slots->free_count = 0;
        amb_slots_end(slots);
    }
}

void amb_leases_drop_all(struct amb_conn *conn)
{
    drop_list(&conn->leases.segments);
    drop_list(&conn->leases.gpu_segments);
    drop_list(&conn->leases.pinned_segments);
    free(conn->leases.commits);
    conn->leases.commits = NULL;
    conn->leases.said = conn->leases.freed = 0;
}

bool amb_leases_are_gone(const struct amb_conn *conn)
{
    return amb_list_is_empty(&conn->leases.segments) &&
           amb_list_is_empty(&conn->leases.gpu_segments) &&
           amb_list_is_empty(&conn->leases.pinned_segments);
}

static void unmap_list(struct amb_list_node *list)
{
    AMB_LIST_FOR_EACH_SAFE (node, list) {
        amb_slots_unmap(amb_slots_of(node));
    }
}

void amb_leases_fini(struct amb_conn *conn)
{
    conn->leases.has_ended = true;
    unmap_list(&conn->leases.segments);
    unmap_list(&conn->leases.gpu_segments);
    unmap_list(&conn->leases.pinned_segments);
    unmap_list(&conn->leases.private_segments);
    free(conn->leases.commits);
    conn->leases.commits = NULL;
    amb_keeps_fini(conn);
    amb_buffers_fini(&conn->leases.buffers);
}
