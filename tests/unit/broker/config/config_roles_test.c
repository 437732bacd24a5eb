/* SPDX-License-Identifier: Apache-2.0 */
/* Roles: their keys, both forms of a list, and the patterns that cannot be rights. */
#include "broker/config/config_roles.h"

#include "broker/config/print/config_print.h"
#include "tests/support/config_try.h"

static const struct amb_role *role_of(const struct amb_config *config, const char *name)
{
    return amb_config_role(&config->roles, name);
}

static void test_a_role_has_what_it_lists_and_no_more(void **state)
{
    (void)state;
    struct amb_config *config = try_accept(
        "roles = ( { name = \"camera\"; publish = ( \"cam.%u.>\" );\n"
        "            subscribe = { allow = ( \"cfg.>\", \"=room.*\" );\n"
        "                          deny = ( \"cfg.secret.>\" ); };\n"
        "            shared = ( \"workers\" ); request = true; },\n"
        "          { name = \"ops\"; admin = \"operate\"; subscribe = ( \"$SYS.>\", \"$DLQ.>\" );\n"
        "            ucx = true; reply = true; } );");
    assert_int_equal(config->roles.count, 2);
    const struct amb_role *camera = role_of(config, "camera");
    assert_non_null(camera);
    assert_int_equal(camera->publish.allow.count, 1);
    assert_string_equal(camera->publish.allow.items[0], "cam.%u.>");
    assert_int_equal(camera->publish.deny.count, 0);
    assert_int_equal(camera->subscribe.allow.count, 2);
    assert_string_equal(camera->subscribe.allow.items[1], "=room.*");
    assert_string_equal(camera->subscribe.deny.items[0], "cfg.secret.>");
    assert_string_equal(camera->shared.items[0], "workers");
    assert_true(camera->request && !camera->reply && !camera->ucx);
    assert_int_equal(camera->admin, AMB_ADMIN_NONE);
    const struct amb_role *ops = role_of(config, "ops");
    assert_non_null(ops);
    assert_int_equal(ops->admin, AMB_ADMIN_OPERATE);
    assert_true(ops->ucx && ops->reply && !ops->request);
    assert_int_equal(ops->publish.allow.count, 0);
    assert_int_equal(ops->subscribe.allow.count, 2);
    assert_null(role_of(config, "camer"));
    assert_null(role_of(config, "cameras"));
    char where[64];
    amb_config_pattern_where(&camera->subscribe.deny, 0, where, sizeof(where));
    assert_string_equal(where, "configuration:3");
    amb_config_destroy(&config);
}

static void test_many_roles_are_found_by_name(void **state)
{
    (void)state;
    char *text = malloc(64 * 1024);
    assert_non_null(text);
    size_t len = (size_t)sprintf(text, "roles = (");
    for (unsigned i = 0; i < AMB_ROLES_MAX; i++) {
        len += (size_t)sprintf(text + len, "%s{ name = \"r%u\"; }", i > 0 ? "," : "",
                               i * 7919 % AMB_ROLES_MAX);
    }
    (void)sprintf(text + len, ");");
    struct amb_config *config = try_accept(text);
    for (unsigned i = 0; i < AMB_ROLES_MAX; i++) {
        char name[16];
        (void)snprintf(name, sizeof(name), "r%u", i);
        assert_string_equal(role_of(config, name)->name, name);
    }
    assert_null(role_of(config, "r1024"));
    amb_config_destroy(&config);
    (void)sprintf(text + len, ", { name = \"one\"; } );");
    try_refuse_part(text, "roles: too many");
    free(text);
}

static void test_the_printed_text_reads_as_the_same(void **state)
{
    (void)state;
    struct amb_config *config =
        try_accept("roles = ( { name = \"b\"; publish = { deny = ( \"x\" ); }; },\n"
                   "          { name = \"a\"; subscribe = ( \"=y.*\" ); admin = \"read\"; } );");
    char *text = try_printed(config);
    struct amb_config *again = try_accept(text);
    assert_string_equal(role_of(again, "a")->subscribe.allow.items[0], "=y.*");
    assert_int_equal(role_of(again, "a")->admin, AMB_ADMIN_READ);
    assert_string_equal(role_of(again, "b")->publish.deny.items[0], "x");
    char restart[64], live[256];
    amb_config_diff(config, again, restart, sizeof(restart), live, sizeof(live));
    assert_string_equal(restart, "");
    assert_string_equal(live, "");
    amb_config_destroy(&again);
    again = try_accept("roles = ( { name = \"b\"; } );");
    amb_config_diff(config, again, restart, sizeof(restart), live, sizeof(live));
    assert_string_equal(restart, "");
    assert_string_equal(
        live, "roles[b].publish.deny ( \"x\" ) -> ( ) (configuration:1), roles[a] there -> none "
              "(configuration:1)");
    amb_config_destroy(&again);
    amb_config_destroy(&config);
    free(text);
}

static void test_bad_roles_are_refused_at_their_line(void **state)
{
    (void)state;
    try_refuse("roles = ( { publish = ( \"a\" ); } );",
               "configuration:1: roles[0]: name is missing (allowed a name as \"camera\")");
    try_refuse("roles = ( { name = \"a\"; },\n{ name = \"a\"; } );",
               "configuration:2: roles[1]: roles[0] has the same name (got \"a\", allowed once)");
    try_refuse("roles = ( { name = \"a:b\"; } );",
               "configuration:1: roles[0]: not a name (allowed letters, digits and -_@)");
    try_refuse("roles = ( { name = \"a\"; publish = { allowed = ( \"a\" ); }; } );",
               "configuration:1: roles[0].publish.allowed: unknown key (did you mean "
               "roles[0].publish.allow?)");
    try_refuse("roles = ( { name = \"a\"; rights = ( \"a\" ); } );",
               "configuration:1: roles[0].rights: unknown key (all keys: brokerd --print-config)");
    static const struct {
        const char *key, *pattern, *fault;
    } bad[] = {
        {"publish", "a..b", "has an empty token"},
        {"publish", "=a", "'=' is for what is subscribed to"},
        {"publish", "$SYS.a", "names that begin with '$' are the broker's"},
        {"publish", "a.x%u", "'%' is not in a token that is %u or %t as a whole"},
        {"publish", "a.%u%t", "'%' is not in a token that is %u or %t as a whole"},
        {"publish", "a.%c", "'%' is not in a token that is %u or %t as a whole"},
        {"publish", "%", "'%' is not in a token that is %u or %t as a whole"},
        {"subscribe", "a.>.b", "has a '>' that is not its last token"},
        {"subscribe", "=", "is empty"},
        {"subscribe", "$INBOX.>", "inboxes go by request and reply, not by patterns"},
        {"subscribe", "%u.%t.%u.%t.%u", "too long for a topic, with the names for %u and %t"},
        {"shared", "a b", "not a name: 1 to 64 bytes without white space"},
        {"shared", "", "not a name: 1 to 64 bytes without white space"},
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        char text[256], part[256];
        (void)snprintf(text, sizeof(text), "roles = ( { name = \"a\";\n%s = ( \"%s\" ); } );",
                       bad[i].key, bad[i].pattern);
        (void)snprintf(part, sizeof(part), ": %s (got \"%s\"", bad[i].fault, bad[i].pattern);
        try_refuse_part(text, part);
        try_refuse_part(text, "configuration:2: roles[0].");
    }
    try_refuse_part("roles = ( { name = \"a\"; subscribe = { deny = ( \"=a\" ); }; } );",
                    "roles[0].subscribe.deny: '=' is for allow");
    try_refuse_part("roles = ( { name = \"a\"; publish = ( \"a\", \"a\" ); } );", "given twice");
    try_refuse_part("roles = ( { name = \"a\"; publish = \"a\"; } );",
                    "roles[0].publish: unknown key");
    try_refuse_part("roles = ( { name = \"a\"; admin = \"root\"; } );", "roles[0].admin");
}

static void test_a_role_has_128_patterns_in_all(void **state)
{
    (void)state;
    char text[4096];
    for (unsigned more = 0; more < 2; more++) {
        size_t len = (size_t)snprintf(text, sizeof(text),
                                      "roles = ( { name = \"a\"; publish = ( \"p\" ); subscribe "
                                      "= ( \"s\"");
        for (unsigned i = 2; i < AMB_ROLE_PATTERNS_MAX + more; i++) {
            len += (size_t)snprintf(text + len, sizeof(text) - len, ", \"s.%u\"", i);
        }
        (void)snprintf(text + len, sizeof(text) - len, " ); } );");
        if (more == 0) {
            struct amb_config *config = try_accept(text);
            amb_config_destroy(&config);
        } else {
            try_refuse(text, "configuration:1: roles[0]: too many patterns (got 129, allowed 128 "
                             "in all lists)");
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_role_has_what_it_lists_and_no_more),
        cmocka_unit_test(test_many_roles_are_found_by_name),
        cmocka_unit_test(test_the_printed_text_reads_as_the_same),
        cmocka_unit_test(test_bad_roles_are_refused_at_their_line),
        cmocka_unit_test(test_a_role_has_128_patterns_in_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
