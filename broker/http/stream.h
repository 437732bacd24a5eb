/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams of events (server-sent events): views once a second, first whole and then their changes.
 *
 *   feed: views, as of the last second ─► stream, stream, ...: bytes that are not sent yet
 *
 * Streams with the same question share a feed, which is read once for all of them. Where nobody
 * listens there is no feed, and no work. A stream is ended whose reader leaves
 * AMB_STREAM_UNREAD_MAX bytes waiting, or takes nothing for 8 s.
 *
 *   event: full    {"at_ms", "columns": {VIEW: ...}, "views": {VIEW: {"set": {KEY: ROW}}}}
 *   event: delta   {"at_ms", "views": {VIEW: {"set": ..., "gone": [KEY], "cut": true}}}
 *
 * Threads: the observer. Memory: a feed has at most AMB_STREAM_ROWS_MAX rows a view.
 */
#pragma once

#include "wire/base/status.h"
#include "wire/counters/view.h"

#include <microhttpd.h>
#include <stdbool.h>
#include <stdint.h>

#define AMB_STREAMS_MAX 16u
#define AMB_STREAM_VIEWS_MAX 9u /* each of them */
#define AMB_STREAM_ROWS 100u    /* of a view, if its question does not say */
#define AMB_STREAM_ROWS_MAX 1000u
#define AMB_STREAM_UNREAD_MAX (1u << 20)

struct amb_broker_stats;
struct amb_feed;
struct amb_stream;

/* The way by which a reader came in: a reload may close it. */
enum amb_stream_way {
    AMB_STREAM_OF_OWNER, /* a Unix socket, and the broker's user or root */
    AMB_STREAM_BY_MODE,  /* a Unix socket */
    AMB_STREAM_BY_KEY,   /* TCP */
};

struct amb_streams {
    const struct amb_counters_image *image;
    struct amb_broker_stats *stats;
    struct amb_stream *of[AMB_STREAMS_MAX];
    struct amb_feed *feeds[AMB_STREAMS_MAX];
    unsigned count;
    bool is_over;                          /* none begins any more */
    bool is_closed[AMB_STREAM_BY_KEY + 1]; /* ways by which nobody may be here any more */
};

/* A view, as a request names it. */
struct amb_stream_view {
    char query[AMB_COUNTERS_QUERY_MAX]; /* of view.h, without top */
    uint32_t top;
};

struct amb_stream_question {
    struct amb_stream_view views[AMB_STREAM_VIEWS_MAX];
    unsigned count;
};

/* Takes one argument of a request: "view" begins a view, and "match", "sort" and "top" are of the
 * one before. False, and `why`: a sentence. */
bool amb_stream_argument(struct amb_stream_question *question, const char *name, const char *value,
                         char why[AMB_COUNTERS_REFUSAL_MAX]);
/* The answer of a new stream, which it belongs to. EINVAL: the question is wrong, and `why` has a
 * sentence. ELIMIT: there are AMB_STREAMS_MAX, or the end. ENOMEM. */
AMB_MUST_CHECK enum amb_status
amb_stream_open(struct amb_streams *streams, struct MHD_Connection *connection,
                enum amb_stream_way way, const struct amb_stream_question *question,
                struct MHD_Response **out, char why[AMB_COUNTERS_REFUSAL_MAX]);
/* Reads a feed that is due. */
void amb_streams_turn(struct amb_streams *streams, int64_t now_ns);
/* When the next one is; INT64_MAX: nobody listens. */
int64_t amb_streams_due(const struct amb_streams *streams);
/* Ends those that came this way; they may come again. */
void amb_streams_stop(struct amb_streams *streams, enum amb_stream_way way);
/* All of them, before libmicrohttpd stops; no other one begins. */
void amb_streams_end(struct amb_streams *streams);
