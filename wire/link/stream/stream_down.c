/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/link/stream/stream_down.h"

#include "wire/base/assert.h"

#include <sys/socket.h>

void amb_stream_settle(struct stream *stream, struct amb_link_tx *tx, enum amb_status status)
{
    amb_list_remove(&tx->node);
    stream->link.queued--;
    stream->link.queued_bytes -= AMB_FRAME_HEAD_SIZE + tx->data_len + tx->meta_len;
    stream->link.events->on_sent(stream->link.arg, tx, status);
}

static void settle_list(struct stream *stream, struct amb_list_node *list, enum amb_status status)
{
    while (!amb_list_is_empty(list)) {
        amb_stream_settle(stream, AMB_CONTAINER_OF(list->next, struct amb_link_tx, node), status);
    }
}

void amb_stream_settle_flying(struct stream *stream)
{
    AMB_LIST_FOR_EACH_SAFE (node, &stream->flying) {
        stream->link.stats.frames_sent++;
        amb_stream_settle(stream, AMB_CONTAINER_OF(node, struct amb_link_tx, node), AMB_OK);
    }
}

void amb_stream_settle_rest(struct stream *stream, enum amb_status body, enum amb_status sent)
{
    amb_assert(stream->link.is_down);
    if (stream->rx.dst != NULL) {
        stream->rx.dst = NULL;
        (void)stream->link.events->on_body(stream->link.arg, stream->rx.cookie, body);
    }
    settle_list(stream, &stream->flying, sent);
    settle_list(stream, &stream->queue, sent);
}

void amb_stream_fail(struct stream *stream, enum amb_status why, const char *text)
{
    if (stream->link.is_down) {
        return;
    }
    stream->link.is_down = true;
    /* The descriptor stays ours until close: its waiter takes it out of its set then. */
    (void)shutdown(stream->fd, SHUT_RDWR);
    amb_stream_settle_rest(stream, AMB_ELOST, AMB_ELOST);
    stream->link.events->on_down(stream->link.arg, why, text != NULL ? text : "connection failed");
}
