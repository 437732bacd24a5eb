/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/config/config_mdoc.h"

#include "wire/config/config_reference.h"

#include <stdlib.h>
#include <string.h>

#define ALLOWED_MAX 320u
#define LINE_WIDTH 64u /* room is left for signs that take several bytes */

static void put_n(const char *text, size_t len, FILE *out)
{
    for (size_t i = 0; i < len; i++) {
        if (i == 0 && (text[i] == '.' || text[i] == '\'')) {
            (void)fputs("\\&", out);
        }
        if (text[i] == '\\') {
            (void)fputs("\\e", out);
        } else if (text[i] == '"') {
            (void)fputs("\\(dq", out);
        } else if (text[i] == '-') {
            (void)fputs("\\-", out);
        } else {
            (void)fputc(text[i], out);
        }
    }
}

void amb_mdoc_put(const char *text, FILE *out)
{
    put_n(text, strlen(text), out);
}

/* Bytes up to the end of the first sentence, with its stop. */
static size_t sentence_len(const char *text)
{
    size_t i = 0;
    while (text[i] != '\0') {
        bool is_stop = strchr(".!?", text[i]) != NULL;
        if (is_stop && (text[i + 1] == ' ' || text[i + 1] == '\0')) {
            return i + 1;
        }
        i++;
    }
    return i;
}

/* A sentence in lines that are not long. */
static void put_wrapped(const char *text, size_t len, FILE *out)
{
    size_t column = 0;
    for (size_t at = 0; at < len;) {
        size_t word = strcspn(text + at, " ");
        word = word < len - at ? word : len - at;
        bool is_new = column > 0 && column + 1 + word > LINE_WIDTH;
        if (column > 0) {
            (void)fputc(is_new ? '\n' : ' ', out);
        }
        put_n(text + at, word, out);
        column = is_new || column == 0 ? word : column + 1 + word;
        at += word;
        at += strspn(text + at, " ");
    }
}

void amb_mdoc_sentences(const char *text, FILE *out)
{
    while (*text != '\0') {
        size_t len = sentence_len(text);
        bool has_stop = strchr(".!?", text[len - 1]) != NULL;
        put_wrapped(text, len, out);
        (void)fputs(has_stop ? "\n" : ".\n", out);
        text += len;
        text += strspn(text, " ");
    }
}

static void print_key(const struct amb_config_key *key, FILE *out)
{
    char allowed[ALLOWED_MAX], *text = NULL;
    size_t size = 0;
    (void)fputs(".It Ic ", out);
    amb_mdoc_put(key->path, out);
    (void)fputc('\n', out);
    amb_mdoc_sentences(key->help, out);
    if (!amb_config_has_field(key)) {
        (void)fputs(key->not_yet ? "It is not supported yet.\n" : "It is not looked at.\n", out);
        return;
    }
    FILE *stream = open_memstream(&text, &size);
    if (stream != NULL) {
        amb_config_default_print(key, stream);
        (void)fclose(stream);
    }
    amb_config_allowed(key, allowed, sizeof(allowed));
    (void)fputs("Default: ", out);
    amb_mdoc_put(key->default_text == NULL || text == NULL ? "none, it is required" : text, out);
    (void)fputs(".\nAllowed:\n", out);
    amb_mdoc_sentences(allowed, out);
    (void)fputs("Applies: ", out);
    amb_mdoc_put(amb_config_apply_name(key->apply), out);
    (void)fputs(".\n", out);
    free(text);
}

void amb_config_mdoc_print(const struct amb_config_key *keys, size_t count, FILE *out)
{
    (void)fputs(".Bl -tag -width Ds\n", out);
    for (size_t i = 0; i < count; i++) {
        print_key(&keys[i], out);
    }
    (void)fputs(".El\n", out);
}
