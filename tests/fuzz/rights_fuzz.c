/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lines of roles, and the last line is asked for. The first letter of a line stands for its list: p
 * and P allow and deny to publish, s and S to subscribe. = allows to subscribe to names. A line
 * that is no pattern is left out, as the configuration refuses it. The answers have to be those of
 * the definitions.
 */
#include "broker/rights/rights.h"
#include "broker/rights/rights_compare.h"
#include "tests/fuzz/fuzz.h"
#include "wire/base/assert.h"
#include "wire/codec/topic.h"

#include <stdio.h>

#define LINES_MAX 16u

struct lines {
    char text[LINES_MAX][AMB_TOPIC_MAX + 2]; /* with '=' in front, where it is */
    const char *items[4][LINES_MAX];
    size_t count[4], lines;
};

/* A line without its first letter, as the role has it. */
static void add(struct lines *lines, char letter, const char *pattern, size_t len)
{
    unsigned which = letter == 'p' ? 0 : letter == 'P' ? 1 : letter == 'S' ? 3 : 2;
    bool is_doubtful = len > 0 && pattern[0] == '=' && letter != '=';
    if (is_doubtful || lines->lines == LINES_MAX || memchr(pattern, '%', len) != NULL ||
        amb_pattern_check(pattern, len, NULL) != AMB_OK || amb_pattern_is_inbox(pattern, len)) {
        return;
    }
    char *text = lines->text[lines->lines++];
    (void)snprintf(text, sizeof(lines->text[0]), "%s%.*s", letter == '=' ? "=" : "", (int)len,
                   pattern);
    lines->items[which][lines->count[which]++] = text;
}

/* Does a line of the list match the name? */
static bool any(const struct lines *lines, unsigned which, const char *name, size_t len)
{
    for (size_t i = 0; i < lines->count[which]; i++) {
        const char *pattern = lines->items[which][i];
        pattern += which == 2 && pattern[0] == '=';
        if (amb_pattern_matches(pattern, strlen(pattern), name, len)) {
            return true;
        }
    }
    return false;
}

static void check(const struct lines *lines, const struct amb_rights *rights, const char *asked,
                  size_t len)
{
    struct amb_rights_cut cut;
    const struct amb_right *by;
    enum amb_rights_answer answer = amb_rights_subscribe(rights, asked, len, &cut, &by);
    amb_assert((answer == AMB_RIGHTS_NARROWED) == !amb_rights_cut_is_empty(&cut));
    amb_assert(answer == AMB_RIGHTS_NO || by != NULL);
    if (amb_topic_check(asked, len, NULL) != AMB_OK) {
        return;
    }
    amb_assert(amb_rights_publish(rights, asked, len, NULL) ==
               (any(lines, 0, asked, len) && !any(lines, 1, asked, len)));
    amb_assert(answer != AMB_RIGHTS_NARROWED); /* It is a name. */
    amb_assert((answer == AMB_RIGHTS_WHOLE) ==
               (any(lines, 2, asked, len) && !any(lines, 3, asked, len)));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct lines lines = {.lines = 0};
    char *text = (char *)fuzz_copy(data, len);
    size_t at = 0, next;
    for (; at < len; at = next + 1) {
        const char *newline = memchr(text + at, '\n', len - at);
        next = newline == NULL ? len : (size_t)(newline - text);
        if (newline == NULL) {
            break;
        }
        if (next > at && strchr("pPsS=", text[at]) != NULL) {
            add(&lines, text[at], text + at + 1, next - at - 1);
        }
    }
    struct amb_role role = {
        .name = "r",
        .publish = {{lines.items[0], lines.count[0], NULL}, {lines.items[1], lines.count[1], NULL}},
        .subscribe = {{lines.items[2], lines.count[2], NULL},
                      {lines.items[3], lines.count[3], NULL}},
    };
    const struct amb_role *roles[] = {&role};
    const struct amb_rights_of of = {roles, 1, "u", "t"};
    struct amb_rights *rights = NULL, *fewer = NULL;
    amb_assert(amb_rights_make(&of, &rights) == AMB_OK);
    if (at < len && amb_pattern_check(text + at, len - at, NULL) == AMB_OK) {
        check(&lines, rights, text + at, len - at);
    }
    amb_assert(!amb_rights_lose(rights, rights));
    role.publish.deny.count = role.subscribe.deny.count = 0;
    amb_assert(amb_rights_make(&of, &fewer) == AMB_OK);
    amb_assert(!amb_rights_lose(rights, fewer)); /* Denies alone have gone. */
    amb_rights_unref(&fewer);
    amb_rights_unref(&rights);
    free(text);
    return 0;
}
