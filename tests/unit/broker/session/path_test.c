/* SPDX-License-Identifier: Apache-2.0 */
/* Batches by hand, and a clock that the test turns. */
#include "broker/session/path.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#define MS AMB_NS_PER_MS
#define KIB UINT64_C(1024)

static void the_size_of_messages_decides_the_class(void **state)
{
    (void)state;
    assert_int_equal(amb_path_class_of(1, 64 * KIB), AMB_PATH_LARGE);
    assert_int_equal(amb_path_class_of(1, 64 * KIB - 1), AMB_PATH_SMALL);
    assert_int_equal(amb_path_class_of(100, 64 * KIB), AMB_PATH_SMALL);
    assert_int_equal(amb_path_class_of(2, 128 * KIB), AMB_PATH_LARGE);
}

static void ways_are_counted_and_the_last_reason_stays(void **state)
{
    (void)state;
    struct amb_paths paths = {0};
    const struct amb_path *small = &paths.of[AMB_PATH_SMALL];
    amb_path_count(&paths, AMB_PATH_SMALL, AMB_PATH_COPIED, AMB_PATH_MAPPING, 3, 300, MS);
    amb_path_count(&paths, AMB_PATH_SMALL, AMB_PATH_IN_PLACE, AMB_PATH_BEST, 5, 500, MS);
    amb_path_count(&paths, AMB_PATH_GPU, AMB_PATH_STAGED, AMB_PATH_WANTS_HOST, 1, 7, MS);
    assert_int_equal(small->msgs[AMB_PATH_COPIED], 3);
    assert_int_equal(small->msgs[AMB_PATH_IN_PLACE], 5);
    assert_int_equal(small->bytes[AMB_PATH_IN_PLACE], 500);
    assert_int_equal(amb_path_bytes(small), 800);
    assert_int_equal(paths.way[AMB_PATH_SMALL], AMB_PATH_IN_PLACE);
    assert_int_equal(paths.not_best[AMB_PATH_SMALL], AMB_PATH_MAPPING);
    assert_int_equal(paths.way[AMB_PATH_GPU], AMB_PATH_STAGED);
    assert_int_equal(amb_path_bytes(&paths.of[AMB_PATH_LARGE]), 0);
}

static void feed(struct amb_paths *paths, int64_t at_ns, uint64_t bytes)
{
    amb_path_count(paths, AMB_PATH_LARGE, AMB_PATH_COPIED, AMB_PATH_LINK, 1, bytes, at_ns);
}

static void the_best_window_gives_the_rate(void **state)
{
    (void)state;
    struct amb_paths paths = {0};
    const struct amb_path *large = &paths.of[AMB_PATH_LARGE];
    int64_t now = 1000 * MS;
    for (int i = 0; i <= 100; i++) { /* 100 KiB a millisecond */
        feed(&paths, now + i * MS, 100 * KIB);
    }
    assert_in_range(large->rate, 99 * KIB * 1000, 101 * KIB * 1000);
    uint64_t best = large->rate;
    for (int i = 101; i <= 300; i++) { /* A tenth of it. */
        feed(&paths, now + i * MS, 10 * KIB);
    }
    assert_int_equal(large->rate, best);
    assert_int_equal(paths.of[AMB_PATH_SMALL].rate, 0);
}

static void a_pause_is_no_part_of_a_burst(void **state)
{
    (void)state;
    struct amb_paths paths = {0};
    const struct amb_path *large = &paths.of[AMB_PATH_LARGE];
    int64_t now = 1000 * MS;
    for (int i = 0; i < 50; i++) {
        feed(&paths, now + i * MS, 100 * KIB);
    }
    feed(&paths, now + 5000 * MS, 100 * KIB); /* 49 ms of 50 batches, and a long pause. */
    assert_in_range(large->rate, 100 * KIB * 1000, 104 * KIB * 1000);
}

static void a_question_ends_a_burst_and_a_moment_has_no_rate(void **state)
{
    (void)state;
    struct amb_paths paths = {0};
    const struct amb_path *large = &paths.of[AMB_PATH_LARGE];
    amb_paths_measure(&paths, 900 * MS, false); /* Nothing has come. */
    assert_int_equal(large->rate, 0);
    feed(&paths, 1000 * MS, KIB);
    amb_paths_measure(&paths, 9000 * MS, false);
    assert_int_equal(large->rate, 0);
    feed(&paths, 10000 * MS, 50 * KIB);
    feed(&paths, 10010 * MS, 50 * KIB);
    amb_paths_measure(&paths, 99000 * MS, false);
    assert_int_equal(large->rate, 100 * KIB * 100);
    amb_paths_measure(&paths, 99001 * MS, false); /* Asked again, it is not worse. */
    assert_int_equal(large->rate, 100 * KIB * 100);
    feed(&paths, 99002 * MS, 50 * KIB);
    assert_int_equal(paths.since_ns, 99002 * MS);
}

static void everything_has_its_words(void **state)
{
    (void)state;
    for (unsigned why = 0; why < AMB_PATH_WHYS; why++) {
        assert_int_equal(strlen(amb_path_why_text((enum amb_path_why)why)) == 0,
                         why == AMB_PATH_BEST);
    }
    assert_string_equal(amb_path_way_name(AMB_PATH_COPIED), "one copy");
    assert_string_equal(amb_path_class_name(AMB_PATH_GPU), "gpu");
}

#define T(test) cmocka_unit_test(test)

int main(void)
{
    static const struct CMUnitTest tests[] = {
        T(the_size_of_messages_decides_the_class),
        T(ways_are_counted_and_the_last_reason_stays),
        T(the_best_window_gives_the_rate),
        T(a_pause_is_no_part_of_a_burst),
        T(a_question_ends_a_burst_and_a_moment_has_no_rate),
        T(everything_has_its_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
