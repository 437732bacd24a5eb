/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames find their link by (session, generation, secret), never by a pointer that was on the wire.
 * After a forced close thousands of a peer's messages still arrive.
 */
#include "wire/link/ucx/ucx_table.h"

#include <stdlib.h>

#define FIRST_BUCKETS 16u

enum amb_status amb_ucx_table_init(struct amb_ucx_worker *worker)
{
    worker->buckets = calloc(FIRST_BUCKETS, sizeof(struct amb_ucx_link *));
    if (worker->buckets == NULL) {
        return AMB_ENOMEM;
    }
    worker->bucket_mask = FIRST_BUCKETS - 1;
    return AMB_OK;
}

void amb_ucx_table_fini(struct amb_ucx_worker *worker)
{
    free(worker->buckets);
}

static struct amb_ucx_link **bucket_of(const struct amb_ucx_worker *worker, uint32_t session)
{
    return &worker->buckets[session & worker->bucket_mask]; /* sessions are small indices */
}

static bool table_grow(struct amb_ucx_worker *worker)
{
    size_t old_count = worker->bucket_mask + 1;
    struct amb_ucx_link **old = worker->buckets;
    struct amb_ucx_link **grown = calloc(old_count * 2, sizeof(struct amb_ucx_link *));
    if (grown == NULL) {
        return false;
    }
    worker->buckets = grown;
    worker->bucket_mask = old_count * 2 - 1;
    for (size_t i = 0; i < old_count; i++) {
        struct amb_ucx_link *link = old[i];
        while (link != NULL) {
            struct amb_ucx_link *next = link->next;
            struct amb_ucx_link **bucket = bucket_of(worker, link->session);
            link->next = *bucket;
            *bucket = link;
            link = next;
        }
    }
    free(old);
    return true;
}

static struct amb_ucx_link *table_find(const struct amb_ucx_worker *worker, uint32_t session,
                                       uint32_t generation, uint64_t secret)
{
    struct amb_ucx_link *link = *bucket_of(worker, session);
    while (link != NULL &&
           (link->session != session || link->generation != generation || link->secret != secret)) {
        link = link->next;
    }
    return link;
}

enum amb_status amb_ucx_table_add(struct amb_ucx_worker *worker, struct amb_ucx_link *link)
{
    if (table_find(worker, link->session, link->generation, link->secret) != NULL) {
        return AMB_ESTATE;
    }
    if (worker->link_count > worker->bucket_mask && !table_grow(worker)) {
        return AMB_ENOMEM;
    }
    struct amb_ucx_link **bucket = bucket_of(worker, link->session);
    link->next = *bucket;
    *bucket = link;
    return AMB_OK;
}

void amb_ucx_table_remove(struct amb_ucx_worker *worker, struct amb_ucx_link *link)
{
    struct amb_ucx_link **at = bucket_of(worker, link->session);
    while (*at != NULL && *at != link) {
        at = &(*at)->next;
    }
    if (*at != NULL) {
        *at = link->next;
    }
    link->next = NULL;
}

struct amb_ucx_link *amb_ucx_find(struct amb_ucx_worker *worker, uint32_t session,
                                  uint32_t generation, uint64_t secret)
{
    struct amb_ucx_link *link = table_find(worker, session, generation, secret);
    if (link == NULL) {
        worker->foreign++;
        return NULL;
    }
    link->has_moved = true;
    return link;
}
