/* SPDX-License-Identifier: Apache-2.0 */
/* Attacks by frames and flow values that a link carries as it should: lies about what they say. */
#include "tests/support/hostile/hostile.h"

#include "wire/base/clock.h"

#include <string.h>

#define BODY 4096u
#define AHEAD (UINT64_C(1) << 40) /* of every delivery that a round makes */

static enum hostile_verdict release_beyond(struct hostile *h)
{
    hostile_live(h, 1);
    h->keeps_deliveries = true; /* Or the next release would take its place. */
    hostile_flow(h, AMB_FLOW_RELEASE, 0, UINT64_MAX - hostile_below(h, UINT64_C(1) << 60));
    return HOSTILE_ENDS;
}

/* Of subscriptions that are not there. */
static enum hostile_verdict release_foreign(struct hostile *h)
{
    for (uint32_t handle = 2; handle < AMB_HANDLES_MAX; handle++) {
        hostile_flow(h, AMB_FLOW_RELEASE, handle, hostile_edge(h));
        hostile_flow(h, AMB_FLOW_WANT, handle, hostile_edge(h));
        struct amb_frame frame = {.type = AMB_FRAME_RELEASE_RANGE,
                                  .handle = handle,
                                  .number = hostile_edge(h) >> 1 | 1,
                                  .count = (uint32_t)hostile_edge(h) | 1};
        hostile_frame(h, &frame, NULL);
        if (handle % 64 == 0) {
            hostile_live(h, 0);
        }
    }
    return HOSTILE_LIVES;
}

static enum hostile_verdict range_beyond(struct hostile *h)
{
    struct amb_frame frame = {.type = AMB_FRAME_RELEASE_RANGE, .handle = 0};
    switch (hostile_below(h, 3)) {
    case 0:
        frame.number = UINT64_MAX - hostile_below(h, 4);
        frame.count = UINT32_MAX - (uint32_t)hostile_below(h, 4);
        break;
    case 1:
        frame.number = 1 + hostile_below(h, 2);
        frame.count = UINT32_MAX - (uint32_t)hostile_below(h, 4);
        break;
    default:
        frame.number = UINT64_C(1) << 40;
        frame.count = 1;
    }
    hostile_frame(h, &frame, NULL);
    return HOSTILE_ENDS;
}

/* Deliveries that were made, given back again and again, in any order. */
static enum hostile_verdict range_again(struct hostile *h)
{
    h->keeps_deliveries = true;
    hostile_traffic(h, 5);
    struct hostile_sub *sub = &h->subs[0];
    for (unsigned i = 0; i < 500 && sub->delivered > 0; i++) {
        uint64_t number = 1 + hostile_below(h, sub->delivered);
        struct amb_frame frame = {.type = AMB_FRAME_RELEASE_RANGE,
                                  .handle = 0,
                                  .number = number,
                                  .count =
                                      1 + (uint32_t)hostile_below(h, sub->delivered - number + 1)};
        hostile_frame(h, &frame, NULL);
        hostile_flow(h, AMB_FLOW_RELEASE, 0, 1 + hostile_below(h, sub->delivered));
        if (i % 50 == 0) {
            hostile_traffic(h, 1);
        }
    }
    h->keeps_deliveries = false;
    return HOSTILE_LIVES;
}

static enum hostile_verdict want_beyond(struct hostile *h)
{
    hostile_flow(h, AMB_FLOW_WANT, 0, UINT64_MAX - hostile_below(h, UINT64_C(1) << 61));
    return HOSTILE_ENDS;
}

/* As much as each may ask for, and then nothing comes. */
static enum hostile_verdict want_most(struct hostile *h)
{
    uint64_t id = 0;
    for (uint32_t handle = 2; handle < 20; handle++) {
        id = hostile_pub_open(h, handle, "hostile.want", false);
    }
    (void)hostile_await(h, id);
    for (uint32_t handle = 2; handle < 20; handle++) {
        hostile_flow(h, AMB_FLOW_WANT, handle, h->max_message);
    }
    hostile_live(h, 30);
    return HOSTILE_LIVES;
}

static enum hostile_verdict window_overrun(struct hostile *h)
{
    h->pubs[0].window = UINT64_MAX;
    for (int i = 0; i < 4096 && !h->is_over && !h->is_down; i++) {
        (void)hostile_publish(h, 0, 3000 + hostile_below(h, 64));
        if (i % 32 == 0) {
            amb_link_flush(h->link);
        }
    }
    return HOSTILE_EITHER; /* It may be granted as fast as we go. */
}

static enum hostile_verdict window_leap(struct hostile *h)
{
    static uint8_t body[3 << 20];
    const struct amb_frame frame = {.type = AMB_FRAME_BATCH,
                                    .handle = 0,
                                    .seq = h->pubs[0].batches + 1,
                                    .count = 1,
                                    .data_len = sizeof(body) - 16,
                                    .meta_len = 16};
    hostile_frame(h, &frame, body);
    return HOSTILE_ENDS;
}

static enum hostile_verdict wrong_seq(struct hostile *h)
{
    h->pubs[0].batches += hostile_below(h, 2) == 0 ? UINT64_MAX : 1 + hostile_below(h, 100);
    uint64_t window = h->pubs[0].window;
    h->pubs[0].window = UINT64_MAX;
    bool is_sent = hostile_publish(h, 0, 10);
    h->pubs[0].window = window;
    return is_sent ? HOSTILE_ENDS : HOSTILE_EITHER; /* Its link may be full. */
}

/* A body that does not add up to its head. */
static enum hostile_verdict body_lies(struct hostile *h)
{
    uint8_t body[BODY] = {0};
    uint32_t count = 1 + (uint32_t)hostile_below(h, 16);
    uint64_t data = 16 * hostile_below(h, 100);
    uint32_t meta = count * 16 + (uint32_t)hostile_below(h, 64) * 8;
    hostile_bytes(h, body, sizeof(body));
    if (hostile_below(h, 2) == 0) {
        memset(body, 0, sizeof(body)); /* Records of nothing, and too much meta. */
        meta = count * 16 + 8 * (1 + (uint32_t)hostile_below(h, 64));
    }
    const struct amb_frame frame = {.type = AMB_FRAME_BATCH,
                                    .handle = 1,
                                    .seq = ++h->pubs[1].batches,
                                    .count = count,
                                    .data_len = data,
                                    .meta_len = meta};
    hostile_live(h, 1);
    hostile_frame(h, &frame, body);
    return HOSTILE_ENDS;
}

/* Of a publisher that is not there: thrown away, however large. */
static enum hostile_verdict batch_foreign(struct hostile *h)
{
    static uint8_t body[1 << 20];
    for (unsigned i = 0; i < 20; i++) {
        const struct amb_frame frame = {.type = AMB_FRAME_BATCH,
                                        .handle = 2 + (uint32_t)hostile_below(h, 1000),
                                        .seq = hostile_edge(h),
                                        .count = 1,
                                        .data_len = 16 * hostile_below(h, sizeof(body) / 16),
                                        .meta_len = 16};
        hostile_frame(h, &frame, body);
        hostile_live(h, 0);
    }
    return HOSTILE_LIVES;
}

/* Frames that only a broker sends, and that nobody does. */
static enum hostile_verdict wrong_types(struct hostile *h)
{
    static const uint8_t types[] = {AMB_FRAME_SETTLED, AMB_FRAME_MAP, AMB_FRAME_SEG_DROP,
                                    AMB_FRAME_FREED};
    const struct amb_frame frame = {.type = types[hostile_below(h, sizeof(types))],
                                    .handle = (uint32_t)hostile_below(h, AMB_HANDLES_MAX),
                                    .count = 1,
                                    .meta_len = 16,
                                    .number = 1};
    hostile_frame(h, &frame, NULL);
    return HOSTILE_ENDS;
}

/* A payload of a message that came whole, or never came. One that was given back is stale. */
static enum hostile_verdict fetch_wrong(struct hostile *h)
{
    bool is_ahead = hostile_below(h, 2) == 0;
    const struct amb_frame frame = {.type = AMB_FRAME_FETCH,
                                    .handle = 0,
                                    .number = 1 + hostile_below(h, 100) + (is_ahead ? AHEAD : 0),
                                    .first = (uint32_t)hostile_below(h, AMB_BATCH_MSGS_MAX),
                                    .seq = hostile_edge(h),
                                    .offset = hostile_below(h, UINT32_MAX - AMB_FETCH_MAX),
                                    .data_len = 1 + hostile_below(h, AMB_FETCH_MAX)};
    hostile_frame(h, &frame, NULL);
    return is_ahead ? HOSTILE_ENDS : HOSTILE_EITHER;
}

/* Of a subscription that is not there: answered, each time. No more at once than may wait. */
static enum hostile_verdict fetch_foreign(struct hostile *h)
{
    for (unsigned i = 0; i < 100; i++) {
        while (i - h->fetched >= 32 && !h->is_over) {
            hostile_live(h, 1);
        }
        const struct amb_frame frame = {.type = AMB_FRAME_FETCH,
                                        .handle = 2 + (uint32_t)hostile_below(h, 1000),
                                        .number = 1 + hostile_edge(h) / 2,
                                        .seq = hostile_edge(h),
                                        .data_len = 1 + hostile_below(h, AMB_FETCH_MAX)};
        hostile_frame(h, &frame, NULL);
        hostile_live(h, 0);
    }
    return HOSTILE_LIVES;
}

/* Segments that were never offered, here or to anybody. */
static enum hostile_verdict segment_words(struct hostile *h)
{
    for (unsigned i = 0; i < 500; i++) {
        const struct amb_frame frame = {.type = AMB_FRAME_SEG_READY, .segment = hostile_edge(h)};
        hostile_frame(h, &frame, NULL);
        if (i % 64 == 0) {
            hostile_live(h, 0);
        }
    }
    return HOSTILE_LIVES;
}

/* "Unmapped here", of what is in use: must it be handed over again and again? */
static enum hostile_verdict segment_gone(struct hostile *h)
{
    h->is_deaf = true;
    for (unsigned i = 0; i < 300 && !h->is_over; i++) {
        for (unsigned s = 0; s < h->segment_count; s++) {
            struct amb_frame frame = {.type = AMB_FRAME_SEG_GONE, .segment = h->segments[s].id};
            hostile_frame(h, &frame, NULL);
        }
        (void)hostile_publish(h, 0, 100);
        (void)amb_link_poll(h->link, 64);
        amb_link_flush(h->link);
    }
    return HOSTILE_LIVES;
}

/* A body that begins and does not end. */
static enum hostile_verdict body_begun(struct hostile *h)
{
    static uint8_t body[60000];
    const struct amb_frame frame = {.type = AMB_FRAME_BATCH,
                                    .handle = 1,
                                    .seq = ++h->pubs[1].batches,
                                    .count = 1,
                                    .data_len = sizeof(body) - 48,
                                    .meta_len = 48};
    for (int i = 0; i < 8; i++) {
        (void)hostile_publish(h, 0, 20000); /* Until the ring is full: the rest waits in here. */
    }
    hostile_frame(h, &frame, body);
    return HOSTILE_GONE;
}

static enum hostile_verdict any_commit(struct hostile *h)
{
    uint8_t meta[BODY];
    hostile_bytes(h, meta, sizeof(meta));
    uint32_t count = 1 + (uint32_t)hostile_below(h, 8);
    const struct amb_frame frame = {.type = AMB_FRAME_COMMIT,
                                    .handle = 0,
                                    .seq = h->pubs[0].batches + 1,
                                    .count = count,
                                    .number = hostile_below(h, 3),
                                    .segment =
                                        h->segment_count > 0 ? h->segments[0].id : hostile_edge(h),
                                    .data_len = 16 * hostile_below(h, 64),
                                    .meta_len = count * 24};
    hostile_frame(h, &frame, meta);
    return HOSTILE_ENDS;
}

/* Holds what it was given, in place, as much as it gets. */
static enum hostile_verdict holds(struct hostile *h)
{
    h->keeps_deliveries = true;
    hostile_traffic(h, 50);
    return HOSTILE_LIVES;
}

const struct hostile_attack hostile_frame_attacks[] = {
    {.name = "release-beyond", .run = release_beyond},
    {.name = "release-foreign", .run = release_foreign},
    {.name = "range-beyond", .run = range_beyond},
    {.name = "range-again", .run = range_again},
    {.name = "want-beyond", .run = want_beyond},
    {.name = "want-most", .run = want_most, .is_greedy = true},
    {.name = "window-overrun", .run = window_overrun},
    {.name = "window-leap", .run = window_leap},
    {.name = "wrong-seq", .run = wrong_seq},
    {.name = "body-lies", .run = body_lies},
    {.name = "batch-foreign", .run = batch_foreign},
    {.name = "wrong-types", .run = wrong_types},
    {.name = "fetch-wrong", .run = fetch_wrong},
    {.name = "fetch-foreign", .run = fetch_foreign},
    {.name = "segment-words", .run = segment_words},
    {.name = "segment-gone", .run = segment_gone},
    {.name = "body-begun", .run = body_begun},
    {.name = "any-commit", .run = any_commit},
    {.name = "holds", .run = holds},
    {.name = NULL},
};
