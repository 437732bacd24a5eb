/* SPDX-License-Identifier: Apache-2.0 */
/* wire/auth/visits: keys that work once and for a minute; cookies that hold until they say. */
#include "wire/auth/visits.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define SEC INT64_C(1000000000)
#define NOW_S INT64_C(1800000000)

static struct amb_visits visits;

static int make(void **state)
{
    (void)state;
    return amb_visits_init(&visits, "") == AMB_OK ? 0 : -1;
}

static void test_a_key_works_once(void **state)
{
    (void)state;
    char key[AMB_VISITS_KEY_SIZE], other[AMB_VISITS_KEY_SIZE];
    amb_visits_key(&visits, SEC, key);
    amb_visits_key(&visits, SEC, other);
    assert_int_equal(strlen(key), 32);
    assert_string_not_equal(key, other);
    assert_false(amb_visits_take(&visits, "", SEC));
    assert_false(amb_visits_take(&visits, "00000000000000000000000000000000", SEC));
    assert_true(amb_visits_take(&visits, key, 2 * SEC));
    assert_false(amb_visits_take(&visits, key, 2 * SEC));
    assert_true(amb_visits_take(&visits, other, 2 * SEC));
}

static void test_a_key_is_for_a_minute(void **state)
{
    (void)state;
    char key[AMB_VISITS_KEY_SIZE];
    amb_visits_key(&visits, SEC, key);
    assert_false(amb_visits_take(&visits, key, 61 * SEC));
    amb_visits_key(&visits, SEC, key);
    assert_true(amb_visits_take(&visits, key, 61 * SEC - 1));
}

static void test_sixteen_keys_are_out_and_the_oldest_goes(void **state)
{
    (void)state;
    char keys[AMB_VISITS_KEYS + 1][AMB_VISITS_KEY_SIZE];
    for (int i = 0; i <= (int)AMB_VISITS_KEYS; i++) {
        amb_visits_key(&visits, SEC + i, keys[i]);
    }
    assert_false(amb_visits_take(&visits, keys[0], 2 * SEC));
    for (unsigned i = 1; i <= AMB_VISITS_KEYS; i++) {
        assert_true(amb_visits_take(&visits, keys[i], 2 * SEC));
    }
}

/* "NAME=VALUE" of a cookie. */
static void cookie_of(const struct amb_visits *of, char out[AMB_VISITS_COOKIE_SIZE])
{
    assert_int_equal(amb_visits_cookie(of, NOW_S, out), AMB_OK);
    assert_non_null(strstr(out, "; HttpOnly; SameSite=Strict"));
    *strchr(out, ';') = '\0';
}

static void test_a_cookie_holds_for_twelve_hours(void **state)
{
    (void)state;
    char cookie[AMB_VISITS_COOKIE_SIZE], all[2 * AMB_VISITS_COOKIE_SIZE];
    cookie_of(&visits, cookie);
    assert_true(amb_visits_has(&visits, cookie, NOW_S));
    assert_true(amb_visits_has(&visits, cookie, NOW_S + AMB_VISITS_COOKIE_S - 1));
    assert_false(amb_visits_has(&visits, cookie, NOW_S + AMB_VISITS_COOKIE_S));
    (void)snprintf(all, sizeof(all), "a=b; %s;c", cookie);
    assert_true(amb_visits_has(&visits, all, NOW_S));
    assert_false(amb_visits_has(&visits, NULL, NOW_S));
    assert_false(amb_visits_has(&visits, "", NOW_S));
    assert_false(amb_visits_has(&visits, " ; ;;", NOW_S));
}

static void test_a_cookie_with_any_other_byte_is_none(void **state)
{
    (void)state;
    char cookie[AMB_VISITS_COOKIE_SIZE];
    cookie_of(&visits, cookie);
    for (size_t i = 0; i < strlen(cookie); i++) {
        char was = cookie[i];
        cookie[i] = was == '0' ? '1' : '0';
        assert_false(amb_visits_has(&visits, cookie, NOW_S));
        cookie[i] = '\0';
        assert_false(amb_visits_has(&visits, cookie, NOW_S));
        cookie[i] = was;
    }
}

static void test_cookies_outlive_a_program_with_a_token_alone(void **state)
{
    (void)state;
    struct amb_visits first, again, other, random;
    char cookie[AMB_VISITS_COOKIE_SIZE];
    assert_int_equal(amb_visits_init(&first, "token"), AMB_OK);
    assert_int_equal(amb_visits_init(&again, "token"), AMB_OK);
    assert_int_equal(amb_visits_init(&other, "another"), AMB_OK);
    assert_int_equal(amb_visits_init(&random, ""), AMB_OK);
    cookie_of(&first, cookie);
    assert_true(amb_visits_has(&again, cookie, NOW_S));
    assert_false(amb_visits_has(&other, cookie, NOW_S));
    cookie_of(&visits, cookie);
    assert_false(amb_visits_has(&random, cookie, NOW_S));
    assert_string_not_equal(first.name, other.name);
    assert_string_not_equal(visits.name, random.name);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_a_key_works_once, make),
        cmocka_unit_test_setup(test_a_key_is_for_a_minute, make),
        cmocka_unit_test_setup(test_sixteen_keys_are_out_and_the_oldest_goes, make),
        cmocka_unit_test_setup(test_a_cookie_holds_for_twelve_hours, make),
        cmocka_unit_test_setup(test_a_cookie_with_any_other_byte_is_none, make),
        cmocka_unit_test_setup(test_cookies_outlive_a_program_with_a_token_alone, make),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
