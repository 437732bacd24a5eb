/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/audit/audit_file.h"

#include "wire/base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#define SHOWN_MAX 160u /* bytes of a path in a reason */

static enum amb_status fail(char *why, const char *path, const char *what, const char *reason)
{
    char shown[SHOWN_MAX];
    (void)snprintf(why, AMB_AUDIT_WHY_MAX, "%s %s%s", amb_text_show(path, shown, sizeof(shown)),
                   what, reason);
    return AMB_EINVAL;
}

/* Why such a file is not to be trusted; NULL: it is. */
static const char *fault_of(const struct stat *st)
{
    if (!S_ISREG(st->st_mode)) {
        return "is not a regular file";
    }
    if ((st->st_mode & 0022) != 0) {
        return "can be written by others (allowed mode 0644 or stricter)";
    }
    return st->st_uid != 0 && st->st_uid != geteuid() ? "is another user's" : NULL;
}

enum amb_status amb_audit_file_open(const char *path, struct amb_audit_file *out,
                                    char why[AMB_AUDIT_WHY_MAX])
{
    struct stat st;
    /* A pipe without a reader is an error, and no wait. */
    int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0600);
    if (fd < 0 || fstat(fd, &st) != 0) {
        int error = errno;
        if (fd >= 0) {
            (void)close(fd);
        }
        return fail(why, path, "cannot be opened: ", strerrordesc_np(error));
    }
    const char *fault = fault_of(&st);
    if (fault != NULL) {
        (void)close(fd);
        return fail(why, path, fault, "");
    }
    *out = (struct amb_audit_file){.fd = fd};
    return AMB_OK;
}

/* Takes a part of a line away again. */
static void cut(struct amb_audit_file *file, off_t at)
{
    file->is_torn = ftruncate(file->fd, at) != 0;
}

int amb_audit_file_append(struct amb_audit_file *file, const char *line, size_t len,
                          bool is_lasting)
{
    struct stat st;
    if (fstat(file->fd, &st) != 0) {
        return errno;
    }
    const struct iovec parts[] = {
        {.iov_base = (void *)(uintptr_t) "\n", .iov_len = file->is_torn ? 1 : 0},
        {.iov_base = (void *)(uintptr_t)line, .iov_len = len}};
    size_t wanted = len + parts[0].iov_len;
    ssize_t written;
    do {
        written = writev(file->fd, parts, 2);
    } while (written < 0 && errno == EINTR);
    if (written == (ssize_t)wanted) {
        file->is_torn = false;
        if (!is_lasting || fdatasync(file->fd) == 0) {
            return 0;
        }
        int error = errno;
        cut(file, st.st_size);
        return error;
    }
    int error = written < 0 ? errno : ENOSPC;
    if (written > 0) {
        cut(file, st.st_size);
    }
    return error;
}

void amb_audit_file_close(struct amb_audit_file *file)
{
    if (file->fd >= 0) {
        (void)close(file->fd);
    }
    file->fd = -1;
}
