/* SPDX-License-Identifier: Apache-2.0 */
/* Commands by their words; all else is a view. */
#include "broker/control/admin/command.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void is(const char *query, enum amb_command_kind kind, const char *word, const char *second)
{
    struct amb_command command;
    char text[2 * AMB_COMMAND_WORD_MAX + 32];
    const char *why = "";
    assert_true(amb_command_parse(query, &command, &why));
    assert_int_equal(command.kind, kind);
    assert_string_equal(command.word, word);
    assert_string_equal(command.second, second);
    bool is_command = kind != AMB_COMMAND_NONE;
    assert_int_equal(amb_command_format(&command, text, sizeof(text)), is_command);
    if (is_command) {
        assert_string_equal(text, query);
        assert_false(amb_command_format(&command, text, 4));
    }
}

static void is_wrong(const char *query, const char *part)
{
    struct amb_command command;
    const char *why = "";
    assert_false(amb_command_parse(query, &command, &why));
    assert_int_not_equal(command.kind, AMB_COMMAND_NONE);
    assert_non_null(strstr(why, part));
}

static void test_commands(void **state)
{
    (void)state;
    is("kick 7", AMB_COMMAND_KICK, "7", "");
    is("kick --user cam7", AMB_COMMAND_KICK_USER, "cam7", "");
    is("block cam7", AMB_COMMAND_BLOCK, "cam7", "");
    is("unblock cam7", AMB_COMMAND_UNBLOCK, "cam7", "");
    is("durable rm d", AMB_COMMAND_DURABLE_RM, "d", "");
    is("durable rm d plant:cam7", AMB_COMMAND_DURABLE_RM, "d", "plant:cam7");
    is("reload", AMB_COMMAND_RELOAD, "", "");
    is("drain", AMB_COMMAND_DRAIN, "", "");
}

static void test_views(void **state)
{
    (void)state;
    static const char *const views[] = {"",        "status", "topics a.>", "kicker 7",    "blocked",
                                        "reloads", " drain", "durable",    "durable rmx", "Kick 7"};
    for (size_t i = 0; i < sizeof(views) / sizeof(views[0]); i++) {
        is(views[i], AMB_COMMAND_NONE, "", "");
    }
}

static void test_wrong_words(void **state)
{
    (void)state;
    static char lengthy[AMB_COMMAND_WORD_MAX + 8] = "block ";
    is_wrong("kick", "kick CLIENT");
    is_wrong("kick ", "kick CLIENT");
    is_wrong("kick  7", "kick CLIENT");
    is_wrong("kick 7 8", "kick CLIENT");
    is_wrong("kick --user", "kick --user NAME");
    is_wrong("kick --user a b", "kick --user NAME");
    is_wrong("kick 7 --", "kick CLIENT");
    is_wrong("kick 7 -- ", "kick CLIENT");
    is_wrong("kick 7 -- a\nb", "up to 150 bytes");
    is_wrong("block a -- b", "block USER");
    is_wrong("topic rm", "topic rm NAME");
    is_wrong("topic purge a b c", "topic purge NAME");
    is_wrong("queue redeliver", "queue redeliver NAME");
    is_wrong("block", "block USER");
    is_wrong("durable rm", "durable rm NAME");
    is_wrong("durable rm a b c", "durable rm NAME");
    is_wrong("reload now", "no argument");
    is_wrong("drain ", "no argument");
    memset(lengthy + 6, 'x', AMB_COMMAND_WORD_MAX + 1);
    is_wrong(lengthy, "block USER");
}

static void test_those_of_the_whole_broker(void **state)
{
    (void)state;
    struct amb_command command = {.kind = AMB_COMMAND_RELOAD};
    assert_true(amb_command_is_of_all(&command));
    command.kind = AMB_COMMAND_DRAIN;
    assert_true(amb_command_is_of_all(&command));
    command.kind = AMB_COMMAND_KICK;
    assert_false(amb_command_is_of_all(&command));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_commands),
        cmocka_unit_test(test_views),
        cmocka_unit_test(test_wrong_words),
        cmocka_unit_test(test_those_of_the_whole_broker),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
