/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/delivery/reader/sift.h"

#include "broker/shard/entry.h"
#include "broker/shard/purse.h"
#include "broker/shard/shard.h"
#include "broker/topic/cursor.h"
#include "broker/topic/topic.h"
#include "wire/codec/filter.h"
#include "wire/codec/frame.h"
#include "wire/codec/props_index.h"

#include <stdlib.h>
#include <string.h>

/* Fewer bytes of properties are searched as quickly as they are indexed. */
#define INDEX_BYTES_MIN 128u
#define CACHE_CELLS (1u << 16)
#define CACHE_ENTRIES 256u
/* A topic is walked with all its cursors, also those that do not wait. */
#define WALK_STEPS 256u

/* The index of one message, while its cells in the ring are not used anew. */
struct cached {
    uint64_t seq, start; /* start: where in the ring, counted on */
    int64_t time_ns;
    uint32_t topic;
    struct amb_props_index index;
};

struct amb_sift_cache {
    uint64_t used; /* of the ring, counted on */
    struct cached entries[CACHE_ENTRIES];
    struct amb_props_cell cells[CACHE_CELLS];
};

/* Its share of this turn. */
static void sifter_begin(const struct amb_shard *shard, struct amb_sifter *sifter)
{
    sifter->turn = shard->sift.turn;
    sifter->steps = AMB_SIFT_SHARE;
    if (sifter->purse != NULL) {
        uint32_t most = AMB_SIFT_SHARE - WALK_STEPS;
        uint32_t tests = amb_purse_tests(sifter->purse, most, shard->now_ns);
        sifter->steps = tests == 0 ? 0 : tests + WALK_STEPS;
    }
}

bool amb_sift_may(const struct amb_cursor *cursor)
{
    const struct amb_shard *shard = cursor->topic->shard;
    const struct amb_sift *sift = &shard->sift;
    struct amb_sifter *sifter = cursor->pick.sifter;
    if (sifter->turn != sift->turn) {
        sifter_begin(shard, sifter);
    }
    return sift->steps > 0 && sifter->steps > 0;
}

static void sift_spend(const struct amb_cursor *cursor, uint32_t steps)
{
    struct amb_sift *sift = &cursor->topic->shard->sift;
    struct amb_sifter *sifter = cursor->pick.sifter;
    sift->steps -= steps < sift->steps ? steps : sift->steps;
    sifter->steps -= steps < sifter->steps ? steps : sifter->steps;
}

/* Slots of the ring in a row, zero. */
static struct amb_props_cell *cells_take(struct amb_sift_cache *cache, uint32_t cells,
                                         uint64_t *start)
{
    uint64_t left = CACHE_CELLS - cache->used % CACHE_CELLS;
    cache->used += left < cells ? left : 0;
    *start = cache->used;
    cache->used += cells;
    struct amb_props_cell *first = &cache->cells[*start % CACHE_CELLS];
    memset(first, 0, cells * sizeof(*first));
    return first;
}

/* NULL: without one. *steps: of making it. */
static const struct amb_props_index *index_of(const struct amb_cursor *cursor, uint64_t seq,
                                              int64_t time_ns, const uint8_t *blob, uint32_t len,
                                              uint32_t *steps)
{
    struct amb_sift *sift = &cursor->topic->shard->sift;
    if (sift->cache == NULL) {
        sift->cache = calloc(1, sizeof(*sift->cache));
        if (sift->cache == NULL) {
            return NULL;
        }
    }
    struct amb_sift_cache *cache = sift->cache;
    struct cached *cached = &cache->entries[(seq + cursor->topic->id * 31u) % CACHE_ENTRIES];
    struct amb_props_index *index = &cached->index;
    bool is_it = index->blob == blob && index->len == len && cached->seq == seq &&
                 cached->topic == cursor->topic->id && cached->time_ns == time_ns &&
                 cache->used - cached->start <= CACHE_CELLS;
    if (is_it) {
        return index;
    }
    uint32_t count, cells = amb_props_index_cells(blob, len, &count);
    *steps += 2 * count;
    if (cells > CACHE_CELLS) {
        return NULL;
    }
    *cached = (struct cached){.seq = seq, .time_ns = time_ns, .topic = cursor->topic->id};
    *index = (struct amb_props_index){.blob = blob, .len = len, .mask = cells - 1};
    index->cells = cells_take(cache, cells, &cached->start);
    amb_props_index_fill(index);
    return index;
}

bool amb_sift_match(const struct amb_cursor *cursor, const struct amb_entry *entry, uint32_t index,
                    const uint8_t *blob)
{
    uint32_t len = amb_entry_records(entry)[index].props_len;
    struct amb_filter_message message = {.props = blob, .len = len};
    if (len >= INDEX_BYTES_MIN) {
        message.index =
            index_of(cursor, entry->first_seq + index, entry->time_ns, blob, len, &message.steps);
    }
    bool is_match = amb_filter_match_message(cursor->pick.filter, &message);
    sift_spend(cursor, message.steps + 1);
    if (cursor->pick.sifter->purse != NULL) {
        cursor->pick.sifter->purse->tests += message.steps + 1;
    }
    return is_match;
}

/* It has cursors that wait. */
static void sifter_line_up(struct amb_shard *shard, struct amb_sifter *sifter)
{
    struct amb_sift *sift = &shard->sift;
    if (sifter->purse == NULL || !sifter->purse->is_sifting_late) {
        amb_list_push_back(&sift->waiting, &sifter->node);
        return;
    }
    if (amb_list_is_empty(&sift->paused)) {
        sift->paused_due_ns = shard->now_ns + AMB_SIFT_PAUSE_NS;
    }
    amb_list_push_back(&sift->paused, &sifter->node);
}

void amb_sift_wait(struct amb_cursor *cursor)
{
    struct amb_shard *shard = cursor->topic->shard;
    struct amb_sifter *sifter = cursor->pick.sifter;
    amb_list_remove(&cursor->stalled);
    amb_list_push_back(&sifter->cursors, &cursor->stalled);
    shard->sift.waits++;
    if (amb_list_is_empty(&sifter->node)) {
        sifter_line_up(shard, sifter);
    }
}

int64_t amb_sift_due(struct amb_shard *shard)
{
    return amb_list_is_empty(&shard->sift.paused) ? INT64_MAX : shard->sift.paused_due_ns;
}

/* The other half is for cursors that wait. */
void amb_sift_begin(struct amb_shard *shard)
{
    struct amb_sift *sift = &shard->sift;
    sift->turn++;
    sift->steps = AMB_SIFT_STEPS / 2;
    if (__builtin_expect(!amb_list_is_empty(&sift->paused), 0) &&
        shard->now_ns >= sift->paused_due_ns) {
        amb_list_move(&sift->paused, &sift->waiting);
    }
}

/* One after the other, while it has steps. */
static unsigned sifter_serve(struct amb_shard *shard, struct amb_sifter *sifter,
                             void (*walk)(struct amb_topic *topic))
{
    unsigned done = 0;
    const struct amb_sift *sift = &shard->sift;
    sifter_begin(shard, sifter);
    struct amb_list_node *node;
    while (sift->steps > 0 && sifter->steps > 0 &&
           (node = amb_list_pop_front(&sifter->cursors)) != NULL) {
        struct amb_cursor *cursor = AMB_CONTAINER_OF(node, struct amb_cursor, stalled);
        sift_spend(cursor, WALK_STEPS);
        walk(cursor->topic);
        done++;
    }
    return done;
}

unsigned amb_sift_serve(struct amb_shard *shard, void (*walk)(struct amb_topic *topic))
{
    struct amb_sift *sift = &shard->sift;
    unsigned done = 0;
    sift->steps += AMB_SIFT_STEPS / 2;
    const struct amb_list_node *last = sift->waiting.prev;
    struct amb_list_node *node = NULL;
    while (sift->steps > 0 && node != last && (node = amb_list_pop_front(&sift->waiting)) != NULL) {
        struct amb_sifter *sifter = AMB_CONTAINER_OF(node, struct amb_sifter, node);
        done += sifter_serve(shard, sifter, walk);
        if (!amb_list_is_empty(&sifter->cursors)) {
            amb_list_remove(&sifter->node); /* A walk may have put it into the line again. */
            sifter_line_up(shard, sifter);
        }
    }
    return done;
}
