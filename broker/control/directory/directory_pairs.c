/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/control/directory/directory_pairs.h"

#include "broker/control/directory/directory_accounts.h"
#include "broker/control/directory/directory_topic.h"
#include "broker/shard/shard.h"
#include "wire/base/assert.h"

#include <stdlib.h>

#define PAIRS_FIRST 8u

void amb_pairs_compact(struct amb_directory *directory, struct amb_dir_sub *sub)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < sub->pair_count; i++) {
        if (amb_directory_topic_of(directory, sub->pairs[i]) != NULL) {
            sub->pairs[kept++] = sub->pairs[i];
        }
    }
    amb_pair_account_add(sub->account, (int64_t)kept - sub->pair_count);
    sub->pair_count = kept;
}

bool amb_pairs_reserve(struct amb_directory *directory, struct amb_dir_sub *sub)
{
    if (!sub->is_wild || sub->pair_count < sub->pair_size) {
        return true;
    }
    amb_pairs_compact(directory, sub);
    if (sub->pair_count <= sub->pair_size / 2 && sub->pair_size > 0) {
        return true;
    }
    uint32_t size = sub->pair_size == 0 ? PAIRS_FIRST : sub->pair_size * 2;
    uint32_t *grown = realloc(sub->pairs, size * sizeof(*grown));
    if (grown == NULL) {
        return sub->pair_count < sub->pair_size;
    }
    sub->pairs = grown;
    sub->pair_size = size;
    return true;
}

void amb_pairs_note(struct amb_directory *directory, struct amb_dir_sub *sub,
                    struct amb_dir_topic *topic)
{
    if (sub->is_wild) {
        sub->pairs[sub->pair_count++] = topic->id;
        topic->pairs++;
        directory->pair_count++;
        amb_pair_account_add(sub->account, 1);
    }
}

void amb_pairs_topic_gone(struct amb_directory *directory, struct amb_dir_topic *topic)
{
    directory->by_cell[amb_topic_cell(topic->id)] = NULL;
    amb_assert(directory->pair_count >= topic->pairs);
    directory->pair_count -= topic->pairs;
    directory->pairs_gone += topic->pairs;
    topic->pairs = 0; /* Its subscriptions note that later. */
}

void amb_pairs_each(struct amb_directory *directory, struct amb_dir_sub *sub, amb_pair_fn fn,
                    void *arg)
{
    for (uint32_t i = 0; i < sub->pair_count; i++) {
        struct amb_dir_topic *topic = amb_directory_topic_of(directory, sub->pairs[i]);
        if (topic != NULL) {
            fn(directory, sub, topic, arg);
        }
    }
}
