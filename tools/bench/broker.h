/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A private brokerd for the time of a run.
 * Threads: one, that of the parent, which never connects.
 */
#pragma once

#include "tools/bench/bench.h"
#include "tools/common/folder.h"

/* A brokerd for the time of a run: own folder, Unix socket and free loopback port. */
struct amb_bench_broker {
    pid_t pid;
    int stdout_fd;
    char dir[AMB_FOLDER_MAX];
    char unix_url[256], tcp_url[256];
    char url[320]; /* the one of these that bench->link needs */
};
/* Says what failed. */
enum amb_exit amb_bench_broker_start(const struct amb_bench *bench, struct amb_bench_broker *out);
/* For this link; NULL: the Unix socket and what the broker chooses. */
void amb_bench_broker_select(struct amb_bench_broker *broker, const char *link);
void amb_bench_broker_stop(struct amb_bench_broker *broker);
