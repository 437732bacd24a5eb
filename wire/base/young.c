/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/base/young.h"

#include "wire/base/file.h"
#include "wire/base/hash.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define NAME_PART 200 /* bytes of the name in the other one, which has at most 255 */

/* "FOLDER/.NAME.NUMBER". False: it does not fit. */
static bool name_beside(struct amb_young *young)
{
    uint64_t number;
    const char *slash = strrchr(young->path, '/');
    int folder = slash == NULL ? 0 : (int)(slash - young->path) + 1;
    amb_random_bytes(&number, sizeof(number));
    int len = snprintf(young->beside, sizeof(young->beside), "%.*s.%.*s.%016" PRIx64, folder,
                       young->path, NAME_PART, young->path + folder, number);
    return len > 0 && (size_t)len < sizeof(young->beside);
}

bool amb_young_begin(struct amb_young *young, const char *path, mode_t mode)
{
    young->fd = -1;
    int len = snprintf(young->path, sizeof(young->path), "%s", path);
    if (len < 0 || (size_t)len >= sizeof(young->path) || !name_beside(young)) {
        errno = ENAMETOOLONG;
        return false;
    }
    young->fd = open(young->beside, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
    return young->fd >= 0;
}

/* Bytes, owner and mode are on the disk before the name is. */
static bool finish(const struct amb_young *young, const struct amb_young_end *end)
{
    const struct stat *former = end->former;
    bool is_owned = former == NULL ||
                    (former->st_uid == geteuid() && former->st_gid == getegid()) ||
                    fchown(young->fd, former->st_uid, former->st_gid) == 0;
    return is_owned && (end->mode == 0 || fchmod(young->fd, end->mode) == 0) &&
           fsync(young->fd) == 0;
}

static bool take_name(const struct amb_young *young, bool leaves_others)
{
    if (!leaves_others) {
        return rename(young->beside, young->path) == 0;
    }
    if (renameat2(AT_FDCWD, young->beside, AT_FDCWD, young->path, RENAME_NOREPLACE) == 0) {
        return true;
    }
    /* Some file systems do not know that. */
    if (errno != EINVAL || link(young->beside, young->path) != 0) {
        return false;
    }
    (void)unlink(young->beside);
    return true;
}

bool amb_young_take(struct amb_young *young, const struct amb_young_end *end)
{
    bool is_whole = finish(young, end);
    int error = errno;
    if (close(young->fd) != 0 && is_whole) {
        is_whole = false;
        error = errno;
    }
    young->fd = -1;
    if (is_whole && take_name(young, end->leaves_others)) {
        (void)amb_file_sync_folder(young->path); /* It has the name in any case. */
        return true;
    }
    error = is_whole ? errno : error;
    (void)unlink(young->beside);
    errno = error;
    return false;
}

void amb_young_drop(struct amb_young *young)
{
    int error = errno;
    if (young->fd >= 0) {
        (void)close(young->fd);
        (void)unlink(young->beside);
        young->fd = -1;
    }
    errno = error;
}

bool amb_young_write(const char *path, const void *bytes, size_t len, mode_t mode,
                     const struct amb_young_end *end)
{
    struct amb_young young;
    if (!amb_young_begin(&young, path, mode)) {
        return false;
    }
    if (!amb_file_write(young.fd, bytes, len)) {
        amb_young_drop(&young);
        return false;
    }
    return amb_young_take(&young, end);
}
