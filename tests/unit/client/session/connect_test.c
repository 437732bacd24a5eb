/* SPDX-License-Identifier: Apache-2.0 */
/* amb_connect: URLs, options, and the sentence of every way to fail. */
#include "tests/unit/client/session.h"
#include "wire/base/cpus.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static enum amb_status try_url(const char *url, struct amb_error *error)
{
    struct amb_conn *conn = (void *)1;
    memset(error, 0, sizeof(*error));
    enum amb_status status =
        amb_connect(url, AMB_OPTIONS(.error = error, .connect_timeout_ns = 2 * AMB_SEC), &conn);
    assert_int_equal(error->status, status);
    if (status == AMB_OK) {
        assert_int_equal(amb_close(conn, AMB_SEC), AMB_OK);
    } else {
        assert_null(conn);
        assert_true(error->text[0] != '\0');
    }
    return status;
}

static void a_session_begins_and_ends(void **state)
{
    (void)state;
    struct session s;
    session_open(&s, NULL, NULL);
    assert_int_equal(amb_last_error(s.conn).status, AMB_OK);
    assert_int_equal(amb_close(s.conn, AMB_SEC), AMB_OK);
    FAKE_WAIT(s.fake, &s.seen, s.seen.said_bye && s.seen.hung_up);
    assert_true(s.seen.has_pidfd);
    fake_broker_stop(s.fake);
}

static void the_environment_names_the_broker_if_nobody_else_does(void **state)
{
    (void)state;
    struct fake_broker *fake = fake_broker_start(NULL);
    struct amb_error error;
    assert_int_equal(setenv("AMB_URL", fake_broker_url(fake), 1), 0);
    assert_int_equal(try_url(NULL, &error), AMB_OK);
    assert_int_equal(unsetenv("AMB_URL"), 0);
    fake_broker_stop(fake);
}

/* A file of these texts; its path is static. */
static const char *write_file(const char *before, const char *value, const char *after)
{
    static char path[64];
    (void)snprintf(path, sizeof(path), "/tmp/amb-connect-test-%d.conf", (int)getpid());
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    (void)fprintf(file, "%s%s%s", before, value, after);
    assert_int_equal(fclose(file), 0);
    return path;
}

static enum amb_status try_file(const char *url, const char *path, struct amb_error *error)
{
    struct amb_conn *conn = NULL;
    enum amb_status status = amb_connect(
        url, AMB_OPTIONS(.error = error, .config = path, .connect_timeout_ns = AMB_SEC), &conn);
    assert_int_equal(conn != NULL, status == AMB_OK);
    (void)amb_close(conn, AMB_NOWAIT);
    return status;
}

/* A fake broker serves one session: it is reached by this file, in this way. */
static void expect_by_file(bool by_option, const char *variable)
{
    struct fake_broker *fake = fake_broker_start(NULL);
    struct amb_error error;
    const char *path = write_file("client = { url = \"", fake_broker_url(fake), "\"; };\n");
    assert_int_equal(setenv("AMB_CONFIG", variable != NULL ? variable : path, 1), 0);
    assert_int_equal(by_option ? try_file(NULL, path, &error) : try_url(NULL, &error), AMB_OK);
    assert_int_equal(unsetenv("AMB_CONFIG"), 0);
    assert_int_equal(unlink(path), 0);
    fake_broker_stop(fake);
}

static void a_file_names_the_broker_if_nobody_else_does(void **state)
{
    (void)state;
    expect_by_file(true, "");
    expect_by_file(true, "/nonexistent/file");
    expect_by_file(false, NULL);
}

static void options_and_environment_go_before_the_file(void **state)
{
    (void)state;
    struct amb_error error;
    const char *path = write_file("client = { url = \"", "unix:///nonexistent/a.sock", "\"; };\n");
    assert_int_equal(try_file(NULL, path, &error), AMB_EUNREACHABLE);
    assert_non_null(strstr(error.text, "/nonexistent/a.sock"));
    assert_int_equal(setenv("AMB_URL", "unix:///nonexistent/d.sock", 1), 0);
    assert_int_equal(try_file(NULL, path, &error), AMB_EUNREACHABLE);
    assert_non_null(strstr(error.text, "/nonexistent/d.sock"));
    assert_int_equal(try_file("unix:///nonexistent/c.sock", path, &error), AMB_EUNREACHABLE);
    assert_non_null(strstr(error.text, "/nonexistent/c.sock"));
    assert_int_equal(unsetenv("AMB_URL"), 0);
    assert_int_equal(unlink(path), 0);
    path = write_file("client = { url = \"unix:///nonexistent/e.sock\"; reconnect = { min = \"",
                      "9s", "\"; }; };\n"); /* The default of max is less. */
    assert_int_equal(try_file(NULL, path, &error), AMB_EINVAL);
    assert_non_null(strstr(error.text, "client.reconnect.min: longer than client.reconnect.max"));
    struct amb_conn *conn = NULL;
    assert_int_equal(
        amb_connect(NULL,
                    AMB_OPTIONS(.error = &error, .config = path, .reconnect_max_ns = 20 * AMB_SEC),
                    &conn),
        AMB_EUNREACHABLE);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(try_file(NULL, "/nonexistent/file", &error), AMB_EINVAL);
    assert_string_equal(error.text, "/nonexistent/file: cannot be read: No such file or directory");
}

static void what_is_wrong_in_a_file_has_its_line(void **state)
{
    (void)state;
    char expected[160];
    struct amb_error error;
    const char *path = write_file("client = {\n  url = \"", "http://example.org", "\"; };\n");
    assert_int_equal(try_file(NULL, path, &error), AMB_EINVAL);
    (void)snprintf(expected, sizeof(expected), "%s:2: client.url: ", path);
    assert_int_equal(strncmp(error.text, expected, strlen(expected)), 0);
    assert_int_equal(try_file("http://example.org", path, &error), AMB_EINVAL); /* not the file's */
    assert_null(strstr(error.text, path));
    path = write_file("\nclient = { timeout = ", "5", "; };");
    assert_int_equal(try_file("unix:///nonexistent/e.sock", path, &error), AMB_EINVAL);
    (void)snprintf(expected, sizeof(expected), "%s:2: client.timeout: a time needs a unit", path);
    assert_int_equal(strncmp(error.text, expected, strlen(expected)), 0);
    assert_int_equal(unlink(path), 0);
}

static void expect_no_tls(const struct amb_options *options, const char *expected)
{
    struct amb_conn *conn = NULL;
    assert_int_equal(amb_connect("tls://127.0.0.1:4733", options, &conn), AMB_EINVAL);
    assert_null(conn);
    if (strncmp(options->error->text, expected, strlen(expected)) != 0) {
        fail_msg("not '%s': %s", expected, options->error->text);
    }
}

/* By whoever named it. Nothing is dialled. */
static void a_file_of_tls_that_is_not_there_is_named(void **state)
{
    (void)state;
    struct amb_error error;
    const char *path = write_file("client = {\n  ca = \"", "/nonexistent/f.pem", "\"; };\n");
    char where[128];
    (void)snprintf(where, sizeof(where), "%s:2: client.ca: /nonexistent/f.pem", path);
    expect_no_tls(AMB_OPTIONS(.error = &error, .config = path), where);
    assert_int_equal(setenv("AMB_CA", "/nonexistent/e.pem", 1), 0);
    expect_no_tls(AMB_OPTIONS(.error = &error, .config = path),
                  "environment AMB_CA: client.ca: /nonexistent/e.pem");
    expect_no_tls(AMB_OPTIONS(.error = &error, .config = path, .ca = "/nonexistent/o.pem"),
                  "options.ca: client.ca: /nonexistent/o.pem");
    assert_int_equal(unsetenv("AMB_CA"), 0);
    assert_int_equal(unlink(path), 0);
}

/* The link of the file is that of URLs which name none, and its trust is looked at then alone. */
static void a_file_chooses_the_link(void **state)
{
    (void)state;
    struct amb_error error;
    const char *path = write_file("client = { link = \"", "ucx", "\"; };\n");
    assert_int_equal(unsetenv("AMB_TRUSTED"), 0);
    assert_int_equal(try_file("tcp://127.0.0.1:1", path, &error), AMB_EFORBIDDEN);
    assert_int_equal(try_file("tcp://127.0.0.1:1?link=stream", path, &error), AMB_EUNREACHABLE);
    assert_int_equal(try_file("unix:///nonexistent/g.sock", path, &error), AMB_EUNREACHABLE);
    path = write_file("transports = {\n trusted = ( \"", "no-such-one", "\" ); };\n");
    assert_int_equal(try_file("tcp://127.0.0.1:1", path, &error), AMB_EINVAL);
    assert_non_null(strstr(error.text, ":2: transports.trusted: no such interface"));
    assert_int_equal(try_file("unix:///nonexistent/f.sock", path, &error), AMB_EUNREACHABLE);
    path = write_file("transports = { trusted = ( \"lo\" ); tcp = \"", "off", "\"; };\n");
    assert_int_equal(try_file("tcp://127.0.0.1:1?link=ucx", path, &error), AMB_ENOTSUP);
    assert_non_null(strstr(error.text, "switches of transports"));
    assert_int_equal(try_file("tcp://127.0.0.1:1", path, &error), AMB_EUNREACHABLE);
    assert_int_equal(unlink(path), 0);
}

/* Pauses grow beyond the time that is left, and are cut to fit into it. */
static void the_first_attempts_go_on_until_time_is_up(void **state)
{
    (void)state;
    struct amb_error error;
    struct amb_conn *conn = NULL;
    const int64_t begin_ns = amb_clock_monotonic_ns();
    const enum amb_status status =
        amb_connect("unix:///nonexistent/h.sock",
                    AMB_OPTIONS(.error = &error, .retry_first = 1, .connect_timeout_ns = AMB_SEC,
                                .reconnect_min_ns = 500 * AMB_MS, .reconnect_max_ns = AMB_SEC),
                    &conn);
    assert_int_equal(status, AMB_EUNREACHABLE);
    assert_null(conn);
    assert_true(amb_clock_monotonic_ns() - begin_ns >= 900 * AMB_MS);
}

static void a_list_is_tried_in_order(void **state)
{
    (void)state;
    struct fake_broker *fake = fake_broker_start(NULL);
    struct amb_error error;
    char list[300];
    (void)snprintf(list, sizeof(list), "unix:///nonexistent/a.sock,%s", fake_broker_url(fake));
    assert_int_equal(try_url(list, &error), AMB_OK);
    fake_broker_stop(fake);
    /* Also where this machine cannot go the first way. */
    fake = fake_broker_start(NULL);
    (void)snprintf(list, sizeof(list), "tcp://127.0.0.1:1?interface=no-such-one,%s",
                   fake_broker_url(fake));
    assert_int_equal(try_url(list, &error), AMB_OK);
    fake_broker_stop(fake);
}

static void what_cannot_be_reached_is_named(void **state)
{
    (void)state;
    struct amb_error error;
    assert_int_equal(try_url("unix:///nonexistent/b.sock", &error), AMB_EUNREACHABLE);
    assert_non_null(strstr(error.text, "/nonexistent/b.sock"));
    assert_int_equal(try_url("tcp://127.0.0.1:1", &error), AMB_EUNREACHABLE);
    assert_int_equal(try_url("unix:///nonexistent/a,unix:///nonexistent/b", &error),
                     AMB_EUNREACHABLE);
}

/* Of this machine: lo is there, and no host has its name. */
static void interfaces_are_named_in_their_place(void **state)
{
    (void)state;
    struct amb_error error;
    assert_int_equal(try_url("tcp://127.0.0.1:1?interface=no-such-one", &error), AMB_EINVAL);
    assert_non_null(strstr(error.text, "no-such-one: there is no interface with this name"));
    assert_int_equal(try_url("tcp://[fe80::7]:1", &error), AMB_EINVAL);
    assert_non_null(strstr(error.text, "needs the name of one"));
    if (amb_interface_address("lo", (char[AMB_ADDRESS_MAX]){0}, AMB_ADDRESS_MAX, NULL) != AMB_OK) {
        skip();
    }
    assert_int_equal(try_url("tcp://127.0.0.1:1?interface=lo", &error), AMB_EUNREACHABLE);
    assert_non_null(strstr(error.text, "tcp://127.0.0.1:1?interface=lo from 127.0.0.1: "));
    /* The rest of a list has what it lacks from the URL before it. */
    assert_int_equal(try_url("tcp://127.0.0.1:1?interface=lo&link=stream,127.0.0.2", &error),
                     AMB_EUNREACHABLE);
    assert_non_null(
        strstr(error.text, "tcp://127.0.0.2:1?interface=lo&link=stream from 127.0.0.1"));
    if (try_url("tcp://lo:1", &error) == AMB_EINVAL) { /* Else somebody's host is called lo. */
        assert_non_null(strstr(error.text,
                               "lo is an interface of this machine and no host: write "
                               "tcp://HOST:1?interface=lo, or for a broker here tcp://"));
    }
}

static void wrong_urls_and_options_are_explained(void **state)
{
    (void)state;
    struct amb_error error;
    struct amb_conn *conn;
    assert_int_equal(try_url("http://example.org", &error), AMB_EINVAL);
    assert_int_equal(try_url("tls://example.org:1?pin=sha256/AAAA", &error), AMB_EINVAL);
    assert_int_equal(try_url("tcp://example.org:1?link=nonsense", &error), AMB_EINVAL);
    assert_int_equal(amb_connect("unix:///x", AMB_OPTIONS(.error = &error, .detached = 1), &conn),
                     AMB_ENOTSUP);
    assert_non_null(strstr(error.text, "detached"));
    assert_int_equal(amb_connect(NULL, NULL, NULL), AMB_EINVAL);
}

static void a_spin_that_is_no_time_is_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {"always", "11ms", "-1", "10"};
    struct amb_error error;
    struct amb_conn *conn;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_int_equal(setenv("AMB_SPIN", bad[i], 1), 0);
        assert_int_equal(try_url("unix:///nowhere", &error), AMB_EINVAL);
        assert_non_null(strstr(error.text, "AMB_SPIN"));
        assert_non_null(strstr(error.text, bad[i]));
    }
    static const char *const good[] = {"auto", "0", "10ms", "50us"};
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        assert_int_equal(setenv("AMB_SPIN", good[i], 1), 0);
        assert_int_not_equal(try_url("unix:///nowhere", &error), AMB_EINVAL);
    }
    assert_int_equal(setenv("AMB_SPIN", "always", 1), 0); /* The option is asked first. */
    assert_int_not_equal(amb_connect("unix:///nowhere",
                                     AMB_OPTIONS(.error = &error, .spin_ns = AMB_SPIN_NEVER),
                                     &conn),
                         AMB_EINVAL);
    assert_int_equal(unsetenv("AMB_SPIN"), 0);
    assert_int_equal(amb_connect("unix:///nowhere",
                                 AMB_OPTIONS(.error = &error, .spin_ns = 10 * AMB_MS + 1), &conn),
                     AMB_EINVAL);
    assert_non_null(strstr(error.text, "spin_ns"));
}

static void *connect_on_one_processor(void *arg)
{
    struct amb_cpus cpus;
    unsigned cpu = 0;
    assert_true(amb_cpus_allowed(&cpus));
    while (!amb_cpus_has(&cpus, cpu)) {
        cpu++;
    }
    assert_true(amb_cpus_bind(cpu));
    session_open(arg, NULL, NULL);
    return NULL;
}

/* The broker runs on another one, if there is one. */
static void a_thread_that_has_bound_itself_spins_as_others_do(void **state)
{
    (void)state;
    struct session free_one, bound;
    pthread_t thread;
    session_open(&free_one, NULL, NULL);
    int64_t spin_ns = free_one.conn->driver.spin.max_ns;
    assert_int_equal(spin_ns != 0, amb_cpus_around() > 1);
    session_close(&free_one);
    assert_int_equal(pthread_create(&thread, NULL, connect_on_one_processor, &bound), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(bound.conn->driver.spin.max_ns, spin_ns);
    session_close(&bound);
}

static void ucx_needs_trusted_interfaces(void **state)
{
    (void)state;
    struct amb_error error;
    assert_int_equal(unsetenv("AMB_TRUSTED"), 0);
    assert_int_equal(try_url("tcp://127.0.0.1:1?link=ucx", &error), AMB_EFORBIDDEN);
    assert_non_null(strstr(error.text, "trusted_network"));
    assert_non_null(strstr(error.text, "AMB_TRUSTED"));
}

/* Somebody who accepts and says something else, or nothing. */
static void what_is_not_a_broker_is_said(void **state)
{
    (void)state;
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    char dir[] = "/tmp/amb-connect-XXXXXX";
    assert_non_null(mkdtemp(dir));
    (void)snprintf(address.sun_path, sizeof(address.sun_path), "%s/s", dir);
    int listener = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_int_equal(bind(listener, (const struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(listen(listener, 2), 0);
    char url[100];
    (void)snprintf(url, sizeof(url), "unix://%s/s", dir);
    struct amb_error error = {0};
    struct amb_conn *conn;
    /* It never answers: the deadline does. */
    assert_int_equal(
        amb_connect(url, AMB_OPTIONS(.error = &error, .connect_timeout_ns = 20 * AMB_MS), &conn),
        AMB_ETIMEDOUT);
    int peer = accept(listener, NULL, NULL);
    (void)close(peer);
    if (fork() == 0) {
        peer = accept(listener, NULL, NULL);
        (void)!write(peer, "HTTP/1.1 400 Bad Request\r\n\r\n", 28);
        char byte;
        (void)!read(peer, &byte, 1);
        _exit(0);
    }
    assert_int_equal(try_url(url, &error), AMB_EPROTO);
    assert_non_null(strstr(error.text, "not a broker"));
    (void)close(listener);
    (void)unlink(address.sun_path);
    (void)rmdir(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_session_begins_and_ends),
        cmocka_unit_test(the_environment_names_the_broker_if_nobody_else_does),
        cmocka_unit_test(a_file_names_the_broker_if_nobody_else_does),
        cmocka_unit_test(options_and_environment_go_before_the_file),
        cmocka_unit_test(what_is_wrong_in_a_file_has_its_line),
        cmocka_unit_test(a_file_of_tls_that_is_not_there_is_named),
        cmocka_unit_test(a_file_chooses_the_link),
        cmocka_unit_test(the_first_attempts_go_on_until_time_is_up),
        cmocka_unit_test(a_list_is_tried_in_order),
        cmocka_unit_test(what_cannot_be_reached_is_named),
        cmocka_unit_test(interfaces_are_named_in_their_place),
        cmocka_unit_test(wrong_urls_and_options_are_explained),
        cmocka_unit_test(a_spin_that_is_no_time_is_refused),
        cmocka_unit_test(a_thread_that_has_bound_itself_spins_as_others_do),
        cmocka_unit_test(ucx_needs_trusted_interfaces),
        cmocka_unit_test(what_is_not_a_broker_is_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
