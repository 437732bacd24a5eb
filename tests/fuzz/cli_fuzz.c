/* SPDX-License-Identifier: Apache-2.0 */
/* Any words as a command line: parsed, or refused by "what: why" without a character that would
 * drive a terminal; and completed. The first byte chooses the program. */
#include "tests/fuzz/fuzz.h"
#include "tools/cli/complete.h"
#include "tools/cli/tables.h"
#include "wire/base/assert.h"

#define WORDS_MAX 64

static const struct amb_cli_program *const programs[] = {&amb_cli_broker_ctl, &amb_cli_broker_bench,
                                                         &amb_cli_brokerd};

static void check_line(const struct amb_cli_line *line, int argc)
{
    amb_assert(line->given_count + line->arg_count <= 64 + (size_t)argc * 2);
    amb_assert(line->args[line->arg_count] == NULL);
    for (size_t i = 0; i < line->given_count; i++) {
        const struct amb_cli_option *option = line->given[i].option;
        const char *text = line->given[i].value.text;
        bool is_whole = line->wants_help || line->wants_version;
        amb_assert((option->type == AMB_CLI_FLAG) == (text == NULL));
        if (!is_whole && option->type == AMB_CLI_COUNT) {
            uint64_t number = line->given[i].value.number;
            amb_assert(number >= option->min && (option->max == 0 || number <= option->max));
        }
    }
    for (size_t i = 0; i < line->arg_count; i++) {
        amb_assert(line->args[i] != NULL);
    }
}

static void check_error(const char *error)
{
    amb_assert(error[0] != '\0' && strstr(error, ": ") != NULL);
    for (; *error != '\0'; error++) {
        amb_assert((unsigned char)*error >= 0x20 && *error != 0x7f);
    }
}

static void parse(const struct amb_cli_program *program, int argc, char **argv)
{
    char error[AMB_CLI_ERROR_MAX] = "";
    struct amb_cli_line line;
    if (amb_cli_parse(program, argc, argv, &line, error, sizeof(error)) == AMB_OK) {
        check_line(&line, argc);
        amb_cli_fini(&line);
    } else {
        check_error(error);
    }
}

static void complete(const struct amb_cli_program *program, int count, char **words)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    if (out == NULL) {
        abort();
    }
    amb_cli_complete(program, count, words, NULL, out);
    (void)fclose(out);
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    char *words[WORDS_MAX + 1] = {NULL};
    int count = 0;
    const struct amb_cli_program *program = programs[len > 0 ? data[0] % 3 : 0];
    for (size_t at = len > 0 ? 1 : 0; at < len && count < WORDS_MAX;) {
        const uint8_t *end = memchr(data + at, '\0', len - at);
        size_t part = end != NULL ? (size_t)(end - data) - at : len - at;
        words[count++] = fuzz_text(data + at, part);
        at += part + 1;
    }
    parse(program, count, words);
    complete(program, count, words);
    for (int i = 0; i < count; i++) {
        free(words[i]);
    }
    return 0;
}
