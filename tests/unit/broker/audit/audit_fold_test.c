/* SPDX-License-Identifier: Apache-2.0 */
/* Entries that repeat: the first one, then a count; a flood of kinds has no more than a table. */
#include "broker/audit/audit_fold.h"

#include "wire/base/clock.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static struct amb_audit_folds folds;

static struct amb_audit_entry entry_of(const char *user, const char *address, const char *what)
{
    struct amb_audit_entry entry = {.event = AMB_AUDIT_REFUSED};
    (void)snprintf(entry.user, sizeof(entry.user), "%s", user);
    (void)snprintf(entry.address, sizeof(entry.address), "%s", address);
    (void)snprintf(entry.what, sizeof(entry.what), "%s", what);
    return entry;
}

static bool take(const char *user, const char *address, const char *what, int64_t now_ns)
{
    const struct amb_audit_entry entry = entry_of(user, address, what);
    return amb_audit_fold_take(&folds, &entry, now_ns);
}

static int begin(void **state)
{
    (void)state;
    memset(&folds, 0, sizeof(folds));
    return 0;
}

static void test_repeats_are_counted(void **state)
{
    (void)state;
    assert_int_equal(amb_audit_fold_next_ns(&folds), INT64_MAX);
    assert_true(take("a", "1.2.3.4:1", "x", 5));
    assert_false(take("a", "1.2.3.4:2", "x", 6)); /* Another port is no matter. */
    assert_false(take("a", "1.2.3.4:3", "x", 7));
    assert_true(take("a", "1.2.3.5:3", "x", 7));
    assert_true(take("a", "1.2.3.4:3", "y", 7));
    assert_true(take("b", "1.2.3.4:3", "x", 7));
    assert_int_equal(amb_audit_fold_next_ns(&folds), 5 + AMB_AUDIT_FOLD_NS);
    assert_null(amb_audit_fold_due(&folds, AMB_AUDIT_FOLD_NS));
    const struct amb_audit_entry *due = amb_audit_fold_due(&folds, 7 + AMB_AUDIT_FOLD_NS);
    assert_non_null(due);
    assert_int_equal(due->count, 2);
    assert_string_equal(due->user, "a");
    assert_false(due->is_mixed);
    assert_null(amb_audit_fold_due(&folds, 7 + AMB_AUDIT_FOLD_NS)); /* The others came once. */
    assert_int_equal(amb_audit_fold_next_ns(&folds), INT64_MAX);
    assert_true(take("a", "1.2.3.4:1", "x", 8 + AMB_AUDIT_FOLD_NS)); /* Anew. */
}

static void test_a_flood_of_kinds_is_bounded(void **state)
{
    (void)state;
    char what[32];
    unsigned written = 0;
    const unsigned count = 100000;
    for (unsigned i = 0; i < count; i++) {
        (void)snprintf(what, sizeof(what), "publish t%u", i);
        written += take(i % 3 == 0 ? "a" : "b", "1.2.3.4:1", what, 0);
    }
    assert_int_equal(written, AMB_AUDIT_FOLDS_FINE + 2);
    uint64_t counted = 0;
    unsigned lines = 0;
    const struct amb_audit_entry *due;
    while ((due = amb_audit_fold_due(&folds, AMB_AUDIT_FOLD_NS)) != NULL) {
        assert_true(due->is_mixed);
        counted += due->count;
        lines++;
    }
    assert_int_equal(lines, 2);
    assert_int_equal(counted + written, count);
}

static void test_past_all_places_one_is_left(void **state)
{
    (void)state;
    char user[32];
    unsigned written = 0;
    for (unsigned i = 0; i < 10000; i++) {
        (void)snprintf(user, sizeof(user), "u%u", i);
        written += take(user, "1.2.3.4:1", "x", 0);
    }
    assert_int_equal(written, AMB_AUDIT_FOLDS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_repeats_are_counted, begin),
        cmocka_unit_test_setup(test_a_flood_of_kinds_is_bounded, begin),
        cmocka_unit_test_setup(test_past_all_places_one_is_left, begin),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
