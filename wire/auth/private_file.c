/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/auth/private_file.h"

#include "wire/base/file.h"
#include "wire/base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SHOWN_MAX 160u /* bytes of a path in a reason */
#define NS_PER_S INT64_C(1000000000)

/* Writes "PATH ..." and returns EINVAL. */
static enum amb_status complain(char *why, const char *path, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static enum amb_status complain(char *why, const char *path, const char *format, ...)
{
    char shown[SHOWN_MAX];
    int len = snprintf(why, AMB_PRIVATE_WHY_MAX, "%s ", amb_text_show(path, shown, sizeof(shown)));
    va_list args;
    va_start(args, format);
    (void)vsnprintf(why + len, AMB_PRIVATE_WHY_MAX - (size_t)len, format, args);
    va_end(args);
    return AMB_EINVAL;
}

static bool check_mode(const char *path, const struct stat *st, char *why)
{
    if ((st->st_mode & 0077) != 0) {
        (void)complain(why, path, "can be read by others (got mode %04o, allowed 0600 or stricter)",
                       (unsigned)st->st_mode & 07777);
        return false;
    }
    return true;
}

bool amb_private_file_check(const char *path, const struct stat *st, char why[AMB_PRIVATE_WHY_MAX])
{
    if (!check_mode(path, st, why)) {
        return false;
    }
    if (st->st_uid != 0 && st->st_uid != geteuid()) {
        (void)complain(why, path, "is another user's (got uid %u, allowed %u or 0)",
                       (unsigned)st->st_uid, (unsigned)geteuid());
        return false;
    }
    return true;
}

static enum amb_status check(const char *path, const struct stat *st, size_t max, bool is_any_owner,
                             char *why)
{
    if (!S_ISREG(st->st_mode)) {
        return complain(why, path, "is not a regular file");
    }
    bool is_good = is_any_owner ? check_mode(path, st, why) : amb_private_file_check(path, st, why);
    if (!is_good) {
        return AMB_EINVAL;
    }
    if (st->st_size < 0 || (uint64_t)st->st_size > max) {
        return complain(why, path, "is too large (allowed %zu bytes)", max);
    }
    return AMB_OK;
}

/* All of it. A file that grows meanwhile is cut at its former end. */
static enum amb_status read_all(int fd, const char *path, size_t size, struct amb_private_file *out,
                                char *why)
{
    out->text = malloc(size + 1);
    if (out->text == NULL) {
        (void)complain(why, path, "cannot be read: no memory");
        return AMB_ENOMEM;
    }
    ssize_t got = 1;
    while (out->len < size && got > 0) {
        got = read(fd, out->text + out->len, size - out->len);
        out->len += got > 0 ? (size_t)got : 0;
    }
    out->text[out->len] = '\0';
    if (got < 0) {
        enum amb_status status = complain(why, path, "cannot be read: %s", strerrordesc_np(errno));
        amb_private_file_free(out);
        return status;
    }
    return AMB_OK;
}

enum amb_status amb_private_file_read(const char *path, size_t max, struct amb_private_file *out,
                                      char why[AMB_PRIVATE_WHY_MAX])
{
    return amb_private_file_read_any(path, max, false, out, why);
}

enum amb_status amb_private_file_read_any(const char *path, size_t max, bool is_any_owner,
                                          struct amb_private_file *out,
                                          char why[AMB_PRIVATE_WHY_MAX])
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    struct stat st;
    *out = (struct amb_private_file){0};
    if (fd < 0 || fstat(fd, &st) != 0) {
        int error = errno;
        if (fd >= 0) {
            (void)close(fd);
        }
        return complain(why, path, "cannot be read: %s", strerrordesc_np(error));
    }
    enum amb_status status = check(path, &st, max, is_any_owner, why);
    if (status == AMB_OK) {
        status = read_all(fd, path, (size_t)st.st_size, out, why);
    }
    out->modified_ns = (int64_t)st.st_mtim.tv_sec * NS_PER_S + st.st_mtim.tv_nsec;
    (void)close(fd);
    return status;
}

void amb_private_file_free(struct amb_private_file *file)
{
    if (file->text != NULL) {
        explicit_bzero(file->text, file->len);
        free(file->text);
    }
    *file = (struct amb_private_file){0};
}

void amb_private_text_free(char *text)
{
    if (text != NULL) {
        explicit_bzero(text, strlen(text));
        free(text);
    }
}

static enum amb_status create(const char *path, const char *text, mode_t mode, char *why)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0) {
        return complain(why, path, "cannot be made: %s", strerrordesc_np(errno));
    }
    bool is_good =
        amb_file_write(fd, text, strlen(text)) && fchmod(fd, mode) == 0 && fsync(fd) == 0;
    int error = errno;
    is_good = close(fd) == 0 && is_good;
    /* A file whose entry is not on the disk may be gone after a power cut. */
    if (is_good && !amb_file_sync_folder(path)) {
        error = errno;
        is_good = false;
    }
    if (!is_good) {
        (void)unlink(path);
        return complain(why, path, "cannot be written: %s", strerrordesc_np(error));
    }
    return AMB_OK;
}

enum amb_status amb_private_file_create(const char *path, const char *text,
                                        char why[AMB_PRIVATE_WHY_MAX])
{
    return create(path, text, 0600, why);
}

enum amb_status amb_public_file_create(const char *path, const char *text,
                                       char why[AMB_PRIVATE_WHY_MAX])
{
    return create(path, text, 0644, why);
}
