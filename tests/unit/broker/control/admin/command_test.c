/* SPDX-License-Identifier: Apache-2.0 */
/* Commands by their words; all else is a view. */
#include "broker/control/admin/command.h"

#include "broker/config/config_schema.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
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
    is("trace a.> 10 5s", AMB_COMMAND_TRACE, "a.>", "10");
    is("drain 30s", AMB_COMMAND_DRAIN, "30s", "");
    is_wrong("drain soon", "TIME");
    is_wrong("drain 25h", "TIME");
    is_wrong("drain 1s 2s", "TIME");
}

static void test_commands_about_the_configuration(void **state)
{
    (void)state;
    struct amb_command command;
    char text[2 * AMB_COMMAND_REST_MAX], query[2 * AMB_COMMAND_REST_MAX];
    const char *why = "";
    is("config show", AMB_COMMAND_CONFIG_SHOW, "", "");
    is("config defaults", AMB_COMMAND_CONFIG_DEFAULTS, "", "");
    is("config diff /a b/c.conf", AMB_COMMAND_CONFIG_DIFF, "", "");
    is("config test /c.conf", AMB_COMMAND_CONFIG_TEST, "", "");
    is("config set log.level=debug", AMB_COMMAND_CONFIG_SET, "", "");
    assert_true(amb_command_parse("config set topics=( { match = \"a\"; } )", &command, &why));
    assert_string_equal(command.rest, "topics=( { match = \"a\"; } )");
    assert_true(command.wants_rows);
    assert_true(amb_command_parse("config reload", &command, &why));
    assert_int_equal(command.kind, AMB_COMMAND_RELOAD);
    assert_true(command.wants_rows);
    is_wrong("config diff", "PATH");
    is_wrong("config diff relative", "PATH");
    is_wrong("config test /a\nb", "PATH");
    is_wrong("config set", "KEY=VALUE");
    is_wrong("config set log.level", "KEY=VALUE");
    is_wrong("config show all", "no argument");
    (void)snprintf(query, sizeof(query), "config diff /%0*d", (int)AMB_COMMAND_REST_MAX, 0);
    is_wrong(query, "PATH");
    /* No secret is shown. */
    assert_true(amb_command_parse("config set auth.token=s3cret", &command, &why));
    assert_true(amb_command_format(&command, text, sizeof(text)));
    assert_string_equal(text, "config set auth.token=");
    /* ... nor one of a key that is misspelt, or whose value is refused by its form. */
    assert_true(amb_command_parse("config set auth.tokn=s3cret=x", &command, &why));
    assert_true(amb_command_format(&command, text, sizeof(text)));
    assert_string_equal(text, "config set auth.tokn=");
    assert_true(amb_command_parse("config set  auth.token=s3cret", &command, &why));
    assert_true(amb_command_format(&command, text, sizeof(text)));
    assert_string_equal(text, "config set  auth.token=");
    assert_false(amb_command_parse("config set auth.token=s3cret\n", &command, &why));
    assert_true(amb_command_format(&command, text, sizeof(text)));
    assert_string_equal(text, "config set");
    assert_true(amb_command_parse("config set log.level=debug", &command, &why));
    assert_true(amb_command_format(&command, text, sizeof(text)));
    assert_string_equal(text, "config set log.level=debug");
}

static void test_keys_that_say_who_may_do_what(void **state)
{
    (void)state;
    static const char *const of_trust[] = {
        "config set roles=( )",          "config set auth.users=/u",
        "config set log.audit=/a",       "config set tls.ca=/c",
        "config set http.insecure=true", "config set memory.cuda.trust=all",
        "config set topics=( )",         "config set topics=( { match = \"a\"; } )"};
    static const char *const others[] = {"config set log.level=debug",
                                         "config set limits.window=1M",
                                         "config reload",
                                         "config test /roles",
                                         "topics roles",
                                         "config set limits.max_topics=7",
                                         "config test /topics",
                                         "topic rm topics"};
    for (size_t i = 0; i < sizeof(of_trust) / sizeof(of_trust[0]); i++) {
        struct amb_command command;
        const char *why;
        assert_true(amb_command_parse(of_trust[i], &command, &why));
        assert_true(amb_command_is_of_trust(&command));
        assert_true(amb_command_is_of_all(&command));
        assert_true(amb_command_parse(others[i], &command, &why));
        assert_false(amb_command_is_of_trust(&command));
    }
}

/* A new key that is live has to be in one of both lists. */
static void test_each_live_key_is_decided(void **state)
{
    (void)state;
    static const char *const of_operators[] = {"limits.", "log.level", "log.format",
                                               "server.handshake_timeout"};
    static const char *const of_trust[] = {"auth.",  "http.",      "log.audit", "memory.cuda.trust",
                                           "quotas", "roles",      "tenants",   "tls.",
                                           "topics", "transports."};
    size_t count;
    const struct amb_config_key *keys = amb_config_keys(&count);
    for (size_t i = 0; i < count; i++) {
        struct amb_command command;
        char query[128];
        const char *why;
        bool may = false, may_not = false;
        if (!amb_config_has_field(&keys[i]) || keys[i].apply == AMB_CONFIG_RESTART) {
            continue;
        }
        for (size_t k = 0; k < sizeof(of_operators) / sizeof(of_operators[0]); k++) {
            may = may || strncmp(keys[i].path, of_operators[k], strlen(of_operators[k])) == 0;
        }
        for (size_t k = 0; k < sizeof(of_trust) / sizeof(of_trust[0]); k++) {
            may_not = may_not || strncmp(keys[i].path, of_trust[k], strlen(of_trust[k])) == 0;
        }
        if (may == may_not) {
            fail_msg("%s: decide whether operators may set it", keys[i].path);
        }
        (void)snprintf(query, sizeof(query), "config set %s=x", keys[i].path);
        assert_true(amb_command_parse(query, &command, &why));
        assert_int_equal(amb_command_is_of_trust(&command), may_not);
    }
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
    is_wrong("trace", "trace PATTERN N TIME");
    is_wrong("trace a 1", "trace PATTERN N TIME");
    is_wrong("trace a 1 1s more", "trace PATTERN N TIME");
    is_wrong("trace a 1 12345678901234567890123456789012s", "trace PATTERN N TIME");
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
    is_wrong("drain ", "TIME");
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
        cmocka_unit_test(test_commands_about_the_configuration),
        cmocka_unit_test(test_keys_that_say_who_may_do_what),
        cmocka_unit_test(test_each_live_key_is_decided),
        cmocka_unit_test(test_views),
        cmocka_unit_test(test_wrong_words),
        cmocka_unit_test(test_those_of_the_whole_broker),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
