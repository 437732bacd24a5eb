/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/base/file.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* False: it does not fit, so no such file can be opened. */
static bool join(char full[PATH_MAX], const char *root, const char *path)
{
    int len = snprintf(full, PATH_MAX, "%s%s", root, path);
    return len > 0 && len < PATH_MAX;
}

bool amb_file_line(const char *root, const char *path, char *out, size_t size)
{
    char full[PATH_MAX];
    FILE *file = join(full, root, path) ? fopen(full, "re") : NULL;
    bool is_read = file != NULL && fgets(out, (int)size, file) != NULL;
    if (file != NULL) {
        (void)fclose(file);
    }
    if (is_read) {
        out[strcspn(out, "\n")] = '\0';
    }
    return is_read;
}

bool amb_file_may(const char *root, const char *path, int mode)
{
    char full[PATH_MAX];
    return join(full, root, path) && access(full, mode) == 0;
}
