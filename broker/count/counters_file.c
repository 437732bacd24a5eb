/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/count/counters_file.h"

#include "broker/count/counters.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#define OLD ".old"
#define NEW ".new"

static int fail(char why[AMB_COUNTERS_WHY_MAX], const char *what)
{
    (void)snprintf(why, AMB_COUNTERS_WHY_MAX, "%s: %s", what, strerror(errno));
    return -1;
}

/* The file that is there: its broker has ended, or it is refused. A reader cannot hold a lock: it
 * may not write. True: there is none, or it may be put aside. */
static bool is_abandoned(const char *path, char why[AMB_COUNTERS_WHY_MAX])
{
    int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
    struct stat st;
    if (fd < 0) {
        if (errno == ENOENT) {
            return true;
        }
        (void)fail(why, "the file that is there");
        return false;
    }
    bool is_free = false;
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) {
        (void)snprintf(why, AMB_COUNTERS_WHY_MAX, "the file that is there is no regular one");
    } else if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
        (void)snprintf(why, AMB_COUNTERS_WHY_MAX, "a broker that runs has that file");
    } else {
        is_free = true;
    }
    (void)close(fd);
    return is_free;
}

bool amb_counters_file_is_in_memory(const char *path)
{
    struct statfs fs;
    return statfs(path, &fs) == 0 && (fs.f_type == TMPFS_MAGIC || fs.f_type == RAMFS_MAGIC);
}

/* Made whole under another name: nobody sees a part of it. */
static int file_make(const char *path, const struct amb_counters_options *options, size_t size,
                     char why[AMB_COUNTERS_WHY_MAX])
{
    (void)unlink(path);
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) {
        return fail(why, "it cannot be made");
    }
    int error = 0;
    if (options->must_be_in_memory && !amb_counters_file_is_in_memory(path)) {
        (void)snprintf(why, AMB_COUNTERS_WHY_MAX, "%s", AMB_COUNTERS_ON_DISK);
    } else if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
        (void)fail(why, "it cannot be locked");
    } else if ((error = posix_fallocate(fd, 0, (off_t)size)) != 0) {
        errno = error;
        (void)fail(why, "there is no room for it");
    } else if (options->group != (gid_t)-1 && fchown(fd, (uid_t)-1, options->group) != 0) {
        (void)fail(why, "it cannot have the group of the socket");
    } else if (fchmod(fd, options->mode) != 0) {
        (void)fail(why, "it cannot have its mode");
    } else {
        return fd;
    }
    (void)unlink(path);
    (void)close(fd);
    return -1;
}

int amb_counters_file_open(const struct amb_counters_options *options, size_t size,
                           char why[AMB_COUNTERS_WHY_MAX])
{
    char old[AMB_COUNTERS_PATH_MAX + sizeof(OLD)], made[AMB_COUNTERS_PATH_MAX + sizeof(NEW)];
    (void)snprintf(old, sizeof(old), "%s" OLD, options->path);
    (void)snprintf(made, sizeof(made), "%s" NEW, options->path);
    if (!is_abandoned(options->path, why)) {
        return -1;
    }
    int fd = file_make(made, options, size, why);
    if (fd < 0) {
        return -1;
    }
    if (rename(options->path, old) != 0 && errno != ENOENT) {
        (void)fail(why, "the file that is there cannot be renamed");
    } else if (rename(made, options->path) != 0) {
        (void)fail(why, "it cannot be renamed");
    } else {
        return fd;
    }
    (void)unlink(made);
    (void)close(fd);
    return -1;
}
