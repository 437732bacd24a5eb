/* SPDX-License-Identifier: Apache-2.0 */
/* Rules for topics: defaults, order, and texts that cannot be said. */
#include "broker/config/config_tenants.h"
#include "tests/support/config_try.h"

static void test_a_rule_has_defaults(void **state)
{
    (void)state;
    struct amb_config *config = try_accept("topics = ( { match = \"camera.>\"; } );");
    const struct amb_topic_rule *rule = amb_config_topic(config, "camera.left");
    assert_ptr_equal(rule, &config->topics.items[0]);
    assert_int_equal(rule->full, AMB_FULL_BLOCK);
    assert_int_equal(rule->max_messages, 0);
    assert_int_equal(rule->max_bytes, UINT64_C(64) << 20);
    assert_int_equal(rule->slow, AMB_SLOW_BLOCK);
    assert_int_equal(rule->slow_block_ns, AMB_CONFIG_TIME_FOREVER);
    assert_int_equal(rule->prefer, AMB_PREFER_CREDIT);
    amb_config_destroy(&config);
}

static void test_groups_may_prefer_near_members(void **state)
{
    (void)state;
    struct amb_config *config = try_accept("topics = ( { match = \"a\"; prefer = \"near\"; }, { "
                                           "match = \"b\"; prefer = \"credit\"; } );");
    assert_int_equal(amb_config_topic(config, "a")->prefer, AMB_PREFER_NEAR);
    assert_int_equal(amb_config_topic(config, "b")->prefer, AMB_PREFER_CREDIT);
    assert_int_equal(amb_config_topic(config, "c")->prefer, AMB_PREFER_CREDIT);
    amb_config_destroy(&config);
    try_refuse_part("topics = ( { match = \"a\"; prefer = \"far\"; } );", "prefer");
}

static void test_dead_letters_have_a_rule_unless_one_is_given(void **state)
{
    (void)state;
    struct amb_config *config = try_accept("topics = ( { match = \">\"; full = \"reject\"; } );");
    const struct amb_topic_rule *rule = amb_config_topic(config, "$DLQ.jobs.a");
    assert_int_equal(rule->full, AMB_FULL_DROP_OLDEST);
    assert_int_equal(rule->retain.messages, 10000);
    assert_int_equal(amb_config_topic(config, "$DLQ")->retain.messages, 0);
    amb_config_destroy(&config);
    config = try_accept("topics = ( { match = \"$DLQ.jobs.*\"; max_messages = 7; } );");
    assert_int_equal(amb_config_topic(config, "$DLQ.jobs.a")->max_messages, 7);
    assert_int_equal(amb_config_topic(config, "$DLQ.other")->retain.messages, 10000);
    amb_config_destroy(&config);
}

static void test_the_first_match_wins(void **state)
{
    (void)state;
    struct amb_config *config = try_accept(
        "topics = ( { match = \"camera.left\"; full = \"reject\"; max_messages = 7; },\n"
        "           { match = \"camera.*\"; full = \"drop-oldest\"; max_bytes = \"1M\";\n"
        "             slow = \"drop-oldest\"; slow_block = \"100ms\"; },\n"
        "           { match = \">\"; } );");
    assert_int_equal(amb_config_topic(config, "camera.left")->full, AMB_FULL_REJECT);
    assert_int_equal(amb_config_topic(config, "camera.left")->max_messages, 7);
    const struct amb_topic_rule *right = amb_config_topic(config, "camera.right");
    assert_int_equal(right->full, AMB_FULL_DROP_OLDEST);
    assert_int_equal(right->max_bytes, 1 << 20);
    assert_int_equal(right->slow, AMB_SLOW_DROP_OLDEST);
    assert_int_equal(right->slow_block_ns, 100000000);
    assert_string_equal(amb_config_topic(config, "lidar")->match, ">");
    amb_config_destroy(&config);
}

static void test_without_a_rule_the_built_in_one_holds(void **state)
{
    (void)state;
    struct amb_config *config = try_accept("topics = ( { match = \"a\"; full = \"reject\"; } );");
    const struct amb_topic_rule *rule = amb_config_topic(config, "b");
    assert_int_equal(rule->full, AMB_FULL_BLOCK);
    assert_int_equal(rule->max_bytes, UINT64_C(64) << 20);
    assert_int_equal(rule->slow_block_ns, AMB_CONFIG_TIME_FOREVER);
    amb_config_destroy(&config);
}

static void test_a_rule_may_have_groups(void **state)
{
    (void)state;
    struct amb_config *config =
        try_accept("topics = ( { match = \"a\"; retain = { messages = 5; age = \"1h\"; }; slow = "
                   "\"latest\"; },\n"
                   "           { match = \"b\"; retain = { bytes = \"1M\"; }; } );");
    const struct amb_topic_rule *rule = amb_config_topic(config, "a");
    assert_int_equal(rule->retain.messages, 5);
    assert_int_equal(rule->retain.bytes, 0);
    assert_true(rule->retain.age_ns == INT64_C(3600000000000));
    assert_int_equal(rule->slow, AMB_SLOW_LATEST);
    assert_true(amb_topic_rule_retains(rule));
    assert_int_equal(amb_config_topic(config, "b")->retain.bytes, 1 << 20);
    assert_false(amb_topic_rule_retains(amb_config_topic(config, "c")));

    /* The printed text reads as the same. */
    char *text = try_printed(config);
    assert_non_null(
        strstr(text, "retain = { messages = 5; bytes = \"0\"; age = \"1h\"; keys = 0; };"));
    struct amb_config *again = try_accept(text);
    assert_int_equal(amb_config_topic(again, "a")->retain.messages, 5);
    amb_config_destroy(&again);
    amb_config_destroy(&config);
    free(text);
    try_refuse("topics = ( { match = \"a\"; retain = { mesages = 5; }; } );",
               "configuration:1: topics[0].retain.mesages: unknown key (did you mean "
               "topics[0].retain.messages?)");
    try_refuse("topics = ( { match = \"a\"; keep = { }; } );",
               "configuration:1: topics[0].keep: unknown key (all keys: brokerd --print-config)");
}

static void test_bad_rules_are_refused(void **state)
{
    (void)state;
    try_refuse("topics = ( { full = \"block\"; } );",
               "configuration:1: topics[0]: match is missing (allowed a pattern as \"camera.>\")");
    try_refuse(
        "topics = ( { match = \"a\"; },\n{ match = \"a\"; } );",
        "configuration:2: topics[1]: topics[0] has the same match (got \"a\", allowed once)");
    try_refuse("topics = ( { match = \"a\"; ful = \"block\"; } );",
               "configuration:1: topics[0].ful: unknown key (did you mean topics[0].full?)");
    try_refuse("topics = ( { match = \"a\"; durable = true; } );",
               "configuration:1: topics[0].durable: not yet supported in this release");
    try_refuse("topics = ( 5 );", "configuration:1: topics[0]: wrong type (allowed a group as { "
                                  "match = \"a.>\"; })");
    try_refuse_part("topics = 5;", "topics: wrong type (got 5");
    try_refuse_part("topics = ( { match = \"a..b\"; } );", "configuration:1: topics[0].match: ");
    try_refuse_part("topics = ( { match = \"\"; } );", "topics[0].match: too short");
    try_refuse_part("topics = ( { match = \"a\"; max_bytes = \"1K\"; } );",
                    "topics[0].max_bytes: out of range (got \"1K\"");
}

static void test_an_option_gives_rules_in_libconfigs_syntax(void **state)
{
    (void)state;
    static const char *const options[] = {"topics=( { match = \"x\"; full = \"reject\"; } )"};
    struct amb_config_source source = try_source("topics = ( { match = \"a\"; } );");
    source.options = options;
    source.option_count = 1;
    struct amb_config *config = try_accept_source(&source);
    assert_int_equal(config->topics.count, 1);
    assert_string_equal(config->topics.items[0].match, "x");
    amb_config_destroy(&config);
    static const char *const bad[] = {"topics=( { match = }"};
    source.options = bad;
    try_refuse_with(&source, "-o topics: syntax error (allowed libconfig syntax");
    static const char *const two[] = {"topics=(); server = { workers = 1; }"};
    source.options = two;
    try_refuse_with(&source, "-o topics: topics: more than one value (allowed one)");
    static const char *const scalar[] = {"topics=5"};
    source.options = scalar;
    try_refuse_with(&source, "-o topics: topics: wrong type (got 5");
}

/* In lists of each length: all that are there, and no other. */
static void test_elements_are_found_by_name(void **state)
{
    (void)state;
    static const char *const names[] = {"m", "b", "z", "mm", "B", "a"};
    struct amb_config_tenant items[6];
    for (size_t count = 0; count <= 6; count++) {
        for (size_t i = 0; i < count; i++) {
            items[i] = (struct amb_config_tenant){.name = names[i]};
        }
        amb_config_elements_sort(&amb_config_tenants_kind, items, count);
        for (size_t i = 0; i < 6; i++) {
            const struct amb_config_tenant *found =
                amb_config_elements_find(&amb_config_tenants_kind, items, count, names[i]);
            assert_int_equal(found != NULL, i < count);
            assert_true(found == NULL || strcmp(found->name, names[i]) == 0);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_rule_has_defaults),
        cmocka_unit_test(test_groups_may_prefer_near_members),
        cmocka_unit_test(test_dead_letters_have_a_rule_unless_one_is_given),
        cmocka_unit_test(test_the_first_match_wins),
        cmocka_unit_test(test_without_a_rule_the_built_in_one_holds),
        cmocka_unit_test(test_a_rule_may_have_groups),
        cmocka_unit_test(test_bad_rules_are_refused),
        cmocka_unit_test(test_an_option_gives_rules_in_libconfigs_syntax),
        cmocka_unit_test(test_elements_are_found_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
