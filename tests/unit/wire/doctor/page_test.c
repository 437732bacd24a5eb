/* SPDX-License-Identifier: Apache-2.0 */
/* The page of the doctor: each check has a heading there, which its link names. */
#include "wire/doctor/page.h"

#include "wire/doctor/table.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void each_check_has_a_heading(void **state)
{
    (void)state;
    char *page = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&page, &size);
    assert_non_null(out);
    amb_doctor_page(out);
    assert_int_equal(fclose(out), 0);
    for (unsigned i = 0; i < AMB_DOCTOR_CHECKS; i++) {
        const struct amb_doctor_row *row = amb_doctor_row((enum amb_doctor_check)i);
        char heading[64];
        (void)snprintf(heading, sizeof(heading), "\n### %s\n", row->id);
        assert_non_null(strstr(page, heading));
        assert_non_null(strstr(page, row->fix));
        assert_null(strchr(row->finding, '|')); /* It is a cell of a table. */
        assert_null(strchr(row->fix, '|'));
    }
    free(page);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(each_check_has_a_heading)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
