/* SPDX-License-Identifier: Apache-2.0 */
#include "client/conn/buffer.h"

#include "wire/base/assert.h"

#include <stdlib.h>
#include <string.h>

#define CLASS_MIN UINT64_C(512)

static unsigned class_of(uint64_t size)
{
    if (size <= CLASS_MIN) {
        return 0;
    }
    return (unsigned)(64 - __builtin_clzll(size - 1)) - 9;
}

void amb_buffers_init(struct amb_buffers *buffers, uint64_t used_max)
{
    memset(buffers, 0, sizeof(*buffers));
    buffers->used_max = used_max;
    buffers->cached_max = used_max / 4;
}

void amb_buffers_fini(struct amb_buffers *buffers)
{
    for (unsigned i = 0; i < AMB_BUFFER_CLASSES; i++) {
        while (buffers->free_list[i] != NULL) {
            void *buffer = buffers->free_list[i];
            memcpy(&buffers->free_list[i], buffer, sizeof(void *));
            free(buffer);
        }
    }
    buffers->cached = 0;
}

void *amb_buffers_get(struct amb_buffers *buffers, uint64_t size)
{
    unsigned class = class_of(size);
    if (class >= AMB_BUFFER_CLASSES) {
        return NULL;
    }
    uint64_t whole = CLASS_MIN << class;
    if (buffers->used + whole > buffers->used_max && buffers->used != 0) {
        return NULL;
    }
    void *buffer = buffers->free_list[class];
    if (buffer != NULL) {
        memcpy(&buffers->free_list[class], buffer, sizeof(void *));
        buffers->cached -= whole;
    } else {
        /* Only what is used of a large buffer is ever touched, so it costs no more than that. */
        buffer = aligned_alloc(AMB_BUFFER_ALIGN, whole);
        if (buffer == NULL) {
            return NULL;
        }
    }
    buffers->used += whole;
    return buffer;
}

void amb_buffers_put(struct amb_buffers *buffers, void *buffer, uint64_t size)
{
    if (buffer == NULL) {
        return;
    }
    unsigned class = class_of(size);
    uint64_t whole = CLASS_MIN << class;
    amb_assert(buffers->used >= whole);
    buffers->used -= whole;
    if (buffers->cached + whole > buffers->cached_max) {
        free(buffer);
        return;
    }
    memcpy(buffer, &buffers->free_list[class], sizeof(void *));
    buffers->free_list[class] = buffer;
    buffers->cached += whole;
}
