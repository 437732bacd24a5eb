/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/process/brokerd_process.h"

#include "wire/base/clock.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define ARGUMENTS_MAX 64u
#define OBSERVER_ARGUMENTS_MAX 16u
#define READY_MS 20000

void test_fail(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    (void)fprintf(stderr, "FAIL: ");
    (void)vfprintf(stderr, format, args);
    (void)fprintf(stderr, "\n");
    va_end(args);
    exit(EXIT_FAILURE);
}

/* In the child. */
static _Noreturn void become_brokerd(const struct brokerd *brokerd, const char *const *arguments,
                                     int ready, unsigned descriptors)
{
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    int log = open(brokerd->log_path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    (void)dup2(ready, STDOUT_FILENO);
    (void)dup2(log, STDERR_FILENO);
    if (descriptors != 0) {
        struct rlimit limit = {.rlim_cur = descriptors, .rlim_max = descriptors};
        if (setrlimit(RLIMIT_NOFILE, &limit) != 0) {
            _exit(126);
        }
    }
    (void)execv(arguments[0], (char *const *)(uintptr_t)arguments);
    _exit(127);
}

static void print_log(const struct brokerd *brokerd)
{
    FILE *log = fopen(brokerd->log_path, "re");
    char line[512];
    while (log != NULL && fgets(line, sizeof(line), log) != NULL) {
        (void)fprintf(stderr, "brokerd: %s", line);
    }
    if (log != NULL) {
        (void)fclose(log);
    }
}

/* "ready unix:///... tcp://127.0.0.1:PORT" */
static void read_ready(struct brokerd *brokerd, int fd)
{
    char line[512];
    size_t len = 0;
    while (len == 0 || line[len - 1] != '\n') {
        struct pollfd poller = {.fd = fd, .events = POLLIN};
        ssize_t got = 0;
        if (len + 1 < sizeof(line) && poll(&poller, 1, READY_MS) > 0) {
            got = read(fd, line + len, sizeof(line) - 1 - len);
        }
        if (got <= 0) {
            print_log(brokerd);
            test_fail("brokerd does not become ready");
        }
        len += (size_t)got;
    }
    line[len] = '\0';
    const char *tcp = strstr(line, "tcp://127.0.0.1:");
    if (strncmp(line, "ready unix://", 13) != 0 || tcp == NULL) {
        test_fail("not a ready line: %s", line);
    }
    brokerd->tcp_port = (uint16_t)strtoul(tcp + strlen("tcp://127.0.0.1:"), NULL, 10);
}

void brokerd_start(struct brokerd *brokerd, const char *program, const char *const *options,
                   unsigned descriptors)
{
    memset(brokerd, 0, sizeof(*brokerd));
    (void)snprintf(brokerd->folder, sizeof(brokerd->folder), "/tmp/amb-brokerd.XXXXXX");
    if (mkdtemp(brokerd->folder) == NULL) {
        test_fail("mkdtemp: %s", strerror(errno));
    }
    (void)snprintf(brokerd->socket_path, sizeof(brokerd->socket_path), "%s/s", brokerd->folder);
    (void)snprintf(brokerd->log_path, sizeof(brokerd->log_path), "%s/log", brokerd->folder);
    char url[128];
    (void)snprintf(url, sizeof(url), "unix://%s", brokerd->socket_path);
    const char *arguments[ARGUMENTS_MAX] = {program,    "--dev",
                                            "--listen", url,
                                            "--listen", "tcp://127.0.0.1:0",
                                            "-o",       "memory.host.size=64M",
                                            "-o",       "memory.host.segment=4M",
                                            "-o",       "server.max_message=auto",
                                            "-o",       "transports.ring_size=64K",
                                            "-o",       "transports.trusted=",
                                            "-o",       "server.workers=1"};
    size_t count = 0;
    while (arguments[count] != NULL) {
        count++;
    }
    for (size_t i = 0; options != NULL && options[i] != NULL; i++) {
        if (count + 3 > ARGUMENTS_MAX) {
            test_fail("too many options");
        }
        arguments[count++] = "-o";
        arguments[count++] = options[i];
    }
    int ready[2];
    if (pipe2(ready, O_CLOEXEC) != 0) {
        test_fail("pipe: %s", strerror(errno));
    }
    brokerd->pid = fork();
    if (brokerd->pid == 0) {
        become_brokerd(brokerd, arguments, ready[1], descriptors);
    }
    (void)close(ready[1]);
    read_ready(brokerd, ready[0]);
    (void)close(ready[0]);
}

pid_t brokerd_observer_start(const struct brokerd *brokerd, char *const *command)
{
    char *arguments[OBSERVER_ARGUMENTS_MAX] = {NULL};
    char socket_path[sizeof(brokerd->socket_path)], pid[16];
    size_t count = 0;
    while (command[count] != NULL) {
        if (count + 3 >= OBSERVER_ARGUMENTS_MAX) {
            test_fail("an observer: too many arguments");
        }
        arguments[count] = command[count];
        count++;
    }
    (void)snprintf(socket_path, sizeof(socket_path), "%s", brokerd->socket_path);
    (void)snprintf(pid, sizeof(pid), "%d", (int)brokerd->pid);
    arguments[count++] = socket_path;
    arguments[count] = pid;
    pid_t observer = fork();
    if (observer == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        sigset_t term; /* It waits until the program hears it. */
        (void)sigemptyset(&term);
        (void)sigaddset(&term, SIGTERM);
        (void)sigprocmask(SIG_BLOCK, &term, NULL);
        (void)execvp(arguments[0], arguments);
        _exit(127);
    }
    return observer;
}

void brokerd_observer_end(pid_t observer)
{
    int status = 0;
    (void)kill(observer, SIGTERM);
    if (waitpid(observer, &status, 0) != observer || status != 0) {
        test_fail("an observer has seen something wrong, or cannot run: %d", status);
    }
}

void brokerd_stop(struct brokerd *brokerd)
{
    int status = 0;
    (void)kill(brokerd->pid, SIGTERM);
    if (waitpid(brokerd->pid, &status, 0) != brokerd->pid || !WIFEXITED(status) ||
        WEXITSTATUS(status) != 0) {
        print_log(brokerd);
        test_fail("brokerd ended with status %#x", (unsigned)status);
    }
    (void)unlink(brokerd->log_path);
    if (rmdir(brokerd->folder) != 0) {
        test_fail("brokerd left something in %s", brokerd->folder);
    }
}

bool brokerd_is_alive(const struct brokerd *brokerd)
{
    return waitpid(brokerd->pid, NULL, WNOHANG) == 0;
}

unsigned brokerd_fds(const struct brokerd *brokerd)
{
    char path[64];
    (void)snprintf(path, sizeof(path), "/proc/%d/fd", (int)brokerd->pid);
    DIR *folder = opendir(path);
    if (folder == NULL) {
        print_log(brokerd);
        test_fail("%s: %s", path, strerror(errno));
    }
    unsigned count = 0;
    while (readdir(folder) != NULL) {
        count++;
    }
    (void)closedir(folder);
    return count - 2;
}

unsigned brokerd_await_fds(const struct brokerd *brokerd, unsigned count)
{
    int64_t deadline_ns = amb_clock_monotonic_ns() + 5 * AMB_NS_PER_SEC;
    unsigned now = brokerd_fds(brokerd);
    while (now > count && amb_clock_monotonic_ns() < deadline_ns) {
        (void)poll(NULL, 0, 10);
        now = brokerd_fds(brokerd);
    }
    return now;
}

int64_t brokerd_cpu_ms(const struct brokerd *brokerd)
{
    char path[64], line[1024] = "";
    (void)snprintf(path, sizeof(path), "/proc/%d/stat", (int)brokerd->pid);
    FILE *file = fopen(path, "re");
    if (file == NULL || fgets(line, sizeof(line), file) == NULL) {
        test_fail("%s: %s", path, strerror(errno));
    }
    (void)fclose(file);
    /* Behind the name in brackets: state and ten numbers, then utime and stime. */
    const char *at = strrchr(line, ')');
    unsigned long user = 0, system = 0;
    if (at == NULL || sscanf(at + 1, " %*c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %lu %lu", &user,
                             &system) != 2) {
        test_fail("%s cannot be read", path);
    }
    return (int64_t)(user + system) * 1000 / sysconf(_SC_CLK_TCK);
}

unsigned brokerd_log_lines(const struct brokerd *brokerd)
{
    FILE *log = fopen(brokerd->log_path, "re");
    unsigned lines = 0;
    for (int c = 0; log != NULL && (c = fgetc(log)) != EOF;) {
        lines += c == '\n';
    }
    if (log != NULL) {
        (void)fclose(log);
    }
    return lines;
}

int brokerd_connect(const struct brokerd *brokerd, bool is_unix)
{
    struct sockaddr_un local = {.sun_family = AF_UNIX};
    (void)snprintf(local.sun_path, sizeof(local.sun_path), "%s", brokerd->socket_path);
    struct sockaddr_in remote = {
        .sin_family = AF_INET,
        .sin_port = htons(brokerd->tcp_port),
        .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
    };
    int fd = socket(is_unix ? AF_UNIX : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return -1;
    }
    int failed = is_unix ? connect(fd, (const struct sockaddr *)&local, sizeof(local))
                         : connect(fd, (const struct sockaddr *)&remote, sizeof(remote));
    if (failed != 0) {
        int why = errno;
        (void)close(fd);
        errno = why;
        return -1;
    }
    return fd;
}
