/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Framing of the control plane: 8 bytes {'A','M','B', version 1, u32 length LE}, then one packed
 * Control message (control.proto). A connection whose first bytes are anything else is closed
 * without an answer.
 *
 * The reader takes bytes as they come and gives whole messages. It allocates nothing before a
 * length is checked, and never more than one message of AMB_CONTROL_MAX bytes.
 * A NUL within a string would end it for everybody who reads the unpacked message. It is read as
 * U+0001, which no topic, pattern, name or query may have. So it is refused and not cut.
 * protobuf-c is used here and by files that fill in or read Amb__Control__* structs. Start one by
 * amb__control__*__init(), not by the __INIT macros: those cast a const away, which clang refuses.
 * Threads: owner only.
 */
#pragma once

#include "wire/base/status.h"
#include "wire/codec/control.pb-c.h" /* generated */

#include <stddef.h>
#include <stdint.h>

#define AMB_CONTROL_VERSION 1u
#define AMB_CONTROL_PREFIX_SIZE 8u
#define AMB_CONTROL_MAX 65536u    /* bytes of one packed message */
#define AMB_CONTROL_TEXT_MAX 200u /* bytes of Error.text */

/* Peer.features of a client: it loads a UCX once it has seen the broker's release. So the release
 * in its Hello is what it expects to load, and Auth has the one it has loaded. */
#define AMB_PEER_UCX_LATE UINT64_C(1)
#define AMB_VISIBLE_DEVICES_SIZE 101u /* of Peer.visible_devices with its NUL; the rest is cut */

struct amb_control_reader {
    uint8_t prefix[AMB_CONTROL_PREFIX_SIZE];
    uint8_t *body; /* room for AMB_CONTROL_MAX, allocated at the first message */
    size_t prefix_have, body_have, body_len;
};

void amb_control_reader_init(struct amb_control_reader *reader);
void amb_control_reader_fini(struct amb_control_reader *reader);

/*
 * Consumes up to len bytes and stops behind the first whole message.
 *
 *   *used     bytes consumed, always set
 *   *out      the message, to be freed by amb_control_free; NULL if more bytes are needed
 *   *reason   with EPROTO, a static word for a counter (may be NULL): "bad_magic", "bad_version",
 *             "frame_length", "bad_message"
 *
 * EPROTO: bad prefix, length 0 or too large, malformed protobuf, no body. After that, and after
 * ENOMEM, the connection is of no further use.
 */
AMB_MUST_CHECK enum amb_status amb_control_read(struct amb_control_reader *reader,
                                                const uint8_t *data, size_t len, size_t *used,
                                                Amb__Control__Control **out, const char **reason);
/* Bytes the reader wants next: read no more than that where descriptors come with messages. */
size_t amb_control_wanted(const struct amb_control_reader *reader);
void amb_control_free(Amb__Control__Control *message);

/* Bytes that amb_control_pack needs, prefix included; 0 if the message is too large. */
size_t amb_control_packed_size(const Amb__Control__Control *message);
/* Packs prefix and message into out, which has room for amb_control_packed_size(). */
void amb_control_pack(const Amb__Control__Control *message, uint8_t *out);
