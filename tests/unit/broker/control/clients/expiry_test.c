/* SPDX-License-Identifier: Apache-2.0 */
/* Files that expire: when they are told, and that each step is told once. */
#include "broker/control/clients/expiry.h"

#include "tests/support/tls/tls_made.h"

#include <setjmp.h>
#include <stdarg.h>
#include <time.h>

#include <cmocka.h>

static struct tls_made made;

static int setup(void **state)
{
    (void)state;
    tls_made_init(&made);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    tls_made_fini(&made);
    return 0;
}

static void test_the_steps_are_at_30_7_and_1_days(void **state)
{
    (void)state;
    const int64_t end = 100 * TLS_MADE_DAY;
    static const struct {
        int64_t left_s;
        unsigned step;
    } cases[] = {{31 * TLS_MADE_DAY, 0},
                 {30 * TLS_MADE_DAY + 1, 0},
                 {30 * TLS_MADE_DAY, 1},
                 {8 * TLS_MADE_DAY, 1},
                 {7 * TLS_MADE_DAY, 2},
                 {TLS_MADE_DAY + 1, 2},
                 {TLS_MADE_DAY, 3},
                 {1, 3},
                 {0, 4},
                 {-TLS_MADE_DAY, 4}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_int_equal(amb_expiry_step(end, end - cases[i].left_s), cases[i].step);
    }
    assert_int_equal(amb_expiry_step(INT64_MAX, 0), 0);
    assert_int_equal(amb_expiry_days(end, end - 5 * TLS_MADE_DAY - 1), 5);
}

static void test_each_step_is_told_once_for_each_file_in_use(void **state)
{
    (void)state;
    struct amb_expiry expiry = {.context = NULL};
    enum amb_tls_file file = AMB_TLS_FILES;
    int64_t now_s = (int64_t)time(NULL);
    tls_made_issue(&made, made.ca, "server", AMB_TLS_SERVER, "localhost",
                   (struct tls_made_time){-TLS_MADE_DAY, 20 * TLS_MADE_DAY});
    struct amb_tls_context *context = tls_made_server(&made, "server", AMB_TLS_CLIENTS_OPTIONAL);
    assert_true(amb_expiry_next(&expiry, context, now_s, &file));
    assert_int_equal(file, AMB_TLS_CERTIFICATE);
    assert_false(amb_expiry_next(&expiry, context, now_s, &file));
    assert_true(amb_expiry_next(&expiry, context, now_s + 14 * TLS_MADE_DAY, &file));
    assert_false(amb_expiry_next(&expiry, context, now_s + 15 * TLS_MADE_DAY, &file));
    /* Two steps at once are told as one: nobody looked in between. */
    assert_true(amb_expiry_next(&expiry, context, now_s + 21 * TLS_MADE_DAY, &file));
    assert_false(amb_expiry_next(&expiry, context, now_s + 21 * TLS_MADE_DAY, &file));
    /* The authority has 1,000 days. */
    assert_true(amb_expiry_next(&expiry, context, now_s + 990 * TLS_MADE_DAY, &file));
    assert_int_equal(file, AMB_TLS_CA);
    struct amb_tls_context *again = tls_made_server(&made, "server", AMB_TLS_CLIENTS_OPTIONAL);
    assert_true(amb_expiry_next(&expiry, again, now_s, &file));
    assert_false(amb_expiry_next(&expiry, NULL, now_s, &file));
    amb_tls_context_unref(&context);
    amb_tls_context_unref(&again);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_steps_are_at_30_7_and_1_days),
        cmocka_unit_test(test_each_step_is_told_once_for_each_file_in_use),
    };
    return cmocka_run_group_tests_name("expiry", tests, setup, teardown);
}
