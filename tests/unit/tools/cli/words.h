/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A text as the words of a command line: blanks divide them, and quotes hold one together.
 * Threads: one. Memory: the struct's own.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#define WORDS_MAX 64
#define WORDS_TEXT_MAX 1024

struct words {
    int count;
    char *items[WORDS_MAX + 1]; /* NULL ends them */
    char text[WORDS_TEXT_MAX];
};

/* Adds a word of its own; false: there are too many. */
static inline bool words_add(struct words *words, char *word)
{
    if (words->count == WORDS_MAX) {
        return false;
    }
    words->items[words->count++] = word;
    words->items[words->count] = NULL;
    return true;
}

static inline bool words_split(struct words *words, const char *text)
{
    words->count = 0;
    size_t len = strlen(text);
    if (len >= sizeof(words->text)) {
        return false;
    }
    memcpy(words->text, text, len + 1);
    for (char *at = words->text; *at != '\0';) {
        char *end = *at == '\'' ? strchr(at + 1, '\'') : strpbrk(at, " \n");
        char *word = *at == '\'' ? at + 1 : at;
        if (end == NULL) {
            return words_add(words, word);
        }
        *end = '\0';
        if (!words_add(words, word)) {
            return false;
        }
        at = end + 1;
        at += strspn(at, " \n");
    }
    return true;
}
