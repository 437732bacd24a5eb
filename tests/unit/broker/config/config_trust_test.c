/* SPDX-License-Identifier: Apache-2.0 */
/* Trust groups of topics: names, how many, and which of them a pattern meets. */
#include "broker/config/config_trust.h"

#include "tests/support/config_try.h"

static const char three[] = "topics = ( { match = \"cam.open\"; trust_group = \"default\"; },\n"
                            "           { match = \"cam.>\"; trust_group = \"cams\"; },\n"
                            "           { match = \"log.>\"; full = \"drop-oldest\"; },\n"
                            "           { match = \"door.*\"; trust_group = \"doors\"; },\n"
                            "           { match = \"gate.*\"; trust_group = \"doors\"; } );";

static void groups_are_numbered_as_rules_name_them(void **state)
{
    (void)state;
    struct amb_config *config = try_accept(three);
    assert_int_equal(config->trust_groups.count, 3);
    assert_string_equal(config->trust_groups.names[0], "default");
    assert_string_equal(config->trust_groups.names[1], "cams");
    assert_string_equal(config->trust_groups.names[2], "doors");
    assert_int_equal(amb_config_topic(config, "cam.open")->group, 0);
    assert_int_equal(amb_config_topic(config, "cam.open.x")->group, 1);
    assert_int_equal(amb_config_topic(config, "log.a")->group, 0);
    assert_int_equal(amb_config_topic(config, "gate.7")->group, 2);
    assert_int_equal(amb_config_topic(config, "else")->group, 0);
    assert_int_equal(amb_config_topic(config, "$DLQ.cam.7")->group, 0);
    amb_config_destroy(&config);
    config = try_accept("");
    assert_int_equal(config->trust_groups.count, 1);
    amb_config_destroy(&config);
}

static void a_pattern_meets_groups_of_which_it_has_topics(void **state)
{
    (void)state;
    static const struct {
        const char *pattern;
        uint64_t met;
    } cases[] = {
        {">", 7},          {"*", 1},      {"cam.>", 3},  {"cam.open", 1}, {"cam.7", 2},
        {"cam.open.>", 2}, {"*.open", 7}, {"door.*", 4}, {"door.a.b", 1}, {"log.>", 1},
        {"door.>", 5},     {"$SYS.>", 0}, {"$DLQ.>", 0}, {"*.a.b", 3},
    };
    struct amb_config *config = try_accept(three);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        uint64_t met = amb_config_trust_met(config, cases[i].pattern, strlen(cases[i].pattern));
        if (met != cases[i].met) {
            fail_msg("%s meets %#llx", cases[i].pattern, (unsigned long long)met);
        }
    }
    amb_config_destroy(&config);
}

static void names_that_are_none_are_refused(void **state)
{
    (void)state;
    try_refuse("topics = ( { match = \"a\"; trust_group = \"a b\"; } );",
               "configuration:1: topics.trust_group: not a name (got \"a b\", allowed 1 to 64 "
               "letters, digits and -_)");
    try_refuse("topics = ( { match = \"$SYS.>\"; trust_group = \"a\"; } );",
               "configuration:1: topics.trust_group: the broker's own topics have no trust group: "
               "nobody maps them");
}

/* Groups g1 to g`count`, beside the default one. */
static char *many(unsigned count)
{
    char *text = malloc(8192);
    assert_non_null(text);
    size_t len = (size_t)sprintf(text, "topics = (");
    for (unsigned i = 1; i <= count; i++) {
        len += (size_t)sprintf(text + len, "%s{ match = \"t%u\"; trust_group = \"g%u\"; }",
                               i > 1 ? "," : "", i, i);
    }
    (void)sprintf(text + len, ");");
    return text;
}

static void there_are_at_most_so_many(void **state)
{
    (void)state;
    char *text = many(AMB_TRUST_GROUPS_MAX - 1);
    struct amb_config *config = try_accept(text);
    assert_int_equal(config->trust_groups.count, AMB_TRUST_GROUPS_MAX);
    assert_int_equal(amb_config_topic(config, "t63")->group, 63);
    amb_config_destroy(&config);
    free(text);
    text = many(AMB_TRUST_GROUPS_MAX);
    try_refuse(text, "configuration:1: topics.trust_group: too many trust groups (got g64 as "
                     "one more, allowed 64 with the default one)");
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(groups_are_numbered_as_rules_name_them),
        cmocka_unit_test(a_pattern_meets_groups_of_which_it_has_topics),
        cmocka_unit_test(names_that_are_none_are_refused),
        cmocka_unit_test(there_are_at_most_so_many),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
