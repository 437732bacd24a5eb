/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The figures of objects, as they lie in the slots of the counters file. Each field of the structs
 * of numbers and texts has a row in metrics.c. Numbers are a worker's, texts the control thread's.
 *
 * Threads: any. Memory: the caller's.
 */
#pragma once

#include "wire/counters/layout.h"

#include <stdint.h>

struct amb_topic_numbers {
    uint64_t subscriptions, messages, bytes, log_messages, log_bytes, last_seq, rejected, dropped;
    uint64_t spilled, spilled_bytes, spill_failed, spill_dropped, spill_kept_bytes;
};

struct amb_subscription_numbers {
    uint64_t nearness[2]; /* a text */
    uint64_t delivered, bytes, lost, lost_slow, lost_trimmed, lost_expired, lost_purged;
    uint64_t outstanding, outstanding_bytes, credit_bytes, pending_bytes;
    uint64_t spilled, spilled_waiting_bytes;
    uint64_t gpu_delivered, gpu_bytes, held_host_bytes, held_gpu_bytes, pending_gpu_bytes;
    uint64_t pending_topics; /* that were looked at for `pending`; UINT64_MAX: all */
    /* Of a member of a queue; else 0. */
    uint64_t redelivered, acked, naked, termed, ack_expired, ack_late;
};

struct amb_queue_numbers {
    uint64_t delivered, delivered_remote, pending, pending_limit, to_redeliver, redelivered;
    uint64_t settled_late, dead, lost, waiting_bytes;
    uint64_t pending_topics; /* as of a subscription */
};

struct amb_client_numbers {
    uint64_t messages_in, bytes_in, messages_out, bytes_out;
    uint64_t mapped_bytes, mapped_limit_bytes, leased_bytes, commits;
    uint64_t queued_frames, ignored_frames;
    uint64_t heap_bytes, heap_peak_bytes, heap_limit_bytes, heap_refused;
    uint64_t lanes[14]; /* a text */
};

/* The figures of a slot of texts. Behind them stand its texts, in the order of the rows. `tenant`
 * is its number (base/tenant.h): a tenant sees the objects with its own alone. */
struct amb_topic_words {
    uint64_t worker, tenant;
};

struct amb_subscription_words {
    uint64_t client, worker, narrowed, tenant;
};

struct amb_queue_words {
    uint64_t worker, members, tenant;
};

struct amb_client_words {
    uint64_t pid, uid, worker, tenant, pairs, quarantined_bytes;
    uint64_t heap_bytes, heap_peak_bytes, heap_limit_bytes, heap_refused; /* of control alone */
};

struct amb_closed_words {
    uint64_t client, pid, uid, worker, tenant, status, closed_s, lived_s;
};

struct amb_line_words {
    uint64_t lines, first_s, last_s;
};

struct amb_loss_words {
    uint64_t subscription, client, worker, tenant, messages, first_s, last_s;
};

_Static_assert(sizeof(struct amb_topic_numbers) <= 8 * AMB_NUMBERS_FIGURES, "fits a slot");
_Static_assert(sizeof(struct amb_subscription_numbers) <= 8 * AMB_NUMBERS_FIGURES, "fits a slot");
_Static_assert(sizeof(struct amb_queue_numbers) <= 8 * AMB_NUMBERS_FIGURES, "fits a slot");
_Static_assert(sizeof(struct amb_client_numbers) <= 8 * AMB_NUMBERS_FIGURES, "fits a slot");
_Static_assert(sizeof(struct amb_closed_words) <= 8 * AMB_TEXTS_FIGURES, "fits a slot");
_Static_assert(sizeof(struct amb_client_words) <= 8 * AMB_TEXTS_FIGURES, "fits a slot");
