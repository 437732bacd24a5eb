/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/count/loss_book.h"

#include "broker/count/counters_slots.h"
#include "wire/base/assert.h"

#include <stddef.h>

void amb_loss_book_init(struct amb_loss_book *book, const struct amb_counters *counters,
                        unsigned worker, unsigned workers)
{
    uint32_t count = counters->header->loss_count / workers;
    *book = (struct amb_loss_book){.records = counters->loss_records + (size_t)worker * count,
                                   .slots = counters->losses + (size_t)worker * count,
                                   .count = count};
    amb_list_init(&book->ended);
}

uint32_t amb_loss_book_take(struct amb_loss_book *book, struct amb_shard_stats *stats)
{
    if (book->used < book->count) {
        book->used++;
        amb_list_init(&book->records[book->used - 1].node);
        return book->used;
    }
    amb_stat_add(&stats->losses_forgotten, 1);
    struct amb_list_node *node = amb_list_pop_front(&book->ended);
    if (node == NULL) {
        return 0;
    }
    struct amb_loss_record *record = AMB_CONTAINER_OF(node, struct amb_loss_record, node);
    record->words = (struct amb_loss_words){0};
    return (uint32_t)(record - book->records) + 1;
}

struct amb_loss_words *amb_loss_book_words(struct amb_loss_book *book, uint32_t record)
{
    amb_assert(record > 0 && record <= book->used);
    return &book->records[record - 1].words;
}

void amb_loss_book_put(struct amb_loss_book *book, uint32_t record, const char *pattern,
                       const char *client, const char *reason)
{
    const struct amb_loss_words *words = amb_loss_book_words(book, record);
    const char *const texts[] = {pattern, client, reason};
    amb_counters_write_texts(&book->slots[record - 1], AMB_COUNTERS_LOSS, record, words,
                             sizeof(*words), texts, sizeof(texts) / sizeof(texts[0]));
}

void amb_loss_book_end(struct amb_loss_book *book, uint32_t record)
{
    if (record != 0) {
        amb_list_push_back(&book->ended, &book->records[record - 1].node);
    }
}
