/* SPDX-License-Identifier: Apache-2.0 */
/* tools/ctl/visitor: requests that may pass from a port of loopback to the broker's socket. */
#include "tools/ctl/visitor.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define PORT 8080
#define NOW_NS INT64_C(1000000000)
#define NOW_S INT64_C(1800000000)

static struct amb_visits visits;
static char answer[AMB_VISITOR_ANSWER_MAX];

static int begin(void **state)
{
    (void)state;
    return amb_visits_init(&visits, "") == AMB_OK ? 0 : -1;
}

static enum amb_visitor judge(const char *head)
{
    return amb_visitor_judge(&visits, head, strlen(head), PORT, NOW_NS, NOW_S, answer);
}

static void assert_answer(const char *head, const char *status)
{
    assert_int_equal(judge(head), AMB_VISITOR_ANSWERED);
    assert_memory_equal(answer + strlen("HTTP/1.1 "), status, strlen(status));
}

/* "NAME=VALUE" of a cookie, by the key that works once. */
static void visit(char cookie[AMB_VISITS_COOKIE_SIZE])
{
    char key[AMB_VISITS_KEY_SIZE], head[256];
    amb_visits_key(&visits, NOW_NS, key);
    (void)snprintf(head, sizeof(head), "GET /?key=%s HTTP/1.1\r\nHost: 127.0.0.1:8080\r\n\r\n",
                   key);
    assert_answer(head, "200");
    assert_non_null(strstr(answer, "\r\nRefresh: 0; url=/\r\n"));
    const char *at = strstr(answer, "Set-Cookie: ");
    assert_non_null(at);
    at += strlen("Set-Cookie: ");
    size_t len = strcspn(at, ";");
    memcpy(cookie, at, len);
    cookie[len] = '\0';
    assert_answer(head, "401"); /* Once. */
}

static void test_a_key_gives_a_cookie_once(void **state)
{
    (void)state;
    char cookie[AMB_VISITS_COOKIE_SIZE], head[512];
    visit(cookie);
    (void)snprintf(head, sizeof(head),
                   "GET /v1/topics HTTP/1.1\r\nhost: LOCALHOST:8080\r\ncookie: a=b; %s\r\n\r\n",
                   cookie);
    assert_int_equal(judge(head), AMB_VISITOR_FORWARD);
    *strstr(head, "8080") = '9';
    assert_answer(head, "403");
}

static void test_others_are_refused(void **state)
{
    (void)state;
    assert_answer("GET / HTTP/1.1\r\nHost: 127.0.0.1:8080\r\n\r\n", "401");
    assert_answer("GET /?key= HTTP/1.1\r\nHost: 127.0.0.1:8080\r\n\r\n", "401");
    assert_answer("GET / HTTP/1.1\r\nHost: evil.example:8080\r\n\r\n", "403");
    assert_answer("GET / HTTP/1.1\r\nHost: 127.0.0.1.evil.example:8080\r\n\r\n", "403");
    assert_answer("GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", "403");
    assert_answer("GET / HTTP/1.1\r\n\r\n", "403");
    assert_answer("GET / HTTP/1.1\r\nHost: 127.0.0.1:8080\r\nHost: 127.0.0.1:8080\r\n\r\n", "403");
    assert_answer("POST / HTTP/1.1\r\nHost: 127.0.0.1:8080\r\n\r\n", "405");
    assert_answer("\r\n\r\n", "405");
    static const char nul[] = "GET / HTTP/1.1\r\nHost: 127.0.0.1:8080\0\r\n\r\n";
    assert_int_equal(amb_visitor_judge(&visits, nul, sizeof(nul) - 1, PORT, NOW_NS, NOW_S, answer),
                     AMB_VISITOR_ANSWERED);
    assert_memory_equal(answer + strlen("HTTP/1.1 "), "405", 3);
}

static void test_half_a_head_is_waited_for(void **state)
{
    (void)state;
    static char head[AMB_VISITOR_HEAD_MAX + 1];
    assert_int_equal(judge(""), AMB_VISITOR_WAITS);
    assert_int_equal(judge("GET / HTTP/1.1\r\nHost: 127.0.0.1:8080\r\n"), AMB_VISITOR_WAITS);
    memset(head, 'a', sizeof(head) - 1);
    assert_answer(head, "431");
}

static void test_a_broker_that_is_not_there_is_excused(void **state)
{
    (void)state;
    amb_visitor_excuse("GET /v1/events?view=status HTTP/1.1\r\n", answer);
    assert_non_null(strstr(answer, "text/event-stream"));
    assert_int_equal(strlen(strstr(answer, "\r\n\r\n") + 4), 13);
    amb_visitor_excuse("GET / HTTP/1.1\r\n", answer);
    assert_memory_equal(answer, "HTTP/1.1 503", 12);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_a_key_gives_a_cookie_once, begin),
        cmocka_unit_test_setup(test_others_are_refused, begin),
        cmocka_unit_test_setup(test_half_a_head_is_waited_for, begin),
        cmocka_unit_test_setup(test_a_broker_that_is_not_there_is_excused, begin),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
