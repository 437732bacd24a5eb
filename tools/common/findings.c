/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/common/findings.h"

#include "tools/common/rows.h"
#include "tools/common/shown.h"

#include <string.h>

#define WIDTH 100u
#define STATE_WIDTH 8u
#define INDENT (STATE_WIDTH + 1) /* "warning  " */

/* The worst first. Unknown states stand before those that are well. */
static const char *const order[] = {"error", "warning", "hint", NULL, "ok"};

/* Words up to WIDTH columns, the next lines indented. at: the column where it begins. */
static void put_wrapped(const char *text, unsigned at, FILE *out)
{
    bool is_first = true;
    while (*text != '\0') {
        size_t len = strcspn(text, " ");
        if (!is_first && at + 1 + len > WIDTH) {
            (void)fprintf(out, "\n%*s", (int)INDENT, "");
            at = INDENT;
        } else if (!is_first) {
            (void)fputc(' ', out);
            at++;
        }
        amb_shown_put(out, text, len, false);
        is_first = false;
        at += (unsigned)len;
        text += len + (text[len] == ' ');
    }
    (void)fputc('\n', out);
}

static void put_line(const char *head, const char *text, FILE *out)
{
    if (*text != '\0') {
        (void)fprintf(out, "%*s%s: ", (int)INDENT, "", head);
        put_wrapped(text, (unsigned)(INDENT + strlen(head) + 2), out);
    }
}

/* Cut or filled up to its column. */
static void put_state(const char *state, FILE *out)
{
    size_t len = amb_shown_cut(state, strlen(state), STATE_WIDTH);
    amb_shown_put(out, state, len, false);
    (void)fprintf(out, "%*s", (int)(INDENT - len), "");
}

static void put_row(const json_t *row, FILE *out)
{
    const char *check = amb_rows_text(row, "check");
    put_state(amb_rows_text(row, "state"), out);
    amb_shown_put(out, check, strlen(check), false);
    (void)fputs(": ", out);
    put_wrapped(amb_rows_text(row, "finding"), (unsigned)(INDENT + strlen(check) + 2), out);
    if (strcmp(amb_rows_text(row, "state"), "ok") != 0) {
        put_line("fix", amb_rows_text(row, "fix"), out);
        put_line("see", amb_rows_text(row, "link"), out);
    }
}

/* order[] has its place; others have that of NULL. */
static size_t place_of(const json_t *row)
{
    size_t other = 0;
    for (size_t i = 0; i < sizeof(order) / sizeof(order[0]); i++) {
        if (order[i] == NULL) {
            other = i;
        } else if (strcmp(order[i], amb_rows_text(row, "state")) == 0) {
            return i;
        }
    }
    return other;
}

static void print_text(const json_t *rows, FILE *out)
{
    for (size_t place = 0; place < sizeof(order) / sizeof(order[0]); place++) {
        for (size_t i = 0; i < json_array_size(rows); i++) {
            if (place_of(json_array_get(rows, i)) == place) {
                put_row(json_array_get(rows, i), out);
            }
        }
    }
}

void amb_findings_print(json_t *rows, enum amb_findings_form form, bool has_head, FILE *out)
{
    json_t *whole;
    switch (form) {
    case AMB_FINDINGS_TEXT:
        print_text(rows, out);
        break;
    case AMB_FINDINGS_JSON:
        whole = json_pack("{s:O}", "doctor", rows);
        (void)json_dumpf(whole, out, JSON_COMPACT);
        (void)fputc('\n', out);
        json_decref(whole);
        break;
    case AMB_FINDINGS_JSONL:
        amb_rows_print_jsonl(rows, out);
        break;
    case AMB_FINDINGS_CSV:
        amb_rows_print_csv(rows, has_head, out);
        break;
    }
}
