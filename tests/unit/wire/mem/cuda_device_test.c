/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Devices and contexts on the fake driver: their names, the current one of each thread, and the
 * meaning of an error for the rest.
 */
#include "tests/fakecuda/fakecuda.h"
#include "tests/support/in_child.h"
#include "wire/mem/cuda.h"

#include <cuda.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static void test_device_is_found_by_index_uuid_and_pci_address(void **state)
{
    (void)state;
    struct amb_cuda *by_index = NULL;
    struct amb_cuda *found = NULL;
    assert_int_equal(amb_cuda_count(), 2);
    assert_int_equal(amb_cuda_at(1, &by_index), AMB_OK);
    const struct amb_cuda_info *info = amb_cuda_info(by_index);
    assert_int_equal(info->index, 1);
    assert_string_equal(info->uuid, "GPU-fafafafa-fafa-fafa-fafa-fafafafafa01");
    assert_true(info->memory != 0);
    const char *names[] = {"1", info->uuid, info->pci, "gpu-FAFAFAFA-fafa-fafa-fafa-fafafafafa01"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        assert_int_equal(amb_cuda_find(names[i], &found), AMB_OK);
        assert_ptr_equal(found, by_index);
    }
}

static void test_device_that_is_not_there_is_not_found(void **state)
{
    (void)state;
    struct amb_cuda *found = NULL;
    assert_int_equal(amb_cuda_at(2, &found), AMB_ENOTFOUND);
    assert_int_equal(amb_cuda_at(-1, &found), AMB_ENOTFOUND);
    assert_int_equal(amb_cuda_find("99999999999", &found), AMB_ENOTFOUND);
    assert_int_equal(amb_cuda_find("GPU-0", &found), AMB_ENOTFOUND);
    assert_int_equal(amb_cuda_find("", &found), AMB_ENOTFOUND);
    assert_null(found);
}

static void test_enter_and_leave_restore_what_the_program_had_current(void **state)
{
    (void)state;
    struct amb_cuda *first = NULL;
    struct amb_cuda *second = NULL;
    assert_int_equal(amb_cuda_at(0, &first), AMB_OK);
    assert_int_equal(amb_cuda_at(1, &second), AMB_OK);
    CUcontext own = NULL;
    CUcontext now = NULL;
    assert_int_equal(cuDevicePrimaryCtxRetain(&own, 1), CUDA_SUCCESS);
    assert_int_equal(cuCtxSetCurrent(own), CUDA_SUCCESS);
    struct amb_cuda_scope outer, inner, same;
    CUdevice device = -1;
    assert_int_equal(amb_cuda_enter(first, &outer), AMB_OK);
    assert_int_equal(amb_cuda_enter(second, &inner), AMB_OK);
    assert_int_equal(amb_cuda_enter(second, &same), AMB_OK);
    assert_int_equal(cuCtxGetDevice(&device), CUDA_SUCCESS);
    assert_int_equal(device, 1);
    amb_cuda_leave(&same);
    amb_cuda_leave(&inner);
    assert_int_equal(cuCtxGetDevice(&device), CUDA_SUCCESS);
    assert_int_equal(device, 0);
    amb_cuda_leave(&outer);
    assert_int_equal(cuCtxGetCurrent(&now), CUDA_SUCCESS);
    assert_ptr_equal(now, own);
    assert_int_equal(cuCtxSetCurrent(NULL), CUDA_SUCCESS);
    assert_int_equal(cuDevicePrimaryCtxRelease(1), CUDA_SUCCESS);
}

static void *bound_thread(void *arg)
{
    struct amb_cuda *device = arg;
    struct amb_cuda_scope scope;
    uint64_t memory = 0;
    unsigned long before;
    if (amb_cuda_bind(device) != AMB_OK) {
        return NULL;
    }
    before = fakecuda_calls();
    if (amb_cuda_bind(device) != AMB_OK || amb_cuda_enter(device, &scope) != AMB_OK) {
        return NULL;
    }
    amb_cuda_leave(&scope);
    if (fakecuda_calls() != before || amb_cuda_alloc(device, 64, &memory) != AMB_OK) {
        return NULL;
    }
    amb_cuda_free(device, memory);
    return device;
}

static void test_bound_thread_enters_without_asking_the_driver(void **state)
{
    (void)state;
    struct amb_cuda *device = NULL;
    pthread_t thread;
    void *result = NULL;
    assert_int_equal(amb_cuda_at(0, &device), AMB_OK);
    assert_int_equal(pthread_create(&thread, NULL, bound_thread, device), 0);
    assert_int_equal(pthread_join(thread, &result), 0);
    assert_ptr_equal(result, device);
}

static void test_devices_that_see_each_other_are_let_to_reach_once(void **state)
{
    (void)state;
    struct amb_cuda *first = NULL;
    struct amb_cuda *second = NULL;
    assert_int_equal(amb_cuda_at(0, &first), AMB_OK);
    assert_int_equal(amb_cuda_at(1, &second), AMB_OK);
    assert_true(amb_cuda_can_reach(first, first));
    assert_true(amb_cuda_can_reach(first, second));
    assert_int_equal(fakecuda_calls_of("cuCtxEnablePeerAccess"), 0);
    amb_cuda_let_reach(first, first);
    amb_cuda_let_reach(first, second);
    unsigned long before = fakecuda_calls();
    amb_cuda_let_reach(first, second);
    assert_int_equal(fakecuda_calls(), before);
    assert_int_equal(fakecuda_calls_of("cuCtxEnablePeerAccess"), 1);
}

static void test_error_of_a_call_is_kept_as_a_sentence(void **state)
{
    (void)state;
    struct amb_cuda *device = NULL;
    struct amb_cuda_scope scope;
    uint64_t memory = 0;
    char text[200];
    assert_int_equal(amb_cuda_at(0, &device), AMB_OK);
    assert_int_equal(amb_cuda_enter(device, &scope), AMB_OK);
    fakecuda_fail("cuMemAlloc:1");
    assert_int_equal(amb_cuda_alloc(device, 64, &memory), AMB_ENOMEM);
    assert_int_equal(memory, 0);
    amb_cuda_failure(device, text, sizeof(text));
    assert_string_equal(text, "cuMemAlloc: out of memory (CUDA_ERROR_OUT_OF_MEMORY)");
    assert_true(amb_cuda_is_sound(device));
    assert_int_equal(amb_cuda_alloc(device, 64, &memory), AMB_OK);
    amb_cuda_free(device, memory);
    amb_cuda_leave(&scope);
}

static int fail_for_good(void)
{
    struct amb_cuda *first = NULL;
    struct amb_cuda *second = NULL;
    struct amb_cuda_scope scope;
    uint64_t memory = 0;
    char text[200];
    if (amb_cuda_at(0, &first) != AMB_OK || amb_cuda_at(1, &second) != AMB_OK ||
        amb_cuda_enter(first, &scope) != AMB_OK) {
        return 1;
    }
    fakecuda_fail("cuMemAlloc:1=719");
    if (amb_cuda_alloc(first, 64, &memory) != AMB_ECUDA || amb_cuda_is_sound(first)) {
        return 2;
    }
    unsigned long before = fakecuda_calls();
    if (amb_cuda_alloc(first, 64, &memory) != AMB_ECUDA || fakecuda_calls() != before) {
        return 3;
    }
    amb_cuda_leave(&scope);
    if (amb_cuda_enter(first, &scope) != AMB_ECUDA) {
        return 4;
    }
    amb_cuda_failure(first, text, sizeof(text));
    if (strstr(text, "LAUNCH_FAILED") == NULL) {
        return 5;
    }
    /* The other device goes on. */
    if (!amb_cuda_is_sound(second) || amb_cuda_enter(second, &scope) != AMB_OK ||
        amb_cuda_alloc(second, 64, &memory) != AMB_OK) {
        return 6;
    }
    amb_cuda_free(second, memory);
    amb_cuda_leave(&scope);
    return 0;
}

static void test_sticky_error_fences_its_device_alone(void **state)
{
    (void)state;
    assert_int_equal(in_child(fail_for_good), 0);
}

/* ---- modes ---- */

static int part_of_a_gpu(void)
{
    struct amb_cuda *device = NULL, *found = NULL;
    (void)setenv("FAKECUDA_MIG", "3", 1);
    if (amb_cuda_count() != 1 || amb_cuda_at(0, &device) != AMB_OK) {
        return 1;
    }
    const struct amb_cuda_info *info = amb_cuda_info(device);
    if (!info->is_mig || strcmp(info->uuid, "MIG-fbfbfbfb-fbfb-fbfb-fbfb-fbfbfbfbfb03") != 0) {
        return 2;
    }
    if (amb_cuda_find(info->uuid, &found) != AMB_OK || found != device ||
        amb_cuda_find("GPU-fbfbfbfb-fbfb-fbfb-fbfb-fbfbfbfbfb03", &found) != AMB_ENOTFOUND) {
        return 3;
    }
    return 0;
}

static void test_a_part_of_a_gpu_has_the_uuid_of_that_part(void **state)
{
    (void)state;
    struct amb_cuda *device = NULL;
    assert_int_equal(in_child(part_of_a_gpu), 0);
    assert_int_equal(amb_cuda_at(0, &device), AMB_OK);
    assert_false(amb_cuda_info(device)->is_mig);
    assert_int_equal(amb_cuda_info(device)->mode, AMB_CUDA_MODE_DEFAULT);
    assert_int_equal(amb_cuda_info(device)->mps, AMB_CUDA_MPS_NO);
    assert_null(amb_cuda_mode_alone(amb_cuda_info(device)));
}

static bool is_device(int index, const char *uuid)
{
    struct amb_cuda *device = NULL;
    return amb_cuda_at(index, &device) == AMB_OK && strcmp(amb_cuda_info(device)->uuid, uuid) == 0;
}

static int reordered(void)
{
    (void)setenv("FAKECUDA_DEVICES", "4", 1);
    (void)setenv("CUDA_VISIBLE_DEVICES", "2,GPU-fafafafa-fafa-fafa-fafa-fafafafafa00,9,1", 1);
    return amb_cuda_count() != 2                                       ? 1
           : !is_device(0, "GPU-fafafafa-fafa-fafa-fafa-fafafafafa02") ? 2
           : !is_device(1, "GPU-fafafafa-fafa-fafa-fafa-fafafafafa00") ? 3
                                                                       : 0;
}

/* A beginning that several devices have is wrong, and ends the list. */
static int ambiguous(void)
{
    (void)setenv("FAKECUDA_DEVICES", "4", 1);
    (void)setenv("CUDA_VISIBLE_DEVICES", "3,GPU-fafafafa,1", 1);
    return amb_cuda_count() != 1                                       ? 1
           : !is_device(0, "GPU-fafafafa-fafa-fafa-fafa-fafafafafa03") ? 2
                                                                       : 0;
}

static int other_part(void)
{
    (void)setenv("FAKECUDA_MIG", "3", 1);
    (void)setenv("CUDA_VISIBLE_DEVICES", "MIG-fbfbfbfb-fbfb-fbfb-fbfb-fbfbfbfbfb05", 1);
    return amb_cuda_count() != 1                                       ? 1
           : !is_device(0, "MIG-fbfbfbfb-fbfb-fbfb-fbfb-fbfbfbfbfb05") ? 2
                                                                       : 0;
}

#define OLD_NAME "MIG-GPU-fafafafa-fafa-fafa-fafa-fafafafafa00/5/0"

/* As drivers before 470 named it: the part that is shown has that name, and no other does. */
static int old_name(void)
{
    struct amb_cuda *found = NULL;
    (void)setenv("FAKECUDA_MIG", "3", 1);
    (void)setenv("CUDA_VISIBLE_DEVICES", OLD_NAME ",MIG-of-no-use", 1);
    if (amb_cuda_count() != 1 || !is_device(0, "MIG-fbfbfbfb-fbfb-fbfb-fbfb-fbfbfbfbfb05")) {
        return 1;
    }
    return amb_cuda_find(OLD_NAME, &found) != AMB_OK                                             ? 2
           : amb_cuda_find("mig-gpu-fafafafa-fafa-fafa-fafa-fafafafafa00/5/0", &found) != AMB_OK ? 3
           : amb_cuda_find(OLD_NAME "0", &found) != AMB_ENOTFOUND                                ? 4
           : amb_cuda_find("MIG-GPU-", &found) != AMB_ENOTFOUND                                  ? 5
           : amb_cuda_find("MIG-of-no-use", &found) != AMB_ENOTFOUND                             ? 6
                                                                     : 0;
}

static int old_name_of_a_whole_gpu(void)
{
    struct amb_cuda *found = NULL;
    (void)setenv("CUDA_VISIBLE_DEVICES", "0", 1);
    return amb_cuda_find(OLD_NAME, &found) == AMB_ENOTFOUND && amb_cuda_is_old_part(OLD_NAME) &&
                   !amb_cuda_is_old_part("MIG-fbfbfbfb-fbfb-fbfb-fbfb-fbfbfbfbfb05")
               ? 0
               : 1;
}

static void test_a_part_has_the_name_by_which_it_is_shown(void **state)
{
    (void)state;
    assert_int_equal(in_child(old_name), 0);
    assert_int_equal(in_child(old_name_of_a_whole_gpu), 0);
}

static void test_devices_come_in_the_order_in_which_they_are_made_visible(void **state)
{
    (void)state;
    assert_int_equal(in_child(reordered), 0);
    assert_int_equal(in_child(ambiguous), 0);
    assert_int_equal(in_child(other_part), 0);
}

/* Is the device refused, with that word in the sentence? NULL: it is not refused. */
static int refused_with(const char *word)
{
    struct amb_cuda *device = NULL;
    char text[200] = "";
    enum amb_status status = amb_cuda_at(0, &device);
    if (word == NULL) {
        return status == AMB_OK ? 0 : 1;
    }
    amb_cuda_failure(amb_cuda_seen("0"), text, sizeof(text));
    return status == AMB_ECUDA && strstr(text, word) != NULL &&
                   amb_cuda_is_sound(amb_cuda_seen("0"))
               ? 0
               : 2;
}

static int shut_out(void)
{
    return refused_with("EXCLUSIVE_PROCESS");
}

static int alone(void)
{
    int result = refused_with(NULL);
    pid_t pid = fork(); /* With a copy of this process's driver, which is none of its own. */
    if (pid == 0) {
        (void)execl("/proc/self/exe", "other", "shut out", (char *)NULL);
        _exit(64);
    }
    int status = 0;
    (void)waitpid(pid, &status, 0);
    return result != 0 ? result : WIFEXITED(status) ? WEXITSTATUS(status) : 65;
}

static int shared_by_mps(void)
{
    (void)setenv("FAKECUDA_MPS", "1", 1);
    return refused_with(NULL) != 0 ||
           amb_cuda_mode_alone(amb_cuda_info(amb_cuda_seen("0"))) != NULL;
}

static int prohibited(void)
{
    (void)setenv("FAKECUDA_MODE", "prohibited", 1);
    return refused_with("PROHIBITED");
}

static void test_a_device_that_is_one_process_s_is_refused_with_a_sentence(void **state)
{
    (void)state;
    char machine[64];
    (void)snprintf(machine, sizeof(machine), "/tmp/amb-device-%d", (int)getpid());
    (void)setenv("FAKECUDA_MACHINE", machine, 1);
    (void)setenv("FAKECUDA_MODE", "exclusive", 1);
    assert_int_equal(in_child(alone), 0);
    assert_int_equal(in_child(shared_by_mps), 0);
    assert_int_equal(in_child(prohibited), 0);
    (void)unsetenv("FAKECUDA_MODE");
    (void)unsetenv("FAKECUDA_MACHINE");
    (void)unlink(machine);
}

int main(int argc, char **argv)
{
    (void)argv;
    if (argc > 1) {
        return shut_out();
    }
    (void)setenv(AMB_CUDA_LIBRARY_ENV, AMB_FAKECUDA, 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sticky_error_fences_its_device_alone),
        cmocka_unit_test(test_a_device_that_is_one_process_s_is_refused_with_a_sentence),
        cmocka_unit_test(test_devices_come_in_the_order_in_which_they_are_made_visible),
        cmocka_unit_test(test_a_part_has_the_name_by_which_it_is_shown),
        cmocka_unit_test(test_a_part_of_a_gpu_has_the_uuid_of_that_part),
        cmocka_unit_test(test_device_is_found_by_index_uuid_and_pci_address),
        cmocka_unit_test(test_device_that_is_not_there_is_not_found),
        cmocka_unit_test(test_enter_and_leave_restore_what_the_program_had_current),
        cmocka_unit_test(test_bound_thread_enters_without_asking_the_driver),
        cmocka_unit_test(test_devices_that_see_each_other_are_let_to_reach_once),
        cmocka_unit_test(test_error_of_a_call_is_kept_as_a_sentence),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
