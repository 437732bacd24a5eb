/* SPDX-License-Identifier: Apache-2.0 */
/*
 * DESIGN. A gather is a view of the next bytes on the socket. First comes the rest of the unit that
 * was cut off, then flow values. Then come as many units of the queue as one sendmsg takes. Bodies
 * are sent from where they lie. Heads and bodies of a few bytes are copied together, because a
 * vector of 100-byte pieces costs the kernel more than the copy. After a partial write the gather
 * is thrown away and made again from the offsets.
 */
#include "wire/link/stream/stream_tx.h"

#include "wire/link/stream/stream_down.h"
#include "wire/tls/tls_io.h"

#include <endian.h>
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#define GATHER_IOV 64u
#define GATHER_SCRATCH 16384u
#define GATHER_COPY 256u /* pieces up to this size are copied */

struct gather {
    uint64_t bytes;
    uint64_t cut_bytes, flow_bytes; /* of them, before and in the flow unit */
    uint32_t iov_count, scratch_used;
    bool is_full;
    struct iovec iov[GATHER_IOV];
    uint8_t scratch[GATHER_SCRATCH];
};

static void gather_add(struct gather *gather, const void *bytes, uint64_t len)
{
    if (len == 0 || gather->is_full) {
        return;
    }
    struct iovec *last = gather->iov_count != 0 ? &gather->iov[gather->iov_count - 1] : NULL;
    /* An iovec is not const, sendmsg reads only. */
    union {
        const void *given;
        void *base;
    } cast = {.given = bytes};
    if (len <= GATHER_COPY) {
        if (gather->scratch_used + len > GATHER_SCRATCH) {
            gather->is_full = true;
            return;
        }
        cast.base = gather->scratch + gather->scratch_used;
        memcpy(cast.base, bytes, len);
        gather->scratch_used += (uint32_t)len;
        if (last != NULL && (uint8_t *)last->iov_base + last->iov_len == cast.base) {
            last->iov_len += len;
            gather->bytes += len;
            return;
        }
    }
    if (gather->iov_count == GATHER_IOV) {
        gather->is_full = true;
        return;
    }
    gather->iov[gather->iov_count++] = (struct iovec){.iov_base = cast.base, .iov_len = len};
    gather->bytes += len;
    gather->is_full = gather->bytes >= STREAM_BURST;
}

static void put_unit_head(uint8_t *out, enum stream_unit_kind kind, uint64_t len)
{
    uint32_t words[4] = {htole32((uint32_t)kind), htole32((uint32_t)len), 0, 0};
    memcpy(out, words, sizeof(words));
}

static uint64_t body_len_of(const struct amb_link_tx *tx)
{
    return tx->data_len + tx->meta_len;
}

/* Bytes of the whole tx on the socket. */
static uint64_t wire_len_of(const struct amb_link_tx *tx)
{
    uint64_t body = body_len_of(tx);
    uint64_t chunks = body > AMB_STREAM_CHUNK ? (body - 1) / AMB_STREAM_CHUNK : 0;
    return STREAM_FRAME_HEAD + body + chunks * STREAM_UNIT_HEAD;
}

/* Where offset `at` of a tx lies: in which unit, and how far in it. */
struct place {
    uint64_t body_start; /* of the unit's part */
    uint64_t part;       /* its length */
    uint64_t head;       /* bytes before it */
    uint64_t into;       /* at - start of the unit */
};

static struct place find_place(const struct amb_link_tx *tx, uint64_t at)
{
    const uint64_t first = STREAM_FRAME_HEAD + AMB_STREAM_CHUNK;
    const uint64_t other = STREAM_UNIT_HEAD + AMB_STREAM_CHUNK;
    struct place place = {.head = STREAM_FRAME_HEAD, .into = at};
    if (at >= first) {
        place.body_start = AMB_STREAM_CHUNK * (1 + (at - first) / other);
        place.head = STREAM_UNIT_HEAD;
        place.into = (at - first) % other;
    }
    uint64_t left = body_len_of(tx) - place.body_start;
    place.part = left < AMB_STREAM_CHUNK ? left : AMB_STREAM_CHUNK;
    return place;
}

static void gather_body(struct gather *gather, const struct amb_link_tx *tx, uint64_t from,
                        uint64_t to)
{
    if (from < tx->data_len) {
        uint64_t end = to < tx->data_len ? to : tx->data_len;
        gather_add(gather, (const uint8_t *)tx->data + from, end - from);
        from = end;
    }
    if (from < to) {
        uint64_t into = from - tx->data_len;
        gather_add(gather, (const uint8_t *)tx->meta + into, to - from);
    }
}

/* The rest of the unit that offset `at` is in. Returns the offset behind it. */
static uint64_t gather_unit(struct gather *gather, const struct amb_link_tx *tx, uint64_t at)
{
    struct place place = find_place(tx, at);
    if (place.into < place.head) {
        uint8_t head[STREAM_FRAME_HEAD];
        bool is_first = place.body_start == 0;
        put_unit_head(head,
                      !is_first    ? STREAM_UNIT_CHUNK
                      : tx->is_run ? STREAM_UNIT_RUN
                                   : STREAM_UNIT_FRAME,
                      place.head - STREAM_UNIT_HEAD + place.part);
        if (is_first) {
            memcpy(head + STREAM_UNIT_HEAD, tx->head, AMB_FRAME_HEAD_SIZE);
        }
        gather_add(gather, head + place.into, place.head - place.into);
    }
    uint64_t skip = place.into > place.head ? place.into - place.head : 0;
    gather_body(gather, tx, place.body_start + skip, place.body_start + place.part);
    return at + place.head + place.part - place.into;
}

/* Makes the next flow unit, if the last one is out and there is something to say. */
static void fill_flow_unit(struct stream_flows *flows)
{
    if (flows->unit_sent != flows->unit_len || flows->count == 0) {
        return;
    }
    const uint32_t slots = sizeof(flows->dirty) / sizeof(flows->dirty[0]);
    uint32_t count = flows->count < STREAM_FLOWS_MAX ? flows->count : STREAM_FLOWS_MAX;
    uint8_t *out = flows->unit + STREAM_UNIT_HEAD;
    for (uint32_t n = 0; n < count; n++, out += STREAM_FLOW_SIZE) {
        uint16_t index = flows->dirty[flows->head];
        flows->head = flows->head + 1 == slots ? 0 : flows->head + 1;
        flows->is_dirty[index] = false;
        uint32_t which[2] = {htole32(index / AMB_HANDLES_MAX), htole32(index % AMB_HANDLES_MAX)};
        uint64_t value = htole64(flows->value[index]);
        memcpy(out, which, sizeof(which));
        memcpy(out + sizeof(which), &value, sizeof(value));
    }
    flows->count -= count;
    put_unit_head(flows->unit, STREAM_UNIT_FLOW, (uint64_t)count * STREAM_FLOW_SIZE);
    flows->unit_len = STREAM_UNIT_HEAD + count * STREAM_FLOW_SIZE;
    flows->unit_sent = 0;
}

static void gather_all(struct stream *stream, struct gather *gather)
{
    struct stream_flows *flows = &stream->flows;
    gather->bytes = gather->cut_bytes = gather->flow_bytes = 0;
    gather->iov_count = gather->scratch_used = 0;
    gather->is_full = false;
    fill_flow_unit(flows);

    struct amb_list_node *node = stream->queue.next;
    uint64_t at = 0;
    if (node != &stream->queue) {
        struct amb_link_tx *tx = AMB_CONTAINER_OF(node, struct amb_link_tx, node);
        at = tx->sent;
        if (at != 0 && find_place(tx, at).into != 0) {
            at = gather_unit(gather, tx, at);
            gather->cut_bytes = gather->bytes;
        }
    }
    if (!gather->is_full) {
        gather_add(gather, flows->unit + flows->unit_sent, flows->unit_len - flows->unit_sent);
        gather->flow_bytes = gather->bytes - gather->cut_bytes;
    }
    for (; node != &stream->queue && !gather->is_full; node = node->next, at = 0) {
        struct amb_link_tx *tx = AMB_CONTAINER_OF(node, struct amb_link_tx, node);
        uint64_t wire_len = wire_len_of(tx);
        while (at < wire_len && !gather->is_full) {
            at = gather_unit(gather, tx, at);
        }
    }
}

static uint64_t take(uint64_t *sent, uint64_t most)
{
    uint64_t part = *sent < most ? *sent : most;
    *sent -= part;
    return part;
}

/* All of tx has been sent, or encrypted: some of that may have to wait for room in the socket. */
static void complete(struct stream *stream, struct amb_link_tx *tx)
{
    if (stream->tls != NULL && amb_tls_has_unsent(stream->tls)) {
        amb_list_remove(&tx->node);
        amb_list_push_back(&stream->flying, &tx->node);
    } else {
        stream->link.stats.frames_sent++;
        amb_stream_settle(stream, tx, AMB_OK);
    }
}

/* Books `sent` bytes of the gather. Returns how many tx were sent whole. */
static unsigned advance(struct stream *stream, const struct gather *gather, uint64_t sent)
{
    unsigned settled = 0;
    uint64_t cut = take(&sent, gather->cut_bytes);
    stream->flows.unit_sent += (uint32_t)take(&sent, gather->flow_bytes);
    sent += cut;
    while (sent != 0) {
        struct amb_link_tx *tx = AMB_CONTAINER_OF(stream->queue.next, struct amb_link_tx, node);
        uint64_t wire_len = wire_len_of(tx);
        tx->sent += take(&sent, wire_len - tx->sent);
        if (tx->sent == wire_len) {
            complete(stream, tx);
            settled++;
        }
    }
    return settled;
}

static ssize_t send_gather(const struct stream *stream, struct gather *gather)
{
    if (stream->tls != NULL) {
        return amb_tls_send(stream->tls, gather->iov, gather->iov_count);
    }
    struct msghdr message = {.msg_iov = gather->iov, .msg_iovlen = gather->iov_count};
    return sendmsg(stream->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* Records that waited for room go first. False: some still do, or sending has failed. */
static bool push_records(struct stream *stream)
{
    if (!amb_tls_push(stream->tls)) {
        stream->is_mute = true;
        return false;
    }
    stream->link.is_pending = stream->link.is_blocked = amb_tls_has_unsent(stream->tls);
    if (!stream->link.is_blocked) {
        amb_stream_settle_flying(stream);
    }
    return !stream->link.is_blocked;
}

unsigned amb_stream_push(struct stream *stream)
{
    struct gather gather;
    unsigned done = 0;
    stream->link.is_pending = stream->link.is_blocked = false;
    if (stream->tls != NULL && !push_records(stream)) {
        return stream->is_mute ? 1 : 0;
    }
    for (uint64_t burst = 0; burst < STREAM_BURST && done < STREAM_BURST_UNITS;) {
        gather_all(stream, &gather);
        if (gather.bytes == 0) {
            return done;
        }
        ssize_t sent = send_gather(stream, &gather);
        if (sent < 0 && errno == EINTR) {
            continue;
        }
        if (sent < 0 && errno != EAGAIN && errno != EWOULDBLOCK) {
            /* Bytes that the peer sent before it went away may still be there to be read. */
            stream->is_mute = true;
            return done + 1;
        }
        if (sent > 0) {
            burst += (uint64_t)sent;
            stream->link.stats.bytes_sent += (uint64_t)sent;
            done += 1 + advance(stream, &gather, (uint64_t)sent);
        }
        bool is_waiting = stream->tls != NULL && amb_tls_has_unsent(stream->tls);
        if (sent < 0 || (uint64_t)sent < gather.bytes || is_waiting) {
            stream->link.is_pending = stream->link.is_blocked = true;
            return done;
        }
    }
    stream->link.is_pending = true;
    return done;
}
