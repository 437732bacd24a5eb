/* SPDX-License-Identifier: Apache-2.0 */
/* libconfig comes when it is asked for, once. That it is missing: integration-roles. */
#include "wire/config/libconfig_api.h"

#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void test_it_is_loaded_when_asked_for(void **state)
{
    (void)state;
    const char *why = NULL;
    assert_null(dlopen(AMB_LIBCONFIG_SONAME, RTLD_LAZY | RTLD_NOLOAD));
    const struct amb_libconfig_api *api = amb_libconfig(&why);
    assert_non_null(api);
    assert_non_null(dlopen(AMB_LIBCONFIG_SONAME, RTLD_LAZY | RTLD_NOLOAD));
    assert_ptr_equal(amb_libconfig(&why), api);
}

static void test_it_parses(void **state)
{
    (void)state;
    const char *why = NULL;
    const struct amb_libconfig_api *api = amb_libconfig(&why);
    config_t tree;
    api->config_init(&tree);
    assert_int_equal(api->config_read_string(&tree, "a = ( 1, 2 ); b = \"x\"; c = true;"),
                     CONFIG_TRUE);
    config_setting_t *root = config_root_setting(&tree);
    assert_int_equal(api->config_setting_length(root), 3);
    const config_setting_t *list = api->config_setting_get_elem(root, 0);
    assert_int_equal(api->config_setting_length(list), 2);
    assert_int_equal(api->config_setting_get_int64(api->config_setting_get_elem(list, 1)), 2);
    assert_string_equal(api->config_setting_get_string(api->config_setting_get_elem(root, 1)), "x");
    assert_int_equal(api->config_setting_get_bool(api->config_setting_get_elem(root, 2)),
                     CONFIG_TRUE);
    api->config_destroy(&tree);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_it_is_loaded_when_asked_for),
        cmocka_unit_test(test_it_parses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
