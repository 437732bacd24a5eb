/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/link/ucxlib/ucx_peek.h"

#include "wire/link/ucxlib/ucx_release.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stddef.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PIECE 16384u
#define TEXT_MAX 8u                /* bytes from a dot to the end of a release, and more */
#define KEPT 16u                   /* of a piece: those, and all that may stand before a dot */
#define FILE_BYTES_MAX (64u << 20) /* more is no libucp, and not read on */
#define SEGMENTS_MAX 64u
#define DIGITS_MAX 2u /* of each number of a release */
#define NUMBERS 3u

/* An open regular file; -1, with errno. */
static int open_file(const char *file)
{
    struct stat st;
    int fd = open(file, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd >= 0 && (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode))) {
        (void)close(fd);
        errno = EINVAL;
        return -1;
    }
    return fd;
}

const char *amb_ucx_peek_problem(const char *file)
{
    ElfW(Ehdr) head, own;
    int fd = open_file(file);
    if (fd < 0) {
        return errno == ENOENT || errno == ENOTDIR ? "there is no such file"
               : errno == EACCES                   ? "this process may not read it"
                                                   : "it is no file of a library";
    }
    ssize_t have = read(fd, &head, sizeof(head));
    (void)close(fd);
    int self = open_file("/proc/self/exe");
    ssize_t known = self < 0 ? 0 : read(self, &own, sizeof(own));
    if (self >= 0) {
        (void)close(self);
    }
    if (have != (ssize_t)sizeof(head) || memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 ||
        head.e_type != ET_DYN) {
        return "it is no shared library";
    }
    if (known == (ssize_t)sizeof(own) &&
        (head.e_machine != own.e_machine || head.e_ident[EI_CLASS] != own.e_ident[EI_CLASS])) {
        return "it is a library of another kind of machine";
    }
    return NULL;
}

/* Bytes of the file that loading maps; behind them are symbols for debuggers. */
static size_t loaded_bytes(int fd)
{
    ElfW(Ehdr) head;
    size_t end = 0;
    if (pread(fd, &head, sizeof(head), 0) != (ssize_t)sizeof(head) ||
        head.e_phentsize != sizeof(ElfW(Phdr)) || head.e_phnum > SEGMENTS_MAX) {
        return 0;
    }
    for (unsigned i = 0; i < head.e_phnum; i++) {
        ElfW(Phdr) segment;
        off_t at = (off_t)(head.e_phoff + i * sizeof(segment));
        if (pread(fd, &segment, sizeof(segment), at) != (ssize_t)sizeof(segment)) {
            return 0;
        }
        size_t past = (size_t)(segment.p_offset + segment.p_filesz);
        if (segment.p_type == PT_LOAD && past > end) {
            end = past;
        }
    }
    return end < FILE_BYTES_MAX ? end : FILE_BYTES_MAX;
}

/* A number of one or two digits; 0: there is none. */
static size_t read_number(const uint8_t *at, const uint8_t *end, uint32_t *out)
{
    size_t digits = 0;
    *out = 0;
    while (at + digits < end && at[digits] >= '0' && at[digits] <= '9') {
        *out = *out * 10 + (uint32_t)(at[digits] - '0');
        digits++;
        if (digits > DIGITS_MAX) {
            return 0;
        }
    }
    return digits;
}

/* The release whose first dot this is; 0: it is another text. Constants lie side by side, so any
 * byte may stand before one. But "4.1.22.0" is another text, and "GLIBC_2.2.5" is the linker's. */
static uint32_t release_at(const uint8_t *begin, const uint8_t *dot, const uint8_t *end)
{
    uint32_t number[NUMBERS];
    const uint8_t *at = dot;
    while (at > begin && at[-1] >= '0' && at[-1] <= '9' && dot - at <= (ptrdiff_t)DIGITS_MAX) {
        at--;
    }
    if (at > begin && (at[-1] == '.' || at[-1] == '_')) {
        return 0;
    }
    for (unsigned i = 0; i < NUMBERS; i++) {
        size_t digits = read_number(at, end, &number[i]);
        at += digits;
        if (digits == 0 || at == end || *at != (i + 1 < NUMBERS ? '.' : '\0')) {
            return 0;
        }
        at++;
    }
    return AMB_UCX_RELEASE(number[0], number[1], number[2]);
}

struct scan {
    uint8_t bytes[KEPT + PIECE]; /* the last ones of the piece before, then the next one */
    size_t have, done;           /* dots before `done` have been looked at */
    uint32_t found;
    unsigned releases; /* different ones */
};

/* Looks at the dots that have enough bytes behind them; is_last: at all. */
static void look(struct scan *scan, bool is_last)
{
    const uint8_t *begin = scan->bytes, *end = begin + scan->have;
    size_t ahead = is_last ? 0 : TEXT_MAX;
    size_t limit = scan->have > ahead ? scan->have - ahead : 0;
    while (scan->done < limit) {
        const uint8_t *dot = memchr(begin + scan->done, '.', limit - scan->done);
        if (dot == NULL) {
            break;
        }
        uint32_t release = release_at(begin, dot, end);
        scan->releases += release != 0 && release != scan->found;
        scan->found = release != 0 ? release : scan->found;
        scan->done = (size_t)(dot - begin) + 1;
    }
    scan->done = limit > scan->done ? limit : scan->done;
}

uint32_t amb_ucx_peek_release(const char *file)
{
    struct scan scan;
    int fd = open_file(file);
    if (fd < 0) {
        return 0;
    }
    size_t left = loaded_bytes(fd);
    scan.have = scan.done = 0;
    scan.found = scan.releases = 0;
    while (left > 0) {
        if (scan.have > KEPT) {
            size_t gone = scan.have - KEPT;
            memmove(scan.bytes, scan.bytes + gone, KEPT);
            scan.have = KEPT;
            scan.done -= gone;
        }
        size_t room = sizeof(scan.bytes) - scan.have;
        ssize_t got = read(fd, scan.bytes + scan.have, left < room ? left : room);
        if (got <= 0) {
            break;
        }
        scan.have += (size_t)got;
        left -= (size_t)got;
        look(&scan, left == 0);
    }
    (void)close(fd);
    return scan.releases == 1 ? scan.found : 0;
}
