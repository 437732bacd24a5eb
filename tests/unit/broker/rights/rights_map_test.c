/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Trust groups that a user maps: by hand, and against a model that enumerates topics. A mapping
 * never shows a topic that could not be subscribed to. Usage: PROGRAM [RANDOM SETS]. The long form
 * has 1,000,000.
 */
#include "broker/rights/rights_map.h"

#include "tests/support/rights_try.h"

#define RULES 4u

static uint64_t random_sets = 5000;

struct rules {
    struct amb_topic_rule items[RULES];
    struct amb_config config;
};

static void rules_set(struct rules *rules, size_t count)
{
    rules->config.topics.items = rules->items;
    rules->config.topics.count = count;
}

static uint64_t maps_of(const struct try_role *role, const struct amb_config *config)
{
    const struct amb_role *roles[] = {&role->role};
    const struct amb_rights_of of = {roles, 1, "u", "t"};
    struct amb_rights *rights = NULL;
    assert_int_equal(amb_rights_make(&of, &rights), AMB_OK);
    uint64_t maps = amb_rights_maps(rights, config);
    amb_rights_unref(&rights);
    return maps;
}

static void a_group_is_mapped_if_all_of_it_may_be_read(void **state)
{
    (void)state;
    struct rules rules = {.items = {{.match = "cam.open", .group = 0},
                                    {.match = "cam.>", .group = 1},
                                    {.match = "door.*", .group = 2},
                                    {.match = "gate.*", .group = 2}}};
    rules_set(&rules, RULES);
    static const struct {
        const char *allow[3], *deny;
        uint64_t maps; /* of the three */
    } cases[] = {
        {{">"}, NULL, 7},
        {{NULL}, NULL, 0},
        {{"cam.>"}, NULL, 2},
        {{"cam.*"}, NULL, 0},
        {{"=cam.>"}, NULL, 0},
        {{"door.*"}, NULL, 0}, /* and not the gates */
        {{"door.*", "gate.>"}, NULL, 4},
        {{">"}, "cam.secret", 5},
        {{">"}, "cam.open", 6}, /* of the default group */
        {{">"}, "door.x", 3},
        {{">"}, "door.x.y", 6},
        {{">"}, "other", 6},
        {{">"}, "*.7", 0},
        {{">"}, "$SYS.>", 7},
        {{"cam.>"}, "cam.secret", 0},
        {{"cam.>"}, "door.x", 2},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct try_role role = {.role = {.name = "r"}};
        for (unsigned k = 0; k < 3 && cases[i].allow[k] != NULL; k++) {
            try_add(&role, 2, cases[i].allow[k]);
        }
        if (cases[i].deny != NULL) {
            try_add(&role, 3, cases[i].deny);
        }
        uint64_t maps = maps_of(&role, &rules.config) & 7;
        if (maps != cases[i].maps) {
            fail_msg("case %zu: %#llx", i, (unsigned long long)maps);
        }
    }
    assert_true(amb_rights_maps(NULL, &rules.config) == UINT64_MAX);
}

static void without_groups_it_is_all_or_nothing(void **state)
{
    (void)state;
    const struct amb_config config = {.topics = {0}};
    struct try_role role = {.role = {.name = "r"}};
    try_add(&role, 2, "a.>");
    assert_int_equal(maps_of(&role, &config) & 1, 0);
    try_add(&role, 2, ">");
    assert_int_equal(maps_of(&role, &config) & 1, 1);
    try_add(&role, 3, "b");
    assert_int_equal(maps_of(&role, &config) & 1, 0);
}

static uint32_t group_of(const struct amb_config *config, const struct try_text *topic)
{
    for (size_t i = 0; i < config->topics.count; i++) {
        const struct amb_topic_rule *rule = &config->topics.items[i];
        if (amb_pattern_matches(rule->match, strlen(rule->match), topic->at, topic->len)) {
            return rule->group;
        }
    }
    return 0;
}

static void random_rules(struct rules *rules)
{
    const struct try_world *world = try_world();
    size_t count = try_random() % (RULES + 1);
    for (size_t i = 0; i < count; i++) {
        const char *match = world->patterns[try_random() % world->pattern_count].at;
        rules->items[i] = (struct amb_topic_rule){
            .match = match, .group = match[0] == '$' ? 0 : (uint32_t)(try_random() % 3)};
    }
    rules_set(rules, count);
}

/* Few lines and many wide ones, so that groups are mapped at all. */
static struct amb_rights *random_rights(struct try_role *role)
{
    const struct try_world *world = try_world();
    *role = (struct try_role){.role = {.name = "r"}};
    for (unsigned which = 2; which < 4; which++) {
        for (uint64_t left = try_random() % (which == 2 ? 4 : 3); left > 0; left--) {
            try_add(role, which, world->patterns[try_random() % world->pattern_count].at);
        }
    }
    if (try_random() % 2 == 0) {
        try_add(role, 2, ">");
    }
    const struct amb_role *roles[] = {&role->role};
    const struct amb_rights_of of = {roles, 1, "u", "t"};
    struct amb_rights *rights = NULL;
    assert_int_equal(amb_rights_make(&of, &rights), AMB_OK);
    return rights;
}

static void a_mapping_shows_nothing_that_a_subscription_would_not(void **state)
{
    (void)state;
    const struct try_world *world = try_world();
    uint64_t mapped = 0;
    for (uint64_t n = 0; n < random_sets; n++) {
        struct rules rules = {.config = {.topics = {0}}};
        struct try_role role;
        random_rules(&rules);
        struct amb_rights *rights = random_rights(&role);
        uint64_t maps = amb_rights_maps(rights, &rules.config);
        mapped += (maps & 7) != 0;
        for (size_t t = 0; t < world->topic_count; t++) {
            const struct try_text *topic = &world->topics[t];
            struct amb_rights_cut cut;
            if (topic->at[0] == '$' || (maps >> group_of(&rules.config, topic) & 1) == 0) {
                continue;
            }
            if (amb_rights_subscribe(rights, topic->at, topic->len, &cut, NULL) !=
                AMB_RIGHTS_WHOLE) {
                fail_msg("set %llu: %s", (unsigned long long)n, topic->at);
            }
        }
        amb_rights_unref(&rights);
    }
    assert_true(mapped > random_sets / 10);
}

int main(int argc, char **argv)
{
    random_sets = argc > 1 ? strtoull(argv[1], NULL, 10) : random_sets;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_group_is_mapped_if_all_of_it_may_be_read),
        cmocka_unit_test(without_groups_it_is_all_or_nothing),
        cmocka_unit_test(a_mapping_shows_nothing_that_a_subscription_would_not),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
