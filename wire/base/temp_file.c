/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/base/temp_file.h"

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
static bool name_beside(struct amb_temp_file *temp, const char *last)
{
    const char *slash = strrchr(temp->path, '/');
    int folder = slash == NULL ? 0 : (int)(slash - temp->path) + 1;
    int len = snprintf(temp->beside, sizeof(temp->beside), "%.*s.%.*s.%s", folder, temp->path,
                       NAME_PART, temp->path + folder, last);
    return len > 0 && (size_t)len < sizeof(temp->beside);
}

static int make_beside(const struct amb_temp_file *temp, mode_t mode)
{
    return open(temp->beside, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
}

/* This program has its lock, and it still has the name: nobody else writes to it. */
static bool is_held(const struct amb_temp_file *temp, int fd)
{
    struct stat ours, named;
    return flock(fd, LOCK_EX | LOCK_NB) == 0 && fstat(fd, &ours) == 0 &&
           lstat(temp->beside, &named) == 0 && ours.st_ino == named.st_ino &&
           ours.st_dev == named.st_dev;
}

static bool may_lock(int fd)
{
    return flock(fd, LOCK_EX | LOCK_NB) == 0 || errno == EWOULDBLOCK;
}

/* One that a killed program has left goes. False: it is somebody's. */
static bool clear_beside(const struct amb_temp_file *temp)
{
    struct stat st;
    int fd = open(temp->beside, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    bool is_left = fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) &&
                   (st.st_uid == geteuid() || geteuid() == 0) && is_held(temp, fd) &&
                   unlink(temp->beside) == 0;
    if (fd >= 0) {
        (void)close(fd);
    }
    return is_left;
}

/* The name that the next program clears, if this one is killed. */
static int begin_shared(struct amb_temp_file *temp, mode_t mode)
{
    if (!name_beside(temp, "new")) {
        return -1;
    }
    for (unsigned i = 0; i < TRIES; i++) {
        int fd = make_beside(temp, mode);
        if (fd >= 0 && is_held(temp, fd)) {
            return fd;
        }
        if (fd >= 0) {
            bool are_locks = may_lock(fd);
            (void)close(fd);
            if (!are_locks) { /* So nobody would clear it. */
                (void)unlink(temp->beside);
                return -1;
            } /* Else another program has taken it for one that was left, and clears it. */
        } else if (errno != EEXIST || !clear_beside(temp)) {
            return -1;
        }
    }
    return -1;
}

/* Somebody has the shared name now. */
static int begin_alone(struct amb_temp_file *temp, mode_t mode)
{
    uint64_t number;
    char last[17];
    amb_random_bytes(&number, sizeof(number));
    (void)snprintf(last, sizeof(last), "%016" PRIx64, number);
    if (!name_beside(temp, last)) {
        errno = ENAMETOOLONG;
        return -1;
    }
    return make_beside(temp, mode);
}

bool amb_temp_file_create(struct amb_temp_file *temp, const char *path, mode_t mode)
{
    temp->fd = -1;
    int len = snprintf(temp->path, sizeof(temp->path), "%s", path);
    if (len < 0 || (size_t)len >= sizeof(temp->path)) {
        errno = ENAMETOOLONG;
        return false;
    }
    temp->fd = begin_shared(temp, mode);
    if (temp->fd < 0) {
        temp->fd = begin_alone(temp, mode);
    }
    return temp->fd >= 0;
}

/* Bytes, owner and mode are on the disk before the name is. */
static bool finish(const struct amb_temp_file *temp, const struct amb_temp_file_end *end)
{
    const struct stat *former = end->former;
    bool is_owned = former == NULL ||
                    (former->st_uid == geteuid() && former->st_gid == getegid()) ||
                    fchown(temp->fd, former->st_uid, former->st_gid) == 0;
    return is_owned && (end->mode == 0 || fchmod(temp->fd, end->mode) == 0) && fsync(temp->fd) == 0;
}

static bool take_name(const struct amb_temp_file *temp, bool leaves_others)
{
    if (!leaves_others) {
        return rename(temp->beside, temp->path) == 0;
    }
    if (renameat2(AT_FDCWD, temp->beside, AT_FDCWD, temp->path, RENAME_NOREPLACE) == 0) {
        return true;
    }
    /* Some file systems do not know that. */
    if (errno != EINVAL || link(temp->beside, temp->path) != 0) {
        return false;
    }
    (void)unlink(temp->beside);
    return true;
}

bool amb_temp_file_rename(struct amb_temp_file *temp, const struct amb_temp_file_end *end)
{
    if (!finish(temp, end) || !take_name(temp, end->leaves_others)) {
        amb_temp_file_drop(temp);
        return false;
    }
    (void)close(temp->fd); /* Not before: its lock keeps others from the name that it had. */
    temp->fd = -1;
    (void)amb_file_sync_folder(temp->path); /* It has the name in any case. */
    return true;
}

void amb_temp_file_drop(struct amb_temp_file *temp)
{
    int error = errno;
    if (temp->fd >= 0) {
        (void)unlink(temp->beside);
        (void)close(temp->fd);
        temp->fd = -1;
    }
    errno = error;
}

bool amb_temp_file_replace(const char *path, const void *bytes, size_t len, mode_t mode,
                           const struct amb_temp_file_end *end)
{
    struct amb_temp_file temp;
    if (!amb_temp_file_create(&temp, path, mode)) {
        return false;
    }
    if (!amb_file_write(temp.fd, bytes, len)) {
        amb_temp_file_drop(&temp);
        return false;
    }
    return amb_temp_file_rename(&temp, end);
}
