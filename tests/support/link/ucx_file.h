/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A file that looks like a libucp of some release to those that do not load it. It has the head of
 * a shared library of this machine, one segment, and texts.
 */
#pragma once

#include <elf.h>
#include <link.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct ucx_file {
    ElfW(Ehdr) head;
    ElfW(Phdr) segment;
    char text[20000]; /* begins with a NUL; zero but for what is written */
};

/* The head is this program's own. */
static inline void ucx_file_init(struct ucx_file *out, const char *release)
{
    memset(out, 0, sizeof(*out));
    FILE *self = fopen("/proc/self/exe", "re");
    if (self == NULL || fread(&out->head, sizeof(out->head), 1, self) != 1) {
        _exit(2);
    }
    (void)fclose(self);
    out->head.e_type = ET_DYN;
    out->head.e_phoff = offsetof(struct ucx_file, segment);
    out->head.e_phnum = 1;
    out->head.e_phentsize = sizeof(out->segment);
    out->segment.p_type = PT_LOAD;
    out->segment.p_filesz = sizeof(*out);
    (void)snprintf(out->text + 1, sizeof(out->text) - 1, "%s", release);
}
