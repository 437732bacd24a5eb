/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/sim/sim.h"

#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Called by the sanitizers, where they are linked in, when they have something to report. */
__attribute__((visibility("default"))) void __asan_on_error(void);
__attribute__((visibility("default"))) void __ubsan_on_report(void);

static const struct sim *traced;
static const char *program;

static void print_event(const struct sim *s, const char *text, const uint64_t *values, size_t count)
{
    size_t len = strcspn(text, " ");
    (void)printf("%6" PRIu32 " %12.3f us  %-14.*s", s->step, (double)s->now_ns / 1000, (int)len,
                 text);
    for (size_t i = 0; i < count; i++) {
        text += len;
        text += *text == ' ';
        len = strcspn(text, " ");
        (void)printf(" %.*s=%" PRIu64, (int)len, text, values[i]);
    }
    (void)printf("\n");
}

void sim_event(struct sim *s, const char *text, const uint64_t *values, size_t count)
{
    uint64_t hash = s->hash ^ s->step ^ (uint64_t)text[0] << 32;
    for (size_t i = 0; i < count; i++) {
        hash = (hash ^ values[i]) * UINT64_C(0x9e3779b97f4a7c15);
        hash ^= hash >> 29;
    }
    s->hash = hash;
    if (__builtin_expect(s->is_tracing, 0)) {
        print_event(s, text, values, count);
    }
}

static void tell_how(const struct sim *s)
{
    (void)fprintf(stderr, "  seed %" PRIu64 ", step %" PRIu32 "; what led to it:\n", s->seed,
                  s->step);
    (void)fprintf(stderr, "  %s --seed %" PRIu64 " --steps %" PRIu32 " --trace\n", program, s->seed,
                  s->steps);
}

void sim_fail(const struct sim *s, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    (void)fflush(stdout);
    (void)fprintf(stderr, "INVARIANT: ");
    (void)vfprintf(stderr, format, args);
    (void)fprintf(stderr, "\n");
    va_end(args);
    tell_how(s);
    (void)fflush(stderr);
    _exit(1);
}

/* stdio is not for signal handlers; but the process is at its end, in one thread, and not in stdio.
 * An assertion of the broker has failed, or a planted fault has spoilt memory. That may show as any
 * of these, or as a turn without an end. */
static void on_signal(int number)
{
    (void)signal(number, SIG_DFL);
    (void)fflush(stdout);
    (void)fprintf(stderr, "SIGNAL %d\n", number);
    tell_how(traced);
    (void)fflush(stderr);
    _exit(1);
}

static void on_report(void)
{
    if (traced != NULL) {
        (void)fflush(stdout);
        (void)fprintf(stderr, "SANITIZER: see its report\n");
        tell_how(traced);
    }
}

void __asan_on_error(void)
{
    on_report();
}

void __ubsan_on_report(void)
{
    on_report();
}

void sim_trace_init(const struct sim *s, const char *name)
{
    traced = s;
    program = name;
    static const int numbers[] = {SIGABRT, SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGALRM};
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        (void)signal(numbers[i], on_signal);
    }
}
