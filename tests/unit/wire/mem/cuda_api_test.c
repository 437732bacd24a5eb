/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loading the driver: a process without one, and one into which somebody else brings it later. The
 * fake driver is not linked here, it is loaded.
 */
#include "wire/mem/cuda.h"

#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

/* In a process of its own, because the driver is started once. */
static int in_child(int (*body)(void))
{
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        _exit(body());
    }
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static int without_driver(void)
{
    struct amb_cuda *device = NULL;
    struct amb_mem_place place;
    (void)setenv(AMB_CUDA_LIBRARY_ENV, "/nowhere/libcuda.so.1", 1);
    if (amb_cuda_is_live() || amb_cuda_start() != AMB_ENOTSUP || amb_cuda_count() != 0) {
        return 1;
    }
    if (strstr(amb_cuda_why_not(), "no CUDA driver") == NULL) {
        return 2;
    }
    if (amb_cuda_at(0, &device) != AMB_ENOTSUP || amb_cuda_find("0", &device) != AMB_ENOTSUP) {
        return 3;
    }
    amb_cuda_classify(&place, &place);
    if (place.mem != AMB_MEM_HOST || place.device != -1) {
        return 4;
    }
    amb_cuda_locate(&place, &place);
    return place.mem == AMB_MEM_HOST && place.device == -1 ? 0 : 5;
}

static void test_process_without_a_driver_has_host_memory_only(void **state)
{
    (void)state;
    assert_int_equal(in_child(without_driver), 0);
}

static int loaded_later(void)
{
    if (amb_cuda_is_live() || amb_cuda_is_live()) {
        return 1;
    }
    void *other = dlopen("libm.so.6", RTLD_NOW);
    if (other == NULL || amb_cuda_is_live()) {
        return 2;
    }
    if (dlopen(AMB_FAKECUDA, RTLD_NOW) == NULL) {
        return 3;
    }
    /* Nobody has initialised it: it knows no pointer, and we do not initialise it either. */
    struct amb_mem_place place;
    amb_cuda_locate(&place, &place);
    if (!amb_cuda_is_live() || place.mem != AMB_MEM_HOST) {
        return 4;
    }
    return amb_cuda_start() == AMB_OK && amb_cuda_count() == 2 ? 0 : 5;
}

static void test_driver_that_the_program_loads_later_is_seen(void **state)
{
    (void)state;
    assert_int_equal(in_child(loaded_later), 0);
}

static int wrong_library(void)
{
    (void)setenv(AMB_CUDA_LIBRARY_ENV, "libm.so.6", 1);
    if (amb_cuda_start() != AMB_ENOTSUP) {
        return 1;
    }
    return strstr(amb_cuda_why_not(), "has no cu") != NULL ? 0 : 2;
}

static void test_library_that_is_no_driver_is_refused_by_name_of_what_it_lacks(void **state)
{
    (void)state;
    assert_int_equal(in_child(wrong_library), 0);
}

static int no_device(void)
{
    (void)setenv("FAKECUDA_DEVICES", "0", 1);
    return amb_cuda_start() == AMB_ENOTSUP && amb_cuda_why_not()[0] != '\0' ? 0 : 1;
}

static void test_driver_without_a_device_is_none(void **state)
{
    (void)state;
    assert_int_equal(in_child(no_device), 0);
}

int main(void)
{
    (void)setenv(AMB_CUDA_LIBRARY_ENV, AMB_FAKECUDA, 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_process_without_a_driver_has_host_memory_only),
        cmocka_unit_test(test_driver_that_the_program_loads_later_is_seen),
        cmocka_unit_test(test_library_that_is_no_driver_is_refused_by_name_of_what_it_lacks),
        cmocka_unit_test(test_driver_without_a_device_is_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
