/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/config/config_file.h"

#include "wire/base/assert.h"
#include "wire/base/text.h"
#include "wire/config/config_build.h"
#include "wire/config/config_scan.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define INCLUDE "@include"
#define INCLUDE_DEPTH_MAX 4u
#define INCLUDES_MAX 64u
#define INCLUDE_PATH_MAX 4096u

/* fd of a regular file of legal size, or -1 and a reason. */
static int open_file(const char *path, size_t *size, char *reason, size_t reason_size)
{
    /* NONBLOCK: a FIFO must not hang the start. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) != 0) {
        (void)snprintf(reason, reason_size, "cannot be read: %s", strerror(errno));
    } else if (S_ISDIR(st.st_mode)) {
        (void)snprintf(reason, reason_size, "is a directory (allowed a file)");
    } else if (!S_ISREG(st.st_mode)) {
        (void)snprintf(reason, reason_size, "is not a regular file");
    } else if ((uint64_t)st.st_size > AMB_CONFIG_FILE_MAX) {
        char got[AMB_TEXT_MAX];
        amb_text_format_size((uint64_t)st.st_size, got, sizeof(got));
        (void)snprintf(reason, reason_size, "file too large (got %s, allowed 1M)", got);
    } else {
        *size = (size_t)st.st_size;
        return fd;
    }
    if (fd >= 0) {
        (void)close(fd);
    }
    return -1;
}

/* The file's bytes, NUL-terminated, with their count. Fails with the place `path`. */
static enum amb_status read_all(struct amb_config_build *build, const char *path, char **out,
                                size_t *len_out)
{
    struct amb_config_place place = {AMB_CONFIG_ORIGIN_FILE, path, 0};
    char reason[160];
    size_t size = 0;
    int fd = open_file(path, &size, reason, sizeof(reason));
    if (fd < 0) {
        return amb_config_fail(build, &place, NULL, "%s", reason);
    }
    char *text = amb_config_alloc(build->store, size + 1);
    size_t len = 0;
    while (text != NULL && len < size) {
        ssize_t n = read(fd, text + len, size - len);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            break;
        }
        len += (size_t)n;
    }
    char more;
    bool is_all = text != NULL && len == size && read(fd, &more, 1) == 0;
    (void)close(fd);
    if (text == NULL) {
        return AMB_ENOMEM;
    }
    if (!is_all) { /* A part of a configuration may be a valid one. */
        return amb_config_fail(build, &place, NULL,
                               "has changed while it was read (allowed a file that is complete)");
    }
    *out = text;
    *len_out = len;
    return AMB_OK;
}

/* The quoted path of a line `@include "path"`, as libconfig's scanner sees it; else NULL. */
static const char *include_path(const char *line, const char *end, size_t *len)
{
    while (line < end && (*line == ' ' || *line == '\t')) {
        line++;
    }
    if ((size_t)(end - line) < sizeof(INCLUDE) ||
        strncmp(line, INCLUDE, sizeof(INCLUDE) - 1) != 0) {
        return NULL;
    }
    line += sizeof(INCLUDE) - 1;
    while (line < end && (*line == ' ' || *line == '\t')) {
        line++;
    }
    if (line == end || *line != '"') {
        return NULL;
    }
    const char *close = memchr(line + 1, '"', (size_t)(end - line - 1));
    *len = (size_t)((close == NULL ? end : close) - (line + 1));
    return line + 1;
}

/* NULL: the path stays below its folder. */
static const char *include_problem(const char *path)
{
    if (path[0] == '\0' || path[0] == '/') {
        return "is not relative to the file's folder";
    }
    if (strchr(path, '\\') != NULL) {
        return "has a backslash";
    }
    for (const char *part = path; part != NULL; part = strchr(part, '/')) {
        part += *part == '/';
        if (strncmp(part, "..", 2) == 0 && (part[2] == '/' || part[2] == '\0')) {
            return "leaves the file's folder";
        }
    }
    return NULL;
}

static enum amb_status check_include(struct amb_config_build *build, const char *path,
                                     const struct amb_config_place *place, const char *folder,
                                     unsigned depth)
{
    char shown[AMB_CONFIG_SHOWN_MAX], full[2 * INCLUDE_PATH_MAX];
    (void)amb_text_show(path, shown, sizeof(shown));
    const char *problem = include_problem(path);
    if (folder == NULL) {
        problem = "is not possible here";
    } else if (depth >= INCLUDE_DEPTH_MAX) {
        problem = "is nested too deep (allowed 4 levels)";
    } else if (build->includes++ >= INCLUDES_MAX) {
        problem = "is one too many (allowed 64)";
    }
    if (problem != NULL) {
        return amb_config_fail(build, place, INCLUDE, "\"%s\" %s", shown, problem);
    }
    (void)snprintf(full, sizeof(full), "%s/%s", folder, path);
    char *text = NULL;
    size_t len = 0;
    enum amb_status status = read_all(build, full, &text, &len);
    if (status != AMB_OK) {
        return status;
    }
    return amb_config_text_check(build, text, len, full, folder, depth + 1);
}

/* One line of a text; NUL bytes and includes. */
static enum amb_status check_line(struct amb_config_build *build, const char *line, const char *end,
                                  const struct amb_config_place *place, const char *folder,
                                  unsigned depth)
{
    if (memchr(line, '\0', (size_t)(end - line)) != NULL) {
        return amb_config_fail(build, place, NULL, "has a NUL byte: not a text file");
    }
    size_t len = 0;
    const char *path = include_path(line, end, &len);
    if (path == NULL) {
        return AMB_OK;
    }
    if (len >= INCLUDE_PATH_MAX) {
        return amb_config_fail(build, place, INCLUDE, "path too long");
    }
    char copy[INCLUDE_PATH_MAX];
    memcpy(copy, path, len);
    copy[len] = '\0';
    return check_include(build, copy, place, folder, depth);
}

enum amb_status amb_config_text_check(struct amb_config_build *build, const char *text, size_t len,
                                      const char *name, const char *folder, unsigned depth)
{
    amb_assert(text != NULL && depth <= INCLUDE_DEPTH_MAX);
    struct amb_config_place place = {AMB_CONFIG_ORIGIN_FILE, name, 1};
    enum amb_status status = AMB_OK;
    for (const char *line = text; status == AMB_OK && line < text + len; place.line++) {
        const char *end = memchr(line, '\n', (size_t)(text + len - line));
        end = end == NULL ? text + len : end;
        status = check_line(build, line, end, &place, folder, depth);
        line = end + 1;
    }
    return status == AMB_OK ? amb_config_scan(build, text, len, name) : status;
}

enum amb_status amb_config_file_read(struct amb_config_build *build, const char *path,
                                     const char **text_out, const char **folder_out)
{
    char *text = NULL;
    size_t len = 0;
    const char *slash = strrchr(path, '/');
    char *folder = amb_config_copy(build->store, slash == NULL ? "." : path);
    if (folder == NULL) {
        return AMB_ENOMEM;
    }
    if (slash != NULL) {
        folder[slash == path ? 1 : slash - path] = '\0';
    }
    enum amb_status status = read_all(build, path, &text, &len);
    if (status == AMB_OK) {
        status = amb_config_text_check(build, text, len, path, folder, 0);
    }
    if (status == AMB_OK) {
        *text_out = text;
        *folder_out = folder;
    }
    return status;
}
