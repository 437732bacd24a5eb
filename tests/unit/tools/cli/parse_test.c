/* SPDX-License-Identifier: Apache-2.0 */
/* Command lines by the tables of the three programs, and by a small one. */
#include "tools/cli/parse.h"

#include "tests/unit/tools/cli/words.h"
#include "tools/cli/tables.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct words words;
static struct amb_cli_line line;
static char error[AMB_CLI_ERROR_MAX];

static enum amb_status parse(const struct amb_cli_program *program, const char *text)
{
    amb_cli_fini(&line);
    error[0] = '\0';
    words_split(&words, text);
    return amb_cli_parse(program, words.count, words.items, &line, error, sizeof(error));
}

static void takes(const char *text)
{
    if (parse(&amb_cli_broker_ctl, text) != AMB_OK) {
        fail_msg("%s: %s", text, error);
    }
}

static void refuses(const char *text, const char *expected)
{
    assert_int_equal(parse(&amb_cli_broker_ctl, text), AMB_EINVAL);
    assert_string_equal(error, expected);
}

static void test_options_stand_anywhere(void **state)
{
    (void)state;
    static const char *const same[] = {
        "broker-ctl pub t --count 3 --url u", "broker-ctl --url u pub --count 3 t",
        "broker-ctl --url=u pub -c3 t",       "broker-ctl pub t -c 3 --url=u",
        "broker-ctl --ur u pub --cou=3 -- t",
    };
    for (size_t i = 0; i < sizeof(same) / sizeof(same[0]); i++) {
        takes(same[i]);
        assert_string_equal(line.command->name, "pub");
        assert_int_equal(line.arg_count, 1);
        assert_string_equal(line.args[0], "t");
        assert_null(line.args[1]);
        assert_int_equal(amb_cli_number(&line, "count", 0), 3);
        assert_string_equal(amb_cli_text(&line, "url"), "u");
        assert_false(amb_cli_has(&line, "hold"));
    }
}

static void test_options_of_a_command_may_stand_before_it(void **state)
{
    (void)state;
    takes("broker-ctl --file F topics");
    assert_string_equal(amb_cli_text(&line, "file"), "F");
    takes("broker-ctl --out json --count 3 pub t"); /* --output, not --out-dir of sub */
    assert_int_equal(amb_cli_number(&line, "count", 0), 3);
    refuses("broker-ctl --file F drain", "drain --file: is no option of this command");
}

static void test_values_have_their_types(void **state)
{
    (void)state;
    takes("broker-ctl pub t --size 1k --rate 2.5 --ttl 10ms --priority low --prop a=1 --prop b=2");
    assert_int_equal(amb_cli_number(&line, "size", 0), 1024);
    assert_true(amb_cli_rate(&line, "rate", 0) > 2.4 && amb_cli_rate(&line, "rate", 0) < 2.6);
    assert_int_equal(amb_cli_ns(&line, "ttl", 0), 10000000);
    assert_int_equal(amb_cli_word(&line, "priority", -1), AMB_PRIORITY_LOW);
    assert_int_equal(amb_cli_word(&line, "confirm", -1), -1);
    size_t at = 0;
    assert_string_equal(amb_cli_next(&line, "prop", &at), "a=1");
    assert_string_equal(amb_cli_next(&line, "prop", &at), "b=2");
    assert_null(amb_cli_next(&line, "prop", &at));
    assert_int_equal(amb_cli_times(&line, "prop"), 2);
}

static void test_the_last_one_holds(void **state)
{
    (void)state;
    takes("broker-ctl status -o json --output table");
    assert_int_equal(amb_cli_word(&line, "output", -1), 0);
}

static void test_a_noun_alone_lists_and_may_be_singular(void **state)
{
    (void)state;
    static const char *const same[] = {"broker-ctl topics a.b", "broker-ctl topic a.b",
                                       "broker-ctl topics ls a.b", "broker-ctl topic ls a.b"};
    for (size_t i = 0; i < sizeof(same) / sizeof(same[0]); i++) {
        takes(same[i]);
        assert_string_equal(line.command->name, "topics ls");
        assert_string_equal(line.args[0], "a.b");
    }
    takes("broker-ctl topics -- ls"); /* a topic of this name */
    assert_string_equal(line.args[0], "ls");
    takes("broker-ctl users");
    assert_string_equal(line.command->name, "user list");
}

static void test_other_names_are_told_as_they_were_typed(void **state)
{
    (void)state;
    takes("broker-ctl durable rm d");
    assert_string_equal(line.command->name, "queues rm");
    assert_string_equal(line.called, "durable rm");
    takes("broker-ctl kick 3");
    assert_string_equal(line.command->name, "clients kick");
    refuses("broker-ctl kick 3 4", "kick 4: one argument too many (broker-ctl kick [CLIENT])");
}

static void test_options_may_stand_between_noun_and_verb(void **state)
{
    (void)state;
    takes("broker-ctl user --file F list");
    assert_string_equal(line.command->name, "user list");
    assert_string_equal(amb_cli_text(&line, "file"), "F");
    takes("broker-ctl tls --days 3 init --dir d");
    assert_int_equal(amb_cli_number(&line, "days", 0), 3);
    refuses("broker-ctl user --role r list", "user list --role: is no option of this command");
}

static void test_what_stops_leaves_the_rest_alone(void **state)
{
    (void)state;
    takes("broker-ctl local -n 2 sh --count -n x");
    assert_int_equal(line.arg_count, 4);
    assert_string_equal(line.args[3], "x");
    assert_int_equal(amb_cli_number(&line, "n", 0), 2);
    takes("broker-ctl config --role broker -- --dev");
    assert_string_equal(line.command->name, "config show");
    assert_string_equal(line.args[0], "--dev");
}

static void test_faults_are_what_and_why(void **state)
{
    (void)state;
    refuses("broker-ctl", "command line: a command is missing (broker-ctl --help lists them)");
    refuses("broker-ctl frobnicate",
            "frobnicate: no command of this name (broker-ctl help lists them)");
    refuses("broker-ctl topcs", "topcs: no command of this name (did you mean topics?)");
    refuses("broker-ctl user lst", "user lst: no such verb (did you mean list?)");
    refuses("broker-ctl key frob", "key frob: no such verb (there are new, show)");
    refuses("broker-ctl tls", "tls: a verb is missing (there are init, issue, renew, show)");
    refuses("broker-ctl pub t --cuont 3", "pub --cuont: no such option (did you mean --count?)");
    refuses("broker-ctl pub t --zzz",
            "pub --zzz: no such option (broker-ctl pub --help lists them)");
    refuses("broker-ctl sub t --s new", "sub --s: may be --sha256 or --stats");
    refuses("broker-ctl pub t -x", "pub -x: no such option (broker-ctl pub --help lists them)");
    refuses("broker-ctl pub", "pub TOPIC: is missing (broker-ctl pub TOPIC [TEXT])");
    refuses("broker-ctl status now", "status now: takes no arguments");
    refuses("broker-ctl pub t --count", "pub --count: needs a value (a number of messages)");
    refuses("broker-ctl pub t --hold=yes", "pub --hold: takes no value");
    refuses("broker-ctl pub t --count many", "pub --count 'many': takes a number of messages");
    refuses("broker-ctl sub t --count 0", "sub --count '0': takes a number of messages, from 1");
    refuses("broker-ctl local -n 257 x", "local -n '257': takes a number of processes, 1 to 256");
    refuses("broker-ctl sub t --policy lates",
            "sub --policy 'lates': takes block, drop-oldest, drop-newest, latest, spill or "
            "disconnect (did you mean latest?)");
    refuses("broker-ctl pub t --confirm durable",
            "pub --confirm 'durable': takes accepted or delivered");
    refuses("broker-ctl user test a pubish t",
            "user test 'pubish': RIGHT takes publish, subscribe or admin (did you mean publish?)");
    refuses("broker-ctl pub t --size 1 --file f", "pub --size: does not go with --file");
    refuses("broker-ctl user add a --ca f", "user add --ca: goes only with --new-key");
    refuses("broker-ctl local --url u x", "local --url: has a broker of its own, and takes no URL");
    refuses("broker-ctl publish t",
            "publish: no command of this name: broker-ctl pub TOPIC publishes");
}

static void test_strange_bytes_are_not_shown(void **state)
{
    (void)state;
    refuses("broker-ctl \033[2J", "?[2J: no command of this name (broker-ctl help lists them)");
    refuses("broker-ctl -\001", "-?: no such option (broker-ctl --help lists them)");
}

static void test_help_needs_nothing_else(void **state)
{
    (void)state;
    takes("broker-ctl pub --help");
    assert_true(line.wants_help);
    assert_string_equal(line.command->name, "pub");
    takes("broker-ctl -h");
    assert_true(line.wants_help && line.command == NULL);
    takes("broker-ctl user -h");
    assert_true(line.wants_help && line.command == NULL);
    takes("broker-ctl -V");
    assert_true(line.wants_version);
}

static void test_a_program_without_commands(void **state)
{
    (void)state;
    assert_int_equal(parse(&amb_cli_brokerd, "brokerd -tc f -o a=1 -ob=2"), AMB_OK);
    assert_true(amb_cli_has(&line, "test-config"));
    assert_string_equal(amb_cli_text(&line, "config"), "f");
    assert_int_equal(amb_cli_times(&line, "option"), 2);
    assert_int_equal(parse(&amb_cli_brokerd, "brokerd stray"), AMB_EINVAL);
    assert_string_equal(error, "stray: takes no arguments");
    assert_int_equal(parse(&amb_cli_brokerd, "brokerd -hhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhh"),
                     AMB_OK);
}

static int fini(void **state)
{
    (void)state;
    amb_cli_fini(&line);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_options_stand_anywhere),
        cmocka_unit_test(test_options_of_a_command_may_stand_before_it),
        cmocka_unit_test(test_values_have_their_types),
        cmocka_unit_test(test_the_last_one_holds),
        cmocka_unit_test(test_a_noun_alone_lists_and_may_be_singular),
        cmocka_unit_test(test_other_names_are_told_as_they_were_typed),
        cmocka_unit_test(test_options_may_stand_between_noun_and_verb),
        cmocka_unit_test(test_what_stops_leaves_the_rest_alone),
        cmocka_unit_test(test_faults_are_what_and_why),
        cmocka_unit_test(test_strange_bytes_are_not_shown),
        cmocka_unit_test(test_help_needs_nothing_else),
        cmocka_unit_test(test_a_program_without_commands),
    };
    return cmocka_run_group_tests(tests, NULL, fini);
}
