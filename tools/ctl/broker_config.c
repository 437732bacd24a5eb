/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/ctl/broker_config.h"

#include "tools/common/brokerd.h"
#include "tools/common/child.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define CONFIG_TEXT_MAX (UINT64_C(1) << 20)
#define EXEC_FAILED 127
#define OPTIONS_MAX 256u
#define SAID_MAX 8192u /* bytes that are shown of what it says beside the configuration */

/* In the child: brokerd's output goes to `out`, and its errors to `said`. */
static void print_config(const char *config, char *const *options, int out, int said)
{
    char path[AMB_BROKERD_PATH_MAX];
    char config_option[] = "--config", action[] = "--print-config";
    char *argv[OPTIONS_MAX + 5] = {path};
    size_t count = 1;
    if (config != NULL) {
        argv[count++] = config_option;
        argv[count++] = strdup(config);
    }
    for (size_t i = 0; options != NULL && options[i] != NULL; i++) {
        argv[count++] = options[i];
    }
    argv[count] = action;
    amb_brokerd_find(path, sizeof(path));
    (void)dup2(out, STDOUT_FILENO);
    (void)dup2(said, STDERR_FILENO);
    (void)execvp(path, argv);
    (void)dprintf(STDERR_FILENO, "%s: %s\n", path, strerror(errno));
    _exit(EXEC_FAILED);
}

/* All of it, to be freed; NULL: it is too long, or there is no memory. */
static char *read_all(int fd)
{
    char *text = malloc(CONFIG_TEXT_MAX);
    size_t len = 0;
    while (text != NULL) {
        ssize_t n = read(fd, text + len, CONFIG_TEXT_MAX - len);
        if (n > 0) {
            len += (size_t)n;
        }
        if (len == CONFIG_TEXT_MAX || (n < 0 && errno != EINTR)) {
            break;
        }
        if (n == 0) {
            text[len] = '\0';
            return text;
        }
    }
    free(text);
    return NULL;
}

static bool are_few(char *const *options)
{
    size_t count = 0;
    while (options != NULL && options[count] != NULL) {
        count++;
    }
    return count <= OPTIONS_MAX;
}

/* Its errors and warnings. */
static void read_said(int fd, char out[SAID_MAX])
{
    ssize_t n = pread(fd, out, SAID_MAX - 1, 0);
    out[n > 0 ? n : 0] = '\0';
}

/* Each line of what it has said: a fault. The dynamic linker may have spoken before. */
static void say_faults(const char *command, char *said)
{
    static const char linker[] = "ERROR: ld.so: ";
    char *save = NULL;
    unsigned faults = 0;
    for (const char *line = strtok_r(said, "\n", &save); line != NULL;
         line = strtok_r(NULL, "\n", &save)) {
        if (strncmp(line, linker, sizeof(linker) - 1) != 0) {
            amb_tool_error("%s: %s", command, line);
            faults++;
        }
    }
    if (faults == 0) {
        amb_tool_error("%s: brokerd ended", command);
    }
}

/* Its configuration and its end, or why there is none. said: a file for what it says. */
static enum amb_exit run(const char *command, const char *config, char *const *options, int said,
                         char **out)
{
    int fd, status = 0;
    char text[SAID_MAX];
    (void)signal(SIGCHLD, SIG_DFL); /* Where it is ignored, no child leaves its status. */
    pid_t pid = amb_child_fork(SIGKILL, &fd);
    if (pid < 0) {
        amb_tool_error("%s: %s", command, strerror(errno));
        return AMB_EXIT_SOFTWARE;
    }
    if (pid == 0) {
        print_config(config, options, fd, said);
    }
    char *printed = read_all(fd);
    (void)close(fd);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    read_said(said, text);
    if (printed == NULL) {
        amb_tool_error("%s: the configuration cannot be read", command);
        return AMB_EXIT_SOFTWARE;
    }
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        say_faults(command, text);
        free(printed);
        return WIFEXITED(status) && WEXITSTATUS(status) == EXEC_FAILED ? AMB_EXIT_SOFTWARE
                                                                       : AMB_EXIT_DATA;
    }
    (void)fputs(text, stderr);
    *out = printed;
    return AMB_EXIT_OK;
}

enum amb_exit amb_ctl_broker_config(const char *command, const char *config, char *const *options,
                                    char **out)
{
    if (!are_few(options)) {
        amb_tool_error("%s: more than %u options for brokerd", command, OPTIONS_MAX);
        return AMB_EXIT_USAGE;
    }
    int said = memfd_create("brokerd", MFD_CLOEXEC);
    if (said < 0) {
        amb_tool_error("%s: %s", command, strerror(errno));
        return AMB_EXIT_SOFTWARE;
    }
    enum amb_exit code = run(command, config, options, said, out);
    (void)close(said);
    return code;
}
