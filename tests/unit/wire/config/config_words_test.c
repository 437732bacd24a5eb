/* SPDX-License-Identifier: Apache-2.0 */
/* Each value of an enumeration that a user may choose has a word. */
#include "wire/config/config_words.h"

#include "client/include/amb/types.h"
#include "wire/codec/url.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static void has_all(const struct amb_config_word *words, int64_t first, int64_t last)
{
    for (int64_t value = first; value <= last; value++) {
        const struct amb_config_word *word = amb_config_word_of(words, value);
        assert_non_null(word);
        assert_ptr_equal(amb_config_word_find(words, word->word), word);
    }
}

static void test_every_choice_has_a_word(void **state)
{
    (void)state;
    has_all(amb_config_slow_words, AMB_SLOW_DROP_OLDEST, AMB_SLOW_DISCONNECT);
    has_all(amb_config_priority_words, AMB_PRIORITY_NORMAL, AMB_PRIORITY_LOW);
    has_all(amb_config_ack_words, AMB_ACK_EXPLICIT, AMB_ACK_CUMULATIVE);
    has_all(amb_config_confirm_words, AMB_CONFIRM_ACCEPTED, AMB_CONFIRM_DURABLE);
    has_all(amb_config_tempo_words, AMB_TEMPO_AT_ONCE, AMB_TEMPO_ORIGINAL);
    assert_non_null(amb_config_word_of(amb_config_memory_words, AMB_MEM_CUDA));
}

static void test_links_are_those_of_urls(void **state)
{
    (void)state;
    has_all(amb_config_link_words, AMB_LINK_RING, AMB_LINK_UCX);
    for (const struct amb_config_word *word = amb_config_link_words; word->word != NULL; word++) {
        assert_string_equal(word->word, amb_link_kind_name((enum amb_link_kind)word->value));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_choice_has_a_word),
        cmocka_unit_test(test_links_are_those_of_urls),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
