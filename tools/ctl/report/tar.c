/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/ctl/report/tar.h"

#include <string.h>

#define BLOCK 512u
#define SIZE_MAX_OCTAL UINT64_C(077777777777) /* 11 digits, 8 GiB */

/* As POSIX has it. */
struct header {
    char name[100], mode[8], uid[8], gid[8], size[12], mtime[12], sum[8], type, link[100];
    char magic[6], version[2], user[32], group[32], major[8], minor[8], prefix[155], rest[12];
};
_Static_assert(sizeof(struct header) == BLOCK, "a block");

/* Digits, and a NUL behind them. */
static void set_octal(char *field, size_t size, uint64_t value)
{
    field[size - 1] = '\0';
    for (size_t i = size - 1; i > 0; i--, value >>= 3) {
        field[i - 1] = (char)('0' + (value & 7));
    }
}

/* The sum of all bytes, of its own as if they were blanks. */
static void set_sum(struct header *header)
{
    unsigned char bytes[BLOCK];
    uint64_t sum = 0;
    memset(header->sum, ' ', sizeof(header->sum));
    memcpy(bytes, header, sizeof(bytes));
    for (size_t i = 0; i < sizeof(bytes); i++) {
        sum += bytes[i];
    }
    set_octal(header->sum, sizeof(header->sum) - 1, sum);
}

static bool write_bytes(struct amb_tar *tar, const void *bytes, size_t len)
{
    if (len > 0 && fwrite(bytes, 1, len, tar->out) != len) {
        tar->has_failed = true;
    }
    return !tar->has_failed;
}

static bool fill_up(struct amb_tar *tar, size_t len)
{
    static const char zeros[BLOCK];
    return write_bytes(tar, zeros, (BLOCK - len % BLOCK) % BLOCK);
}

bool amb_tar_put(struct amb_tar *tar, const char *name, const void *bytes, size_t len)
{
    struct header header = {.type = '0', .magic = "ustar", .version = {'0', '0'}};
    size_t name_len = strlen(name);
    if (name_len == 0 || name_len > AMB_TAR_NAME_MAX || len > SIZE_MAX_OCTAL) {
        tar->has_failed = true;
        return false;
    }
    memcpy(header.name, name, name_len);
    set_octal(header.mode, sizeof(header.mode), 0600);
    set_octal(header.uid, sizeof(header.uid), 0);
    set_octal(header.gid, sizeof(header.gid), 0);
    set_octal(header.size, sizeof(header.size), len);
    set_octal(header.mtime, sizeof(header.mtime), tar->time_s > 0 ? (uint64_t)tar->time_s : 0);
    set_octal(header.major, sizeof(header.major), 0);
    set_octal(header.minor, sizeof(header.minor), 0);
    set_sum(&header);
    return write_bytes(tar, &header, sizeof(header)) && write_bytes(tar, bytes, len) &&
           fill_up(tar, len);
}

bool amb_tar_end(struct amb_tar *tar)
{
    static const char zeros[2 * BLOCK];
    return write_bytes(tar, zeros, sizeof(zeros)) && fflush(tar->out) == 0;
}
