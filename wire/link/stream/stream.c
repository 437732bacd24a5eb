/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/link/stream/stream.h"

#include "wire/base/assert.h"
#include "wire/base/interface.h"
#include "wire/link/stream/stream_down.h"
#include "wire/link/stream/stream_rx.h"
#include "wire/link/stream/stream_tx.h"
#include "wire/tls/tls_io.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static struct stream *stream_of(struct amb_link *link)
{
    return AMB_CONTAINER_OF(link, struct stream, link);
}

/* Messages alike have records alike: a fifth of the bytes of a batch of 64 B messages. */
static bool is_run(const struct amb_link_tx *tx)
{
    const uint8_t *meta = tx->meta;
    return tx->data_len != 0 && tx->data_pad == 0 && tx->meta_len >= STREAM_RUN_MIN &&
           tx->meta_len % STREAM_RECORD_SIZE == 0 &&
           tx->data_len + STREAM_RECORD_SIZE <= AMB_STREAM_CHUNK &&
           memcmp(meta, meta + STREAM_RECORD_SIZE, tx->meta_len - STREAM_RECORD_SIZE) == 0;
}

static enum amb_status stream_send(struct amb_link *link, struct amb_link_tx *tx)
{
    struct stream *stream = stream_of(link);
    if (link->is_down) {
        return AMB_ELOST;
    }
    bool has_body = amb_frame_has_body(tx->frame->type);
    tx->data_len = has_body ? amb_frame_body_data(tx->frame) - tx->data_pad : 0;
    tx->meta_len = has_body ? tx->frame->meta_len + tx->data_pad : 0;
    tx->sent = 0;
    tx->is_run = is_run(tx);
    tx->meta_len = tx->is_run ? STREAM_RECORD_SIZE : tx->meta_len;
    amb_frame_encode(tx->frame, tx->head);
    amb_list_push_back(&stream->queue, &tx->node);
    link->queued++;
    link->queued_bytes += AMB_FRAME_HEAD_SIZE + tx->data_len + tx->meta_len;
    return AMB_EAGAIN;
}

static void stream_flow(struct amb_link *link, enum amb_flow_kind kind, uint32_t handle,
                        uint64_t value)
{
    struct stream_flows *flows = &stream_of(link)->flows;
    const uint32_t slots = sizeof(flows->dirty) / sizeof(flows->dirty[0]);
    amb_assert((unsigned)kind < AMB_FLOW_KINDS && handle < AMB_HANDLES_MAX);
    uint32_t index = (uint32_t)kind * AMB_HANDLES_MAX + handle;
    flows->value[index] = value;
    if (!flows->is_dirty[index]) {
        flows->is_dirty[index] = true;
        uint32_t tail = flows->head + flows->count++;
        flows->dirty[tail < slots ? tail : tail - slots] = (uint16_t)index;
    }
}

static void stream_flush(struct amb_link *link)
{
    struct stream *stream = stream_of(link);
    amb_assert(!stream->is_busy);
    /* While the socket is full, poll asks it; twice a turn would be one call for nothing. */
    if (link->is_down || stream->is_mute || link->is_blocked) {
        return;
    }
    stream->is_busy = true;
    (void)amb_stream_push(stream);
    stream->is_busy = false;
}

static unsigned stream_poll(struct amb_link *link, unsigned budget)
{
    struct stream *stream = stream_of(link);
    amb_assert(!stream->is_busy);
    if (link->is_down) {
        return 0;
    }
    stream->is_busy = true;
    unsigned done = amb_stream_pull(stream, budget);
    if (link->is_pending && !link->is_down) {
        done += amb_stream_push(stream);
    }
    done += amb_stream_has_unread(stream) ? 1 : 0;
    stream->is_busy = false;
    return done;
}

static bool stream_arm(struct amb_link *link, bool want_flow)
{
    struct stream *stream = stream_of(link);
    (void)want_flow; /* all bytes wake */
    if (link->is_down) {
        return true;
    }
    bool can_send = link->is_pending && !link->is_blocked;
    /* A Unix socket ends reads at other borders, too: a short one says little there. */
    bool is_empty =
        stream->rx.is_drained || (link->is_dry && link->hears_end && !stream->is_guarded);
    return is_empty && !stream->is_mute && !can_send;
}

static bool stream_rest(struct amb_link *link, short *events)
{
    const struct stream *stream = stream_of(link);
    bool can_send = link->is_pending && !link->is_blocked;
    if (link->is_down || stream->is_mute || can_send || stream->rx.has_more) {
        return false;
    }
    *events = link->is_blocked ? POLLIN | POLLOUT : POLLIN;
    return true;
}

static void stream_disarm(struct amb_link *link)
{
    (void)link;
}

static int stream_fd(const struct amb_link *link)
{
    static_assert(offsetof(struct stream, link) == 0, "a link is a stream's beginning");
    return ((const struct stream *)(const void *)link)->fd;
}

static bool stream_close(struct amb_link *link)
{
    struct stream *stream = stream_of(link);
    amb_assert(!stream->is_busy);
    stream->is_busy = true;
    link->is_down = true;
    amb_stream_settle_rest(stream, AMB_ECANCELED, AMB_ECANCELED);
    if (stream->tls != NULL) {
        amb_tls_farewell(stream->tls);
        amb_tls_destroy(&stream->tls);
    }
    if (stream->is_guarded) {
        link->events->on_connection(link->arg, stream->fd);
    } else {
        /* A thread that sleeps on it keeps the socket until it wakes: see stream_rest. */
        (void)shutdown(stream->fd, SHUT_RDWR);
        (void)close(stream->fd);
    }
    free(stream);
    return true;
}

union stream_address {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
};

static void stream_describe(const struct amb_link *link, char *out, size_t size)
{
    union stream_address peer = {.any.sa_family = AF_UNSPEC};
    socklen_t len = sizeof(peer);
    char host[INET6_ADDRSTRLEN] = "?";
    const char *over = ((const struct stream *)(const void *)link)->tls == NULL ? "tcp" : "tls";
    (void)getpeername(stream_fd(link), &peer.any, &len);
    if (peer.any.sa_family == AF_INET) {
        (void)inet_ntop(AF_INET, &peer.v4.sin_addr, host, sizeof(host));
        (void)snprintf(out, size, "stream %s %s:%u", over, host, (unsigned)ntohs(peer.v4.sin_port));
    } else if (peer.any.sa_family == AF_INET6) {
        (void)inet_ntop(AF_INET6, &peer.v6.sin6_addr, host, sizeof(host));
        (void)snprintf(out, size, "stream %s [%s]:%u", over, host,
                       (unsigned)ntohs(peer.v6.sin6_port));
    } else {
        (void)snprintf(out, size, "stream");
    }
}

static bool is_unix(int fd)
{
    union stream_address here = {.any.sa_family = AF_UNSPEC};
    socklen_t len = sizeof(here);
    return getsockname(fd, &here.any, &len) == 0 && here.any.sa_family == AF_UNIX;
}

static void set_options(int fd)
{
    /* Batches are whole when they are sent: nothing is gained by waiting. No TCP: no matter. */
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
    if (amb_address_is_own(fd)) {
        (void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &(int){AMB_STREAM_NEAR_BUFFER}, sizeof(int));
    }
}

/* Plain ones have nothing that they could give back. */
static bool stream_trim(struct amb_link *link)
{
    struct stream *stream = stream_of(link);
    return stream->tls != NULL && !link->is_down && amb_tls_trim(stream->tls);
}

static uint8_t **stream_body(struct amb_link *link, void **cookie)
{
    struct stream_rx *rx = &stream_of(link)->rx;
    *cookie = rx->cookie;
    return rx->dst != NULL ? &rx->dst : NULL;
}

static const struct amb_link_ops stream_ops = {
    .kind = AMB_LINK_STREAM,
    .send = stream_send,
    .flow = stream_flow,
    .flush = stream_flush,
    .poll = stream_poll,
    .arm = stream_arm,
    .disarm = stream_disarm,
    .fd = stream_fd,
    .close = stream_close,
    .describe = stream_describe,
    .trim = stream_trim,
    .rest = stream_rest,
    .body = stream_body,
    .rereads = true,
};

static enum amb_status create(int fd, const struct amb_link_events *events, void *arg,
                              struct stream **out)
{
    int flags = fcntl(fd, F_GETFL);
    if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) != 0) {
        return amb_status_from_errno(errno);
    }
    /* calloc leaves the pages of tables and staging to be touched when they are used. */
    struct stream *stream = calloc(1, sizeof(*stream));
    if (stream == NULL) {
        return AMB_ENOMEM;
    }
    set_options(fd);
    stream->is_guarded = events->on_connection != NULL && is_unix(fd);
    stream->link.ops = &stream_ops;
    stream->link.events = events;
    stream->link.arg = arg;
    stream->link.waits_for_read = stream->link.waits_for_write = true;
    stream->fd = fd;
    amb_list_init(&stream->queue);
    amb_list_init(&stream->flying);
    *out = stream;
    return AMB_OK;
}

enum amb_status amb_stream_create_tls(int fd, struct amb_tls *tls,
                                      const struct amb_link_events *events, void *arg,
                                      struct amb_link **out)
{
    struct stream *stream = NULL;
    enum amb_status status = create(fd, events, arg, &stream);
    if (status != AMB_OK) {
        amb_tls_destroy(&tls);
        (void)close(fd);
        return status;
    }
    stream->tls = tls;
    stream->link.trims_soon = tls != NULL;
    /* Bytes may have come with the handshake, and no edge will tell of them. */
    stream->rx.has_more = tls != NULL && amb_tls_has_unread(tls);
    *out = &stream->link;
    return AMB_OK;
}

enum amb_status amb_stream_create(int fd, const struct amb_link_events *events, void *arg,
                                  struct amb_link **out)
{
    return amb_stream_create_tls(fd, NULL, events, arg, out);
}
