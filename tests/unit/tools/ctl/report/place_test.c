/* SPDX-License-Identifier: Apache-2.0 */
/* Under test: tools/ctl/report/place: whole or not at all, and nothing overwritten. */
#include "tools/ctl/report/place.h"

#include <dirent.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

struct folder {
    char path[64], file[80];
};

static int set_up(void **state)
{
    static struct folder folder;
    strcpy(folder.path, "/tmp/amb-place-XXXXXX");
    assert_non_null(mkdtemp(folder.path));
    (void)snprintf(folder.file, sizeof(folder.file), "%s/report.tar", folder.path);
    *state = &folder;
    return 0;
}

/* How many files there are. */
static size_t count(const struct folder *folder)
{
    size_t files = 0;
    DIR *stream = opendir(folder->path);
    struct dirent *entry;
    while ((entry = readdir(stream)) != NULL) {
        files += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
    }
    (void)closedir(stream);
    return files;
}

static int tear_down(void **state)
{
    struct folder *folder = *state;
    (void)unlink(folder->file);
    assert_int_equal(rmdir(folder->path), 0);
    return 0;
}

static void write_text(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    (void)fputs(text, file);
    assert_int_equal(fclose(file), 0);
}

static void check_text(const char *path, const char *text)
{
    char found[32] = "";
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    assert_non_null(fgets(found, sizeof(found), file));
    (void)fclose(file);
    assert_string_equal(found, text);
}

static void test_a_file_is_there_at_its_end(void **state)
{
    struct folder *folder = *state;
    struct amb_place place;
    struct stat there;
    mode_t mask = umask(0);
    assert_int_equal(amb_place_open(&place, folder->file, false), AMB_EXIT_OK);
    assert_int_not_equal(access(folder->file, F_OK), 0);
    (void)fputs("whole", place.out);
    assert_int_equal(amb_place_keep(&place), AMB_EXIT_OK);
    (void)umask(mask);
    amb_place_drop(&place);
    check_text(folder->file, "whole");
    assert_int_equal(stat(folder->file, &there), 0);
    assert_int_equal(there.st_mode & 07777, 0600);
    assert_int_equal(count(folder), 1);
}

static void test_a_dropped_one_leaves_nothing(void **state)
{
    struct folder *folder = *state;
    struct amb_place place;
    assert_int_equal(amb_place_open(&place, folder->file, false), AMB_EXIT_OK);
    (void)fputs("half", place.out);
    amb_place_drop(&place);
    assert_int_equal(count(folder), 0);
}

static void test_nothing_is_overwritten(void **state)
{
    struct folder *folder = *state;
    struct amb_place place;
    write_text(folder->file, "theirs");
    assert_int_equal(amb_place_open(&place, folder->file, false), AMB_EXIT_DATA);
    check_text(folder->file, "theirs");
    (void)unlink(folder->file);
    /* One that comes while the report is made. */
    assert_int_equal(amb_place_open(&place, folder->file, false), AMB_EXIT_OK);
    write_text(folder->file, "theirs");
    assert_int_equal(amb_place_keep(&place), AMB_EXIT_DATA);
    check_text(folder->file, "theirs");
    assert_int_equal(count(folder), 1);
    assert_int_equal(amb_place_open(&place, folder->file, true), AMB_EXIT_OK);
    (void)fputs("ours", place.out);
    assert_int_equal(amb_place_keep(&place), AMB_EXIT_OK);
    check_text(folder->file, "ours");
    assert_int_equal(count(folder), 1);
}

static void test_links_and_folders_stay(void **state)
{
    struct folder *folder = *state;
    struct amb_place place;
    char other[80];
    (void)snprintf(other, sizeof(other), "%s/other", folder->path);
    write_text(other, "theirs");
    assert_int_equal(symlink(other, folder->file), 0);
    assert_int_equal(amb_place_open(&place, folder->file, false), AMB_EXIT_DATA);
    assert_int_equal(amb_place_open(&place, folder->file, true), AMB_EXIT_DATA);
    check_text(other, "theirs");
    (void)unlink(folder->file);
    /* A link that leads nowhere is there, too. */
    (void)unlink(other);
    assert_int_equal(symlink(other, folder->file), 0);
    assert_int_equal(amb_place_open(&place, folder->file, false), AMB_EXIT_DATA);
    assert_int_equal(amb_place_open(&place, folder->path, true), AMB_EXIT_DATA);
}

static void test_places_that_are_none(void **state)
{
    (void)state;
    struct amb_place place;
    static char name[PATH_MAX + 8];
    memset(name, 'n', sizeof(name) - 1);
    assert_int_equal(amb_place_open(&place, name, false), AMB_EXIT_USAGE);
    assert_int_equal(amb_place_open(&place, "/none/such/report.tar", false), AMB_EXIT_SOFTWARE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_file_is_there_at_its_end, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_dropped_one_leaves_nothing, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_nothing_is_overwritten, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_links_and_folders_stay, set_up, tear_down),
        cmocka_unit_test(test_places_that_are_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
