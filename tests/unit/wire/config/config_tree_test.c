/* SPDX-License-Identifier: Apache-2.0 */
/* The shape of a file: syntax, groups, unknown keys. */
#include "tests/support/config_try.h"

static void test_syntax_errors_have_their_line(void **state)
{
    (void)state;
    try_refuse("server = {\n  workers = ;\n};",
               "configuration:2: syntax error (allowed libconfig syntax: key = value;)");
    struct amb_config_source source = try_source("\x7f"
                                                 "ELF\x02\x01\x01");
    try_refuse_with(&source, "configuration:1: ");
    source = try_source("log = { level = \"info\"; };\nlog = { };");
    try_refuse_with(&source, "configuration:2: duplicate setting name");
}

static void test_unknown_keys_come_with_the_nearest(void **state)
{
    (void)state;
    try_refuse("server = {\n\n  wokers = 2; };",
               "configuration:3: server.wokers: unknown key (did you mean server.workers?)");
    try_refuse("workers = 2;",
               "configuration:1: workers: unknown key (did you mean server.workers?)");
    try_refuse("frobnicate = 2;", "configuration:1: frobnicate: unknown key (all keys: brokerd "
                                  "--print-config)");
    try_refuse("nonsense = { workers = 2; };", "configuration:1: nonsense: unknown key (all keys: "
                                               "brokerd --print-config)");
    try_refuse("server = { workers = { x = 1; }; };",
               "configuration:1: server.workers: wrong type (got a group, allowed \"auto\" or a "
               "number, 0 to 64)");
}

static void test_groups_must_be_groups(void **state)
{
    (void)state;
    try_refuse("server = 4;", "configuration:1: server: wrong type (got a single value or a list, "
                              "allowed a group { ... })");
    struct amb_config *config = try_accept("server = { }; memory = { host = { }; };");
    amb_config_destroy(&config);
}

static void test_keys_of_later_releases_say_so(void **state)
{
    (void)state;
    static const struct {
        const char *text, *key;
    } cases[] = {
        {"memory = { host = { hugepages = true; }; };", "memory.host.hugepages"},
        {"cluster = { listen = 5; };", "cluster"},
        {"cluster = 5;", "cluster"},
        {"cluster = { };", "cluster"},
        {"limits = { resume_grace = \"10s\"; };", "limits.resume_grace"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char expected[160];
        (void)snprintf(expected, sizeof(expected),
                       "configuration:1: %s: not yet supported in this release", cases[i].key);
        try_refuse(cases[i].text, expected);
    }
}

static void test_endless_names_and_depths_are_harmless(void **state)
{
    (void)state;
    size_t size = 200000;
    char *text = malloc(size + 64);
    assert_non_null(text);
    memset(text, 'k', size);
    (void)strcpy(text + size, " = 1;");
    struct amb_config_source source = try_source(text);
    try_refuse_with(&source, "kkk...: unknown key");
    for (size_t i = 0; i + 4 < size; i += 4) {
        memcpy(text + i, "a={ ", 4);
    }
    text[size] = '\0';
    source = try_source(text);
    try_refuse_with(&source, "configuration:1: ");
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_syntax_errors_have_their_line),
        cmocka_unit_test(test_unknown_keys_come_with_the_nearest),
        cmocka_unit_test(test_groups_must_be_groups),
        cmocka_unit_test(test_keys_of_later_releases_say_so),
        cmocka_unit_test(test_endless_names_and_depths_are_harmless),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
