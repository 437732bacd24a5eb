/* SPDX-License-Identifier: Apache-2.0 */
#include "client/publish/implicit.h"

#include "client/batch/pub.h"
#include "client/conn/conn.h"
#include "client/conn/error.h"
#include "client/conn/options.h"
#include "client/publish/pub_open.h"
#include "wire/base/hash.h"
#include "wire/codec/topic.h"

#include <stdlib.h>
#include <string.h>

#define IMPLICIT_MAX 1024u
#define ASKING_MARK '\1' /* no topic has it */

struct amb_implicit_entry {
    struct amb_list_node node; /* most recently used first */
    struct amb_pub *pub;
    uint32_t pins; /* calls inside it */
    uint32_t key_len;
    char key[AMB_TOPIC_MAX + 2]; /* the topic; of requests, behind ASKING_MARK */
};

struct amb_implicit {
    pthread_mutex_t lock;
    struct amb_map *map; /* key to entry */
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
        free(AMB_CONTAINER_OF(node, struct amb_implicit_entry, node));
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
        struct amb_implicit_entry *entry = AMB_CONTAINER_OF(node, struct amb_implicit_entry, node);
        if (entry->pins != 0) {
            continue;
        }
        amb_list_remove(node);
        (void)amb_map_remove(implicit->map, entry->key, entry->key_len);
        /* amb_flush returns a failure, as for every implicit publisher. */
        (void)amb_pub_close(entry->pub, conn->settings.timeout_ns);
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

/* Opens it and enters it; the table's lock held. */
static enum amb_status enter(struct amb_conn *conn, const char *topic, amb_asking_fn on_asked,
                             struct amb_implicit_entry *entry)
{
    struct amb_implicit *implicit = conn->implicit;
    if (amb_map_count(implicit->map) >= IMPLICIT_MAX) {
        (void)evict(conn);
    }
    struct amb_pub_options options;
    struct amb_complaint complaint;
    enum amb_status status = amb_pub_options_read(NULL, &options, &complaint);
    if (status == AMB_OK) {
        status = amb_pub_open_checked(conn, topic, &options, on_asked, &entry->pub);
    }
    if (status == AMB_ELIMIT && evict(conn)) {
        status = amb_pub_open_checked(conn, topic, &options, on_asked, &entry->pub);
    }
    if (status == AMB_OK) {
        entry->pub->wish.is_of_library = true;
        status = amb_map_put(implicit->map, entry->key, entry->key_len, entry);
        if (status != AMB_OK) {
            (void)amb_pub_close(entry->pub, AMB_NOWAIT);
        }
    }
    return status;
}

/* Makes it; the table's lock held. */
static enum amb_status make(struct amb_conn *conn, const char *topic, amb_asking_fn on_asked,
                            const char *key, size_t key_len, struct amb_implicit_entry **out)
{
    if (key_len >= sizeof((*out)->key)) {
        return amb_conn_fail(conn, AMB_ETOPIC, "not a topic: is longer than 255 bytes");
    }
    struct amb_implicit_entry *entry = calloc(1, sizeof(*entry));
    if (entry == NULL) {
        return AMB_ENOMEM;
    }
    memcpy(entry->key, key, key_len);
    entry->key_len = (uint32_t)key_len;
    amb_list_init(&entry->node);
    enum amb_status status = enter(conn, topic, on_asked, entry);
    if (status != AMB_OK) {
        free(entry);
        return status;
    }
    *out = entry;
    return AMB_OK;
}

/* Finds or makes it; the table's lock held. */
static enum amb_status look_up(struct amb_conn *conn, const char *topic, amb_asking_fn on_asked,
                               struct amb_implicit_entry **out)
{
    char own[AMB_TOPIC_MAX + 2];
    const char *key = topic;
    size_t key_len = strlen(topic);
    if (on_asked != NULL && key_len <= AMB_TOPIC_MAX) {
        own[0] = ASKING_MARK;
        memcpy(own + 1, topic, key_len);
        key = own;
        key_len++;
    }
    *out = amb_map_get(conn->implicit->map, key, key_len);
    return *out != NULL ? AMB_OK : make(conn, topic, on_asked, key, key_len, out);
}

enum amb_status amb_implicit_take(struct amb_conn *conn, const char *topic, amb_asking_fn on_asked,
                                  struct amb_implicit_entry **out)
{
    struct amb_implicit *implicit = conn->implicit;
    (void)pthread_mutex_lock(&implicit->lock);
    enum amb_status status = look_up(conn, topic, on_asked, out);
    if (status == AMB_OK) {
        amb_list_remove(&(*out)->node);
        amb_list_push_front(&implicit->recent, &(*out)->node);
        (*out)->pins++;
    }
    (void)pthread_mutex_unlock(&implicit->lock);
    return status;
}

void amb_implicit_give(struct amb_conn *conn, struct amb_implicit_entry *entry)
{
    (void)pthread_mutex_lock(&conn->implicit->lock);
    entry->pins--;
    (void)pthread_mutex_unlock(&conn->implicit->lock);
}

struct amb_pub *amb_implicit_pub(const struct amb_implicit_entry *entry)
{
    return entry->pub;
}
