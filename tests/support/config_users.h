/* SPDX-License-Identifier: Apache-2.0 */
/* For tests of broker/config*: a users file of the test's own. Threads: owner. Memory: static. */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char users_path[] = "/tmp/amb-users-XXXXXX";

/* For the group of tests. */
static inline int users_setup(void **state)
{
    (void)state;
    int fd = mkstemp(users_path);
    return fd < 0 || close(fd) != 0;
}

static inline int users_teardown(void **state)
{
    (void)state;
    return unlink(users_path);
}

static inline void users_write(const char *text)
{
    FILE *file = fopen(users_path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(chmod(users_path, 0600), 0);
}

/* A configuration that names the file in its first line, and has `more` behind it. */
static inline const char *users_named(const char *more)
{
    static char text[1024];
    (void)snprintf(text, sizeof(text), "auth = { users = \"%s\"; };\n%s\n", users_path, more);
    return text;
}
