/* SPDX-License-Identifier: Apache-2.0 */
/* A folder of the test's that stands for a machine: files of UCX libraries, and sysfs. */
#pragma once

#include "tests/support/link/ucx_file.h"

#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>
#include <sys/stat.h>

static char tree_root[64];

/* A path in the tree; the folders above it are made. Valid until the next but seven. */
static inline const char *tree_path(const char *path)
{
    static char rows[8][PATH_MAX + sizeof(tree_root)];
    static unsigned next;
    char *full = rows[next++ % 8];
    (void)snprintf(full, sizeof(rows[0]), "%s/%s", tree_root, path);
    for (char *at = strchr(full + strlen(tree_root) + 1, '/'); at != NULL;
         at = strchr(at + 1, '/')) {
        *at = '\0';
        (void)mkdir(full, 0755);
        *at = '/';
    }
    return full;
}

static inline void tree_file(const char *path, const void *bytes, size_t len)
{
    FILE *file = fopen(tree_path(path), "w");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, len, file), len);
    assert_int_equal(fclose(file), 0);
}

static inline void tree_text(const char *path, const char *text)
{
    tree_file(path, text, strlen(text));
}

static inline void tree_link(const char *path, const char *target)
{
    assert_int_equal(symlink(target, tree_path(path)), 0);
}

/* A UCX in that folder; modules as "ib,cuda". */
static inline void tree_ucx(const char *folder, const char *release, const char *modules)
{
    char path[PATH_MAX];
    struct ucx_file file;
    ucx_file_init(&file, release);
    (void)snprintf(path, sizeof(path), "%s/libucp.so.0", folder);
    tree_file(path, &file, sizeof(file));
    static const char *const all[] = {"ib", "cuda"};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        if (strstr(modules, all[i]) != NULL) {
            (void)snprintf(path, sizeof(path), "%s/ucx/libuct_%s.so.0", folder, all[i]);
            tree_text(path, "");
        }
    }
}

static inline int tree_remove(void **state)
{
    (void)state;
    char command[128];
    (void)snprintf(command, sizeof(command), "rm -rf '%s'", tree_root);
    return system(command);
}

static inline int tree_make(void **state)
{
    (void)state;
    (void)strcpy(tree_root, "/tmp/amb-tree-XXXXXX");
    return mkdtemp(tree_root) != NULL ? 0 : -1;
}
