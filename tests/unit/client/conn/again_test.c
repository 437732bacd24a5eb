/* SPDX-License-Identifier: Apache-2.0 */
/* Content that is kept for another session is a copy. */
#include "client/conn/again.h"

#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void strings_are_copied(void **state)
{
    (void)state;
    char urls[] = "unix:///a,unix:///b", credentials[] = "/token";
    struct amb_reconnect again = {.cancel_fd = -1};
    struct amb_error error;
    assert_int_equal(amb_again_init(&again, urls, "me",
                                    AMB_OPTIONS(.credentials = credentials, .error = &error)),
                     AMB_OK);
    memset(urls, 'x', sizeof(urls) - 1);
    memset(credentials, 'x', sizeof(credentials) - 1);
    assert_true(again.is_on);
    assert_true(again.cancel_fd >= 0);
    assert_string_equal(again.urls, "unix:///a,unix:///b");
    assert_string_equal(again.options.credentials, "/token");
    assert_string_equal(again.options.name, "me");
    assert_null(again.options.trusted_network);
    assert_null(again.options.error); /* the caller's, for the first attempt only */
    amb_again_fini(&again);
    assert_int_equal(again.cancel_fd, -1);
}

static void who_wants_no_other_session_costs_nothing(void **state)
{
    (void)state;
    struct amb_reconnect again = {.cancel_fd = -1};
    assert_int_equal(
        amb_again_init(&again, "unix:///a", "me", AMB_OPTIONS(.reconnect_attempts = AMB_NONE)),
        AMB_OK);
    assert_false(again.is_on);
    assert_int_equal(again.cancel_fd, -1);
    assert_null(again.urls);
    amb_again_fini(&again);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(strings_are_copied),
        cmocka_unit_test(who_wants_no_other_session_costs_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
