/* SPDX-License-Identifier: Apache-2.0 */
/* The words that complete a command line; names of a broker are given by the test. */
#include "tools/cli/complete.h"

#include "tests/unit/tools/cli/words.h"
#include "tools/cli/shells.h"
#include "tools/cli/tables.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

static enum amb_cli_live asked;
static const char *asked_url;

static void live(enum amb_cli_live kind, const struct amb_cli_line *line,
                 struct amb_cli_candidates *to)
{
    asked = kind;
    asked_url = amb_cli_text(line, "url");
    amb_cli_candidate(to, "camera.1", "");
    amb_cli_candidate(to, "camera.$(id)", "");
    amb_cli_candidate(to, "camera.\033[2J", "");
    amb_cli_candidate(to, "lidar", "");
}

/* The candidates without their help, as "a b c". `last` is the word under the cursor. */
static char *complete(const char *before, char *last)
{
    static char out[8192];
    struct words words;
    char *text = NULL, *at = out;
    size_t size;
    FILE *stream = open_memstream(&text, &size);
    assert_non_null(stream);
    assert_true(words_split(&words, before));
    assert_true(words_add(&words, last));
    asked = AMB_CLI_LIVE_NONE;
    amb_cli_complete(&amb_cli_broker_ctl, words.count, words.items, live, stream);
    assert_int_equal(fclose(stream), 0);
    out[0] = '\0';
    for (char *row = text; *row != '\0';) {
        size_t len = strcspn(row, "\n"), word = strcspn(row, "\t\n");
        at += snprintf(at, sizeof(out) - (size_t)(at - out), "%s%.*s", at > out ? " " : "",
                       (int)word, row);
        row += len + 1;
    }
    free(text);
    return out;
}

#define COMPLETES(before, word, expected)                                                          \
    do {                                                                                           \
        char word_[] = word;                                                                       \
        assert_string_equal(complete(before, word_), expected);                                    \
    } while (0)

static void test_commands_verbs_and_options(void **state)
{
    (void)state;
    COMPLETES("", "to", "topics topo top");
    COMPLETES("--url u", "que", "queues");
    COMPLETES("user", "s", "set show");
    COMPLETES("pub t", "--p", "--prop --priority");
    COMPLETES("pub t --priority low", "--pri", "");
    COMPLETES("pub t --prop a=b", "--prop", "--prop");
    COMPLETES("pub t --file f", "--si", ""); /* They exclude each other. */
    COMPLETES("local", "--url", "");         /* It takes none. */
    COMPLETES("tls issue", "--d", "--dir --days");
    COMPLETES("help user", "a", "add");
    COMPLETES("no such command", "x", "");
}

static void test_values(void **state)
{
    (void)state;
    COMPLETES("sub t --policy", "drop", "drop-oldest drop-newest");
    COMPLETES("sub t", "--policy=drop-o", "--policy=drop-oldest");
    COMPLETES("pub t --confirm", "d", "delivered"); /* Not "durable", which is not there yet. */
    COMPLETES("pub t --file", "", AMB_CLI_FILES);
    COMPLETES("tls init --dir", "x", AMB_CLI_FOLDERS);
    COMPLETES("user test a", "", "publish subscribe admin");
    COMPLETES("completion", "", "bash zsh fish");
    COMPLETES("pub t --count", "", "");
}

static void test_names_of_the_broker(void **state)
{
    (void)state;
    COMPLETES("--url unix:///x topics", "cam", "camera.1 camera.$(id)");
    assert_int_equal(asked, AMB_CLI_LIVE_TOPICS);
    assert_string_equal(asked_url, "unix:///x");
    COMPLETES("sub t --durable", "l", "lidar");
    assert_int_equal(asked, AMB_CLI_LIVE_DURABLES);
    COMPLETES("kick", "l", "lidar");
    assert_int_equal(asked, AMB_CLI_LIVE_CLIENTS);
    COMPLETES("clients", "k", "kick"); /* A verb, or the start of a client's name. */
    COMPLETES("key", "s", "show");
    assert_int_equal(asked, AMB_CLI_LIVE_NONE);
}

static void test_scripts_are_there_for_each_shell(void **state)
{
    (void)state;
    FILE *null = fopen("/dev/null", "we");
    assert_non_null(null);
    assert_true(amb_cli_shell_print(&amb_cli_broker_ctl, "bash", null));
    assert_true(amb_cli_shell_print(&amb_cli_broker_ctl, "zsh", null));
    assert_true(amb_cli_shell_print(&amb_cli_broker_ctl, "fish", null));
    assert_false(amb_cli_shell_print(&amb_cli_broker_ctl, "csh", null));
    assert_int_equal(fclose(null), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_commands_verbs_and_options),
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_names_of_the_broker),
        cmocka_unit_test(test_scripts_are_there_for_each_shell),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
