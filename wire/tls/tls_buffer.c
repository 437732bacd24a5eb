/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/tls/tls_buffer.h"

#include "wire/base/assert.h"

#include <stdlib.h>
#include <string.h>

#define GROWTH 4u

static void move_down(struct amb_tls_buffer *buffer)
{
    size_t len = amb_tls_buffer_len(buffer);
    if (buffer->start != 0) {
        memmove(buffer->bytes, buffer->bytes + buffer->start, len);
        buffer->start = 0;
        buffer->end = len;
    }
}

static bool grow(struct amb_tls_buffer *buffer, size_t need, const struct amb_tls_charge *charge)
{
    size_t cap = buffer->cap == 0 ? AMB_TLS_BUFFER_MIN : buffer->cap;
    while (cap < need) {
        cap *= GROWTH;
    }
    if (charge->take != NULL && !charge->take(charge->arg, cap)) {
        return false;
    }
    uint8_t *bytes = malloc(cap);
    if (bytes == NULL) {
        if (charge->give != NULL) {
            charge->give(charge->arg, cap);
        }
        return false;
    }
    size_t len = amb_tls_buffer_len(buffer);
    if (len != 0) {
        memcpy(bytes, buffer->bytes + buffer->start, len);
    }
    amb_tls_buffer_release(buffer, charge);
    *buffer = (struct amb_tls_buffer){.bytes = bytes, .end = len, .cap = cap};
    return true;
}

bool amb_tls_buffer_reserve(struct amb_tls_buffer *buffer, size_t least,
                            const struct amb_tls_charge *charge)
{
    if (buffer->cap - buffer->end >= least) {
        return true;
    }
    size_t need = amb_tls_buffer_len(buffer) + least;
    if (need <= buffer->cap) {
        move_down(buffer);
        return true;
    }
    return need <= AMB_TLS_BUFFER_MAX && grow(buffer, need, charge);
}

void amb_tls_buffer_consume(struct amb_tls_buffer *buffer, size_t len)
{
    amb_assert(len <= amb_tls_buffer_len(buffer));
    buffer->start += len;
    if (buffer->start == buffer->end) {
        buffer->start = buffer->end = 0;
    }
}

void amb_tls_buffer_release(struct amb_tls_buffer *buffer, const struct amb_tls_charge *charge)
{
    if (buffer->bytes != NULL && charge->give != NULL) {
        charge->give(charge->arg, buffer->cap);
    }
    free(buffer->bytes);
    *buffer = (struct amb_tls_buffer){.bytes = NULL};
}
