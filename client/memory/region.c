/* SPDX-License-Identifier: Apache-2.0 */
#include "client/memory/region.h"

#include "client/conn/conn.h"
#include "client/conn/error.h"
#include "client/drive/drive.h"
#include "client/drive/lock.h"
#include "client/drive/wake.h"
#include "client/memory/gpu.h"

#include <stdlib.h>

struct amb_region {
    struct amb_region *next;
    struct amb_conn *conn;
    uint64_t base, len;
    uint32_t messages; /* that lie in it */
    uint32_t waits;    /* calls that wait for them */
};

static void lock(struct amb_conn *conn)
{
    (void)pthread_mutex_lock(&conn->regions.lock);
}

static void unlock(struct amb_conn *conn)
{
    (void)pthread_mutex_unlock(&conn->regions.lock);
}

struct amb_region *amb_region_enter(struct amb_conn *conn, uint64_t address)
{
    lock(conn);
    struct amb_region *region = conn->regions.first;
    while (region != NULL && (address < region->base || address - region->base >= region->len)) {
        region = region->next;
    }
    if (region != NULL) {
        region->messages++;
    }
    unlock(conn);
    return region;
}

void amb_region_leave(struct amb_region *region)
{
    if (region != NULL) {
        struct amb_conn *conn = region->conn;
        lock(conn);
        bool has_news = --region->messages == 0 && region->waits != 0;
        unlock(conn); /* It may be gone. */
        if (has_news) {
            amb_conn_wake_all(conn);
        }
    }
}

void amb_regions_init(struct amb_conn *conn)
{
    (void)pthread_mutex_init(&conn->regions.lock, NULL);
}

void amb_regions_fini(struct amb_conn *conn)
{
    while (conn->regions.first != NULL) {
        struct amb_region *region = conn->regions.first;
        conn->regions.first = region->next;
        free(region);
    }
    (void)pthread_mutex_destroy(&conn->regions.lock);
}

/* NULL: it is fine. */
static const char *problem(const struct amb_conn *conn, const void *memory, uint64_t len)
{
    struct amb_mem_place place;
    uint64_t base = (uintptr_t)memory;
    if (memory == NULL || len == 0 || len > UINT64_MAX - base) {
        return "no memory is given";
    }
    amb_cuda_classify(memory, &place);
    if (place.device >= 0 && len > place.size - (base - place.base)) {
        return "it goes past the end of its allocation on the GPU";
    }
    for (const struct amb_region *region = conn->regions.first; region != NULL;
         region = region->next) {
        if (base < region->base + region->len && region->base < base + len) {
            return "part of it is registered already";
        }
    }
    return NULL;
}

enum amb_status amb_register(struct amb_conn *conn, void *memory, size_t len,
                             struct amb_region **out)
{
    if (out == NULL) {
        return AMB_EINVAL;
    }
    *out = NULL;
    if (conn == NULL) {
        return AMB_EINVAL;
    }
    enum amb_status status =
        amb_conn_trouble(conn, AMB_TROUBLE_FORKED | AMB_TROUBLE_DOWN | AMB_TROUBLE_CLOSING);
    struct amb_region *region = status == AMB_OK ? calloc(1, sizeof(*region)) : NULL;
    if (region == NULL) {
        return status != AMB_OK ? status : AMB_ENOMEM;
    }
    region->conn = conn;
    region->base = (uintptr_t)memory;
    region->len = len;
    lock(conn);
    const char *why = problem(conn, memory, len);
    if (why == NULL) {
        region->next = conn->regions.first;
        conn->regions.first = region;
    }
    unlock(conn);
    if (why != NULL) {
        free(region);
        return amb_conn_fail(conn, AMB_EINVAL, "amb_register: %s", why);
    }
    *out = region;
    return AMB_OK;
}

static bool is_empty(void *arg)
{
    const struct amb_region *region = arg;
    lock(region->conn);
    bool is_so = region->messages == 0;
    unlock(region->conn);
    return is_so;
}

static void forget(struct amb_region *region)
{
    struct amb_conn *conn = region->conn;
    lock(conn);
    struct amb_region **link = &conn->regions.first;
    while (*link != NULL && *link != region) {
        link = &(*link)->next;
    }
    if (*link != NULL) {
        *link = region->next;
    }
    unlock(conn);
    free(region);
}

enum amb_status amb_unregister(struct amb_region *region, int64_t timeout_ns)
{
    if (region == NULL) {
        return AMB_OK;
    }
    if (timeout_ns < 0) {
        return AMB_EINVAL;
    }
    struct amb_conn *conn = region->conn;
    if (amb_conn_has_trouble(conn, AMB_TROUBLE_FORKED)) {
        return AMB_EFORKED; /* The parent's. */
    }
    struct amb_wait wait = {.is_ready = is_empty,
                            .arg = region,
                            .timeout_ns = timeout_ns,
                            .flags = AMB_WAIT_LOST | AMB_WAIT_CLOSER};
    amb_conn_enter(conn);
    lock(conn);
    region->waits++;
    unlock(conn);
    amb_conn_lock(conn);
    enum amb_status status = amb_conn_wait(conn, &wait);
    amb_conn_unlock(conn);
    if (status == AMB_OK) {
        forget(region);
    } else {
        lock(conn);
        region->waits--;
        unlock(conn);
    }
    return amb_conn_leave(conn, status);
}
