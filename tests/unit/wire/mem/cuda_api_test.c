/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loading the driver: a process without one, and one into which somebody else brings it later. The
 * fake driver is not linked here, it is loaded.
 */
#include "wire/mem/cuda.h"

#include <dlfcn.h>
#include <pthread.h>
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

static int works(void)
{
    struct amb_cuda *device = NULL;
    (void)alarm(5);
    return amb_cuda_at(0, &device) == AMB_OK && amb_cuda_count() == 2 && amb_cuda_is_live() ? 0 : 1;
}

/* A lock of ours that a thread of its parent held would hold it up for ever. */
static int is_told(void)
{
    struct amb_cuda *device = NULL;
    struct amb_mem_place place;
    (void)alarm(5);
    if (amb_cuda_is_live() || amb_cuda_start() != AMB_ENOTSUP || amb_cuda_count() != 0 ||
        amb_cuda_at(0, &device) != AMB_ENOTSUP || amb_cuda_find("0", &device) != AMB_ENOTSUP) {
        return 1;
    }
    amb_cuda_locate(&place, &place);
    return place.mem == AMB_MEM_HOST && strstr(amb_cuda_why_not(), "fork") != NULL ? 0 : 2;
}

static void *use_device(void *arg)
{
    static struct amb_cuda *device;
    return amb_cuda_at(0, &device) == AMB_OK ? arg : NULL;
}

/* Forks while another thread is in the driver. */
static int forks_in_the_midst(void)
{
    pthread_t thread;
    void *is_good = NULL;
    if (pthread_create(&thread, NULL, use_device, &is_good) != 0) {
        return 100;
    }
    while (!amb_cuda_is_live()) {
        (void)usleep(1000);
    }
    (void)usleep(50000);
    int rc = in_child(is_told);
    return pthread_join(thread, &is_good) == 0 && is_good != NULL && works() == 0 ? rc : 101;
}

static int forks_in_init(void)
{
    (void)setenv("FAKECUDA_SLOW", "cuInit=400", 1);
    return forks_in_the_midst();
}

static int forks_while_a_device_comes_up(void)
{
    (void)setenv("FAKECUDA_SLOW", "cuDevicePrimaryCtxRetain=400", 1);
    return amb_cuda_start() == AMB_OK ? forks_in_the_midst() : 102;
}

static void test_child_of_a_process_that_uses_the_driver_is_told_at_once(void **state)
{
    (void)state;
    assert_int_equal(in_child(forks_in_init), 0);
    assert_int_equal(in_child(forks_while_a_device_comes_up), 0);
}

/* The program has it in memory, and we have looked at it. */
static int forks_before(void)
{
    struct amb_mem_place place;
    if (dlopen(AMB_FAKECUDA, RTLD_NOW) == NULL || !amb_cuda_is_live()) {
        return 100;
    }
    amb_cuda_locate(&place, &place);
    return in_child(works);
}

static int forks_without_a_driver(void)
{
    int rc = without_driver();
    return rc == 0 ? in_child(without_driver) : rc;
}

static void test_child_of_a_process_that_has_not_begun_works_in_full(void **state)
{
    (void)state;
    assert_int_equal(in_child(forks_before), 0);
    assert_int_equal(in_child(forks_without_a_driver), 0);
}

int main(void)
{
    (void)setenv(AMB_CUDA_LIBRARY_ENV, AMB_FAKECUDA, 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_process_without_a_driver_has_host_memory_only),
        cmocka_unit_test(test_driver_that_the_program_loads_later_is_seen),
        cmocka_unit_test(test_library_that_is_no_driver_is_refused_by_name_of_what_it_lacks),
        cmocka_unit_test(test_driver_without_a_device_is_none),
        cmocka_unit_test(test_child_of_a_process_that_uses_the_driver_is_told_at_once),
        cmocka_unit_test(test_child_of_a_process_that_has_not_begun_works_in_full),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
