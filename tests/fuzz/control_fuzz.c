/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The first byte says in which pieces the rest arrives. A message that was read can be packed, and
 * if it can be read again it is the same.
 * The readers stay from input to input, for their 64 KiB cost more than the reading. forget() makes
 * them as after amb_control_reader_init, but for the memory.
 */
#include "tests/fuzz/fuzz.h"
#include "wire/base/assert.h"
#include "wire/codec/control.h"

#include <stdbool.h>

#define GREEDY 64u /* flag of the first byte: all that there is in one call, as libamb reads */

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

/* Of the room for a body, so much may be read: no more than the body where that is known. */
static void show_body(const struct amb_control_reader *reader, size_t end)
{
    static size_t shown = AMB_CONTROL_MAX;
    if (reader->body == NULL) {
        return;
    }
    if (end < shown) {
        fuzz_hide(reader->body + end, shown - end);
    } else {
        fuzz_show(reader->body + shown, end - shown);
    }
    shown = end;
}

/* The message that is read: where it begins, and how much of it was taken. */
static const uint8_t *begun;
static size_t taken;

static void check_taken(void)
{
    size_t len = 0;
    for (unsigned i = 0; i < 4; i++) {
        len |= (size_t)begun[4 + i] << 8 * i;
    }
    amb_assert(taken == AMB_CONTROL_PREFIX_SIZE + len);
    begun += taken;
    taken = 0;
}

/* False once the reader has refused its stream. is_modest: never more at a time than it wants. */
static bool feed(struct amb_control_reader *reader, const uint8_t *piece, size_t len,
                 bool is_modest)
{
    while (len > 0) {
        Amb__Control__Control *message = NULL;
        const char *reason = NULL;
        size_t used = SIZE_MAX;
        size_t wanted = amb_control_wanted(reader);
        amb_assert(wanted > 0 && wanted <= AMB_CONTROL_MAX);
        size_t part = is_modest && wanted < len ? wanted : len;
        bool is_body = part <= wanted && reader->body_len != 0;
        show_body(reader, is_body ? reader->body_len : AMB_CONTROL_MAX);
        enum amb_status status = amb_control_read(reader, piece, part, &used, &message, &reason);
        amb_assert(used <= part);
        if (status != AMB_OK) {
            amb_assert(status == AMB_EPROTO && reason != NULL);
            return false;
        }
        amb_assert(message != NULL || used == part);
        taken += used;
        if (message != NULL) {
            check_taken();
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
    begun = copy;
    taken = 0;
    for (size_t at = 0; goes_on && at < len - 1; at += step) {
        size_t size = len - 1 - at < step ? len - 1 - at : step;
        fuzz_show(copy + at, size);
        goes_on = feed(&first, copy + at, size, (data[0] & GREEDY) == 0);
    }
    fuzz_show(copy, len - 1);
    free(copy);
    return 0;
}
