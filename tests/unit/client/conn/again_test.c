/* SPDX-License-Identifier: Apache-2.0 */
/* Content that is kept for another session is the connection's own. */
#include "client/conn/again.h"

#include "client/config/client_config.h"

#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static struct amb_client_config *make_config(const char *url)
{
    char error[252];
    struct amb_client_config *config = NULL;
    const struct amb_client_option option = {"client.url", "the URL", url};
    const struct amb_client_source source = {.options = &option, .option_count = 1};
    assert_int_equal(amb_client_config_create(&source, error, sizeof(error), &config), AMB_OK);
    return config;
}

static void what_a_later_attempt_needs_is_kept(void **state)
{
    (void)state;
    char urls[] = "unix:///a,unix:///b", credentials[] = "/token";
    struct amb_reconnect again = {.cancel_fd = -1};
    struct amb_error error;
    struct amb_client_config *config = make_config(urls);
    assert_int_equal(amb_again_init(&again, &config, "me",
                                    AMB_OPTIONS(.credentials = credentials, .ca = credentials,
                                                .key = credentials, .error = &error)),
                     AMB_OK);
    assert_null(config);
    memset(urls, 'x', sizeof(urls) - 1);
    assert_true(again.is_on);
    assert_true(again.cancel_fd >= 0);
    assert_string_equal(again.config->url, "unix:///a,unix:///b");
    assert_string_equal(again.options.name, "me");
    assert_null(again.options.credentials); /* the program's, which may be gone */
    assert_null(again.options.ca);
    assert_null(again.options.key);
    assert_null(again.options.error); /* ... and for the first attempt only */
    amb_again_fini(&again);
    assert_int_equal(again.cancel_fd, -1);
    assert_null(again.config);
}

static void who_wants_no_other_session_costs_nothing(void **state)
{
    (void)state;
    struct amb_reconnect again = {.cancel_fd = -1};
    struct amb_client_config *config = make_config("unix:///a");
    assert_int_equal(
        amb_again_init(&again, &config, "me", AMB_OPTIONS(.reconnect_attempts = AMB_NONE)), AMB_OK);
    assert_false(again.is_on);
    assert_int_equal(again.cancel_fd, -1);
    assert_null(again.config);
    assert_non_null(config);
    amb_again_fini(&again);
    amb_client_config_destroy(&config);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_a_later_attempt_needs_is_kept),
        cmocka_unit_test(who_wants_no_other_session_costs_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
