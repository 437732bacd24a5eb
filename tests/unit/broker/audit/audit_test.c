/* SPDX-License-Identifier: Apache-2.0 */
/* The thread of the audit log: lines, answers, folding, another file, and a disk that is full. */
#include "broker/audit/audit.h"

#include "wire/base/clock.h"
#include "wire/base/list.h"

#include <errno.h>
#include <jansson.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char folder[] = "/tmp/amb-audit-XXXXXX";
static char path[64], other[64], why[AMB_AUDIT_WHY_MAX];
static struct amb_inbox inbox;
static unsigned answers;
static int last_trouble;

static int setup(void **state)
{
    (void)state;
    (void)signal(SIGXFSZ, SIG_IGN);
    (void)snprintf(path, sizeof(path), "%s/audit", mkdtemp(folder));
    (void)snprintf(other, sizeof(other), "%s/other", folder);
    return amb_inbox_init(&inbox, NULL) == AMB_OK ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    amb_inbox_fini(&inbox);
    (void)unlink(path);
    (void)unlink(other);
    return rmdir(folder);
}

static void start(struct amb_audit *audit)
{
    struct amb_audit_file file;
    (void)unlink(path);
    memset(audit, 0, sizeof(*audit));
    assert_int_equal(amb_audit_file_open(path, &file, why), AMB_OK);
    assert_int_equal(amb_audit_start(audit, &file, path), AMB_OK);
}

static void answered(struct amb_mail *mail, void *owner)
{
    (void)owner;
    last_trouble = AMB_CONTAINER_OF(mail, struct amb_audit_answer, mail)->trouble;
    answers++;
}

/* errno of its line, when it is there or is known not to be. */
static int record(struct amb_audit *audit, const char *what)
{
    struct amb_audit_answer answer = {.to = &inbox, .fn = answered};
    struct amb_audit_entry entry = {.event = AMB_AUDIT_COMMAND};
    (void)snprintf(entry.what, sizeof(entry.what), "%s", what);
    unsigned before = answers;
    assert_true(amb_audit_note(audit, &entry, &answer));
    while (answers == before) {
        bool may_sleep = amb_inbox_arm(&inbox);
        struct pollfd bell = {.fd = inbox.bell, .events = POLLIN};
        assert_true(!may_sleep || poll(&bell, 1, 10000) == 1);
        amb_inbox_disarm(&inbox, true);
        (void)amb_inbox_run(&inbox);
    }
    return last_trouble;
}

static void note(struct amb_audit *audit, enum amb_audit_event event, const char *user)
{
    struct amb_audit_entry entry = {.event = event};
    (void)snprintf(entry.user, sizeof(entry.user), "%s", user);
    assert_true(amb_audit_note(audit, &entry, NULL));
}

/* The lines of a file, as an array. */
static json_t *lines_of(const char *from)
{
    json_t *lines = json_array();
    FILE *file = fopen(from, "re");
    assert_non_null(file);
    char *line = NULL;
    size_t size = 0;
    while (getline(&line, &size, file) > 0) {
        json_t *json = json_loads(line, 0, NULL);
        assert_non_null(json);
        assert_int_equal(json_array_append_new(lines, json), 0);
    }
    free(line);
    assert_int_equal(fclose(file), 0);
    return lines;
}

static void test_lines_come_in_order_and_repeats_at_the_end(void **state)
{
    (void)state;
    static struct amb_audit audit;
    start(&audit);
    note(&audit, AMB_AUDIT_LOGIN, "a");
    for (unsigned i = 0; i < 20; i++) {
        note(&audit, AMB_AUDIT_REFUSED, "b");
    }
    assert_int_equal(record(&audit, "kick 1"), 0);
    json_t *lines = lines_of(path);
    assert_int_equal(json_array_size(lines), 3);
    json_decref(lines);
    note(&audit, AMB_AUDIT_LOGIN, "c");
    amb_audit_stop(&audit);
    amb_audit_stop(&audit);
    lines = lines_of(path);
    assert_int_equal(json_array_size(lines), 5);
    const json_t *last = json_array_get(lines, 4);
    assert_string_equal(json_string_value(json_object_get(last, "user")), "b");
    assert_int_equal(json_integer_value(json_object_get(last, "count")), 19);
    json_decref(lines);
}

static void test_a_crowd_of_logins_is_folded(void **state)
{
    (void)state;
    static struct amb_audit audit;
    start(&audit);
    int64_t began_ns = amb_clock_monotonic_ns();
    for (unsigned i = 0; i < 1000; i++) {
        note(&audit, AMB_AUDIT_LOGIN, "a");
    }
    assert_int_equal(record(&audit, "x"), 0);
    uint64_t seconds = 2 + (uint64_t)((amb_clock_monotonic_ns() - began_ns) / AMB_NS_PER_SEC);
    assert_true(atomic_load(&audit.lines) <= seconds * (AMB_AUDIT_LOGINS_MAX + 1) + 1);
    amb_audit_stop(&audit);
    json_t *lines = lines_of(path);
    size_t i;
    const json_t *line;
    uint64_t count = 0;
    json_array_foreach(lines, i, line)
    {
        if (strcmp(json_string_value(json_object_get(line, "event")), "login") == 0) {
            uint64_t more = (uint64_t)json_integer_value(json_object_get(line, "count"));
            count += more == 0 ? 1 : more;
        }
    }
    assert_int_equal(count, 1000);
    json_decref(lines);
}

static void test_a_full_disk_is_told_and_heals(void **state)
{
    (void)state;
    static struct amb_audit audit;
    struct rlimit size, before;
    start(&audit);
    assert_int_equal(record(&audit, "one"), 0);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    size = before;
    size.rlim_cur = 100;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &size), 0);
    int trouble = record(&audit, "two");
    note(&audit, AMB_AUDIT_LOGIN, "a");
    int again = record(&audit, "three");
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_true(trouble == EFBIG || trouble == ENOSPC);
    assert_int_not_equal(again, 0);
    assert_int_equal(atomic_load(&audit.lost), 3);
    assert_int_not_equal(atomic_load(&audit.trouble), 0);
    assert_int_equal(record(&audit, "four"), 0);
    assert_int_equal(atomic_load(&audit.trouble), 0);
    json_t *lines = lines_of(path);
    assert_int_equal(json_array_size(lines), 3);
    const json_t *lost = json_array_get(lines, 1);
    assert_string_equal(json_string_value(json_object_get(lost, "event")), "lost");
    assert_int_equal(json_integer_value(json_object_get(lost, "count")), 3);
    json_decref(lines);
    amb_audit_stop(&audit);
}

static void test_another_file_and_the_same_anew(void **state)
{
    (void)state;
    static struct amb_audit audit;
    struct amb_audit_file file;
    char moved[80];
    (void)snprintf(moved, sizeof(moved), "%s.1", path);
    start(&audit);
    assert_int_equal(record(&audit, "one"), 0);
    assert_int_equal(rename(path, moved), 0);
    assert_int_equal(record(&audit, "two"), 0);
    amb_audit_reopen(&audit);
    assert_int_equal(record(&audit, "three"), 0);
    json_t *old = lines_of(moved), *young = lines_of(path);
    assert_int_equal(json_array_size(old), 2);
    assert_int_equal(json_array_size(young), 1);
    json_decref(old);
    json_decref(young);
    assert_int_equal(unlink(moved), 0);
    /* A name that cannot be opened: the file stays. */
    assert_int_equal(rename(path, moved), 0);
    assert_int_equal(mkdir(path, 0700), 0);
    amb_audit_reopen(&audit);
    assert_int_equal(record(&audit, "four"), 0);
    assert_int_equal(rmdir(path), 0);
    old = lines_of(moved);
    assert_int_equal(json_array_size(old), 2);
    json_decref(old);
    assert_int_equal(unlink(moved), 0);
    assert_int_equal(amb_audit_file_open(other, &file, why), AMB_OK);
    amb_audit_use(&audit, &file, other);
    assert_int_equal(record(&audit, "five"), 0);
    young = lines_of(other);
    assert_int_equal(json_array_size(young), 1);
    json_decref(young);
    /* None any more: nothing is in the way of commands. */
    amb_audit_use(&audit, &(struct amb_audit_file){.fd = -1}, "");
    assert_int_equal(record(&audit, "six"), 0);
    amb_audit_stop(&audit);
    young = lines_of(other);
    assert_int_equal(json_array_size(young), 1);
    json_decref(young);
}

static void test_without_a_thread_nothing_is_taken(void **state)
{
    (void)state;
    static struct amb_audit audit;
    const struct amb_audit_entry entry = {.event = AMB_AUDIT_LOGIN};
    assert_false(amb_audit_note(&audit, &entry, NULL));
    assert_int_equal(atomic_load(&audit.lost), 1);
    amb_audit_reopen(&audit);
    amb_audit_stop(&audit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lines_come_in_order_and_repeats_at_the_end),
        cmocka_unit_test(test_a_crowd_of_logins_is_folded),
        cmocka_unit_test(test_a_full_disk_is_told_and_heals),
        cmocka_unit_test(test_another_file_and_the_same_anew),
        cmocka_unit_test(test_without_a_thread_nothing_is_taken),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
