/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Topic names and patterns. A topic is one to AMB_TOPIC_TOKENS_MAX tokens separated by '.', valid
 * UTF-8, at most AMB_TOPIC_MAX bytes, without white space, control characters or empty tokens.
 * In a pattern a token may be "*" (exactly one token) or, as the last, ">" (one token or more).
 * Topics that begin with '$' are the broker's ($SYS., $DLQ.; $INBOX. is for replies): a wildcard
 * in the first token never matches them.
 * Threads: any. Memory: never allocates.
 */
#pragma once

#include "wire/base/status.h"

#include <stdbool.h>
#include <stddef.h>

#define AMB_TOPIC_MAX 255u
#define AMB_TOPIC_TOKENS_MAX 32u
#define AMB_PRIORITIES 3u /* a topic has */

/* In which order priorities come: 0 first. */
static inline unsigned amb_priority_rank(enum amb_priority priority)
{
    return priority == AMB_PRIORITY_HIGH ? 0 : priority == AMB_PRIORITY_NORMAL ? 1 : 2;
}

/* ETOPIC; *reason (may be NULL) then says what is wrong, static text. */
AMB_MUST_CHECK enum amb_status amb_topic_check(const char *topic, size_t len, const char **reason);
AMB_MUST_CHECK enum amb_status amb_pattern_check(const char *pattern, size_t len,
                                                 const char **reason);
/* True for '$...': clients may subscribe to such topics, not publish to them. */
bool amb_topic_is_reserved(const char *topic, size_t len);
/*
 * Inboxes are where replies go: "$INBOX." and one token that nobody can guess. Clients may publish
 * to one that they know, and one subscription reads it: no pattern with a wildcard matches it.
 */
#define AMB_INBOX_PREFIX "$INBOX."
#define AMB_DEADLETTER_PREFIX "$DLQ." /* in front of the topic of a message that is dead */
#define AMB_INBOX_TOKEN_MIN 32u
/* A topic or pattern as it may be shown: a program that knows an inbox's name may write to it. */
const char *amb_topic_shown(const char *name);
/* Is it how an inbox is shown? All inboxes look alike, so figures of two cannot be told apart. */
bool amb_topic_is_shown_inbox(const char *shown);
/* Is the pattern about inboxes? */
bool amb_pattern_is_inbox(const char *pattern, size_t len);
/* Is the checked topic one? */
bool amb_topic_is_inbox(const char *topic, size_t len);
bool amb_pattern_is_literal(const char *pattern, size_t len);
/* Both checked before. Linear in the lengths. */
bool amb_pattern_matches(const char *pattern, size_t pattern_len, const char *topic,
                         size_t topic_len);
/* Two patterns, checked before: is there a topic that both match? Linear in the lengths. */
bool amb_pattern_meets(const char *pattern, size_t len, const char *other, size_t other_len);
/*
 * Two patterns, checked before: does `outer` match all topics that `inner` matches? Linear in the
 * lengths. A topic's greatest length is not looked at: ">" is never within "*".
 */
bool amb_pattern_contains(const char *outer, size_t outer_len, const char *inner, size_t inner_len);
/*
 * May `asked`, a topic or a pattern, be had by a right to `pattern`? It has to lie within that.
 * names_only: the right is to names, so a pattern with a wildcard is never within. All were checked
 * before. Linear in the lengths.
 */
bool amb_pattern_allows(const char *pattern, size_t len, bool names_only, const char *asked,
                        size_t asked_len);
