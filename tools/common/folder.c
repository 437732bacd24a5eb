/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/common/folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TMPDIR_MAX 64u

bool amb_folder_make(const char *name, char out[AMB_FOLDER_MAX])
{
    const char *tmp = getenv("TMPDIR");
    bool is_fit = tmp != NULL && tmp[0] == '/' && strlen(tmp) < TMPDIR_MAX;
    (void)snprintf(out, AMB_FOLDER_MAX, "%s/%.20s.XXXXXX", is_fit ? tmp : "/tmp", name);
    return mkdtemp(out) != NULL;
}

void amb_folder_remove(const char *path)
{
    if (path[0] == '\0') {
        return;
    }
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *folder = fd >= 0 ? fdopendir(fd) : NULL;
    if (folder == NULL) {
        if (fd >= 0) {
            (void)close(fd);
        }
        return;
    }
    for (const struct dirent *entry; (entry = readdir(folder)) != NULL;) {
        (void)unlinkat(fd, entry->d_name, 0); /* "." and ".." are folders: refused. */
    }
    (void)closedir(folder);
    (void)rmdir(path);
}
