/* SPDX-License-Identifier: Apache-2.0 */
/*
 * broker/count/shard_stats: the longest turn of the last ten seconds, and delays by their size.
 */
#include "broker/count/shard_stats.h"

#include "broker/count/counters.h"
#include "broker/count/metrics.h"
#include "wire/base/clock.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static uint64_t recent(const struct amb_counters *counters, int64_t now_s)
{
    struct amb_counters_image image;
    amb_counters_view(counters, &image);
    for (size_t i = 0; i < amb_metric_count; i++) {
        if (amb_metrics[i].kind == AMB_COUNTERS_RECENT) {
            return amb_counters_recent(&image, 1, &amb_metrics[i],
                                       (uint64_t)(now_s * AMB_NS_PER_SEC));
        }
    }
    fail_msg("no such metric");
    return 0;
}

static void test_a_long_turn_is_forgotten_after_ten_seconds(void **state)
{
    (void)state;
    struct amb_counters counters;
    const struct amb_counters_options options = {
        .why = "a test", .workers = 1, .objects = 64, .name = "", .version = "", .ucx = ""};
    assert_int_equal(amb_counters_create(&options, &counters), AMB_OK);
    struct amb_shard_stats *stats = amb_counters_shard(&counters, 0);
    amb_stat_turn(stats, 5000, 100 * AMB_NS_PER_SEC);
    amb_stat_turn(stats, 900000, 100 * AMB_NS_PER_SEC + 1);
    amb_stat_turn(stats, 700, 100 * AMB_NS_PER_SEC + 2);
    assert_int_equal(recent(&counters, 100), 900000);
    for (int64_t second = 101; second < 110; second++) {
        amb_stat_turn(stats, (uint64_t)second, second * AMB_NS_PER_SEC);
        assert_int_equal(recent(&counters, second), 900000);
    }
    amb_stat_turn(stats, 110, 110 * AMB_NS_PER_SEC);
    assert_int_equal(recent(&counters, 110), 110);
    assert_int_equal(recent(&counters, 200), 0); /* It has slept since. */
    assert_int_equal(amb_stat_get(&stats->longest_turn_ns), 900000);
    amb_stat_turn(stats, 3, 112 * AMB_NS_PER_SEC); /* the cell of second 100 */
    assert_int_equal(recent(&counters, 112), 110);
    amb_counters_destroy(&counters);
}

static void test_delays_are_counted_by_their_size(void **state)
{
    (void)state;
    static struct amb_shard_stats stats;
    amb_stat_delay(&stats, -5);
    amb_stat_delay(&stats, 0);
    amb_stat_delay(&stats, 1023);
    amb_stat_delay(&stats, 1024);
    amb_stat_delay(&stats, 2047);
    amb_stat_delay(&stats, 2048);
    amb_stat_delay(&stats, INT64_MAX);
    assert_int_equal(amb_stat_get(&stats.delay[0]), 3);
    assert_int_equal(amb_stat_get(&stats.delay[1]), 2);
    assert_int_equal(amb_stat_get(&stats.delay[2]), 1);
    assert_int_equal(amb_stat_get(&stats.delay[AMB_DELAY_BUCKETS - 1]), 1);
    memset(&stats, 0, sizeof(stats));
    for (unsigned i = 0; i < AMB_DELAY_BUCKETS - 1; i++) {
        amb_stat_delay(&stats, (INT64_C(1) << (AMB_DELAY_SHIFT + i)) - 1);
        assert_int_equal(amb_stat_get(&stats.delay[i]), 1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_long_turn_is_forgotten_after_ten_seconds),
        cmocka_unit_test(test_delays_are_counted_by_their_size),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
