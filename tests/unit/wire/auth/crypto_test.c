/* SPDX-License-Identifier: Apache-2.0 */
/* Without memory for libcrypto's own context, an algorithm is not asked for. */
#include "wire/auth/crypto.h"

#include <openssl/crypto.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static unsigned failing_in; /* 0: none fails */

static void *allocate(size_t size, const char *file, int line)
{
    (void)file, (void)line;
    if (failing_in != 0 && --failing_in == 0) {
        return NULL;
    }
    return malloc(size);
}

static void *allocate_again(void *memory, size_t size, const char *file, int line)
{
    (void)file, (void)line;
    if (failing_in != 0 && --failing_in == 0) {
        return NULL;
    }
    return realloc(memory, size);
}

static void give_back(void *memory, const char *file, int line)
{
    (void)file, (void)line;
    free(memory);
}

/* A process begins once, so each of these is one: 0 it has begun, 1 it has not, 2 the allocation
 * was not reached. */
static int begin_without(unsigned number)
{
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        failing_in = number;
        bool has_begun = amb_crypto_begin();
        bool was_reached = failing_in == 0;
        failing_in = 0;
        if (has_begun != amb_crypto_begin()) {
            _exit(3); /* It stays so. */
        }
        _exit(!was_reached ? 2 : !has_begun);
    }
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void test_a_lack_of_memory_is_told_and_no_crash(void **state)
{
    (void)state;
    unsigned refused = 0;
    int how = 0;
    for (unsigned i = 1; how != 2; i++) {
        how = begin_without(i);
        assert_in_range(how, 0, 2);
        refused += how == 1;
    }
    assert_true(refused > 3);
}

static void test_it_begins(void **state)
{
    (void)state;
    assert_true(amb_crypto_begin());
    assert_true(amb_crypto_begin());
}

int main(void)
{
    if (CRYPTO_set_mem_functions(allocate, allocate_again, give_back) != 1) {
        return 1;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_lack_of_memory_is_told_and_no_crash),
        cmocka_unit_test(test_it_begins),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
