/* SPDX-License-Identifier: Apache-2.0 */
/* Lines for a service manager, which is a datagram socket of the test's own. */
#include "broker/base/notify.h"
#include "wire/base/clock.h"
#include "wire/base/log.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

struct manager {
    int fd;
    char name[64];
};

static unsigned warnings;
static char warned[1024];

static void on_log(enum amb_log_level level, const char *line, void *arg)
{
    (void)arg;
    if (level == AMB_LOG_WARN) {
        warnings++;
        (void)snprintf(warned, sizeof(warned), "%s", line);
    }
}

/* Listens at @name; a path is for the test that needs one. */
static void manage(struct manager *manager)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    (void)snprintf(manager->name, sizeof(manager->name), "@amb-notify-test-%d", (int)getpid());
    size_t len = strlen(manager->name);
    memcpy(at.sun_path + 1, manager->name + 1, len - 1);
    manager->fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    assert_true(manager->fd >= 0);
    socklen_t at_len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len);
    assert_int_equal(bind(manager->fd, (const struct sockaddr *)&at, at_len), 0);
}

static const char *heard(const struct manager *manager)
{
    static char text[1024];
    ssize_t got = recv(manager->fd, text, sizeof(text) - 1, MSG_DONTWAIT);
    assert_true(got >= 0 || errno == EAGAIN);
    text[got < 0 ? 0 : got] = '\0';
    return text;
}

static int setup(void **state)
{
    (void)state;
    warnings = 0;
    amb_log_set_sink(on_log, NULL);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    amb_log_set_sink(NULL, NULL);
    return 0;
}

static void test_without_a_manager_nothing_is_said(void **state)
{
    (void)state;
    struct amb_notify notify;
    amb_notify_init(&notify, NULL, NULL, NULL);
    assert_false(amb_notify_is_used(&notify));
    amb_notify_send(&notify, "READY=%d", 1);
    amb_notify_send_surely(&notify, "READY=1");
    amb_notify_fini(&notify);
    assert_int_equal(warnings, 0);
}

static void test_a_manager_hears_each_text(void **state)
{
    (void)state;
    struct manager manager;
    struct amb_notify notify;
    manage(&manager);
    amb_notify_init(&notify, manager.name, "30000000", NULL);
    assert_true(amb_notify_is_used(&notify));
    assert_int_equal(notify.watchdog_ns, 30 * AMB_NS_PER_SEC);
    amb_notify_send_surely(&notify, "READY=1");
    amb_notify_send(&notify, "STATUS=%d clients", 7);
    assert_string_equal(heard(&manager), "READY=1");
    assert_string_equal(heard(&manager), "STATUS=7 clients");
    assert_string_equal(heard(&manager), "");
    amb_notify_fini(&notify);
    amb_notify_fini(&notify);
    amb_notify_send(&notify, "READY=1");
    assert_string_equal(heard(&manager), "");
    assert_int_equal(warnings, 0);
    (void)close(manager.fd);
}

static void test_a_text_that_is_too_long_is_cut(void **state)
{
    (void)state;
    struct manager manager;
    struct amb_notify notify;
    manage(&manager);
    amb_notify_init(&notify, manager.name, NULL, NULL);
    amb_notify_send(&notify, "STATUS=%0600d", 1);
    assert_int_equal(strlen(heard(&manager)), AMB_NOTIFY_TEXT_MAX - 1);
    amb_notify_fini(&notify);
    (void)close(manager.fd);
}

/* Its queue is full. Texts are dropped then, without a word in the log. */
static void test_a_manager_that_is_behind_holds_up_nobody(void **state)
{
    (void)state;
    struct manager manager;
    struct amb_notify notify;
    manage(&manager);
    amb_notify_init(&notify, manager.name, NULL, NULL);
    for (unsigned i = 0; i < 10000; i++) {
        amb_notify_send(&notify, "WATCHDOG=1");
    }
    assert_string_equal(heard(&manager), "WATCHDOG=1");
    assert_int_equal(warnings, 0);
    amb_notify_fini(&notify);
    (void)close(manager.fd);
}

static void test_a_manager_that_has_gone_is_logged_once(void **state)
{
    (void)state;
    struct amb_notify notify;
    amb_notify_init(&notify, "/proc/there-is-no-such-socket", NULL, NULL);
    for (unsigned i = 0; i < 3; i++) {
        amb_notify_send(&notify, "WATCHDOG=1");
    }
    assert_int_equal(warnings, 1);
    assert_non_null(strstr(warned, "NOTIFY_SOCKET"));
    amb_notify_fini(&notify);
}

static void test_addresses_that_make_no_sense_get_one_warning(void **state)
{
    (void)state;
    char long_path[200];
    memset(long_path, 'x', sizeof(long_path) - 1);
    long_path[0] = '/';
    long_path[sizeof(long_path) - 1] = '\0';
    const char *const wrong[] = {"", "/", "@", "relative/path", "vsock:2:1234", long_path};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        struct amb_notify notify;
        warnings = 0;
        amb_notify_init(&notify, wrong[i], "30000000", NULL);
        assert_false(amb_notify_is_used(&notify));
        assert_int_equal(notify.watchdog_ns, 0);
        amb_notify_send(&notify, "READY=1");
        assert_int_equal(warnings, 1);
        amb_notify_fini(&notify);
    }
}

static void test_watchdogs_that_make_no_sense_get_one_warning(void **state)
{
    (void)state;
    static const char *const wrong[] = {
        "", "-1", "0", "9999", "1e6", "30s", "18446744073709551615", "99999999999999999999"};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        struct amb_notify notify;
        warnings = 0;
        amb_notify_init(&notify, "@somebody", wrong[i], NULL);
        assert_true(amb_notify_is_used(&notify)); /* It is told the rest. */
        assert_int_equal(notify.watchdog_ns, 0);
        assert_int_equal(warnings, 1);
        amb_notify_fini(&notify);
    }
    struct amb_notify notify;
    warnings = 0;
    amb_notify_init(&notify, NULL, "30000000", NULL);
    assert_int_equal(notify.watchdog_ns, 0);
    assert_int_equal(warnings, 1);
}

static void test_a_watchdog_of_another_process_is_none(void **state)
{
    (void)state;
    char own[32];
    struct amb_notify notify;
    amb_notify_init(&notify, "@somebody", "30000000", "1");
    assert_int_equal(notify.watchdog_ns, 0);
    amb_notify_fini(&notify);
    assert_int_equal(warnings, 0);
    (void)snprintf(own, sizeof(own), "%d", (int)getpid());
    amb_notify_init(&notify, "@somebody", "30000000", own);
    assert_int_equal(notify.watchdog_ns, 30 * AMB_NS_PER_SEC);
    amb_notify_fini(&notify);
    assert_int_equal(warnings, 0);
    amb_notify_init(&notify, "@somebody", "30000000", "me");
    assert_int_equal(notify.watchdog_ns, 0);
    amb_notify_fini(&notify);
    assert_int_equal(warnings, 1);
}

#define T(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
    static const struct CMUnitTest tests[] = {
        T(test_without_a_manager_nothing_is_said),
        T(test_a_manager_hears_each_text),
        T(test_a_text_that_is_too_long_is_cut),
        T(test_a_manager_that_is_behind_holds_up_nobody),
        T(test_a_manager_that_has_gone_is_logged_once),
        T(test_addresses_that_make_no_sense_get_one_warning),
        T(test_watchdogs_that_make_no_sense_get_one_warning),
        T(test_a_watchdog_of_another_process_is_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
