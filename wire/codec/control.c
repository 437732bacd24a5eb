/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A length is checked before a byte of its message is taken, so a connection costs one body buffer
 * at most. Unpacking is bounded too. 64 KiB of tiny repeated or unknown fields would make
 * protobuf-c allocate megabytes. So its allocator gives out UNPACK_BYTES_MAX for one message and
 * then nothing. Nesting is bounded by the schema, which has no recursive type.
 */
#include "wire/codec/control.h"
#include "wire/base/assert.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* An honest message needs little more than its own size. */
#define UNPACK_BYTES_MAX (4u * AMB_CONTROL_MAX)
#define BLOCK_BYTES 32u /* bytes that the heap takes for a block besides its size */

static const uint8_t magic[4] = {'A', 'M', 'B', AMB_CONTROL_VERSION};

struct budget {
    size_t left;
    bool no_memory; /* the heap refused, not the budget */
};

static void *budget_alloc(void *allocator_data, size_t size)
{
    struct budget *budget = allocator_data;
    if (size > budget->left || budget->left - size < BLOCK_BYTES) {
        return NULL;
    }
    void *memory = malloc(size);
    if (memory == NULL) {
        budget->no_memory = true;
        return NULL;
    }
    /* Memory that protobuf-c frees again while it unpacks is not given back: the sum is the
     * limit. */
    budget->left -= size + BLOCK_BYTES;
    return memory;
}

static void budget_free(void *allocator_data, void *memory)
{
    (void)allocator_data;
    free(memory);
}

void amb_control_reader_init(struct amb_control_reader *reader)
{
    *reader = (struct amb_control_reader){.body = NULL};
}

void amb_control_reader_fini(struct amb_control_reader *reader)
{
    free(reader->body);
    amb_control_reader_init(reader);
}

/* NULL, or the reason why what there is of the prefix is refused. */
static const char *check_prefix(const struct amb_control_reader *reader)
{
    size_t letters = reader->prefix_have < 3 ? reader->prefix_have : 3;
    if (memcmp(reader->prefix, magic, letters) != 0) {
        return "bad_magic";
    }
    if (reader->prefix_have > 3 && reader->prefix[3] != AMB_CONTROL_VERSION) {
        return "bad_version";
    }
    return NULL;
}

static size_t prefix_length(const uint8_t prefix[AMB_CONTROL_PREFIX_SIZE])
{
    return prefix[4] | (size_t)prefix[5] << 8 | (size_t)prefix[6] << 16 | (size_t)prefix[7] << 24;
}

/* Takes bytes into `to` until it has `want`; returns how many it took. */
static size_t take(uint8_t *to, size_t *have, size_t want, const uint8_t *data, size_t len)
{
    size_t size = want - *have < len ? want - *have : len;
    if (size > 0) {
        memcpy(to + *have, data, size);
        *have += size;
    }
    return size;
}

static enum amb_status fail(const char *why, const char **reason)
{
    if (reason != NULL) {
        *reason = why;
    }
    return AMB_EPROTO;
}

/* Fills the prefix and, once it is whole, checks the length and makes room for the body. */
static enum amb_status read_prefix(struct amb_control_reader *reader, const uint8_t *data,
                                   size_t len, size_t *used, const char **reason)
{
    *used = take(reader->prefix, &reader->prefix_have, AMB_CONTROL_PREFIX_SIZE, data, len);
    const char *wrong = check_prefix(reader);
    if (wrong != NULL) {
        return fail(wrong, reason);
    }
    if (reader->prefix_have < AMB_CONTROL_PREFIX_SIZE) {
        return AMB_OK;
    }
    size_t body_len = prefix_length(reader->prefix);
    if (body_len == 0 || body_len > AMB_CONTROL_MAX) {
        return fail("frame_length", reason);
    }
    if (reader->body == NULL) {
        reader->body = malloc(AMB_CONTROL_MAX);
        if (reader->body == NULL) {
            return AMB_ENOMEM;
        }
    }
    reader->body_len = body_len;
    return AMB_OK;
}

/* A varint at *at. False: there is none. */
static bool take_varint(const uint8_t *body, size_t len, size_t *at, uint64_t *out)
{
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 64 && *at < len; shift += 7) {
        uint8_t byte = body[(*at)++];
        value |= (uint64_t)(byte & 0x7f) << shift;
        if ((byte & 0x80) == 0) {
            *out = value;
            return true;
        }
    }
    return false;
}

static void mark_nuls(uint8_t *text, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (text[i] == '\0') {
            text[i] = 1;
        }
    }
}

/*
 * Replaces NULs in strings. Malformed bytes end the walk: unpacking refuses them. Recursion is as
 * deep as the schema, which has no recursive type.
 */
static void mark_strings(const ProtobufCMessageDescriptor *type, uint8_t *body, size_t len)
{
    size_t at = 0;
    uint64_t key, size;
    while (take_varint(body, len, &at, &key)) {
        switch (key & 7) {
        case 0:
            if (!take_varint(body, len, &at, &size)) {
                return;
            }
            continue;
        case 1:
        case 5:
            size = (key & 7) == 1 ? 8 : 4;
            break;
        case 2:
            if (!take_varint(body, len, &at, &size)) {
                return;
            }
            break;
        default:
            return;
        }
        if (size > len - at) {
            return;
        }
        const ProtobufCFieldDescriptor *field =
            (key & 7) != 2 || key >> 3 > UINT32_MAX
                ? NULL
                : protobuf_c_message_descriptor_get_field(type, (unsigned)(key >> 3));
        if (field != NULL && field->type == PROTOBUF_C_TYPE_STRING) {
            mark_nuls(body + at, (size_t)size);
        } else if (field != NULL && field->type == PROTOBUF_C_TYPE_MESSAGE) {
            mark_strings(field->descriptor, body + at, (size_t)size);
        }
        at += (size_t)size;
    }
}

static enum amb_status unpack(uint8_t *body, size_t len, Amb__Control__Control **out,
                              const char **reason)
{
    struct budget budget = {.left = UNPACK_BYTES_MAX};
    ProtobufCAllocator allocator = {
        .alloc = budget_alloc,
        .free = budget_free,
        .allocator_data = &budget,
    };
    mark_strings(&amb__control__control__descriptor, body, len);
    Amb__Control__Control *message = amb__control__control__unpack(&allocator, len, body);
    if (message == NULL) {
        return budget.no_memory ? AMB_ENOMEM : fail("bad_message", reason);
    }
    if (message->body_case == AMB__CONTROL__CONTROL__BODY__NOT_SET) {
        amb_control_free(message);
        return fail("bad_message", reason);
    }
    *out = message;
    return AMB_OK;
}

enum amb_status amb_control_read(struct amb_control_reader *reader, const uint8_t *data, size_t len,
                                 size_t *used, Amb__Control__Control **out, const char **reason)
{
    *used = 0;
    /* body_len is set once the prefix is whole and its length checked. */
    if (reader->body_len == 0) {
        enum amb_status status = read_prefix(reader, data, len, used, reason);
        if (status != AMB_OK) {
            return status;
        }
    }
    if (reader->body_len != 0) {
        *used +=
            take(reader->body, &reader->body_have, reader->body_len, data + *used, len - *used);
    }
    if (reader->body_len == 0 || reader->body_have < reader->body_len) {
        *out = NULL;
        return AMB_OK;
    }
    enum amb_status status = unpack(reader->body, reader->body_len, out, reason);
    reader->prefix_have = 0;
    reader->body_have = 0;
    reader->body_len = 0;
    return status;
}

size_t amb_control_wanted(const struct amb_control_reader *reader)
{
    if (reader->body_len == 0) {
        return AMB_CONTROL_PREFIX_SIZE - reader->prefix_have;
    }
    return reader->body_len - reader->body_have;
}

/* The allocator of unpack() takes from the heap, so the default one gives back. */
void amb_control_free(Amb__Control__Control *message)
{
    if (message != NULL) {
        amb__control__control__free_unpacked(message, NULL);
    }
}

size_t amb_control_packed_size(const Amb__Control__Control *message)
{
    size_t size = amb__control__control__get_packed_size(message);
    return size == 0 || size > AMB_CONTROL_MAX ? 0 : AMB_CONTROL_PREFIX_SIZE + size;
}

void amb_control_pack(const Amb__Control__Control *message, uint8_t *out)
{
    size_t size = amb__control__control__pack(message, out + AMB_CONTROL_PREFIX_SIZE);
    amb_assert(size > 0 && size <= AMB_CONTROL_MAX);
    memcpy(out, magic, sizeof(magic));
    for (unsigned i = 0; i < 4; i++) {
        out[4 + i] = (uint8_t)(size >> (8 * i) & 0xff);
    }
}
