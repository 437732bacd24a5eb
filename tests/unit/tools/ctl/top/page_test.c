/* SPDX-License-Identifier: Apache-2.0 */
/* Under test: tools/ctl/top/page: the lines of a screen and of a block. */
#include "tools/ctl/top/page.h"

#include "tests/unit/tools/ctl/top/answers.h"

#include <locale.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

#include <cmocka.h>

#define SECOND INT64_C(1000000000)
#define LINES 64u

struct drawn {
    char text[LINES][4096];
    enum amb_top_style style[LINES];
    size_t count;
};

static void put(void *arg, size_t line, enum amb_top_style style, const char *text)
{
    struct drawn *drawn = arg;
    assert_true(line < LINES);
    (void)snprintf(drawn->text[line], sizeof(drawn->text[line]), "%s", text);
    drawn->style[line] = style;
    drawn->count = line + 1 > drawn->count ? line + 1 : drawn->count;
}

static size_t width_of(const char *text)
{
    wchar_t wide[4096];
    size_t count = mbstowcs(wide, text, 4096);
    assert_true(count < 4096);
    return (size_t)wcswidth(wide, count);
}

/* The look at `answers`, with the one before a second earlier. */
static struct amb_top_sample *take(struct answers *answers, enum amb_top_view view,
                                   const struct amb_top_sample *before)
{
    struct amb_top_sample *sample = NULL;
    char note[AMB_TOP_NOTE_MAX];
    assert_int_equal(amb_top_sample_take(answers_ask, answers, view, NULL, before, &sample, note),
                     AMB_OK);
    sample->real_ns = 1700000000 * SECOND;
    return sample;
}

static struct amb_top_page page_of(const struct amb_top_sample *sample, size_t width, size_t height)
{
    return (struct amb_top_page){
        .sample = sample, .notice = "", .width = width, .height = height, .has_utf8 = true};
}

static struct answers three_topics(void)
{
    return (struct answers){
        .status = ANSWERS_STATUS,
        .workers = ANSWERS_WORKERS,
        .view = "{\"topics\": [{\"topic\": \"a.b\", \"tenant\": \"\", \"messages\": 5, \"bytes\": "
                "50, \"log_bytes\": 2048, \"log_messages\": 3, \"subscriptions\": 1, \"dropped\": "
                "0, \"rejected\": 0, \"worker\": 0}, {\"topic\": \"\\u001b[31mred\", \"tenant\": "
                "\"\", \"messages\": 9, \"log_bytes\": 1}, {\"topic\": "
                "\"\\u65e5\\u672c\\u202e\", \"tenant\": \"t\"}], \"not_shown\": 4}"};
}

static void test_a_screen(void **state)
{
    (void)state;
    static struct drawn drawn;
    struct answers answers = three_topics();
    struct amb_top_sample *sample = take(&answers, AMB_TOP_TOPICS, NULL);
    struct amb_top_state top;
    struct amb_top_page page = page_of(sample, 100, 20);
    amb_top_state_init(&top, AMB_TOP_TOPICS, SECOND);
    amb_top_page(&page, &top, put, &drawn);
    assert_string_equal(drawn.text[0], "2023-11-14T22:13:20Z  hall 1.2, process 7, up 75.0 s");
    assert_string_equal(drawn.text[1], "in - msg/s -/s  out - msg/s -/s  lost - msg/s, 3 so far");
    assert_string_equal(drawn.text[2], "memory 1.00 MiB of 4.00 MiB  clients 3 of 10  topics 2 of "
                                       "20  subscriptions 1 of 30");
    assert_string_equal(drawn.text[3], "");
    assert_string_equal(drawn.text[4],
                        "[1 topics] 2 subs 3 clients 4 workers 5 queues  3 by MSG/S");
    assert_int_equal(drawn.style[5], AMB_TOP_TITLE);
    assert_int_equal(strncmp(drawn.text[5], "TOPIC ", 6), 0);
    assert_non_null(strstr(drawn.text[5], "   MSG/S  BYTES/S     HELD"));
    assert_non_null(strstr(drawn.text[6], "a.b "));
    assert_non_null(strstr(drawn.text[6], " 2.00 KiB "));
    assert_non_null(strstr(drawn.text[7], "\\x1b[31mred "));
    assert_non_null(strstr(drawn.text[8], "\xe6\x97\xa5\xe6\x9c\xac\\u202e "));
    assert_string_equal(drawn.text[9], "4 more have no figures (server.counters_objects)");
    assert_non_null(strstr(drawn.text[19], "q end"));
    assert_int_equal(drawn.count, 20);
    for (size_t i = 0; i < drawn.count; i++) {
        assert_true(width_of(drawn.text[i]) <= 100);
    }
    amb_top_sample_free(&sample);
}

/* At each size of a terminal: no line beyond its end, nothing wider than it is. */
static void test_each_size(void **state)
{
    (void)state;
    struct answers answers = three_topics();
    for (unsigned view = 0; view < AMB_TOP_VIEWS; view++) {
        struct amb_top_sample *sample = take(&answers, (enum amb_top_view)view, NULL);
        for (size_t width = 0; width < 130; width++) {
            for (size_t height = 0; height < 14; height++) {
                static struct drawn drawn;
                struct amb_top_state top;
                struct amb_top_page page = page_of(sample, width, height);
                amb_top_state_init(&top, (enum amb_top_view)view, SECOND);
                top.has_help = height % 3 == 2;
                top.first = width;
                drawn.count = 0;
                amb_top_page(&page, &top, put, &drawn);
                assert_true(drawn.count == height);
                for (size_t i = 0; i < drawn.count; i++) {
                    assert_true(width_of(drawn.text[i]) <= width);
                }
            }
        }
        amb_top_sample_free(&sample);
    }
}

static void test_rows_that_lose_stand_out(void **state)
{
    (void)state;
    static struct drawn drawn;
    struct answers answers = {
        .status = ANSWERS_STATUS,
        .workers = ANSWERS_WORKERS,
        .view = "{\"subs\": [{\"pattern\": \"a\", \"client\": 1, \"id\": 1, \"lost\": 5}, "
                "{\"pattern\": \"b\", \"client\": 1, \"id\": 2, \"lost\": 5}]}"};
    struct amb_top_sample *first = take(&answers, AMB_TOP_SUBS, NULL);
    answers.view = "{\"subs\": [{\"pattern\": \"a\", \"client\": 1, \"id\": 1, \"lost\": 6}, "
                   "{\"pattern\": \"b\", \"client\": 1, \"id\": 2, \"lost\": 5}]}";
    struct amb_top_sample *second = take(&answers, AMB_TOP_SUBS, first);
    struct amb_top_state top;
    struct amb_top_page page = page_of(second, 100, 20);
    amb_top_state_init(&top, AMB_TOP_SUBS, SECOND);
    top.orders[AMB_TOP_SUBS].column = 0;
    amb_top_page(&page, &top, put, &drawn);
    assert_int_equal(drawn.style[6], AMB_TOP_ALARM);
    assert_int_equal(drawn.style[7], AMB_TOP_PLAIN);
    amb_top_sample_free(&first);
    amb_top_sample_free(&second);
}

static void test_a_memory_that_is_nearly_full_stands_out(void **state)
{
    (void)state;
    static struct drawn drawn;
    struct answers answers = three_topics();
    answers.status = "{\"memory_used_bytes\": 90, \"memory_limit_bytes\": 100, \"draining\": 1}";
    struct amb_top_sample *sample = take(&answers, AMB_TOP_TOPICS, NULL);
    struct amb_top_state top;
    struct amb_top_page page = page_of(sample, 100, 20);
    amb_top_state_init(&top, AMB_TOP_TOPICS, SECOND);
    amb_top_page(&page, &top, put, &drawn);
    assert_int_equal(drawn.style[2], AMB_TOP_ALARM);
    assert_non_null(strstr(drawn.text[0], ", draining"));
    amb_top_sample_free(&sample);
}

/* The column of the order is shown on a screen that has no room for those before it. */
static void test_the_order_s_column_is_shown(void **state)
{
    (void)state;
    static struct drawn drawn;
    struct answers answers = three_topics();
    struct amb_top_sample *sample = take(&answers, AMB_TOP_TOPICS, NULL);
    struct amb_top_state top;
    struct amb_top_page page = page_of(sample, 30, 10);
    amb_top_state_init(&top, AMB_TOP_TOPICS, SECOND);
    amb_top_page(&page, &top, put, &drawn);
    assert_non_null(strstr(drawn.text[5], "MSG/S"));
    top.orders[AMB_TOP_TOPICS].column = amb_top_column(amb_top_lens(AMB_TOP_TOPICS), "refused");
    amb_top_page(&page, &top, put, &drawn);
    assert_non_null(strstr(drawn.text[5], "REFUSED"));
    assert_null(strstr(drawn.text[5], "MSG/S"));
    amb_top_sample_free(&sample);
}

static void test_a_page_without_figures(void **state)
{
    (void)state;
    static struct drawn drawn;
    struct amb_top_state top;
    struct amb_top_page page = page_of(NULL, 80, 10);
    page.notice = "no answer for 3 s: \x1b[2J";
    page.is_alarm = true;
    amb_top_state_init(&top, AMB_TOP_WORKERS, SECOND);
    amb_top_page(&page, &top, put, &drawn);
    assert_string_equal(drawn.text[0], "no figures yet");
    assert_string_equal(drawn.text[3], "no answer for 3 s: \\x1b[2J");
    assert_int_equal(drawn.style[3], AMB_TOP_ALARM);
}

static void test_a_view_that_is_refused(void **state)
{
    (void)state;
    static struct drawn drawn;
    struct answers answers = {.note = "workers: no right"};
    struct amb_top_sample *sample = take(&answers, AMB_TOP_WORKERS, NULL);
    struct amb_top_state top;
    struct amb_top_page page = page_of(sample, 80, 10);
    amb_top_state_init(&top, AMB_TOP_WORKERS, SECOND);
    amb_top_page(&page, &top, put, &drawn);
    assert_non_null(strstr(drawn.text[0], "not for this user"));
    assert_string_equal(drawn.text[3], "workers: no right");
    assert_string_equal(drawn.text[6], "workers are not for this user");
    amb_top_sample_free(&sample);
}

static void test_a_block(void **state)
{
    (void)state;
    static struct drawn drawn;
    struct answers answers = three_topics();
    struct amb_top_sample *sample = take(&answers, AMB_TOP_TOPICS, NULL);
    struct amb_top_state top;
    struct amb_top_page page = page_of(sample, 100, 0);
    amb_top_state_init(&top, AMB_TOP_TOPICS, SECOND);
    top.orders[AMB_TOP_TOPICS].column = 3;
    amb_top_block(&page, &top, 2, put, &drawn);
    assert_int_equal(drawn.count, 7);
    assert_int_equal(strncmp(drawn.text[3], "TOPIC ", 6), 0);
    assert_int_equal(strncmp(drawn.text[4], "a.b ", 4), 0);
    assert_int_equal(strncmp(drawn.text[5], "\\x1b", 4), 0);
    page.notice = "another broker answers";
    amb_top_block(&page, &top, 0, put, &drawn);
    assert_int_equal(drawn.count, 9);
    assert_string_equal(drawn.text[3], "another broker answers");
    amb_top_sample_free(&sample);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_screen),
        cmocka_unit_test(test_each_size),
        cmocka_unit_test(test_rows_that_lose_stand_out),
        cmocka_unit_test(test_a_memory_that_is_nearly_full_stands_out),
        cmocka_unit_test(test_the_order_s_column_is_shown),
        cmocka_unit_test(test_a_page_without_figures),
        cmocka_unit_test(test_a_view_that_is_refused),
        cmocka_unit_test(test_a_block),
    };
    if (setlocale(LC_CTYPE, "C.UTF-8") == NULL) {
        return EXIT_FAILURE;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
