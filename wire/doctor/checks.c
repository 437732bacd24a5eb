/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/doctor/checks.h"

#include "wire/base/utf8.h"

#include <stdarg.h>
#include <string.h>

#define TEXT_MAX 1536u  /* bytes of a finding */
#define VALUE_MAX 1024u /* ... of one value in it */
#define NAME_MAX_BYTES 32u
#define PAIRS_MAX 8u
#define PAGE "docs/doctor.md"

static const char *const states[] = {"ok", "hint", "warning", "error"};

const char *amb_doctor_state_name(enum amb_doctor_state state)
{
    return states[state];
}

/* ---- texts ---- */

struct pairs {
    const char *names[PAIRS_MAX], *values[PAIRS_MAX];
    size_t count;
};

/* A value of anybody's as a part of a text; returns the text's new length. */
static size_t put_value(char out[TEXT_MAX], size_t len, const char *value)
{
    size_t left = strnlen(value, VALUE_MAX);
    while (left > 0) {
        uint32_t code;
        size_t bytes = amb_utf8_decode(value, left, &code);
        bool is_plain = bytes == 1 ? *value >= ' ' && *value <= '~' : bytes > 1 && code >= 0xa0;
        size_t step = bytes == 0 ? 1 : bytes;
        if (len + (is_plain ? bytes : 1) >= TEXT_MAX) {
            break;
        }
        if (is_plain) {
            memcpy(out + len, value, bytes);
            len += bytes;
        } else {
            out[len++] = '?';
        }
        value += step;
        left -= step;
    }
    return len;
}

/* The value of the name that a template has between braces; NULL: there is none. */
static const char *value_of(const struct pairs *pairs, const char *name, size_t len)
{
    for (size_t i = 0; i < pairs->count; i++) {
        if (strlen(pairs->names[i]) == len && memcmp(pairs->names[i], name, len) == 0) {
            return pairs->values[i];
        }
    }
    return NULL;
}

static void fill(const char *template, const struct pairs *pairs, char out[TEXT_MAX])
{
    size_t len = 0;
    while (*template != '\0' && len < TEXT_MAX - 1) {
        size_t name = *template == '{' ? strcspn(template + 1, "}") : 0;
        const char *value = name == 0 ? NULL : value_of(pairs, template + 1, name);
        if (value == NULL) {
            out[len++] = *template ++;
            continue;
        }
        len = put_value(out, len, value);
        template += name + 2;
    }
    out[len] = '\0';
}

/* ---- rows ---- */

void amb_doctor_find(json_t *rows, enum amb_doctor_check check, ...)
{
    const struct amb_doctor_row *row = amb_doctor_row(check);
    struct pairs pairs = {.count = 0};
    char name[TEXT_MAX], finding[TEXT_MAX], fix[TEXT_MAX], link[sizeof(PAGE) + NAME_MAX_BYTES];
    va_list list;
    va_start(list, check);
    const char *word;
    while (pairs.count < PAIRS_MAX && (word = va_arg(list, const char *)) != NULL) {
        pairs.names[pairs.count] = word;
        const char *value = va_arg(list, const char *);
        pairs.values[pairs.count++] = value != NULL ? value : "";
    }
    va_end(list);
    fill(row->name, &pairs, name);
    fill(row->finding, &pairs, finding);
    fill(row->fix, &pairs, fix);
    (void)snprintf(link, sizeof(link), PAGE "#%s", row->id);
    (void)json_array_append_new(rows, json_pack("{s:s, s:s, s:s, s:s, s:s, s:s}", "check", name,
                                                "state", states[row->state], "finding", finding,
                                                "fix", fix, "id", row->id, "link", link));
}

void amb_doctor_well(json_t *rows, const char *check, const char *finding, const char *fix)
{
    char name[TEXT_MAX], text[TEXT_MAX];
    name[put_value(name, 0, check)] = '\0';
    text[put_value(text, 0, finding)] = '\0';
    (void)json_array_append_new(rows, json_pack("{s:s, s:s, s:s, s:s, s:s, s:s}", "check", name,
                                                "state", states[AMB_DOCTOR_OK], "finding", text,
                                                "fix", fix, "id", "", "link", ""));
}

enum amb_doctor_state amb_doctor_worst(const json_t *rows)
{
    enum amb_doctor_state worst = AMB_DOCTOR_OK;
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const char *word = json_string_value(json_object_get(json_array_get(rows, i), "state"));
        enum amb_doctor_state state = AMB_DOCTOR_WARNING;
        for (unsigned k = 0; word != NULL && k < sizeof(states) / sizeof(states[0]); k++) {
            state = strcmp(word, states[k]) == 0 ? (enum amb_doctor_state)k : state;
        }
        worst = state > worst ? state : worst;
    }
    return worst;
}

int amb_doctor_exit(const json_t *rows)
{
    static const int codes[] = {0, 0, 1, 2};
    return codes[amb_doctor_worst(rows)];
}
