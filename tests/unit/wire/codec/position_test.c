/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/codec/position.h"

#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static struct amb_position_topic topic_of(const char *name, uint32_t id, uint64_t next)
{
    return (struct amb_position_topic){
        .id = id, .next = next, .name = name, .name_len = (uint32_t)strlen(name)};
}

static size_t write_two(uint8_t *out, size_t cap)
{
    struct amb_position_writer writer;
    struct amb_position_topic a = topic_of("a.b", 7, 100), b = topic_of("c", 8, UINT64_MAX);
    amb_position_begin(&writer, out, cap);
    amb_position_add(&writer, &a);
    amb_position_add(&writer, &b);
    assert_int_equal(amb_position_end(&writer, 0x1122334455667788, 1234567), AMB_OK);
    return writer.len;
}

static void what_was_written_is_read(void **state)
{
    (void)state;
    uint8_t bytes[256];
    size_t len = write_two(bytes, sizeof(bytes));
    struct amb_position position;
    assert_int_equal(amb_position_read(bytes, len, &position), AMB_OK);
    assert_true(position.epoch == 0x1122334455667788);
    assert_int_equal(position.since_ns, 1234567);
    assert_int_equal(position.count, 2);
    struct amb_position_topic found;
    assert_true(amb_position_find(bytes, len, "c", 1, AMB_PRIORITY_NORMAL, &found));
    assert_int_equal(found.id, 8);
    assert_true(found.next == UINT64_MAX);
    assert_true(amb_position_find(bytes, len, "a.b", 3, AMB_PRIORITY_NORMAL, &found));
    assert_int_equal(found.next, 100);
    assert_false(amb_position_find(bytes, len, "a", 1, AMB_PRIORITY_NORMAL, &found));
}

static void any_length_but_the_right_one_is_refused(void **state)
{
    (void)state;
    uint8_t bytes[256] = {0};
    size_t len = write_two(bytes, sizeof(bytes));
    struct amb_position position;
    for (size_t i = 0; i < sizeof(bytes); i++) {
        if (i != len) {
            assert_int_equal(amb_position_read(bytes, i, &position), AMB_EINVAL);
        }
    }
    bytes[3] = 2;
    assert_int_equal(amb_position_read(bytes, len, &position), AMB_EINVAL);
}

static void lengths_within_are_checked(void **state)
{
    (void)state;
    uint8_t bytes[256] = {0};
    struct amb_position position;
    static const uint32_t bad[] = {0, 256, UINT32_MAX, UINT32_MAX - 15};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        size_t len = write_two(bytes, sizeof(bytes));
        memcpy(bytes + 24 + 4, &bad[i], sizeof(bad[i]));
        assert_int_equal(amb_position_read(bytes, len, &position), AMB_EINVAL);
    }
}

static void what_does_not_fit_is_counted_and_refused(void **state)
{
    (void)state;
    uint8_t bytes[32];
    struct amb_position_writer writer;
    struct amb_position_topic a = topic_of("long enough", 7, 100);
    amb_position_begin(&writer, bytes, sizeof(bytes));
    amb_position_add(&writer, &a);
    assert_int_equal(amb_position_end(&writer, 1, 1), AMB_ETOOLARGE);
    assert_int_equal(writer.len, 24 + 16 + 11);
    amb_position_begin(&writer, NULL, 0);
    assert_int_equal(amb_position_end(&writer, 1, 1), AMB_ETOOLARGE);
    assert_int_equal(writer.len, 24);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_written_is_read),
        cmocka_unit_test(any_length_but_the_right_one_is_refused),
        cmocka_unit_test(lengths_within_are_checked),
        cmocka_unit_test(what_does_not_fit_is_counted_and_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
