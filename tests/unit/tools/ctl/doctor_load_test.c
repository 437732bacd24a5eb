/* SPDX-License-Identifier: Apache-2.0 */
/* The doctor's findings on a broker's figures. */
#include "tools/ctl/doctor_load.h"

#include "tests/support/doctor/findings_try.h"

static json_t *look(const char *status, const char *losers, const char *waiters)
{
    json_t *answers[] = {json_loads(status, 0, NULL), json_loads(losers, 0, NULL),
                         json_loads(waiters, 0, NULL)};
    json_t *rows = json_array();
    amb_doctor_load(answers[0], answers[1], answers[2], rows);
    for (size_t i = 0; i < 3; i++) {
        json_decref(answers[i]);
    }
    return rows;
}

#define STATUS(used, topics, dead)                                                                 \
    "{\"memory_used_bytes\": " used ", \"memory_bytes\": 999, \"leased_bytes\": 999, "             \
    "\"memory_limit_bytes\": 1000, \"topics\": " topics                                            \
    ", \"topics_limit\": 100, \"dead_letters_lost\": " dead "}"
#define NONE "{\"subs\": []}"

static void a_broker_at_rest_is_well(void **state)
{
    (void)state;
    json_t *rows = look(STATUS("749", "74", "0"), NONE, NONE);
    for (size_t i = 0; i < json_array_size(rows); i++) {
        assert_string_equal(json_string_value(json_object_get(json_array_get(rows, i), "state")),
                            "ok");
    }
    assert_int_equal(json_array_size(rows), 2);
    json_decref(rows);
}

static void limits_that_are_near_are_named(void **state)
{
    (void)state;
    expect_found(look(STATUS("0", "75", "0"), NONE, NONE), "topics-full",
                 "75 of 100 topics are there (75 %)");
    expect_found(look(STATUS("750", "0", "0"), NONE, NONE), "memory-full", "750 of 1000 bytes");
    expect_found(look(STATUS("0", "0", "3"), NONE, NONE), "dead-letters",
                 "3 messages were given up");
}

static void subscriptions_that_are_behind_are_named(void **state)
{
    (void)state;
    static const char subs[] =
        "{\"subs\": [{\"id\": 7, \"client\": 4, \"pattern\": \"a.>\", \"lost_slow\": 12, "
        "\"pending_bytes\": 67108865}, {\"id\": 8, \"pattern\": \"b\", \"lost_slow\": 0, "
        "\"pending_bytes\": 67108864}]}";
    expect_found(look("{}", subs, NONE), "subscription-slow",
                 "'a.>' of client 4 has lost 12 messages");
    expect_found(look("{}", NONE, subs), "subscription-behind",
                 "67108865 bytes wait for 'a.>' of client 4 (limit: 67108864)");
    json_t *rows = look("{}", subs, subs);
    assert_int_equal(json_array_size(rows), 2); /* The other one is within its limits. */
    json_decref(rows);
}

static void answers_of_any_shape_do_no_harm(void **state)
{
    (void)state;
    static const char *const bad[] = {"[]",
                                      "{\"subs\": 1}",
                                      "{\"subs\": [7, \"x\", null]}",
                                      "{\"memory_used_bytes\": [], \"memory_limit_bytes\": 5}",
                                      "null",
                                      "{\"subs\": [{\"lost_slow\": \"x\", \"pending_bytes\": -5}]}",
                                      "{\"subs\": [{\"lost_slow\": 1, \"pattern\": 5}]}",
                                      "{\"topics\": 9223372036854775807, \"topics_limit\": 1}"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        json_decref(look(bad[i], bad[i], bad[i]));
    }
    json_t *rows = json_array();
    amb_doctor_load(NULL, NULL, NULL, rows);
    assert_int_equal(json_array_size(rows), 0);
    json_decref(rows);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_broker_at_rest_is_well),
        cmocka_unit_test(limits_that_are_near_are_named),
        cmocka_unit_test(subscriptions_that_are_behind_are_named),
        cmocka_unit_test(answers_of_any_shape_do_no_harm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
