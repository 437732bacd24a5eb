/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Certificates for backends over TLS, and the harness's option --tls: PEER is then the backend
 * PEER-tls, and `list` and `versions` name these alone.
 */
#include "tests/bench/peerbench/tls.h"

#include <peerbench.h>

#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define WORDS_MAX 64
#define NAME_MAX_LEN 64

extern char **environ;

/* main of the harness, by another name (build.sh). */
int peerbench_main(int argc, char **argv);

struct tls_path tls_path(const struct pb_opts *opts, const char *file)
{
    struct tls_path path;
    (void)snprintf(path.text, sizeof(path.text), "%s/%s", opts->dir, file);
    return path;
}

bool tls_make(const struct pb_opts *opts)
{
    char *argv[] = {AMB_BROKER_CTL,    "-o",     "json",   "tls",    "init",      "--dir",
                    (char *)opts->dir, "--name", TLS_NAME, "--name", "127.0.0.1", NULL};
    pid_t pid;
    int status = -1;
    posix_spawn_file_actions_t actions;
    struct tls_path log = tls_path(opts, "tls.log");
    (void)posix_spawn_file_actions_init(&actions);
    (void)posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, log.text,
                                           O_WRONLY | O_CREAT | O_TRUNC, 0600);
    bool is_made = posix_spawn(&pid, argv[0], &actions, NULL, argv, environ) == 0 &&
                   waitpid(pid, &status, 0) == pid && status == 0;
    (void)posix_spawn_file_actions_destroy(&actions);
    if (!is_made) {
        pb_warn("%s tls init: status %d", argv[0], status);
    }
    return is_made;
}

/* Lines of `list` and `versions` whose peer ends with -tls. */
static int list_tls(int argc, char **argv)
{
    int ends[2];
    if (pipe(ends) != 0) {
        return 1;
    }
    pid_t pid = fork();
    if (pid == 0) {
        (void)dup2(ends[1], STDOUT_FILENO);
        (void)close(ends[0]);
        (void)close(ends[1]);
        int status = peerbench_main(argc, argv);
        (void)fflush(stdout);
        _exit(status);
    }
    (void)close(ends[1]);
    FILE *lines = fdopen(ends[0], "r");
    char line[512];
    while (pid > 0 && lines != NULL && fgets(line, sizeof(line), lines) != NULL) {
        size_t name = strcspn(line, "\t\n");
        if (name >= 4 && strncmp(line + name - 4, "-tls", 4) == 0) {
            (void)fputs(line, stdout);
        }
    }
    int status = 1;
    (void)waitpid(pid, &status, 0);
    return status;
}

int main(int argc, char **argv)
{
    static char name[NAME_MAX_LEN];
    char *words[WORDS_MAX + 1];
    int count = 0;
    bool is_tls = false;
    for (int i = 0; i < argc && count < WORDS_MAX; i++) {
        if (strcmp(argv[i], "--tls") == 0) {
            is_tls = true;
        } else {
            words[count++] = argv[i];
        }
    }
    words[count] = NULL;
    if (!is_tls || count < 2) {
        return peerbench_main(count, words);
    }
    if (strcmp(words[1], "list") == 0 || strcmp(words[1], "versions") == 0) {
        return list_tls(count, words);
    }
    (void)snprintf(name, sizeof(name), "%s-tls", words[1]);
    words[1] = name;
    return peerbench_main(count, words);
}
