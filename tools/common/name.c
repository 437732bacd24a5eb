/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/common/name.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define NAME_TRIES 1000u

size_t amb_name_clean(const void *name, size_t len, char *out)
{
    const unsigned char *text = name;
    size_t start = 0;
    for (size_t i = 0; i < len; i++) {
        if (text[i] == '/') {
            start = i + 1;
        }
    }
    while (start < len && (text[start] == '.' || text[start] == ' ')) {
        start++;
    }
    size_t count = len - start;
    if (count > AMB_NAME_MAX) {
        count = AMB_NAME_MAX;
        /* Not in the middle of a UTF-8 character. */
        while (count > 0 && (text[start + count] & 0xc0) == 0x80) {
            count--;
        }
    }
    for (size_t i = 0; i < count; i++) {
        unsigned char c = text[start + i];
        out[i] = c < 0x20 || c == 0x7f || c == '\\' ? '_' : (char)c;
        /* U+0080 to U+009F, which terminals obey too. */
        if (i > 0 && text[start + i - 1] == 0xc2 && c < 0xa0) {
            out[i - 1] = out[i] = '_';
        }
    }
    out[count] = '\0';
    return count;
}

int amb_name_create(int dir_fd, uint64_t seq, const char *clean, char *out, size_t size)
{
    for (unsigned i = 1; i <= NAME_TRIES; i++) {
        char end[16] = "";
        if (i > 1) {
            (void)snprintf(end, sizeof(end), ".%u", i);
        }
        int n = snprintf(out, size, "%" PRIu64 "-%s%s", seq, clean, end);
        if (n < 0 || (size_t)n >= size) {
            errno = ENAMETOOLONG;
            return -1;
        }
        int fd = openat(dir_fd, out, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
        if (fd >= 0 || errno != EEXIST) {
            return fd;
        }
    }
    return -1;
}
