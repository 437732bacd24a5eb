/* SPDX-License-Identifier: Apache-2.0 */
/* The files of a quick start: made once, as a whole, for nobody else; and where there is no place.
 */
#include "broker/quick.h"

#include "wire/auth/credentials_file.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char home[] = "/tmp/amb-quick-XXXXXX";
static char variable[64], command[128];
static const char *const environment[] = {variable, NULL};

static int setup(void **state)
{
    (void)state;
    (void)memcpy(home + sizeof(home) - 7, "XXXXXX", 6);
    if (mkdtemp(home) == NULL) {
        return -1;
    }
    (void)snprintf(variable, sizeof(variable), "HOME=%s", home);
    (void)snprintf(command, sizeof(command), "rm -r %s", home);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    return system(command);
}

static struct amb_url url_of(const char *text)
{
    struct amb_url url;
    char error[160];
    assert_int_equal(amb_url_parse(text, &url, error, sizeof(error)), AMB_OK);
    return url;
}

static void start(const char *door, struct amb_config_quick *files)
{
    char why[AMB_CONFIG_QUICK_WHY_MAX] = "";
    struct amb_url url = url_of(door);
    if (amb_quick_start(&url, environment, files, why) != AMB_OK) {
        fail_msg("%s", why);
    }
}

static void read_credentials(struct amb_credentials *out)
{
    char path[128], why[AMB_PRIVATE_WHY_MAX];
    bool is_file;
    (void)snprintf(path, sizeof(path), "%s/.local/state/ambroker/dev/dev.cred", home);
    if (amb_credentials_read(path, out, &is_file, why) != AMB_OK) {
        fail_msg("%s", why);
    }
    assert_true(is_file);
}

static void test_files_are_made_once(void **state)
{
    (void)state;
    struct amb_config_quick files, again;
    struct amb_credentials credentials;
    struct stat st, later;
    start("tls://127.0.0.1:4733", &files);
    assert_int_equal(stat(files.key, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    assert_int_equal(stat(files.users, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    read_credentials(&credentials);
    assert_string_equal(credentials.url, "tls://127.0.0.1:4733");
    assert_string_equal(credentials.user, "dev");
    assert_non_null(credentials.ca);
    assert_non_null(credentials.signer);
    amb_credentials_fini(&credentials);
    start("tls://127.0.0.1:4734", &again);
    assert_string_equal(again.key, files.key);
    assert_int_equal(stat(files.users, &later), 0);
    assert_true(later.st_ino == st.st_ino && later.st_mtim.tv_nsec == st.st_mtim.tv_nsec);
}

static void test_the_url_is_of_use_to_others(void **state)
{
    (void)state;
    struct amb_config_quick files;
    struct amb_credentials credentials;
    start("tls://0.0.0.0:4733", &files);
    read_credentials(&credentials);
    assert_null(strstr(credentials.url, "0.0.0.0"));
    assert_null(strstr(credentials.url, "127.0.0.1")); /* "localhost", if there is no other. */
    assert_non_null(strstr(credentials.url, ":4733"));
    amb_credentials_fini(&credentials);
}

static void test_a_port_that_is_not_known_leaves_the_url_out(void **state)
{
    (void)state;
    struct amb_config_quick files;
    struct amb_credentials credentials;
    start("tls://127.0.0.1:0", &files);
    read_credentials(&credentials);
    assert_null(credentials.url);
    amb_credentials_fini(&credentials);
}

static void refuses(const char *const *with, const char *words)
{
    struct amb_config_quick files;
    char why[AMB_CONFIG_QUICK_WHY_MAX] = "";
    struct amb_url url = url_of("tls://127.0.0.1:1");
    assert_int_equal(amb_quick_start(&url, with, &files, why), AMB_EINVAL);
    if (strstr(why, words) == NULL) {
        fail_msg("\"%s\" is not in: %s", words, why);
    }
}

static void test_a_folder_that_others_may_write_to_is_refused(void **state)
{
    (void)state;
    char path[128];
    static const char *const nothing[] = {NULL};
    static const char *const nowhere[] = {"HOME=/proc/nowhere", NULL};
    refuses(nothing, "HOME is not set");
    refuses(nowhere, "cannot be made");
    (void)snprintf(path, sizeof(path), "%s/.local", home);
    assert_int_equal(mkdir(path, 0700), 0);
    (void)snprintf(path, sizeof(path), "%s/.local/state", home);
    assert_int_equal(mkdir(path, 0700), 0);
    (void)snprintf(path, sizeof(path), "%s/.local/state/ambroker", home);
    assert_int_equal(mkdir(path, 0777), 0);
    assert_int_equal(chmod(path, 0777), 0);
    refuses(environment, "must be a folder of this user that nobody else may write to");
    assert_int_equal(rmdir(path), 0);
    assert_int_equal(symlink("/tmp", path), 0);
    refuses(environment, "must be a folder of this user");
}

static void test_a_state_folder_that_is_not_there_is_made(void **state)
{
    (void)state;
    struct amb_config_quick files;
    struct stat st;
    char variable_of_state[128], folder[96], why[AMB_CONFIG_QUICK_WHY_MAX] = "";
    const char *const with[] = {variable_of_state, variable, NULL};
    struct amb_url url = url_of("tls://127.0.0.1:1");
    mode_t before = umask(0);
    (void)snprintf(folder, sizeof(folder), "%s/deep/state", home);
    (void)snprintf(variable_of_state, sizeof(variable_of_state), "XDG_STATE_HOME=%s", folder);
    enum amb_status status = amb_quick_start(&url, with, &files, why);
    (void)umask(before);
    if (status != AMB_OK) {
        fail_msg("%s", why);
    }
    assert_true(strncmp(files.users, folder, strlen(folder)) == 0);
    assert_int_equal(stat(folder, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0700);
    (void)snprintf(variable_of_state, sizeof(variable_of_state), "XDG_STATE_HOME=/proc/none/state");
    refuses(with, "/proc/none cannot be made");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_files_are_made_once, setup, teardown),
        cmocka_unit_test_setup_teardown(test_the_url_is_of_use_to_others, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_port_that_is_not_known_leaves_the_url_out, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_a_folder_that_others_may_write_to_is_refused, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_a_state_folder_that_is_not_there_is_made, setup,
                                        teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
