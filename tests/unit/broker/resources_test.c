/* SPDX-License-Identifier: Apache-2.0 */
/* Limits that are too small are named; the private folder is made only where it is safe. */
#include "broker/resources.h"

#include "tests/support/config_try.h"

#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static struct amb_config *listen_under(const char *folder, char *path, size_t size)
{
    char text[256];
    (void)snprintf(path, size, "%s/ambroker-%u", folder, (unsigned)geteuid());
    (void)snprintf(text, sizeof(text), "listen = ( \"unix://%s/broker.sock\" );", path);
    return try_accept(text);
}

static void test_the_private_folder_is_made_closed(void **state)
{
    (void)state;
    char folder[] = "/tmp/amb-res-XXXXXX", path[128], error[256] = "";
    assert_non_null(mkdtemp(folder));
    struct amb_config *config = listen_under(folder, path, sizeof(path));
    struct stat st;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(amb_resources_make_folders(config, error, sizeof(error)), AMB_OK);
        assert_int_equal(stat(path, &st), 0);
        assert_int_equal(st.st_mode & 07777, 0700);
    }
    assert_int_equal(chmod(path, 0755), 0);
    assert_int_equal(amb_resources_make_folders(config, error, sizeof(error)), AMB_EFORBIDDEN);
    assert_non_null(strstr(error, "must be a folder of this user that is closed to others"));
    assert_int_equal(rmdir(path), 0);
    assert_int_equal(symlink("/tmp", path), 0);
    assert_int_equal(amb_resources_make_folders(config, error, sizeof(error)), AMB_EFORBIDDEN);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(folder), 0);
    assert_int_equal(amb_resources_make_folders(config, error, sizeof(error)), AMB_EFORBIDDEN);
    assert_non_null(strstr(error, "cannot be made: No such file or directory"));
    amb_config_destroy(&config);
}

static void test_other_folders_are_left_alone(void **state)
{
    (void)state;
    char error[64] = "";
    struct amb_config *config = try_accept(
        "listen = ( \"unix:///nowhere/broker.sock\", \"unix:///x\", \"tcp://localhost:0\" );");
    assert_int_equal(amb_resources_make_folders(config, error, sizeof(error)), AMB_OK);
    assert_int_equal(access("/nowhere", F_OK), -1);
    amb_config_destroy(&config);
}

/* Runs check in a child whose limit is lower; its exit status. */
static int in_child(__rlimit_resource_t resource, rlim_t limit, int (*check)(void))
{
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        struct rlimit both = {limit, limit};
        _exit(setrlimit(resource, &both) == 0 ? check() : 99);
    }
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static struct amb_config *child_config;

static int check_address_space(void)
{
    char error[256] = "";
    if (amb_resources_check(child_config, error, sizeof(error)) != AMB_ELIMIT) {
        return 1;
    }
    return strstr(error, "(got ulimit -v 1024000, allowed at least 1507328)") != NULL ? 0 : 2;
}

static int check_memlock(void)
{
    char text[256] = "";
    return amb_resources_memlock_warning(text, sizeof(text)) &&
                   strstr(text, "ulimit -l is 0,") != NULL
               ? 0
               : 1;
}

static void test_small_limits_are_named(void **state)
{
    (void)state;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    skip(); /* sanitizers need terabytes of addresses */
#endif
    char error[256] = "";
    child_config = try_accept("");
    assert_int_equal(amb_resources_check(child_config, error, sizeof(error)), AMB_OK);
    assert_int_equal(in_child(RLIMIT_AS, (rlim_t)1000 << 20, check_address_space), 0);
    assert_int_equal(in_child(RLIMIT_MEMLOCK, 0, check_memlock), 0);
    amb_config_destroy(&child_config);
}

static void test_the_descriptor_limit_is_raised(void **state)
{
    (void)state;
    struct rlimit limit;
    amb_resources_raise();
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    assert_true(limit.rlim_cur == limit.rlim_max);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_private_folder_is_made_closed),
        cmocka_unit_test(test_other_folders_are_left_alone),
        cmocka_unit_test(test_small_limits_are_named),
        cmocka_unit_test(test_the_descriptor_limit_is_raised),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
