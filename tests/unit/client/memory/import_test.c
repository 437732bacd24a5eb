/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The broker's GPU memory in this process, on the fake driver. It is opened once for all who ask,
 * closed with the last connection, refused with a reason. A process plays the broker.
 */
#include "client/memory/import.h"

#include "client/conn/conn.h"
#include "client/drive/lock.h"
#include "client/memory/aside.h"
#include "client/memory/later.h"
#include "client/memory/slots.h"
#include "client/memory/slots_life.h"
#include "client/session/life.h"
#include "tests/unit/client/memory/gpu_begin.h"

#include <string.h>

#define POOL (UINT64_C(4) << 20)

static struct exporter broker;
static struct amb_gpu_range range; /* of its memory */

/* With a borrower. */
static enum amb_status borrow(struct amb_conn *conn, const struct amb_gpu_range *from,
                              uint64_t size, struct amb_imported *out, const char **why)
{
    *out = (struct amb_imported){.import = NULL};
    return amb_gpu_import(conn, from, size, out, why);
}

/* Without one. */
static enum amb_status import(struct amb_conn *conn, const struct amb_gpu_range *from,
                              uint64_t size, struct amb_gpu **gpu, uint64_t *address,
                              const char **why)
{
    struct amb_imported got;
    enum amb_status status = borrow(conn, from, size, &got, why);
    if (status == AMB_OK) {
        *gpu = got.gpu;
        *address = got.address;
        amb_import_return(got.import);
    }
    return status;
}

static void session_over(struct amb_conn *conn)
{
    amb_conn_lock(conn);
    amb_imports_over(conn);
    conn->session.life++;
    amb_conn_unlock(conn);
    amb_later_wait();
}

static int start_broker(void **state)
{
    (void)state;
    int rc = exporter_start(&broker, POOL);
    range = broker.range;
    return rc;
}

static int stop_broker(void **state)
{
    (void)state;
    return exporter_stop(&broker);
}

static void test_a_pool_is_opened_once_and_closed_with_its_last_user(void **state)
{
    (void)state;
    struct amb_conn *a = amb_conn_create(), *b = amb_conn_create();
    struct amb_gpu *gpu = NULL, *other = NULL;
    uint64_t first = 0, second = 0, third = 0;
    const char *why = NULL;
    char back[16];
    range.offset = 4096;
    assert_int_equal(import(a, &range, 4096, &gpu, &first, &why), AMB_OK);
    assert_int_equal(amb_gpu_index(gpu), 1);
    assert_true(fakecuda_peek(first, back, sizeof(back)));
    assert_string_equal(back, "from the broker");
    range.offset = 8192;
    assert_int_equal(import(a, &range, 4096, &gpu, &second, &why), AMB_OK);
    assert_int_equal(second, first + 4096);
    fakecuda_fail("cuIpcOpenMemHandle:1=1"); /* It would be opened twice, and count as two. */
    assert_int_equal(import(b, &range, 4096, &other, &third, &why), AMB_OK);
    fakecuda_fail(NULL);
    assert_int_equal(third, second);
    assert_int_equal(fakecuda_live_device(), 1);
    amb_conn_unref(a);
    amb_later_wait();
    assert_int_equal(fakecuda_live_device(), 1);
    amb_conn_unref(b);
    amb_later_wait();
    assert_int_equal(fakecuda_live_device(), 0);
}

/* As with a driver: the exporter's death gives nothing back while somebody has it open. */
static void test_memory_is_charged_until_its_last_import_is_closed(void **state)
{
    (void)state;
    struct amb_conn *conn = amb_conn_create();
    struct amb_gpu *gpu;
    uint64_t address;
    const char *why = NULL;
    range.offset = 0;
    assert_int_equal(fakecuda_used(1), POOL);
    assert_int_equal(import(conn, &range, 4096, &gpu, &address, &why), AMB_OK);
    assert_int_equal(fakecuda_used(1), POOL);
    exporter_kill(&broker);
    assert_int_equal(fakecuda_used(1), POOL);
    amb_conn_unref(conn);
    amb_later_wait();
    assert_int_equal(fakecuda_used(1), 0);
    assert_int_equal(fakecuda_faults(), 0);
}

/* ... and a free while somebody has it open is undefined. */
static void test_a_free_of_what_is_open_is_a_fault(void **state)
{
    (void)state;
    struct amb_conn *conn = amb_conn_create();
    struct amb_gpu *gpu;
    uint64_t address;
    const char *why = NULL;
    char byte;
    range.offset = 0;
    assert_int_equal(import(conn, &range, 4096, &gpu, &address, &why), AMB_OK);
    assert_int_equal(kill(broker.pid, SIGUSR1), 0);
    assert_int_equal(read(broker.from, &byte, 1), 1);
    assert_int_equal(fakecuda_faults(), 1);
    assert_int_equal(fakecuda_used(1), POOL);
    amb_conn_unref(conn);
    amb_later_wait();
    assert_int_equal(fakecuda_used(1), 0);
}

/* A connection outlives its broker, and may not keep the next one from its GPU memory. */
static void test_a_session_that_is_over_keeps_what_is_borrowed_and_no_longer(void **state)
{
    (void)state;
    struct amb_conn *conn = amb_conn_create();
    struct amb_imported first, second;
    const char *why = NULL;
    char back[16];
    range.offset = 4096;
    range.life = 0;
    assert_int_equal(borrow(conn, &range, 4096, &first, &why), AMB_OK);
    assert_int_equal(borrow(conn, &range, 4096, &second, &why), AMB_OK);
    assert_ptr_equal(first.import, second.import);
    amb_import_return(first.import);
    exporter_kill(&broker);
    session_over(conn);
    assert_int_equal(fakecuda_used(1), POOL);
    assert_true(fakecuda_peek(second.address, back, sizeof(back)));
    assert_string_equal(back, "from the broker");
    amb_import_return(second.import);
    amb_later_wait();
    assert_int_equal(fakecuda_used(1), 0);
    assert_int_equal(fakecuda_live_device(), 0);
    amb_conn_unref(conn);
}

/* An import without a borrower stays open for the session, and goes with it. */
static void test_a_pool_stays_open_for_its_session(void **state)
{
    (void)state;
    struct amb_conn *conn = amb_conn_create();
    struct amb_gpu *gpu;
    uint64_t address, once_more;
    const char *why = NULL;
    range.offset = 0;
    range.life = 0;
    assert_int_equal(import(conn, &range, 4096, &gpu, &address, &why), AMB_OK);
    amb_later_wait();
    assert_int_equal(fakecuda_live_device(), 1);
    assert_int_equal(import(conn, &range, 4096, &gpu, &once_more, &why), AMB_OK);
    assert_int_equal(once_more, address);
    session_over(conn);
    assert_int_equal(fakecuda_live_device(), 0);
    range.life = 1; /* The same broker, and another session. */
    assert_int_equal(import(conn, &range, 4096, &gpu, &address, &why), AMB_OK);
    assert_int_equal(fakecuda_live_device(), 1);
    range.life = 0; /* Told in the session that is over: it came late. */
    assert_int_equal(import(conn, &range, 4096, &gpu, &address, &why), AMB_OK);
    assert_int_equal(fakecuda_live_device(), 1);
    session_over(conn);
    assert_int_equal(fakecuda_live_device(), 0);
    amb_conn_unref(conn);
}

/* Its mapping is there still. A pool that is forgotten would be opened twice. */
static void test_a_pool_whose_close_fails_is_not_forgotten(void **state)
{
    (void)state;
    struct amb_conn *conn = amb_conn_create();
    struct amb_gpu *gpu;
    uint64_t address, once_more;
    const char *why = NULL;
    range.offset = 0;
    range.life = 0;
    range.epoch = 1;
    assert_int_equal(import(conn, &range, 4096, &gpu, &address, &why), AMB_OK);
    fakecuda_fail("cuIpcCloseMemHandle:1=999,cuIpcOpenMemHandle:1=2");
    session_over(conn);
    assert_int_equal(fakecuda_live_device(), 1);
    range.life = 1;
    assert_int_equal(import(conn, &range, 4096, &gpu, &once_more, &why), AMB_OK);
    assert_int_equal(once_more, address);
    session_over(conn);
    assert_int_equal(fakecuda_live_device(), 0);
    fakecuda_fail(NULL);
    range.life = 2;
    assert_int_equal(import(conn, &range, 4096, &gpu, &address, &why), AMB_OK);
    fakecuda_fail("cuCtxPushCurrent:1=999");
    session_over(conn);
    assert_int_equal(fakecuda_live_device(), 1);
    fakecuda_fail(NULL);
    range.life = 3;
    range.epoch = 2; /* Another broker's: the former one's is closed first. */
    assert_int_equal(import(conn, &range, 4096, &gpu, &address, &why), AMB_OK);
    assert_int_equal(fakecuda_live_device(), 1);
    amb_conn_unref(conn);
    amb_later_wait();
    assert_int_equal(fakecuda_live_device(), 0);
}

/* A close waits for the device, and a kernel there may wait for our next message. */
static void test_a_session_ends_while_a_device_is_busy(void **state)
{
    (void)state;
    struct amb_conn *conn = amb_conn_create();
    struct amb_gpu *gpu;
    uint64_t address;
    const char *why = NULL;
    struct busy busy;
    range.offset = 0;
    range.life = 0;
    assert_int_equal(import(conn, &range, 4096, &gpu, &address, &why), AMB_OK);
    busy_begin(&busy, gpu);
    amb_conn_lock(conn);
    amb_imports_over(conn);
    amb_conn_unlock(conn);
    assert_int_equal(fakecuda_live_device(), 2);
    fakecuda_hold(false);
    amb_later_wait();
    busy_end(&busy);
    assert_int_equal(fakecuda_live_device(), 0);
    assert_int_equal(fakecuda_faults(), 0);
    amb_conn_unref(conn);
}

/* A broker that starts again may have the same handle, and CUDA the former mapping. */
static void test_a_handle_is_one_broker_lifes(void **state)
{
    (void)state;
    struct amb_conn *former = amb_conn_create(), *conn = amb_conn_create();
    struct amb_gpu *gpu;
    uint64_t address;
    const char *why = NULL;
    struct amb_gpu_range own = range;
    own.epoch = 1;
    own.offset = 0;
    assert_int_equal(import(former, &own, 4096, &gpu, &address, &why), AMB_OK);
    own.epoch = 2;
    assert_int_equal(import(former, &own, 4096, &gpu, &address, &why), AMB_EBUSY);
    assert_int_equal(import(conn, &own, 4096, &gpu, &address, &why), AMB_EBUSY);
    assert_non_null(strstr(why, "same handle"));
    amb_conn_unref(former);
    assert_int_equal(import(conn, &own, 4096, &gpu, &address, &why), AMB_OK);
    assert_int_equal(amb_gpu_index(gpu), 1);
    /* Nor is it another device's. */
    struct amb_cuda *cuda;
    uint64_t elsewhere = 0;
    assert_int_equal(amb_cuda_at(0, &cuda), AMB_OK);
    (void)snprintf(own.device, sizeof(own.device), "%s", amb_cuda_info(cuda)->uuid);
    enum amb_status status = import(conn, &own, 4096, &gpu, &elsewhere, &why);
    assert_true(status != AMB_OK || elsewhere != address);
    amb_conn_unref(conn);
    amb_later_wait();
    assert_int_equal(fakecuda_live_device(), 0);
}

static void test_what_cannot_be_is_refused_with_a_reason(void **state)
{
    (void)state;
    struct amb_conn *conn = amb_conn_create();
    struct amb_gpu *gpu;
    uint64_t address;
    const char *why = NULL;
    const struct amb_gpu_range right = range;
    struct amb_gpu_range wrong = right;
    wrong.offset = POOL - 4096;
    assert_int_equal(import(conn, &wrong, 8192, &gpu, &address, &why), AMB_EPROTO);
    wrong = right;
    wrong.pool = 2 * POOL; /* More than there is. */
    assert_int_equal(import(conn, &wrong, 4096, &gpu, &address, &why), AMB_EPROTO);
    wrong = right;
    (void)snprintf(wrong.device, sizeof(wrong.device), "GPU-elsewhere");
    assert_int_equal(import(conn, &wrong, 4096, &gpu, &address, &why), AMB_ENOTFOUND);
    assert_non_null(strstr(why, "CUDA_VISIBLE_DEVICES"));
    wrong = right;
    memset(wrong.handle, 7, sizeof(wrong.handle));
    assert_int_equal(import(conn, &wrong, 4096, &gpu, &address, &why), AMB_ENOTSUP);
    assert_non_null(strstr(why, "IPC"));
    assert_int_equal(fakecuda_live_device(), 0);
    amb_conn_unref(conn);
}

/* The lock is given up while the pool is opened, and a session may end and another begin. */
static void test_a_segment_of_a_former_session_is_not_announced(void **state)
{
    (void)state;
    struct amb_conn *conn = amb_conn_create();
    struct amb_slots *slots = calloc(1, sizeof(*slots) + sizeof(slots->next[0]));
    struct amb_gpu *gpu;
    assert_non_null(slots);
    assert_int_equal(amb_gpu_get(conn, 1, &gpu), AMB_OK);
    range.offset = 0;
    *slots = (struct amb_slots){.conn = conn,
                                .state = AMB_SLOTS_OPENED,
                                .fd = -1,
                                .gpu = gpu,
                                .size = 4096,
                                .slot = 4096,
                                .count = 1,
                                .is_over = true,
                                .request = {.range = range, .fd = -1}};
    amb_list_init(&slots->request.node);
    amb_conn_lock(conn);
    amb_gpu_room_of(gpu)->bytes += slots->slot;
    amb_list_push_back(&conn->leases.gpu_segments, &slots->node);
    conn->leases.has_work = true;
    amb_slots_turn(conn, amb_clock_monotonic_ns());
    amb_conn_unlock(conn);
    amb_asides_wait(conn);
    amb_conn_lock(conn);
    assert_true(amb_list_is_empty(&conn->leases.gpu_segments));
    assert_true(amb_list_is_empty(&conn->control.requests));
    assert_int_equal(amb_gpu_room_of(gpu)->bytes, 0);
    amb_conn_unlock(conn);
    amb_conn_unref(conn);
    amb_later_wait();
    assert_int_equal(fakecuda_live_device(), 0);
}

static void test_what_the_broker_says_is_read_or_refused(void **state)
{
    (void)state;
    struct amb_gpu_range out;
    uint8_t handle[AMB_CUDA_IPC_BYTES] = {1};
    char name[] = "GPU-1", longer[AMB_GPU_NAME_BYTES + 1], empty[] = "";
    struct amb_conn *conn = amb_conn_create();
    conn->session.epoch = 9;
    conn->session.life = 3;
    Amb__Control__GpuRange said;
    amb__control__gpu_range__init(&said);
    assert_true(amb_gpu_range_read(conn, NULL, &out));
    assert_int_equal(out.device[0], 0);
    said.device = name;
    said.handle.data = handle;
    said.handle.len = sizeof(handle);
    said.offset = 5;
    assert_true(amb_gpu_range_read(conn, &said, &out));
    assert_string_equal(out.device, "GPU-1");
    assert_int_equal(out.offset, 5);
    assert_int_equal(out.epoch, 9);
    assert_int_equal(out.life, 3);
    said.handle.len--;
    assert_false(amb_gpu_range_read(conn, &said, &out));
    said.handle.len++;
    said.device = empty;
    assert_false(amb_gpu_range_read(conn, &said, &out));
    memset(longer, 'x', AMB_GPU_NAME_BYTES);
    longer[AMB_GPU_NAME_BYTES] = '\0';
    said.device = longer;
    assert_false(amb_gpu_range_read(conn, &said, &out));
    amb_conn_unref(conn);
}

int main(void)
{
    char machine[64];
    fake_machine(machine, sizeof(machine), "import");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_the_broker_says_is_read_or_refused),
        cmocka_unit_test_setup_teardown(test_a_pool_is_opened_once_and_closed_with_its_last_user,
                                        start_broker, stop_broker),
        cmocka_unit_test_setup_teardown(test_memory_is_charged_until_its_last_import_is_closed,
                                        start_broker, stop_broker),
        cmocka_unit_test_setup_teardown(
            test_a_session_that_is_over_keeps_what_is_borrowed_and_no_longer, start_broker,
            stop_broker),
        cmocka_unit_test_setup_teardown(test_a_pool_stays_open_for_its_session, start_broker,
                                        stop_broker),
        cmocka_unit_test_setup_teardown(test_a_session_ends_while_a_device_is_busy, start_broker,
                                        stop_broker),
        cmocka_unit_test_setup_teardown(test_a_segment_of_a_former_session_is_not_announced,
                                        start_broker, stop_broker),
        cmocka_unit_test_setup_teardown(test_a_pool_whose_close_fails_is_not_forgotten,
                                        start_broker, stop_broker),
        cmocka_unit_test_setup_teardown(test_a_handle_is_one_broker_lifes, start_broker,
                                        stop_broker),
        cmocka_unit_test_setup_teardown(test_what_cannot_be_is_refused_with_a_reason, start_broker,
                                        stop_broker),
        cmocka_unit_test_setup_teardown(test_a_free_of_what_is_open_is_a_fault, start_broker,
                                        stop_broker),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    (void)unlink(machine);
    return failed;
}
