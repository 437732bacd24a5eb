/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/base/log_group.h"

#include "wire/base/hash.h"

#include <pthread.h>
#include <stddef.h>
#include <string.h>

static uint8_t key[16];
static pthread_once_t has_key = PTHREAD_ONCE_INIT;

static void make_key(void)
{
    amb_random_bytes(key, sizeof(key));
}

uint64_t amb_log_group_hash(const char *text)
{
    (void)pthread_once(&has_key, make_key);
    return amb_siphash24(key, text, strlen(text));
}

void amb_log_group_find(const struct amb_log_group *groups, unsigned count, const char *site,
                        uint64_t hash, struct amb_log_found *out)
{
    const struct amb_log_group *same = NULL, *rest = NULL, *room = &groups[0];
    unsigned texts = 0;
    for (const struct amb_log_group *group = groups; group < groups + count; group++) {
        if (group->site == NULL) {
            room = room->site == NULL ? room : group;
        } else if (room->site != NULL && group->at_ns < room->at_ns) {
            room = group;
        }
        if (group->site == site && group->is_rest) {
            rest = group;
        } else if (group->site == site) {
            texts++;
            same = group->hash == hash ? group : same;
        }
    }
    out->is_rest = same == NULL && texts >= AMB_LOG_GROUP_TEXTS;
    const struct amb_log_group *group = out->is_rest ? rest : same;
    out->is_there = group != NULL;
    out->at = (unsigned)((out->is_there ? group : room) - groups);
}
