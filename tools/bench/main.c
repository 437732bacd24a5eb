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
#include "tools/common/output.h"
#include "tools/common/table.h"
#include "tools/common/units.h"

#include <errno.h>
#include <getopt.h>
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
    unsigned files;      /* arguments */
    uint64_t size;       /* of a message, unless --size says it */
    const char *help;
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
            amb_tool_error("%s: line %d: %s", bench->files[i], error.line, error.text);
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
    {"throughput", amb_bench_throughput, false, 0, SIZE,
     "messages a second, publishers to subscribers"},
    {"latency", amb_bench_latency, false, 0, SIZE, "one way: half of a round trip, or --rate"},
    {"matrix", amb_bench_matrix, true, 0, SIZE, "both, 64 B to 64 MiB, on each link"},
    {"sendrecv", amb_bench_sendrecv, false, 0, EXCHANGE_SIZE,
     "two parties exchange messages, one at a time"},
    {"shuffle", amb_bench_shuffle, false, 0, EXCHANGE_SIZE,
     "workers exchange partitions, each with all others"},
    {"pub", amb_bench_pub, false, 0, SIZE, "only a publisher, as fast as the broker lets it"},
    {"sub", amb_bench_sub, false, 0, SIZE, "only a subscriber, from its first message on"},
    {"copies", amb_bench_copies, true, 0, SIZE, "plain copies on a GPU, to measure against"},
    {"compare", compare, true, 2, SIZE, "A.json B.json: ratios, and what became slower"},
};
#define COMMAND_COUNT (sizeof(commands) / sizeof(commands[0]))

static void print_help(void)
{
    (void)printf("usage: broker-bench COMMAND [OPTION]...\n\ncommands:\n");
    for (size_t i = 0; i < COMMAND_COUNT; i++) {
        (void)printf("  %-10s %s\n", commands[i].name, commands[i].help);
    }
    (void)printf(
        "\nthe broker:\n"
        "  --url URL            a running one; without it a private brokerd is started\n"
        "  --brokerd PATH       which one to start; the one beside this program\n"
        "  --broker-option K=V  goes to it as -o K=V; may be repeated\n"
        "  --broker-pid PID     with --url: whose CPU time and memory to show\n"
        "  --link LINK          ring, stream or ucx\n"
        "  --credentials FILE   the token for a TCP listener is its first line\n"
        "the measurement:\n"
        "  --size S             bytes of a message, from 64 (1k)\n"
        "  --seconds T          how long (2); --count N: how many messages instead\n"
        "  --warm T             before that, not measured (150ms)\n"
        "  --subs N, --pubs N   processes (1, 1)\n"
        "  --window N           messages a publisher may be ahead (16 MiB, 3 to 32768)\n"
        "  --open               no window: as fast as the broker lets it\n"
        "  --touch              write and check every word of every message\n"
        "  --post               lend messages to the library instead of having them copied\n"
        "  --lease              write messages in place, in leased memory\n"
        "  --copy               subscribers get copies, never mapped memory\n"
        "  --memory KIND        host, or cuda: from GPU memory into GPU memory (host); sizes from\n"
        "                       4 bytes then, one publisher, and --touch is done by kernels\n"
        "  --device N           which GPU (0)\n"
        "  --slow POLICY        block or drop-oldest for slow subscribers (block)\n"
        "  --topic T            (bench)\n"
        "  --rate R             messages a second of each publisher: of pub, and of latency, "
        "which\n"
        "                       then counts from when a message was due (an open loop)\n"
        "sendrecv, shuffle:\n"
        "  --n-bytes S          the same as --size (10000000)\n"
        "  --n-iter N           round trips, or exchanges (10)\n"
        "  --n-warmup-iter N    before them, not measured (10)\n"
        "  --reuse-alloc        sendrecv: into memory of one's own, allocated once; with --copy\n"
        "                       for each message; else messages are read where they are\n"
        "  --workers N          shuffle: processes (4)\n"
        "  --detailed-report    each iteration, too\n"
        "output:\n"
        "  --tolerance P        compare: percent that may be slower (10); more is exit code 1\n"
        "  -o table|json        --json FILE: the whole result also there\n");
}

static int usage(void)
{
    (void)fprintf(stderr,
                  "usage: broker-bench throughput|latency|matrix|sendrecv|shuffle|pub|sub|copies "
                  "[OPTION]...\n"
                  "       broker-bench compare A.json B.json [--tolerance PERCENT]\n"
                  "       broker-bench --help\n");
    return AMB_EXIT_USAGE;
}

enum {
    OPT_BROKERD = 256,
    OPT_BROKER_OPTION,
    OPT_BROKER_PID,
    OPT_LINK,
    OPT_CREDENTIALS,
    OPT_SIZE,
    OPT_SECONDS,
    OPT_COUNT,
    OPT_SUBS,
    OPT_PUBS,
    OPT_WINDOW,
    OPT_OPEN,
    OPT_TOUCH,
    OPT_POST,
    OPT_COPY,
    OPT_LEASE,
    OPT_SLOW,
    OPT_TOPIC,
    OPT_RATE,
    OPT_JSON,
    OPT_WARM,
    OPT_TOLERANCE,
    OPT_MEMORY,
    OPT_DEVICE,
    OPT_ITERATIONS,
    OPT_WARM_ITERATIONS,
    OPT_REUSE,
    OPT_WORKERS,
    OPT_DETAILED,
};

static const struct option options[] = {
    {"url", required_argument, NULL, 'u'},
    {"output", required_argument, NULL, 'o'},
    {"help", no_argument, NULL, 'h'},
    {"version", no_argument, NULL, 'V'},
    {"brokerd", required_argument, NULL, OPT_BROKERD},
    {"broker-option", required_argument, NULL, OPT_BROKER_OPTION},
    {"broker-pid", required_argument, NULL, OPT_BROKER_PID},
    {"link", required_argument, NULL, OPT_LINK},
    {"credentials", required_argument, NULL, OPT_CREDENTIALS},
    {"size", required_argument, NULL, OPT_SIZE},
    {"seconds", required_argument, NULL, OPT_SECONDS},
    {"count", required_argument, NULL, OPT_COUNT},
    {"subs", required_argument, NULL, OPT_SUBS},
    {"pubs", required_argument, NULL, OPT_PUBS},
    {"window", required_argument, NULL, OPT_WINDOW},
    {"open", no_argument, NULL, OPT_OPEN},
    {"touch", no_argument, NULL, OPT_TOUCH},
    {"post", no_argument, NULL, OPT_POST},
    {"copy", no_argument, NULL, OPT_COPY},
    {"lease", no_argument, NULL, OPT_LEASE},
    {"slow", required_argument, NULL, OPT_SLOW},
    {"topic", required_argument, NULL, OPT_TOPIC},
    {"rate", required_argument, NULL, OPT_RATE},
    {"json", required_argument, NULL, OPT_JSON},
    {"warm", required_argument, NULL, OPT_WARM},
    {"tolerance", required_argument, NULL, OPT_TOLERANCE},
    {"memory", required_argument, NULL, OPT_MEMORY},
    {"device", required_argument, NULL, OPT_DEVICE},
    {"n-bytes", required_argument, NULL, OPT_SIZE},
    {"n-iter", required_argument, NULL, OPT_ITERATIONS},
    {"n-warmup-iter", required_argument, NULL, OPT_WARM_ITERATIONS},
    {"reuse-alloc", no_argument, NULL, OPT_REUSE},
    {"workers", required_argument, NULL, OPT_WORKERS},
    {"detailed-report", no_argument, NULL, OPT_DETAILED},
    {NULL, 0, NULL, 0},
};

static bool is_one_of(const char *value, const char *a, const char *b, const char *c)
{
    return strcmp(value, a) == 0 || strcmp(value, b) == 0 || strcmp(value, c) == 0;
}

static bool take_count(const char *value, uint64_t min, uint64_t max, uint64_t *out)
{
    return amb_units_count(value, max, out) && *out >= min;
}

/* Options of the measurement; false: the value is wrong. */
static bool take_measure(struct amb_bench *bench, int option, const char *value)
{
    uint64_t number = 0;
    switch (option) {
    case OPT_SIZE:
        return amb_units_size(value, &bench->size) && bench->size >= AMB_BENCH_GPU_SIZE_MIN &&
               bench->size <= (UINT64_C(1) << 40);
    case OPT_SECONDS:
        return amb_units_duration(value, &bench->duration_ns) && bench->duration_ns > 0 &&
               bench->duration_ns <= 3600 * AMB_SEC;
    case OPT_COUNT:
        return take_count(value, 1, AMB_PAYLOAD_SEQ_MASK, &bench->count);
    case OPT_SUBS:
        if (!take_count(value, 1, AMB_BENCH_SUBS_MAX, &number)) {
            return false;
        }
        bench->subs = (unsigned)number;
        return true;
    case OPT_PUBS:
        if (!take_count(value, 1, AMB_BENCH_PUBS_MAX, &number)) {
            return false;
        }
        bench->pubs = (unsigned)number;
        return true;
    case OPT_WINDOW:
        return take_count(value, 1, UINT32_MAX, &bench->window);
    case OPT_SLOW:
        bench->slow = strcmp(value, "block") == 0 ? AMB_SLOW_BLOCK : AMB_SLOW_DROP_OLDEST;
        return is_one_of(value, "block", "drop-oldest", "drop-oldest");
    case OPT_MEMORY:
        bench->mem = strcmp(value, "cuda") == 0 ? AMB_MEM_CUDA : AMB_MEM_DEFAULT;
        return is_one_of(value, "cuda", "host", "host");
    case OPT_DEVICE:
        if (!take_count(value, 0, 63, &number)) {
            return false;
        }
        bench->device = (int)number;
        return true;
    case OPT_ITERATIONS:
        return take_count(value, 1, AMB_BENCH_ITERATIONS_MAX, &bench->iterations);
    case OPT_WARM_ITERATIONS:
        return take_count(value, 0, AMB_BENCH_ITERATIONS_MAX, &bench->warm_iterations);
    case OPT_WORKERS:
        if (!take_count(value, 2, AMB_PARTITION_WORKERS_MAX, &number)) {
            return false;
        }
        bench->workers = (unsigned)number;
        return true;
    case OPT_RATE:
        return amb_units_rate(value, &bench->rate);
    case OPT_WARM:
        return amb_units_duration(value, &bench->warm_ns) && bench->warm_ns <= 60 * AMB_SEC;
    default:
        return false;
    }
}

/* Options of the broker and of the output; false: the value is wrong. */
static bool take_rest(struct amb_bench *bench, int option, const char *value)
{
    uint64_t number = 0;
    switch (option) {
    case 'u':
        bench->url = value;
        return true;
    case 'o':
        bench->is_json = strcmp(value, "json") == 0;
        return is_one_of(value, "json", "table", "table");
    case OPT_BROKERD:
        bench->brokerd = value;
        return true;
    case OPT_BROKER_OPTION:
        if (bench->broker_option_count == AMB_BENCH_BROKER_OPTIONS_MAX) {
            return false;
        }
        bench->broker_options[bench->broker_option_count++] = value;
        return true;
    case OPT_BROKER_PID:
        if (!take_count(value, 1, INT32_MAX, &number)) {
            return false;
        }
        bench->broker_pid = (pid_t)number;
        return true;
    case OPT_LINK:
        bench->link = value;
        return is_one_of(value, "ring", "stream", "ucx");
    case OPT_CREDENTIALS:
        bench->credentials = value;
        return true;
    case OPT_TOPIC:
        bench->topic = value;
        return true;
    case OPT_JSON:
        bench->json_file = value;
        return true;
    case OPT_TOLERANCE:
        if (!take_count(value, 0, 10000, &number)) {
            return false;
        }
        bench->tolerance = (double)number / 100;
        return true;
    default:
        return take_measure(bench, option, value);
    }
}

/* Do the options fit each other, and the command? */
static bool check(const struct command *command, const struct amb_bench *bench)
{
    if (bench->own != AMB_BENCH_OWN_NONE && command->run != amb_bench_sendrecv) {
        amb_tool_error("--reuse-alloc: of sendrecv alone");
        return false;
    }
    if (bench->mem != AMB_MEM_CUDA && bench->size < AMB_PAYLOAD_MIN) {
        amb_tool_error("--size: from %u bytes", AMB_PAYLOAD_MIN);
        return false;
    }
    if (bench->mem == AMB_MEM_CUDA && (bench->pubs != 1 || bench->size % sizeof(uint32_t) != 0)) {
        amb_tool_error("--memory cuda: one publisher, and sizes that are multiples of 4");
        return false;
    }
    return true;
}

static enum amb_exit parse(struct amb_bench *bench, int argc, char **argv)
{
    int index = 0;
    int option;
    while ((option = getopt_long(argc, argv, "o:hV", options, &index)) != -1) {
        switch (option) {
        case OPT_OPEN:
            bench->is_open = true;
            break;
        case OPT_TOUCH:
            bench->is_touch = true;
            break;
        case OPT_POST:
            bench->is_post = true;
            break;
        case OPT_COPY:
            bench->wants_copy = true;
            break;
        case OPT_LEASE:
            bench->is_lease = true;
            break;
        case OPT_REUSE:
            bench->own = AMB_BENCH_OWN_REUSED;
            break;
        case OPT_DETAILED:
            bench->is_detailed = true;
            break;
        case 'h':
            print_help();
            exit(AMB_EXIT_OK);
        case 'V':
            (void)printf("broker-bench %s\n", amb_version());
            exit(AMB_EXIT_OK);
        case '?':
            return AMB_EXIT_USAGE;
        default:
            if (!take_rest(bench, option, optarg)) {
                amb_tool_error("--%s '%.80s': not a value it takes",
                               option == 'o' ? "output" : options[index].name, optarg);
                return AMB_EXIT_USAGE;
            }
        }
    }
    return AMB_EXIT_OK;
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
    if (bench->url == NULL) {
        bench->url = bench->brokerd == NULL ? getenv("AMB_URL") : NULL;
    }
    if (bench->url != NULL) {
        add_link(bench, url, sizeof(url));
        return command->run(bench, out);
    }
    if (command->run == amb_bench_pub || command->run == amb_bench_sub) {
        amb_tool_error("%s needs --url", command->name);
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

int main(int argc, char **argv)
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
    amb_tool_name("broker-bench");
    amb_bench_catch_signals();
    (void)signal(SIGPIPE, SIG_IGN);
    (void)prctl(PR_SET_TIMERSLACK, 1);
    if (parse(&bench, argc, argv) != AMB_EXIT_OK) {
        return usage();
    }
    const struct command *command = optind < argc ? find_command(argv[optind]) : NULL;
    if (command == NULL || optind + 1 + (int)command->files != argc) {
        amb_tool_error(optind < argc ? "commands: one, and one of those below"
                                     : "a command is missing");
        return usage();
    }
    if (bench.size == 0) {
        bench.size = command->size;
    }
    if (!check(command, &bench)) {
        return usage();
    }
    for (unsigned i = 0; i < command->files; i++) {
        bench.files[i] = argv[optind + 1 + (int)i];
    }
    json_t *result = NULL;
    enum amb_exit code = run(command, &bench, &result);
    if (result != NULL) {
        enum amb_exit printed = print(command, &bench, result);
        code = code == AMB_EXIT_OK ? printed : code;
        json_decref(result);
    }
    return (int)code;
}
