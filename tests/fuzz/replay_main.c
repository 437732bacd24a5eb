/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs a fuzz target over files and folders (without going deeper), so that the corpus is a test
 * with any compiler. Exit status 1 if there was nothing to run.
 */
#include "tests/fuzz/fuzz.h"

#include <dirent.h>
#include <stdio.h>
#include <sys/stat.h>

#define FILE_BYTES_MAX (1024 * 1024)

static int run_file(const char *path)
{
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        perror(path);
        return -1;
    }
    static uint8_t bytes[FILE_BYTES_MAX];
    size_t len = fread(bytes, 1, sizeof(bytes), file);
    (void)fclose(file);
    uint8_t *copy = fuzz_copy(bytes, len);
    (void)LLVMFuzzerTestOneInput(copy, len);
    free(copy);
    return 1;
}

/* The number of inputs run, or -1. */
static int run(const char *path)
{
    DIR *folder = opendir(path);
    if (folder == NULL) {
        return run_file(path);
    }
    int total = 0;
    for (struct dirent *entry = readdir(folder); entry != NULL; entry = readdir(folder)) {
        char name[4096];
        int len = snprintf(name, sizeof(name), "%s/%s", path, entry->d_name);
        struct stat info;
        if (len < 0 || (size_t)len >= sizeof(name) || stat(name, &info) != 0 ||
            !S_ISREG(info.st_mode)) {
            continue;
        }
        if (run_file(name) < 0) {
            total = -1;
            break;
        }
        total++;
    }
    (void)closedir(folder);
    return total;
}

int main(int argc, char **argv)
{
    (void)LLVMFuzzerTestOneInput((const uint8_t *)"", 0);
    int total = 0;
    for (int i = 1; i < argc; i++) {
        int inputs = run(argv[i]);
        if (inputs < 0) {
            return 1;
        }
        total += inputs;
    }
    (void)printf("%d inputs\n", total);
    return total > 0 ? 0 : 1;
}
