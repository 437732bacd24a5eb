/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For tests of broker/rights: roles from short texts, and a world of patterns and topics that is
 * small enough to enumerate. Threads: one. Memory: static.
 */
#pragma once

#include "broker/rights/rights.h"
#include "wire/codec/topic.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define TRY_LIST_MAX 8u
#define TRY_ROLES_MAX 4u
#define TRY_PATTERNS 84u /* up to three tokens of a, b, *, and > at the end, beside $S in front */
#define TRY_TOPICS 480u

/* A role in which the lists are of our own. */
struct try_role {
    struct amb_role role;
    const char *lists[4][TRY_LIST_MAX];
};

static inline struct amb_config_strings *try_list(struct try_role *role, unsigned which)
{
    struct amb_config_strings *lists[4] = {&role->role.publish.allow, &role->role.publish.deny,
                                           &role->role.subscribe.allow, &role->role.subscribe.deny};
    return lists[which];
}

/* By number: publish allow and deny are 0 and 1, those of subscribe 2 and 3. */
static inline void try_add(struct try_role *role, unsigned which, const char *pattern)
{
    struct amb_config_strings *list = try_list(role, which);
    assert_true(list->count < TRY_LIST_MAX);
    role->lists[which][list->count] = pattern;
    list->items = role->lists[which];
    list->count++;
}

struct try_text {
    char at[24];
    size_t len;
};

/* Patterns and topics of up to three and four tokens, and which pattern matches which topic. */
struct try_world {
    struct try_text patterns[TRY_PATTERNS], topics[TRY_TOPICS];
    size_t pattern_count, topic_count;
    uint64_t matched[TRY_PATTERNS][(TRY_TOPICS + 63) / 64];
    bool is_name[TRY_PATTERNS];
};

static inline void try_texts(const char *const *tokens, size_t token_count, unsigned depth,
                             bool is_pattern, struct try_text *out, size_t max, size_t *count)
{
    size_t all = 1;
    for (unsigned len = 1; len <= depth; len++) {
        all *= token_count;
        for (size_t n = 0; n < all; n++) {
            struct try_text text = {.len = 0};
            size_t rest = n;
            bool is_late = false; /* $S stands in front alone: elsewhere it is a token as any */
            for (unsigned i = 0; i < len; i++, rest /= token_count) {
                const char *token = tokens[rest % token_count];
                is_late = is_late || (i > 0 && token[0] == '$');
                text.len += (size_t)snprintf(text.at + text.len, sizeof(text.at) - text.len, "%s%s",
                                             i > 0 ? "." : "", token);
            }
            bool is_ok = (is_pattern ? amb_pattern_check(text.at, text.len, NULL)
                                     : amb_topic_check(text.at, text.len, NULL)) == AMB_OK;
            if (is_ok && !is_late) {
                assert_true(*count < max);
                out[(*count)++] = text;
            }
        }
    }
}

static inline struct try_world *try_world(void)
{
    static struct try_world world;
    if (world.pattern_count > 0) {
        return &world;
    }
    static const char *const pattern_tokens[] = {"a", "b", "$S", "*", ">"};
    static const char *const topic_tokens[] = {"a", "b", "c", "$S"};
    try_texts(pattern_tokens, 5, 3, true, world.patterns, TRY_PATTERNS, &world.pattern_count);
    try_texts(topic_tokens, 4, 4, false, world.topics, TRY_TOPICS, &world.topic_count);
    for (size_t p = 0; p < world.pattern_count; p++) {
        const struct try_text *pattern = &world.patterns[p];
        world.is_name[p] = strpbrk(pattern->at, "*>") == NULL;
        for (size_t t = 0; t < world.topic_count; t++) {
            const struct try_text *topic = &world.topics[t];
            if (amb_pattern_matches(pattern->at, pattern->len, topic->at, topic->len)) {
                world.matched[p][t / 64] |= UINT64_C(1) << t % 64;
            }
        }
    }
    return &world;
}

/* A xorshift generator: the same numbers each time. */
static inline uint64_t try_random(void)
{
    static uint64_t state = 0x2545f4914f6cdd1d;
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

/* A random set of roles, as indices of patterns. names_only: of allows of subscribe. */
struct try_set {
    struct {
        unsigned pattern[TRY_LIST_MAX];
        bool names_only[TRY_LIST_MAX];
        unsigned count;
    } lists[4];
    struct try_role roles[TRY_ROLES_MAX];
    char texts[4][TRY_LIST_MAX][32];
    const struct amb_role *of[TRY_ROLES_MAX];
};

/* The lines of the set, spread over its roles. */
static inline void try_set_build(struct try_set *set)
{
    const struct try_world *world = try_world();
    memset(set->roles, 0, sizeof(set->roles));
    for (unsigned r = 0; r < TRY_ROLES_MAX; r++) {
        set->of[r] = &set->roles[r].role;
    }
    for (unsigned which = 0; which < 4; which++) {
        for (unsigned i = 0; i < set->lists[which].count; i++) {
            (void)snprintf(set->texts[which][i], sizeof(set->texts[which][i]), "%s%s",
                           set->lists[which].names_only[i] ? "=" : "",
                           world->patterns[set->lists[which].pattern[i]].at);
            try_add(&set->roles[i % TRY_ROLES_MAX], which, set->texts[which][i]);
        }
    }
}

static inline void try_set_random(struct try_set *set)
{
    const struct try_world *world = try_world();
    for (unsigned which = 0; which < 4; which++) {
        set->lists[which].count = (unsigned)(try_random() % (which % 2 == 0 ? 5 : 3));
        for (unsigned i = 0; i < set->lists[which].count; i++) {
            set->lists[which].pattern[i] = (unsigned)(try_random() % world->pattern_count);
            set->lists[which].names_only[i] = which == 2 && try_random() % 4 == 0;
        }
    }
    try_set_build(set);
}

/* The set as rights, with one reference. */
static inline struct amb_rights *try_set_make(const struct try_set *set)
{
    const struct amb_rights_of of = {set->of, TRY_ROLES_MAX, "u", "t"};
    struct amb_rights *rights = NULL;
    assert_int_equal(amb_rights_make(&of, &rights), AMB_OK);
    return rights;
}

/* The definition: is every topic of `inner` one of `outer`? */
static inline bool try_within(unsigned outer, unsigned inner)
{
    const struct try_world *world = try_world();
    for (size_t word = 0; word < (TRY_TOPICS + 63) / 64; word++) {
        if ((world->matched[inner][word] & ~world->matched[outer][word]) != 0) {
            return false;
        }
    }
    return true;
}

static inline bool try_matches(unsigned pattern, size_t topic)
{
    return (try_world()->matched[pattern][topic / 64] >> topic % 64 & 1) != 0;
}

/* The definition of a right to publish. */
static inline bool try_may_publish(const struct try_set *set, size_t topic)
{
    bool is_allowed = false;
    for (unsigned i = 0; i < set->lists[0].count; i++) {
        is_allowed = is_allowed || try_matches(set->lists[0].pattern[i], topic);
    }
    for (unsigned i = 0; i < set->lists[1].count; i++) {
        is_allowed = is_allowed && !try_matches(set->lists[1].pattern[i], topic);
    }
    return is_allowed;
}

/* The definition of a right to subscribe, and the topics that are seen then; none: it is none. */
static inline bool try_may_subscribe(const struct try_set *set, unsigned pattern,
                                     uint64_t seen[(TRY_TOPICS + 63) / 64])
{
    const struct try_world *world = try_world();
    bool is_allowed = false;
    memset(seen, 0, (TRY_TOPICS + 63) / 64 * sizeof(seen[0]));
    for (unsigned i = 0; i < set->lists[2].count; i++) {
        is_allowed = is_allowed || (try_within(set->lists[2].pattern[i], pattern) &&
                                    (!set->lists[2].names_only[i] || world->is_name[pattern]));
    }
    for (unsigned i = 0; i < set->lists[3].count; i++) {
        is_allowed = is_allowed && !try_within(set->lists[3].pattern[i], pattern);
    }
    for (size_t word = 0; is_allowed && word < (TRY_TOPICS + 63) / 64; word++) {
        seen[word] = world->matched[pattern][word];
        for (unsigned i = 0; i < set->lists[3].count; i++) {
            seen[word] &= ~world->matched[set->lists[3].pattern[i]][word];
        }
    }
    return is_allowed;
}
