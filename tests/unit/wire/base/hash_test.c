/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/base/hash.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define KEYS 5000

/* Of the reference implementation: key 00..0f, input 00, 00 01, ...: first 16 and some later. */
static const uint64_t vectors[] = {
    UINT64_C(0x726fdb47dd0e0e31), UINT64_C(0x74f839c593dc67fd), UINT64_C(0x0d6c8009d9a94f5a),
    UINT64_C(0x85676696d7fb7e2d), UINT64_C(0xcf2794e0277187b7), UINT64_C(0x18765564cd99a68d),
    UINT64_C(0xcbc9466e58fee3ce), UINT64_C(0xab0200f58b01d137), UINT64_C(0x93f5f5799a932462),
    UINT64_C(0x9e0082df0ba9e4b0), UINT64_C(0x7a5dbbc594ddb9f3), UINT64_C(0xf4b32f46226bada7),
    UINT64_C(0x751e8fbc860ee5fb), UINT64_C(0x14ea5627c0843d90), UINT64_C(0xf723ca908e7af2ee),
    UINT64_C(0xa129ca6149be45e5),
};

static void siphash_gives_the_reference_vectors(void **state)
{
    (void)state;
    uint8_t key[16], input[64];
    for (size_t i = 0; i < sizeof(input); i++) {
        input[i] = (uint8_t)i;
    }
    memcpy(key, input, sizeof(key));
    for (size_t len = 0; len < sizeof(vectors) / sizeof(vectors[0]); len++) {
        assert_true(amb_siphash24(key, input, len) == vectors[len]);
    }
}

static void random_bytes_differ_from_call_to_call(void **state)
{
    (void)state;
    uint8_t a[32] = {0}, b[32] = {0};
    amb_random_bytes(a, sizeof(a));
    amb_random_bytes(b, sizeof(b));
    assert_memory_not_equal(a, b, sizeof(a));
}

static void what_was_put_is_found_and_nothing_else(void **state)
{
    (void)state;
    struct amb_map *map = NULL;
    assert_int_equal(amb_map_create(&map), AMB_OK);
    int one, two, empty;
    assert_int_equal(amb_map_put(map, "one", 3, &one), AMB_OK);
    assert_int_equal(amb_map_put(map, "two!", 3, &two), AMB_OK);
    assert_int_equal(amb_map_put(map, "", 0, &empty), AMB_OK);
    assert_int_equal(amb_map_put(map, "one", 3, &two), AMB_ESTATE);
    assert_int_equal(amb_map_count(map), 3);
    assert_ptr_equal(amb_map_get(map, "one", 3), &one);
    assert_ptr_equal(amb_map_get(map, "two", 3), &two);
    assert_ptr_equal(amb_map_get(map, NULL, 0), &empty);
    assert_null(amb_map_get(map, "on", 2));
    assert_null(amb_map_get(map, "one\0", 4));
    assert_null(amb_map_remove(map, "three", 5));
    assert_ptr_equal(amb_map_remove(map, "one", 3), &one);
    assert_null(amb_map_get(map, "one", 3));
    assert_int_equal(amb_map_count(map), 2);
    amb_map_destroy(&map);
    assert_null(map);
    amb_map_destroy(&map);
}

static bool count_until(const char *key, void *value, void *arg)
{
    (void)value;
    int *left = arg;
    assert_int_equal(key[0], 'k');
    return --*left > 0;
}

static void growth_and_removal_keep_every_other_key(void **state)
{
    (void)state;
    static int values[KEYS];
    struct amb_map *map = NULL;
    assert_int_equal(amb_map_create(&map), AMB_OK);
    char key[32];
    for (int i = 0; i < KEYS; i++) {
        int len = snprintf(key, sizeof(key), "k%d", i);
        assert_int_equal(amb_map_put(map, key, (size_t)len, &values[i]), AMB_OK);
    }
    assert_int_equal(amb_map_count(map), KEYS);
    /* Remove every third while all others must stay reachable through closed holes. */
    for (int i = 0; i < KEYS; i += 3) {
        int len = snprintf(key, sizeof(key), "k%d", i);
        assert_ptr_equal(amb_map_remove(map, key, (size_t)len), &values[i]);
    }
    for (int i = 0; i < KEYS; i++) {
        int len = snprintf(key, sizeof(key), "k%d", i);
        void *expected = i % 3 == 0 ? NULL : &values[i];
        assert_ptr_equal(amb_map_get(map, key, (size_t)len), expected);
    }
    int left = KEYS;
    amb_map_each(map, count_until, &left);
    assert_int_equal(KEYS - left, amb_map_count(map));
    left = 7;
    amb_map_each(map, count_until, &left);
    assert_int_equal(left, 0);
    amb_map_destroy(&map);
}

static void a_map_that_churns_stays_correct(void **state)
{
    (void)state;
    static int values[16];
    struct amb_map *map = NULL;
    assert_int_equal(amb_map_create(&map), AMB_OK);
    bool present[16] = {false};
    uint32_t seed = 1;
    for (int step = 0; step < 20000; step++) {
        seed = (uint32_t)((uint64_t)seed * 48271u % 2147483647u);
        size_t i = seed % 16;
        char key = (char)('a' + (int)i);
        if (present[i]) {
            assert_ptr_equal(amb_map_remove(map, &key, 1), &values[i]);
        } else {
            assert_int_equal(amb_map_put(map, &key, 1, &values[i]), AMB_OK);
        }
        present[i] = !present[i];
        size_t probe = (seed >> 8) % 16;
        char other = (char)('a' + (int)probe);
        assert_ptr_equal(amb_map_get(map, &other, 1), present[probe] ? &values[probe] : NULL);
    }
    amb_map_destroy(&map);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(siphash_gives_the_reference_vectors),
        cmocka_unit_test(random_bytes_differ_from_call_to_call),
        cmocka_unit_test(what_was_put_is_found_and_nothing_else),
        cmocka_unit_test(growth_and_removal_keep_every_other_key),
        cmocka_unit_test(a_map_that_churns_stays_correct),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
