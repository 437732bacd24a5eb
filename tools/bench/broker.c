/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/bench/broker.h"

#include "tools/common/brokerd.h"
#include "wire/base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define START_NS (20 * AMB_SEC)
#define STOP_NS (5 * AMB_SEC)

/* Reads up to the line feed of "ready URL URL"; false: the end, or too late. */
static bool read_line(int fd, char *line, size_t size)
{
    int64_t deadline_ns = amb_clock_monotonic_ns() + START_NS;
    size_t len = 0;
    while (len + 1 < size && !amb_bench_stopped()) {
        int64_t left_ns = deadline_ns - amb_clock_monotonic_ns();
        struct pollfd pfd = {.fd = fd, .events = POLLIN};
        if (left_ns <= 0) {
            break;
        }
        if (poll(&pfd, 1, 100) <= 0) {
            continue;
        }
        ssize_t n = read(fd, line + len, 1);
        if (n <= 0) {
            break;
        }
        if (line[len] == '\n') {
            line[len] = '\0';
            return true;
        }
        len++;
    }
    line[len] = '\0';
    return false;
}

static void take_urls(struct amb_bench_broker *broker, char *line)
{
    char *rest = NULL;
    for (char *word = strtok_r(line, " ", &rest); word != NULL; word = strtok_r(NULL, " ", &rest)) {
        if (strncmp(word, "unix://", 7) == 0) {
            (void)snprintf(broker->unix_url, sizeof(broker->unix_url), "%s", word);
        } else if (strncmp(word, "tcp://", 6) == 0) {
            (void)snprintf(broker->tcp_url, sizeof(broker->tcp_url), "%s", word);
        }
    }
}

static void say_log(const struct amb_bench_broker *broker)
{
    char path[sizeof(broker->dir) + 16];
    char line[512];
    (void)snprintf(path, sizeof(path), "%s/log", broker->dir);
    FILE *log = fopen(path, "re");
    while (log != NULL && fgets(line, sizeof(line), log) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        amb_tool_error("brokerd: %s", line);
    }
    if (log != NULL) {
        (void)fclose(log);
    }
}

static bool start(const struct amb_bench *bench, struct amb_bench_broker *broker)
{
    char log_path[sizeof(broker->dir) + 16], listen_unix[sizeof(broker->unix_url)];
    const char *const listen[] = {listen_unix, "tcp://127.0.0.1:0"};
    if (!amb_folder_make("broker-bench", broker->dir)) {
        amb_tool_error("%s: %s", broker->dir, strerror(errno));
        broker->dir[0] = '\0';
        return false;
    }
    (void)snprintf(log_path, sizeof(log_path), "%s/log", broker->dir);
    (void)snprintf(listen_unix, sizeof(listen_unix), "unix://%s/broker.sock", broker->dir);
    int log_fd = open(log_path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    const struct amb_brokerd_start how = {
        .path = bench->brokerd,
        .listen = listen,
        .listen_count = 2,
        .options = bench->broker_options,
        .option_count = bench->broker_option_count,
        .log_fd = log_fd,
        .death_signal = SIGTERM,
    };
    broker->pid = log_fd < 0 ? -1 : amb_brokerd_start(&how, &broker->stdout_fd);
    if (broker->pid < 0) {
        amb_tool_error("a private broker: %s", strerror(errno));
    }
    if (log_fd >= 0) {
        (void)close(log_fd);
    }
    return broker->pid > 0;
}

enum amb_exit amb_bench_broker_start(const struct amb_bench *bench, struct amb_bench_broker *out)
{
    char line[1024];
    *out = (struct amb_bench_broker){.stdout_fd = -1};
    if (!start(bench, out)) {
        amb_bench_broker_stop(out);
        return AMB_EXIT_SOFTWARE;
    }
    if (!read_line(out->stdout_fd, line, sizeof(line)) || strncmp(line, "ready ", 6) != 0) {
        amb_tool_error("%s did not start", bench->brokerd != NULL ? bench->brokerd : "brokerd");
        say_log(out);
        amb_bench_broker_stop(out);
        return AMB_EXIT_UNAVAILABLE;
    }
    take_urls(out, line);
    amb_bench_broker_select(out, bench->link);
    return AMB_EXIT_OK;
}

void amb_bench_broker_select(struct amb_bench_broker *broker, const char *link)
{
    bool is_unix = link == NULL || strcmp(link, "ring") == 0;
    (void)snprintf(broker->url, sizeof(broker->url), "%s%s%s",
                   is_unix ? broker->unix_url : broker->tcp_url, link != NULL ? "?link=" : "",
                   link != NULL ? link : "");
    if (link != NULL && strcmp(link, "ucx") == 0) {
        /* The broker of --dev trusts loopback; so do its clients here. */
        (void)setenv("AMB_TRUSTED", "lo", 0);
    }
}

void amb_bench_broker_stop(struct amb_bench_broker *broker)
{
    if (broker->pid > 0) {
        int64_t deadline_ns = amb_clock_monotonic_ns() + STOP_NS;
        (void)kill(broker->pid, SIGTERM);
        while (waitpid(broker->pid, NULL, WNOHANG) == 0) {
            if (amb_clock_monotonic_ns() > deadline_ns) {
                (void)kill(broker->pid, SIGKILL);
            }
            amb_bench_sleep_ns(2 * AMB_MS);
        }
        broker->pid = 0;
    }
    if (broker->stdout_fd >= 0) {
        (void)close(broker->stdout_fd);
        broker->stdout_fd = -1;
    }
    amb_folder_remove(broker->dir);
    broker->dir[0] = '\0';
}
