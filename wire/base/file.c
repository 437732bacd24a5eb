/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
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

bool amb_file_sync_folder(const char *path)
{
    const char *slash = strrchr(path, '/');
    char *folder = slash == NULL ? strdup(".") : strndup(path, (size_t)(slash - path) + 1);
    int fd = folder == NULL ? -1 : open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool is_good = fd >= 0 && fsync(fd) == 0;
    int error = errno;
    if (fd >= 0) {
        (void)close(fd);
    }
    free(folder);
    errno = error;
    return is_good;
}

bool amb_file_write(int fd, const void *bytes, size_t len)
{
    for (size_t sent = 0; sent < len;) {
        ssize_t n = write(fd, (const char *)bytes + sent, len - sent);
        if (n < 0 && errno != EINTR) {
            return false;
        }
        sent += n > 0 ? (size_t)n : 0;
    }
    return true;
}
