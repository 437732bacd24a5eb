/* SPDX-License-Identifier: Apache-2.0 */
/* Is every row of a schema well-formed? Threads: owner. Memory: none. Failures end the test. */
#pragma once

#include "wire/config/config_key.h"
#include "wire/config/config_words.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

/* object_size: of the structure that the rows' fields are in. */
static inline void config_rows_check(const struct amb_config_key *keys, size_t count,
                                     size_t object_size)
{
    for (size_t i = 0; i < count; i++) {
        const struct amb_config_key *key = &keys[i];
        assert_true(strlen(key->path) < AMB_CONFIG_PATH_MAX);
        assert_non_null(key->help);
        assert_int_equal(key->help[strlen(key->help) - 1], '.');
        assert_ptr_equal(amb_config_key_find(keys, count, key->path), key);
        if (!amb_config_has_field(key)) {
            assert_non_null(key->example_value);
            continue;
        }
        assert_true(key->default_text != NULL || key->example_value != NULL);
        assert_true(key->offset < object_size);
        assert_true(key->min <= key->max);
        if (key->type == AMB_CONFIG_WORD) {
            assert_non_null(amb_config_word_find(key->words, key->default_text));
        }
    }
}
