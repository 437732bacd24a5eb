/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/tls/crowds.h"

#include "wire/base/assert.h"

#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#define IPV6_PREFIX 8u /* bytes */

enum amb_status amb_crowds_init(struct amb_crowds *crowds, uint32_t capacity)
{
    *crowds = (struct amb_crowds){.capacity = capacity};
    crowds->all = calloc(capacity, sizeof(*crowds->all));
    return crowds->all == NULL ? AMB_ENOMEM : AMB_OK;
}

void amb_crowds_fini(struct amb_crowds *crowds)
{
    free(crowds->all);
    *crowds = (struct amb_crowds){.all = NULL};
}

/* The family is in front of an IPv4 address: no IPv6 address is mistaken for one. */
void amb_crowd_key_of(const struct sockaddr_storage *from, uint8_t key[AMB_CROWD_KEY_SIZE])
{
    memset(key, 0, AMB_CROWD_KEY_SIZE);
    if (from->ss_family == AF_INET) {
        const struct sockaddr_in *v4 = (const struct sockaddr_in *)(const void *)from;
        key[AMB_CROWD_KEY_SIZE - 1] = 4;
        memcpy(key, &v4->sin_addr, sizeof(v4->sin_addr));
    } else if (from->ss_family == AF_INET6) {
        const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)(const void *)from;
        bool is_v4 = IN6_IS_ADDR_V4MAPPED(&v6->sin6_addr);
        key[AMB_CROWD_KEY_SIZE - 1] = is_v4 ? 4 : 6;
        memcpy(key, v6->sin6_addr.s6_addr + (is_v4 ? 12 : 0), is_v4 ? 4 : IPV6_PREFIX);
    }
}

void amb_crowd_key_of_uid(uid_t uid, uint8_t key[AMB_CROWD_KEY_SIZE])
{
    memset(key, 0, AMB_CROWD_KEY_SIZE);
    key[AMB_CROWD_KEY_SIZE - 1] = 1;
    memcpy(key, &uid, sizeof(uid));
}

/* The place of the crowd of that key, else a free one; NULL: there is neither. */
static struct amb_crowd *find_place(struct amb_crowds *crowds, const uint8_t *key)
{
    struct amb_crowd *unused = NULL;
    for (uint32_t i = 0; i < crowds->used; i++) {
        struct amb_crowd *crowd = &crowds->all[i];
        if (crowd->count == 0) {
            unused = unused == NULL ? crowd : unused;
        } else if (memcmp(crowd->key, key, AMB_CROWD_KEY_SIZE) == 0) {
            return crowd;
        }
    }
    if (unused == NULL && crowds->used < crowds->capacity) {
        unused = &crowds->all[crowds->used++];
    }
    return unused;
}

struct amb_crowd *amb_crowds_add(struct amb_crowds *crowds, const uint8_t key[AMB_CROWD_KEY_SIZE],
                                 struct amb_crowd_member *member)
{
    struct amb_crowd *crowd = find_place(crowds, key);
    if (crowd == NULL) {
        return NULL;
    }
    if (crowd->count == 0) {
        memcpy(crowd->key, key, sizeof(crowd->key));
        amb_list_init(&crowd->oldest);
    }
    crowd->count++;
    member->number = ++crowds->last;
    amb_list_push_back(&crowd->oldest, &member->node);
    return crowd;
}

void amb_crowds_remove(struct amb_crowd *crowd, struct amb_crowd_member *member)
{
    amb_assert(crowd->count > 0);
    crowd->count--;
    amb_list_remove(&member->node);
}

void amb_crowds_replace(struct amb_crowd_member *member, struct amb_crowd_member *by)
{
    by->number = member->number;
    amb_list_insert_before(&member->node, &by->node);
    amb_list_remove(&member->node);
}

static uint64_t oldest_of(const struct amb_crowd *crowd)
{
    return AMB_CONTAINER_OF(crowd->oldest.next, struct amb_crowd_member, node)->number;
}

const struct amb_crowd *amb_crowds_largest(const struct amb_crowds *crowds)
{
    const struct amb_crowd *largest = NULL;
    for (uint32_t i = 0; i < crowds->used; i++) {
        const struct amb_crowd *crowd = &crowds->all[i];
        if (crowd->count == 0 || (largest != NULL && crowd->count < largest->count)) {
            continue;
        }
        if (largest == NULL || crowd->count > largest->count ||
            oldest_of(crowd) < oldest_of(largest)) {
            largest = crowd;
        }
    }
    return largest;
}
