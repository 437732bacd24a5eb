/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of other kinds than cuMemAlloc's on the fake driver, as a driver has it: stream-ordered
 * pools. It cannot be exported by cuIpcGetMemHandle.
 */
#include "tests/fakecuda/fakecuda.h"
#include "wire/mem/cuda.h"

#include <cuda.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define MIB ((uint64_t)1 << 20)

struct fixture {
    struct amb_cuda *device;
    struct amb_cuda_scope scope;
};
static struct fixture fixture;

static int set_up(void **state)
{
    *state = &fixture;
    fakecuda_fail(NULL);
    return amb_cuda_at(0, &fixture.device) == AMB_OK &&
                   amb_cuda_enter(fixture.device, &fixture.scope) == AMB_OK
               ? 0
               : -1;
}

static int tear_down(void **state)
{
    (void)state;
    fakecuda_hold(false);
    (void)cuCtxSynchronize();
    unsigned left = fakecuda_live_device() + fakecuda_live_pinned() + fakecuda_live_streams();
    bool is_back = fakecuda_used(0) == 0;
    amb_cuda_leave(&fixture.scope);
    return left == 0 && is_back ? 0 : -1;
}

static const void *as_pointer(uint64_t address)
{
    return (const void *)(uintptr_t)address;
}

/* ---- pools ---- */

static void test_pool_memory_is_freed_behind_its_stream_without_a_wait(void **state)
{
    (void)state;
    CUstream stream;
    CUdeviceptr memory;
    assert_int_equal(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    fakecuda_hold(true);
    assert_int_equal(cuMemAllocAsync(&memory, MIB, stream), CUDA_SUCCESS);
    assert_int_equal(cuMemsetD8Async(memory, 7, MIB, stream), CUDA_SUCCESS);
    assert_int_equal(cuMemFreeAsync(memory, stream), CUDA_SUCCESS);
    assert_int_equal(fakecuda_live_device(), 0);
    assert_int_equal(fakecuda_used(0), MIB); /* Its pool's until somebody waits. */
    assert_int_equal(cuMemsetD8Async(memory, 7, MIB, stream), CUDA_ERROR_INVALID_VALUE);
    fakecuda_hold(false);
    assert_int_equal(cuStreamSynchronize(stream), CUDA_SUCCESS);
    assert_int_equal(fakecuda_used(0), 0);
    assert_int_equal(cuStreamDestroy(stream), CUDA_SUCCESS);
}

static void test_a_pool_gives_its_own_stream_a_block_again_at_once(void **state)
{
    (void)state;
    CUstream one, other;
    CUdeviceptr memory, again, elsewhere;
    assert_int_equal(cuStreamCreate(&one, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    assert_int_equal(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    fakecuda_hold(true);
    assert_int_equal(cuMemAllocAsync(&memory, MIB, one), CUDA_SUCCESS);
    assert_int_equal(cuMemFreeAsync(memory, one), CUDA_SUCCESS);
    assert_int_equal(cuMemAllocAsync(&elsewhere, MIB, other), CUDA_SUCCESS);
    assert_int_equal(cuMemAllocAsync(&again, MIB, one), CUDA_SUCCESS);
    assert_int_equal(again, memory);
    assert_int_not_equal(elsewhere, memory);
    fakecuda_hold(false);
    assert_int_equal(cuMemFree(again), CUDA_SUCCESS);
    assert_int_equal(cuMemFreeAsync(elsewhere, other), CUDA_SUCCESS);
    assert_int_equal(cuStreamDestroy(one), CUDA_SUCCESS);
    assert_int_equal(cuStreamDestroy(other), CUDA_SUCCESS);
}

static void test_a_pool_keeps_what_its_threshold_says_until_memory_is_short(void **state)
{
    struct amb_cuda *device = ((struct fixture *)*state)->device;
    CUmemoryPool pool;
    CUdeviceptr memory;
    uint64_t threshold = 64 * MIB, kept = 0, all = 0;
    assert_int_equal(cuDeviceGetDefaultMemPool(&pool, 0), CUDA_SUCCESS);
    assert_int_equal(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold),
                     CUDA_SUCCESS);
    assert_int_equal(cuMemAllocAsync(&memory, 8 * MIB, NULL), CUDA_SUCCESS);
    assert_int_equal(cuMemFreeAsync(memory, NULL), CUDA_SUCCESS);
    assert_int_equal(cuStreamSynchronize(NULL), CUDA_SUCCESS);
    assert_int_equal(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &kept),
                     CUDA_SUCCESS);
    assert_int_equal(kept, 8 * MIB);
    assert_int_equal(fakecuda_used(0), 8 * MIB);
    assert_int_equal(amb_cuda_alloc(device, amb_cuda_info(device)->memory, &all), AMB_OK);
    amb_cuda_free(device, all);
    threshold = 0;
    assert_int_equal(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold),
                     CUDA_SUCCESS);
}

static void test_memory_of_an_exportable_pool_has_no_such_handle_either(void **state)
{
    struct amb_cuda *device = ((struct fixture *)*state)->device;
    const CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                                  .handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                                  .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    CUmemoryPool pool;
    CUdeviceptr memory;
    CUipcMemHandle handle;
    uint8_t own[AMB_CUDA_IPC_BYTES];
    struct amb_mem_place place;
    assert_int_equal(cuMemPoolCreate(&pool, &props), CUDA_SUCCESS);
    assert_int_equal(cuMemAllocFromPoolAsync(&memory, 10000, pool, NULL), CUDA_SUCCESS);
    assert_int_equal(cuIpcGetMemHandle(&handle, memory), CUDA_ERROR_INVALID_VALUE);
    amb_cuda_classify(as_pointer(memory + 100), &place);
    assert_int_equal(place.mem, AMB_MEM_CUDA);
    assert_int_equal(place.base, memory);
    assert_int_equal(place.size, 10000);
    assert_false(place.is_exportable);
    assert_non_null(strstr(place.why_not, "pool"));
    assert_int_equal(amb_cuda_export(device, memory, own), AMB_ENOTSUP);
    assert_true(amb_cuda_is_sound(device));
    assert_int_equal(cuMemPoolDestroy(pool), CUDA_SUCCESS); /* Waits for its last block. */
    assert_int_equal(cuMemFreeAsync(memory, NULL), CUDA_SUCCESS);
}

static void test_another_device_reaches_a_pool_by_a_peer_copy_or_when_it_is_let(void **state)
{
    (void)state;
    struct amb_cuda *other;
    struct amb_cuda_scope scope;
    CUcontext here, there;
    CUmemoryPool pool;
    CUdeviceptr memory, far;
    CUmemAccessDesc access = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 1},
                              .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    assert_int_equal(cuMemAllocAsync(&memory, MIB, NULL), CUDA_SUCCESS);
    assert_int_equal(cuStreamSynchronize(NULL), CUDA_SUCCESS);
    assert_int_equal(cuCtxGetCurrent(&here), CUDA_SUCCESS);
    assert_int_equal(amb_cuda_at(1, &other), AMB_OK);
    assert_int_equal(amb_cuda_enter(other, &scope), AMB_OK);
    assert_int_equal(cuCtxGetCurrent(&there), CUDA_SUCCESS);
    assert_int_equal(cuMemAlloc(&far, MIB), CUDA_SUCCESS);
    assert_int_equal(cuMemcpyAsync(far, memory, MIB, NULL), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuMemcpyPeerAsync(far, there, memory, here, MIB, NULL), CUDA_SUCCESS);
    assert_int_equal(cuDeviceGetMemPool(&pool, 0), CUDA_SUCCESS);
    assert_int_equal(cuMemPoolSetAccess(pool, &access, 1), CUDA_SUCCESS);
    assert_int_equal(cuMemcpyAsync(far, memory, MIB, NULL), CUDA_SUCCESS);
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_NONE;
    assert_int_equal(cuMemPoolSetAccess(pool, &access, 1), CUDA_SUCCESS);
    assert_int_equal(cuMemFree(far), CUDA_SUCCESS);
    amb_cuda_leave(&scope);
    assert_int_equal(cuMemFreeAsync(memory, NULL), CUDA_SUCCESS);
}

enum when {
    TOO_EARLY,
    IN_TIME,
    TOO_LATE,
};

/*
 * In a process of its own, which may lose its device: 1 then. Of streams that wait for nothing the
 * fake driver runs the default one first, and then the one that was made last.
 */
static int touch(enum when when)
{
    struct amb_cuda *device;
    struct amb_cuda_scope scope;
    CUstream own, other;
    CUevent event;
    CUdeviceptr memory;
    if (amb_cuda_at(0, &device) != AMB_OK || amb_cuda_enter(device, &scope) != AMB_OK ||
        cuStreamCreate(&other, CU_STREAM_NON_BLOCKING) != CUDA_SUCCESS ||
        cuStreamCreate(&own, CU_STREAM_NON_BLOCKING) != CUDA_SUCCESS ||
        cuEventCreate(&event, CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS) {
        return 10;
    }
    fakecuda_hold(true);
    if (cuMemAllocAsync(&memory, MIB, own) != CUDA_SUCCESS ||
        cuEventRecord(event, own) != CUDA_SUCCESS ||
        (when == IN_TIME && cuStreamWaitEvent(other, event, 0) != CUDA_SUCCESS) ||
        cuMemsetD8Async(memory, 1, MIB, when == TOO_EARLY ? NULL : other) != CUDA_SUCCESS ||
        (when == IN_TIME && (cuEventRecord(event, other) != CUDA_SUCCESS ||
                             cuStreamWaitEvent(own, event, 0) != CUDA_SUCCESS)) ||
        cuMemFreeAsync(memory, own) != CUDA_SUCCESS) {
        return 11;
    }
    fakecuda_hold(false);
    (void)cuCtxSynchronize();
    return cuCtxSynchronize() == CUDA_ERROR_ILLEGAL_ADDRESS ? 1 : 0;
}

static int touch_in_a_child(enum when when)
{
    int status = 0;
    pid_t pid = fork();
    if (pid == 0) {
        _exit(touch(when));
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* Runs before this process has started the driver. */
static void test_pool_memory_is_touched_only_between_its_two_points(void **state)
{
    (void)state;
    assert_int_equal(touch_in_a_child(IN_TIME), 0);
    assert_int_equal(touch_in_a_child(TOO_EARLY), 1);
    assert_int_equal(touch_in_a_child(TOO_LATE), 1);
}

#define WITH_DEVICE(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    (void)setenv(AMB_CUDA_LIBRARY_ENV, AMB_FAKECUDA, 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pool_memory_is_touched_only_between_its_two_points),
        WITH_DEVICE(test_pool_memory_is_freed_behind_its_stream_without_a_wait),
        WITH_DEVICE(test_a_pool_gives_its_own_stream_a_block_again_at_once),
        WITH_DEVICE(test_a_pool_keeps_what_its_threshold_says_until_memory_is_short),
        WITH_DEVICE(test_memory_of_an_exportable_pool_has_no_such_handle_either),
        WITH_DEVICE(test_another_device_reaches_a_pool_by_a_peer_copy_or_when_it_is_let),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
