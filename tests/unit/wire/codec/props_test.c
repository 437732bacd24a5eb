/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/codec/props.h"

#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static void what_was_added_is_read_back_in_order(void **state)
{
    (void)state;
    uint8_t blob[256];
    struct amb_props_writer writer;
    amb_props_writer_init(&writer, blob, sizeof(blob));
    assert_int_equal(amb_props_add(&writer, "content", "text/plain", 10), AMB_OK);
    assert_int_equal(amb_props_add(&writer, AMB_PROP_KEY, "\0\1\0", 3), AMB_OK);
    assert_int_equal(amb_props_add(&writer, "empty", NULL, 0), AMB_OK);
    assert_true(amb_props_check(blob, writer.len));

    size_t pos = 0;
    struct amb_prop_view view;
    assert_true(amb_props_next(blob, writer.len, &pos, &view));
    assert_string_equal(view.name, "content");
    assert_string_equal((const char *)view.value, "text/plain");
    assert_int_equal(view.value_len, 10);
    assert_int_equal(view.type, AMB_PROP_BYTES);
    assert_true(amb_props_next(blob, writer.len, &pos, &view));
    assert_int_equal(view.value_len, 3);
    assert_memory_equal(view.value, "\0\1\0", 4);
    assert_true(amb_props_next(blob, writer.len, &pos, &view));
    assert_int_equal(view.value_len, 0);
    assert_false(amb_props_next(blob, writer.len, &pos, &view));
    assert_int_equal(pos, writer.len);

    assert_true(amb_props_find(blob, writer.len, "$key", &view));
    assert_int_equal(view.value_len, 3);
    assert_false(amb_props_find(blob, writer.len, "key", &view));
    assert_false(amb_props_find(blob, writer.len, "", &view));
}

static void the_layout_of_an_entry_is_frozen(void **state)
{
    (void)state;
    uint8_t blob[32];
    struct amb_props_writer writer;
    amb_props_writer_init(&writer, blob, sizeof(blob));
    assert_int_equal(amb_props_add(&writer, "ab", "xyz", 3), AMB_OK);
    static const uint8_t expected[] = {2, 0, 3, 0, 'a', 'b', 0, 'x', 'y', 'z', 0};
    assert_int_equal(writer.len, sizeof(expected));
    assert_memory_equal(blob, expected, sizeof(expected));
}

static void names_are_1_to_255_bytes(void **state)
{
    (void)state;
    uint8_t blob[512];
    char name[300];
    memset(name, 'n', sizeof(name));
    struct amb_props_writer writer;
    amb_props_writer_init(&writer, blob, sizeof(blob));
    assert_int_equal(amb_props_add(&writer, NULL, "", 0), AMB_EINVAL);
    assert_int_equal(amb_props_add(&writer, "", "", 0), AMB_EINVAL);
    name[256] = '\0';
    assert_int_equal(amb_props_add(&writer, name, "", 0), AMB_EINVAL);
    assert_int_equal(amb_props_add(&writer, "x", NULL, 1), AMB_EINVAL);
    assert_int_equal(writer.len, 0);
    name[255] = '\0';
    assert_int_equal(amb_props_add(&writer, name, "", 0), AMB_OK);
    assert_true(amb_props_check(blob, writer.len));
}

static void what_does_not_fit_leaves_the_blob_as_it_was(void **state)
{
    (void)state;
    uint8_t blob[11];
    struct amb_props_writer writer;
    amb_props_writer_init(&writer, blob, sizeof(blob));
    assert_int_equal(amb_props_add(&writer, "ab", "xyz1", 4), AMB_ETOOLARGE);
    assert_int_equal(amb_props_add(&writer, "abcdef", NULL, 0), AMB_ETOOLARGE);
    assert_int_equal(amb_props_add(&writer, "ab", "xyz", SIZE_MAX), AMB_ETOOLARGE);
    assert_int_equal(writer.len, 0);
    assert_int_equal(amb_props_add(&writer, "ab", "xyz", 3), AMB_OK);
    assert_int_equal(amb_props_add(&writer, "a", NULL, 0), AMB_ETOOLARGE);
    assert_true(amb_props_check(blob, writer.len));
}

static void values_end_at_65535_bytes(void **state)
{
    (void)state;
    static uint8_t blob[70000], value[65536];
    struct amb_props_writer writer;
    amb_props_writer_init(&writer, blob, sizeof(blob));
    assert_int_equal(amb_props_add(&writer, "x", value, 65536), AMB_ETOOLARGE);
    assert_int_equal(amb_props_add(&writer, "x", value, 65535), AMB_OK);
    assert_true(amb_props_check(blob, writer.len));
}

static void an_empty_blob_is_well_formed(void **state)
{
    (void)state;
    assert_true(amb_props_check((const uint8_t *)"", 0));
}

static void malformed_entries_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        size_t len;
    } bad[] = {
        {"\1", 1},            /* shorter than an entry's head */
        {"\1\0\0", 3},        /* */
        {"\0\0\0\0\0\0", 6},  /* no name */
        {"\1\1\0\0a\0\0", 7}, /* unknown type */
        {"\1\0\0\0a\0", 6},   /* one NUL missing */
        {"\1\0\1\0a\0\0", 7}, /* value past the end */
        {"\1\0\xff\xff"
         "a\0\0",
         7},                             /* far past the end */
        {"\xff\0\0\0a\0\0", 7},          /* name past the end */
        {"\1\0\0\0ab\0", 7},             /* no NUL behind the name */
        {"\1\0\0\0a\0b", 7},             /* no NUL behind the value */
        {"\2\0\0\0a\0\0\0", 8},          /* NUL inside the name */
        {"\1\0\0\0a\0\0\0", 8},          /* a byte left over */
        {"\1\0\0\0a\0\0\1\0\0\0b\0", 13} /* second entry cut */
    };
    for (size_t i = 0; i < COUNT(bad); i++) {
        /* Exact-size copy: a sanitizer sees a step past the end. */
        uint8_t *copy = malloc(bad[i].len);
        assert_non_null(copy);
        memcpy(copy, bad[i].bytes, bad[i].len);
        assert_false(amb_props_check(copy, bad[i].len));
        free(copy);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_added_is_read_back_in_order),
        cmocka_unit_test(the_layout_of_an_entry_is_frozen),
        cmocka_unit_test(names_are_1_to_255_bytes),
        cmocka_unit_test(what_does_not_fit_leaves_the_blob_as_it_was),
        cmocka_unit_test(values_end_at_65535_bytes),
        cmocka_unit_test(an_empty_blob_is_well_formed),
        cmocka_unit_test(malformed_entries_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
