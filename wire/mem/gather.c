/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/mem/gather.h"

#include "wire/base/assert.h"

#include <stdlib.h>
#include <string.h>

#define ITEMS_MAX 1024u /* of a chunk */
#define ALIGNMENT UINT64_C(64)

/* A piece in a chunk, or the end of a job. */
struct item {
    void *to;         /* of a piece; or the job */
    amb_gather_fn fn; /* NULL: a piece */
    uint64_t len;     /* of a piece; or of all of a job's */
    uint32_t at;
    enum amb_status status; /* of a job: it has failed already */
};

struct chunk {
    uint8_t *memory; /* pinned */
    void *event;
    uint64_t used;
    uint32_t count;
    bool is_away;     /* with the engine, or about to be looked at */
    bool is_recorded; /* the event; else all of the stream is waited for */
    struct item items[ITEMS_MAX];
};

struct amb_gather {
    struct amb_cuda *device;
    void *stream;
    amb_gather_note_fn note;
    void *owner;
    uint64_t chunk;
    uint64_t bytes;           /* of the job that is added */
    enum amb_status adding;   /* it has failed */
    enum amb_status emptying; /* the same of the oldest one that is not over */
    unsigned filling;         /* the chunk; the other one is older */
    struct chunk chunks[2];
};

static enum amb_status make(struct amb_gather *gather)
{
    enum amb_status status = amb_cuda_stream_create(gather->device, &gather->stream);
    for (unsigned i = 0; i < 2 && status == AMB_OK; i++) {
        struct chunk *chunk = &gather->chunks[i];
        void *memory = NULL;
        status = amb_cuda_event_create(gather->device, &chunk->event);
        if (status == AMB_OK) {
            status = amb_cuda_pin(gather->device, gather->chunk, &memory);
            chunk->memory = memory;
        }
    }
    return status;
}

static void unmake(struct amb_gather *gather)
{
    for (unsigned i = 0; i < 2; i++) {
        amb_cuda_event_destroy(gather->device, gather->chunks[i].event);
        amb_cuda_unpin(gather->device, gather->chunks[i].memory);
    }
    amb_cuda_stream_destroy(gather->device, gather->stream);
}

enum amb_status amb_gather_create(struct amb_cuda *device, uint64_t chunk, amb_gather_note_fn note,
                                  void *owner, struct amb_gather **out)
{
    struct amb_gather *gather = calloc(1, sizeof(*gather));
    if (gather == NULL) {
        return AMB_ENOMEM;
    }
    gather->device = device;
    gather->note = note;
    gather->owner = owner;
    gather->chunk = chunk != 0 ? chunk : AMB_GATHER_CHUNK;
    struct amb_cuda_scope scope;
    enum amb_status status = amb_cuda_enter(device, &scope);
    if (status == AMB_OK) {
        status = make(gather);
        if (status != AMB_OK) {
            unmake(gather);
        }
        amb_cuda_leave(&scope);
    }
    if (status != AMB_OK) {
        free(gather);
        return status;
    }
    *out = gather;
    return AMB_OK;
}

void amb_gather_destroy(struct amb_gather **gather)
{
    struct amb_gather *own = *gather;
    *gather = NULL;
    if (own == NULL) {
        return;
    }
    amb_assert(own->chunks[0].count + own->chunks[1].count == 0);
    struct amb_cuda_scope scope;
    if (amb_cuda_enter(own->device, &scope) == AMB_OK) {
        unmake(own);
        amb_cuda_leave(&scope);
    } /* Else the context is lost, and all that is in it with it. */
    free(own);
}

/* Until the engine is done with the chunk. ECUDA: it never will be. */
static enum amb_status await(const struct amb_gather *gather, const struct chunk *chunk)
{
    struct amb_cuda_scope scope;
    if (amb_cuda_enter_to_wait(gather->device, &scope) != AMB_OK) {
        return AMB_ECUDA;
    }
    enum amb_status status = chunk->is_recorded
                                 ? amb_cuda_event_sync(gather->device, chunk->event)
                                 : amb_cuda_stream_sync(gather->device, gather->stream);
    amb_cuda_leave(&scope);
    return status;
}

static void end_job(struct amb_gather *gather, const struct item *item)
{
    enum amb_status status = item->status != AMB_OK ? item->status : gather->emptying;
    gather->emptying = AMB_OK;
    gather->note(gather->owner, status, item->len);
    item->fn(item->to, status);
}

/* Waits for the chunk, and brings what is in it to where it belongs. */
static void empty(struct amb_gather *gather, struct chunk *chunk)
{
    enum amb_status status = chunk->used != 0 ? await(gather, chunk) : AMB_OK;
    for (uint32_t i = 0; i < chunk->count; i++) {
        const struct item *item = &chunk->items[i];
        if (item->fn != NULL) {
            end_job(gather, item);
        } else if (status == AMB_OK) {
            memcpy(item->to, chunk->memory + item->at, item->len);
        } else {
            gather->emptying = status;
        }
    }
    chunk->count = 0;
    chunk->used = 0;
    chunk->is_away = false;
}

/* Has the engine say when it is done with what is in the chunk. */
static void send_away(const struct amb_gather *gather, struct chunk *chunk)
{
    struct amb_cuda_scope scope;
    chunk->is_away = true;
    chunk->is_recorded = false;
    if (chunk->used != 0 && amb_cuda_enter(gather->device, &scope) == AMB_OK) {
        chunk->is_recorded =
            amb_cuda_event_record(gather->device, chunk->event, gather->stream) == AMB_OK;
        amb_cuda_leave(&scope);
    }
}

/* The chunk that is filled, with room for one more item. */
static struct chunk *chunk_with_room(struct amb_gather *gather, bool is_piece)
{
    struct chunk *chunk = &gather->chunks[gather->filling];
    if (chunk->count == ITEMS_MAX || (is_piece && chunk->used == gather->chunk)) {
        send_away(gather, chunk);
        gather->filling ^= 1;
        chunk = &gather->chunks[gather->filling];
        if (chunk->is_away) {
            empty(gather, chunk);
        }
    }
    return chunk;
}

/* Has the engine copy to the end of the chunk; returns how much. 0: gather->adding says why not. */
static uint64_t add_part(struct amb_gather *gather, void *to, uint64_t from, uint64_t len)
{
    struct chunk *chunk = chunk_with_room(gather, true);
    struct amb_cuda_scope scope;
    uint64_t room = gather->chunk - chunk->used;
    len = len < room ? len : room;
    gather->adding = amb_cuda_enter(gather->device, &scope);
    if (gather->adding == AMB_OK) {
        gather->adding = amb_cuda_copy(gather->device, (uintptr_t)chunk->memory + chunk->used, from,
                                       len, gather->stream);
        amb_cuda_leave(&scope);
    }
    if (gather->adding != AMB_OK) {
        return 0;
    }
    chunk->items[chunk->count++] = (struct item){.to = to, .len = len, .at = (uint32_t)chunk->used};
    uint64_t used = (chunk->used + len + ALIGNMENT - 1) & ~(ALIGNMENT - 1);
    chunk->used = used < gather->chunk ? used : gather->chunk;
    return len;
}

void amb_gather_add(struct amb_gather *gather, void *to, uint64_t from, uint64_t len)
{
    gather->bytes += len;
    uint8_t *at = to;
    while (len != 0 && gather->adding == AMB_OK) {
        uint64_t part = add_part(gather, at, from, len);
        at += part;
        from += part;
        len -= part;
    }
}

void amb_gather_end(struct amb_gather *gather, void *job, amb_gather_fn fn)
{
    struct chunk *chunk = chunk_with_room(gather, false);
    chunk->items[chunk->count++] =
        (struct item){.to = job, .fn = fn, .len = gather->bytes, .status = gather->adding};
    gather->bytes = 0;
    gather->adding = AMB_OK;
}

bool amb_gather_turn(struct amb_gather *gather)
{
    bool has_begun = gather->chunks[gather->filling].count != 0;
    if (has_begun) {
        send_away(gather, &gather->chunks[gather->filling]);
        gather->filling ^= 1;
    }
    struct chunk *oldest = &gather->chunks[gather->filling];
    struct chunk *newest = &gather->chunks[gather->filling ^ 1];
    if (oldest->is_away) {
        empty(gather, oldest);
    } else if (newest->is_away && !has_begun) {
        empty(gather, newest);
    }
    return newest->is_away;
}

void amb_gather_probe(struct amb_gather *gather, uint64_t from)
{
    struct amb_cuda_scope scope;
    amb_assert(gather->chunks[0].count + gather->chunks[1].count == 0);
    if (amb_cuda_enter(gather->device, &scope) == AMB_OK) {
        (void)!amb_cuda_copy(gather->device, (uintptr_t)gather->chunks[0].memory, from, 1,
                             gather->stream);
        (void)!amb_cuda_stream_sync(gather->device, gather->stream);
        amb_cuda_leave(&scope);
    }
}
