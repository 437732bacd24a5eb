/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Slots of the counters: they are taken, written and given back.
 *
 * Threads: each slot has one writer. Any thread takes and gives slots of numbers, the control
 * thread those of texts. Memory: the counters'.
 */
#pragma once

#include "broker/count/counters.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A slot's number is counted from 1, so that 0 is none. With counters NULL there are none. */
uint32_t amb_counters_take_numbers(struct amb_counters *counters);
/* Harmless where *slot is 0. The object's writer has written there for the last time. */
void amb_counters_give_numbers(struct amb_counters *counters, uint32_t *slot);
/* Figures of an object, as its struct of figures.h has them. */
void amb_counters_put_numbers(struct amb_counters *counters, uint32_t slot,
                              enum amb_counters_scope scope, unsigned worker, uint64_t id,
                              const void *figures, size_t size);

/* An object's place among the texts. */
struct amb_listed {
    uint32_t slot;    /* 0: none */
    bool is_unlisted; /* there was none, and it is counted as unlisted */
};

/* The control thread's: the object is as that, in a slot if there is one; else it is counted as
 * unlisted. Harmless without counters. */
void amb_counters_list(struct amb_counters *counters, struct amb_listed *listed,
                       enum amb_counters_scope scope, uint64_t id, const void *figures, size_t size,
                       const char *const *texts, unsigned count);
/* It has gone. Harmless twice. */
void amb_counters_unlist(struct amb_counters *counters, struct amb_listed *listed,
                         enum amb_counters_scope scope);

/* A slot of texts of the caller's: figures, and texts behind them. A text that does not fit is cut
 * behind a character. */
void amb_counters_write_texts(struct amb_texts_slot *slot, enum amb_counters_scope scope,
                              uint64_t id, const void *figures, size_t size,
                              const char *const *texts, unsigned count);
/* The control thread's: figures, and texts behind them. *slot 0: one is taken, if there is one. A
 * text that does not fit is cut. False: there is no slot. */
bool amb_counters_put_texts(struct amb_counters *counters, uint32_t *slot,
                            enum amb_counters_scope scope, uint64_t id, const void *figures,
                            size_t size, const char *const *texts, unsigned count);
void amb_counters_give_texts(struct amb_counters *counters, uint32_t *slot);
