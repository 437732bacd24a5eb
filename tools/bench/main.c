/* SPDX-License-Identifier: Apache-2.0 */
/*
 * broker-bench: how fast, how late, at which cost.
 */
#include "tools/bench/bench.h"

#include "tools/bench/broker.h"
#include "tools/bench/compare.h"
#include "tools/bench/gpu.h"
#include "tools/bench/latency.h"
#include "tools/bench/matrix.h"
#include "tools/bench/partition.h"
#include "tools/bench/payload.h"
#include "tools/bench/pubsub.h"
#include "tools/bench/sendrecv.h"
#include "tools/bench/shuffle.h"
#include "tools/bench/throughput.h"
#include "tools/cli/complete.h"
#include "tools/cli/help.h"
#include "tools/cli/tables.h"
#include "tools/common/output.h"
#include "tools/common/table.h"
#include "wire/base/assert.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

#define SIZE 1024u
#define EXCHANGE_SIZE 10000000u /* as the benchmarks have it that these two stand beside */

struct command {
    const char *name;
    enum amb_exit (*run)(const struct amb_bench *bench, json_t **out);
    bool starts_brokers; /* itself, or needs none */
    uint64_t size;       /* of a message, unless --size says it */
};

/* *out: rows of two files. AMB_EXIT_SLOWER: some became slower. */
static enum amb_exit compare(const struct amb_bench *bench, json_t **out)
{
    json_t *results[2] = {NULL, NULL};
    unsigned slower = 0;
    for (unsigned i = 0; i < 2; i++) {
        json_error_t error;
        results[i] = json_load_file(bench->files[i], 0, &error);
        if (results[i] == NULL) {
            if (error.line > 0) {
                amb_tool_error("%s: line %d: %s", bench->files[i], error.line, error.text);
            } else { /* "unable to open FILE: ..." */
                amb_tool_error("%s", error.text);
            }
            json_decref(results[0]);
            return AMB_EXIT_DATA;
        }
    }
    *out = amb_compare(results[0], results[1], bench->tolerance, &slower);
    json_decref(results[0]);
    json_decref(results[1]);
    if (json_array_size(*out) == 0) {
        amb_tool_error("%s and %s have no cell in common", bench->files[0], bench->files[1]);
        return AMB_EXIT_DATA;
    }
    if (slower > 0) {
        amb_tool_error("%u of %zu cells are more than %.0f %% slower", slower,
                       json_array_size(*out), bench->tolerance * 100);
        return AMB_EXIT_SLOWER;
    }
    return AMB_EXIT_OK;
}

static const struct command commands[] = {
    {"throughput", amb_bench_throughput, false, SIZE},
    {"latency", amb_bench_latency, false, SIZE},
    {"matrix", amb_bench_matrix, true, SIZE},
    {"sendrecv", amb_bench_sendrecv, false, EXCHANGE_SIZE},
    {"shuffle", amb_bench_shuffle, false, EXCHANGE_SIZE},
    {"pub", amb_bench_pub, false, SIZE},
    {"sub", amb_bench_sub, false, SIZE},
    {"copies", amb_bench_copies, true, SIZE},
    {"compare", compare, true, SIZE},
};
#define COMMAND_COUNT (sizeof(commands) / sizeof(commands[0]))

/* Options of the measurement. */
static void take_measure(struct amb_bench *bench, const struct amb_cli_line *line)
{
    bench->size = amb_cli_number(line, "size", bench->size);
    bench->duration_ns = amb_cli_ns(line, "seconds", bench->duration_ns);
    bench->count = amb_cli_number(line, "count", bench->count);
    bench->warm_ns = amb_cli_ns(line, "warm", bench->warm_ns);
    bench->subs = (unsigned)amb_cli_number(line, "subs", bench->subs);
    bench->pubs = (unsigned)amb_cli_number(line, "pubs", bench->pubs);
    bench->window = amb_cli_number(line, "window", bench->window);
    bench->is_open = amb_cli_has(line, "open");
    bench->is_touch = amb_cli_has(line, "touch");
    bench->is_post = amb_cli_has(line, "post");
    bench->is_lease = amb_cli_has(line, "lease");
    bench->wants_copy = amb_cli_has(line, "copy");
    bool is_cuda = amb_cli_word(line, "memory", AMB_MEM_HOST) == AMB_MEM_CUDA;
    bench->mem = is_cuda ? AMB_MEM_CUDA : AMB_MEM_DEFAULT;
    bench->device = (int)amb_cli_number(line, "device", 0);
    bench->slow = (enum amb_slow)amb_cli_word(line, "slow", bench->slow);
    bench->rate = amb_cli_rate(line, "rate", bench->rate);
    bench->iterations = amb_cli_number(line, "n-iter", bench->iterations);
    bench->warm_iterations = amb_cli_number(line, "n-warmup-iter", bench->warm_iterations);
    bench->own = amb_cli_has(line, "reuse-alloc") ? AMB_BENCH_OWN_REUSED : AMB_BENCH_OWN_NONE;
    bench->workers = (unsigned)amb_cli_number(line, "workers", bench->workers);
    bench->is_detailed = amb_cli_has(line, "detailed-report");
}

/* Options of the broker and of the output. */
static void take_rest(struct amb_bench *bench, const struct amb_cli_line *line)
{
    size_t at = 0;
    const char *text;
    bench->url = amb_cli_text(line, "url");
    bench->brokerd = amb_cli_text(line, "brokerd");
    while ((text = amb_cli_next(line, "broker-option", &at)) != NULL) {
        bench->broker_options[bench->broker_option_count++] = text;
    }
    bench->broker_pid = (pid_t)amb_cli_number(line, "broker-pid", 0);
    bench->link = amb_cli_text(line, "link");
    bench->credentials = amb_cli_text(line, "credentials");
    if (amb_cli_has(line, "topic")) {
        bench->topic = amb_cli_text(line, "topic");
    }
    bench->json_file = amb_cli_text(line, "json");
    bench->is_json = amb_cli_word(line, "output", AMB_CLI_FORM_TABLE) == AMB_CLI_FORM_JSON;
    if (amb_cli_has(line, "tolerance")) {
        bench->tolerance = (double)amb_cli_number(line, "tolerance", 0) / 100;
    }
    for (size_t i = 0; i < line->arg_count; i++) {
        bench->files[i] = line->args[i];
    }
}

/* Do the options fit each other, and the command? */
static bool check(const struct command *command, const struct amb_bench *bench)
{
    if (bench->own != AMB_BENCH_OWN_NONE && command->run != amb_bench_sendrecv) {
        amb_tool_error("%s --reuse-alloc: is of sendrecv alone", command->name);
        return false;
    }
    if (bench->mem != AMB_MEM_CUDA && bench->size < AMB_PAYLOAD_MIN) {
        amb_tool_error("%s --size: from %u bytes", command->name, AMB_PAYLOAD_MIN);
        return false;
    }
    if (bench->mem == AMB_MEM_CUDA && (bench->pubs != 1 || bench->size % sizeof(uint32_t) != 0)) {
        amb_tool_error("%s --memory cuda: one publisher, and sizes that are multiples of 4",
                       command->name);
        return false;
    }
    return true;
}

static const struct command *find_command(const char *name)
{
    for (size_t i = 0; i < COMMAND_COUNT; i++) {
        if (strcmp(commands[i].name, name) == 0) {
            return &commands[i];
        }
    }
    return NULL;
}

/* bench->url with ?link= where --link says more than the URL. */
static void add_link(struct amb_bench *bench, char *url, size_t size)
{
    if (bench->link != NULL && strstr(bench->url, "link=") == NULL) {
        (void)snprintf(url, size, "%s%clink=%s", bench->url,
                       strchr(bench->url, '?') == NULL ? '?' : '&', bench->link);
        bench->url = url;
    }
}

static enum amb_exit run(const struct command *command, struct amb_bench *bench, json_t **out)
{
    char url[1024];
    if (command->starts_brokers) {
        return command->run(bench, out);
    }
    const char *named = bench->brokerd == NULL ? getenv("AMB_URL") : NULL;
    if (bench->url == NULL && named != NULL && named[0] != '\0') { /* Empty, it is not set. */
        bench->url = named;
    }
    if (bench->url != NULL) {
        add_link(bench, url, sizeof(url));
        return command->run(bench, out);
    }
    if (command->run == amb_bench_pub || command->run == amb_bench_sub) {
        amb_tool_error("%s --url: is needed", command->name);
        return AMB_EXIT_USAGE;
    }
    struct amb_bench_broker broker;
    enum amb_exit code = amb_bench_broker_start(bench, &broker);
    if (code == AMB_EXIT_OK) {
        bench->url = broker.url;
        bench->broker_pid = broker.pid;
        code = command->run(bench, out);
        amb_bench_broker_stop(&broker);
    }
    return code;
}

static enum amb_exit print(const struct command *command, const struct amb_bench *bench,
                           json_t *result)
{
    if (bench->json_file != NULL &&
        json_dump_file(result, bench->json_file, JSON_INDENT(1) | JSON_REAL_PRECISION(6)) != 0) {
        amb_tool_error("%s: %s", bench->json_file, strerror(errno));
        return AMB_EXIT_SOFTWARE;
    }
    if (bench->is_json) {
        (void)json_dumpf(result, stdout, JSON_COMPACT | JSON_REAL_PRECISION(6));
        (void)fputc('\n', stdout);
    } else if (command->run == amb_bench_matrix) {
        json_t *rows = amb_bench_matrix_rows(result);
        amb_table_print(rows, stdout);
        json_decref(rows);
    } else {
        amb_table_print(result, stdout);
    }
    return amb_output_end(AMB_EXIT_OK);
}

/* Measures, and prints the result. */
static enum amb_exit run_line(struct amb_bench *bench, const struct amb_cli_line *line)
{
    const struct command *command = find_command(line->command->name);
    amb_assert(command != NULL);
    take_measure(bench, line);
    take_rest(bench, line);
    if (bench->size == 0) {
        bench->size = command->size;
    }
    if (!check(command, bench)) {
        return AMB_EXIT_USAGE;
    }
    json_t *result = NULL;
    enum amb_exit code = run(command, bench, &result);
    if (result != NULL) {
        enum amb_exit printed = print(command, bench, result);
        code = code == AMB_EXIT_OK ? printed : code;
        json_decref(result);
    }
    return code;
}

/* Help and the version, or the measurement. */
static enum amb_exit answer(const struct amb_cli_line *line)
{
    struct amb_bench bench = {
        .subs = 1,
        .pubs = 1,
        .duration_ns = 2 * AMB_SEC,
        .warm_ns = AMB_BENCH_WARM_NS,
        .tolerance = 0.1,
        .iterations = 10,
        .warm_iterations = 10,
        .workers = 4,
        .topic = "bench",
        .slow = AMB_SLOW_BLOCK,
    };
    if (line->wants_help) {
        amb_cli_help_line(line, stdout);
    } else if (line->wants_version) {
        (void)printf("broker-bench %s\n", amb_version());
    } else {
        return run_line(&bench, line);
    }
    return amb_output_end(AMB_EXIT_OK);
}

int main(int argc, char **argv)
{
    char error[AMB_CLI_ERROR_MAX];
    struct amb_cli_line line;
    amb_tool_name("broker-bench");
    (void)signal(SIGPIPE, SIG_IGN);
    if (argc > 1 && strcmp(argv[1], AMB_CLI_COMPLETE) == 0) {
        amb_cli_complete(&amb_cli_broker_bench, argc - 2, argv + 2, NULL, stdout);
        return AMB_EXIT_OK;
    }
    enum amb_status status =
        amb_cli_parse(&amb_cli_broker_bench, argc, argv, &line, error, sizeof(error));
    if (status != AMB_OK) {
        amb_tool_error("%s", error);
        return (int)amb_exit_of(status);
    }
    amb_bench_catch_signals();
    (void)prctl(PR_SET_TIMERSLACK, 1);
    enum amb_exit code = answer(&line);
    amb_cli_fini(&line);
    return (int)code;
}
