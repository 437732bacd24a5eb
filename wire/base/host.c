/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/base/host.h"

#include "wire/base/file.h"
#include "wire/base/hash.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define BOOT_ID_SIZE 64u

uint64_t amb_host_id(const char *root)
{
    static const uint8_t key[16] = "ambroker host id"; /* No secret: both sides hash alike. */
    char text[BOOT_ID_SIZE];
    bool is_read = amb_file_line(root, "/proc/sys/kernel/random/boot_id", text, sizeof(text));
    return is_read && text[0] != '\0' ? amb_siphash24(key, text, strlen(text)) : 0;
}

uint64_t amb_host_namespace(const char *kind)
{
    char path[64];
    struct stat st;
    (void)snprintf(path, sizeof(path), "/proc/self/ns/%s", kind);
    return stat(path, &st) == 0 ? (uint64_t)st.st_ino : 0;
}
