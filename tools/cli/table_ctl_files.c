/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/cli/forms.h"
#include "tools/cli/limits.h"
#include "tools/cli/tables.h"
#include "wire/auth/user_line.h"
#include "wire/tls/tls_issue.h"

/* ---- config, address ---- */

static const struct amb_config_word role_words[] = {
    {"client", 0, false}, {"broker", 1, false}, {"running", 2, false}, {NULL, 0, false}};

const struct amb_cli_arg amb_cli_config_args[] = {
    {.name = "OPTION",
     .is_optional = true,
     .is_many = true,
     .help = "of brokerd, behind --; with --role broker"},
    {.name = NULL},
};

const struct amb_cli_option amb_cli_config_options[] = {
    {.name = "role",
     .type = AMB_CLI_WORD,
     .value = "ROLE",
     .words = role_words,
     .default_text = "client",
     .help =
         "client: of a program that uses libamb, with --url, --credentials and --client-name of "
         "this command line; broker: of the brokerd beside broker-ctl, or the one in PATH; "
         "running: of the broker that --url names, which is asked"},
    {.name = "config",
     .type = AMB_CLI_FILE,
     .value = "FILE",
     .default_text = "$AMB_CONFIG; a broker's, else /etc/ambroker/broker.conf",
     .help = "the file"},
    {.name = "origin",
     .type = AMB_CLI_FLAG,
     .help = "also where each value comes from: FILE:LINE, environment NAME, the option, set (by "
             "config set), default, --dev"},
    {.name = "defaults",
     .type = AMB_CLI_FLAG,
     .excludes = "config",
     .help = "the values where nothing is said: no file, variable or option is looked at"},
    {.name = NULL},
};

const struct amb_cli_option amb_cli_address_options[] = {
    {.name = "interface",
     .type = AMB_CLI_TEXT,
     .value = "I",
     .default_text = "all, but not loopback",
     .help = "of this interface alone",
     .see = "transports.md#interfaces"},
    {.name = "config",
     .type = AMB_CLI_FILE,
     .value = "FILE",
     .excludes = "url",
     .default_text = "the port of --url, else 4733",
     .help = "of the listeners of this configuration, as the brokerd beside broker-ctl, or the one "
             "in PATH, prints it"},
    {.name = NULL},
};

/* ---- local ---- */

const struct amb_cli_arg amb_cli_local_args[] = {
    {.name = "COMMAND", .is_many = true, .help = "the program, and its arguments"},
    {.name = NULL},
};

const struct amb_cli_option amb_cli_local_options[] = {
    {.name = "per-gpu",
     .type = AMB_CLI_FLAG,
     .excludes = "n",
     .help = "a process for each GPU; without any: 69"},
    {.letter = 'n',
     .type = AMB_CLI_COUNT,
     .value = "N",
     .unit = "processes",
     .min = 1,
     .max = AMB_LOCAL_RANKS_MAX,
     .default_text = "one for each GPU, and where there is none, one",
     .help = "so many; where they are more than the GPUs, several share one"},
    {.name = "pool",
     .type = AMB_CLI_SIZE,
     .value = "SIZE",
     .min = 1,
     .help = "memory of the broker's on each GPU in use (memory.cuda.size); without any GPU: 69"},
    {.name = "broker-option",
     .type = AMB_CLI_TEXT,
     .value = "K=V",
     .most = AMB_LOCAL_OPTIONS_MAX,
     .fault = amb_form_key_fault,
     .right = "server.workers=2",
     .wrong = "workers",
     .help = "handed on as brokerd -o K=V; may be repeated"},
    {.name = "brokerd",
     .type = AMB_CLI_FILE,
     .value = "PATH",
     .default_text = "the one beside broker-ctl, else from PATH",
     .help = "which one to start"},
    {.name = "sysfs",
     .type = AMB_CLI_FOLDER,
     .value = "DIR",
     .default_text = "/sys",
     .help = "where NUMA nodes are looked up"},
    {.name = NULL},
};

/* ---- key, tls ---- */

const struct amb_cli_arg amb_cli_key_args[] = {
    {.name = "FILE", .type = AMB_CLI_FILE, .help = "the credentials"},
    {.name = NULL},
};

const struct amb_cli_option amb_cli_key_new_options[] = {
    {.name = "user",
     .type = AMB_CLI_TEXT,
     .value = "NAME",
     .help = "the user that the client means to be"},
    {.name = "ca",
     .type = AMB_CLI_FILE,
     .value = "FILE",
     .help = "authorities of the broker's certificate, copied into FILE"},
    {.name = "token",
     .type = AMB_CLI_FLAG,
     .excludes = "user,ca,url",
     .help = "a token of 256 random bits in place of a key; the file has nothing else"},
    {.name = NULL},
};

const struct amb_cli_arg amb_cli_tls_issue_args[] = {
    {.name = "NAME", .help = "of the files"},
    {.name = NULL},
};

const struct amb_cli_arg amb_cli_tls_renew_args[] = {
    {.name = "NAME", .is_optional = true, .help = "of the files; else server"},
    {.name = NULL},
};

const struct amb_cli_option amb_cli_tls_options[] = {
    {.name = "dir",
     .type = AMB_CLI_FOLDER,
     .value = "D",
     .default_text = ".",
     .help = "the folder of the files"},
    {.name = "name",
     .type = AMB_CLI_TEXT,
     .value = "HOST",
     .most = AMB_TLS_NAMES_MAX,
     .default_text = "those of this machine, or NAME of a client",
     .help = "a host's name, an address or a spiffe:// name; may be repeated"},
    {.name = "days",
     .type = AMB_CLI_COUNT,
     .value = "N",
     .unit = "days",
     .min = 1,
     .max = AMB_TLS_DAYS_MAX,
     .default_text = "3650 of an authority, 365 of others",
     .help = "how long it is valid"},
    {.name = NULL},
};

/* ---- user ---- */

static const struct amb_config_word right_words[] = {
    {"publish", 0, false}, {"subscribe", 1, false}, {"admin", 2, false}, {NULL, 0, false}};

const struct amb_cli_arg amb_cli_user_name_args[] = {
    {.name = "NAME", .help = "of a user of the file"},
    {.name = NULL},
};

const struct amb_cli_arg amb_cli_user_test_args[] = {
    {.name = "NAME", .help = "of a user of the users file"},
    {.name = "RIGHT", .type = AMB_CLI_WORD, .words = right_words, .help = "to do what"},
    {.name = "OBJECT",
     .live = AMB_CLI_LIVE_TOPICS,
     .help = "a topic, a pattern, or a level of administration: read, operate, admin"},
    {.name = NULL},
};

#define FILE_OPTIONS                                                                               \
    {.name = "file",                                                                               \
     .type = AMB_CLI_FILE,                                                                         \
     .value = "FILE",                                                                              \
     .default_text = "auth.users of the broker's configuration",                                   \
     .help = "the users file",                                                                     \
     .see = "security.md#users"},                                                                  \
    {                                                                                              \
        .name = "config", .type = AMB_CLI_FILE, .value = "FILE",                                   \
        .default_text = "$AMB_CONFIG, else /etc/ambroker/broker.conf",                             \
        .help = "that configuration"                                                               \
    }

const struct amb_cli_option amb_cli_user_file_options[] = {FILE_OPTIONS, {.name = NULL}};

const struct amb_cli_option amb_cli_user_change_options[] = {
    FILE_OPTIONS,
    {.name = "tenant",
     .type = AMB_CLI_TEXT,
     .value = "T",
     .default_text = "of a new user: default",
     .help = "the user's tenant"},
    {.name = "role",
     .type = AMB_CLI_TEXT,
     .value = "R",
     .most = AMB_USER_ROLES_MAX,
     .help = "may be repeated: all roles that the user then has; -: none"},
    {.name = "quota", .type = AMB_CLI_TEXT, .value = "Q", .help = "the name of a quota; -: none"},
    {.name = "until",
     .type = AMB_CLI_TEXT,
     .value = "DAY",
     .help = "the last day, as 2027-06-30; never"},
    {.name = "off", .type = AMB_CLI_FLAG, .help = "not let in"},
    {.name = "on", .type = AMB_CLI_FLAG, .help = "let in"},
    {.name = "credential",
     .type = AMB_CLI_TEXT,
     .value = "C",
     .most = AMB_USER_CREDENTIALS_MAX,
     .help = "a credential more; may be repeated"},
    {.name = "rm-credential",
     .type = AMB_CLI_TEXT,
     .value = "C",
     .most = AMB_USER_CREDENTIALS_MAX,
     .help = "a credential less; may be repeated"},
    {.name = "new-key",
     .type = AMB_CLI_FILE,
     .value = "FILE",
     .help =
         "makes a client's file with a new key (mode 0600), and enters that key. --ca and --url "
         "are as of key new"},
    {.name = "ca",
     .type = AMB_CLI_FILE,
     .value = "FILE",
     .needs = "new-key",
     .help = "authorities of the broker's certificate, for the client's file"},
    {.name = NULL},
};
