/* SPDX-License-Identifier: Apache-2.0 */
/* Pairs of releases that understand each other, and the borders of each difference. */
#include "wire/link/ucxlib/ucx_release.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#define R AMB_UCX_RELEASE

static void test_releases_on_one_side_of_each_border_are_compatible(void **state)
{
    (void)state;
    static const struct {
        uint32_t a, b;
        bool is_compatible;
    } pairs[] = {
        {R(1, 13, 1), R(1, 13, 1), true},  {R(1, 13, 1), R(1, 15, 0), true},
        {R(1, 13, 1), R(1, 16, 0), false}, {R(1, 16, 0), R(1, 21, 0), true},
        {R(1, 21, 0), R(1, 22, 0), false}, {R(1, 22, 0), R(1, 23, 0), true},
        {R(1, 13, 1), R(1, 22, 0), false}, {0, R(1, 22, 0), false},
        {0, R(1, 13, 1), false},           {0, 0, false},
    };
    for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
        const char *why = NULL;
        assert_int_equal(amb_ucx_compatible(pairs[i].a, 1, 2, pairs[i].b, 1, 2, &why),
                         pairs[i].is_compatible);
        assert_int_equal(amb_ucx_compatible(pairs[i].b, 1, 2, pairs[i].a, 1, 2, &why),
                         pairs[i].is_compatible);
        assert_int_equal(why == NULL, pairs[i].is_compatible);
        assert_int_equal(amb_ucx_releases_fit(pairs[i].a, pairs[i].b), pairs[i].is_compatible);
    }
    const char *why = NULL;
    assert_false(amb_ucx_compatible(R(1, 13, 1), 1, 2, R(1, 13, 1), 1, 3, &why));
    assert_non_null(strstr(why, "segment"));
    assert_false(amb_ucx_compatible(R(1, 13, 1), 1, 2, R(1, 13, 1), 3, 2, &why));
}

static void test_the_interface_is_the_older_one_of_headers_and_library(void **state)
{
    (void)state;
    const uint32_t built = amb_ucx_release_built();
    const uint32_t releases[] = {R(1, 13, 1), built, built + R(0, 1, 0), built + R(1, 0, 0),
                                 built | 7};
    assert_true(built >= AMB_UCX_RELEASE_OLDEST);
    for (size_t i = 0; i < sizeof(releases) / sizeof(releases[0]); i++) {
        unsigned major = 0, minor = 0;
        amb_ucx_release_interface(releases[i], &major, &minor);
        uint32_t expected = releases[i] < built ? releases[i] : built;
        assert_int_equal(R(major, minor, 0), expected & ~0xffu);
        assert_true(R(major, minor, 0) <= built);
    }
}

static void test_each_difference_has_its_border(void **state)
{
    (void)state;
    static const struct {
        bool (*has)(uint32_t release);
        uint32_t before, first;
    } borders[] = {
        {amb_ucx_release_tells_lanes, R(1, 13, 255), R(1, 14, 0)},
        {amb_ucx_release_has_protocols, R(1, 15, 255), R(1, 16, 0)},
        {amb_ucx_release_wants_prefix, R(1, 16, 255), R(1, 17, 0)},
        {amb_ucx_release_frees_threads, R(1, 18, 255), R(1, 19, 0)},
        {amb_ucx_release_bounds_ipc, R(1, 20, 255), R(1, 21, 0)},
        {amb_ucx_release_unmaps, R(1, 21, 255), R(1, 22, 0)},
    };
    for (size_t i = 0; i < sizeof(borders) / sizeof(borders[0]); i++) {
        assert_false(borders[i].has(borders[i].before));
        assert_true(borders[i].has(borders[i].first));
        assert_false(borders[i].has(0));
    }
    assert_false(amb_ucx_release_unmaps(R(1, 22, 1)));
}

static void test_releases_are_written_as_people_write_them(void **state)
{
    (void)state;
    char text[AMB_UCX_RELEASE_TEXT_MAX];
    assert_string_equal(amb_ucx_release_text(R(1, 22, 0), text, sizeof(text)), "1.22.0");
    assert_string_equal(amb_ucx_release_text(R(65535, 255, 255), text, sizeof(text)),
                        "65535.255.255");
    assert_string_equal(amb_ucx_release_text(0, text, sizeof(text)), "an unknown release");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_releases_on_one_side_of_each_border_are_compatible),
        cmocka_unit_test(test_the_interface_is_the_older_one_of_headers_and_library),
        cmocka_unit_test(test_each_difference_has_its_border),
        cmocka_unit_test(test_releases_are_written_as_people_write_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
