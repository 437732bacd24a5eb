/* SPDX-License-Identifier: Apache-2.0 */
/* Loading beside a UCX that the process has already. Each test has a process of its own, as a UCX
 * that is loaded stays. */
#include "wire/link/ucxlib/ucx_api.h"

#include "tests/support/in_child.h"
#include "tests/support/link/ucx_tree.h"
#include "wire/link/ucxlib/ucx_release.h"

#include <dlfcn.h>

static void copy_stub(const char *kind, const char *path)
{
    char command[2 * PATH_MAX];
    (void)snprintf(command, sizeof(command), "cp '%s/%s/libucp.so.0' '%s.new' && mv '%s.new' '%s'",
                   AMB_TEST_STUBS, kind, tree_path(path), tree_path(path), tree_path(path));
    assert_int_equal(system(command), 0);
}

static enum amb_status load(const char *path, struct amb_ucx_library *library, char error[256])
{
    memset(library, 0, sizeof(*library));
    (void)snprintf(library->file, sizeof(library->file), "%s", tree_path(path));
    error[0] = '\0';
    return amb_ucx_api_load(library, error, 256);
}

/* 0, or the number of the step that failed. */
static int load_what_was_replaced(void)
{
    struct amb_ucx_library library;
    char error[256];
    copy_stub("other", "replaced/libucp.so.0");
    /* By another spelling of its path, as the linker's cache may have one. */
    if (dlopen(tree_path("replaced/../replaced/libucp.so.0"), RTLD_NOW | RTLD_LOCAL) == NULL) {
        return 1;
    }
    copy_stub("old", "replaced/libucp.so.0");
    if (load("replaced/libucp.so.0", &library, error) != AMB_OK) {
        (void)fprintf(stderr, "%s\n", error);
        return 2;
    }
    return library.release == AMB_UCX_RELEASE(1, 17, 3) ? 0 : 3;
}

static int load_beside_another(void)
{
    struct amb_ucx_library library;
    char error[256];
    copy_stub("other", "here/libucp.so.0");
    copy_stub("old", "there/libucp.so.0");
    if (dlopen(tree_path("here/libucp.so.0"), RTLD_NOW | RTLD_LOCAL) == NULL) {
        return 1;
    }
    if (load("there/libucp.so.0", &library, error) != AMB_ENOTSUP) {
        return 2;
    }
    return strstr(error, "has another UCX already") != NULL ? 0 : 3;
}

static int load_what_lacks(void)
{
    struct amb_ucx_library library;
    char error[256];
    copy_stub("lacking", "lacks/libucp.so.0");
    if (load("lacks/libucp.so.0", &library, error) != AMB_ENOTSUP) {
        return 1;
    }
    return strstr(error, "no function ucp_am_send_nbx") != NULL ? 0 : 2;
}

static void test_what_is_loaded_counts_and_not_the_file_of_today(void **state)
{
    (void)state;
    assert_int_equal(in_child(load_what_was_replaced), 0);
}

static void test_no_second_one_is_loaded(void **state)
{
    (void)state;
    assert_int_equal(in_child(load_beside_another), 0);
}

static void test_a_function_that_is_missing_is_named(void **state)
{
    (void)state;
    assert_int_equal(in_child(load_what_lacks), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_loaded_counts_and_not_the_file_of_today),
        cmocka_unit_test(test_no_second_one_is_loaded),
        cmocka_unit_test(test_a_function_that_is_missing_is_named),
    };
    return cmocka_run_group_tests(tests, tree_make, tree_remove);
}
