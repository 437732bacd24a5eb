/* SPDX-License-Identifier: Apache-2.0 */
/*
 * broker-bench matrix: every size on every link, throughput and latency. Each cell has a broker of
 * its own, so no cell sees the memory or the sessions of another.
 */
#include "tools/bench/matrix.h"

#include "tools/bench/broker.h"
#include "tools/bench/latency.h"
#include "tools/bench/throughput.h"

#include <stdio.h>
#include <string.h>

static const uint64_t sizes[] = {64, 1 << 10, 64 << 10, 1 << 20, 64 << 20};
static const char *const links[] = {"ring", "stream", "ucx"};

/* One measurement with a broker of its own. A failed cell is a result with its status. */
static json_t *cell(const struct amb_bench *options, const char *workload, enum amb_exit *code)
{
    struct amb_bench bench = *options;
    struct amb_bench_broker broker;
    json_t *result = NULL;
    *code = amb_bench_broker_start(&bench, &broker);
    if (*code == AMB_EXIT_OK) {
        bench.url = broker.url;
        bench.broker_pid = broker.pid;
        *code = strcmp(workload, "latency") == 0 ? amb_bench_latency(&bench, &result)
                                                 : amb_bench_throughput(&bench, &result);
        amb_bench_broker_stop(&broker);
    }
    if (result == NULL) {
        result = json_pack("{s:s, s:s, s:I, s:s}", "workload", workload, "link", bench.link, "size",
                           (json_int_t)bench.size, "status", "failed");
    }
    return result;
}

enum amb_exit amb_bench_matrix(const struct amb_bench *options, json_t **out)
{
    struct amb_bench bench = *options;
    enum amb_exit worst = AMB_EXIT_OK;
    *out = json_array();
    for (size_t l = 0; l < sizeof(links) / sizeof(links[0]); l++) {
        if (options->link != NULL && strcmp(options->link, links[l]) != 0) {
            continue;
        }
        bench.link = links[l];
        for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
            static const char *const workloads[] = {"throughput", "latency"};
            bench.size = sizes[s];
            for (size_t w = 0; w < 2 && !amb_bench_stopped(); w++) {
                enum amb_exit code;
                (void)json_array_append_new(*out, cell(&bench, workloads[w], &code));
                worst = worst == AMB_EXIT_OK ? code : worst;
            }
        }
    }
    return worst;
}

static void take(json_t *row, const json_t *result, const char *key)
{
    json_t *value = json_object_get(result, key);
    if (value != NULL) {
        (void)json_object_set(row, key, value);
    }
}

static bool is_same_cell(const json_t *a, const json_t *b)
{
    return json_equal(json_object_get(a, "link"), json_object_get(b, "link")) == 1 &&
           json_equal(json_object_get(a, "size"), json_object_get(b, "size")) == 1;
}

json_t *amb_bench_matrix_rows(const json_t *results)
{
    static const char *const keys[] = {
        "msgs_per_s",          "mb_per_s", "lost",   "broker_cpu_s_per_mmsg",
        "broker_cpu_s_per_gb", "p50_us",   "p99_us", "p999_us"};
    json_t *rows = json_array();
    for (size_t i = 0; i < json_array_size(results); i++) {
        const json_t *result = json_array_get(results, i);
        bool is_latency =
            strcmp(json_string_value(json_object_get(result, "workload")), "latency") == 0;
        json_t *row = json_array_get(rows, json_array_size(rows) - 1);
        if (row == NULL || !is_same_cell(row, result)) {
            row = json_object();
            (void)json_array_append_new(rows, row);
            take(row, result, "link");
            take(row, result, "size");
            take(row, result, "path");
        }
        for (size_t k = 0; k < sizeof(keys) / sizeof(keys[0]); k++) {
            /* Costs are shown for throughput only. */
            if (!is_latency || strncmp(keys[k], "broker", 6) != 0) {
                take(row, result, keys[k]);
            }
        }
        const char *status = json_string_value(json_object_get(result, "status"));
        const char *old = json_string_value(json_object_get(row, "status"));
        if (old == NULL || strcmp(old, "ok") == 0) {
            (void)json_object_set_new(row, "status", json_string(status));
        }
    }
    return rows;
}
