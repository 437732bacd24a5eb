/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/cli/tables.h"

static const struct amb_config_word check_words[] = {
    {"ready", 0, false}, {"health", 1, false}, {"lag", 2, false}, {"memory", 3, false},
    {"loss", 4, false},  {"queues", 5, false}, {NULL, 0, false}};

const struct amb_cli_arg amb_cli_check_args[] = {
    {.name = "CHECK",
     .type = AMB_CLI_WORD,
     .words = check_words,
     .help = "ready (it answers), health (the longest turn of a worker in 10 s), lag (bytes that "
             "wait for one subscription), memory (percent of memory.host.size), loss (messages), "
             "queues (dead letters)"},
    {.name = NULL},
};
const struct amb_cli_option amb_cli_check_options[] = {
    {.name = "warn",
     .type = AMB_CLI_TEXT,
     .value = "LIMIT",
     .min = 1,
     .max = 32,
     .default_text = "health 100ms, lag 64M, memory 75, loss 0, queues 0",
     .help = "WARNING above it: a time, a size or a number, as the check has it"},
    {.name = "critical",
     .type = AMB_CLI_TEXT,
     .value = "LIMIT",
     .min = 1,
     .max = 32,
     .default_text = "health 1s, lag 512M, memory 90, loss 1000, queues 100",
     .help = "CRITICAL above it"},
    {.name = NULL},
};

const struct amb_cli_arg amb_cli_events_args[] = {
    {.name = "PATTERN",
     .is_optional = true,
     .type = AMB_CLI_PATTERN,
     .help = "of names behind $SYS, as client.* or sub.>; else all"},
    {.name = NULL},
};
const struct amb_cli_option amb_cli_events_options[] = {
    {.name = "count",
     .letter = 'c',
     .type = AMB_CLI_COUNT,
     .value = "N",
     .unit = "events",
     .min = 1,
     .max = UINT32_MAX,
     .help = "end after N events"},
    {.name = "reconnect", .type = AMB_CLI_FLAG, .help = "a lost broker is waited for"},
    {.name = NULL},
};

const struct amb_cli_option amb_cli_ping_options[] = {
    {.name = "count",
     .letter = 'c',
     .type = AMB_CLI_COUNT,
     .value = "N",
     .unit = "round trips",
     .min = 1,
     .max = UINT32_MAX,
     .default_text = "4",
     .help = "so many"},
    {.name = "interval",
     .type = AMB_CLI_TIME,
     .value = "T",
     .default_text = "1",
     .help = "between two of them"},
    {.name = NULL},
};
