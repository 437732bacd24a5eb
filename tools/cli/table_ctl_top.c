/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/cli/forms.h"
#include "tools/cli/tables.h"

static const struct amb_config_word view_words[] = {{"topics", 0, false},  {"subs", 1, false},
                                                    {"clients", 2, false}, {"workers", 3, false},
                                                    {"queues", 4, false},  {NULL, 0, false}};

const struct amb_cli_arg amb_cli_top_args[] = {
    {.name = "VIEW",
     .is_optional = true,
     .type = AMB_CLI_WORD,
     .words = view_words,
     .help = "the one to begin with: topics, subs, clients, workers or queues; else topics"},
    {.name = NULL},
};

const struct amb_cli_option amb_cli_top_options[] = {
    {.name = "batch",
     .letter = 'b',
     .type = AMB_CLI_FLAG,
     .help =
         "blocks of text, as where there is no terminal; -o json, jsonl and csv make blocks, too"},
    {.name = "count",
     .letter = 'n',
     .type = AMB_CLI_COUNT,
     .value = "N",
     .unit = "blocks",
     .min = 1,
     .max = UINT32_MAX,
     .help = "blocks, and end after N of them"},
    {.name = "interval",
     .type = AMB_CLI_TIME,
     .value = "T",
     .min = 100000000,
     .max = 3600000000000,
     .default_text = "1",
     .help = "between two looks"},
    {.name = "match",
     .type = AMB_CLI_TEXT,
     .value = "PATTERN",
     .fault = amb_form_word_fault,
     .right = "a.>",
     .wrong = "",
     .help = "of topics, subs, clients and queues those whose name or pattern matches"},
    {.name = "sort",
     .type = AMB_CLI_TEXT,
     .value = "TITLE",
     .min = 1,
     .max = 32,
     .default_text = "what flows: MSG/S, OUT/S, IN/S, of queues LAG",
     .help = "the column to begin with, large numbers first, texts in order"},
    {.name = "top",
     .type = AMB_CLI_COUNT,
     .value = "N",
     .unit = "rows",
     .min = 1,
     .max = UINT32_MAX,
     .help = "so many rows of a block"},
    {.name = "wide", .type = AMB_CLI_FLAG, .help = "blocks with all columns"},
    {.name = "file",
     .type = AMB_CLI_FILE,
     .value = "F",
     .help = "a counters file, in place of a broker. Not one, cut, or of another layout: 65",
     .see = "monitoring.md#the-counters-file"},
    {.name = NULL},
};

/* ---- report ---- */

const struct amb_cli_arg amb_cli_report_args[] = {
    {.name = "FILE",
     .is_optional = true,
     .type = AMB_CLI_FILE,
     .help = "the archive, mode 0600; - is standard output; else ambroker-report-TIME.tar here"},
    {.name = NULL},
};

const struct amb_cli_option amb_cli_report_options[] = {
    {.name = "force", .type = AMB_CLI_FLAG, .help = "overwrite FILE"},
    {.name = "config",
     .type = AMB_CLI_FILE,
     .value = "F",
     .default_text = "$AMB_CONFIG, else /etc/ambroker/broker.conf",
     .help = "the broker's configuration, as the brokerd beside broker-ctl, or the one in PATH, "
             "prints it"},
    {.name = "file",
     .type = AMB_CLI_FILE,
     .value = "F",
     .help = "views of a counters file, in place of a broker. Not one, cut, or of another layout: "
             "65",
     .see = "monitoring.md#the-counters-file"},
    {.name = NULL},
};
