/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/bench/bench.h"

#include <signal.h>
#include <stdio.h>
#include <time.h>

#define WINDOW_BYTES (UINT64_C(16) << 20)
#define WINDOW_MAX UINT64_C(32768)

static volatile sig_atomic_t is_stopped;

static void on_signal(int number)
{
    (void)number;
    is_stopped = 1;
}

void amb_bench_catch_signals(void)
{
    struct sigaction action = {.sa_handler = on_signal};
    (void)sigaction(SIGINT, &action, NULL);
    (void)sigaction(SIGTERM, &action, NULL);
}

bool amb_bench_stopped(void)
{
    return is_stopped != 0;
}

void amb_bench_sleep_ns(int64_t ns)
{
    struct timespec ts = {.tv_sec = (time_t)(ns / AMB_SEC), .tv_nsec = ns % AMB_SEC};
    (void)nanosleep(&ts, NULL);
}

const char *amb_bench_way(const struct amb_bench *bench)
{
    return bench->is_lease ? "lease" : bench->is_post ? "post" : "copy";
}

const char *amb_bench_place(const struct amb_bench *bench)
{
    switch (bench->own) {
    case AMB_BENCH_OWN_REUSED:
        return "own, reused";
    case AMB_BENCH_OWN_FRESH:
        return "own, fresh";
    case AMB_BENCH_OWN_NONE:
        break;
    }
    return bench->wants_copy ? "copy" : "in place";
}

uint64_t amb_bench_window(const struct amb_bench *bench)
{
    if (bench->window > 0) {
        return bench->window;
    }
    /* 16 MiB, but 3 to 32768 messages, shared by the publishers. */
    uint64_t window = WINDOW_BYTES / bench->size;
    window = window < 3 ? 3 : window > WINDOW_MAX ? WINDOW_MAX : window;
    window /= bench->pubs;
    return window < 2 ? 2 : window;
}

struct amb_conn *amb_bench_connect(const struct amb_bench *bench, const char *name,
                                   struct amb_error *error)
{
    struct amb_conn *conn;
    struct amb_options options = {
        .size = sizeof(options),
        .name = name,
        .credentials = bench->credentials,
        .reconnect_attempts = AMB_NONE, /* A measurement ends with its broker. */
        .error = error,
    };
    enum amb_status status = amb_connect(bench->url, &options, &conn);
    if (status != AMB_OK) {
        error->status = status;
        if (error->text[0] == '\0') {
            (void)snprintf(error->text, sizeof(error->text), "%s", amb_strerror(status));
        }
        return NULL;
    }
    return conn;
}
