/* SPDX-License-Identifier: Apache-2.0 */
/* broker/http/table and stream: the end of the broker while requests wait. Answers, and a control
 * thread that hangs: integration/stream_test.py. */
#include "broker/http/table.h"

#include "broker/control/clients/control.h"
#include "broker/http/stream.h"
#include "wire/base/clock.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#define TURNS 4u
#define HEAD "GET / HTTP/1.1\r\nHost: a\r\n\r\n"

struct fixture {
    struct amb_control control; /* nobody reads its mail */
    struct amb_inbox inbox;     /* of an observer */
    struct amb_tables tables;
    struct amb_streams streams;
    struct MHD_Daemon *daemon;
    enum amb_status last; /* of the handler */
    unsigned asked;
};

static enum MHD_Result refuse(struct MHD_Connection *connection)
{
    struct MHD_Response *response =
        MHD_create_response_from_buffer(0, NULL, MHD_RESPMEM_PERSISTENT);
    enum MHD_Result result = MHD_queue_response(connection, MHD_HTTP_SERVICE_UNAVAILABLE, response);
    MHD_destroy_response(response);
    return result;
}

static enum MHD_Result answer(void *arg, struct MHD_Connection *connection, const char *url,
                              const char *method, const char *version, const char *upload,
                              size_t *upload_size, void **state)
{
    struct fixture *f = arg;
    const char *text = NULL;
    (void)url, (void)method, (void)version, (void)upload, (void)state;
    *upload_size = 0;
    f->asked++;
    f->last = amb_tables_ask(&f->tables, "transports", connection, amb_clock_monotonic_ns(), &text);
    return f->last == AMB_EAGAIN ? MHD_YES : refuse(connection);
}

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));
    if (f == NULL || amb_inbox_init(&f->control.inbox, &f->control) != AMB_OK ||
        amb_inbox_init(&f->inbox, f) != AMB_OK) {
        return -1;
    }
    f->tables = (struct amb_tables){.control = &f->control, .inbox = &f->inbox};
    f->daemon =
        MHD_start_daemon(MHD_USE_EPOLL | MHD_USE_NO_LISTEN_SOCKET | MHD_ALLOW_SUSPEND_RESUME, 0,
                         NULL, NULL, answer, f, MHD_OPTION_END);
    *state = f;
    return f->daemon == NULL ? -1 : 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    amb_inbox_fini(&f->inbox);
    amb_inbox_fini(&f->control.inbox);
    free(f);
    return 0;
}

static int open_request(struct fixture *f)
{
    struct sockaddr_un from = {.sun_family = AF_UNIX};
    int ends[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
    assert_int_equal(write(ends[1], HEAD, sizeof(HEAD) - 1), (ssize_t)sizeof(HEAD) - 1);
    assert_int_equal(MHD_add_connection(f->daemon, ends[0], (struct sockaddr *)&from, sizeof(from)),
                     MHD_YES);
    return ends[1];
}

static void run(struct fixture *f)
{
    for (unsigned i = 0; i < TURNS; i++) {
        (void)MHD_run(f->daemon);
    }
}

/* libmicrohttpd ends the process where a connection is suspended as it stops. */
static void test_requests_that_wait_are_refused_at_the_end(void **state)
{
    struct fixture *f = *state;
    char text[64] = "";
    int fd = open_request(f);
    run(f);
    assert_int_equal(f->asked, 1);
    assert_int_equal(f->last, AMB_EAGAIN);
    assert_true(f->tables.of[0].is_asked);
    amb_tables_end(&f->tables);
    run(f);
    assert_int_equal(f->asked, 2);
    assert_int_equal(f->last, AMB_EBUSY);
    MHD_stop_daemon(f->daemon);
    assert_true(read(fd, text, sizeof(text) - 1) > 0);
    assert_non_null(strstr(text, " 503 "));
    (void)close(fd);
}

static void test_a_request_that_comes_behind_the_end_does_not_wait(void **state)
{
    struct fixture *f = *state;
    amb_tables_end(&f->tables);
    int fd = open_request(f);
    run(f);
    assert_int_equal(f->last, AMB_EBUSY);
    assert_false(f->tables.of[0].is_asked);
    MHD_stop_daemon(f->daemon);
    (void)close(fd);
}

static void test_no_stream_begins_behind_the_end(void **state)
{
    struct fixture *f = *state;
    struct amb_stream_question question = {.count = 0};
    struct MHD_Response *response = NULL;
    char why[AMB_COUNTERS_REFUSAL_MAX];
    assert_true(amb_stream_argument(&question, "view", "status", why));
    amb_streams_end(&f->streams);
    assert_int_equal(
        amb_stream_open(&f->streams, NULL, AMB_STREAM_BY_KEY, &question, &response, why),
        AMB_ELIMIT);
    assert_null(response);
    MHD_stop_daemon(f->daemon);
}

/* As the control thread does without memory for an answer. */
static void test_no_memory_is_told_as_that(void **state)
{
    struct fixture *f = *state;
    int fd = open_request(f);
    run(f);
    assert_int_equal(f->last, AMB_EAGAIN);
    struct amb_status_ask *ask = &f->tables.of[0].ask;
    ask->text = NULL;
    amb_mail_post(ask->to, &ask->mail, ask->done);
    assert_int_equal(amb_inbox_run(&f->inbox), 1);
    run(f);
    assert_int_equal(f->asked, 2);
    assert_int_equal(f->last, AMB_ENOMEM);
    assert_non_null(strstr(amb_tables_why(f->last), "memory"));
    assert_null(strstr(amb_tables_why(AMB_EBUSY), "memory"));
    assert_string_not_equal(amb_tables_why(AMB_ETIMEDOUT), amb_tables_why(AMB_EBUSY));
    amb_tables_end(&f->tables);
    MHD_stop_daemon(f->daemon);
    (void)close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_requests_that_wait_are_refused_at_the_end, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_a_request_that_comes_behind_the_end_does_not_wait,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(test_no_stream_begins_behind_the_end, setup, teardown),
        cmocka_unit_test_setup_teardown(test_no_memory_is_told_as_that, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
