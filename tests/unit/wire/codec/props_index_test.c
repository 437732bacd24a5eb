/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/codec/props_index.h"

#include "wire/codec/filter.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define BLOB_MAX 65535u

struct indexed {
    uint8_t blob[BLOB_MAX];
    uint32_t count;
    struct amb_props_index index;
};

/* Properties p0, p1, ... with their numbers as values, each name `times` times. */
static struct indexed *make(unsigned names, unsigned times)
{
    struct indexed *made = calloc(1, sizeof(*made));
    assert_non_null(made);
    struct amb_props_writer writer;
    amb_props_writer_init(&writer, made->blob, sizeof(made->blob));
    for (unsigned i = 0; i < names * times; i++) {
        char name[16], value[16];
        (void)snprintf(name, sizeof(name), "p%u", i % names);
        (void)snprintf(value, sizeof(value), "%u", i);
        assert_int_equal(amb_props_add(&writer, name, value, strlen(value)), AMB_OK);
    }
    made->index = (struct amb_props_index){.blob = made->blob, .len = (uint32_t)writer.len};
    uint32_t cells = amb_props_index_cells(made->blob, made->index.len, &made->count);
    made->index.cells = calloc(cells, sizeof(*made->index.cells));
    assert_non_null(made->index.cells);
    made->index.mask = cells - 1;
    amb_props_index_fill(&made->index);
    return made;
}

static void drop(struct indexed *made)
{
    free(made->index.cells);
    free(made);
}

static void an_index_finds_what_a_search_finds(void **state)
{
    (void)state;
    static const unsigned names[] = {0, 1, 7, 8, 9, 400, 4000};
    for (unsigned n = 0; n < sizeof(names) / sizeof(names[0]); n++) {
        struct indexed *made = make(names[n], 1);
        assert_int_equal(made->count, names[n]);
        for (unsigned i = 0; i < names[n] + 3; i++) {
            char name[16];
            size_t len = (size_t)snprintf(name, sizeof(name), "p%u", i);
            struct amb_prop_view found = {0}, searched = {0};
            bool is_found = amb_props_index_find(&made->index, name, len,
                                                 amb_props_name_hash(name, len), &found);
            assert_int_equal(is_found,
                             amb_props_find(made->blob, made->index.len, name, &searched));
            assert_int_equal(is_found, i < names[n]);
            if (is_found) {
                assert_ptr_equal(found.value, searched.value);
            }
        }
        drop(made);
    }
}

static void of_one_name_the_first_counts(void **state)
{
    (void)state;
    struct indexed *made = make(3, 5);
    struct amb_prop_view found;
    assert_true(amb_props_index_find(&made->index, "p2", 2, amb_props_name_hash("p2", 2), &found));
    assert_memory_equal(found.value, "2", 2);
    drop(made);
}

static void with_an_index_a_test_is_one_step(void **state)
{
    (void)state;
    struct indexed *made = make(400, 1);
    static const char text[] = "p399 = 399 and p398 = 398 and not has q";
    struct amb_filter *filter;
    struct amb_filter_error error;
    assert_int_equal(amb_filter_parse(text, strlen(text), &filter, &error), AMB_OK);
    struct amb_filter_message message = {.props = made->blob, .len = made->index.len};
    assert_true(amb_filter_match_message(filter, &message));
    assert_true(message.steps > 3 * 390);
    message.steps = 0;
    message.index = &made->index;
    assert_true(amb_filter_match_message(filter, &message));
    assert_int_equal(message.steps, 3);
    amb_filter_free(&filter);
    drop(made);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_index_finds_what_a_search_finds),
        cmocka_unit_test(of_one_name_the_first_counts),
        cmocka_unit_test(with_an_index_a_test_is_one_step),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
