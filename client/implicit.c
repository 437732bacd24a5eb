/* SPDX-License-Identifier: Apache-2.0 */
/*
 * amb_publish: publishers that nobody opened. One per topic, the last ones used are kept.
 * Threads: any; the table has a lock of its own, taken before any other.
 */
#include "client/conn.h"
#include "client/options.h"
#include "client/pub.h"
#include "wire/base/hash.h"

#include <stdlib.h>
#include <string.h>

#define IMPLICIT_MAX 1024u

struct implicit_entry {
    struct amb_list_node node; /* most recently used first */
    struct amb_pub *pub;
    uint32_t pins; /* calls inside it */
};

struct amb_implicit {
    pthread_mutex_t lock;
    struct amb_map *map; /* topic to implicit_entry */
    struct amb_list_node recent;
};

enum amb_status amb_implicit_init(struct amb_conn *conn)
{
    struct amb_implicit *implicit = calloc(1, sizeof(*implicit));
    if (implicit == NULL) {
        return AMB_ENOMEM;
    }
    enum amb_status status = amb_map_create(&implicit->map);
    if (status != AMB_OK) {
        free(implicit);
        return status;
    }
    (void)pthread_mutex_init(&implicit->lock, NULL);
    amb_list_init(&implicit->recent);
    conn->implicit = implicit;
    return AMB_OK;
}

void amb_implicit_fini(struct amb_conn *conn)
{
    struct amb_implicit *implicit = conn->implicit;
    if (implicit == NULL) {
        return;
    }
    struct amb_list_node *node;
    while ((node = amb_list_pop_front(&implicit->recent)) != NULL) {
        free(AMB_CONTAINER_OF(node, struct implicit_entry, node));
    }
    amb_map_destroy(&implicit->map);
    (void)pthread_mutex_destroy(&implicit->lock);
    free(implicit);
    conn->implicit = NULL;
}

/* Closes the one used least that nobody is in; its lock held. */
static bool evict(struct amb_conn *conn)
{
    struct amb_implicit *implicit = conn->implicit;
    for (struct amb_list_node *node = implicit->recent.prev; node != &implicit->recent;
         node = node->prev) {
        struct implicit_entry *entry = AMB_CONTAINER_OF(node, struct implicit_entry, node);
        if (entry->pins != 0) {
            continue;
        }
        amb_list_remove(node);
        (void)amb_map_remove(implicit->map, entry->pub->topic, strlen(entry->pub->topic));
        /* A failure is told by amb_flush, as for every implicit publisher. */
        (void)amb_pub_close(entry->pub, conn->timeout_ns);
        free(entry);
        return true;
    }
    return false;
}

bool amb_implicit_evict(struct amb_conn *conn)
{
    (void)pthread_mutex_lock(&conn->implicit->lock);
    bool has_evicted = evict(conn);
    (void)pthread_mutex_unlock(&conn->implicit->lock);
    return has_evicted;
}

/* Opens a publisher for the topic and enters it; its lock held. */
static enum amb_status enter(struct amb_conn *conn, const char *topic, size_t len,
                             struct implicit_entry **out)
{
    struct amb_implicit *implicit = conn->implicit;
    if (amb_map_count(implicit->map) >= IMPLICIT_MAX) {
        (void)evict(conn);
    }
    struct amb_pub_options options;
    struct amb_complaint complaint;
    enum amb_status status = amb_pub_options_read(NULL, &options, &complaint);
    struct implicit_entry *entry = calloc(1, sizeof(*entry));
    if (status != AMB_OK || entry == NULL) {
        free(entry);
        return AMB_ENOMEM;
    }
    status = amb_pub_open_checked(conn, topic, &options, &entry->pub);
    if (status == AMB_ELIMIT && evict(conn)) {
        status = amb_pub_open_checked(conn, topic, &options, &entry->pub);
    }
    if (status != AMB_OK) {
        free(entry);
        return status;
    }
    status = amb_map_put(implicit->map, topic, len, entry);
    if (status != AMB_OK) {
        (void)amb_pub_close(entry->pub, AMB_NOWAIT);
        free(entry);
        return status;
    }
    amb_list_init(&entry->node);
    *out = entry;
    return AMB_OK;
}

enum amb_status amb_publish(struct amb_conn *conn, const char *topic, const void *data, size_t len,
                            int64_t timeout_ns)
{
    if (conn == NULL || topic == NULL || (data == NULL && len != 0) || timeout_ns < 0) {
        return AMB_EINVAL;
    }
    enum amb_status status =
        amb_conn_trouble(conn, AMB_TROUBLE_FORKED | AMB_TROUBLE_DOWN | AMB_TROUBLE_CLOSING);
    if (status != AMB_OK) {
        return status;
    }
    struct amb_implicit *implicit = conn->implicit;
    size_t topic_len = strlen(topic);
    (void)pthread_mutex_lock(&implicit->lock);
    struct implicit_entry *entry = amb_map_get(implicit->map, topic, topic_len);
    if (entry == NULL) {
        status = enter(conn, topic, topic_len, &entry);
    }
    if (status == AMB_OK) {
        amb_list_remove(&entry->node);
        amb_list_push_front(&implicit->recent, &entry->node);
        entry->pins++;
    }
    (void)pthread_mutex_unlock(&implicit->lock);
    if (status != AMB_OK) {
        return status;
    }
    status = amb_pub_send(entry->pub, data, len, timeout_ns);
    (void)pthread_mutex_lock(&implicit->lock);
    entry->pins--;
    (void)pthread_mutex_unlock(&implicit->lock);
    return status;
}
