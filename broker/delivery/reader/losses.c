/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/delivery/reader/losses.h"

#include "broker/count/loss_book.h"
#include "broker/delivery/reader/gap.h"
#include "broker/delivery/reader/subscription.h"
#include "broker/session/session.h"
#include "broker/shard/entry.h"
#include "broker/shard/shard.h"
#include "broker/topic/cursor.h"
#include "broker/topic/topic.h"
#include "wire/base/clock.h"

#include <stddef.h>
#include <string.h>

static const struct {
    enum amb_loss loss;
    const char *name;
} reasons[AMB_LOSS_REASONS] = {
    {AMB_LOSS_SLOW, "slow"},     {AMB_LOSS_TRIMMED, "trimmed"}, {AMB_LOSS_EXPIRED, "expired"},
    {AMB_LOSS_PURGED, "purged"}, {AMB_LOSS_MIXED, "mixed"},
};

uint64_t amb_losses_gap_add(struct amb_losses_gap *gap, const struct amb_cursor *cursor)
{
    const struct amb_log *log = &cursor->topic->log;
    if (cursor->loss.is_unknown || cursor->recall.prelude != NULL) {
        return 0;
    }
    uint64_t next = log->next_seq;
    uint64_t position = cursor->position < log->lo ? log->lo : cursor->position;
    if (position < log->hi) {
        next = amb_log_at(log, position)->first_seq + cursor->within;
    }
    /* At a shadow's end more may be on its way. */
    if (next <= cursor->loss.expected_seq) {
        return 0;
    }
    struct amb_gap found;
    amb_gap_look(cursor, next, &found);
    gap->by[AMB_LOSS_EXPIRED] += found.expired;
    gap->by[AMB_LOSS_PURGED] += found.purged;
    gap->by[found.other] += amb_gap_others(&found);
    return found.lost;
}

static void note(struct amb_subscription *sub, unsigned reason, uint64_t messages)
{
    struct amb_shard *shard = sub->session->shard;
    uint16_t *record = &sub->losses.records[reason];
    if (messages <= sub->losses.messages[reason]) {
        return;
    }
    sub->losses.messages[reason] = messages;
    bool is_new = *record == 0;
    if (is_new && !sub->losses.is_unlisted) {
        *record = (uint16_t)amb_loss_book_take(&shard->losses, shard->stats);
        sub->losses.is_unlisted = *record == 0;
    }
    if (*record == 0) {
        return;
    }
    struct amb_loss_words *words = amb_loss_book_words(&shard->losses, *record);
    uint64_t now_s = (uint64_t)(shard->real_ns / AMB_NS_PER_SEC);
    if (is_new) {
        *words = (struct amb_loss_words){.subscription = sub->id,
                                         .client = sub->session->client_id,
                                         .worker = shard->index,
                                         .tenant = sub->session->tenant,
                                         .first_s = now_s};
    }
    words->messages = messages;
    words->last_s = now_s;
    const char *pattern = sub->label != NULL ? sub->label : "";
    amb_loss_book_put(&shard->losses, *record, pattern,
                      sub->label != NULL ? pattern + strlen(pattern) + 1 : "",
                      reasons[reason].name);
}

void amb_losses_note(struct amb_subscription *sub, const struct amb_losses_gap *gap)
{
    if (sub->session->shard->counters == NULL || sub->session->shard->losses.records == NULL) {
        return;
    }
    for (unsigned i = 0; i < AMB_LOSS_REASONS; i++) {
        note(sub, i, sub->lost_by[reasons[i].loss] + gap->by[reasons[i].loss]);
    }
}

void amb_losses_look(struct amb_subscription *sub)
{
    struct amb_losses_gap gap = {{0}};
    unsigned count = 0;
    AMB_LIST_FOR_EACH (node, &sub->cursors) {
        if (sub->is_sweeping || count++ == AMB_LOSSES_CURSORS) {
            break;
        }
        (void)amb_losses_gap_add(&gap, AMB_CONTAINER_OF(node, struct amb_cursor, of_sub));
    }
    amb_losses_note(sub, &gap);
}

void amb_losses_end(struct amb_subscription *sub)
{
    struct amb_shard *shard = sub->session->shard;
    if (shard->counters == NULL) {
        return; /* The book lay in the counters, and has gone with them. */
    }
    for (unsigned i = 0; i < AMB_LOSS_REASONS; i++) {
        amb_loss_book_end(&shard->losses, sub->losses.records[i]);
    }
    memset(&sub->losses, 0, sizeof(sub->losses));
}
