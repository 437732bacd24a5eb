/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Each code of the driver's header. Our table has it as its comment says. A device is fenced by it,
 * or is not. The fake driver keeps to the same.
 */
#include "tests/fakecuda/fakecuda.h"
#include "wire/mem/cuda.h"
#include "wire/mem/cuda_errors.h"

#include <ctype.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define CODES 1000

/* The codes of the header, read from it. */
static struct header {
    char name[CODES][64]; /* "": no such code */
    bool is_final[CODES]; /* the process, or the context, is of no use any more */
} header;

/* Where the header is silent, or speaks of one context; and why a device is fenced all the same. */
static const struct silent {
    int code;
    const char *why;
} silent[] = {
    {CUDA_ERROR_ECC_UNCORRECTABLE, "bytes have changed"},
    {CUDA_ERROR_NVLINK_UNCORRECTABLE, "bytes have changed"},
    {CUDA_ERROR_CONTEXT_IS_DESTROYED, "our primary context, and all in it"},
};

static bool is_silent(int code)
{
    for (size_t i = 0; i < sizeof(silent) / sizeof(silent[0]); i++) {
        if (silent[i].code == code) {
            return true;
        }
    }
    return false;
}

/* One comment as a line: single spaces, no stars. */
static void append(char *text, size_t size, const char *line)
{
    size_t len = strlen(text);
    for (; *line != '\0' && len + 2 < size; line++) {
        bool is_gap = isspace((unsigned char)*line) || *line == '*' || *line == '/';
        if (!is_gap || (len != 0 && text[len - 1] != ' ')) {
            text[len++] = is_gap ? ' ' : *line;
        }
    }
    text[len] = '\0';
}

static void read_header(void)
{
    char line[512];
    char comment[4096] = "";
    bool is_inside = false;
    FILE *file = fopen(AMB_CUDA_HEADER, "r");
    assert_non_null(file);
    while (fgets(line, sizeof(line), file) != NULL && strstr(line, "} CUresult;") == NULL) {
        char name[64];
        int code;
        is_inside = is_inside || strstr(line, "enum cudaError_enum") != NULL;
        if (!is_inside) {
            continue;
        }
        if (sscanf(line, " CUDA_%63[A-Z0-9_] = %d", name, &code) != 2) {
            append(comment, sizeof(comment), line);
            continue;
        }
        assert_in_range(code, 0, CODES - 1);
        memcpy(header.name[code], name, sizeof(name));
        header.is_final[code] = strstr(comment, "process must be terminated") != NULL ||
                                strstr(comment, "context cannot be used anymore") != NULL;
        comment[0] = '\0';
    }
    (void)fclose(file);
}

static void test_each_code_is_what_the_header_says(void **state)
{
    (void)state;
    unsigned known = 0, final = 0;
    for (int code = 0; code < CODES; code++) {
        bool should = header.is_final[code] || is_silent(code);
        known += header.name[code][0] != '\0';
        final += header.is_final[code];
        if (header.name[code][0] != '\0' && amb_cuda_is_sticky((CUresult)code) != should) {
            fail_msg("%d (%s) is %s", code, header.name[code], should ? "sticky" : "not sticky");
        }
    }
    assert_true(known >= 90);
    assert_true(final >= 13);
}

static void test_codes_without_a_name_are_not_sticky(void **state)
{
    (void)state;
    for (int code = -1; code <= 100000; code++) {
        bool is_named = code >= 0 && code < CODES && header.name[code][0] != '\0';
        assert_true(is_named || !amb_cuda_is_sticky((CUresult)code));
    }
}

/* Bits: the call failed, the device is fenced, a later call fails at the driver too. */
static int answer_in_child(int code)
{
    struct amb_cuda *device = NULL;
    struct amb_cuda_scope scope;
    CUdeviceptr own = 0;
    uint64_t memory = 0;
    char plan[32];
    if (amb_cuda_at(0, &device) != AMB_OK || amb_cuda_enter(device, &scope) != AMB_OK) {
        return 64;
    }
    (void)snprintf(plan, sizeof(plan), "cuMemAlloc:1=%d", code);
    fakecuda_fail(plan);
    int result = amb_cuda_alloc(device, 64, &memory) != AMB_OK ? 1 : 0;
    result |= amb_cuda_is_sound(device) ? 0 : 2;
    CUresult later = cuMemAlloc(&own, 64);
    result |= later == CUDA_SUCCESS ? 0 : 4;
    return later == CUDA_SUCCESS || (int)later == code ? result : 64;
}

static void test_device_is_fenced_by_sticky_errors_alone_and_the_fake_keeps_to_it(void **state)
{
    (void)state;
    for (int code = 1; code < CODES; code++) {
        if (header.name[code][0] == '\0') {
            continue;
        }
        pid_t pid = fork();
        if (pid == 0) {
            _exit(answer_in_child(code));
        }
        int status = 0;
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFEXITED(status));
        int should = header.is_final[code] || is_silent(code) ? 1 | 2 | 4 : 1;
        if (WEXITSTATUS(status) != should) {
            fail_msg("%d (%s): %d, should be %d", code, header.name[code], WEXITSTATUS(status),
                     should);
        }
    }
}

int main(void)
{
    (void)setenv(AMB_CUDA_LIBRARY_ENV, AMB_FAKECUDA, 1);
    if (CUDA_VERSION < 13000) {
        return 77; /* Its comments have other words, and codes are missing. */
    }
    read_header();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_code_is_what_the_header_says),
        cmocka_unit_test(test_codes_without_a_name_are_not_sticky),
        cmocka_unit_test(test_device_is_fenced_by_sticky_errors_alone_and_the_fake_keeps_to_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
