/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/count/counters_slots.h"

#include "wire/base/assert.h"

#include <string.h>

/* The lowest bit that is free in the words from `from` to `to`, which it takes. 0: none. */
static uint32_t take_from(struct amb_counters *counters, uint32_t from, uint32_t to)
{
    for (uint32_t word = from; word < to; word++) {
        uint64_t taken = atomic_load_explicit(&counters->taken[word], memory_order_relaxed);
        while (taken != UINT64_MAX) {
            uint32_t bit = (uint32_t)__builtin_ctzll(~taken), slot = word * 64 + bit;
            if (slot >= counters->slots) {
                break;
            }
            /* Acquire: the slot's former writer has written there for the last time. */
            if (atomic_compare_exchange_weak_explicit(&counters->taken[word], &taken,
                                                      taken | UINT64_C(1) << bit,
                                                      memory_order_acquire, memory_order_relaxed)) {
                atomic_store_explicit(&counters->from, word, memory_order_relaxed);
                return slot + 1;
            }
        }
    }
    return 0;
}

uint32_t amb_counters_take_numbers(struct amb_counters *counters)
{
    if (counters == NULL) {
        return 0;
    }
    uint32_t from = atomic_load_explicit(&counters->from, memory_order_relaxed);
    uint32_t end = counters->slots / 64 + 1;
    uint32_t slot = take_from(counters, from, end);
    return slot != 0 ? slot : take_from(counters, 0, from < end ? from : end);
}

static void word_set(_Atomic uint64_t *word, uint64_t value)
{
    if (atomic_load_explicit(word, memory_order_relaxed) != value) {
        atomic_store_explicit(word, value, memory_order_release);
    }
}

/* Nothing is written where nothing has changed. Each word is stored with release: behind the odd
 * sequence, and before the even one. */
static void slot_write(_Atomic uint64_t *words, const uint64_t *values, uint32_t count)
{
    uint32_t i = 1;
    while (i < count && atomic_load_explicit(&words[i], memory_order_relaxed) == values[i]) {
        i++;
    }
    if (i == count) {
        return;
    }
    uint64_t sequence = atomic_load_explicit(&words[AMB_SLOT_SEQUENCE], memory_order_relaxed) | 1;
    atomic_store_explicit(&words[AMB_SLOT_SEQUENCE], sequence, memory_order_relaxed);
    for (; i < count; i++) {
        word_set(&words[i], values[i]);
    }
    atomic_store_explicit(&words[AMB_SLOT_SEQUENCE], sequence + 1, memory_order_release);
}

void amb_counters_give_numbers(struct amb_counters *counters, uint32_t *slot)
{
    if (counters == NULL || *slot == 0) {
        return;
    }
    uint32_t index = *slot - 1;
    const uint64_t nothing[AMB_SLOT_FIGURES] = {0};
    amb_assert(index < counters->slots);
    slot_write(counters->numbers[index].words, nothing, AMB_SLOT_FIGURES);
    *slot = 0;
    (void)atomic_fetch_and_explicit(&counters->taken[index / 64], ~(UINT64_C(1) << index % 64),
                                    memory_order_release);
}

void amb_counters_put_numbers(struct amb_counters *counters, uint32_t slot,
                              enum amb_counters_scope scope, unsigned worker, uint64_t id,
                              const void *figures, size_t size)
{
    uint64_t values[AMB_NUMBERS_WORDS] = {
        [AMB_SLOT_KIND] = (uint64_t)scope | (uint64_t)worker << 16, [AMB_SLOT_ID] = id};
    amb_assert(slot != 0 && slot <= counters->slots && size <= AMB_NUMBERS_FIGURES * 8);
    memcpy(values + AMB_SLOT_FIGURES, figures, size);
    slot_write(counters->numbers[slot - 1].words, values, AMB_SLOT_FIGURES + (uint32_t)(size / 8));
}

/* Bytes of a text that have room, up to the end of a character. */
static size_t fitting(const char *text, size_t room)
{
    size_t len = strnlen(text, room);
    while (len > 0 && ((unsigned char)text[len] & 0xc0) == 0x80) {
        len--; /* The rest of one would be none of UTF-8. */
    }
    return len;
}

void amb_counters_write_texts(struct amb_texts_slot *slot, enum amb_counters_scope scope,
                              uint64_t id, const void *figures, size_t size,
                              const char *const *texts, unsigned count)
{
    uint64_t values[AMB_TEXTS_WORDS] = {[AMB_SLOT_KIND] = (uint64_t)scope, [AMB_SLOT_ID] = id};
    amb_assert(size <= AMB_TEXTS_FIGURES * 8);
    memcpy(values + AMB_SLOT_FIGURES, figures, size);
    char *to = (char *)(values + AMB_SLOT_FIGURES + AMB_TEXTS_FIGURES);
    size_t room = AMB_TEXTS_BYTES;
    for (unsigned i = 0; i < count && room > 0; i++) {
        size_t len = fitting(texts[i], room - 1);
        memcpy(to, texts[i], len);
        to += len + 1;
        room -= len + 1;
    }
    slot_write(slot->words, values, AMB_TEXTS_WORDS);
}

bool amb_counters_put_texts(struct amb_counters *counters, uint32_t *slot,
                            enum amb_counters_scope scope, uint64_t id, const void *figures,
                            size_t size, const char *const *texts, unsigned count)
{
    if (counters == NULL) {
        return true;
    }
    if (*slot == 0) {
        if (counters->free_count == 0) {
            return false;
        }
        *slot = counters->free_texts[--counters->free_count];
    }
    amb_counters_write_texts(&counters->texts[*slot - 1], scope, id, figures, size, texts, count);
    return true;
}

void amb_counters_give_texts(struct amb_counters *counters, uint32_t *slot)
{
    if (counters == NULL || *slot == 0) {
        return;
    }
    const uint64_t nothing[AMB_SLOT_FIGURES] = {0};
    slot_write(counters->texts[*slot - 1].words, nothing, AMB_SLOT_FIGURES);
    counters->free_texts[counters->free_count++] = *slot;
    *slot = 0;
}

static void count_unlisted(struct amb_counters *counters, enum amb_counters_scope scope, bool more)
{
    struct amb_broker_stats *stats = amb_counters_broker(counters);
    _Atomic uint64_t *unlisted = scope == AMB_COUNTERS_TOPIC ? &stats->unlisted_topics
                                 : scope == AMB_COUNTERS_SUBSCRIPTION
                                     ? &stats->unlisted_subscriptions
                                 : scope == AMB_COUNTERS_QUEUE ? &stats->unlisted_queues
                                                               : &stats->unlisted_clients;
    amb_stat_add(unlisted, more ? 1 : UINT64_MAX);
}

void amb_counters_list(struct amb_counters *counters, struct amb_listed *listed,
                       enum amb_counters_scope scope, uint64_t id, const void *figures, size_t size,
                       const char *const *texts, unsigned count)
{
    if (counters == NULL) {
        return;
    }
    bool is_unlisted =
        !amb_counters_put_texts(counters, &listed->slot, scope, id, figures, size, texts, count);
    if (is_unlisted != listed->is_unlisted) {
        count_unlisted(counters, scope, is_unlisted);
        listed->is_unlisted = is_unlisted;
    }
}

void amb_counters_unlist(struct amb_counters *counters, struct amb_listed *listed,
                         enum amb_counters_scope scope)
{
    amb_counters_give_texts(counters, &listed->slot);
    if (counters != NULL && listed->is_unlisted) {
        count_unlisted(counters, scope, false);
        listed->is_unlisted = false;
    }
}
