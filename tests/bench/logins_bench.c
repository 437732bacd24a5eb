/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Logs in again and again: connects as the environment says (AMB_CA, AMB_CREDENTIALS), waits until
 * the link is there, and goes.
 *
 *     logins-bench URL RATE SECONDS
 *
 * RATE logins a second, each at its time; 0: one after the other. Prints "ready", and then "logins
 * COUNT SECONDS MEDIAN_MS WORST_MS". Exit: 1 if one of them failed.
 */
#include <amb/amb.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define LOGINS_MAX 100000u
#define NS_PER_S INT64_C(1000000000)

static int64_t took_ns[LOGINS_MAX];

static int64_t now_ns(void)
{
    struct timespec ts;
    (void)clock_gettime(CLOCK_MONOTONIC, &ts);
    return (int64_t)ts.tv_sec * NS_PER_S + ts.tv_nsec;
}

static void sleep_until(int64_t when_ns)
{
    struct timespec ts = {.tv_sec = when_ns / NS_PER_S, .tv_nsec = when_ns % NS_PER_S};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL) != 0) {
    }
}

static int compare(const void *a, const void *b)
{
    const int64_t *x = a, *y = b;
    return *x < *y ? -1 : *x > *y;
}

static int64_t log_in(const char *url)
{
    struct amb_error error = {.status = AMB_OK};
    struct amb_conn *conn;
    int64_t start_ns = now_ns();
    enum amb_status status =
        amb_connect(url, AMB_OPTIONS(.error = &error, .progress = AMB_PROGRESS_POLL), &conn);
    if (status != AMB_OK) {
        (void)fprintf(stderr, "logins-bench: %s: %s\n", amb_strerror(status), error.text);
        exit(1);
    }
    int64_t ns = now_ns() - start_ns;
    (void)amb_close(conn, AMB_NOWAIT);
    return ns;
}

int main(int argc, char **argv)
{
    double rate = argc == 4 ? strtod(argv[2], NULL) : -1;
    double seconds = argc == 4 ? strtod(argv[3], NULL) : 0;
    if (rate < 0 || seconds <= 0) {
        (void)fprintf(stderr, "usage: logins-bench URL RATE SECONDS\n");
        return 64;
    }
    (void)log_in(argv[1]); /* Libraries are loaded by then. */
    (void)printf("ready\n");
    (void)fflush(stdout);
    size_t count = 0;
    int64_t start_ns = now_ns(), end_ns = start_ns + (int64_t)(seconds * (double)NS_PER_S);
    while (count < LOGINS_MAX && now_ns() < end_ns) {
        if (rate > 0) {
            sleep_until(start_ns + (int64_t)((double)count / rate * (double)NS_PER_S));
        }
        took_ns[count++] = log_in(argv[1]);
    }
    double took = (double)(now_ns() - start_ns) / (double)NS_PER_S;
    qsort(took_ns, count, sizeof(took_ns[0]), compare);
    (void)printf("logins %zu %.3f %.3f %.3f\n", count, took, (double)took_ns[count / 2] / 1e6,
                 (double)took_ns[count - 1] / 1e6);
    return 0;
}
