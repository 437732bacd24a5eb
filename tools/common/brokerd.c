/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/common/brokerd.h"

#include "tools/common/child.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define LISTEN_MAX 4u
#define OPTIONS_MAX 64u
_Static_assert(2 + 2 * LISTEN_MAX + 2 * OPTIONS_MAX < AMB_BROKERD_WORDS_MAX, "words");

void amb_brokerd_find(char *out, size_t size)
{
    static const char *const places[] = {"brokerd", "../broker/brokerd", "../sbin/brokerd"};
    char self[512];
    ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
    char *slash = NULL;
    if (n > 0) {
        self[n] = '\0';
        slash = strrchr(self, '/');
    }
    for (size_t i = 0; slash != NULL && i < sizeof(places) / sizeof(places[0]); i++) {
        slash[1] = '\0';
        (void)snprintf(out, size, "%s%s", self, places[i]);
        if (access(out, X_OK) == 0) {
            return;
        }
    }
    (void)snprintf(out, size, "brokerd");
}

static void become(const struct amb_brokerd_start *start, const char *path, int out_fd)
{
    char program[AMB_BROKERD_PATH_MAX], dev[] = "--dev", listen[] = "--listen", option[] = "-o";
    char file[] = "server.counters_file=none"; /* Its socket's folder goes with it. */
    char *words[AMB_BROKERD_WORDS_MAX];
    unsigned count = 0;
    sigset_t none;
    (void)snprintf(program, sizeof(program), "%s", path);
    words[count++] = program;
    words[count++] = dev;
    words[count++] = option;
    words[count++] = file;
    for (unsigned i = 0; i < start->listen_count && i < LISTEN_MAX; i++) {
        words[count++] = listen;
        words[count++] = strdup(start->listen[i]);
    }
    for (unsigned i = 0; i < start->option_count && i < OPTIONS_MAX; i++) {
        words[count++] = option;
        words[count++] = strdup(start->options[i]);
    }
    words[count] = NULL;
    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    (void)dup2(out_fd, STDOUT_FILENO);
    (void)dup2(start->log_fd, STDERR_FILENO);
    (void)execvp(program, words);
    (void)dprintf(STDERR_FILENO, "%s: %s\n", program, strerror(errno));
    _exit(127);
}

pid_t amb_brokerd_start(const struct amb_brokerd_start *start, int *ready_fd)
{
    char found[AMB_BROKERD_PATH_MAX];
    const char *path = start->path;
    if (path == NULL) {
        amb_brokerd_find(found, sizeof(found));
        path = found;
    }
    pid_t pid = amb_child_fork(start->death_signal, ready_fd);
    if (pid == 0) {
        become(start, path, *ready_fd);
    }
    return pid;
}
