/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wire/mem/cuda.h for builds without the CUDA headers: there is no driver and all memory is the
 * host's. Nobody has a device, so no call on one is ever made.
 */
#include "wire/base/assert.h"
#include "wire/mem/cuda.h"

enum amb_status amb_cuda_start(void)
{
    return AMB_ENOTSUP;
}

const char *amb_cuda_why_not(void)
{
    return "built without CUDA (AMB_CUDA=OFF)";
}

bool amb_cuda_is_live(void)
{
    return false;
}

uint32_t amb_cuda_count(void)
{
    return 0;
}

enum amb_status amb_cuda_at(int index, struct amb_cuda **out)
{
    (void)index;
    (void)out;
    return AMB_ENOTSUP;
}

enum amb_status amb_cuda_find(const char *name, struct amb_cuda **out)
{
    (void)name;
    (void)out;
    return AMB_ENOTSUP;
}

struct amb_cuda *amb_cuda_seen(const char *name)
{
    (void)name;
    return NULL;
}

const char *amb_cuda_mode_alone(const struct amb_cuda_info *info)
{
    (void)info;
    return NULL;
}

const char *amb_cuda_refusal(const struct amb_cuda *device)
{
    (void)device;
    return NULL;
}

struct amb_cuda_info amb_cuda_now(const struct amb_cuda *device)
{
    (void)device;
    return (struct amb_cuda_info){.index = -1};
}

void amb_cuda_classify(const void *pointer, struct amb_mem_place *out)
{
    (void)pointer;
    *out = (struct amb_mem_place){.mem = AMB_MEM_HOST, .device = -1, .why_not = "host memory"};
}

void amb_cuda_locate(const void *pointer, struct amb_mem_place *out)
{
    amb_cuda_classify(pointer, out);
}

#define NOBODY                                                                                     \
    {                                                                                              \
        amb_assert(!"a device without CUDA");                                                      \
        return AMB_ENOTSUP;                                                                        \
    }
#define NOTHING                                                                                    \
    {                                                                                              \
        amb_assert(!"a device without CUDA");                                                      \
    }
#define UNUSED __attribute__((unused))

const struct amb_cuda_info *amb_cuda_info(const struct amb_cuda *device UNUSED)
{
    amb_assert(!"a device without CUDA");
    return NULL;
}

bool amb_cuda_is_sound(const struct amb_cuda *device UNUSED)
{
    return false;
}

bool amb_cuda_can_reach(const struct amb_cuda *device UNUSED, const struct amb_cuda *other UNUSED)
{
    return false;
}

/* clang-format off */
void amb_cuda_failure(struct amb_cuda *device UNUSED, char *text UNUSED, size_t size UNUSED) NOTHING
void amb_cuda_let_reach(struct amb_cuda *device UNUSED, struct amb_cuda *other UNUSED) NOTHING
enum amb_status amb_cuda_enter(struct amb_cuda *device UNUSED, struct amb_cuda_scope *scope UNUSED) NOBODY
enum amb_status amb_cuda_enter_to_wait(struct amb_cuda *device UNUSED, struct amb_cuda_scope *scope UNUSED) NOBODY
void amb_cuda_leave(struct amb_cuda_scope *scope UNUSED) NOTHING
enum amb_status amb_cuda_bind(struct amb_cuda *device UNUSED) NOBODY
void amb_cuda_row_begin(void) {}
void amb_cuda_row_end(void) {}
void amb_cuda_own_thread(void) {}
enum amb_status amb_cuda_alloc(struct amb_cuda *device UNUSED, uint64_t size UNUSED, uint64_t *out UNUSED) NOBODY
enum amb_status amb_cuda_alloc_managed(struct amb_cuda *device UNUSED, uint64_t size UNUSED, uint64_t *out UNUSED) NOBODY
void amb_cuda_free(struct amb_cuda *device UNUSED, uint64_t address UNUSED) NOTHING
enum amb_status amb_cuda_pin(struct amb_cuda *device UNUSED, uint64_t size UNUSED, void **out UNUSED) NOBODY
void amb_cuda_unpin(struct amb_cuda *device UNUSED, void *memory UNUSED) NOTHING
enum amb_status amb_cuda_register(struct amb_cuda *device UNUSED, void *memory UNUSED, uint64_t size UNUSED, uint64_t *address UNUSED) NOBODY
void amb_cuda_unregister(struct amb_cuda *device UNUSED, void *memory UNUSED) NOTHING
enum amb_status amb_cuda_export(struct amb_cuda *device UNUSED, uint64_t address UNUSED, uint8_t handle[AMB_CUDA_IPC_BYTES] UNUSED) NOBODY
enum amb_status amb_cuda_import(struct amb_cuda *device UNUSED, const uint8_t handle[AMB_CUDA_IPC_BYTES] UNUSED, uint64_t *out UNUSED) NOBODY
enum amb_status amb_cuda_unimport(struct amb_cuda *device UNUSED, uint64_t address UNUSED) NOBODY
enum amb_status amb_cuda_stream_create(struct amb_cuda *device UNUSED, void **stream UNUSED) NOBODY
void amb_cuda_stream_destroy(struct amb_cuda *device UNUSED, void *stream UNUSED) NOTHING
enum amb_status amb_cuda_stream_sync(struct amb_cuda *device UNUSED, void *stream UNUSED) NOBODY
enum amb_cuda_stream_kind amb_cuda_stream_classify(struct amb_cuda *device UNUSED, void *stream UNUSED) { return AMB_CUDA_STREAM_HERE; }
const char amb_cuda_captures[] = "";
enum amb_status amb_cuda_program_sync(void *stream UNUSED) NOBODY
enum amb_status amb_cuda_program_query(void *stream UNUSED) NOBODY
enum amb_status amb_cuda_event_create(struct amb_cuda *device UNUSED, void **event UNUSED) NOBODY
void amb_cuda_event_destroy(struct amb_cuda *device UNUSED, void *event UNUSED) NOTHING
enum amb_status amb_cuda_event_record(struct amb_cuda *device UNUSED, void *event UNUSED, void *stream UNUSED) NOBODY
enum amb_status amb_cuda_event_follow(struct amb_cuda *device UNUSED, void *event UNUSED, void *stream UNUSED) NOBODY
enum amb_status amb_cuda_event_query(struct amb_cuda *device UNUSED, void *event UNUSED) NOBODY
enum amb_status amb_cuda_event_sync(struct amb_cuda *device UNUSED, void *event UNUSED) NOBODY
enum amb_status amb_cuda_stream_wait(struct amb_cuda *device UNUSED, void *stream UNUSED, void *event UNUSED) NOBODY
enum amb_status amb_cuda_copy(struct amb_cuda *device UNUSED, uint64_t to UNUSED, uint64_t from UNUSED, uint64_t len UNUSED, void *stream UNUSED) NOBODY
enum amb_status amb_cuda_copy_peer(struct amb_cuda *device UNUSED, uint64_t to UNUSED, struct amb_cuda *source UNUSED, uint64_t from UNUSED, uint64_t len UNUSED, void *stream UNUSED) NOBODY
    /* clang-format on */
