/* SPDX-License-Identifier: Apache-2.0 */
/* Publishing device memory, on the fake driver: a host dereference of it would crash the test. */
#include "tests/fakecuda/fakecuda.h"
#include "tests/unit/client/session.h"

#include "client/conn/conn.h"
#include "client/drive/lock.h"
#include "wire/codec/props.h"
#include "wire/mem/cuda.h"

#include <cuda.h>
#include <stdlib.h>

#define MIB ((size_t)1 << 20)

static struct fake_options with_leases = {.lease_bytes = 64 * MIB, .max_message = 8 * MIB};
static struct fake_options on_stream = {.link = AMB_LINK_STREAM, .max_message = 8 * MIB};

static CUcontext context;

static uint64_t device_memory(size_t len, uint8_t value)
{
    CUdeviceptr memory;
    assert_int_equal(cuMemAlloc(&memory, len), CUDA_SUCCESS);
    uint8_t *bytes = malloc(len);
    assert_non_null(bytes);
    memset(bytes, value, len);
    assert_true(fakecuda_poke(memory, bytes, len));
    free(bytes);
    return memory;
}

static const void *as_data(uint64_t memory)
{
    return (const void *)(uintptr_t)memory;
}

static struct amb_pub *open_pub(struct session *s, const struct fake_options *options)
{
    session_open(s, options, NULL);
    struct amb_pub *pub;
    assert_int_equal(amb_pub_open(s->conn, "a", NULL, &pub), AMB_OK);
    return pub;
}

static uint64_t staged_bytes(struct amb_pub *pub)
{
    struct amb_pub_info info = AMB_INIT(amb_pub_info);
    assert_int_equal(amb_pub_stat(pub, &info), AMB_OK);
    return info.staged_bytes;
}

static void a_plain_send_of_device_memory_arrives(void **state)
{
    (void)state;
    struct session s;
    struct amb_pub *pub = open_pub(&s, &with_leases);
    const size_t sizes[] = {1, 1000, 16384, 65536, 3 * MIB + 5};
    uint64_t memory = device_memory(4 * MIB, 0xd5), sum = 0;
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        assert_int_equal(amb_pub_send(pub, as_data(memory + i), sizes[i], 10 * AMB_SEC), AMB_OK);
        assert_int_equal(amb_pub_flush(pub, 0, 10 * AMB_SEC), AMB_OK);
        fake_broker_look(s.fake, &s.seen);
        assert_int_equal(s.seen.msgs[0], i + 1);
        assert_int_equal(s.seen.last_len, amb_payload_padded(sizes[i]));
        assert_int_equal(s.seen.last[0], 0xd5);
        assert_int_equal(s.seen.last[sizes[i] < 4096 ? sizes[i] - 1 : 4095], 0xd5);
        sum += sizes[i];
    }
    assert_int_equal(staged_bytes(pub), sum);
    assert_int_equal(s.seen.commits[0], 3); /* The larger ones go straight into slots. */
    session_close(&s);
    assert_int_equal(cuMemFree(memory), CUDA_SUCCESS);
}

static void it_arrives_over_a_stream_too(void **state)
{
    (void)state;
    struct session s;
    struct amb_pub *pub = open_pub(&s, &on_stream);
    uint64_t memory = device_memory(2 * MIB, 0x31);
    assert_int_equal(amb_pub_send(pub, as_data(memory), 2 * MIB, 10 * AMB_SEC), AMB_OK);
    assert_int_equal(amb_pub_flush(pub, 0, 10 * AMB_SEC), AMB_OK);
    fake_broker_look(s.fake, &s.seen);
    assert_int_equal(s.seen.last_len, 2 * MIB);
    assert_int_equal(s.seen.last[4095], 0x31);
    session_close(&s);
    assert_int_equal(cuMemFree(memory), CUDA_SUCCESS);
}

static void device_and_host_messages_share_a_batch_in_order(void **state)
{
    (void)state;
    struct session s;
    struct amb_pub *pub = open_pub(&s, &with_leases);
    uint64_t memory = device_memory(64, 'd');
    for (int i = 0; i < 8; i++) {
        assert_int_equal(amb_pub_send(pub, "host", 4, 10 * AMB_SEC), AMB_OK);
        assert_int_equal(amb_pub_send(pub, as_data(memory), 4, 10 * AMB_SEC), AMB_OK);
    }
    /* The order of two publishers' first batches is not said: the other's batch may have lingered
     * long. */
    assert_int_equal(amb_pub_flush(pub, 0, 10 * AMB_SEC), AMB_OK);
    assert_int_equal(amb_publish(s.conn, "b", as_data(memory), 4, 10 * AMB_SEC), AMB_OK);
    assert_int_equal(amb_flush(s.conn, 10 * AMB_SEC), AMB_OK);
    fake_broker_look(s.fake, &s.seen);
    assert_int_equal(s.seen.msgs[0], 16);
    assert_int_equal(s.seen.msgs[1], 1);
    assert_memory_equal(s.seen.last, "dddd", 4);
    session_close(&s);
    assert_int_equal(cuMemFree(memory), CUDA_SUCCESS);
}

static void a_post_carries_properties_and_a_tensor(void **state)
{
    (void)state;
    struct session s;
    struct amb_pub *pub = open_pub(&s, &with_leases);
    uint64_t memory = device_memory(MIB, 7), seq = 0;
    const struct amb_tensor tensor = {
        .code = 2, .bits = 32, .lanes = 1, .ndim = 2, .shape = {512, 512}};
    const size_t sizes[] = {1024, MIB};
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(amb_pub_post(pub,
                                      AMB_OUT(.mem = AMB_MEM_CUDA, .data = as_data(memory),
                                              .len = sizes[i], .key = "k", .tensor = &tensor),
                                      10 * AMB_SEC, &seq),
                         AMB_OK);
        assert_int_equal(seq, i + 1);
        assert_int_equal(amb_pub_flush(pub, seq, 10 * AMB_SEC), AMB_OK);
        fake_broker_look(s.fake, &s.seen);
        const uint8_t *meta = i == 0 ? s.seen.last + sizes[0] : s.seen.last_meta;
        struct amb_record record;
        struct amb_prop_view view;
        memcpy(&record, meta, sizeof(record));
        assert_int_equal(record.len, sizes[i]);
        assert_true(amb_props_find(meta + sizeof(record) + (i == 0 ? 0 : 8), record.props_len,
                                   AMB_PROP_TENSOR, &view));
    }
    session_close(&s);
    assert_int_equal(cuMemFree(memory), CUDA_SUCCESS);
}

struct held {
    struct amb_pub *pub;
    uint64_t memory;
    CUstream stream;
    enum amb_status status;
};

static void *post_held(void *arg)
{
    struct held *held = arg;
    held->status = amb_pub_post(
        held->pub, AMB_OUT(.data = as_data(held->memory), .len = 4096, .stream = held->stream),
        10 * AMB_SEC, NULL);
    return NULL;
}

static void the_bytes_are_those_behind_the_stream(void **state)
{
    (void)state;
    struct session s;
    struct held held = {.pub = open_pub(&s, &with_leases)};
    held.memory = device_memory(4096, 0);
    assert_int_equal(cuStreamCreate(&held.stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    fakecuda_hold(true);
    assert_int_equal(cuMemsetD8Async(held.memory, 0x99, 4096, held.stream), CUDA_SUCCESS);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, post_held, &held), 0);
    fakecuda_hold(false);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(held.status, AMB_OK);
    assert_int_equal(amb_pub_flush(held.pub, 0, 10 * AMB_SEC), AMB_OK);
    fake_broker_look(s.fake, &s.seen);
    assert_int_equal(s.seen.last[0], 0x99);
    assert_int_equal(s.seen.last[4095], 0x99);
    session_close(&s);
    assert_int_equal(cuStreamDestroy(held.stream), CUDA_SUCCESS);
    assert_int_equal(cuMemFree(held.memory), CUDA_SUCCESS);
}

static void memory_of_another_kind_than_said_is_refused(void **state)
{
    (void)state;
    struct session s;
    struct amb_pub *pub = open_pub(&s, &with_leases);
    uint64_t memory = device_memory(4096, 1);
    const struct amb_iov iov[] = {{"host", 4}, {as_data(memory), 4}};
    assert_int_equal(amb_pub_post(pub, AMB_OUT(.mem = AMB_MEM_CUDA, .data = "host", .len = 4),
                                  10 * AMB_SEC, NULL),
                     AMB_EKIND);
    assert_int_equal(amb_pub_post(pub, AMB_OUT(.iov = iov, .iov_count = 2), 10 * AMB_SEC, NULL),
                     AMB_EKIND);
    assert_non_null(strstr(amb_last_error(s.conn).text, "piece 1"));
    assert_int_equal(amb_pub_send(pub, as_data(memory), 4097, 10 * AMB_SEC), AMB_EINVAL);
    assert_non_null(strstr(amb_last_error(s.conn).text, "allocation"));
    assert_int_equal(amb_pub_send(pub, as_data(memory), 0, 10 * AMB_SEC), AMB_OK);
    assert_int_equal(staged_bytes(pub), 0);
    session_close(&s);
    assert_int_equal(cuMemFree(memory), CUDA_SUCCESS);
}

/* As it does of a GPU that is lost. */
static void memory_of_which_the_driver_says_nothing_is_an_error_of_the_driver(void **state)
{
    (void)state;
    struct session s;
    struct amb_pub *pub = open_pub(&s, &with_leases);
    uint64_t memory = device_memory(4096, 1);
    CUdeviceptr managed;
    assert_int_equal(cuMemAllocManaged(&managed, 4096, CU_MEM_ATTACH_GLOBAL), CUDA_SUCCESS);
    const struct {
        enum amb_mem mem;
        const void *data;
    } kinds[] = {{AMB_MEM_CUDA, as_data(memory)}, {AMB_MEM_CUDA_MANAGED, as_data(managed)}};
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        fakecuda_fail("cuPointerGetAttributes:1=999");
        enum amb_status status =
            amb_pub_post(pub, AMB_OUT(.mem = kinds[i].mem, .data = kinds[i].data, .len = 4096),
                         10 * AMB_SEC, NULL);
        fakecuda_fail(NULL);
        assert_int_equal(status, AMB_ECUDA);
        assert_non_null(strstr(amb_last_error(s.conn).text, "a GPU may have failed"));
    }
    session_close(&s);
    assert_int_equal(cuMemFree(memory), CUDA_SUCCESS);
    assert_int_equal(cuMemFree(managed), CUDA_SUCCESS);
}

static void managed_memory_is_read_by_the_driver(void **state)
{
    (void)state;
    struct session s;
    struct amb_pub *pub = open_pub(&s, &with_leases);
    CUdeviceptr memory;
    assert_int_equal(cuMemAllocManaged(&memory, 64, CU_MEM_ATTACH_GLOBAL), CUDA_SUCCESS);
    memset((void *)(uintptr_t)memory, 'm', 64);
    assert_int_equal(
        amb_pub_post(pub, AMB_OUT(.mem = AMB_MEM_CUDA_MANAGED, .data = as_data(memory), .len = 64),
                     10 * AMB_SEC, NULL),
        AMB_OK);
    assert_int_equal(amb_pub_flush(pub, 0, 10 * AMB_SEC), AMB_OK);
    assert_int_equal(staged_bytes(pub), 64);
    session_close(&s);
    assert_int_equal(cuMemFree(memory), CUDA_SUCCESS);
}

static void a_driver_that_fails_is_the_messages_error(void **state)
{
    (void)state;
    struct session s;
    struct amb_pub *pub = open_pub(&s, &with_leases);
    uint64_t memory = device_memory(MIB, 1);
    assert_int_equal(amb_pub_send(pub, as_data(memory), 64, 10 * AMB_SEC), AMB_OK);
    const size_t sizes[] = {64, MIB};
    for (size_t i = 0; i < 2; i++) {
        fakecuda_fail("cuMemcpyAsync:1=1");
        assert_int_equal(amb_pub_send(pub, as_data(memory), sizes[i], 10 * AMB_SEC), AMB_ECUDA);
        assert_non_null(strstr(amb_last_error(s.conn).text, "cuMemcpyAsync"));
        fakecuda_fail(NULL);
        assert_int_equal(amb_pub_send(pub, as_data(memory), sizes[i], 10 * AMB_SEC), AMB_OK);
    }
    assert_int_equal(amb_pub_flush(pub, 0, 10 * AMB_SEC), AMB_OK);
    struct amb_pub_info info = AMB_INIT(amb_pub_info);
    assert_int_equal(amb_pub_stat(pub, &info), AMB_OK);
    assert_int_equal(info.posted, 3);
    assert_int_equal(info.leases, 0);
    session_close(&s);
    assert_int_equal(cuMemFree(memory), CUDA_SUCCESS);
}

static void the_broker_hears_how_much_was_staged_and_why(void **state)
{
    (void)state;
    struct fake_options options = with_leases;
    options.heartbeat_ns = 20 * AMB_MS;
    options.gpu_why = "no pool on that GPU";
    struct session s;
    struct amb_pub *pub = open_pub(&s, &options);
    uint64_t memory = device_memory(MIB, 1);
    assert_int_equal(amb_pub_send(pub, as_data(memory), 64, 10 * AMB_SEC), AMB_OK);
    assert_int_equal(amb_pub_send(pub, as_data(memory), MIB, 10 * AMB_SEC), AMB_OK);
    FAKE_WAIT(s.fake, &s.seen, s.seen.staged_in == MIB + 64);
    assert_string_equal(s.seen.staged_why, "no pool on that GPU");
    assert_int_equal(s.seen.staged_out, 0);
    session_close(&s);
    assert_int_equal(cuMemFree(memory), CUDA_SUCCESS);
}

static void a_topic_may_refuse_what_would_be_staged(void **state)
{
    (void)state;
    struct fake_options options = with_leases;
    options.rejects_gpu = true;
    options.gpu_why = "no pool on that GPU";
    struct session s;
    struct amb_pub *pub = open_pub(&s, &options);
    uint64_t memory = device_memory(MIB, 1);
    const size_t sizes[] = {64, MIB};
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(amb_pub_send(pub, as_data(memory), sizes[i], 10 * AMB_SEC), AMB_EKIND);
        assert_non_null(strstr(amb_last_error(s.conn).text, "no pool on that GPU"));
    }
    /* Host memory is not meant. */
    assert_int_equal(amb_pub_send(pub, "host", 4, 10 * AMB_SEC), AMB_OK);
    assert_int_equal(amb_pub_flush(pub, 0, 10 * AMB_SEC), AMB_OK);
    fake_broker_look(s.fake, &s.seen);
    assert_int_equal(s.seen.msgs[0], 1);
    assert_int_equal(staged_bytes(pub), 0);
    session_close(&s);
    assert_int_equal(cuMemFree(memory), CUDA_SUCCESS);
}

/* ---- a link that takes GPU memory, as UCX with CUDA does ---- */

static struct amb_link_ops lane_ops;
static enum amb_status (*lane_send)(struct amb_link *link, struct amb_link_tx *tx);
static unsigned lane_sent;

/* Reads the device as UCX would, and sends what it read. */
static enum amb_status send_by_lane(struct amb_link *link, struct amb_link_tx *tx)
{
    if (!tx->is_device) {
        return lane_send(link, tx);
    }
    static uint8_t bytes[4 * MIB];
    uint64_t len = tx->frame->data_len - tx->data_pad;
    assert_true(len <= sizeof(bytes) && fakecuda_peek((uintptr_t)tx->data, bytes, len));
    tx->data = bytes;
    lane_sent++;
    return lane_send(link, tx);
}

static void make_lane(struct amb_conn *conn)
{
    amb_conn_lock(conn);
    lane_ops = *conn->link->ops;
    lane_send = lane_ops.send;
    lane_ops.send = send_by_lane;
    conn->link->ops = &lane_ops;
    conn->link->takes_cuda = true;
    conn->link->device_min = 64 << 10;
    lane_sent = 0;
    amb_conn_unlock(conn);
}

static void a_link_that_takes_gpu_memory_gets_large_payloads_from_where_they_lie(void **state)
{
    (void)state;
    struct session s;
    struct amb_pub *pub = open_pub(&s, &on_stream);
    uint64_t memory = device_memory(2 * MIB, 0x5a);
    make_lane(s.conn);
    assert_int_equal(amb_pub_send(pub, as_data(memory), MIB + 3, 10 * AMB_SEC), AMB_OK);
    assert_int_equal(amb_pub_post(pub, AMB_OUT(.data = as_data(memory), .len = MIB, .key = "k"),
                                  10 * AMB_SEC, NULL),
                     AMB_OK);
    assert_int_equal(amb_pub_copy(pub, AMB_OUT(.data = as_data(memory), .len = MIB, .key = "k"),
                                  10 * AMB_SEC, NULL),
                     AMB_OK);
    assert_int_equal(amb_pub_flush(pub, 0, 10 * AMB_SEC), AMB_OK);
    fake_broker_look(s.fake, &s.seen);
    assert_int_equal(lane_sent, 3);
    assert_int_equal(staged_bytes(pub), 0);
    assert_int_equal(s.seen.msgs[0], 3);
    assert_int_equal(s.seen.last_len, MIB);
    assert_int_equal(s.seen.last[4095], 0x5a);
    /* Small ones, and host memory, go as ever; and so does what follows. */
    assert_int_equal(amb_pub_send(pub, as_data(memory), 1000, 10 * AMB_SEC), AMB_OK);
    static char host[MIB];
    assert_int_equal(amb_pub_send(pub, host, sizeof(host), 10 * AMB_SEC), AMB_OK);
    assert_int_equal(amb_pub_flush(pub, 0, 10 * AMB_SEC), AMB_OK);
    assert_int_equal(lane_sent, 3);
    assert_int_equal(staged_bytes(pub), 1000);
    session_close(&s);
    assert_int_equal(cuMemFree(memory), CUDA_SUCCESS);
}

static void nothing_of_the_driver_is_left_behind(void **state)
{
    (void)state;
    assert_int_equal(fakecuda_left(), 0);
}

int main(void)
{
    (void)setenv(AMB_CUDA_LIBRARY_ENV, AMB_FAKECUDA, 1);
    if (cuInit(0) != CUDA_SUCCESS || cuDevicePrimaryCtxRetain(&context, 0) != CUDA_SUCCESS ||
        cuCtxSetCurrent(context) != CUDA_SUCCESS) {
        return 1;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_plain_send_of_device_memory_arrives),
        cmocka_unit_test(it_arrives_over_a_stream_too),
        cmocka_unit_test(device_and_host_messages_share_a_batch_in_order),
        cmocka_unit_test(a_post_carries_properties_and_a_tensor),
        cmocka_unit_test(the_bytes_are_those_behind_the_stream),
        cmocka_unit_test(memory_of_another_kind_than_said_is_refused),
        cmocka_unit_test(memory_of_which_the_driver_says_nothing_is_an_error_of_the_driver),
        cmocka_unit_test(managed_memory_is_read_by_the_driver),
        cmocka_unit_test(a_driver_that_fails_is_the_messages_error),
        cmocka_unit_test(the_broker_hears_how_much_was_staged_and_why),
        cmocka_unit_test(a_topic_may_refuse_what_would_be_staged),
        cmocka_unit_test(a_link_that_takes_gpu_memory_gets_large_payloads_from_where_they_lie),
        cmocka_unit_test(nothing_of_the_driver_is_left_behind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
