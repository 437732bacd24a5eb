/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/auth/users_file.h"

#include "wire/auth/private_file.h"
#include "wire/base/clock.h"
#include "wire/base/file.h"
#include "wire/base/temp_file.h"
#include "wire/base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#define SHOWN_MAX 160u /* bytes of a path in a reason */
#define ASK_MS 10      /* a lock of others is asked for so often */
#define FIRST_TEXT "# name:tenant:roles:quota:flags:credentials\n"

static enum amb_status fail(char *why, enum amb_status status, const char *path, const char *format,
                            ...) __attribute__((format(printf, 4, 5)));

static enum amb_status fail(char *why, enum amb_status status, const char *path, const char *format,
                            ...)
{
    char shown[SHOWN_MAX];
    int len =
        snprintf(why, AMB_USERS_TEXT_WHY_MAX, "%s ", amb_text_show(path, shown, sizeof(shown)));
    va_list args;
    va_start(args, format);
    (void)vsnprintf(why + len, AMB_USERS_TEXT_WHY_MAX - (size_t)len, format, args);
    va_end(args);
    return status;
}

/* ---- the file is made ---- */

/* Of two makers at once one has the name, and both go on with that file. */
static enum amb_status make(const char *path, char *why)
{
    const struct amb_temp_file_end end = {.leaves_others = true};
    if (amb_temp_file_replace(path, FIRST_TEXT, strlen(FIRST_TEXT), 0600, &end) ||
        errno == EEXIST) {
        return AMB_OK;
    }
    return fail(why, AMB_EINVAL, path, "cannot be made: %s", strerrordesc_np(errno));
}

/* ---- the lock ---- */

static bool lock(int fd, int64_t deadline_ns)
{
    while (flock(fd, LOCK_EX | LOCK_NB) != 0) {
        if ((errno != EWOULDBLOCK && errno != EINTR) || amb_clock_monotonic_ns() >= deadline_ns) {
            return false;
        }
        (void)poll(NULL, 0, ASK_MS);
    }
    return true;
}

/* Does the name still mean that file? Its former holder may have replaced it. */
static bool is_named(const char *path, const struct stat *st)
{
    struct stat now;
    return stat(path, &now) == 0 && now.st_dev == st->st_dev && now.st_ino == st->st_ino;
}

static enum amb_status open_locked(struct amb_users_file *file, int64_t timeout_ns, char *why)
{
    int64_t deadline_ns = amb_deadline_ns(amb_clock_monotonic_ns(), timeout_ns);
    for (;;) {
        int fd = open(file->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
        if (fd < 0 || fstat(fd, &file->st) != 0) {
            int error = errno;
            if (fd >= 0) {
                (void)close(fd);
            }
            return fail(why, AMB_EINVAL, file->path, "cannot be read: %s", strerrordesc_np(error));
        }
        if (!S_ISREG(file->st.st_mode)) {
            (void)close(fd);
            return fail(why, AMB_EINVAL, file->path, "is not a regular file");
        }
        if (!lock(fd, deadline_ns)) {
            int error = errno;
            (void)close(fd);
            return error == EWOULDBLOCK
                       ? fail(why, AMB_EBUSY, file->path, "is being edited by another program")
                       : fail(why, AMB_EINVAL, file->path, "cannot be locked: %s",
                              strerrordesc_np(error));
        }
        if (is_named(file->path, &file->st)) {
            file->fd = fd;
            return AMB_OK;
        }
        (void)close(fd);
    }
}

/* ---- open ---- */

static enum amb_status read_text(struct amb_users_file *file, char *why)
{
    struct amb_private_file content;
    /* Root edits the file of the broker's user: that file is not root's. */
    enum amb_status status =
        amb_private_file_read_any(file->path, AMB_USERS_TEXT_MAX, geteuid() == 0, &content, why);
    if (status == AMB_OK) {
        file->text = content.text;
        file->len = content.len;
    }
    return status;
}

enum amb_status amb_users_file_open(const char *path, enum amb_users_file_how how,
                                    int64_t timeout_ns, struct amb_users_file *out,
                                    char why[AMB_USERS_TEXT_WHY_MAX])
{
    enum amb_status status = AMB_OK;
    *out = (struct amb_users_file){.path = NULL};
    if (how == AMB_USERS_FILE_MAKE && access(path, F_OK) != 0 && errno == ENOENT) {
        status = make(path, why);
    }
    if (status == AMB_OK) {
        out->path = realpath(path, NULL);
        if (out->path == NULL) {
            status = fail(why, AMB_EINVAL, path, "cannot be read: %s", strerrordesc_np(errno));
        }
    }
    if (status == AMB_OK && how != AMB_USERS_FILE_READ) {
        status = open_locked(out, timeout_ns, why);
    }
    if (status == AMB_OK) {
        status = read_text(out, why);
    }
    if (status != AMB_OK) {
        amb_users_file_close(out);
    }
    return status;
}

/* ---- replace ---- */

enum amb_status amb_users_file_replace(struct amb_users_file *file, const char *text, size_t len,
                                       char why[AMB_USERS_TEXT_WHY_MAX])
{
    const struct amb_temp_file_end end = {.mode = file->st.st_mode & 0777, .former = &file->st};
    struct amb_temp_file temp;
    if (!amb_temp_file_create(&temp, file->path, 0600)) {
        return fail(why, AMB_EINVAL, file->path,
                    "cannot be edited: no file can be made in its folder: %s",
                    strerrordesc_np(errno));
    }
    if (!amb_file_write(temp.fd, text, len) || !amb_temp_file_rename(&temp, &end)) {
        int error = errno;
        amb_temp_file_drop(&temp);
        return fail(why, AMB_EINVAL, file->path,
                    "cannot be edited: its new text is not written: %s", strerrordesc_np(error));
    }
    return AMB_OK;
}

void amb_users_file_close(struct amb_users_file *file)
{
    if (file->fd > 0) {
        (void)close(file->fd);
    }
    free(file->path);
    free(file->text);
    *file = (struct amb_users_file){.path = NULL};
}
