/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/mem/stage.h"

#include "wire/base/assert.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct amb_stage {
    struct amb_cuda *device;
    pthread_mutex_t lock;
    void *stream;
    void *after;     /* event: what was on the caller's stream */
    void *events[2]; /* the copy engine is done with the chunk */
    void *chunks[2];
    uint64_t chunk;
};

static enum amb_status make(struct amb_stage *stage)
{
    enum amb_status status = amb_cuda_stream_create(stage->device, &stage->stream);
    if (status == AMB_OK) {
        status = amb_cuda_event_create(stage->device, &stage->after);
    }
    for (unsigned i = 0; i < 2 && status == AMB_OK; i++) {
        status = amb_cuda_event_create(stage->device, &stage->events[i]);
        if (status == AMB_OK) {
            status = amb_cuda_pin(stage->device, stage->chunk, &stage->chunks[i]);
        }
    }
    return status;
}

static void unmake(struct amb_stage *stage)
{
    for (unsigned i = 0; i < 2; i++) {
        amb_cuda_event_destroy(stage->device, stage->events[i]);
        amb_cuda_unpin(stage->device, stage->chunks[i]);
    }
    amb_cuda_event_destroy(stage->device, stage->after);
    amb_cuda_stream_destroy(stage->device, stage->stream);
}

enum amb_status amb_stage_create(struct amb_cuda *device, uint64_t chunk, struct amb_stage **out)
{
    struct amb_stage *stage = calloc(1, sizeof(*stage));
    if (stage == NULL) {
        return AMB_ENOMEM;
    }
    stage->device = device;
    stage->chunk = chunk != 0 ? chunk : AMB_STAGE_CHUNK;
    struct amb_cuda_scope scope;
    enum amb_status status = amb_cuda_enter(device, &scope);
    if (status == AMB_OK) {
        status = make(stage);
        if (status != AMB_OK) {
            unmake(stage);
        }
        amb_cuda_leave(&scope);
    }
    if (status != AMB_OK) {
        free(stage);
        return status;
    }
    (void)pthread_mutex_init(&stage->lock, NULL);
    *out = stage;
    return AMB_OK;
}

void amb_stage_destroy(struct amb_stage **stage)
{
    struct amb_stage *own = *stage;
    *stage = NULL;
    if (own == NULL) {
        return;
    }
    struct amb_cuda_scope scope;
    if (amb_cuda_enter(own->device, &scope) == AMB_OK) {
        unmake(own);
        amb_cuda_leave(&scope);
    } /* Else the context is lost, and all that is in it with it. */
    (void)pthread_mutex_destroy(&own->lock);
    free(own);
}

static uint64_t part(const struct amb_stage *stage, uint64_t len, uint64_t index)
{
    uint64_t left = len - index * stage->chunk;
    return left < stage->chunk ? left : stage->chunk;
}

/* Has the engine copy between a chunk and device memory, and mark when it has. */
static enum amb_status engine(struct amb_stage *stage, unsigned slot, uint64_t to, uint64_t from,
                              uint64_t len)
{
    enum amb_status status = amb_cuda_copy(stage->device, to, from, len, stage->stream);
    if (status == AMB_OK) {
        status = amb_cuda_event_record(stage->device, stage->events[slot], stage->stream);
    }
    return status;
}

static enum amb_status read_all(struct amb_stage *stage, uint8_t *to, uint64_t from, uint64_t len)
{
    uint64_t count = (len + stage->chunk - 1) / stage->chunk;
    enum amb_status status = AMB_OK;
    for (uint64_t i = 0; i <= count && status == AMB_OK; i++) {
        if (i < count) {
            status = engine(stage, i & 1, (uintptr_t)stage->chunks[i & 1], from + i * stage->chunk,
                            part(stage, len, i));
        }
        if (i > 0 && status == AMB_OK) {
            uint64_t last = i - 1;
            status = amb_cuda_event_sync(stage->device, stage->events[last & 1]);
            if (status == AMB_OK) {
                memcpy(to + last * stage->chunk, stage->chunks[last & 1], part(stage, len, last));
            }
        }
    }
    return status;
}

static enum amb_status write_all(struct amb_stage *stage, uint64_t to, const uint8_t *from,
                                 uint64_t len)
{
    uint64_t count = (len + stage->chunk - 1) / stage->chunk;
    enum amb_status status = AMB_OK;
    for (uint64_t i = 0; i < count && status == AMB_OK; i++) {
        if (i >= 2) {
            status = amb_cuda_event_sync(stage->device, stage->events[i & 1]);
        }
        if (status == AMB_OK) {
            memcpy(stage->chunks[i & 1], from + i * stage->chunk, part(stage, len, i));
            status = engine(stage, i & 1, to + i * stage->chunk, (uintptr_t)stage->chunks[i & 1],
                            part(stage, len, i));
        }
    }
    return status;
}

/* Later work on our stream waits for the work on `after`. */
static enum amb_status follow(struct amb_stage *stage, void *after)
{
    switch (amb_cuda_stream_classify(stage->device, after)) {
    case AMB_CUDA_STREAM_CAPTURING:
        return AMB_ESTATE;
    case AMB_CUDA_STREAM_ELSEWHERE:
        return amb_cuda_program_sync(after);
    case AMB_CUDA_STREAM_HERE:
        break;
    }
    enum amb_status status = amb_cuda_event_record(stage->device, stage->after, after);
    return status == AMB_OK ? amb_cuda_stream_wait(stage->device, stage->stream, stage->after)
                            : status;
}

/* The chunks are nobody's when this has returned, whatever went wrong before. */
static enum amb_status finish(struct amb_stage *stage, enum amb_status status)
{
    enum amb_status end = amb_cuda_stream_sync(stage->device, stage->stream);
    return status != AMB_OK ? status : end;
}

/* is_behind: the work on the stream `after` comes first. */
static enum amb_status stage_read(struct amb_stage *stage, void *to, uint64_t from, uint64_t len,
                                  bool is_behind, void *after)
{
    struct amb_cuda_scope scope;
    (void)pthread_mutex_lock(&stage->lock);
    enum amb_status status = amb_cuda_enter(stage->device, &scope);
    if (status == AMB_OK) {
        status = is_behind ? follow(stage, after) : AMB_OK;
        if (status == AMB_OK) {
            status = read_all(stage, to, from, len);
        }
        status = finish(stage, status);
        amb_cuda_leave(&scope);
    }
    (void)pthread_mutex_unlock(&stage->lock);
    return status;
}

enum amb_status amb_stage_read(struct amb_stage *stage, void *to, uint64_t from, uint64_t len,
                               void *after)
{
    return stage_read(stage, to, from, len, true, after);
}

enum amb_status amb_stage_read_whole(struct amb_stage *stage, void *to, uint64_t from, uint64_t len)
{
    return stage_read(stage, to, from, len, false, NULL);
}

enum amb_status amb_stage_write(struct amb_stage *stage, uint64_t to, const void *from,
                                uint64_t len)
{
    struct amb_cuda_scope scope;
    (void)pthread_mutex_lock(&stage->lock);
    enum amb_status status = amb_cuda_enter(stage->device, &scope);
    if (status == AMB_OK) {
        status = finish(stage, write_all(stage, to, from, len));
        amb_cuda_leave(&scope);
    }
    (void)pthread_mutex_unlock(&stage->lock);
    return status;
}
