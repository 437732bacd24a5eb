/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The receiver of a stream link, fed from memory through amb_stream_room and amb_stream_take. There
 * is no socket and no object per input, so it runs some hundred times as often as `stream`. That is
 * the whole link behind its socket. Each input is received twice, once as it is and once in pieces;
 * both must come to the same upcalls. The part of the staging memory that has not come yet is
 * poisoned.
 *
 *   byte 0  bit 0: the rest are the stream's bytes; else a script that writes them
 *           bits 1 to 3: units that one call parses, less 1
 *   byte 1  size of the pieces, 0: 1 (PIECES_MAX of them, then the rest)
 *   byte 2  eighths of the bytes in front of the first piece
 *
 * A script is a row of steps: see step(). It does not reach reading and closing the socket.
 */
#include "tests/fuzz/fuzz_target.h"
#include "wire/link/stream/stream_down.h"
#include "wire/link/stream/stream_rx.h"

#include <endian.h>
#include <stdbool.h>
#include <sys/uio.h>

#define HEAD_BYTES 3u
#define WIRE_MAX 4096u
#define BODY_MAX (UINT64_C(36) << 10) /* larger ones are discarded */
#define PIECES_MAX 12u

/* Handles that on_frame and on_body answer to in their own way. */
#define REFUSED 666u
#define DISCARDED 667u
#define REFUSED_BODY 668u

struct target {
    struct fuzz_target upcalls;
    uint32_t handle; /* of the body on its way */
};

/* The wire ------------------------------------------------------------------------------------- */

struct script {
    const uint8_t *at, *end;
};

struct wire {
    size_t len;
    uint64_t body_left; /* that the latest frame still wants */
    uint8_t bytes[WIRE_MAX];
};

static struct wire wire;

FUZZ_PLAIN static uint32_t take(struct script *script, unsigned bytes)
{
    uint32_t value = 0;
    for (unsigned i = 0; i < bytes && script->at < script->end; i++) {
        value |= (uint32_t)*script->at++ << 8 * i;
    }
    return value;
}

/* Mostly small: large bodies take time. */
FUZZ_PLAIN static uint32_t take_length(struct script *script)
{
    uint32_t value = take(script, 2);
    return value < 0xf000 ? value & 0x3ff : (value & 0xfff) * 16;
}

/* As much of it as there is room for. */
FUZZ_PLAIN static void put(const void *bytes, size_t len)
{
    size_t room = WIRE_MAX - wire.len;
    len = len < room ? len : room;
    if (len > 0) {
        memcpy(wire.bytes + wire.len, bytes, len);
        wire.len += len;
    }
}

/* Bytes that differ from each other, and from time to time do not. */
FUZZ_PLAIN static void put_body(uint64_t len)
{
    static uint8_t pattern[WIRE_MAX];
    if (pattern[1] == 0) {
        for (unsigned i = 0; i < WIRE_MAX; i++) {
            pattern[i] = (uint8_t)(i * 7 + (i >> 8));
        }
    }
    put(pattern, len < WIRE_MAX ? len : WIRE_MAX);
    wire.body_left -= len < wire.body_left ? len : wire.body_left;
}

FUZZ_PLAIN static void put_unit(uint32_t kind, uint64_t len)
{
    const uint32_t head[4] = {htole32(kind), htole32((uint32_t)len)};
    put(head, sizeof(head));
}

/* type, data, meta, part (255: the whole body; else sixteens of bytes), what becomes of it */
FUZZ_PLAIN static void put_frame(struct script *script, uint32_t kind)
{
    struct amb_frame frame = {.type = (uint8_t)take(script, 1)};
    frame.data_len = take_length(script);
    frame.meta_len = take_length(script);
    uint32_t part = take(script, 1), becomes = take(script, 1);
    frame.handle = becomes < 250 ? becomes : REFUSED + becomes % 3;
    frame.count = 1;
    uint8_t head[AMB_FRAME_HEAD_SIZE];
    amb_frame_encode(&frame, head);
    wire.body_left = amb_frame_body_len(&frame);
    uint64_t len = part == 255 ? wire.body_left : part * 16;
    if (kind == STREAM_UNIT_RUN && part == 255) {
        len = amb_frame_body_data(&frame) + STREAM_RECORD_SIZE;
    }
    put_unit(kind, AMB_FRAME_HEAD_SIZE + len);
    put(head, sizeof(head));
    put_body(len);
}

FUZZ_PLAIN static void put_flows(struct script *script)
{
    uint32_t count = take(script, 1);
    put_unit(STREAM_UNIT_FLOW, count * STREAM_FLOW_SIZE);
    for (; count > 0 && script->at < script->end; count--) {
        uint32_t kind = take(script, 1), handle = take(script, 2), value = take(script, 2);
        const uint32_t which[2] = {htole32(kind), htole32(handle)};
        const uint64_t number = htole64(value);
        put(which, sizeof(which));
        put(&number, sizeof(number));
    }
}

FUZZ_PLAIN static void step(struct script *script)
{
    uint32_t len;
    switch (take(script, 1) % 6) {
    case 0:
        put_frame(script, STREAM_UNIT_FRAME);
        return;
    case 1:
        put_frame(script, STREAM_UNIT_RUN);
        return;
    case 2: /* a chunk of so many bytes; 65535: the rest of the body */
        len = take(script, 2);
        len = len == UINT16_MAX ? (uint32_t)wire.body_left : len;
        put_unit(STREAM_UNIT_CHUNK, len);
        put_body(len);
        return;
    case 3:
        put_flows(script);
        return;
    case 4: /* a unit's head alone */
        len = take(script, 1);
        put_unit(len, take(script, 4));
        return;
    default: /* bytes as they are */
        len = take(script, 1);
        len = len < (size_t)(script->end - script->at) ? len : (uint32_t)(script->end - script->at);
        put(script->at, len);
        script->at += len;
        return;
    }
}

/* Upcalls -------------------------------------------------------------------------------------- */

FUZZ_PLAIN static enum amb_status on_frame(void *arg, const struct amb_frame *frame, void **dst,
                                           void **cookie, struct amb_link_mem **mem)
{
    struct target *target = arg;
    (void)mem;
    uint64_t len = fuzz_note_frame(&target->upcalls, frame);
    if (frame->handle == REFUSED) {
        return AMB_EPROTO;
    }
    if (len != 0 && len <= BODY_MAX && frame->handle != DISCARDED) {
        target->handle = frame->handle;
        *dst = *cookie = fuzz_body_begin(&target->upcalls, len);
    }
    return AMB_OK;
}

/* Its beginning, its end and some of what is between. */
FUZZ_PLAIN static void note_body(struct fuzz_target *target)
{
    uint64_t step = target->open_len / 32 + 1, last = target->open_len - 1;
    for (uint64_t i = 0; i < target->open_len; i += step) {
        fuzz_note(target, target->open[i] | (uint64_t)target->open[last - i] << 8);
    }
}

FUZZ_PLAIN static enum amb_status on_body(void *arg, void *cookie, enum amb_status status)
{
    struct target *target = arg;
    struct fuzz_target *upcalls = &target->upcalls;
    amb_assert(cookie == upcalls->open && upcalls->open != NULL);
    fuzz_note(upcalls, (uint64_t)status);
    if (status == AMB_OK) {
        note_body(upcalls);
    }
    fuzz_body_end(upcalls);
    return target->handle == REFUSED_BODY ? AMB_EPROTO : status;
}

FUZZ_PLAIN static enum amb_status on_flow(void *arg, enum amb_flow_kind kind, uint32_t handle,
                                          uint64_t value)
{
    struct target *target = arg;
    fuzz_note_flow(&target->upcalls, kind, handle, value);
    return value == REFUSED ? AMB_EPROTO : AMB_OK;
}

FUZZ_PLAIN static void on_down(void *arg, enum amb_status why, const char *text)
{
    struct target *target = arg;
    fuzz_note_down(&target->upcalls, why, text);
    fuzz_note(&target->upcalls, (uint64_t)(uintptr_t)text);
}

/* Receiving ------------------------------------------------------------------------------------ */

static struct stream stream;
static size_t shown = STREAM_STAGING; /* bytes of staging that can be read */

/* Parses all there is; then there is room for more, or the link is down. */
FUZZ_PLAIN static void parse(unsigned budget)
{
    while (!stream.link.is_down && amb_stream_parse(&stream, budget) == budget) {
    }
    const struct stream_rx *rx = &stream.rx;
    amb_assert(rx->start <= rx->end && rx->end <= STREAM_STAGING);
    amb_assert(rx->part_left <= rx->body_left);
}

/* A read that finds at most len bytes. Returns how many it took. */
FUZZ_PLAIN static size_t receive(const uint8_t *bytes, size_t len)
{
    struct iovec iov[2];
    size_t count = amb_stream_room(&stream, iov), done = 0;
    amb_assert(iov[0].iov_len != 0);
    struct stream_rx *rx = &stream.rx;
    fuzz_hide(rx->staging + rx->end, shown - rx->end);
    for (size_t i = 0; i < count && done < len; i++) {
        size_t part = len - done < iov[i].iov_len ? len - done : iov[i].iov_len;
        fuzz_show(iov[i].iov_base, part);
        memcpy(iov[i].iov_base, bytes + done, part);
        done += part;
    }
    amb_stream_take(&stream, done);
    shown = rx->end;
    return done;
}

FUZZ_PLAIN static uint64_t run(const uint8_t *bytes, size_t len, size_t first, size_t piece,
                               unsigned budget)
{
    static const struct amb_link_events events = {
        .on_frame = on_frame, .on_body = on_body, .on_flow = on_flow, .on_down = on_down};
    struct target target = {0};
    memset(&stream.link, 0, sizeof(stream.link));
    memset(&stream.rx, 0, offsetof(struct stream_rx, staging));
    stream.link.events = &events;
    stream.link.arg = &target;
    stream.fd = -1;
    amb_list_init(&stream.queue);
    amb_list_init(&stream.flying);
    unsigned pieces = 0;
    for (size_t at = 0; at < len && !stream.link.is_down;) {
        size_t most = at < first ? first - at : pieces++ < PIECES_MAX ? piece : len;
        most = most < len - at ? most : len - at;
        at += receive(bytes + at, most);
        parse(budget);
    }
    amb_stream_fail(&stream, AMB_ELOST, "the end");
    amb_assert(target.upcalls.downs == 1 && target.upcalls.open == NULL);
    return target.upcalls.digest;
}

FUZZ_PLAIN int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    if (len < HEAD_BYTES) {
        return 0;
    }
    const uint8_t *bytes = data + HEAD_BYTES;
    size_t size = len - HEAD_BYTES;
    if ((data[0] & 1) == 0) {
        struct script script = {bytes, data + len};
        wire.len = 0;
        wire.body_left = 0;
        while (script.at < script.end && wire.len < WIRE_MAX) {
            step(&script);
        }
        bytes = wire.bytes;
        size = wire.len;
    }
    uint64_t whole = run(bytes, size, size, size, UINT32_MAX);
    uint64_t cut =
        run(bytes, size, data[2] * 8u, data[1] == 0 ? 1 : data[1], 1 + (data[0] >> 1) % 8);
    amb_assert(whole == cut);
    return 0;
}
