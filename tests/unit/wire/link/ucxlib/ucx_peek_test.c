/* SPDX-License-Identifier: Apache-2.0 */
/* Files that are libraries, and files that are not; the release that stands in one. */
#include "wire/link/ucxlib/ucx_peek.h"

#include "tests/support/link/ucx_file.h"
#include "wire/link/ucxlib/ucx_release.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>
#include <sys/stat.h>

static char root[64];
static char file[96];

static int make_root(void **state)
{
    (void)state;
    (void)strcpy(root, "/tmp/amb-peek-XXXXXX");
    if (mkdtemp(root) == NULL) {
        return -1;
    }
    (void)snprintf(file, sizeof(file), "%s/libucp.so.0", root);
    return 0;
}

static int remove_root(void **state)
{
    (void)state;
    char command[128];
    (void)snprintf(command, sizeof(command), "rm -rf '%s'", root);
    return system(command);
}

static void write_file(const void *bytes, size_t len)
{
    FILE *stream = fopen(file, "w");
    assert_non_null(stream);
    assert_int_equal(fwrite(bytes, 1, len, stream), len);
    assert_int_equal(fclose(stream), 0);
}

static void expect_problem(const char *path, const char *word)
{
    const char *problem = amb_ucx_peek_problem(path);
    assert_non_null(problem);
    if (strstr(problem, word) == NULL) {
        fail_msg("'%s' does not say '%s'", problem, word);
    }
}

static void test_what_is_no_library_is_told_apart(void **state)
{
    (void)state;
    char path[160];
    struct ucx_file library;
    ucx_file_init(&library, "1.22.0");
    (void)unlink(file);
    expect_problem(file, "no such file");
    (void)snprintf(path, sizeof(path), "%s/deeper", file);
    expect_problem(path, "no such file");
    expect_problem(root, "no file of a library");
    write_file("", 0);
    expect_problem(file, "no shared library");
    write_file("#!/bin/sh\n", 10);
    expect_problem(file, "no shared library");
    write_file(&library, sizeof(ElfW(Ehdr)) - 1);
    expect_problem(file, "no shared library");
    library.head.e_type = ET_EXEC;
    write_file(&library, sizeof(library));
    expect_problem(file, "no shared library");
    library.head.e_type = ET_DYN;
    library.head.e_machine ^= 0x55;
    write_file(&library, sizeof(library));
    expect_problem(file, "another kind of machine");
    (void)unlink(file);
    assert_int_equal(mkfifo(file, 0600), 0); /* It is not waited for. */
    expect_problem(file, "no file of a library");
    assert_int_equal(unlink(file), 0);
    ucx_file_init(&library, "1.22.0");
    write_file(&library, sizeof(library));
    assert_null(amb_ucx_peek_problem(file));
    assert_int_equal(amb_ucx_peek_release("/nonexistent"), 0);
    assert_int_equal(amb_ucx_peek_release(root), 0);
}

static void test_the_release_is_the_one_text_of_that_form(void **state)
{
    (void)state;
    static const struct {
        const char *text; /* behind a NUL, and a NUL follows */
        uint32_t release;
    } texts[] = {
        {"1.22.0", AMB_UCX_RELEASE(1, 22, 0)},
        {"A1.13.1", AMB_UCX_RELEASE(1, 13, 1)}, /* Constants lie side by side. */
        {"12.34.56", AMB_UCX_RELEASE(12, 34, 56)},
        {"1.22", 0},
        {"1.22.0.1", 0},
        {"1.22.0-rc1", 0},
        {"1.22.", 0},
        {".1.22.0", 0},
        {"1..22", 0},
        {"100.1.1", 0},
        {"1.100.1", 0},
        {"1.1.100", 0},
        {"GLIBC_2.2.5", 0},
        {"", 0},
        {"00000000000000000000000000000", 0},
    };
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        struct ucx_file library;
        ucx_file_init(&library, texts[i].text);
        write_file(&library, sizeof(library));
        if (amb_ucx_peek_release(file) != texts[i].release) {
            fail_msg("\"%s\": %x", texts[i].text, amb_ucx_peek_release(file));
        }
    }
}

static void test_two_releases_are_none(void **state)
{
    (void)state;
    struct ucx_file library;
    ucx_file_init(&library, "1.22.0");
    (void)strcpy(library.text + 100, "1.22.0");
    write_file(&library, sizeof(library));
    assert_int_equal(amb_ucx_peek_release(file), AMB_UCX_RELEASE(1, 22, 0));
    (void)strcpy(library.text + 200, "1.21.0");
    write_file(&library, sizeof(library));
    assert_int_equal(amb_ucx_peek_release(file), 0);
}

/* It is found wherever it lies in what is mapped, across the pieces that are read; and not behind.
 */
static void test_the_place_does_not_matter_within_what_is_mapped(void **state)
{
    (void)state;
    const size_t base = offsetof(struct ucx_file, text);
    for (size_t at = 16384 - base - 12; at < 16384 - base + 2; at++) {
        struct ucx_file library;
        ucx_file_init(&library, "");
        (void)strcpy(library.text + at, "1.19.3");
        write_file(&library, sizeof(library));
        assert_int_equal(amb_ucx_peek_release(file), AMB_UCX_RELEASE(1, 19, 3));
    }
    struct ucx_file library;
    ucx_file_init(&library, "");
    size_t last = sizeof(library.text) - 7;
    (void)strcpy(library.text + last, "1.19.3");
    write_file(&library, sizeof(library));
    assert_int_equal(amb_ucx_peek_release(file), AMB_UCX_RELEASE(1, 19, 3));
    library.segment.p_filesz -= 16; /* Symbols for debuggers are not read. */
    write_file(&library, sizeof(library));
    assert_int_equal(amb_ucx_peek_release(file), 0);
    library.head.e_phoff = sizeof(library); /* Of nothing: a table that is not there. */
    write_file(&library, sizeof(library));
    assert_int_equal(amb_ucx_peek_release(file), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_no_library_is_told_apart),
        cmocka_unit_test(test_the_release_is_the_one_text_of_that_form),
        cmocka_unit_test(test_two_releases_are_none),
        cmocka_unit_test(test_the_place_does_not_matter_within_what_is_mapped),
    };
    return cmocka_run_group_tests(tests, make_root, remove_root);
}
