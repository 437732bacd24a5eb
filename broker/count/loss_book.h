/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A worker's records of losses, in slots of the counters: of one subscription and one reason each.
 * A record stays when its subscription has ended. When all are taken, the one whose subscription
 * ended first makes room; where none has ended, the loss has no record. Both are counted.
 *
 * Threads: the worker. Memory: the counters'; the book is embedded in the shard.
 */
#pragma once

#include "broker/count/counters.h"
#include "broker/count/figures.h"
#include "wire/base/list.h"

#include <stdint.h>

struct amb_loss_record {
    struct amb_list_node node; /* of book->ended, once its subscription has */
    struct amb_loss_words words;
};

struct amb_loss_book {
    struct amb_loss_record *records; /* NULL: there are none */
    struct amb_texts_slot *slots;
    uint32_t count, used; /* of them so many were ever taken */
    struct amb_list_node ended;
};

/* The share of one worker, while the counters are there. */
void amb_loss_book_init(struct amb_loss_book *book, const struct amb_counters *counters,
                        unsigned worker, unsigned workers);
/* Records are counted from 1. 0: there is no room. */
uint32_t amb_loss_book_take(struct amb_loss_book *book, struct amb_shard_stats *stats);
struct amb_loss_words *amb_loss_book_words(struct amb_loss_book *book, uint32_t record);
/* Writes the record, whose words have been set. */
void amb_loss_book_put(struct amb_loss_book *book, uint32_t record, const char *pattern,
                       const char *client, const char *reason);
/* Its subscription has ended; 0: nothing. */
void amb_loss_book_end(struct amb_loss_book *book, uint32_t record);
