/* SPDX-License-Identifier: Apache-2.0 */
/* A pattern, a newline, a topic. Without a newline the whole is both. */
#include "tests/fuzz/fuzz.h"
#include "wire/base/assert.h"
#include "wire/codec/topic.h"

/* Both are patterns. */
static void check_sets(const char *a, size_t a_len, const char *b, size_t b_len)
{
    bool is_met = amb_pattern_meets(a, a_len, b, b_len);
    amb_assert(is_met == amb_pattern_meets(b, b_len, a, a_len));
    amb_assert(amb_pattern_contains(a, a_len, a, a_len));
    bool is_within = amb_pattern_contains(a, a_len, b, b_len);
    amb_assert(!is_within || is_met);
    if (is_within && amb_pattern_contains(b, b_len, a, a_len)) {
        amb_assert(a_len == b_len && memcmp(a, b, a_len) == 0);
    }
    bool is_name = amb_pattern_is_literal(b, b_len);
    amb_assert(amb_pattern_allows(a, a_len, true, b, b_len) == (is_within && is_name));
    if (is_name) {
        amb_assert(is_within == amb_pattern_matches(a, a_len, b, b_len));
        amb_assert(is_within == is_met);
    }
}

static void check_pair(const char *pattern, size_t pattern_len, const char *topic, size_t topic_len)
{
    const char *reason = NULL;
    bool topic_ok = amb_topic_check(topic, topic_len, &reason) == AMB_OK;
    amb_assert(topic_ok == (reason == NULL));
    reason = NULL;
    bool pattern_ok = amb_pattern_check(pattern, pattern_len, &reason) == AMB_OK;
    amb_assert(pattern_ok == (reason == NULL));
    if (topic_ok) {
        /* A topic is a literal pattern, and matches itself and nothing else. */
        amb_assert(amb_pattern_check(topic, topic_len, NULL) == AMB_OK);
        amb_assert(amb_pattern_is_literal(topic, topic_len));
        amb_assert(amb_pattern_matches(topic, topic_len, topic, topic_len));
        bool is_reserved = amb_topic_is_reserved(topic, topic_len);
        amb_assert(amb_pattern_matches(">", 1, topic, topic_len) == !is_reserved);
    }
    if (pattern_ok && amb_pattern_check(topic, topic_len, NULL) == AMB_OK) {
        check_sets(pattern, pattern_len, topic, topic_len);
        check_sets(topic, topic_len, pattern, pattern_len);
    }
    if (!topic_ok || !pattern_ok) {
        return;
    }
    bool is_match = amb_pattern_matches(pattern, pattern_len, topic, topic_len);
    if (amb_pattern_is_literal(pattern, pattern_len)) {
        bool is_same = pattern_len == topic_len && memcmp(pattern, topic, topic_len) == 0;
        amb_assert(is_match == is_same);
        amb_assert(amb_topic_check(pattern, pattern_len, NULL) == AMB_OK);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    const uint8_t *newline = len > 0 ? memchr(data, '\n', len) : NULL;
    size_t pattern_len = newline != NULL ? (size_t)(newline - data) : len;
    size_t topic_at = newline != NULL ? pattern_len + 1 : 0;
    char *pattern = (char *)fuzz_copy(data, pattern_len);
    char *topic = (char *)fuzz_copy(data + topic_at, len - topic_at);
    check_pair(pattern, pattern_len, topic, len - topic_at);
    free(topic);
    free(pattern);
    return 0;
}
