/* SPDX-License-Identifier: Apache-2.0 */
/* A line of the audit log: JSON, whatever its texts are. */
#include "broker/audit/audit_entry.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static json_t *read_line(const struct amb_audit_entry *entry)
{
    char line[AMB_AUDIT_LINE_MAX];
    json_error_t error;
    size_t len = amb_audit_entry_format(entry, line);
    assert_true(len > 1 && len <= sizeof(line));
    assert_int_equal(line[len - 1], '\n');
    assert_null(memchr(line, '\n', len - 1));
    json_t *json = json_loadb(line, len - 1, JSON_REJECT_DUPLICATES, &error);
    assert_non_null(json);
    return json;
}

static void has(const json_t *json, const char *key, const char *value)
{
    const char *got = json_string_value(json_object_get(json, key));
    assert_non_null(got);
    assert_string_equal(got, value);
}

static void test_a_line_has_who_where_what_and_result(void **state)
{
    (void)state;
    struct amb_audit_entry entry = {.event = AMB_AUDIT_COMMAND,
                                    .time_ns = INT64_C(1814400000123456789),
                                    .command = 3,
                                    .client = 12,
                                    .count = 2,
                                    .by = "key",
                                    .result = "done",
                                    .user = "cam7",
                                    .tenant = "plant",
                                    .address = "10.0.0.7:51",
                                    .name = "broker-ctl",
                                    .what = "kick 7",
                                    .why = "because"};
    json_t *json = read_line(&entry);
    has(json, "time", "2027-07-01T00:00:00.123Z");
    has(json, "event", "command");
    has(json, "user", "cam7");
    has(json, "tenant", "plant");
    has(json, "by", "key");
    has(json, "from", "10.0.0.7:51");
    has(json, "name", "broker-ctl");
    has(json, "what", "kick 7");
    has(json, "result", "done");
    has(json, "why", "because");
    assert_int_equal(json_integer_value(json_object_get(json, "client")), 12);
    assert_int_equal(json_integer_value(json_object_get(json, "command")), 3);
    assert_int_equal(json_integer_value(json_object_get(json, "count")), 2);
    json_decref(json);
    entry.is_mixed = true;
    json = read_line(&entry);
    assert_null(json_object_get(json, "what"));
    assert_true(json_is_true(json_object_get(json, "mixed")));
    json_decref(json);
    json = read_line(&(struct amb_audit_entry){.event = AMB_AUDIT_LOST, .count = 9});
    assert_int_equal(json_object_size(json), 3);
    json_decref(json);
}

static void test_any_text_makes_a_line(void **state)
{
    (void)state;
    struct amb_audit_entry entry = {.event = AMB_AUDIT_REFUSED, .what = "a\n\"b\"\\\x01 caf\xe9"};
    json_t *json = read_line(&entry);
    has(json, "what", "a?\"b\"\\? caf?");
    json_decref(json);
    /* The longest texts, of bytes that become six each. */
    memset(entry.user, 1, sizeof(entry.user) - 1);
    memset(entry.tenant, 1, sizeof(entry.tenant) - 1);
    memset(entry.address, 1, sizeof(entry.address) - 1);
    memset(entry.name, 1, sizeof(entry.name) - 1);
    memset(entry.what, 1, sizeof(entry.what) - 1);
    memset(entry.why, 1, sizeof(entry.why) - 1);
    json_decref(read_line(&entry));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_line_has_who_where_what_and_result),
        cmocka_unit_test(test_any_text_makes_a_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
