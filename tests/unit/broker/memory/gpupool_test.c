/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The broker's pools on the fake driver: the devices that get one, ranges of it, reads by the
 * copier, and the loss of a device.
 */
#include "broker/memory/gpupool.h"

#include "broker/config/config.h"
#include "tests/fakecuda/fakecuda.h"
#include "tests/support/config_try.h"

#include "wire/base/list.h"
#include "wire/base/log.h"

#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static struct amb_config *config;
static struct amb_gpus gpus;
static char error[256];
#define LOG_SIZE 4096

static enum amb_status start(const char *text)
{
    config = try_accept(text);
    memset(&gpus, 0, sizeof(gpus));
    error[0] = '\0';
    return amb_gpus_start(&gpus, config, error, sizeof(error));
}

static void stop(void)
{
    amb_gpus_stop(&gpus);
    amb_gpus_fini(&gpus);
    amb_config_destroy(&config);
    fakecuda_fail(NULL);
    assert_int_equal(fakecuda_live_device() + fakecuda_live_pinned() + fakecuda_live_streams() +
                         fakecuda_live_events(),
                     0);
}

/* A copy by the copier. */
struct copy {
    struct amb_mail mail;
    void *to;
    uint64_t from, len;
    enum amb_status status;
    _Atomic bool is_over;
};

static void copied(void *arg, enum amb_status status)
{
    struct copy *copy = arg;
    copy->status = status;
    copy->is_over = true;
}

static void copy_asked(struct amb_mail *mail, void *owner)
{
    struct copy *copy = AMB_CONTAINER_OF(mail, struct copy, mail);
    amb_gpu_pool_read(owner, copy->to, copy->from, copy->len);
    amb_gpu_pool_read_end(owner, copy, copied);
}

static enum amb_status copy_await(const struct copy *copy)
{
    while (!copy->is_over) {
        (void)sched_yield();
    }
    return copy->status;
}

static enum amb_status read_now(struct amb_gpu_pool *pool, void *to, uint64_t from, uint64_t len)
{
    struct copy copy = {.to = to, .from = from, .len = len};
    amb_gpu_pool_post(pool, &copy.mail, copy_asked);
    return copy_await(&copy);
}

static void remember(enum amb_log_level level, const char *line, void *arg)
{
    (void)level;
    char *log = arg;
    size_t len = strlen(log);
    (void)snprintf(log + len, LOG_SIZE - len, "%s\n", line);
}

static void test_nothing_is_touched_where_none_is_asked_for(void **state)
{
    (void)state;
    unsigned long calls = fakecuda_calls();
    assert_int_equal(start(""), AMB_OK);
    assert_int_equal(gpus.count, 0);
    assert_true(strlen(gpus.why_not) > 0);
    assert_int_equal(fakecuda_calls(), calls);
    stop();
}

static void expect_addresses(const char *text, size_t count, const char *first)
{
    const char *addresses[AMB_CUDA_DEVICES_MAX];
    struct amb_config *own = try_accept(text);
    assert_int_equal(amb_gpus_addresses(own, addresses, AMB_CUDA_DEVICES_MAX), count);
    if (count > 0) {
        assert_string_equal(addresses[0], first);
        assert_int_equal(amb_gpus_addresses(own, addresses, 1), 1);
    }
    amb_config_destroy(&own);
}

static void test_addresses_are_those_of_the_gpus_to_be_used(void **state)
{
    (void)state;
    const char *last;
    struct amb_config *all = try_accept("memory = { cuda = { size = \"16M\"; }; };");
    const char *addresses[AMB_CUDA_DEVICES_MAX];
    assert_int_equal(amb_gpus_addresses(all, addresses, AMB_CUDA_DEVICES_MAX), 2);
    last = addresses[1];
    assert_string_not_equal(addresses[0], last);
    expect_addresses("", 0, NULL);
    expect_addresses("memory = { cuda = { size = \"16M\"; devices = ( \"1\" ); }; };", 1, last);
    expect_addresses("memory = { cuda = { size = \"16M\"; devices = ( \"7\", \"1\" ); }; };", 1,
                     last);
    amb_config_destroy(&all);
}

static void test_auto_is_every_device(void **state)
{
    (void)state;
    assert_int_equal(start("memory = { cuda = { size = \"16M\"; }; };"), AMB_OK);
    assert_int_equal(gpus.count, 2);
    for (uint32_t i = 0; i < gpus.count; i++) {
        struct amb_gpu_pool *pool = &gpus.pools[i];
        assert_true(pool->is_exported && amb_gpu_pool_is_sound(pool));
        assert_ptr_equal(amb_gpus_find(&gpus, amb_cuda_info(pool->cuda)->uuid), pool);
    }
    assert_null(amb_gpus_find(&gpus, "GPU-none"));
    stop();
}

static void test_devices_are_named_by_index_uuid_and_address(void **state)
{
    (void)state;
    struct amb_cuda *device;
    char text[256];
    assert_int_equal(amb_cuda_at(1, &device), AMB_OK);
    const char *names[] = {"1", amb_cuda_info(device)->uuid, amb_cuda_info(device)->pci};
    for (size_t i = 0; i < 3; i++) {
        (void)snprintf(text, sizeof(text),
                       "memory = { cuda = { size = \"16M\"; devices = ( \"%s\" ); }; };", names[i]);
        assert_int_equal(start(text), AMB_OK);
        assert_int_equal(gpus.count, 1);
        assert_int_equal(amb_cuda_info(gpus.pools[0].cuda)->index, 1);
        stop();
    }
}

static void test_what_is_asked_for_and_is_not_there_stops_the_start(void **state)
{
    (void)state;
    assert_int_equal(start("memory = { cuda = { size = \"16M\"; devices = ( \"7\" ); }; };"),
                     AMB_ENOTFOUND);
    assert_non_null(strstr(error, "memory.cuda.devices: there is no GPU \"7\""));
    stop();
    assert_int_equal(start("memory = { cuda = { size = \"3000G\"; }; };"), AMB_ENOMEM);
    assert_non_null(strstr(error, "on GPU 0: cuMemAlloc: "));
    stop();
}

/* The driver's memory is another's. The broker's former life may be that. */
static void test_a_full_device_gets_its_pool_later(void **state)
{
    (void)state;
    char log[LOG_SIZE] = "";
    struct amb_cuda *device;
    struct amb_cuda_scope scope;
    uint64_t others;
    assert_int_equal(amb_cuda_at(1, &device), AMB_OK);
    assert_int_equal(amb_cuda_enter(device, &scope), AMB_OK);
    assert_int_equal(amb_cuda_alloc(device, amb_cuda_info(device)->memory - 4096, &others), AMB_OK);
    amb_log_set_sink(remember, log);
    assert_int_equal(start("memory = { cuda = { size = \"16M\"; }; };"), AMB_OK);
    assert_int_equal(gpus.count, 2);
    assert_true(amb_gpu_pool_is_made(&gpus.pools[0]));
    assert_false(amb_gpu_pool_is_made(&gpus.pools[1]));
    assert_non_null(strstr(log, "GPU 1: no room for a pool of 16777216 bytes (cuMemAlloc: "));
    assert_int_equal(amb_gpu_pool_used(&gpus.pools[1]), 0);
    amb_cuda_free(device, others);
    amb_cuda_leave(&scope);
    for (int i = 0; i < 5000 && !amb_gpu_pool_is_made(&gpus.pools[1]); i++) {
        (void)usleep(1000);
    }
    uint64_t at;
    assert_true(amb_gpu_pool_is_made(&gpus.pools[1]) && gpus.pools[1].is_exported);
    assert_int_equal(amb_gpu_pool_take(&gpus.pools[1], AMB_GPU_UNIT, &at), AMB_OK);
    amb_log_set_sink(NULL, NULL);
    stop();
}

/* Others may have it open, and to free it then is undefined. */
static void keep_what_was_given(void)
{
    assert_int_equal(start("memory = { cuda = { size = \"16M\"; }; };"), AMB_OK);
    assert_int_equal(fakecuda_live_device(), 2);
    amb_gpu_pool_give_away(&gpus.pools[1]);
    amb_gpus_stop(&gpus);
    amb_gpus_fini(&gpus);
    amb_config_destroy(&config);
    assert_int_equal(fakecuda_live_device(), 1);
}

/* In a process of its own, whose devices nobody has used. */
static void a_device_that_cannot_be_used(void)
{
    char log[LOG_SIZE] = "";
    amb_log_set_sink(remember, log);
    fakecuda_fail("cuDevicePrimaryCtxRetain:1=46");
    assert_int_equal(start("memory = { cuda = { size = \"16M\"; devices = ( \"1\" ); }; };"),
                     AMB_ECUDA);
    assert_non_null(strstr(error, "memory.cuda.devices: GPU \"1\" cannot be used"));
    assert_non_null(strstr(log, "GPU 1 cannot be used: cuDevicePrimaryCtxRetain"));
    stop();
}

/* Others have left too little for a context even; and then the driver answers something else. */
static void a_device_without_room_for_a_context(void)
{
    char log[LOG_SIZE] = "";
    amb_log_set_sink(remember, log);
    fakecuda_fail("cuDevicePrimaryCtxRetain:1=2,cuDevicePrimaryCtxRetain:2=2");
    assert_int_equal(start("memory = { cuda = { size = \"16M\"; devices = ( \"1\" ); }; };"),
                     AMB_OK);
    struct amb_gpu_pool *pool = &gpus.pools[0];
    assert_false(amb_gpu_pool_is_made(pool));
    assert_non_null(strstr(log, "GPU 1: no room for a pool of 16777216 bytes (cuDevicePrimaryCtx"));
    fakecuda_fail("cuMemAlloc:1=999");
    for (int i = 0; i < 8000 && !amb_gpu_pool_is_made(pool); i++) {
        (void)usleep(1000);
    }
    assert_true(amb_gpu_pool_is_made(pool) && pool->is_exported);
    assert_non_null(strstr(log, "GPU 1: no pool yet: cuMemAlloc: "));
    uint8_t back[4];
    assert_int_equal(read_now(pool, back, pool->base, 4), AMB_OK);
    amb_log_set_sink(NULL, NULL);
    stop();
}

/* From none to enough of them; the fake driver's memory takes some, too. */
static void without_descriptors(void)
{
    struct rlimit files;
    bool is_seen = false;
    enum amb_status status = AMB_ELIMIT;
    assert_int_equal(amb_cuda_start(), AMB_OK);
    config = try_accept("memory = { cuda = { size = \"16M\"; }; };");
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &files), 0);
    for (files.rlim_cur = 0; files.rlim_cur < 64 && status != AMB_OK; files.rlim_cur++) {
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &files), 0);
        memset(&gpus, 0, sizeof(gpus));
        error[0] = '\0';
        status = amb_gpus_start(&gpus, config, error, sizeof(error));
        assert_true(status == AMB_OK || strncmp(error, "memory.cuda", 11) == 0);
        is_seen = is_seen || strstr(error, "memory.cuda: no descriptor for the copier: ") == error;
        amb_gpus_stop(&gpus);
        amb_gpus_fini(&gpus);
    }
    assert_int_equal(status, AMB_OK);
    assert_true(is_seen);
    amb_config_destroy(&config);
}

/* The device stays sound: a failure that is not sticky. */
static void a_copy_that_fails(void)
{
    char log[LOG_SIZE] = "";
    uint8_t back[4];
    assert_int_equal(start("memory = { cuda = { size = \"16M\"; devices = ( \"1\" ); }; };"),
                     AMB_OK);
    amb_log_set_sink(remember, log);
    struct amb_gpu_pool *pool = &gpus.pools[0];
    for (unsigned i = 0; i < 3; i++) {
        fakecuda_fail("cuMemcpyAsync:1=1");
        assert_int_equal(read_now(pool, back, pool->base, 4), AMB_ECUDA);
    }
    assert_true(amb_gpu_pool_is_sound(pool));
    const char *line = strstr(log, "GPU 1: a copy to host memory failed: cuMemcpyAsync: ");
    assert_non_null(line);
    assert_null(strstr(line + 1, "GPU 1: a copy"));
    stop();
}

static void in_child(void (*body)(void))
{
    int status = -1;
    pid_t pid = fork();
    if (pid == 0) {
        body();
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

static void test_each_failure_has_a_sentence(void **state)
{
    (void)state;
    in_child(a_device_that_cannot_be_used);
    in_child(a_device_without_room_for_a_context);
    in_child(without_descriptors);
    in_child(a_copy_that_fails);
}

static void test_a_pool_that_was_given_away_goes_with_the_process(void **state)
{
    (void)state;
    in_child(keep_what_was_given);
}

static void test_any_call_may_fail_at_the_start(void **state)
{
    (void)state;
    bool has_started = false, has_waited = false;
    for (unsigned i = 1; i < 100 && !has_started; i++) {
        char plan[32];
        (void)snprintf(plan, sizeof(plan), "*:%u=2", i);
        fakecuda_fail(plan);
        enum amb_status status = start("memory = { cuda = { size = \"16M\"; }; };");
        /* One that fails later is the copier's business, or a handle's: then copies serve. */
        has_started = status == AMB_OK && gpus.pools[0].is_exported && gpus.pools[1].is_exported;
        has_waited = has_waited || (status == AMB_OK && !amb_gpu_pool_is_made(&gpus.pools[0]));
        assert_true(status == AMB_OK || error[0] != '\0');
        stop();
    }
    assert_true(has_started && has_waited);
}

static void test_ranges_are_apart_and_come_back(void **state)
{
    (void)state;
    uint64_t at[8], more;
    assert_int_equal(start("memory = { cuda = { size = \"16M\"; devices = ( \"0\" ); }; };"),
                     AMB_OK);
    struct amb_gpu_pool *pool = &gpus.pools[0];
    for (unsigned i = 0; i < 8; i++) {
        assert_int_equal(amb_gpu_pool_take(pool, AMB_GPU_UNIT, &at[i]), AMB_OK);
        assert_int_equal(at[i], i * AMB_GPU_UNIT);
    }
    assert_int_equal(amb_gpu_pool_take(pool, AMB_GPU_UNIT, &more), AMB_ENOMEM);
    assert_int_equal(amb_gpu_pool_used(pool), pool->size);
    amb_gpu_pool_give(pool, at[2], AMB_GPU_UNIT);
    amb_gpu_pool_give(pool, at[4], AMB_GPU_UNIT);
    assert_int_equal(amb_gpu_pool_take(pool, 2 * AMB_GPU_UNIT, &more), AMB_ENOMEM);
    amb_gpu_pool_give(pool, at[3], AMB_GPU_UNIT);
    assert_int_equal(amb_gpu_pool_take(pool, 3 * AMB_GPU_UNIT, &more), AMB_OK);
    assert_int_equal(more, at[2]);
    stop();
}

static void test_a_gpu_that_is_stuck_holds_no_other_one_back(void **state)
{
    (void)state;
    char back[2][4] = {"", ""};
    struct copy copies[2];
    assert_int_equal(start("memory = { cuda = { size = \"16M\"; }; };"), AMB_OK);
    fakecuda_hold_device(0);
    for (unsigned i = 0; i < 2; i++) {
        struct amb_gpu_pool *pool = &gpus.pools[i];
        assert_true(fakecuda_poke(pool->base, i == 0 ? "one" : "two", 4));
        copies[i] = (struct copy){.to = back[i], .from = pool->base, .len = 4};
        amb_gpu_pool_post(pool, &copies[i].mail, copy_asked);
    }
    assert_int_equal(copy_await(&copies[1]), AMB_OK);
    assert_string_equal(back[1], "two");
    assert_false(copies[0].is_over);
    fakecuda_hold_device(-1);
    assert_int_equal(copy_await(&copies[0]), AMB_OK);
    assert_string_equal(back[0], "one");
    stop();
}

/* In a process of its own: a device that is lost stays so, with all that was made in it. */
static void lose_a_device(void)
{
    uint8_t back[4] = {0};
    assert_int_equal(start("memory = { cuda = { size = \"16M\"; devices = ( \"1\" ); }; };"),
                     AMB_OK);
    struct amb_gpu_pool *pool = &gpus.pools[0];
    assert_true(fakecuda_poke(pool->base + 8, "abcd", 4));
    assert_int_equal(read_now(pool, back, pool->base + 8, 4), AMB_OK);
    assert_memory_equal(back, "abcd", 4);
    fakecuda_fail("cuMemcpyAsync:1=719");
    assert_int_equal(read_now(pool, back, pool->base + 8, 4), AMB_ECUDA);
    assert_false(amb_gpu_pool_is_sound(pool));
    assert_int_equal(read_now(pool, back, pool->base + 8, 4), AMB_ECUDA);
    amb_gpus_stop(&gpus);
    amb_gpus_fini(&gpus);
    amb_config_destroy(&config);
}

static void test_a_device_that_is_lost_is_noticed(void **state)
{
    (void)state;
    in_child(lose_a_device);
}

int main(void)
{
    (void)setenv(AMB_CUDA_LIBRARY_ENV, AMB_FAKECUDA, 1);
    const struct CMUnitTest tests[] = {
        /* Children; CUDA does not survive fork, so that they come before a device was used. */
        cmocka_unit_test(test_each_failure_has_a_sentence),
        cmocka_unit_test(test_a_pool_that_was_given_away_goes_with_the_process),
        cmocka_unit_test(test_a_device_that_is_lost_is_noticed),
        cmocka_unit_test(test_nothing_is_touched_where_none_is_asked_for),
        cmocka_unit_test(test_addresses_are_those_of_the_gpus_to_be_used),
        cmocka_unit_test(test_auto_is_every_device),
        cmocka_unit_test(test_devices_are_named_by_index_uuid_and_address),
        cmocka_unit_test(test_what_is_asked_for_and_is_not_there_stops_the_start),
        cmocka_unit_test(test_any_call_may_fail_at_the_start),
        cmocka_unit_test(test_ranges_are_apart_and_come_back),
        cmocka_unit_test(test_a_full_device_gets_its_pool_later), /* No child has its engine. */
        cmocka_unit_test(test_a_gpu_that_is_stuck_holds_no_other_one_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
