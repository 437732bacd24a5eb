/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/ctl/top/restore.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <termios.h>
#include <unistd.h>

#define LEAVE_MAX 256u

static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGSEGV,
                              SIGBUS, SIGFPE,  SIGILL, SIGABRT};
#define SIGNALS (sizeof(signals) / sizeof(signals[0]))

static struct {
    struct termios modes;
    bool has_modes;
    char leave[LEAVE_MAX];
    size_t leave_len;
    struct sigaction past[SIGNALS];
    int kept, standard_error; /* messages so far, and the descriptor that they are for; -1: none */
    atomic_bool is_armed;
} terminal = {.kept = -1, .standard_error = -1};

static void write_all(int fd, const char *bytes, size_t len)
{
    while (len > 0) {
        ssize_t written = write(fd, bytes, len);
        if (written <= 0) {
            return;
        }
        bytes += written;
        len -= (size_t)written;
    }
}

/* Standard error is itself again, and has all that was kept. */
static void give_back_errors(void)
{
    char bytes[4096];
    ssize_t len;
    if (terminal.kept < 0) {
        return;
    }
    (void)dup2(terminal.standard_error, STDERR_FILENO);
    for (off_t at = 0; (len = pread(terminal.kept, bytes, sizeof(bytes), at)) > 0; at += len) {
        write_all(STDERR_FILENO, bytes, (size_t)len);
    }
}

static void keep_errors(void)
{
    terminal.kept = -1;
    if (isatty(STDERR_FILENO) == 0) {
        return;
    }
    int kept = memfd_create("errors", MFD_CLOEXEC);
    terminal.standard_error = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
    if (kept < 0 || terminal.standard_error < 0 || dup2(kept, STDERR_FILENO) < 0) {
        if (kept >= 0) {
            (void)close(kept);
        }
        return;
    }
    terminal.kept = kept;
}

static void restore(void)
{
    if (!atomic_exchange(&terminal.is_armed, false)) {
        return;
    }
    write_all(STDOUT_FILENO, terminal.leave, terminal.leave_len);
    if (terminal.has_modes) {
        (void)tcsetattr(STDIN_FILENO, TCSANOW, &terminal.modes);
    }
    give_back_errors();
}

static void on_end(int number)
{
    restore();
    (void)signal(number, SIG_DFL);
    (void)raise(number);
}

static void on_first(int number)
{
    int error = errno;
    for (size_t i = 0; i < SIGNALS; i++) {
        void (*past)(int) = terminal.past[i].sa_handler;
        if (signals[i] != number) {
            continue;
        }
        if (past == SIG_DFL) {
            on_end(number);
        } else {
            past(number);
        }
    }
    struct sigaction second = {.sa_handler = on_end};
    (void)sigaction(number, &second, NULL);
    errno = error;
}

/* A sentence of a terminal's table without the times in it, "$<5>", which modern ones ignore. */
static size_t copy_plain(char *out, const char *text)
{
    size_t len = 0;
    while (*text != '\0' && len + 1 < LEAVE_MAX) {
        if (text[0] == '$' && text[1] == '<' && strchr(text, '>') != NULL) {
            text = strchr(text, '>') + 1;
            continue;
        }
        out[len++] = *text++;
    }
    return len;
}

void amb_restore_keep_modes(void)
{
    terminal.has_modes = tcgetattr(STDIN_FILENO, &terminal.modes) == 0;
}

void amb_restore_arm(const char *leave)
{
    terminal.leave_len = copy_plain(terminal.leave, leave);
    keep_errors();
    atomic_store(&terminal.is_armed, true);
    for (size_t i = 0; i < SIGNALS; i++) {
        bool is_first = signals[i] == SIGINT || signals[i] == SIGTERM;
        struct sigaction action = {.sa_handler = is_first ? on_first : on_end};
        (void)sigaction(signals[i], &action, &terminal.past[i]);
        if (terminal.past[i].sa_handler == SIG_IGN) { /* as nohup has it */
            (void)sigaction(signals[i], &terminal.past[i], NULL);
        }
    }
}

void amb_restore_disarm(void)
{
    if (!atomic_exchange(&terminal.is_armed, false)) {
        return;
    }
    for (size_t i = 0; i < SIGNALS; i++) {
        (void)sigaction(signals[i], &terminal.past[i], NULL);
    }
    give_back_errors();
    if (terminal.kept >= 0) {
        (void)close(terminal.kept);
        (void)close(terminal.standard_error);
        terminal.kept = terminal.standard_error = -1;
    }
}
