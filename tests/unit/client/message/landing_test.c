/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Receiving into other memory: a fake GPU's, which the host cannot read, and the application's own.
 */
#include "client/drive/lock.h"
#include "client/memory/aside.h"
#include "client/message/landing_private.h"
#include "client/message/sub.h"
#include "client/session/link_events.h"
#include "tests/fakecuda/fakecuda.h"
#include "tests/unit/client/session.h"

#include "wire/mem/cuda.h"

#include <cuda.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

static struct fake_options mapping = {.max_message = 8 << 20};

static CUcontext context;

static struct amb_msg *next(struct amb_sub *sub)
{
    struct amb_msg *msg;
    assert_int_equal(amb_next(sub, 5 * AMB_SEC, &msg), AMB_OK);
    return msg;
}

static void assert_device_text(struct amb_msg *msg, const char *text)
{
    char bytes[64] = {0};
    const void *data = amb_msg_data_on(msg, NULL);
    assert_null(amb_msg_data(msg));
    assert_non_null(data);
    assert_int_equal((uintptr_t)data % 256, 0);
    assert_int_equal(amb_msg_size(msg), strlen(text));
    assert_int_equal(amb_msg_mem(msg), AMB_MEM_CUDA);
    assert_int_equal(amb_msg_device(msg), 1);
    assert_string_equal(amb_msg_path(msg), "staged");
    assert_true(fakecuda_peek((uintptr_t)data, bytes, strlen(text)));
    assert_string_equal(bytes, text);
}

static void open_gpu_sub(struct session *s, const void *state, struct amb_sub **sub)
{
    session_open(s, state, NULL);
    assert_int_equal(amb_subscribe(s->conn, "t.>", AMB_SUB(.mem = AMB_MEM_CUDA, .device = 1), sub),
                     AMB_OK);
}

static void payloads_lie_on_the_device_and_the_rest_on_the_host(void **state)
{
    struct session s;
    struct amb_sub *sub;
    open_gpu_sub(&s, *state, &sub);
    fake_broker_deliver(s.fake, 0, 1, "m", 3, 10, 0);
    for (unsigned i = 0; i < 3; i++) {
        char text[] = {'m', (char)('0' + i), '\0'};
        struct amb_msg *msg = next(sub);
        assert_device_text(msg, text);
        assert_string_equal(amb_msg_key(msg), "k");
        assert_string_equal(amb_msg_prop(msg, "color", NULL), "red");
        assert_int_equal(amb_msg_seq(msg), 10 + i);
        amb_msg_release(msg);
    }
    FAKE_WAIT(s.fake, &s.seen, s.seen.release[0] == 1);
    struct amb_sub_info info = AMB_INIT(amb_sub_info);
    assert_int_equal(amb_sub_stat(sub, &info), AMB_OK);
    assert_int_equal(info.staged_bytes, 6);
    assert_int_equal(info.delivered, 3);
    session_close(&s);
}

static void *take_in_vain(void *arg)
{
    struct amb_msg *msg;
    if (amb_next(arg, AMB_NOWAIT, &msg) == AMB_OK) {
        amb_msg_release(msg);
    }
    return NULL;
}

/* It works on the subscription, also behind the end of the last message. */
static void a_close_waits_for_a_taker_inside_the_driver(void **state)
{
    struct session s;
    struct amb_sub *sub;
    pthread_t thread;
    open_gpu_sub(&s, *state, &sub);
    fake_broker_deliver(s.fake, 0, 1, "m", 2, 10, 0);
    struct amb_msg *first = next(sub); /* The other is there, and needs a buffer, too. */
    fakecuda_fail("cuMemAlloc:1=999");
    fakecuda_slow("cuMemAlloc=300");
    assert_int_equal(pthread_create(&thread, NULL, take_in_vain, sub), 0);
    while (fakecuda_slowed() == 0) {
        fake_broker_nap();
    }
    amb_msg_release(first);
    (void)amb_close(s.conn, AMB_NOWAIT);
    assert_int_equal(fakecuda_slowed(), 0);
    assert_int_equal(fakecuda_failures(), 1);
    assert_int_equal(pthread_join(thread, NULL), 0);
    fakecuda_slow(NULL);
    fakecuda_fail(NULL);
    fake_broker_stop(s.fake);
}

static void mapped_payloads_are_brought_too(void **state)
{
    (void)state;
    struct session s;
    struct amb_sub *sub;
    open_gpu_sub(&s, &mapping, &sub);
    fake_broker_segment(s.fake, 1, true);
    FAKE_WAIT(s.fake, &s.seen, s.seen.segments_ready == 1);
    fake_broker_map_leased(s.fake, 0, 1, "m", 2, 1, 1);
    struct amb_msg *first = next(sub), *second = next(sub);
    fake_broker_scribble(s.fake, 1); /* Bytes on the device have been copied. */
    assert_device_text(first, "m0");
    assert_device_text(second, "m1");
    amb_msg_release(second);
    amb_msg_release(first);
    FAKE_WAIT(s.fake, &s.seen, s.seen.release[0] == 1);
    session_close(&s);
}

static void device_buffers_are_used_again(void **state)
{
    struct session s;
    struct amb_sub *sub;
    open_gpu_sub(&s, *state, &sub);
    const void *first = NULL;
    for (unsigned i = 0; i < 20; i++) {
        fake_broker_deliver(s.fake, 0, 1, "m", 1, i + 1, 0);
        struct amb_msg *msg = next(sub);
        first = i == 0 ? amb_msg_data_on(msg, NULL) : first;
        assert_ptr_equal(amb_msg_data_on(msg, NULL), first);
        amb_msg_release(msg);
    }
    session_close(&s);
}

static void a_release_on_a_stream_waits_for_it(void **state)
{
    struct session s;
    struct amb_sub *sub;
    CUstream stream;
    CUdeviceptr sum;
    open_gpu_sub(&s, *state, &sub);
    assert_int_equal(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    assert_int_equal(cuMemAlloc(&sum, 64), CUDA_SUCCESS);
    fake_broker_deliver(s.fake, 0, 1, "m", 1, 1, 0);
    struct amb_msg *msg = next(sub);
    const void *data = amb_msg_data_on(msg, stream);
    fakecuda_hold(true);
    assert_int_equal(cuMemcpyDtoDAsync(sum, (CUdeviceptr)(uintptr_t)data, 2, stream), CUDA_SUCCESS);
    amb_msg_release_on(msg, stream);
    for (int i = 0; i < 20; i++) {
        fake_broker_nap();
    }
    fake_broker_look(s.fake, &s.seen);
    assert_int_equal(s.seen.release[0], 0);
    fakecuda_hold(false);
    FAKE_WAIT(s.fake, &s.seen, s.seen.release[0] == 1);
    char bytes[2];
    assert_true(fakecuda_peek(sum, bytes, 2));
    assert_memory_equal(bytes, "m0", 2);
    session_close(&s);
    assert_int_equal(cuStreamDestroy(stream), CUDA_SUCCESS);
    assert_int_equal(cuMemFree(sum), CUDA_SUCCESS);
}

static void a_close_waits_for_releases_on_streams(void **state)
{
    struct session s;
    struct amb_sub *sub;
    CUstream stream;
    open_gpu_sub(&s, *state, &sub);
    assert_int_equal(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    fake_broker_deliver(s.fake, 0, 1, "m", 2, 1, 0);
    struct amb_msg *first = next(sub), *second = next(sub);
    amb_msg_release_on(first, stream);
    session_close(&s);
    amb_msg_release_on(second, stream); /* After the close, on its own. */
    assert_int_equal(cuStreamDestroy(stream), CUDA_SUCCESS);
}

static void a_message_that_cannot_be_brought_counts_as_lost(void **state)
{
    struct session s;
    struct amb_sub *sub;
    enum amb_loss why;
    open_gpu_sub(&s, *state, &sub);
    fakecuda_fail("cuMemcpyAsync:1=1");
    fake_broker_deliver(s.fake, 0, 1, "m", 1, 1, 0);
    fake_broker_deliver(s.fake, 0, 1, "n", 1, 2, 0);
    struct amb_msg *msg = next(sub);
    assert_device_text(msg, "n0");
    assert_int_equal(amb_msg_lost(msg, &why), 1);
    assert_int_equal(why, AMB_LOSS_TRANSFER);
    amb_msg_release(msg);
    FAKE_WAIT(s.fake, &s.seen, s.seen.release[0] == 2);
    struct amb_sub_info info = AMB_INIT(amb_sub_info);
    assert_int_equal(amb_sub_stat(sub, &info), AMB_OK);
    assert_int_equal(info.delivered, 1);
    assert_int_equal(info.lost, 1);
    session_close(&s);
}

static void open_sub_of(struct session *s, const void *state, enum amb_mem mem,
                        struct amb_sub **sub)
{
    session_open(s, state, NULL);
    assert_int_equal(amb_subscribe(s->conn, "t.>", AMB_SUB(.mem = mem, .device = 1), sub), AMB_OK);
}

static bool is_kind(const void *data, enum amb_mem mem)
{
    struct amb_mem_place place;
    amb_cuda_classify(data, &place);
    return place.mem == mem;
}

static void pinned_payloads_are_for_both_sides(void **state)
{
    struct session s;
    struct amb_sub *sub;
    open_sub_of(&s, *state, AMB_MEM_PINNED, &sub);
    fake_broker_deliver(s.fake, 0, 1, "m", 2, 1, 0);
    struct amb_msg *first = next(sub), *second = next(sub);
    assert_payload(first, "m0");
    assert_payload(second, "m1");
    assert_int_equal(amb_msg_mem(first), AMB_MEM_PINNED);
    assert_int_equal(amb_msg_device(first), -1);
    assert_true(is_kind(amb_msg_data(first), AMB_MEM_PINNED));
    assert_ptr_equal(amb_msg_data(first), amb_msg_data_on(first, NULL));
    amb_msg_release_on(first, NULL);
    amb_msg_release(second);
    FAKE_WAIT(s.fake, &s.seen, s.seen.release[0] == 1);
    session_close(&s);
}

static void managed_payloads_are_for_both_sides(void **state)
{
    struct session s;
    struct amb_sub *sub;
    open_sub_of(&s, *state, AMB_MEM_CUDA_MANAGED, &sub);
    fake_broker_deliver(s.fake, 0, 1, "m", 1, 1, 0);
    struct amb_msg *msg = next(sub);
    assert_payload(msg, "m0");
    assert_int_equal(amb_msg_mem(msg), AMB_MEM_CUDA_MANAGED);
    assert_int_equal(amb_msg_device(msg), 1);
    assert_string_equal(amb_msg_path(msg), "staged");
    assert_true(is_kind(amb_msg_data(msg), AMB_MEM_CUDA_MANAGED));
    assert_ptr_equal(amb_msg_data(msg), amb_msg_data_on(msg, NULL));
    amb_msg_release_on(msg, NULL);
    FAKE_WAIT(s.fake, &s.seen, s.seen.release[0] == 1);
    session_close(&s);
}

static void without_room_they_wait_or_are_lost(void **state)
{
    static const enum amb_mem kinds[] = {AMB_MEM_PINNED, AMB_MEM_CUDA_MANAGED};
    static const char *const calls[] = {"cuMemHostAlloc:1=2", "cuMemAllocManaged:1=2"};
    for (size_t i = 0; i < 2; i++) {
        struct session s;
        struct amb_sub *sub;
        open_sub_of(&s, *state, kinds[i], &sub);
        fakecuda_fail(calls[i]);
        fake_broker_deliver(s.fake, 0, 1, "m", 1, 1, 0);
        struct amb_msg *msg = next(sub); /* Asked again a moment later. */
        assert_payload(msg, "m0");
        fakecuda_fail(NULL);
        amb_msg_release(msg);
        session_close(&s);
    }
}

static void a_device_that_is_not_there_is_named(void **state)
{
    struct session s;
    struct amb_sub *sub;
    session_open(&s, *state, NULL);
    assert_int_equal(amb_subscribe(s.conn, "t.>", AMB_SUB(.mem = AMB_MEM_CUDA, .device = 7), &sub),
                     AMB_ENOTFOUND);
    assert_null(sub);
    assert_non_null(strstr(amb_last_error(s.conn).text, "no GPU 7"));
    assert_int_equal(amb_subscribe(s.conn, "t.>", AMB_SUB(.device = 1), &sub), AMB_EINVAL);
    session_close(&s);
}

/* ---- the application's own memory ---- */

#define SLOTS 2
struct own_pool {
    char bytes[SLOTS][64];
    bool is_used[SLOTS];
    unsigned asked, gave, took;
    pthread_mutex_t lock;
};

static void *own_alloc(void *ctx, size_t len, size_t align, int device)
{
    struct own_pool *pool = ctx;
    void *slot = NULL;
    (void)align;
    (void)pthread_mutex_lock(&pool->lock);
    pool->asked++;
    for (unsigned i = 0; i < SLOTS && slot == NULL; i++) {
        if (!pool->is_used[i] && len <= sizeof(pool->bytes[i]) && device == -1) {
            pool->is_used[i] = true;
            pool->gave++;
            slot = pool->bytes[i];
        }
    }
    (void)pthread_mutex_unlock(&pool->lock);
    return slot;
}

static void own_free(void *ctx, void *ptr, size_t len, int device)
{
    struct own_pool *pool = ctx;
    (void)len;
    (void)device;
    (void)pthread_mutex_lock(&pool->lock);
    pool->is_used[((char *)ptr - pool->bytes[0]) / 64] = false;
    pool->took++;
    (void)pthread_mutex_unlock(&pool->lock);
}

static struct own_pool pool = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void open_pool_sub(struct session *s, const void *state, struct amb_sub **sub)
{
    struct amb_allocator allocator = AMB_INIT(amb_allocator);
    allocator.alloc = own_alloc;
    allocator.free = own_free;
    allocator.ctx = &pool;
    memset(pool.is_used, 0, sizeof(pool.is_used));
    pool.asked = pool.gave = pool.took = 0;
    session_open(s, state, NULL);
    assert_int_equal(amb_subscribe(s->conn, "t.>", AMB_SUB(.allocator = &allocator), sub), AMB_OK);
}

static void an_allocator_gives_each_payload_its_place(void **state)
{
    struct session s;
    struct amb_sub *sub;
    open_pool_sub(&s, *state, &sub);
    fake_broker_deliver(s.fake, 0, 1, "m", 2, 1, 0);
    struct amb_msg *first = next(sub), *second = next(sub);
    assert_ptr_equal(amb_msg_data(first), pool.bytes[0]);
    assert_ptr_equal(amb_msg_data(second), pool.bytes[1]);
    assert_payload(first, "m0");
    assert_payload(second, "m1");
    assert_int_equal(amb_msg_mem(first), AMB_MEM_HOST);
    assert_null(amb_msg_data_on(first, NULL));
    amb_msg_release(second);
    assert_int_equal(pool.took, 1);
    amb_msg_release(first);
    assert_int_equal(pool.took, 2);
    session_close(&s);
}

static void no_memory_holds_messages_back_until_some_is_given_back(void **state)
{
    struct session s;
    struct amb_sub *sub;
    struct amb_msg *msg;
    open_pool_sub(&s, *state, &sub);
    fake_broker_deliver(s.fake, 0, 1, "m", 5, 1, 0);
    struct amb_msg *first = next(sub), *second = next(sub);
    assert_int_equal(amb_next(sub, AMB_NOWAIT, &msg), AMB_EAGAIN);
    assert_int_equal(amb_next(sub, 30 * AMB_MS, &msg), AMB_ETIMEDOUT);
    assert_true(pool.asked < 20); /* It is not asked all the time. */
    amb_msg_release(first);
    struct amb_msg *third = next(sub);
    assert_payload(third, "m2");
    amb_msg_release(second);
    amb_msg_release(third);
    for (unsigned i = 3; i < 5; i++) {
        msg = next(sub);
        assert_int_equal(amb_msg_seq(msg), 1 + i);
        amb_msg_release(msg);
    }
    assert_int_equal(pool.gave, pool.took);
    session_close(&s);
}

static void a_close_gives_up_what_waits_for_memory(void **state)
{
    struct session s;
    struct amb_sub *sub;
    struct amb_msg *msg;
    open_pool_sub(&s, *state, &sub);
    fake_broker_deliver(s.fake, 0, 1, "m", 3, 1, 0);
    struct amb_msg *first = next(sub), *second = next(sub);
    assert_int_equal(amb_next(sub, AMB_NOWAIT, &msg), AMB_EAGAIN);
    assert_int_equal(amb_sub_close(sub, AMB_SEC), AMB_OK);
    session_close(&s);
    assert_payload(first, "m0");
    amb_msg_release(first);
    amb_msg_release(second);
    assert_int_equal(pool.took, 2);
}

static void an_allocator_without_both_functions_is_refused(void **state)
{
    struct session s;
    struct amb_sub *sub;
    struct amb_allocator allocator = AMB_INIT(amb_allocator);
    session_open(&s, *state, NULL);
    allocator.alloc = own_alloc;
    assert_int_equal(amb_subscribe(s.conn, "t.>", AMB_SUB(.allocator = &allocator), &sub),
                     AMB_EINVAL);
    allocator.free = own_free;
    allocator.mem = AMB_MEM_CUDA;
    assert_int_equal(
        amb_subscribe(s.conn, "t.>", AMB_SUB(.allocator = &allocator, .mem = AMB_MEM_HOST), &sub),
        AMB_EINVAL);
    session_close(&s);
}

/* ---- a link that fetches into GPU memory, as UCX with CUDA does ---- */

#define FAR_LEN UINT64_C(100000)

/* Once. */
static enum amb_status far_head_once(struct session *s, uint64_t number, uint32_t record_len,
                                     uint64_t came, void **dst, void **cookie)
{
    const struct amb_record record = {.len = record_len};
    const struct amb_frame frame = {.type = AMB_FRAME_DELIVER,
                                    .flags = AMB_FRAME_FLAG_DEVICE,
                                    .topic = 1,
                                    .count = 1,
                                    .seq = number,
                                    .number = number,
                                    .data_len = amb_payload_padded(FAR_LEN),
                                    .meta_len = sizeof(record)};
    *dst = *cookie = NULL;
    amb_conn_lock(s->conn);
    enum amb_status status =
        amb_conn_link_events.on_device(s->conn, &frame, &record, came, dst, cookie);
    amb_conn_unlock(s->conn);
    assert_true((*dst != NULL) == (status == AMB_OK));
    return status;
}

/* The head of delivery `number`, a message of record_len bytes of which `came` were fetched. Memory
 * that is not there at first is made meanwhile. */
static enum amb_status far_head(struct session *s, uint64_t number, uint32_t record_len,
                                uint64_t came, void **dst, void **cookie)
{
    enum amb_status status = far_head_once(s, number, record_len, came, dst, cookie);
    if (status == AMB_ENOTSUP) {
        amb_asides_wait(s->conn);
        status = far_head_once(s, number, record_len, came, dst, cookie);
    }
    return status;
}

static void far_body(struct session *s, void *cookie, enum amb_status status)
{
    amb_conn_lock(s->conn);
    assert_int_equal(amb_conn_link_events.on_body(s->conn, cookie, status), AMB_OK);
    amb_conn_unlock(s->conn);
}

/* Delivery 1, by which the topic has a name. */
static void open_far_sub(struct session *s, const void *state, struct amb_sub **sub)
{
    open_gpu_sub(s, state, sub);
    fake_broker_deliver(s->fake, 0, 1, "m", 1, 1, 0);
    amb_msg_release(next(*sub));
    FAKE_WAIT(s->fake, &s->seen, s->seen.release[0] == 1);
}

static void what_a_link_has_fetched_is_given_out_where_it_lies(void **state)
{
    struct session s;
    struct amb_sub *sub;
    open_far_sub(&s, *state, &sub);
    static uint8_t sent[FAR_LEN], got[FAR_LEN];
    const void *first = NULL;
    for (uint64_t n = 2; n < 6; n++) {
        void *dst, *cookie;
        memset(sent, (int)n, sizeof(sent));
        assert_int_equal(far_head(&s, n, FAR_LEN, FAR_LEN, &dst, &cookie), AMB_OK);
        assert_true(fakecuda_poke((uintptr_t)dst, sent, sizeof(sent)));
        far_body(&s, cookie, AMB_OK);
        struct amb_msg *msg = next(sub);
        const void *data = amb_msg_data_on(msg, NULL);
        assert_ptr_equal(data, dst);
        assert_null(amb_msg_data(msg));
        assert_int_equal(amb_msg_size(msg), FAR_LEN);
        assert_int_equal(amb_msg_mem(msg), AMB_MEM_CUDA);
        assert_int_equal(amb_msg_device(msg), 1);
        assert_int_equal(amb_msg_seq(msg), n);
        assert_string_equal(amb_msg_path(msg), s.conn->link_state.path);
        assert_true(fakecuda_peek((uintptr_t)data, got, sizeof(got)));
        assert_memory_equal(got, sent, sizeof(got));
        first = first == NULL ? data : first; /* Its buffer is used again. */
        assert_ptr_equal(data, first);
        amb_msg_release(msg);
        FAKE_WAIT(s.fake, &s.seen, s.seen.release[0] == n);
    }
    struct amb_sub_info info = AMB_INIT(amb_sub_info);
    assert_int_equal(amb_sub_stat(sub, &info), AMB_OK);
    assert_int_equal(info.staged_bytes, 2); /* The first one. */
    session_close(&s);
}

static void what_is_fetched_and_not_taken_gives_its_memory_back(void **state)
{
    struct session s;
    struct amb_sub *sub;
    void *dst, *cookie;
    open_far_sub(&s, *state, &sub);
    assert_int_equal(far_head(&s, 2, FAR_LEN, FAR_LEN, &dst, &cookie), AMB_OK);
    far_body(&s, cookie, AMB_OK);
    assert_int_equal(far_head(&s, 3, FAR_LEN, FAR_LEN, &dst, &cookie), AMB_OK);
    far_body(&s, cookie, AMB_ELOST);
    session_close(&s);
}

static void what_is_wrong_with_it_takes_nothing(void **state)
{
    struct session s;
    struct amb_sub *sub;
    void *dst, *cookie;
    open_far_sub(&s, *state, &sub);
    assert_int_equal(far_head(&s, 3, FAR_LEN, FAR_LEN, &dst, &cookie), AMB_ENOTSUP);
    assert_int_equal(far_head(&s, 2, FAR_LEN, FAR_LEN - 1, &dst, &cookie), AMB_EPROTO);
    fakecuda_fail("cuMemAlloc:1=2"); /* Into host memory, then. */
    assert_int_equal(far_head(&s, 2, FAR_LEN, FAR_LEN, &dst, &cookie), AMB_OK); /* Cached. */
    far_body(&s, cookie, AMB_OK);
    assert_int_equal(far_head(&s, 3, FAR_LEN, FAR_LEN, &dst, &cookie), AMB_ENOTSUP);
    fakecuda_fail(NULL);
    amb_msg_release(next(sub));
    session_close(&s);
}

static void who_wants_host_memory_is_not_brought_any_other(void **state)
{
    struct session s;
    struct amb_sub *sub;
    void *dst, *cookie;
    session_open(&s, *state, NULL);
    assert_int_equal(amb_subscribe(s.conn, "t.>", NULL, &sub), AMB_OK);
    fake_broker_deliver(s.fake, 0, 1, "m", 1, 1, 0);
    amb_msg_release(next(sub));
    assert_int_equal(far_head(&s, 2, FAR_LEN, FAR_LEN, &dst, &cookie), AMB_ENOTSUP);
    session_close(&s);
}

static void nothing_of_the_driver_is_left_behind(void **state)
{
    (void)state;
    assert_int_equal(fakecuda_left(), 0);
}

static struct fake_options ring = {.link = AMB_LINK_RING};
static struct fake_options stream = {.link = AMB_LINK_STREAM};
#define BOTH(f)                                                                                    \
    {#f " (ring)", f, NULL, NULL, &ring},                                                          \
    {                                                                                              \
#f " (stream)", f, NULL, NULL, &stream                                                     \
    }

int main(void)
{
    (void)setenv(AMB_CUDA_LIBRARY_ENV, AMB_FAKECUDA, 1);
    if (cuInit(0) != CUDA_SUCCESS || cuDevicePrimaryCtxRetain(&context, 1) != CUDA_SUCCESS ||
        cuCtxSetCurrent(context) != CUDA_SUCCESS) {
        return 1;
    }
    const struct CMUnitTest tests[] = {
        BOTH(payloads_lie_on_the_device_and_the_rest_on_the_host),
        BOTH(a_close_waits_for_a_taker_inside_the_driver),
        cmocka_unit_test(mapped_payloads_are_brought_too),
        BOTH(device_buffers_are_used_again),
        BOTH(a_release_on_a_stream_waits_for_it),
        BOTH(a_close_waits_for_releases_on_streams),
        BOTH(a_message_that_cannot_be_brought_counts_as_lost),
        BOTH(pinned_payloads_are_for_both_sides),
        BOTH(managed_payloads_are_for_both_sides),
        BOTH(without_room_they_wait_or_are_lost),
        BOTH(a_device_that_is_not_there_is_named),
        BOTH(an_allocator_gives_each_payload_its_place),
        BOTH(no_memory_holds_messages_back_until_some_is_given_back),
        BOTH(a_close_gives_up_what_waits_for_memory),
        BOTH(an_allocator_without_both_functions_is_refused),
        BOTH(what_a_link_has_fetched_is_given_out_where_it_lies),
        BOTH(what_is_fetched_and_not_taken_gives_its_memory_back),
        BOTH(what_is_wrong_with_it_takes_nothing),
        BOTH(who_wants_host_memory_is_not_brought_any_other),
        cmocka_unit_test(nothing_of_the_driver_is_left_behind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
