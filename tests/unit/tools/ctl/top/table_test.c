/* SPDX-License-Identifier: Apache-2.0 */
/* Under test: tools/ctl/top/table: rates of two answers, sums, choice and order. */
#include "tools/ctl/top/table.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define SECOND INT64_C(1000000000)

static struct amb_top_table *make(enum amb_top_view view, const char *own, const char *also,
                                  int64_t at_ns, const struct amb_top_table *before)
{
    json_t *answers[3] = {json_loads(own, 0, NULL), also == NULL ? NULL : json_loads(also, 0, NULL),
                          NULL};
    struct amb_top_table *table = amb_top_table_make(amb_top_lens(view), answers, at_ns, before);
    assert_non_null(table);
    json_decref(answers[0]);
    json_decref(answers[1]);
    return table;
}

static bool value(const struct amb_top_table *table, size_t row, const char *title, double *out)
{
    size_t at = amb_top_column(table->lens, title);
    assert_true(at < table->lens->count);
    *out = table->rows[row].value[at];
    return (table->rows[row].known >> at & 1u) != 0;
}

static void check_value(const struct amb_top_table *table, size_t row, const char *title,
                        double wanted)
{
    double found;
    assert_true(value(table, row, title, &found));
    assert_float_equal(found, wanted, 1e-9);
}

static void check_unknown(const struct amb_top_table *table, size_t row, const char *title)
{
    double found;
    assert_false(value(table, row, title, &found));
}

static void test_rates_are_of_two_answers(void **state)
{
    (void)state;
    struct amb_top_table *first =
        make(AMB_TOP_TOPICS,
             "{\"topics\": [{\"topic\": \"a\", \"tenant\": \"\", \"messages\": 10, \"bytes\": 100, "
             "\"dropped\": 1}]}",
             NULL, SECOND, NULL);
    check_unknown(first, 0, "MSG/S");
    check_value(first, 0, "MESSAGES", 10);
    struct amb_top_table *second =
        make(AMB_TOP_TOPICS,
             "{\"topics\": [{\"topic\": \"b\", \"tenant\": \"\", \"messages\": 7}, {\"topic\": "
             "\"a\", \"tenant\": \"\", \"messages\": 30, \"bytes\": 100, \"dropped\": 0}]}",
             NULL, 3 * SECOND, first);
    check_unknown(second, 0, "MSG/S"); /* It was not there before. */
    check_value(second, 1, "MSG/S", 10);
    check_value(second, 1, "BYTES/S", 0);
    check_unknown(second, 1, "DROP/S");  /* It ran backwards: another life. */
    check_unknown(second, 0, "BYTES/S"); /* Not in the answer. */
    amb_top_table_free(&first);
    amb_top_table_free(&second);
    assert_null(second);
}

/* Two tenants, each with a topic of the same name. */
static void test_rows_are_known_by_all_their_ids(void **state)
{
    (void)state;
    static const char *const text =
        "{\"topics\": [{\"topic\": \"a\", \"tenant\": \"x\", \"messages\": 1}, {\"topic\": \"a\", "
        "\"tenant\": \"y\", \"messages\": 100}]}";
    struct amb_top_table *first = make(AMB_TOP_TOPICS, text, NULL, 0, NULL);
    struct amb_top_table *second = make(AMB_TOP_TOPICS, text, NULL, SECOND, first);
    check_value(second, 0, "MSG/S", 0);
    check_value(second, 1, "MSG/S", 0);
    amb_top_table_free(&first);
    amb_top_table_free(&second);
}

static void test_a_client_has_the_sums_of_its_subscriptions(void **state)
{
    (void)state;
    static const char *const clients = "{\"clients\": [{\"id\": 1, \"name\": \"c\", "
                                       "\"mapped_bytes\": 2, \"leased_bytes\": 3}, {\"id\": 2}]}";
    struct amb_top_table *first =
        make(AMB_TOP_CLIENTS, clients,
             "{\"subs\": [{\"client\": 1, \"pending_bytes\": 5, \"lost\": 1}, {\"client\": 1, "
             "\"pending_bytes\": 6, \"lost\": 2}, {\"client\": 9, \"pending_bytes\": 100}]}",
             0, NULL);
    check_value(first, 0, "LAG", 11);
    check_value(first, 1, "LAG", 0);
    check_value(first, 0, "LOST", 3);
    check_value(first, 0, "MEMORY", 5);
    check_unknown(first, 1, "MEMORY");
    struct amb_top_table *second = make(
        AMB_TOP_CLIENTS, clients, "{\"subs\": [{\"client\": 1, \"lost\": 13}]}", SECOND, first);
    check_value(second, 0, "LOST/S", 10);
    struct amb_top_table *third = make(AMB_TOP_CLIENTS, clients, NULL, 2 * SECOND, second);
    check_unknown(third, 0, "LAG"); /* Without the other answer. */
    amb_top_table_free(&first);
    amb_top_table_free(&second);
    amb_top_table_free(&third);
}

static void test_answers_of_another_shape(void **state)
{
    (void)state;
    static const char *const texts[] = {"{}",
                                        "[]",
                                        "{\"topics\": 3}",
                                        "{\"topics\": [1, \"a\", null, []]}",
                                        "{\"topics\": [{}]}",
                                        "{\"topics\": [{\"topic\": 5, \"messages\": \"many\"}]}"};
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        struct amb_top_order order = {.column = 1};
        size_t count;
        struct amb_top_table *table = make(AMB_TOP_TOPICS, texts[i], "{\"subs\": 1}", 0, NULL);
        struct amb_top_table *next = make(AMB_TOP_TOPICS, texts[i], NULL, SECOND, table);
        size_t *shown = amb_top_table_show(next, &order, &count);
        assert_int_equal(count, i < 4 ? 0 : 1);
        free(shown);
        amb_top_table_free(&table);
        amb_top_table_free(&next);
    }
}

static void check_order(const struct amb_top_table *table, const char *title, bool is_reverse,
                        const char *filter, const char *wanted)
{
    struct amb_top_order order = {.column = amb_top_column(table->lens, title),
                                  .is_reverse = is_reverse};
    char found[16] = "";
    size_t count;
    strcpy(order.filter, filter);
    size_t *shown = amb_top_table_show(table, &order, &count);
    assert_non_null(shown);
    for (size_t i = 0; i < count; i++) {
        found[i] = amb_top_row_text(&table->rows[shown[i]], &table->lens->columns[0])[0];
    }
    assert_string_equal(found, wanted);
    free(shown);
}

static void test_order_and_filter(void **state)
{
    (void)state;
    struct amb_top_table *table =
        make(AMB_TOP_TOPICS,
             "{\"topics\": [{\"topic\": \"camera\", \"log_bytes\": 5}, {\"topic\": \"Audio\", "
             "\"log_bytes\": 7}, {\"topic\": \"beat\"}, {\"topic\": \"delta\", \"log_bytes\": 5, "
             "\"tenant\": \"CAM\"}]}",
             NULL, 0, NULL);
    check_order(table, "HELD", false, "", "Acdb");
    check_order(table, "HELD", true, "", "cdAb");
    check_order(table, "TOPIC", false, "", "Abcd");
    check_order(table, "TOPIC", true, "", "dcbA");
    check_order(table, "HELD", false, "cam", "cd");
    check_order(table, "HELD", false, "no such", "");
    amb_top_table_free(&table);
}

static void test_a_figure_may_be_a_sum(void **state)
{
    (void)state;
    json_t *object = json_loads("{\"a\": 1, \"b\": 2.5, \"c\": null}", 0, NULL);
    double out = 0;
    assert_true(amb_top_figure(object, "a+b", &out));
    assert_float_equal(out, 3.5, 1e-9);
    assert_false(amb_top_figure(object, "a+c", &out));
    assert_false(amb_top_figure(object, "a+none", &out));
    json_decref(object);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rates_are_of_two_answers),
        cmocka_unit_test(test_rows_are_known_by_all_their_ids),
        cmocka_unit_test(test_a_client_has_the_sums_of_its_subscriptions),
        cmocka_unit_test(test_answers_of_another_shape),
        cmocka_unit_test(test_order_and_filter),
        cmocka_unit_test(test_a_figure_may_be_a_sum),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
