/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/config/config_reference.h"

#define ALLOWED_MAX 320u

void amb_config_default_print(const struct amb_config_key *key, FILE *out)
{
    const char *text = key->default_text;
    if (!amb_config_has_field(key) || text == NULL) {
        (void)fprintf(out, "%s", key->example_value);
        return;
    }
    bool is_bare = key->type == AMB_CONFIG_BOOL || key->type == AMB_CONFIG_COUNT;
    bool is_list = key->type == AMB_CONFIG_STRINGS || key->type == AMB_CONFIG_URLS;
    if (amb_config_word_find(key->words, text) != NULL) {
        (void)fprintf(out, "\"%s\"", text);
    } else if (key->type == AMB_CONFIG_PAIRS) {
        (void)fprintf(out, "{ }");
    } else if (is_list || key->type == AMB_CONFIG_ELEMENTS) {
        (void)fprintf(out, text[0] == '\0' ? "( )" : "( \"%s\" )", text);
    } else {
        (void)fprintf(out, is_bare ? "%s" : "\"%s\"", text);
    }
}

void amb_config_cell_print(const char *text, FILE *out)
{
    for (; *text != '\0'; text++) {
        if (*text == '|' || *text == '<' || *text == '*') {
            (void)fputc('\\', out);
        }
        (void)fputc(*text, out);
    }
}

static void print_row(const struct amb_config_key *key, FILE *out)
{
    char allowed[ALLOWED_MAX];
    (void)fprintf(out, "| `%s` | ", key->path);
    if (!amb_config_has_field(key)) {
        (void)fprintf(out, "- | %s | - | ", key->not_yet ? "not yet supported" : "not looked at");
    } else {
        (void)fputc('`', out);
        if (key->default_text == NULL) {
            (void)fprintf(out, "(required)");
        } else {
            amb_config_default_print(key, out);
        }
        amb_config_allowed(key, allowed, sizeof(allowed));
        (void)fprintf(out, "` | ");
        amb_config_cell_print(allowed, out);
        (void)fprintf(out, " | %s | ", amb_config_apply_name(key->apply));
    }
    amb_config_cell_print(key->help, out);
    (void)fprintf(out, " |\n");
}

void amb_config_table_print(const struct amb_config_key *keys, size_t count, FILE *out)
{
    (void)fprintf(out, "| key | default | allowed | applies | what |\n|---|---|---|---|---|\n");
    for (size_t i = 0; i < count; i++) {
        print_row(&keys[i], out);
    }
}
