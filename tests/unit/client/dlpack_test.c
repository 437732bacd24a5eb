/* SPDX-License-Identifier: Apache-2.0 */
/* Arrays in and out by DLPack, on host memory; tests/gpu/roundtrip.c does it with a device's. */
#include "tests/unit/client/session.h"

#include "client/dlpack_abi.h"

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
    const struct amb_dl_tensor *dl = &array->dl_tensor;
    assert_int_equal(array->major, 1);
    assert_int_equal(array->flags, AMB_DL_READ_ONLY);
    assert_int_equal(dl->device_type, AMB_DL_CPU);
    assert_int_equal(dl->ndim, 1);
    assert_int_equal(dl->code, 1);
    assert_int_equal(dl->bits, 8);
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

static void a_compact_array_is_a_message(void **state)
{
    (void)state;
    float values[2][3] = {{1, 2, 3}, {4, 5, 6}};
    int64_t shape[] = {2, 3}, strides[] = {3, 1};
    struct amb_dl_tensor dl = {.data = values,
                               .device_type = AMB_DL_CPU,
                               .ndim = 2,
                               .code = 2,
                               .bits = 32,
                               .lanes = 1,
                               .shape = shape};
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
        dl.strides = strides;
    }
    shape[0] = 1;
    dl.byte_offset = sizeof(values[0]);
    assert_int_equal(amb_out_dlpack(&out, &tensor, &dl), AMB_OK);
    assert_ptr_equal(out.data, values[1]);
    assert_int_equal(out.len, sizeof(values[0]));
}

static void what_is_not_compact_or_not_ours_is_refused(void **state)
{
    (void)state;
    float values[4] = {0};
    int64_t shape[] = {2, 2}, strides[] = {1, 2};
    struct amb_dl_tensor dl = {.data = values,
                               .device_type = AMB_DL_CPU,
                               .ndim = 2,
                               .code = 2,
                               .bits = 32,
                               .lanes = 1,
                               .shape = shape,
                               .strides = strides};
    struct amb_out out = AMB_INIT(amb_out);
    struct amb_tensor tensor;
    assert_int_equal(amb_out_dlpack(&out, &tensor, &dl), AMB_EINVAL);
    dl.strides = NULL;
    dl.device_type = 10; /* Another maker's. */
    assert_int_equal(amb_out_dlpack(&out, &tensor, &dl), AMB_EKIND);
    dl.device_type = AMB_DL_CPU;
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
        cmocka_unit_test(what_is_not_compact_or_not_ours_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
