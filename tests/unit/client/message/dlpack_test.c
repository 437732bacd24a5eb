/* SPDX-License-Identifier: Apache-2.0 */
/* Arrays in and out by DLPack, on host memory; tests/gpu/roundtrip.c does it with a device's. */
#include "tests/unit/client/session.h"

#include "client/message/tensor.h"
#include "wire/codec/props.h"

#include <amb/compat/dlpack/dlpack.h>

static void a_message_is_an_array_of_bytes_that_holds_it(void **state)
{
    (void)state;
    struct session s;
    struct amb_sub *sub;
    struct amb_msg *msg;
    session_open(&s, NULL, NULL);
    assert_int_equal(amb_subscribe(s.conn, "t.>", NULL, &sub), AMB_OK);
    fake_broker_deliver(s.fake, 0, 1, "m", 1, 1, 0);
    assert_int_equal(amb_next(sub, 5 * AMB_SEC, &msg), AMB_OK);
    assert_null(amb_msg_tensor(msg));
    struct DLManagedTensorVersioned *array;
    assert_int_equal(amb_msg_dlpack(msg, NULL, &array), AMB_OK);
    const DLTensor *dl = &array->dl_tensor;
    assert_int_equal(array->version.major, 1);
    assert_int_equal(array->flags, DLPACK_FLAG_BITMASK_READ_ONLY);
    assert_int_equal(dl->device.device_type, kDLCPU);
    assert_int_equal(dl->ndim, 1);
    assert_int_equal(dl->dtype.code, 1);
    assert_int_equal(dl->dtype.bits, 8);
    assert_int_equal(dl->shape[0], 2);
    assert_int_equal(dl->strides[0], 1);
    assert_ptr_equal(dl->data, amb_msg_data(msg));
    amb_msg_release(msg);
    fake_broker_look(s.fake, &s.seen);
    assert_int_equal(s.seen.release[0], 0);
    assert_memory_equal(dl->data, "m0", 2);
    array->deleter(array);
    FAKE_WAIT(s.fake, &s.seen, s.seen.release[0] == 1);
    assert_int_equal(amb_msg_dlpack(NULL, NULL, &array), AMB_EINVAL);
    assert_null(array);
    session_close(&s);
}

static DLTensor floats(void *data, int32_t ndim, int64_t *shape, int64_t *strides)
{
    return (DLTensor){.data = data,
                      .device = {.device_type = kDLCPU},
                      .ndim = ndim,
                      .dtype = {.code = kDLFloat, .bits = 32, .lanes = 1},
                      .shape = shape,
                      .strides = strides};
}

static void a_compact_array_is_a_message(void **state)
{
    (void)state;
    float values[2][3] = {{1, 2, 3}, {4, 5, 6}};
    int64_t shape[] = {2, 3}, strides[] = {3, 1};
    DLTensor dl = floats(values, 2, shape, NULL);
    struct amb_out out = AMB_INIT(amb_out);
    struct amb_tensor tensor;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(amb_out_dlpack(&out, &tensor, &dl), AMB_OK);
        assert_ptr_equal(out.data, values);
        assert_int_equal(out.len, sizeof(values));
        assert_int_equal(out.mem, AMB_MEM_HOST);
        assert_ptr_equal(out.tensor, &tensor);
        assert_int_equal(tensor.ndim, 2);
        assert_int_equal(tensor.shape[1], 3);
        assert_int_equal(tensor.strides[0], 0);
        dl.strides = strides;
    }
    shape[0] = 1;
    strides[0] = INT64_MAX; /* Of one row there is no next one. */
    dl.byte_offset = sizeof(values[0]);
    assert_int_equal(amb_out_dlpack(&out, &tensor, &dl), AMB_OK);
    assert_ptr_equal(out.data, values[1]);
    assert_int_equal(out.len, sizeof(values[0]));
    shape[0] = 0;
    assert_int_equal(amb_out_dlpack(&out, &tensor, &dl), AMB_OK);
    assert_int_equal(out.len, 0);
}

/* An array of 32-bit numbers, and where it is. */
struct strided {
    uint32_t ndim;
    int64_t shape[3], strides[3];
    uint64_t first, len; /* in bytes: before the element with all indices 0, and in all */
};

static const struct strided strided[] = {
    {2, {2, 3}, {1, 2}, 0, 24},                /* F-order */
    {2, {3, 2}, {4, 1}, 0, 40},                /* some columns of a larger one */
    {1, {4}, {-1}, 12, 16},                    /* backwards */
    {2, {2, 3}, {-3, -1}, 20, 24},             /* ... in both directions */
    {2, {2, 3}, {3, -1}, 8, 24},               /* ... in one */
    {2, {5, 3}, {0, 1}, 0, 12},                /* the same row over and over */
    {3, {2, 1, 2}, {-2, INT64_MIN, 1}, 8, 16}, /* where there is one only, a stride says nothing */
};

/* Reads element (i, j, k) as an array library does. */
static uint32_t at(const DLTensor *dl, const int64_t *index)
{
    int64_t offset = (int64_t)dl->byte_offset;
    for (int32_t i = 0; i < dl->ndim; i++) {
        offset += index[i] != 0 ? index[i] * dl->strides[i] * 4 : 0;
    }
    uint32_t value;
    memcpy(&value, (const uint8_t *)dl->data + offset, sizeof(value));
    return value;
}

static void assert_same(const DLTensor *a, const DLTensor *b)
{
    assert_int_equal(a->ndim, b->ndim);
    assert_memory_equal(a->shape, b->shape, (size_t)a->ndim * sizeof(a->shape[0]));
    int64_t index[3] = {0};
    for (index[0] = 0; index[0] < a->shape[0]; index[0]++) {
        for (index[1] = 0; index[1] < (a->ndim > 1 ? a->shape[1] : 1); index[1]++) {
            for (index[2] = 0; index[2] < (a->ndim > 2 ? a->shape[2] : 1); index[2]++) {
                assert_int_equal(at(a, index), at(b, index));
            }
        }
    }
}

/* Delivers a message with that payload and that tensor, as it is, to subscription 0. */
static void deliver(struct session *s, uint64_t number, const void *data, uint32_t len,
                    const void *tensor, size_t tensor_len)
{
    _Alignas(8) uint8_t body[1024] = {0}, blob[256] = {0};
    struct amb_props_writer writer;
    amb_props_writer_init(&writer, blob, sizeof(blob));
    assert_int_equal(amb_props_add(&writer, AMB_PROP_TENSOR, tensor, tensor_len), AMB_OK);
    const struct amb_record record = {.len = len, .props_len = (uint16_t)writer.len};
    uint64_t data_len = amb_payload_padded(len);
    uint32_t props_len = amb_props_padded((uint32_t)writer.len);
    memcpy(body, data, len);
    memcpy(body + data_len, &record, sizeof(record));
    memcpy(body + data_len + sizeof(record), blob, props_len);
    const struct amb_frame frame = {.type = AMB_FRAME_DELIVER,
                                    .handle = 0,
                                    .topic = 1,
                                    .seq = number,
                                    .count = 1,
                                    .number = number,
                                    .data_len = data_len,
                                    .meta_len = (uint32_t)sizeof(record) + props_len};
    fake_broker_frame_with(s->fake, &frame, body);
}

static void strided_arrays_arrive_as_they_are(void **state)
{
    (void)state;
    struct session s;
    struct amb_sub *sub;
    struct amb_msg *msg;
    uint32_t memory[64];
    for (uint32_t i = 0; i < 64; i++) {
        memory[i] = 1000 + i;
    }
    session_open(&s, NULL, NULL);
    assert_int_equal(amb_subscribe(s.conn, "t.>", NULL, &sub), AMB_OK);
    fake_broker_deliver(s.fake, 0, 1, "m", 1, 1, 0); /* names the topic */
    assert_int_equal(amb_next(sub, 5 * AMB_SEC, &msg), AMB_OK);
    amb_msg_release(msg);
    for (size_t i = 0; i < sizeof(strided) / sizeof(strided[0]); i++) {
        struct strided one = strided[i];
        DLTensor dl = floats(memory, (int32_t)one.ndim, one.shape, one.strides);
        dl.byte_offset = sizeof(memory[0]) * 20; /* where index 0 is */
        struct amb_out out = AMB_INIT(amb_out);
        struct amb_tensor tensor;
        assert_int_equal(amb_out_dlpack(&out, &tensor, &dl), AMB_OK);
        assert_ptr_equal(out.data, (uint8_t *)memory + dl.byte_offset - one.first);
        assert_int_equal(out.len, one.len);
        uint8_t bytes[AMB_TENSOR_BYTES];
        size_t bytes_len = 0;
        assert_int_equal(amb_tensor_write(out.tensor, bytes, &bytes_len), AMB_OK);
        deliver(&s, i + 2, out.data, (uint32_t)out.len, bytes, bytes_len);
        assert_int_equal(amb_next(sub, 5 * AMB_SEC, &msg), AMB_OK);
        assert_memory_equal(amb_msg_tensor(msg), &tensor, sizeof(tensor));
        struct DLManagedTensorVersioned *array;
        assert_int_equal(amb_msg_dlpack(msg, NULL, &array), AMB_OK);
        assert_ptr_equal(array->dl_tensor.data, amb_msg_data(msg));
        assert_int_equal(array->dl_tensor.byte_offset, one.first);
        assert_same(&array->dl_tensor, &dl);
        array->deleter(array);
        amb_msg_release(msg);
    }
    session_close(&s);
}

/* A dense array whose axes lie in that order in memory, the outermost first. An axis of one has a
 * stride that says nothing. */
static struct strided dense(const int64_t *shape, const unsigned *order)
{
    struct strided one = {.ndim = 3, .len = sizeof(uint32_t)};
    int64_t stride = 1;
    for (unsigned i = 3; i > 0; i--) {
        unsigned axis = order[i - 1];
        one.shape[axis] = shape[axis];
        one.strides[axis] = shape[axis] == 1 ? 999 : stride;
        stride *= shape[axis];
        one.len *= (uint64_t)shape[axis];
    }
    return one;
}

/* No byte more than the elements, and the strides come back. */
static void every_dense_order_of_axes_goes_as_it_lies(void **state)
{
    (void)state;
    static const int64_t shapes[][3] = {{2, 3, 4}, {4, 1, 3}, {1, 1, 5}, {1, 6, 1}};
    static const unsigned orders[][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2},
                                         {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
    struct session s;
    struct amb_sub *sub;
    struct amb_msg *msg;
    uint64_t number = 1;
    uint32_t memory[24];
    for (uint32_t i = 0; i < 24; i++) {
        memory[i] = 1000 + i;
    }
    session_open(&s, NULL, NULL);
    assert_int_equal(amb_subscribe(s.conn, "t.>", NULL, &sub), AMB_OK);
    fake_broker_deliver(s.fake, 0, 1, "m", 1, number, 0); /* names the topic */
    assert_int_equal(amb_next(sub, 5 * AMB_SEC, &msg), AMB_OK);
    amb_msg_release(msg);
    for (unsigned i = 0; i < 24; i++) {
        struct strided one = dense(shapes[i / 6], orders[i % 6]);
        DLTensor dl = floats(memory, 3, one.shape, one.strides);
        struct amb_out out = AMB_INIT(amb_out);
        struct amb_tensor tensor;
        assert_int_equal(amb_out_dlpack(&out, &tensor, &dl), AMB_OK);
        assert_ptr_equal(out.data, memory);
        assert_int_equal(out.len, one.len);
        uint8_t bytes[AMB_TENSOR_BYTES];
        size_t bytes_len = 0;
        assert_int_equal(amb_tensor_write(out.tensor, bytes, &bytes_len), AMB_OK);
        deliver(&s, ++number, out.data, (uint32_t)out.len, bytes, bytes_len);
        assert_int_equal(amb_next(sub, 5 * AMB_SEC, &msg), AMB_OK);
        struct DLManagedTensorVersioned *array;
        assert_int_equal(amb_msg_dlpack(msg, NULL, &array), AMB_OK);
        assert_ptr_equal(array->dl_tensor.data, amb_msg_data(msg));
        assert_int_equal(array->dl_tensor.byte_offset, 0);
        assert_same(&array->dl_tensor, &dl);
        for (unsigned axis = 0; axis < 3; axis++) {
            assert_true(one.shape[axis] == 1 ||
                        array->dl_tensor.strides[axis] == one.strides[axis]);
        }
        array->deleter(array);
        amb_msg_release(msg);
    }
    session_close(&s);
}

/* A peer's description of its payload is looked at before anything uses it. */
static void an_array_outside_its_payload_is_refused(void **state)
{
    (void)state;
    struct session s;
    struct amb_sub *sub;
    struct amb_msg *msg;
    session_open(&s, NULL, NULL);
    assert_int_equal(amb_subscribe(s.conn, "t.>", NULL, &sub), AMB_OK);
    fake_broker_deliver(s.fake, 0, 1, "m", 1, 1, 0);
    assert_int_equal(amb_next(sub, 5 * AMB_SEC, &msg), AMB_OK);
    amb_msg_release(msg);
    static const struct strided wrong[] = {
        {2, {2, 4}, {0, 0}, 0, 28},         /* C order, one element too many */
        {2, {2, 3}, {4, 1}, 0, 24},         /* its last row ends behind it */
        {1, {4}, {-2}, 0, 24},              /* before it */
        {2, {2, 2}, {INT64_MAX, 1}, 0, 24}, /* far behind it */
        {2, {2, 2}, {INT64_MIN, 1}, 0, 24}, /* and before */
        {3, {3, 3, 3}, {INT64_MAX / 2, INT64_MAX / 2, 1}, 0, 24}, /* around the corner */
        {1, {INT64_MAX}, {INT64_MAX}, 0, 24},
        {2, {INT64_MAX, INT64_MAX}, {0, 0}, 0, 24},
        {2, {-1, 0}, {1, 1}, 0, 24},
    };
    const uint8_t payload[64] = {0};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        uint8_t bytes[AMB_TENSOR_BYTES] = {kDLFloat, 32, 1, 0, (uint8_t)wrong[i].ndim, 1};
        size_t dims = wrong[i].ndim * sizeof(int64_t);
        memcpy(bytes + 6, wrong[i].shape, dims);
        memcpy(bytes + 6 + dims, wrong[i].strides, dims);
        deliver(&s, i + 2, payload, (uint32_t)wrong[i].len, bytes, 6 + 2 * dims);
        assert_int_equal(amb_next(sub, 5 * AMB_SEC, &msg), AMB_OK);
        assert_null(amb_msg_tensor(msg));
        struct DLManagedTensorVersioned *array;
        assert_int_equal(amb_msg_dlpack(msg, NULL, &array), AMB_EINVAL);
        assert_null(array);
        amb_msg_release(msg);
    }
    session_close(&s);
}

static void what_cannot_be_said_or_is_not_ours_is_refused(void **state)
{
    (void)state;
    float values[4] = {0};
    int64_t shape[] = {2, 2}, strides[] = {INT64_MAX, 2};
    DLTensor dl = floats(values, 2, shape, strides);
    struct amb_out out = AMB_INIT(amb_out);
    struct amb_tensor tensor;
    assert_int_equal(amb_out_dlpack(&out, &tensor, &dl), AMB_EINVAL);
    strides[0] = strides[1] = 0; /* One element over and over: 0 everywhere is C order. */
    assert_int_equal(amb_out_dlpack(&out, &tensor, &dl), AMB_EINVAL);
    strides[0] = 1;
    strides[1] = 2;
    dl.dtype.bits = 4; /* Elements that begin within a byte. */
    assert_int_equal(amb_out_dlpack(&out, &tensor, &dl), AMB_EINVAL);
    dl.dtype.bits = 32;
    dl.strides = NULL;
    dl.device.device_type = kDLROCM; /* Another maker's. */
    assert_int_equal(amb_out_dlpack(&out, &tensor, &dl), AMB_EKIND);
    dl.device.device_type = kDLCPU;
    dl.ndim = 9;
    assert_int_equal(amb_out_dlpack(&out, &tensor, &dl), AMB_EINVAL);
    dl.ndim = 2;
    shape[0] = -1;
    assert_int_equal(amb_out_dlpack(&out, &tensor, &dl), AMB_EINVAL);
    assert_int_equal(amb_out_dlpack(&out, &tensor, NULL), AMB_EINVAL);
    assert_null(out.data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_message_is_an_array_of_bytes_that_holds_it),
        cmocka_unit_test(a_compact_array_is_a_message),
        cmocka_unit_test(strided_arrays_arrive_as_they_are),
        cmocka_unit_test(every_dense_order_of_axes_goes_as_it_lies),
        cmocka_unit_test(an_array_outside_its_payload_is_refused),
        cmocka_unit_test(what_cannot_be_said_or_is_not_ours_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
