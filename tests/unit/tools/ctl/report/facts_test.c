/* SPDX-License-Identifier: Apache-2.0 */
/* Under test: tools/ctl/report/facts, of this machine and of a folder in its place. */
#include "tools/ctl/report/facts.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static const char *const environment[] = {
    "UCX_TLS=tcp", "HOME=/secret", "AMB_TOKEN=secret", "AMB_EMPTY", "LD_PRELOAD=/secret.so", NULL};

static void test_this_machine(void **state)
{
    (void)state;
    json_t *facts = amb_facts_of("", getpid(), environment);
    char *text = json_dumps(facts, JSON_COMPACT);
    assert_non_null(text);
    assert_non_null(json_object_get(json_object_get(facts, "kernel"), "release"));
    assert_true(
        json_integer_value(json_object_get(json_object_get(facts, "processors"), "online")) > 0);
    assert_true(json_array_size(json_object_get(facts, "memory")) > 3);
    assert_true(json_array_size(json_object_get(facts, "limits_of_broker_ctl")) > 10);
    json_t *broker = json_object_get(facts, "broker");
    assert_true(json_array_size(json_object_get(broker, "limits")) > 10);
    assert_true(json_array_size(json_object_get(broker, "status")) > 3);
    free(text);
    json_decref(facts);
}

static void test_variables_have_names_alone(void **state)
{
    (void)state;
    json_t *facts = amb_facts_of("/none/such", 0, environment);
    char *text = json_dumps(json_object_get(facts, "variables"), JSON_COMPACT);
    assert_string_equal(text, "[\"AMB_EMPTY\",\"AMB_TOKEN\",\"LD_PRELOAD\",\"UCX_TLS\"]");
    free(text);
    text = json_dumps(facts, JSON_COMPACT);
    assert_null(strstr(text, "secret"));
    free(text);
    json_decref(facts);
}

static void test_a_machine_without_those_files(void **state)
{
    (void)state;
    json_t *facts = amb_facts_of("/none/such", 1, NULL);
    assert_int_equal(json_object_size(json_object_get(facts, "files")), 0);
    assert_int_equal(json_array_size(json_object_get(facts, "memory")), 0);
    assert_int_equal(json_object_size(json_object_get(facts, "broker")), 0);
    json_decref(facts);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_this_machine),
        cmocka_unit_test(test_variables_have_names_alone),
        cmocka_unit_test(test_a_machine_without_those_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
