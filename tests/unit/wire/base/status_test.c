/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/base/status.h"

#include <errno.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void every_status_has_its_own_name_and_text(void **state)
{
    (void)state;
    int known = 0;
    for (int value = -128; value <= 16; value++) {
        enum amb_status status = (enum amb_status)value;
        const char *name = amb_status_name(status);
        const char *text = amb_status_text(status);
        assert_non_null(name);
        assert_non_null(text);
        assert_int_not_equal(strlen(text), 0);
        assert_int_not_equal(text[strlen(text) - 1], '.');
        known += strcmp(text, "unknown status") != 0;
        assert_int_equal(strcmp(text, "unknown status") == 0, strcmp(name, "?") == 0);
    }
    assert_int_equal(known, 33);
    assert_string_equal(amb_status_name(AMB_OK), "OK");
    assert_string_equal(amb_status_name(AMB_EPROTO), "EPROTO");
}

static void scope_says_who_is_hurt(void **state)
{
    (void)state;
    assert_int_equal(amb_status_scope_of(AMB_OK), AMB_SCOPE_NONE);
    assert_int_equal(amb_status_scope_of(AMB_EAGAIN), AMB_SCOPE_CALL);
    assert_int_equal(amb_status_scope_of(AMB_EKIND), AMB_SCOPE_CALL);
    assert_int_equal(amb_status_scope_of(AMB_ENORESPONDERS), AMB_SCOPE_MESSAGE);
    assert_int_equal(amb_status_scope_of(AMB_EUNKNOWN), AMB_SCOPE_MESSAGE);
    assert_int_equal(amb_status_scope_of(AMB_EUNREACHABLE), AMB_SCOPE_SESSION);
    assert_int_equal(amb_status_scope_of(AMB_ECLOSED), AMB_SCOPE_SESSION);
    assert_int_equal(amb_status_scope_of(AMB_EFORKED), AMB_SCOPE_PROCESS);
    assert_int_equal(amb_status_scope_of(AMB_EINTERNAL), AMB_SCOPE_PROCESS);
}

static void errno_keeps_its_meaning(void **state)
{
    (void)state;
    assert_int_equal(amb_status_from_errno(ENOMEM), AMB_ENOMEM);
    assert_int_equal(amb_status_from_errno(EAGAIN), AMB_EAGAIN);
    assert_int_equal(amb_status_from_errno(EWOULDBLOCK), AMB_EAGAIN);
    assert_int_equal(amb_status_from_errno(EMFILE), AMB_ELIMIT);
    assert_int_equal(amb_status_from_errno(ENFILE), AMB_ELIMIT);
    assert_int_equal(amb_status_from_errno(EACCES), AMB_EFORBIDDEN);
    assert_int_equal(amb_status_from_errno(EPERM), AMB_EFORBIDDEN);
    assert_int_equal(amb_status_from_errno(ECONNREFUSED), AMB_EUNREACHABLE);
    assert_int_equal(amb_status_from_errno(EPIPE), AMB_ELOST);
    assert_int_equal(amb_status_from_errno(ECONNRESET), AMB_ELOST);
    assert_int_equal(amb_status_from_errno(EBADF), AMB_EINTERNAL);
    assert_int_equal(amb_status_from_errno(0), AMB_EINTERNAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_status_has_its_own_name_and_text),
        cmocka_unit_test(scope_says_who_is_hurt),
        cmocka_unit_test(errno_keeps_its_meaning),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
