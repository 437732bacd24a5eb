/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The first byte says in which pieces the rest arrives. A message that was read can be packed, and
 * if it can be read again it is the same.
 */
#include "tests/fuzz/fuzz.h"
#include "wire/base/assert.h"
#include "wire/codec/control.h"

#include <stdbool.h>

static void read_again(const Amb__Control__Control *message)
{
    size_t size = amb_control_packed_size(message);
    if (size == 0) {
        return;
    }
    uint8_t *bytes = malloc(size);
    if (bytes == NULL) {
        abort();
    }
    amb_control_pack(message, bytes);
    struct amb_control_reader reader;
    amb_control_reader_init(&reader);
    Amb__Control__Control *again = NULL;
    size_t used = 0;
    /* Not always OK: protobuf-c keeps an unknown field 0 whose tag is written in three bytes, packs
     * it in one, and refuses that. Nobody packs again what a peer sent. */
    if (amb_control_read(&reader, bytes, size, &used, &again, NULL) == AMB_OK) {
        amb_assert(used == size && again != NULL);
        amb_assert(again->id == message->id && again->body_case == message->body_case);
        amb_control_free(again);
    }
    amb_control_reader_fini(&reader);
    free(bytes);
}

/* False once the reader has refused its stream. */
static bool feed(struct amb_control_reader *reader, const uint8_t *piece, size_t len)
{
    while (len > 0) {
        Amb__Control__Control *message = NULL;
        const char *reason = NULL;
        size_t used = SIZE_MAX;
        size_t wanted = amb_control_wanted(reader);
        amb_assert(wanted > 0 && wanted <= AMB_CONTROL_MAX);
        enum amb_status status = amb_control_read(reader, piece, len, &used, &message, &reason);
        amb_assert(used <= len);
        if (status != AMB_OK) {
            amb_assert(status == AMB_EPROTO && reason != NULL);
            return false;
        }
        amb_assert(message != NULL || used == len);
        if (message != NULL) {
            amb_assert(message->body_case != AMB__CONTROL__CONTROL__BODY__NOT_SET);
            read_again(message);
            amb_control_free(message);
        }
        piece += used;
        len -= used;
    }
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    if (len == 0) {
        return 0;
    }
    size_t step = data[0] == 0 ? len : data[0];
    struct amb_control_reader reader;
    amb_control_reader_init(&reader);
    bool goes_on = true;
    for (size_t at = 1; goes_on && at < len; at += step) {
        size_t size = len - at < step ? len - at : step;
        uint8_t *piece = fuzz_copy(data + at, size);
        goes_on = feed(&reader, piece, size);
        free(piece);
    }
    amb_control_reader_fini(&reader);
    return 0;
}
