/* SPDX-License-Identifier: Apache-2.0 */
/* A program that asks for GPU memory where there is no driver: sentences, and host memory goes on.
 */
#include "tests/unit/client/session.h"

#include "wire/mem/cuda.h"

#include <stdlib.h>

static void gpu_memory_without_a_driver_is_refused_with_a_reason(void **state)
{
    (void)state;
    struct session s;
    struct amb_sub *sub;
    struct amb_pub *pub;
    session_open(&s, NULL, NULL);
    assert_int_equal(amb_subscribe(s.conn, "t.>", AMB_SUB(.mem = AMB_MEM_CUDA), &sub), AMB_ENOTSUP);
    assert_null(sub);
    assert_non_null(strstr(amb_last_error(s.conn).text, "GPU memory: "));
    assert_non_null(strstr(amb_last_error(s.conn).text, amb_cuda_why_not()));
    assert_true(amb_cuda_why_not()[0] != '\0');
    assert_int_equal(amb_pub_open(s.conn, "a", NULL, &pub), AMB_OK);
    assert_int_equal(
        amb_pub_post(pub, AMB_OUT(.mem = AMB_MEM_CUDA, .data = "x", .len = 1), AMB_SEC, NULL),
        AMB_ENOTSUP);
    assert_non_null(strstr(amb_last_error(s.conn).text, amb_cuda_why_not()));
    assert_int_equal(amb_pub_post(pub, AMB_OUT(.data = "x", .len = 1, .stream = &s), AMB_SEC, NULL),
                     AMB_ENOTSUP);
    session_close(&s);
}

static void host_memory_needs_no_driver(void **state)
{
    (void)state;
    struct session s;
    struct amb_sub *sub;
    struct amb_pub *pub;
    struct amb_msg *msg;
    session_open(&s, NULL, NULL);
    assert_int_equal(amb_subscribe(s.conn, "t.>", AMB_SUB(.mem = AMB_MEM_AS_SENT), &sub), AMB_OK);
    assert_int_equal(amb_pub_open(s.conn, "a", NULL, &pub), AMB_OK);
    for (int kind = AMB_MEM_DEFAULT; kind <= AMB_MEM_PINNED; kind++) {
        if (kind != AMB_MEM_AS_SENT) {
            assert_int_equal(
                amb_pub_post(pub,
                             AMB_OUT(.mem = (enum amb_mem)kind, .data = "pinned, I say", .len = 13),
                             AMB_SEC, NULL),
                AMB_OK);
        }
    }
    assert_int_equal(amb_pub_flush(pub, 0, 5 * AMB_SEC), AMB_OK);
    fake_broker_deliver(s.fake, 0, 1, "m", 1, 1, 0);
    assert_int_equal(amb_next(sub, 5 * AMB_SEC, &msg), AMB_OK);
    assert_payload(msg, "m0");
    assert_int_equal(amb_msg_mem(msg), AMB_MEM_HOST);
    assert_null(amb_msg_data_on(msg, NULL));
    amb_msg_release_on(msg, NULL);
    FAKE_WAIT(s.fake, &s.seen, s.seen.release[0] == 1);
    session_close(&s);
}

int main(void)
{
    (void)setenv(AMB_CUDA_LIBRARY_ENV, "/nowhere/libcuda.so.1", 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gpu_memory_without_a_driver_is_refused_with_a_reason),
        cmocka_unit_test(host_memory_needs_no_driver),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
