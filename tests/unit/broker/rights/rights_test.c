/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rights of a user, by hand and against a model that enumerates topics.
 * Usage: PROGRAM [RANDOM SETS OF ROLES]. The long form has 1,000,000.
 */
#include "tests/support/rights_try.h"

static uint64_t random_sets = 3000;

static struct amb_rights *rights_of(const struct amb_role *role, const char *user,
                                    const char *tenant)
{
    const struct amb_rights_of of = {&role, 1, user, tenant};
    struct amb_rights *rights = NULL;
    assert_int_equal(amb_rights_make(&of, &rights), AMB_OK);
    return rights;
}

static bool may_publish(const struct amb_rights *rights, const char *topic)
{
    return amb_rights_publish(rights, topic, strlen(topic), NULL);
}

static enum amb_rights_answer subscribes(const struct amb_rights *rights, const char *pattern)
{
    struct amb_rights_cut cut;
    return amb_rights_subscribe(rights, pattern, strlen(pattern), &cut, NULL);
}

static void no_rights_at_all_allow_everything(void **state)
{
    (void)state;
    assert_true(may_publish(NULL, "a"));
    assert_int_equal(subscribes(NULL, ">"), AMB_RIGHTS_WHOLE);
    assert_true(amb_rights_may_request(NULL) && amb_rights_may_reply(NULL));
    assert_true(amb_rights_may_ucx(NULL));
    assert_false(amb_rights_shares(NULL, "a"));
    struct amb_rights *none = NULL;
    amb_rights_unref(&none);
}

static void no_roles_allow_nothing(void **state)
{
    (void)state;
    const struct amb_rights_of of = {NULL, 0, "u", "t"};
    struct amb_rights *rights = NULL;
    assert_int_equal(amb_rights_make(&of, &rights), AMB_OK);
    const struct amb_right *by = (void *)1;
    assert_false(amb_rights_publish(rights, "a", 1, &by));
    assert_null(by);
    assert_int_equal(subscribes(rights, "a"), AMB_RIGHTS_NO);
    assert_false(amb_rights_may_request(rights) || amb_rights_may_reply(rights));
    assert_false(amb_rights_may_ucx(rights));
    assert_int_equal(rights->admin, AMB_ADMIN_NONE);
    amb_rights_unref(&rights);
    assert_null(rights);
}

static void names_of_the_user_and_its_tenant_are_tokens(void **state)
{
    (void)state;
    struct try_role role = {.role = {.name = "r"}};
    try_add(&role, 0, "cam.%u.>");
    try_add(&role, 0, "%t.%u");
    try_add(&role, 2, "=%t.*");
    try_add(&role, 3, "%t.%u");
    struct amb_rights *rights = rights_of(&role.role, "cam7", "plant");
    assert_true(may_publish(rights, "cam.cam7.x"));
    assert_true(may_publish(rights, "plant.cam7"));
    assert_false(may_publish(rights, "cam.cam8.x"));
    assert_false(may_publish(rights, "cam.%u.x"));
    assert_false(may_publish(rights, "cam.cam7"));
    assert_int_equal(subscribes(rights, "plant.x"), AMB_RIGHTS_WHOLE);
    assert_int_equal(subscribes(rights, "plant.cam7"), AMB_RIGHTS_NO);
    assert_int_equal(subscribes(rights, "plant.*"), AMB_RIGHTS_NO);
    amb_rights_unref(&rights);
}

/* Sessions are charged for it, so it is what the patterns need, and no more. */
static void rights_take_what_their_patterns_need(void **state)
{
    (void)state;
    struct try_role role = {.role = {.name = "r"}};
    try_add(&role, 0, "cam.%u.>");
    struct amb_rights *few = rights_of(&role.role, "u", "t");
    try_add(&role, 2, "%u.%t");
    struct amb_rights *more = rights_of(&role.role, "u", "t");
    struct amb_rights *longer = rights_of(&role.role, "a-long-name", "t");
    assert_int_equal(amb_rights_heap(NULL), 0);
    assert_in_range(amb_rights_heap(few),
                    sizeof(*few) + sizeof(struct amb_right) + sizeof("cam.u.>"),
                    sizeof(*few) + sizeof(struct amb_right) + 64);
    assert_int_equal(amb_rights_heap(more),
                     amb_rights_heap(few) + sizeof(struct amb_right) + sizeof("u.t"));
    assert_int_equal(amb_rights_heap(longer), amb_rights_heap(more) + 2 * strlen("-long-name"));
    struct amb_rights *const all[] = {few, more, longer};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        struct amb_rights *one = all[i];
        amb_rights_unref(&one);
    }
}

static void a_deny_refuses_or_narrows_and_says_so(void **state)
{
    (void)state;
    struct try_role role = {.role = {.name = "r"}};
    try_add(&role, 2, "cfg.>");
    try_add(&role, 2, "$SYS.>");
    try_add(&role, 3, "x.>");
    try_add(&role, 3, "cfg.secret.>");
    struct amb_rights *rights = rights_of(&role.role, "u", "t");
    struct amb_rights_cut cut;
    const struct amb_right *by = NULL;
    assert_int_equal(amb_rights_subscribe(rights, "cfg.secret.*", 12, &cut, &by), AMB_RIGHTS_NO);
    assert_string_equal(by->pattern, "cfg.secret.>");
    assert_ptr_equal(by->role, &role.role);
    assert_int_equal(by->index, 1);
    assert_int_equal(amb_rights_subscribe(rights, "cfg.*.a", 7, &cut, &by), AMB_RIGHTS_NARROWED);
    assert_string_equal(by->pattern, "cfg.secret.>");
    assert_true(amb_rights_cuts_out(rights, &cut, "cfg.secret.a", 12));
    assert_false(amb_rights_cuts_out(rights, &cut, "cfg.public.a", 12));
    assert_int_equal(amb_rights_subscribe(rights, "cfg.*", 5, &cut, &by), AMB_RIGHTS_WHOLE);
    assert_string_equal(by->pattern, "cfg.>");
    assert_false(amb_rights_cuts_out(rights, &cut, "cfg.secret", 10));
    assert_int_equal(subscribes(rights, ">"), AMB_RIGHTS_NO);
    assert_int_equal(subscribes(rights, "$SYS.client.*"), AMB_RIGHTS_WHOLE);
    assert_int_equal(subscribes(rights, "$DLQ.>"), AMB_RIGHTS_NO);
    amb_rights_unref(&rights);
}

static void a_deny_is_one_of_dead_letters_too(void **state)
{
    (void)state;
    struct try_role role = {.role = {.name = "r"}};
    try_add(&role, 0, "$DLQ.>");
    try_add(&role, 1, "cfg.secret.>");
    try_add(&role, 2, "$DLQ.>");
    try_add(&role, 3, "cfg.secret.>");
    struct amb_rights *rights = rights_of(&role.role, "u", "t");
    struct amb_rights_cut cut;
    const struct amb_right *by = NULL;
    assert_int_equal(amb_rights_subscribe(rights, "$DLQ.>", 6, &cut, &by), AMB_RIGHTS_NARROWED);
    assert_string_equal(by->pattern, "cfg.secret.>");
    assert_true(amb_rights_cuts_out(rights, &cut, "$DLQ.cfg.secret.a", 17));
    assert_false(amb_rights_cuts_out(rights, &cut, "$DLQ.cfg.public.a", 17));
    assert_false(amb_rights_cuts_out(rights, &cut, "$DLQ.a", 6));
    assert_int_equal(subscribes(rights, "$DLQ.cfg.secret.*"), AMB_RIGHTS_NO);
    assert_int_equal(subscribes(rights, "$DLQ.*.public"), AMB_RIGHTS_WHOLE);
    assert_int_equal(subscribes(rights, "$DLQ.cfg.*.a"), AMB_RIGHTS_NARROWED);
    assert_false(may_publish(rights, "$DLQ.cfg.secret.a"));
    assert_true(may_publish(rights, "$DLQ.cfg.public.a"));
    amb_rights_unref(&rights);
}

static void a_wildcard_in_front_is_for_no_topic_of_the_broker(void **state)
{
    (void)state;
    struct try_role role = {.role = {.name = "r"}};
    try_add(&role, 2, ">");
    struct amb_rights *rights = rights_of(&role.role, "u", "t");
    assert_int_equal(subscribes(rights, ">"), AMB_RIGHTS_WHOLE);
    assert_int_equal(subscribes(rights, "$SYS.client.come"), AMB_RIGHTS_NO);
    assert_int_equal(subscribes(rights, "$DLQ.>"), AMB_RIGHTS_NO);
    amb_rights_unref(&rights);
}

static void rights_of_roles_add_up(void **state)
{
    (void)state;
    struct try_role one = {.role = {.name = "one", .request = true, .admin = AMB_ADMIN_OPERATE}};
    struct try_role two = {.role = {.name = "two", .reply = true, .admin = AMB_ADMIN_READ}};
    static const char *const names[] = {"workers"};
    two.role.shared = (struct amb_config_strings){names, 1, NULL};
    try_add(&one, 0, "a.>");
    try_add(&two, 0, "b");
    try_add(&two, 1, "a.secret");
    const struct amb_role *roles[] = {&one.role, &two.role};
    const struct amb_rights_of of = {roles, 2, "u", "t"};
    struct amb_rights *rights = NULL;
    assert_int_equal(amb_rights_make(&of, &rights), AMB_OK);
    assert_true(may_publish(rights, "a.x") && may_publish(rights, "b"));
    assert_false(may_publish(rights, "a.secret"));
    assert_true(rights->request && rights->reply && !rights->ucx);
    assert_int_equal(rights->admin, AMB_ADMIN_OPERATE);
    assert_true(amb_rights_shares(rights, "workers"));
    assert_false(amb_rights_shares(rights, "worker"));
    amb_rights_unref(&rights);
}

static void too_many_patterns_and_long_names_are_refused(void **state)
{
    (void)state;
    static const char *items[AMB_ROLE_PATTERNS_MAX + 1];
    for (size_t i = 0; i < sizeof(items) / sizeof(items[0]); i++) {
        items[i] = i + 1 < AMB_ROLE_PATTERNS_MAX ? "a.%u" : "a.last.%u";
    }
    struct amb_role role = {.name = "r"};
    const struct amb_role *roles[] = {&role};
    struct amb_rights_of of = {roles, 1, "u", "t"};
    struct amb_rights *rights = NULL;
    role.subscribe.deny = (struct amb_config_strings){items, AMB_ROLE_PATTERNS_MAX, NULL};
    assert_int_equal(amb_rights_count(&of), AMB_ROLE_PATTERNS_MAX);
    assert_int_equal(amb_rights_make(&of, &rights), AMB_OK);
    /* The last one has a bit, too. */
    struct amb_rights_cut cut = {{0, UINT64_C(1) << 63}};
    assert_true(amb_rights_cuts_out(rights, &cut, "a.last.u", 8));
    assert_false(amb_rights_cuts_out(rights, &cut, "a.u", 3));
    amb_rights_unref(&rights);
    role.publish.allow = (struct amb_config_strings){items, 1, NULL};
    assert_int_equal(amb_rights_make(&of, &rights), AMB_EINVAL);
    role.publish.allow.count = 0;
    char name[AMB_ROLE_NAME_MAX + 2];
    memset(name, 'n', sizeof(name));
    name[AMB_ROLE_NAME_MAX + 1] = '\0';
    of.tenant = name;
    assert_int_equal(amb_rights_make(&of, &rights), AMB_EINVAL);
    name[AMB_ROLE_NAME_MAX] = '\0';
    assert_int_equal(amb_rights_make(&of, &rights), AMB_OK);
    amb_rights_unref(&rights);
    of.user = name;
    assert_int_equal(amb_rights_make(&of, &rights), AMB_OK);
    amb_rights_unref(&rights);
}

static void set_compare(const struct try_set *set, const struct amb_rights *rights,
                        uint64_t answers[3])
{
    const struct try_world *world = try_world();
    for (size_t t = 0; t < world->topic_count; t++) {
        const struct try_text *topic = &world->topics[t];
        if (amb_rights_publish(rights, topic->at, topic->len, NULL) != try_may_publish(set, t)) {
            fail_msg("publish to %s", topic->at);
        }
    }
    for (unsigned p = 0; p < world->pattern_count; p++) {
        const struct try_text *pattern = &world->patterns[p];
        uint64_t seen[(TRY_TOPICS + 63) / 64];
        struct amb_rights_cut cut;
        bool is_allowed = try_may_subscribe(set, p, seen);
        enum amb_rights_answer answer =
            amb_rights_subscribe(rights, pattern->at, pattern->len, &cut, NULL);
        answers[answer]++;
        bool is_whole = memcmp(seen, world->matched[p], sizeof(seen)) == 0;
        if ((answer != AMB_RIGHTS_NO) != is_allowed ||
            (is_allowed && (answer == AMB_RIGHTS_WHOLE) != is_whole)) {
            fail_msg("subscribe to %s: %d", pattern->at, (int)answer);
        }
        for (size_t t = 0; answer == AMB_RIGHTS_NARROWED && t < world->topic_count; t++) {
            const struct try_text *topic = &world->topics[t];
            bool is_cut = amb_rights_cuts_out(rights, &cut, topic->at, topic->len);
            if (try_matches(p, t) && is_cut == ((seen[t / 64] >> t % 64 & 1) != 0)) {
                fail_msg("%s of %s is cut: %d", topic->at, pattern->at, is_cut);
            }
        }
    }
}

static void random_roles_agree_with_the_model(void **state)
{
    (void)state;
    uint64_t answers[3] = {0};
    for (uint64_t n = 0; n < random_sets; n++) {
        struct try_set set;
        try_set_random(&set);
        struct amb_rights *rights = try_set_make(&set);
        set_compare(&set, rights, answers);
        amb_rights_unref(&rights);
    }
    assert_true(answers[AMB_RIGHTS_NO] > random_sets);
    assert_true(answers[AMB_RIGHTS_NARROWED] > random_sets / 4);
    assert_true(answers[AMB_RIGHTS_WHOLE] > random_sets);
}

int main(int argc, char **argv)
{
    if (argc > 1) {
        random_sets = strtoull(argv[1], NULL, 10);
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_rights_at_all_allow_everything),
        cmocka_unit_test(no_roles_allow_nothing),
        cmocka_unit_test(names_of_the_user_and_its_tenant_are_tokens),
        cmocka_unit_test(rights_take_what_their_patterns_need),
        cmocka_unit_test(a_deny_refuses_or_narrows_and_says_so),
        cmocka_unit_test(a_deny_is_one_of_dead_letters_too),
        cmocka_unit_test(a_wildcard_in_front_is_for_no_topic_of_the_broker),
        cmocka_unit_test(rights_of_roles_add_up),
        cmocka_unit_test(too_many_patterns_and_long_names_are_refused),
        cmocka_unit_test(random_roles_agree_with_the_model),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
