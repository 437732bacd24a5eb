/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GPU memory on the fake driver: what pointers are told apart, what the host may not touch, and how
 * another process gets at an allocation.
 */
#include "tests/fakecuda/fakecuda.h"
#include "wire/mem/cuda.h"

#include <cuda.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

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
    unsigned left = fakecuda_live_device() + fakecuda_live_pinned();
    amb_cuda_leave(&fixture.scope);
    return left == 0 ? 0 : -1;
}

static const void *as_pointer(uint64_t address)
{
    return (const void *)(uintptr_t)address;
}

/* By one question. */
static bool is_device(const void *pointer)
{
    struct amb_mem_place place;
    unsigned long before = fakecuda_calls();
    amb_cuda_locate(pointer, &place);
    assert_int_equal(fakecuda_calls() - before, 1);
    return place.mem == AMB_MEM_CUDA || place.mem == AMB_MEM_CUDA_MANAGED;
}

static void test_device_memory_is_told_with_its_allocation(void **state)
{
    struct amb_cuda *device = ((struct fixture *)*state)->device;
    uint64_t memory = 0;
    struct amb_mem_place place;
    assert_int_equal(amb_cuda_alloc(device, 10000, &memory), AMB_OK);
    amb_cuda_classify(as_pointer(memory + 5000), &place);
    assert_int_equal(place.mem, AMB_MEM_CUDA);
    assert_int_equal(place.device, 0);
    assert_int_equal(place.base, memory);
    assert_true(place.size >= 10000);
    assert_true(place.is_exportable);
    assert_string_equal(place.why_not, "");
    assert_true(is_device(as_pointer(memory + 9999)));
    amb_cuda_locate(as_pointer(memory + 9999), &place);
    assert_true(place.device == 0 && place.base == memory && place.size >= 10000);
    amb_cuda_free(device, memory);
    amb_cuda_classify(as_pointer(memory), &place);
    assert_int_equal(place.mem, AMB_MEM_HOST);
}

static void test_pinned_memory_is_the_hosts(void **state)
{
    struct amb_cuda *device = ((struct fixture *)*state)->device;
    void *memory = NULL;
    struct amb_mem_place place;
    assert_int_equal(amb_cuda_pin(device, 4096, &memory), AMB_OK);
    memset(memory, 1, 4096);
    amb_cuda_classify(memory, &place);
    assert_int_equal(place.mem, AMB_MEM_PINNED);
    assert_int_equal(place.device, -1);
    assert_false(is_device(memory));
    amb_cuda_unpin(device, memory);
}

static void test_plain_memory_is_the_hosts(void **state)
{
    (void)state;
    char local[16] = {0};
    void *heap = malloc(16);
    struct amb_mem_place place;
    amb_cuda_classify(local, &place);
    assert_int_equal(place.mem, AMB_MEM_HOST);
    amb_cuda_classify(heap, &place);
    assert_int_equal(place.mem, AMB_MEM_HOST);
    amb_cuda_classify(NULL, &place);
    assert_int_equal(place.mem, AMB_MEM_HOST);
    assert_false(is_device(local));
    assert_false(is_device(NULL));
    free(heap);
}

static void test_managed_and_pool_memory_are_not_exportable_and_say_why(void **state)
{
    (void)state;
    struct amb_mem_place place;
    uint8_t handle[AMB_CUDA_IPC_BYTES];
    CUdeviceptr memory;
    assert_int_equal(cuMemAllocManaged(&memory, 4096, CU_MEM_ATTACH_GLOBAL), CUDA_SUCCESS);
    amb_cuda_classify(as_pointer(memory), &place);
    assert_int_equal(place.mem, AMB_MEM_CUDA_MANAGED);
    assert_false(place.is_exportable);
    assert_non_null(strstr(place.why_not, "managed"));
    assert_true(is_device(as_pointer(memory)));
    assert_int_equal(cuMemFree(memory), CUDA_SUCCESS);
    assert_int_equal(cuMemAllocAsync(&memory, 4096, NULL), CUDA_SUCCESS);
    amb_cuda_classify(as_pointer(memory), &place);
    assert_int_equal(place.mem, AMB_MEM_CUDA);
    assert_false(place.is_exportable);
    assert_non_null(strstr(place.why_not, "pool"));
    assert_int_equal(amb_cuda_export(((struct fixture *)*state)->device, memory, handle),
                     AMB_ENOTSUP);
    assert_int_equal(cuMemFree(memory), CUDA_SUCCESS);
}

static void test_host_dereference_of_device_memory_crashes(void **state)
{
    struct amb_cuda *device = ((struct fixture *)*state)->device;
    uint64_t memory = 0;
    assert_int_equal(amb_cuda_alloc(device, 4096, &memory), AMB_OK);
    pid_t pid = fork();
    if (pid == 0) {
        (void)signal(SIGSEGV, SIG_DFL); /* Any bytes that a sanitizer has put there. */
        _exit(*(const volatile unsigned char *)as_pointer(memory));
    }
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGSEGV);
    amb_cuda_free(device, memory);
}

static void test_memory_runs_out_with_enomem(void **state)
{
    struct amb_cuda *device = ((struct fixture *)*state)->device;
    uint64_t memory = 0;
    assert_int_equal(amb_cuda_alloc(device, amb_cuda_info(device)->memory + 1, &memory),
                     AMB_ENOMEM);
    assert_true(amb_cuda_is_sound(device));
}

/* ---- two processes ---- */

struct note {
    uint8_t handle[AMB_CUDA_IPC_BYTES];
    uint64_t offset;
};

/* The exporter: writes a pattern, hands out the handle, waits until it is told to go. */
static int exporter(int to_reader, int from_reader)
{
    struct amb_cuda *device = NULL;
    struct amb_cuda_scope scope;
    uint64_t memory = 0;
    struct note note = {.offset = 4096};
    unsigned char bytes[512], back[512];
    char word;
    memset(bytes, 0x5a, sizeof(bytes));
    if (amb_cuda_at(0, &device) != AMB_OK || amb_cuda_enter(device, &scope) != AMB_OK ||
        amb_cuda_alloc(device, 65536, &memory) != AMB_OK ||
        amb_cuda_export(device, memory, note.handle) != AMB_OK ||
        cuMemcpyHtoD(memory + note.offset, bytes, sizeof(bytes)) != CUDA_SUCCESS ||
        write(to_reader, &note, sizeof(note)) != (ssize_t)sizeof(note) ||
        read(from_reader, &word, 1) != 1) {
        return 1;
    }
    /* The other's bytes are here. */
    memset(bytes, 0x77, sizeof(bytes));
    if (cuMemcpyDtoH(back, memory, sizeof(back)) != CUDA_SUCCESS) {
        return 2;
    }
    return memcmp(bytes, back, sizeof(back)) == 0 ? 0 : 3;
}

/* In the context of another device than the one that is entered. */
static uint64_t open_on(int index, const struct note *note, struct amb_cuda_scope *scope)
{
    struct amb_cuda *device;
    uint64_t memory = 0;
    if (amb_cuda_at(index, &device) != AMB_OK || amb_cuda_enter(device, scope) != AMB_OK ||
        amb_cuda_import(device, note->handle, &memory) != AMB_OK) {
        return 0;
    }
    amb_cuda_leave(scope);
    return memory;
}

static void close_on(int index, uint64_t memory, struct amb_cuda_scope *scope)
{
    struct amb_cuda *device;
    if (amb_cuda_at(index, &device) == AMB_OK && amb_cuda_enter(device, scope) == AMB_OK) {
        amb_cuda_unimport(device, memory);
        amb_cuda_leave(scope);
    }
}

static void *go_on_soon(void *arg)
{
    (void)usleep(50000);
    fakecuda_hold(false);
    return arg;
}

/* Once closed under a copy that still reads it: a fault is counted, for a test to see. */
static bool close_in_use(struct amb_cuda *device, uint64_t memory)
{
    pthread_t thread;
    void *stream;
    unsigned long before = fakecuda_faults();
    if (amb_cuda_stream_create(device, &stream) != AMB_OK) {
        return false;
    }
    fakecuda_hold(true);
    if (amb_cuda_copy(device, memory + 8192, memory, 64, stream) != AMB_OK ||
        pthread_create(&thread, NULL, go_on_soon, NULL) != 0) {
        return false;
    }
    amb_cuda_unimport(device, memory);
    (void)pthread_join(thread, NULL);
    amb_cuda_stream_destroy(device, stream);
    return fakecuda_faults() == before + 1;
}

static int importer(const struct note *note, bool exporter_is_gone)
{
    struct amb_cuda *device = NULL;
    struct amb_cuda_scope scope, other;
    uint64_t memory = 0, again = 0;
    unsigned char bytes[512], back[512];
    memset(bytes, 0x5a, sizeof(bytes));
    if (amb_cuda_at(0, &device) != AMB_OK || amb_cuda_enter(device, &scope) != AMB_OK) {
        return 1;
    }
    enum amb_status status = amb_cuda_import(device, note->handle, &memory);
    if (exporter_is_gone) {
        return status == AMB_ENOTSUP ? 0 : 2;
    }
    struct amb_mem_place place;
    if (status != AMB_OK || amb_cuda_import(device, note->handle, &again) != AMB_OK ||
        again != memory) {
        return 3; /* A context opens a handle once, and counts. */
    }
    amb_cuda_unimport(device, again);
    amb_cuda_classify(as_pointer(memory), &place);
    if (place.mem != AMB_MEM_CUDA || place.is_exportable) {
        return 4;
    }
    if (cuMemcpyDtoH(back, memory + note->offset, sizeof(back)) != CUDA_SUCCESS ||
        memcmp(bytes, back, sizeof(back)) != 0) {
        return 5;
    }
    memset(bytes, 0x77, sizeof(bytes));
    if (cuMemcpyHtoD(memory, bytes, sizeof(bytes)) != CUDA_SUCCESS) {
        return 6;
    }
    uint64_t there = open_on(1, note, &other);
    if (there == 0 || there == memory || fakecuda_live_device() != 2) {
        return 8; /* Another device's context has an address of its own, */
    }
    if (cuIpcCloseMemHandle(there) == CUDA_SUCCESS) {
        return 9; /* and closes it itself. */
    }
    close_on(1, there, &other);
    return close_in_use(device, memory) && fakecuda_live_device() == 0 ? 0 : 7;
}

static int reap(pid_t pid)
{
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* Runs before this process has started the driver: a forked child starts its own. */
static void test_allocation_is_shared_with_another_process_by_handle(void **state)
{
    (void)state;
    int down[2], up[2];
    struct note note;
    assert_int_equal(pipe(down), 0);
    assert_int_equal(pipe(up), 0);
    pid_t writer = fork();
    if (writer == 0) {
        _exit(exporter(up[1], down[0]));
    }
    assert_int_equal(read(up[0], &note, sizeof(note)), sizeof(note));
    pid_t reader = fork();
    if (reader == 0) {
        _exit(importer(&note, false));
    }
    assert_int_equal(reap(reader), 0);
    assert_int_equal(write(down[1], "x", 1), 1);
    assert_int_equal(reap(writer), 0);
    reader = fork();
    if (reader == 0) {
        _exit(importer(&note, true));
    }
    assert_int_equal(reap(reader), 0);
    for (int i = 0; i < 2; i++) {
        (void)close(down[i]);
        (void)close(up[i]);
    }
}

static void test_own_allocation_is_not_imported(void **state)
{
    struct amb_cuda *device = ((struct fixture *)*state)->device;
    uint64_t memory = 0, again = 0;
    uint8_t handle[AMB_CUDA_IPC_BYTES];
    assert_int_equal(amb_cuda_alloc(device, 4096, &memory), AMB_OK);
    assert_int_equal(amb_cuda_export(device, memory, handle), AMB_OK);
    assert_int_equal(amb_cuda_import(device, handle, &again), AMB_ENOTSUP);
    amb_cuda_free(device, memory);
}

#define WITH_DEVICE(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    (void)setenv(AMB_CUDA_LIBRARY_ENV, AMB_FAKECUDA, 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_allocation_is_shared_with_another_process_by_handle),
        WITH_DEVICE(test_device_memory_is_told_with_its_allocation),
        WITH_DEVICE(test_pinned_memory_is_the_hosts),
        WITH_DEVICE(test_plain_memory_is_the_hosts),
        WITH_DEVICE(test_managed_and_pool_memory_are_not_exportable_and_say_why),
        WITH_DEVICE(test_host_dereference_of_device_memory_crashes),
        WITH_DEVICE(test_memory_runs_out_with_enomem),
        WITH_DEVICE(test_own_allocation_is_not_imported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
