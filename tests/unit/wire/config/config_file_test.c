/* SPDX-License-Identifier: Apache-2.0 */
/* Files of every wrong kind, and those that may be included. */
#include "tests/support/config_try.h"

#include <sys/stat.h>
#include <unistd.h>

static char folder[512];
#define FOLDER_LEN (sizeof("/tmp/amb-config-XXXXXX") - 1)

static int make_folder(void **state)
{
    (void)state;
    (void)strcpy(folder, "/tmp/amb-config-XXXXXX");
    return mkdtemp(folder) == NULL ? -1 : 0;
}

static int remove_folder(void **state)
{
    (void)state;
    char command[600];
    (void)snprintf(command, sizeof(command), "rm -rf '%s'", folder);
    return system(command);
}

static char *path_of(const char *name)
{
    static char path[600];
    (void)snprintf(path, sizeof(path), "%s/%s", folder, name);
    return path;
}

static void write_file(const char *name, const char *text, size_t len)
{
    FILE *file = fopen(path_of(name), "w");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, len, file), len);
    assert_int_equal(fclose(file), 0);
}

static struct amb_config_source source_of(const char *name)
{
    return (struct amb_config_source){.path = path_of(name), .machine = &try_machine};
}

static void refuse_file(const char *name, const char *text, const char *part)
{
    if (text != NULL) {
        write_file(name, text, strlen(text));
    }
    struct amb_config_source source = source_of(name);
    try_refuse_with(&source, part);
}

static void test_a_file_is_read_with_its_name_and_line(void **state)
{
    (void)state;
    const char *text = "server = { workers = 2; };\nlimits = { max_topics = 5; };\n";
    write_file("good.conf", text, strlen(text));
    struct amb_config_source source = source_of("good.conf");
    struct amb_config *config = try_accept_source(&source);
    assert_int_equal(config->server.workers, 2);
    char where[256], expected[256];
    amb_config_where(config, "limits.max_topics", where, sizeof(where));
    (void)snprintf(expected, sizeof(expected), "%s:2", path_of("good.conf"));
    assert_string_equal(where, expected);
    amb_config_where(config, "limits.window", where, sizeof(where));
    assert_string_equal(where, "default");
    amb_config_destroy(&config);
}

static void test_an_empty_file_is_all_defaults(void **state)
{
    (void)state;
    write_file("empty.conf", "", 0);
    struct amb_config_source source = source_of("empty.conf");
    struct amb_config *config = try_accept_source(&source);
    assert_int_equal(config->limits.max_topics, 10000);
    amb_config_destroy(&config);
}

static void test_what_is_no_file_is_refused(void **state)
{
    (void)state;
    refuse_file("missing.conf", NULL, "/missing.conf: cannot be read: No such file or directory");
    struct amb_config_source source = {.path = folder, .machine = &try_machine};
    try_refuse_with(&source, "is a directory (allowed a file)");
    source.path = "/dev/null";
    try_refuse_with(&source, "/dev/null: is not a regular file");
    source.path = "";
    try_refuse_with(&source, "cannot be read");
    assert_int_equal(mkfifo(path_of("fifo.conf"), 0600), 0);
    refuse_file("fifo.conf", NULL, "is not a regular file");
}

static void test_a_huge_file_is_refused_unread(void **state)
{
    (void)state;
    write_file("huge.conf", "", 0);
    assert_int_equal(truncate(path_of("huge.conf"), INT64_C(1) << 30), 0);
    refuse_file("huge.conf", NULL, "file too large (got 1G, allowed 1M)");
}

static void test_a_binary_file_is_refused(void **state)
{
    (void)state;
    write_file("binary.conf", "\n\x01\x00\x02", 4);
    refuse_file("binary.conf", NULL, "binary.conf:2: has a NUL byte: not a text file");
}

/* A file that grows after its size was taken: the kernel says 0 of this one. */
static void test_a_part_of_a_file_is_refused(void **state)
{
    (void)state;
    struct amb_config_source source = {.path = "/proc/version", .machine = &try_machine};
    try_refuse_with(&source, "/proc/version: has changed while it was read");
}

static void test_a_long_name_keeps_its_line(void **state)
{
    (void)state;
    char name[128];
    for (unsigned i = 0; i < 3; i++) {
        memset(name, 'x', 100);
        name[100] = '\0';
        size_t len = strlen(folder);
        (void)snprintf(folder + len, sizeof(folder) - len, "/%s", name);
        assert_int_equal(mkdir(folder, 0700), 0);
    }
    refuse_file("bad\nname.conf", "\nlimits = { max_topics = 0; };\n",
                "xxx/bad?name.conf:2: limits.max_topics: out of range");
    folder[FOLDER_LEN] = '\0';
}

static void test_include_takes_a_neighbour(void **state)
{
    (void)state;
    const char *part = "\nlimits = { max_topics = 0; };\n";
    write_file("part.conf", part, strlen(part));
    refuse_file("main.conf", "@include \"part.conf\"\n", "part.conf:2: limits.max_topics: out of");
    part = "limits = { max_topics = 8; };\n";
    write_file("part.conf", part, strlen(part));
    struct amb_config_source source = source_of("main.conf");
    struct amb_config *config = try_accept_source(&source);
    assert_int_equal(config->limits.max_topics, 8);
    amb_config_destroy(&config);
}

static void test_include_stays_in_its_folder(void **state)
{
    (void)state;
    refuse_file("a.conf", "\n@include \"/etc/passwd\"\n",
                "a.conf:2: @include: \"/etc/passwd\" is not relative to the file's folder");
    refuse_file("a.conf", "  @include\t\"../x\"\n", "\"../x\" leaves the file's folder");
    refuse_file("a.conf", "@include \"sub/../../x\"\n", "leaves the file's folder");
    refuse_file("a.conf", "@include \"sub/..\"\n", "leaves the file's folder");
    refuse_file("a.conf", "@include \"a\\\\b\"\n", "has a backslash");
    refuse_file("a.conf", "@include \"\"\n", "is not relative");
    refuse_file("a.conf", "@include \"none.conf\"\n", "/none.conf: cannot be read");
    refuse_file("a.conf", "@include \".\"\n", "is a directory");
}

static void test_include_ends(void **state)
{
    (void)state;
    refuse_file("loop.conf", "@include \"loop.conf\"\n", "is nested too deep (allowed 4 levels)");
    write_file("leaf.conf", "", 0);
    char text[4096] = "";
    for (int i = 0; i < 65; i++) {
        (void)strcat(text, "@include \"leaf.conf\"\n");
    }
    refuse_file("wide.conf", text, "wide.conf:65: @include: \"leaf.conf\" is one too many");
}

static void test_text_without_a_file_includes_nothing(void **state)
{
    (void)state;
    try_refuse("@include \"part.conf\"\n",
               "configuration:1: @include: \"part.conf\" is not possible here");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_file_is_read_with_its_name_and_line),
        cmocka_unit_test(test_an_empty_file_is_all_defaults),
        cmocka_unit_test(test_what_is_no_file_is_refused),
        cmocka_unit_test(test_a_huge_file_is_refused_unread),
        cmocka_unit_test(test_a_binary_file_is_refused),
        cmocka_unit_test(test_a_part_of_a_file_is_refused),
        cmocka_unit_test(test_a_long_name_keeps_its_line),
        cmocka_unit_test(test_include_takes_a_neighbour),
        cmocka_unit_test(test_include_stays_in_its_folder),
        cmocka_unit_test(test_include_ends),
        cmocka_unit_test(test_text_without_a_file_includes_nothing),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
