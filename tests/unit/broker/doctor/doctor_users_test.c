/* SPDX-License-Identifier: Apache-2.0 */
/* The doctor's findings on a users file and on the audit log. */
#include "broker/doctor/doctor_users.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#define DAY_S 86400

static char folder[] = "/tmp/amb-doctor-XXXXXX";
static char path[64];

static int setup(void **state)
{
    (void)state;
    (void)snprintf(path, sizeof(path), "%s/users", mkdtemp(folder));
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    (void)unlink(path);
    return rmdir(folder);
}

static void write_text(const char *text, mode_t mode)
{
    static time_t second = 1000;
    second++;
    const struct timespec times[2] = {{.tv_sec = second}, {.tv_sec = second}};
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    assert_int_equal(fchmod(fd, mode), 0);
    assert_int_equal(futimens(fd, times), 0);
    assert_int_equal(close(fd), 0);
}

static struct amb_auth_users *load(const char *text)
{
    char why[AMB_AUTH_WHY_MAX];
    struct amb_auth_users *users = NULL;
    write_text(text, 0600);
    assert_int_equal(amb_auth_users_load(path, NULL, why, sizeof(why), &users), AMB_OK);
    return users;
}

/* rows: given back. */
static void finds(json_t *rows, size_t count, const char *how, const char *part)
{
    bool is_found = false;
    assert_int_equal(json_array_size(rows), count);
    for (size_t i = 0; i < count; i++) {
        const json_t *row = json_array_get(rows, i);
        is_found =
            is_found || (strcmp(json_string_value(json_object_get(row, "state")), how) == 0 &&
                         strstr(json_string_value(json_object_get(row, "finding")), part) != NULL);
    }
    if (!is_found) {
        char *text = json_dumps(rows, 0);
        fail_msg("no \"%s\" in %s", part, text);
    }
    json_decref(rows);
}

static json_t *look(const struct amb_auth_users *users, int64_t now_s)
{
    json_t *rows = json_array();
    amb_doctor_users(users, path, now_s, rows);
    return rows;
}

static void test_the_file(void **state)
{
    (void)state;
    json_t *rows = look(NULL, 0);
    assert_int_equal(json_array_size(rows), 0);
    json_decref(rows);
    struct amb_auth_users *users = load("a:t:-:-:-:-\nb:t:-:-:-:-\n");
    finds(look(users, 0), 1, "ok", "2 users of ");
    write_text("a:t:-:-:-:-\n", 0600);
    finds(look(users, 0), 1, "warning", "is newer than what is in use");
    write_text("a:t\n", 0600);
    finds(look(users, 0), 1, "error", "users:1: roles missing");
    write_text("a:t:-:-:-:-\n", 0640);
    finds(look(users, 0), 1, "error", "can be read by others");
    assert_int_equal(unlink(path), 0);
    finds(look(users, 0), 1, "error", "is not there any more");
    amb_auth_users_unref(&users);
}

static void test_users_who_expire(void **state)
{
    (void)state;
    struct amb_auth_users *users = load("a:t:-:-:until=2027-06-30:-\nb:t:-:-:until=2027-12-31:-\n"
                                        "c:t:-:-:until=2020-01-01,off:-\n");
    int64_t end_s = amb_auth_users_find(users, "a")->until_s;
    finds(look(users, end_s - 31 * DAY_S), 1, "ok", "3 users");
    finds(look(users, end_s - 6 * DAY_S), 2, "warning",
          "1 users expire within 30 days, and 0 have expired; the first one is a (6 days)");
    finds(look(users, end_s), 2, "warning", "0 users expire within 30 days, and 1 have expired");
    amb_auth_users_unref(&users);
}

static json_t *look_at_log(const struct amb_audit *audit)
{
    json_t *rows = json_array();
    amb_doctor_audit(audit, rows);
    return rows;
}

static void test_the_audit_log(void **state)
{
    (void)state;
    static struct amb_audit audit;
    json_t *rows = look_at_log(NULL);
    assert_int_equal(json_array_size(rows), 0);
    json_decref(rows);
    finds(look_at_log(&audit), 1, "ok", "each entry is written");
    atomic_store(&audit.lost, 3);
    finds(look_at_log(&audit), 1, "warning", "3 entries were not written");
    atomic_store(&audit.trouble, ENOSPC);
    finds(look_at_log(&audit), 1, "error", "No space left on device");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_file),
        cmocka_unit_test(test_users_who_expire),
        cmocka_unit_test(test_the_audit_log),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
