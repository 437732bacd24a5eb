/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/cli/forms.h"
#include "tools/cli/tables.h"

static const struct amb_cli_option options[] = {
    {.name = "config",
     .letter = 'c',
     .type = AMB_CLI_FILE,
     .value = "FILE",
     .default_text = "$AMB_CONFIG, else /etc/ambroker/broker.conf; none with --dev",
     .help = "the configuration",
     .see = "config.md"},
    {.name = "dev",
     .type = AMB_CLI_FLAG,
     .help = "for this user on this machine: a socket under $XDG_RUNTIME_DIR or /tmp, memory on "
             "demand, loopback trusted"},
    {.name = "listen",
     .type = AMB_CLI_TEXT,
     .value = "URL",
     .most = AMB_CLI_MANY,
     .help = "unix:///path, tcp://host:port, tcp://eth0:port or tls://host:port, in place of the "
             "configured ones; may be repeated"},
    {.name = "option",
     .letter = 'o',
     .type = AMB_CLI_TEXT,
     .value = "KEY=VALUE",
     .most = AMB_CLI_MANY,
     .fault = amb_form_key_fault,
     .right = "server.workers=2",
     .wrong = "workers",
     .help = "one key of the configuration, as server.workers=2; may be repeated",
     .see = "config.md"},
    {.name = "until-eof",
     .type = AMB_CLI_FLAG,
     .help = "end gracefully when standard input ends: the program that started it holds the other "
             "end of the pipe"},
    {.name = "test-config",
     .letter = 't',
     .type = AMB_CLI_FLAG,
     .help = "check the configuration and end"},
    {.name = "print-config",
     .type = AMB_CLI_FLAG,
     .help = "show all keys, their values and where they came from, and end"},
    {.name = "doctor",
     .type = AMB_CLI_FLAG,
     .help = "look at the configuration given and at this machine, show what is not as it could be "
             "with its fix, and end; nothing is opened",
     .see = "doctor.md"},
    {.name = "output",
     .type = AMB_CLI_WORD,
     .value = "FORM",
     .words = amb_cli_form_words,
     .default_text = "table",
     .help = "how --doctor prints what it finds"},
    {.name = "version", .letter = 'v', .type = AMB_CLI_FLAG, .help = "show the release and end"},
    {.name = "help", .letter = 'h', .type = AMB_CLI_FLAG, .help = "show this and end"},
    {.name = NULL},
};

static const struct amb_cli_exit exits[] = {
    {0, "ended as asked; --doctor: neither warnings nor errors"},
    {1, "failed; --doctor: there are warnings"},
    {2, "--doctor: there are errors"},
    {64, "wrong usage"},
    {69, "an address is in use, or a socket is not possible"},
    {78, "wrong configuration"},
    {0, NULL},
};

static const struct amb_cli_variable variables[] = {
    {"AMB_CONFIG", "the configuration, unless --config names one"},
    {"AMBROKER_SERVER_WORKERS", "the key server.workers; each key has such a variable"},
    {"AMB_UCX_LIBRARY", "which UCX is loaded"},
    {"XDG_RUNTIME_DIR", "with --dev: where the socket is"},
    {NULL, NULL},
};

const struct amb_cli_program amb_cli_brokerd = {
    .name = "brokerd",
    .section = 8,
    .help = "a message broker for GPU and host buffers",
    .more =
        "One line on standard output says that the broker is ready, with its URLs. Everything "
        "else is a log line on standard error. TERM, INT and USR2 end it gracefully, TERM twice "
        "at once. HUP reads the configuration again.",
    .usage = "[--config FILE] [--dev] [--listen URL]... [-o KEY=VALUE]...",
    .options = options,
    .exits = exits,
    .variables = variables,
    .see_also = "broker-bench 1, broker-ctl 1, broker.conf 5, ambroker 7",
};
