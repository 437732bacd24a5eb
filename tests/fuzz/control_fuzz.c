/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The first byte says in which pieces the rest arrives. A message that was read can be packed, and
 * if it can be read again it is the same.
 * The readers stay from input to input, for their 64 KiB cost more than what is read: forget()
 * makes them as after amb_control_reader_init, but for the memory.
 */
#include "tests/fuzz/fuzz.h"
#include "wire/base/assert.h"
#include "wire/codec/control.h"

#include <stdbool.h>

static struct amb_control_reader first, second;

static void forget(struct amb_control_reader *reader)
{
    uint8_t *body = reader->body;
    amb_control_reader_init(reader);
    reader->body = body;
}

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
    forget(&second);
    Amb__Control__Control *again = NULL;
    size_t used = 0;
    /* Not always OK: protobuf-c keeps an unknown field 0 whose tag is written in three bytes, packs
     * it in one, and refuses that. Nobody packs again what a peer sent. */
    if (amb_control_read(&second, bytes, size, &used, &again, NULL) == AMB_OK) {
        amb_assert(used == size && again != NULL);
        amb_assert(again->id == message->id && again->body_case == message->body_case);
        amb_control_free(again);
    }
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
    forget(&first);
    bool goes_on = true;
    uint8_t *copy = fuzz_copy(data + 1, len - 1);
    fuzz_hide(copy, len - 1);
    for (size_t at = 0; goes_on && at < len - 1; at += step) {
        size_t size = len - 1 - at < step ? len - 1 - at : step;
        fuzz_show(copy + at, size);
        goes_on = feed(&first, copy + at, size);
    }
    fuzz_show(copy, len - 1);
    free(copy);
    return 0;
}
