/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/base/young.h"

#include "wire/base/file.h"
#include "wire/base/hash.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define NAME_PART 200 /* bytes of the name in the other one, which has at most 255 */
#define TRIES 3u      /* others may begin the same file at the same time */

/* "FOLDER/.NAME.LAST". False: it does not fit. */
static bool name_beside(struct amb_young *young, const char *last)
{
    const char *slash = strrchr(young->path, '/');
    int folder = slash == NULL ? 0 : (int)(slash - young->path) + 1;
    int len = snprintf(young->beside, sizeof(young->beside), "%.*s.%.*s.%s", folder, young->path,
                       NAME_PART, young->path + folder, last);
    return len > 0 && (size_t)len < sizeof(young->beside);
}

static int make_beside(const struct amb_young *young, mode_t mode)
{
    return open(young->beside, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
}

/* This program has its lock, and it still has the name: nobody else writes to it. */
static bool is_held(const struct amb_young *young, int fd)
{
    struct stat ours, named;
    return flock(fd, LOCK_EX | LOCK_NB) == 0 && fstat(fd, &ours) == 0 &&
           lstat(young->beside, &named) == 0 && ours.st_ino == named.st_ino &&
           ours.st_dev == named.st_dev;
}

static bool may_lock(int fd)
{
    return flock(fd, LOCK_EX | LOCK_NB) == 0 || errno == EWOULDBLOCK;
}

/* One that a killed program has left goes. False: it is somebody's. */
static bool clear_beside(const struct amb_young *young)
{
    struct stat st;
    int fd = open(young->beside, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    bool is_left = fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) &&
                   (st.st_uid == geteuid() || geteuid() == 0) && is_held(young, fd) &&
                   unlink(young->beside) == 0;
    if (fd >= 0) {
        (void)close(fd);
    }
    return is_left;
}

/* The name that the next program clears, if this one is killed. */
static int begin_shared(struct amb_young *young, mode_t mode)
{
    if (!name_beside(young, "new")) {
        return -1;
    }
    for (unsigned i = 0; i < TRIES; i++) {
        int fd = make_beside(young, mode);
        if (fd >= 0 && is_held(young, fd)) {
            return fd;
        }
        if (fd >= 0) {
            bool are_locks = may_lock(fd);
            (void)close(fd);
            if (!are_locks) { /* So nobody would clear it. */
                (void)unlink(young->beside);
                return -1;
            } /* Else another program has taken it for one that was left, and clears it. */
        } else if (errno != EEXIST || !clear_beside(young)) {
            return -1;
        }
    }
    return -1;
}

/* Somebody has the shared name now. */
static int begin_alone(struct amb_young *young, mode_t mode)
{
    uint64_t number;
    char last[17];
    amb_random_bytes(&number, sizeof(number));
    (void)snprintf(last, sizeof(last), "%016" PRIx64, number);
    if (!name_beside(young, last)) {
        errno = ENAMETOOLONG;
        return -1;
    }
    return make_beside(young, mode);
}

bool amb_young_begin(struct amb_young *young, const char *path, mode_t mode)
{
    young->fd = -1;
    int len = snprintf(young->path, sizeof(young->path), "%s", path);
    if (len < 0 || (size_t)len >= sizeof(young->path)) {
        errno = ENAMETOOLONG;
        return false;
    }
    young->fd = begin_shared(young, mode);
    if (young->fd < 0) {
        young->fd = begin_alone(young, mode);
    }
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
    if (!finish(young, end) || !take_name(young, end->leaves_others)) {
        amb_young_drop(young);
        return false;
    }
    (void)close(young->fd); /* Not before: its lock keeps others from the name that it had. */
    young->fd = -1;
    (void)amb_file_sync_folder(young->path); /* It has the name in any case. */
    return true;
}

void amb_young_drop(struct amb_young *young)
{
    int error = errno;
    if (young->fd >= 0) {
        (void)unlink(young->beside);
        (void)close(young->fd);
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
