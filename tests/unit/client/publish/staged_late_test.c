/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A driver that the program loads while a batch of host messages is open. The next message is in
 * device memory, and must not be read by the host. In each case a process of its own.
 */
#include "tests/unit/client/session.h"

#include "wire/mem/cuda.h"

#include <cuda.h>
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

/* The calls that the program makes by itself, through a driver that is not linked. */
static CUdeviceptr late_memory(void)
{
    void *library = dlopen(AMB_FAKECUDA, RTLD_NOW);
    CUresult (*init)(unsigned) = NULL;
    CUresult (*retain)(CUcontext *, CUdevice) = NULL;
    CUresult (*set)(CUcontext) = NULL;
    CUresult (*alloc)(CUdeviceptr *, size_t) = NULL;
    CUcontext context = NULL;
    CUdeviceptr memory = 0;
    if (library != NULL) {
        *(void **)&init = dlsym(library, "cuInit");
        *(void **)&retain = dlsym(library, "cuDevicePrimaryCtxRetain");
        *(void **)&set = dlsym(library, "cuCtxSetCurrent");
        *(void **)&alloc = dlsym(library, "cuMemAlloc_v2");
    }
    if (init == NULL || retain == NULL || set == NULL || alloc == NULL || init(0) != CUDA_SUCCESS ||
        retain(&context, 0) != CUDA_SUCCESS || set(context) != CUDA_SUCCESS ||
        alloc(&memory, 4096) != CUDA_SUCCESS) {
        return 0;
    }
    return memory;
}

static int send_behind(const struct amb_options *client, int64_t linger_ns, bool is_held)
{
    struct session s;
    struct amb_pub *pub;
    memset(&s, 0, sizeof(s));
    s.fake = fake_broker_start(NULL);
    if (amb_connect(fake_broker_url(s.fake), client, &s.conn) != AMB_OK ||
        amb_pub_open(s.conn, "a", AMB_PUB(.linger_ns = linger_ns), &pub) != AMB_OK) {
        return 1;
    }
    if (is_held) { /* Nothing leaves any more: the window is used up. */
        static char bytes[4096];
        fake_broker_hold(s.fake, true);
        fake_broker_hold_window(s.fake, true);
        while (amb_pub_send(pub, bytes, sizeof(bytes), AMB_NOWAIT) == AMB_OK) {
        }
        fake_broker_hold(s.fake, false);
        fake_broker_window(s.fake, 0, 65536 + 8192);
        if (amb_pub_send(pub, "room", 4, 5 * AMB_SEC) != AMB_OK) {
            return 2;
        }
    } else if (amb_pub_send(pub, "host", 4, AMB_SEC) != AMB_OK) {
        return 3;
    }
    CUdeviceptr memory = late_memory();
    for (int i = 0; i < 20; i++) {
        fake_broker_nap(); /* A real driver takes longer than that. */
    }
    if (memory == 0) {
        return 4;
    }
    if (amb_pub_send(pub, (const void *)(uintptr_t)memory, 64, is_held ? AMB_NOWAIT : AMB_SEC) !=
        AMB_OK) {
        return is_held ? 0 : 5; /* No room is an answer, too. */
    }
    fake_broker_hold_window(s.fake, false);
    (void)amb_close(s.conn, AMB_NOWAIT);
    fake_broker_stop(s.fake);
    return 0;
}

static void in_child(const struct amb_options *client, int64_t linger_ns, bool is_held)
{
    pid_t pid = fork();
    if (pid == 0) {
        _exit(send_behind(client, linger_ns, is_held));
    }
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

static void device_memory_is_seen_behind_a_batch_that_lingers(void **state)
{
    (void)state;
    in_child(NULL, 10 * AMB_SEC, false);
}

static void it_is_seen_where_nobody_but_the_program_sends(void **state)
{
    (void)state;
    in_child(AMB_OPTIONS(.progress = AMB_PROGRESS_POLL), 0, false);
}

static void it_is_seen_behind_a_batch_that_may_not_leave(void **state)
{
    (void)state;
    in_child(NULL, 0, true);
}

int main(void)
{
    (void)setenv(AMB_CUDA_LIBRARY_ENV, AMB_FAKECUDA, 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(device_memory_is_seen_behind_a_batch_that_lingers),
        cmocka_unit_test(it_is_seen_where_nobody_but_the_program_sends),
        cmocka_unit_test(it_is_seen_behind_a_batch_that_may_not_leave),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
