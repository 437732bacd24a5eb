/* SPDX-License-Identifier: Apache-2.0 */
/* Under test: tools/ctl/top/state: what keys do. */
#include "tools/ctl/top/state.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define SECOND INT64_C(1000000000)

static struct amb_top_state begin(void)
{
    struct amb_top_state state;
    amb_top_state_init(&state, AMB_TOP_TOPICS, SECOND);
    return state;
}

static void type(struct amb_top_state *state, const char *keys)
{
    for (; *keys != '\0'; keys++) {
        amb_top_state_key(state, (unsigned char)*keys);
    }
}

static void test_views(void **state)
{
    (void)state;
    struct amb_top_state top = begin();
    type(&top, "1");
    assert_false(top.is_stale);
    type(&top, "3");
    assert_int_equal(top.view, AMB_TOP_CLIENTS);
    assert_true(top.is_stale);
    amb_top_state_key(&top, AMB_TOP_KEY_TAB);
    assert_int_equal(top.view, AMB_TOP_WORKERS);
    amb_top_state_key(&top, AMB_TOP_KEY_TAB);
    amb_top_state_key(&top, AMB_TOP_KEY_TAB);
    assert_int_equal(top.view, AMB_TOP_TOPICS);
    amb_top_state_key(&top, AMB_TOP_KEY_BACK_TAB);
    assert_int_equal(top.view, AMB_TOP_QUEUES);
    type(&top, "069");
    assert_int_equal(top.view, AMB_TOP_QUEUES);
}

static void test_order_is_kept_for_each_view(void **state)
{
    (void)state;
    struct amb_top_state top = begin();
    size_t first = amb_top_lens(AMB_TOP_TOPICS)->sort, count = amb_top_lens(AMB_TOP_TOPICS)->count;
    type(&top, ">r");
    assert_int_equal(amb_top_state_order(&top)->column, first + 1);
    assert_true(amb_top_state_order(&top)->is_reverse);
    type(&top, "2");
    assert_int_equal(amb_top_state_order(&top)->column, amb_top_lens(AMB_TOP_SUBS)->sort);
    type(&top, "1<");
    assert_int_equal(amb_top_state_order(&top)->column, first);
    assert_false(amb_top_state_order(&top)->is_reverse);
    for (size_t i = 0; i <= first; i++) {
        amb_top_state_key(&top, AMB_TOP_KEY_LEFT);
    }
    assert_int_equal(amb_top_state_order(&top)->column, count - 1);
    amb_top_state_key(&top, AMB_TOP_KEY_RIGHT);
    assert_int_equal(amb_top_state_order(&top)->column, 0);
}

static void test_a_filter_is_typed(void **state)
{
    (void)state;
    struct amb_top_state top = begin();
    type(&top, "/qp1");
    assert_true(top.is_typing && !top.is_over && !top.is_paused && top.view == AMB_TOP_TOPICS);
    assert_string_equal(amb_top_state_order(&top)->filter, "qp1");
    amb_top_state_key(&top, AMB_TOP_KEY_BACKSPACE);
    amb_top_state_key(&top, 0xe9);
    amb_top_state_key(&top, 0x65e5);
    amb_top_state_key(&top, 0x1f600);
    assert_string_equal(amb_top_state_order(&top)->filter,
                        "qp\xc3\xa9\xe6\x97\xa5\xf0\x9f\x98\x80");
    amb_top_state_key(&top, AMB_TOP_KEY_BACKSPACE);
    amb_top_state_key(&top, AMB_TOP_KEY_UP);
    amb_top_state_key(&top, 0x1);
    amb_top_state_key(&top, AMB_TOP_KEY_ENTER);
    assert_string_equal(amb_top_state_order(&top)->filter, "qp\xc3\xa9\xe6\x97\xa5");
    assert_false(top.is_typing);
    amb_top_state_key(&top, AMB_TOP_KEY_ESCAPE);
    assert_string_equal(amb_top_state_order(&top)->filter, "");
    type(&top, "/x");
    amb_top_state_key(&top, AMB_TOP_KEY_ESCAPE);
    assert_string_equal(amb_top_state_order(&top)->filter, "");
    assert_false(top.is_typing);
}

static void test_a_filter_has_an_end(void **state)
{
    (void)state;
    struct amb_top_state top = begin();
    type(&top, "/");
    for (unsigned i = 0; i < 500; i++) {
        amb_top_state_key(&top, 0x1f600);
    }
    assert_int_equal(strlen(amb_top_state_order(&top)->filter), (AMB_TOP_FILTER_MAX - 1) / 4 * 4);
    for (unsigned i = 0; i < 500; i++) {
        amb_top_state_key(&top, AMB_TOP_KEY_BACKSPACE);
    }
    assert_string_equal(amb_top_state_order(&top)->filter, "");
}

static void test_lines_move_within_their_number(void **state)
{
    (void)state;
    struct amb_top_state top = begin();
    top.line_count = 25;
    top.page_size = 10;
    amb_top_state_key(&top, AMB_TOP_KEY_UP);
    assert_int_equal(top.first, 0);
    amb_top_state_key(&top, AMB_TOP_KEY_DOWN);
    assert_int_equal(top.first, 1);
    amb_top_state_key(&top, AMB_TOP_KEY_PAGE_DOWN);
    assert_int_equal(top.first, 10);
    amb_top_state_key(&top, AMB_TOP_KEY_PAGE_DOWN);
    assert_int_equal(top.first, 15);
    amb_top_state_key(&top, AMB_TOP_KEY_PAGE_UP);
    assert_int_equal(top.first, 6);
    amb_top_state_key(&top, AMB_TOP_KEY_END);
    assert_int_equal(top.first, 15);
    top.line_count = 4;
    amb_top_state_fit(&top);
    assert_int_equal(top.first, 0);
    top.page_size = 0;
    amb_top_state_key(&top, AMB_TOP_KEY_PAGE_DOWN);
    assert_int_equal(top.first, 1);
    amb_top_state_key(&top, AMB_TOP_KEY_HOME);
    assert_int_equal(top.first, 0);
}

static void test_pause_help_end_interval(void **state)
{
    (void)state;
    struct amb_top_state top = begin();
    type(&top, "p");
    assert_true(top.is_paused);
    type(&top, " ");
    assert_false(top.is_paused);
    type(&top, "h");
    assert_true(top.has_help);
    amb_top_state_key(&top, AMB_TOP_KEY_ESCAPE);
    assert_false(top.has_help);
    type(&top, "+");
    assert_int_equal(top.interval_ns, 2 * SECOND);
    type(&top, "----------");
    assert_in_range(top.interval_ns, AMB_TOP_INTERVAL_MIN_NS, 2 * AMB_TOP_INTERVAL_MIN_NS);
    for (unsigned i = 0; i < 70; i++) {
        type(&top, "+");
    }
    assert_in_range(top.interval_ns, AMB_TOP_INTERVAL_MAX_NS / 2, AMB_TOP_INTERVAL_MAX_NS);
    type(&top, "z\x01~");
    amb_top_state_key(&top, AMB_TOP_KEY_OTHER);
    assert_false(top.is_over);
    type(&top, "q");
    assert_true(top.is_over);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_views),
        cmocka_unit_test(test_order_is_kept_for_each_view),
        cmocka_unit_test(test_a_filter_is_typed),
        cmocka_unit_test(test_a_filter_has_an_end),
        cmocka_unit_test(test_lines_move_within_their_number),
        cmocka_unit_test(test_pause_help_end_interval),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
