/* SPDX-License-Identifier: Apache-2.0 */
/* Findings of the doctor as text, JSON and CSV. */
#include "tools/common/findings.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static char *printed(json_t *rows, enum amb_findings_form form)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    assert_non_null(out);
    amb_findings_print(rows, form, true, out);
    assert_int_equal(fclose(out), 0);
    return text;
}

static json_t *row(const char *state, const char *finding, const char *fix)
{
    return json_pack("{s:s, s:s, s:s, s:s, s:s, s:s}", "check", "c", "state", state, "finding",
                     finding, "fix", fix, "id", "i", "link", "docs/doctor.md#i");
}

static void the_worst_come_first(void **state)
{
    (void)state;
    json_t *rows = json_array();
    (void)json_array_append_new(rows, row("ok", "fine", "advice"));
    (void)json_array_append_new(rows, row("hint", "slow", "faster"));
    (void)json_array_append_new(rows, row("error", "broken", "mend"));
    char *text = printed(rows, AMB_FINDINGS_TEXT);
    assert_string_equal(text, "error    c: broken\n"
                              "         fix: mend\n"
                              "         see: docs/doctor.md#i\n"
                              "hint     c: slow\n"
                              "         fix: faster\n"
                              "         see: docs/doctor.md#i\n"
                              "ok       c: fine\n");
    free(text);
    json_decref(rows);
}

static void long_lines_are_wrapped(void **state)
{
    (void)state;
    char words[600] = "";
    for (size_t i = 0; i + 8 < sizeof(words); i += 7) {
        (void)strcat(words, "wordy! ");
    }
    json_t *rows = json_array();
    (void)json_array_append_new(rows, row("warning", words, "fix"));
    char *text = printed(rows, AMB_FINDINGS_TEXT);
    for (char *line = strtok(text, "\n"); line != NULL; line = strtok(NULL, "\n")) {
        assert_true(strlen(line) <= 100 && line[strlen(line) - 1] != ' ');
    }
    free(text);
    json_decref(rows);
}

static void rows_of_strangers_do_no_harm(void **state)
{
    (void)state;
    json_t *rows =
        json_pack("[{s:s, s:i}, s, {s:s, s:s}, {s:s}, {s:s}]", "state", "a state that is too long",
                  "check", 7, "no row", "finding", "\033[2J", "state", "error", "state",
                  "\033c\xc2\x9b", "state", "1234567\xc3\xa9");
    char *text = printed(rows, AMB_FINDINGS_TEXT);
    assert_null(strpbrk(text, "\033\xc2\xc3"));
    assert_non_null(strstr(text, "error"));
    assert_non_null(strstr(text, "\n.c.     : \n"));
    assert_non_null(strstr(text, "\n1234567  : \n"));
    free(text);
    json_decref(rows);
}

static void programs_read_json_and_csv(void **state)
{
    (void)state;
    json_t *rows = json_array();
    (void)json_array_append_new(rows, row("hint", "a \"b\", c", "d"));
    char *text = printed(rows, AMB_FINDINGS_JSON);
    json_t *value = json_loads(text, 0, NULL);
    assert_true(json_equal(json_object_get(value, "doctor"), rows));
    json_decref(value);
    free(text);
    text = printed(rows, AMB_FINDINGS_CSV);
    assert_string_equal(text, "check,state,finding,fix,id,link\n"
                              "c,hint,\"a \"\"b\"\", c\",d,i,docs/doctor.md#i\n");
    free(text);
    text = printed(rows, AMB_FINDINGS_JSONL);
    assert_int_equal(text[0], '{');
    free(text);
    json_decref(rows);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_worst_come_first),
        cmocka_unit_test(long_lines_are_wrapped),
        cmocka_unit_test(rows_of_strangers_do_no_harm),
        cmocka_unit_test(programs_read_json_and_csv),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
