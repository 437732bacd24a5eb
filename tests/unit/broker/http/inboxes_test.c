/* SPDX-License-Identifier: Apache-2.0 */
/* Rows as views have them: those of inboxes go, all others stay in their order. */
#include "broker/http/inboxes.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void leaves(const char *before, const char *after)
{
    json_t *rows = json_loads(before, 0, NULL), *expected = json_loads(after, 0, NULL);
    assert_non_null(rows);
    assert_non_null(expected);
    amb_inboxes_leave_out(rows);
    assert_true(json_equal(rows, expected));
    json_decref(rows);
    json_decref(expected);
}

static void test_inboxes_go_and_others_stay(void **state)
{
    (void)state;
    leaves("[{\"topic\": \"$INBOX.…\"}, {\"topic\": \"a\"}, {\"topic\": \"$INBOX.…\"}, {\"topic\": "
           "\"b\"}]",
           "[{\"topic\": \"a\"}, {\"topic\": \"b\"}]");
    leaves("[{\"topic\": \"$INBOX.…\"}]", "[]");
}

static void test_rows_of_others_stay(void **state)
{
    (void)state;
    leaves("[{\"client\": \"$INBOX.…\"}, {\"topic\": 7}, 7]",
           "[{\"client\": \"$INBOX.…\"}, {\"topic\": 7}, 7]");
    leaves("{\"topic\": \"$INBOX.…\"}", "{\"topic\": \"$INBOX.…\"}");
    amb_inboxes_leave_out(NULL);
}

#define T(test) cmocka_unit_test(test)

int main(void)
{
    static const struct CMUnitTest tests[] = {
        T(test_inboxes_go_and_others_stay),
        T(test_rows_of_others_stay),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
