/* SPDX-License-Identifier: Apache-2.0 */
/* The choice of a process, one that cannot be loaded, and a fork while another thread is at it. */
#include "wire/link/ucxlib/ucx_process.h"

#include "tests/support/in_child.h"
#include "tests/support/link/ucx_tree.h"
#include "wire/link/ucxlib/ucx_release.h"

#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#define FORKS 20
#define CHILD_MAX_S 20 /* a child that waits for a lock which nobody has is ended */

static atomic_uint looked;
static atomic_bool is_over;

static enum amb_status look(void)
{
    const struct amb_ucx_wish wish = {.library = "/nonexistent", .source = "test"};
    struct amb_ucx_library library;
    char error[256];
    return amb_ucx_library_expect(&wish, error, sizeof(error), &library);
}

static void *look_on(void *arg)
{
    while (!atomic_load(&is_over)) {
        (void)look();
        atomic_fetch_add(&looked, 1);
    }
    return arg;
}

/* The lock is held nearly all the time, as this thread does nothing else. */
static void test_a_child_of_fork_may_choose(void **state)
{
    (void)state;
    pthread_t thread;
    unsigned failed = 0;
    assert_int_equal(pthread_create(&thread, NULL, look_on, NULL), 0);
    while (atomic_load(&looked) == 0) {
        (void)sched_yield();
    }
    for (unsigned i = 0; i < FORKS && failed == 0; i++) {
        int status = 0;
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            (void)alarm(CHILD_MAX_S);
            _exit(look() == AMB_ENOTSUP ? 0 : 1);
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        failed += status != 0;
    }
    atomic_store(&is_over, true);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(failed, 0);
}

/* ---- one that cannot be loaded ---- */

static void copy(const char *from, const char *path)
{
    char command[2 * PATH_MAX];
    (void)snprintf(command, sizeof(command), "cp '%s/%s' '%s'", AMB_TEST_STUBS, from,
                   tree_path(path));
    assert_int_equal(system(command), 0);
}

/* In a child, as a UCX that is loaded stays. Folders: of the best choice, which is a file that only
 * looks like a library, and of the next. */
static int load_by(const char *library, const char *folders, char error[256])
{
    const struct amb_ucx_wish wish = {.library = library, .source = "test", .has_rdma = true};
    (void)alarm(CHILD_MAX_S);
    if (setenv("LD_LIBRARY_PATH", folders, 1) != 0) {
        return AMB_EINTERNAL;
    }
    return (int)amb_ucx_library_load(&wish, error, 256);
}

static bool has_loaded(const char *library)
{
    void *handle = dlopen(library, RTLD_LAZY | RTLD_NOLOAD);
    return handle != NULL;
}

static int load_the_next(void)
{
    char error[256] = "", folders[2 * PATH_MAX];
    (void)snprintf(folders, sizeof(folders), "%s:%s", tree_path("broken"), tree_path("good"));
    if (load_by("auto", folders, error) != AMB_OK) {
        (void)fprintf(stderr, "%s\n", error);
        return 1;
    }
    const struct amb_ucx_library *library = amb_ucx_library();
    return library == NULL                                               ? 2
           : strcmp(library->file, tree_path("good/libucp.so.0")) != 0   ? 3
           : library->release != AMB_UCX_RELEASE(1, 17, 3)               ? 4
           : has_loaded("libucm.so.0")                                   ? 5
           : load_by("auto", folders, error) != AMB_OK                   ? 6
           : strcmp(amb_ucx_library()->file, library->file) != 0         ? 7
           : load_by(tree_path("broken"), folders, error) != AMB_ENOTSUP ? 8
                                                                         : 0;
}

static int load_no_other_than_named(void)
{
    char error[256] = "", folders[2 * PATH_MAX];
    (void)snprintf(folders, sizeof(folders), "%s:%s", tree_path("broken"), tree_path("good"));
    return load_by(tree_path("broken"), folders, error) != AMB_ENOTSUP ? 1
           : strstr(error, "UCX cannot be loaded: ") == NULL           ? 2
           : amb_ucx_library() != NULL                                 ? 3
           : has_loaded("libucp.so.0")                                 ? 4
                                                                       : 0;
}

/* Its libucs is here for good, and the next one would take that for its own. */
static int load_no_second_one(void)
{
    char error[256] = "", folders[2 * PATH_MAX];
    (void)snprintf(folders, sizeof(folders), "%s:%s", tree_path("partly"), tree_path("good"));
    return load_by("auto", folders, error) != AMB_ENOTSUP                           ? 1
           : strstr(error, "UCX cannot be loaded: ") == NULL                        ? 2
           : strstr(error, "partly") == NULL                                        ? 3
           : amb_ucx_library() != NULL || !has_loaded("libucs.so.0")                ? 4
           : load_by("auto", tree_path("good"), error) != AMB_ENOTSUP               ? 5
           : strstr(error, "cannot be loaded") == NULL || has_loaded("libucp.so.0") ? 6
                                                                                    : 0;
}

static void test_one_that_cannot_be_loaded_makes_room_for_the_next(void **state)
{
    (void)state;
    tree_ucx("broken", "1.22.1", "ib");
    copy("part/libucm.so.0", "broken/libucm.so.0");
    copy("other/libucp.so.0", "good/libucp.so.0");
    tree_text("good/ucx/libuct_ib.so.0", "");
    assert_int_equal(in_child(load_the_next), 0);
    assert_int_equal(in_child(load_no_other_than_named), 0);
}

static void test_one_that_has_left_a_part_is_the_only_one(void **state)
{
    (void)state;
    tree_ucx("partly", "1.22.1", "ib");
    copy("part/libucs.so.0", "partly/libucs.so.0");
    assert_int_equal(in_child(load_no_second_one), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_that_cannot_be_loaded_makes_room_for_the_next),
        cmocka_unit_test(test_one_that_has_left_a_part_is_the_only_one),
        cmocka_unit_test(test_a_child_of_fork_may_choose),
    };
    return cmocka_run_group_tests(tests, tree_make, tree_remove);
}
