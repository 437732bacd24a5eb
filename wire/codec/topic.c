/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One pass over the characters serves topics and patterns; they differ only in what '*' and '>' may
 * do. Both are refused inside a longer token, also in patterns. Other brokers take "foo*" for a
 * literal; its writer means something else. '/' is refused too: it is the separator elsewhere.
 */
#include "wire/codec/topic.h"

#include "wire/base/utf8.h"

#include <stdint.h>
#include <string.h>

_Static_assert(AMB_TOPIC_MAX == 255 && AMB_TOPIC_TOKENS_MAX == 32, "the texts name these");

/* Unicode's White_Space property, without the control characters among it. */
static bool is_space(uint32_t c)
{
    return c == 0x20 || c == 0xa0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 ||
           c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}

/* NULL, or the fault in the characters of a token. */
static const char *check_characters(const uint8_t *token, size_t len)
{
    for (size_t i = 0; i < len;) {
        uint32_t c = 0;
        size_t size = amb_utf8_decode(token + i, len - i, &c);
        if (size == 0) {
            return "is not valid UTF-8";
        }
        if (amb_utf8_is_control(c)) {
            return "has a control character";
        }
        if (is_space(c)) {
            return "has white space";
        }
        if (c == '/') {
            return "has a '/': tokens are separated by '.'";
        }
        i += size;
    }
    return NULL;
}

static bool is_wildcard(const char *token, size_t len)
{
    return len == 1 && (token[0] == '*' || token[0] == '>');
}

/* Length of the token that begins at `at`, which may be 0. */
static size_t token_len(const char *text, size_t len, size_t at)
{
    const char *dot = memchr(text + at, '.', len - at);
    return dot != NULL ? (size_t)(dot - text) - at : len - at;
}

/* NULL, or the fault of one token. */
static const char *check_token(const char *token, size_t len, bool is_last, bool is_pattern)
{
    if (len == 0) {
        return "has an empty token";
    }
    if (is_wildcard(token, len)) {
        if (!is_pattern) {
            return "has a wildcard, which only a pattern may";
        }
        return token[0] == '>' && !is_last ? "has a '>' that is not its last token" : NULL;
    }
    if (memchr(token, '*', len) != NULL || memchr(token, '>', len) != NULL) {
        return "has a '*' or '>' inside a token";
    }
    return check_characters((const uint8_t *)token, len);
}

/* NULL, or the fault. */
static const char *check(const char *text, size_t len, bool is_pattern)
{
    if (len == 0) {
        return "is empty";
    }
    if (len > AMB_TOPIC_MAX) {
        return "is longer than 255 bytes";
    }
    size_t at = 0;
    for (unsigned tokens = 1;; tokens++) {
        if (tokens > AMB_TOPIC_TOKENS_MAX) {
            return "has more than 32 tokens";
        }
        size_t size = token_len(text, len, at);
        bool is_last = at + size == len;
        const char *wrong = check_token(text + at, size, is_last, is_pattern);
        if (wrong != NULL || is_last) {
            return wrong;
        }
        at += size + 1;
    }
}

static enum amb_status answer(const char *wrong, const char **reason)
{
    if (wrong == NULL) {
        return AMB_OK;
    }
    if (reason != NULL) {
        *reason = wrong;
    }
    return AMB_ETOPIC;
}

enum amb_status amb_topic_check(const char *topic, size_t len, const char **reason)
{
    return answer(check(topic, len, false), reason);
}

enum amb_status amb_pattern_check(const char *pattern, size_t len, const char **reason)
{
    return answer(check(pattern, len, true), reason);
}

bool amb_topic_is_reserved(const char *topic, size_t len)
{
    return len > 0 && topic[0] == '$';
}

bool amb_pattern_is_inbox(const char *pattern, size_t len)
{
    size_t token = sizeof(AMB_INBOX_PREFIX) - 2; /* without the dot */
    return len >= token && memcmp(pattern, AMB_INBOX_PREFIX, token) == 0 &&
           (len == token || pattern[token] == '.');
}

static const char shown_inbox[] = AMB_INBOX_PREFIX "…";

const char *amb_topic_shown(const char *name)
{
    return amb_pattern_is_inbox(name, strlen(name)) ? shown_inbox : name;
}

bool amb_topic_is_shown_inbox(const char *shown)
{
    return strcmp(shown, shown_inbox) == 0;
}

bool amb_topic_is_inbox(const char *topic, size_t len)
{
    size_t prefix = sizeof(AMB_INBOX_PREFIX) - 1;
    return amb_pattern_is_inbox(topic, len) && len >= prefix + AMB_INBOX_TOKEN_MIN &&
           amb_pattern_is_literal(topic, len) && memchr(topic + prefix, '.', len - prefix) == NULL;
}

/* A checked pattern has these characters as whole tokens only. */
bool amb_pattern_is_literal(const char *pattern, size_t len)
{
    return memchr(pattern, '*', len) == NULL && memchr(pattern, '>', len) == NULL;
}

bool amb_pattern_matches(const char *pattern, size_t pattern_len, const char *topic,
                         size_t topic_len)
{
    if (amb_topic_is_reserved(topic, topic_len) && pattern_len > 0 &&
        (pattern[0] == '*' || pattern[0] == '>')) {
        return false;
    }
    size_t p = 0, t = 0;
    for (;;) {
        size_t p_size = token_len(pattern, pattern_len, p);
        size_t t_size = token_len(topic, topic_len, t);
        if (p_size == 1 && pattern[p] == '>') {
            return true; /* at least one token is left here */
        }
        bool any = p_size == 1 && pattern[p] == '*';
        if (!any && (p_size != t_size || memcmp(pattern + p, topic + t, p_size) != 0)) {
            return false;
        }
        p += p_size;
        t += t_size;
        if (p == pattern_len || t == topic_len) {
            return p == pattern_len && t == topic_len;
        }
        p++;
        t++;
    }
}

static bool begins_wild(const char *pattern, size_t len)
{
    return len > 0 && (pattern[0] == '*' || pattern[0] == '>');
}

bool amb_pattern_meets(const char *pattern, size_t len, const char *other, size_t other_len)
{
    if ((begins_wild(pattern, len) && amb_topic_is_reserved(other, other_len)) ||
        (begins_wild(other, other_len) && amb_topic_is_reserved(pattern, len))) {
        return false;
    }
    size_t a = 0, b = 0;
    for (;;) {
        size_t a_size = token_len(pattern, len, a), b_size = token_len(other, other_len, b);
        bool a_wild = is_wildcard(pattern + a, a_size), b_wild = is_wildcard(other + b, b_size);
        if ((a_wild && pattern[a] == '>') || (b_wild && other[b] == '>')) {
            return true; /* At least one token is left on both sides. */
        }
        if (!a_wild && !b_wild &&
            (a_size != b_size || memcmp(pattern + a, other + b, a_size) != 0)) {
            return false;
        }
        a += a_size;
        b += b_size;
        if (a == len || b == other_len) {
            return a == len && b == other_len;
        }
        a++;
        b++;
    }
}

bool amb_pattern_contains(const char *outer, size_t outer_len, const char *inner, size_t inner_len)
{
    if (begins_wild(outer, outer_len) && amb_topic_is_reserved(inner, inner_len)) {
        return false;
    }
    size_t o = 0, i = 0;
    for (;;) {
        size_t o_size = token_len(outer, outer_len, o), i_size = token_len(inner, inner_len, i);
        bool o_wild = is_wildcard(outer + o, o_size), i_wild = is_wildcard(inner + i, i_size);
        if (o_wild && outer[o] == '>') {
            return true; /* At least one token is left of each topic. */
        }
        if (i_wild && (!o_wild || inner[i] == '>')) {
            return false; /* Any token, or more tokens, where the outer one has just one. */
        }
        if (!o_wild && (o_size != i_size || memcmp(outer + o, inner + i, o_size) != 0)) {
            return false;
        }
        o += o_size;
        i += i_size;
        if (o == outer_len || i == inner_len) {
            return o == outer_len && i == inner_len;
        }
        o++;
        i++;
    }
}

bool amb_pattern_allows(const char *pattern, size_t len, bool names_only, const char *asked,
                        size_t asked_len)
{
    return (!names_only || amb_pattern_is_literal(asked, asked_len)) &&
           amb_pattern_contains(pattern, len, asked, asked_len);
}
