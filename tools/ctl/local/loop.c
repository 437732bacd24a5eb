/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/ctl/local/loop.h"

#include "tools/common/exit.h"
#include "tools/common/shown.h"
#include "tools/ctl/local/below.h"
#include "wire/base/clock.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#define GRACE_NS (5 * AMB_NS_PER_SEC) /* between a signal to end and SIGKILL */
#define SAID_MAX 400u                 /* bytes of one message of ours */

/* Places in the list for poll; behind them the lines. */
enum {
    AT_SIGNAL,
    AT_ALIVE,
    AT_OUT,
    AT_ERR,
    AT_EXTRA,
    AT_LINES
};
_Static_assert(AT_LINES == AMB_LOOP_LINES, "places");

static const int passed[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGTSTP, SIGCONT};

void amb_local_signals(sigset_t *out)
{
    (void)sigemptyset(out);
    (void)sigaddset(out, SIGCHLD);
    for (size_t i = 0; i < sizeof(passed) / sizeof(passed[0]); i++) {
        struct sigaction now;
        if (sigaction(passed[i], NULL, &now) == 0 && now.sa_handler != SIG_IGN) {
            (void)sigaddset(out, passed[i]);
        }
    }
}

/* ---- what it says, and how it ends ---- */

void amb_loop_say(struct amb_loop *loop, const char *format, ...)
{
    char text[SAID_MAX];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    amb_shown_clean(text);
    (void)amb_sink_put(&loop->err, "broker-ctl: ", text, strlen(text)); /* A full sink loses it. */
}

void amb_loop_set_code(struct amb_loop *loop, int code)
{
    if (!loop->has_code) {
        loop->has_code = true;
        loop->code = code;
    }
}

void amb_loop_signal(const struct amb_loop *loop, int number)
{
    for (unsigned i = 0; i < loop->count; i++) {
        pid_t rank = loop->ranks[i];
        if (rank > 0) {
            (void)kill(-rank, number);
            if (getpgid(rank) != rank) { /* It has moved to another group. */
                (void)kill(rank, number);
            }
        }
    }
}

void amb_loop_begin_end(struct amb_loop *loop, int number)
{
    if (!loop->is_ending) {
        loop->is_ending = true;
        loop->kill_ns = amb_deadline_ns(amb_clock_monotonic_ns(), GRACE_NS);
        amb_loop_signal(loop, number);
        amb_loop_signal(loop, SIGCONT); /* Those that are stopped hear of it, too. */
    }
}

/* broker-ctl was killed. */
static _Noreturn void abandon(struct amb_loop *loop)
{
    amb_loop_signal(loop, SIGKILL);
    (void)amb_below_end(NULL, AMB_LOOP_KILLED_NS);
    amb_folder_remove(loop->local->folder);
    _exit(AMB_LOOP_OF_SIGNAL + SIGKILL);
}

static int code_of(int status)
{
    return WIFEXITED(status) ? WEXITSTATUS(status) : AMB_LOOP_OF_SIGNAL + WTERMSIG(status);
}

/* "ended with code 7", "was ended by signal 9". */
static const char *end_of(int status, char *out, size_t size)
{
    (void)snprintf(out, size, "%s %d",
                   WIFEXITED(status) ? "ended with code" : "was ended by signal",
                   WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
    return out;
}

static void on_rank_end(struct amb_loop *loop, unsigned rank, int status)
{
    char end[40];
    loop->ranks[rank] = 0;
    loop->left--;
    if (code_of(status) == 0) {
        return;
    }
    if (!loop->is_ending) {
        amb_loop_say(loop, "rank %u %s%s", rank, end_of(status, end, sizeof(end)),
                     loop->left > 0 ? ": the others end" : "");
    }
    amb_loop_set_code(loop, code_of(status));
    amb_loop_begin_end(loop, SIGTERM);
}

static void on_broker_end(struct amb_loop *loop, int status)
{
    char end[40];
    loop->broker = 0;
    if (loop->is_broker_wanted) {
        amb_loop_say(loop, "brokerd %s", end_of(status, end, sizeof(end)));
        amb_loop_set_code(loop, AMB_EXIT_UNAVAILABLE);
        amb_loop_begin_end(loop, SIGTERM);
    }
}

static void reap(struct amb_loop *loop)
{
    int status;
    pid_t pid;
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) { /* Also orphans that came to us. */
        if (pid == loop->broker) {
            on_broker_end(loop, status);
        }
        if (pid == loop->asker) {
            loop->asker = 0;
        }
        for (unsigned i = 0; i < loop->count; i++) {
            if (loop->ranks[i] == pid) {
                on_rank_end(loop, i, status);
            }
        }
    }
}

static void on_signal(struct amb_loop *loop, int number)
{
    if (number == SIGCHLD) {
        reap(loop);
        return;
    }
    bool ends = number == SIGHUP || number == SIGINT || number == SIGQUIT || number == SIGTERM;
    if (!ends) {
        amb_loop_signal(loop, number);
        return;
    }
    if (loop->left == 0) { /* It had not begun, or its last lines wait. */
        amb_loop_set_code(loop, AMB_LOOP_OF_SIGNAL + number);
    }
    loop->is_told = true;
    if (++loop->terms > 1) {
        loop->kill_ns = 0;
    }
    amb_loop_begin_end(loop, number);
}

static void read_signals(struct amb_loop *loop)
{
    struct signalfd_siginfo info;
    while (read(loop->signal_fd, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
        on_signal(loop, (int)info.ssi_signo);
    }
}

/* ---- the loop ---- */

static struct amb_sink *sink_of(struct amb_loop *loop, unsigned line)
{
    return line % 2 == 1 ? &loop->out : &loop->err;
}

static void watch_sink(const struct amb_sink *sink, struct pollfd *out)
{
    out->fd = sink->is_gone ? -1 : sink->fd;
    out->events = sink->len > 0 ? POLLOUT : 0;
}

static void on_sink(struct amb_sink *sink, short events)
{
    if ((events & (POLLERR | POLLHUP | POLLNVAL)) != 0) {
        sink->is_gone = true;
        sink->len = 0;
    } else if ((events & POLLOUT) != 0) {
        amb_sink_write(sink);
    }
}

static void move_lines(struct amb_loop *loop)
{
    loop->first_line++; /* None has the room first each time. */
    for (unsigned i = 0; i < loop->line_count; i++) {
        unsigned line = (loop->first_line + i) % loop->line_count;
        amb_lines_move(&loop->lines[line], sink_of(loop, line));
    }
}

static int until_ms(int64_t until_ns)
{
    int64_t left_ns = until_ns - amb_clock_monotonic_ns();
    return left_ns <= 0 ? 0 : left_ns > AMB_NS_PER_SEC ? 1000 : (int)(left_ns / AMB_NS_PER_MS) + 1;
}

/* --timeout */
static void look_at_limit(struct amb_loop *loop)
{
    if (!loop->is_told && amb_clock_monotonic_ns() >= loop->limit_ns) {
        if (!loop->is_ending) {
            amb_loop_say(loop, "the time has passed");
        }
        loop->is_told = true;
        amb_loop_set_code(loop, AMB_EXIT_TIMEOUT);
        amb_loop_begin_end(loop, SIGTERM);
    }
}

/* As with all commands: a reader that has gone had enough, and all else is a failure. */
static void on_output_end(struct amb_loop *loop)
{
    if (loop->out.error != 0) {
        amb_loop_say(loop, "standard output: %s", strerror(loop->out.error));
        loop->out.error = 0;
        amb_loop_set_code(loop, AMB_EXIT_SOFTWARE);
    }
    amb_loop_set_code(loop, AMB_EXIT_OK);
    amb_loop_begin_end(loop, SIGTERM);
}

bool amb_loop_turn(struct amb_loop *loop, int extra_fd, int64_t until_ns)
{
    struct pollfd *fds = loop->fds;
    look_at_limit(loop);
    fds[AT_SIGNAL] = (struct pollfd){.fd = loop->signal_fd, .events = POLLIN};
    fds[AT_ALIVE] = (struct pollfd){.fd = loop->alive_fd, .events = POLLIN};
    fds[AT_EXTRA] = (struct pollfd){.fd = extra_fd, .events = POLLIN};
    watch_sink(&loop->out, &fds[AT_OUT]);
    watch_sink(&loop->err, &fds[AT_ERR]);
    for (unsigned i = 0; i < loop->line_count; i++) {
        fds[AT_LINES + i] = (struct pollfd){
            .fd = amb_lines_want(&loop->lines[i]) ? loop->lines[i].fd : -1, .events = POLLIN};
    }
    if (poll(fds, AT_LINES + loop->line_count,
             until_ms(until_ns < loop->limit_ns || loop->is_told ? until_ns : loop->limit_ns)) <=
        0) {
        return false;
    }
    if (fds[AT_ALIVE].revents != 0) {
        abandon(loop);
    }
    for (unsigned i = 0; i < loop->line_count; i++) {
        if (fds[AT_LINES + i].revents != 0) {
            amb_lines_read(&loop->lines[i]);
        }
    }
    on_sink(&loop->out, fds[AT_OUT].revents);
    on_sink(&loop->err, fds[AT_ERR].revents);
    move_lines(loop);
    if (fds[AT_SIGNAL].revents != 0) {
        read_signals(loop);
    }
    if (loop->out.is_gone) {
        on_output_end(loop);
    }
    return fds[AT_EXTRA].revents != 0;
}

ssize_t amb_loop_await(struct amb_loop *loop, int fd, void *out, size_t size, bool is_line,
                       int64_t limit_ns)
{
    char *to = out;
    size_t len = 0;
    int64_t until_ns = amb_deadline_ns(amb_clock_monotonic_ns(), limit_ns);
    while (len < size && !(is_line && len > 0 && to[len - 1] == '\n')) {
        if (loop->is_ending || amb_clock_monotonic_ns() > until_ns) {
            return -1;
        }
        if (amb_loop_turn(loop, fd, until_ns)) {
            ssize_t n = read(fd, to + len, is_line ? 1 : size - len);
            if (n == 0 || (n < 0 && errno != EINTR)) {
                break;
            }
            len += n > 0 ? (size_t)n : 0;
        }
    }
    return (ssize_t)len;
}
