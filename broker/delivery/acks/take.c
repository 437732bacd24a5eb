/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/delivery/acks/take.h"

#include "broker/shard/entry.h"
#include "broker/shard/shard.h"
#include "wire/base/assert.h"

#include <stdlib.h>
#include <string.h>

struct amb_take *amb_take_get(struct amb_shard *shard)
{
    struct amb_list_node *node = amb_list_pop_front(&shard->takes.spare);
    struct amb_take *take =
        node == NULL ? malloc(sizeof(*take)) : AMB_CONTAINER_OF(node, struct amb_take, node);
    if (take == NULL) {
        return NULL;
    }
    shard->takes.spare_count -= node != NULL;
    memset(take, 0, sizeof(*take));
    amb_list_init(&take->node);
    return take;
}

void amb_take_put(struct amb_shard *shard, struct amb_take *take)
{
    if (take == NULL) {
        return;
    }
    if (take->reason != NULL) {
        free(take->reason);
    }
    if (shard->takes.spare_count >= AMB_TAKES_CACHED_MAX) {
        free(take);
        return;
    }
    amb_list_remove(&take->node);
    amb_list_push_front(&shard->takes.spare, &take->node);
    shard->takes.spare_count++;
}

void amb_takes_fini(struct amb_shard *shard)
{
    struct amb_list_node *node;
    while ((node = amb_list_pop_front(&shard->takes.spare)) != NULL) {
        free(AMB_CONTAINER_OF(node, struct amb_take, node));
    }
    shard->takes.spare_count = 0;
}

/* Bits from..to-1 of word w, from the bits first..end-1 of all. */
static uint64_t word_mask(uint32_t w, uint32_t first, uint32_t end)
{
    uint32_t from = first > w * 64 ? first - w * 64 : 0;
    uint32_t to = end < (w + 1) * 64 ? end - w * 64 : 64;
    return (UINT64_MAX << from) & (to == 64 ? UINT64_MAX : (UINT64_C(1) << to) - 1);
}

void amb_take_fill(struct amb_take *take, uint32_t first, uint32_t count)
{
    amb_assert(count > 0 && first + count <= AMB_BATCH_MSGS_MAX);
    take->first = first;
    take->count = take->left = count;
    for (uint32_t w = first / 64; w * 64 < first + count; w++) {
        take->bits[w] = word_mask(w, first, first + count);
    }
}

/* So many of its bits were cleared. Returns the bytes that go with them. */
static uint64_t take_less(struct amb_take *take, uint32_t cleared)
{
    uint64_t bytes = take->left == 0 ? 0 : take->bytes / take->left * cleared;
    take->left -= cleared;
    bytes = take->left == 0 ? take->bytes : bytes;
    take->bytes -= bytes;
    return bytes;
}

uint32_t amb_take_clear(struct amb_take *take, uint32_t first, uint32_t count, struct amb_take *cut)
{
    uint32_t end = first + count, cleared = 0;
    for (uint32_t w = first / 64; w < AMB_TAKE_WORDS && w * 64 < end; w++) {
        uint64_t bits = take->bits[w] & word_mask(w, first, end);
        take->bits[w] &= ~bits;
        cleared += (uint32_t)__builtin_popcountll(bits);
        if (cut != NULL) {
            cut->bits[w] = bits;
        }
    }
    uint64_t bytes = take_less(take, cleared);
    if (cut != NULL) {
        cut->first = take->first;
        cut->count = take->count;
        cut->left = cleared;
        cut->bytes = bytes;
        cut->attempt = take->attempt;
    }
    return cleared;
}

uint32_t amb_take_clear_of(struct amb_take *take, const struct amb_take *other)
{
    uint32_t cleared = 0;
    for (uint32_t w = take->first / 64; w * 64 < take->first + take->count; w++) {
        uint64_t bits = take->bits[w] & other->bits[w];
        take->bits[w] &= ~bits;
        cleared += (uint32_t)__builtin_popcountll(bits);
    }
    (void)take_less(take, cleared);
    return cleared;
}

bool amb_take_run(const struct amb_take *take, uint32_t *first, uint32_t *count)
{
    uint32_t i = *first, end = take->first + take->count;
    while (i < end && (take->bits[i / 64] >> (i % 64) & 1) == 0) {
        i++;
    }
    *first = i;
    while (i < end && (take->bits[i / 64] >> (i % 64) & 1) != 0) {
        i++;
    }
    *count = i - *first;
    return *count > 0;
}

void amb_take_post(struct amb_shard *from, struct amb_shard *to, struct amb_mail *mail,
                   amb_mail_fn fn)
{
    if (from == to) {
        fn(mail, to);
    } else {
        amb_mail_post(&to->inbox, mail, fn);
    }
}

void amb_take_go_home(struct amb_shard *from, struct amb_take *take, enum amb_take_end end)
{
    if (take->lent != NULL) {
        amb_entry_unref(take->lent, from);
        take->lent = NULL;
    }
    take->end = end;
    amb_take_post(from, take->home, &take->mail, take->come_home);
}
