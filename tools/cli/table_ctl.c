/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/cli/forms.h"
#include "tools/cli/limits.h"
#include "tools/cli/tables.h"

const struct amb_config_word amb_cli_form_words[] = {{"table", AMB_CLI_FORM_TABLE, false},
                                                     {"json", AMB_CLI_FORM_JSON, false},
                                                     {"jsonl", AMB_CLI_FORM_JSONL, false},
                                                     {"csv", AMB_CLI_FORM_CSV, false},
                                                     {NULL, 0, false}};
static const struct amb_config_word shell_words[] = {
    {"bash", 0, false}, {"zsh", 1, false}, {"fish", 2, false}, {NULL, 0, false}};

/* ---- views ---- */

/* The form of rows. */
#define ROW_FORM_OPTIONS                                                                           \
    {.name = "columns",                                                                            \
     .type = AMB_CLI_TEXT,                                                                         \
     .value = "C,...",                                                                             \
     .min = 1,                                                                                     \
     .max = 1024,                                                                                  \
     .default_text = "in tables, as many as fit",                                                  \
     .help = "these columns alone, in this order"},                                                \
        {.name = "wide",                                                                           \
         .type = AMB_CLI_FLAG,                                                                     \
         .help = "all columns; without it a table has those that fit 100 characters"},             \
    {                                                                                              \
        .name = "no-header", .type = AMB_CLI_FLAG, .help = "tables and csv without their heads"    \
    }
/* Of each view. */
#define FORM_OPTIONS                                                                               \
    ROW_FORM_OPTIONS,                                                                              \
    {                                                                                              \
        .name = "watch", .type = AMB_CLI_TIME, .value = "T", .min = 100000000,                     \
        .help = "again each T, until a signal or --timeout"                                        \
    }

static const struct amb_cli_option view_options[] = {FORM_OPTIONS, {.name = NULL}};

static const struct amb_cli_arg topics_args[] = {
    {.name = "PATTERN",
     .is_optional = true,
     .type = AMB_CLI_PATTERN,
     .live = AMB_CLI_LIVE_TOPICS,
     .help = "those that match"},
    {.name = NULL},
};

static const struct amb_cli_arg subs_args[] = {
    {.name = "PATTERN",
     .is_optional = true,
     .type = AMB_CLI_PATTERN,
     .live = AMB_CLI_LIVE_SUBSCRIPTIONS,
     .help = "those whose pattern matches"},
    {.name = NULL},
};

static const struct amb_cli_arg clients_args[] = {
    {.name = "PATTERN",
     .is_optional = true,
     .live = AMB_CLI_LIVE_CLIENTS,
     .help = "those whose name matches"},
    {.name = NULL},
};

#define FILE_OPTION                                                                                \
    {                                                                                              \
        .name = "file", .type = AMB_CLI_FILE, .value = "F",                                        \
        .help = "a counters file, in place of a broker. Not one, cut, or of another layout: 65",   \
        .see = "monitoring.md#the-counters-file"                                                   \
    }
#define ROW_OPTIONS                                                                                \
    {.name = "sort",                                                                               \
     .type = AMB_CLI_TEXT,                                                                         \
     .value = "COLUMN",                                                                            \
     .fault = amb_form_word_fault,                                                                 \
     .right = "bytes",                                                                             \
     .wrong = "two words",                                                                         \
     .help = "large numbers first, texts in order"},                                               \
    {                                                                                              \
        .name = "top", .type = AMB_CLI_COUNT, .value = "N", .unit = "rows", .min = 1,              \
        .max = UINT32_MAX, .help = "so many rows"                                                  \
    }

/* Of a view of objects, of workers, and of the broker itself. */
#define OBJECT_OPTIONS                                                                             \
    {.name = "match",                                                                              \
     .type = AMB_CLI_TEXT,                                                                         \
     .value = "PATTERN",                                                                           \
     .fault = amb_form_word_fault,                                                                 \
     .right = "a.>",                                                                               \
     .wrong = "",                                                                                  \
     .help = "those whose name or pattern matches, as the argument"},                              \
        ROW_OPTIONS, FILE_OPTION, FORM_OPTIONS
static const struct amb_cli_option object_options[] = {OBJECT_OPTIONS, {.name = NULL}};
static const struct amb_cli_option client_options[] = {
    {.name = "closed",
     .type = AMB_CLI_FLAG,
     .help = "the last 1,000 that have gone, the last one first, each with "
             "its reason (why). kind: left (it said so), ended (by the broker), lost (its "
             "connection was)"},
    OBJECT_OPTIONS,
    {.name = NULL},
};
static const struct amb_cli_option row_options[] = {
    ROW_OPTIONS, FILE_OPTION, FORM_OPTIONS, {.name = NULL}};
static const struct amb_cli_option broker_options[] = {FILE_OPTION, FORM_OPTIONS, {.name = NULL}};

static const struct amb_cli_arg trace_args[] = {
    {.name = "PATTERN",
     .type = AMB_CLI_PATTERN,
     .live = AMB_CLI_LIVE_TOPICS,
     .help = "the topics: a.b, a.* (one token) or a.> (one or more)"},
    {.name = NULL},
};
static const struct amb_cli_option trace_options[] = {
    {.name = "count",
     .letter = 'c',
     .type = AMB_CLI_COUNT,
     .value = "N",
     .unit = "batches",
     .min = 1,
     .max = AMB_CTL_TRACE_BATCHES_MAX,
     .default_text = "10",
     .help = "the next N batches"},
    ROW_FORM_OPTIONS,
    {.name = NULL},
};

static const struct amb_cli_option page_options[] = {
    {.name = "port",
     .type = AMB_CLI_COUNT,
     .value = "N",
     .min = 0,
     .max = UINT16_MAX,
     .default_text = "0, a free one",
     .help = "leads this port of 127.0.0.1 to the broker's Unix socket, also where http.listen has "
             "an address of TCP",
     .see = "monitoring.md#the-page"},
    {.name = NULL},
};

static const struct amb_cli_arg paths_args[] = {
    {.name = "CLIENT",
     .is_optional = true,
     .live = AMB_CLI_LIVE_CLIENTS,
     .help = "the clients of this name"},
    {.name = NULL},
};

static const struct amb_cli_arg quotas_args[] = {
    {.name = "USER", .is_optional = true, .help = "all limits of this user"},
    {.name = NULL},
};

/* ---- commands to a broker ---- */

static const struct amb_cli_arg durable_args[] = {
    {.name = "NAME", .live = AMB_CLI_LIVE_DURABLES, .help = "of a durable subscription or group"},
    {.name = "USER", .is_optional = true, .help = "where several users have the name"},
    {.name = NULL},
};

static const struct amb_cli_arg topic_args[] = {
    {.name = "TOPIC", .live = AMB_CLI_LIVE_TOPICS, .help = "its name; no pattern"},
    {.name = "TENANT", .is_optional = true, .help = "where several tenants have the name"},
    {.name = NULL},
};

static const struct amb_cli_arg kick_args[] = {
    {.name = "CLIENT",
     .is_optional = true,
     .live = AMB_CLI_LIVE_CLIENTS,
     .help = "its number, or its name where only one has it"},
    {.name = NULL},
};

/* Of a command that cannot be taken back: tools/ctl/confirm.h. */
#define YES_OPTION                                                                                 \
    {                                                                                              \
        .name = "yes", .type = AMB_CLI_FLAG,                                                       \
        .help = "do not ask. Without it a terminal is asked, which names the broker; where there " \
                "is none: 64"                                                                      \
    }
static const struct amb_cli_option yes_options[] = {YES_OPTION, {.name = NULL}};

static const struct amb_cli_option kick_options[] = {
    YES_OPTION,
    {.name = "user",
     .type = AMB_CLI_TEXT,
     .value = "NAME",
     .min = 1,
     .max = 255,
     .help = "all clients of the user"},
    {.name = "reason",
     .type = AMB_CLI_TEXT,
     .value = "TEXT",
     .min = 1,
     .max = 150,
     .help = "the client is told, behind \"an operator has ended it\""},
    {.name = NULL},
};

static const struct amb_cli_arg config_file_args[] = {
    {.name = "FILE", .type = AMB_CLI_FILE, .help = "on the broker's machine, which reads it"},
    {.name = NULL},
};

static const struct amb_cli_arg config_set_args[] = {
    {.name = "KEY=VALUE", .help = "as limits.window=4M; a live key of broker.conf(5)"},
    {.name = NULL},
};

static const struct amb_cli_arg user_args[] = {
    {.name = "USER", .help = "its name in the users file, or a uid"},
    {.name = NULL},
};

/* ---- messages ---- */

static const struct amb_cli_arg pub_args[] = {
    {.name = "TOPIC", .live = AMB_CLI_LIVE_TOPICS, .help = "where the messages go"},
    {.name = NULL},
};

static const struct amb_cli_arg pub_text_args[] = {
    {.name = "TOPIC", .live = AMB_CLI_LIVE_TOPICS, .help = "where the messages go"},
    {.name = "TEXT", .is_optional = true, .help = "the message; without it standard input"},
    {.name = NULL},
};

static const struct amb_cli_arg patterns_args[] = {
    {.name = "PATTERN",
     .is_many = true,
     .type = AMB_CLI_PATTERN,
     .live = AMB_CLI_LIVE_TOPICS,
     .help = "a.b, a.* (one token) or a.> (one or more)"},
    {.name = NULL},
};

static const struct amb_cli_arg pattern_args[] = {
    {.name = "PATTERN",
     .type = AMB_CLI_PATTERN,
     .live = AMB_CLI_LIVE_TOPICS,
     .help = "a.b, a.* (one token) or a.> (one or more)"},
    {.name = NULL},
};

/* ---- about this program ---- */

static const struct amb_cli_arg context_args[] = {
    {.name = "NAME", .live = AMB_CLI_LIVE_CONTEXTS, .help = "of a context"},
    {.name = NULL},
};

static const struct amb_cli_arg context_show_args[] = {
    {.name = "NAME",
     .is_optional = true,
     .live = AMB_CLI_LIVE_CONTEXTS,
     .help = "of a context; else the chosen one"},
    {.name = NULL},
};

static const struct amb_cli_arg context_add_args[] = {
    {.name = "NAME", .help = "of the new one: letters, digits, '.', '-', '_'"},
    {.name = NULL},
};

static const struct amb_cli_arg help_args[] = {
    {.name = "COMMAND",
     .is_optional = true,
     .is_many = true,
     .live = AMB_CLI_LIVE_COMMANDS,
     .help = "one of the commands"},
    {.name = NULL},
};

static const struct amb_cli_arg completion_args[] = {
    {.name = "SHELL", .type = AMB_CLI_WORD, .words = shell_words, .help = "bash, zsh or fish"},
    {.name = NULL},
};

static const struct amb_cli_command commands[] = {
    {.heading = "look",
     .name = "status",
     .options = broker_options,
     .help = "the broker: version, uptime, totals",
     .example = "broker-ctl status"},
    {.name = "topics ls",
     .aliases = AMB_CLI_ALIASES("topics"),
     .args = topics_args,
     .options = object_options,
     .help = "topics: messages, bytes, subscriptions",
     .example = "broker-ctl topics 'camera.>'"},
    {.name = "subs ls",
     .aliases = AMB_CLI_ALIASES("subs"),
     .args = subs_args,
     .options = object_options,
     .help = "subscriptions: pattern, delivered, waiting, lost",
     .example = "broker-ctl subs"},
    {.name = "queues ls",
     .aliases = AMB_CLI_ALIASES("queues"),
     .args = subs_args,
     .options = object_options,
     .help = "acknowledged, group and durable subscriptions: pending, dead",
     .more =
         "A row has the user (a uid, tcp or nobody), the members, and the bytes of the logs that "
         "wait. It counts messages that are pending (delivered, not acknowledged; beside their "
         "limit), to be redelivered, redelivered, settled late (acknowledged after ack_wait), dead "
         "(given up), and lost.",
     .example = "broker-ctl queues"},
    {.name = "clients ls",
     .aliases = AMB_CLI_ALIASES("clients"),
     .args = clients_args,
     .options = client_options,
     .help = "clients: name, user, link, worker",
     .example = "broker-ctl clients"},
    {.name = "workers ls",
     .aliases = AMB_CLI_ALIASES("workers"),
     .options = row_options,
     .help = "worker threads",
     .example = "broker-ctl workers"},
    {.name = "metrics",
     .options = broker_options,
     .help = "each figure of the broker and its workers, with what it is",
     .example = "broker-ctl metrics"},
    {.name = "memory ls",
     .aliases = AMB_CLI_ALIASES("memory"),
     .options = view_options,
     .help = "segments: used, free, held",
     .example = "broker-ctl -o json memory"},
    {.name = "transports ls",
     .aliases = AMB_CLI_ALIASES("transports"),
     .options = view_options,
     .help = "link and lanes that each client uses, and why",
     .example = "broker-ctl transports"},
    {.name = "paths",
     .args = paths_args,
     .options = view_options,
     .help = "the way of each client's messages: copies, rates, and why no better one",
     .example = "broker-ctl paths camera-1"},
    {.name = "quotas",
     .args = quotas_args,
     .options = view_options,
     .help = "quotas of users and tenants: used, limit, refused",
     .example = "broker-ctl quotas cam7"},
    {.name = "doctor",
     .options = view_options,
     .help = "what is not as it could be, and what to do about it",
     .example = "broker-ctl doctor"},
    {.name = "topo",
     .options = view_options,
     .help = "network devices: how far from each GPU, which are used",
     .example = "broker-ctl topo"},
    {.name = "events",
     .args = amb_cli_events_args,
     .options = amb_cli_events_options,
     .help = "events as they happen, a line each: the topics $SYS.>",
     .more = "With -o jsonl an object each, whose event is the topic's name. It goes on until "
             "--count, --timeout or a signal.",
     .example = "broker-ctl events 'client.*'"},
    {.name = "errors",
     .options = row_options,
     .help = "distinct log lines from warn up: how often, first and last, the last one first",
     .more = "Two lines are one row if they have the same text. Of one place in the code 16 texts "
             "have a row each, and all others share one with the text of the last. Of more than "
             "256 rows the one makes room that has not come for longest.",
     .example = "broker-ctl errors"},
    {.name = "loss",
     .args = subs_args,
     .options = object_options,
     .help = "messages that subscriptions did not get, by reason, the last loss first; after "
             "their client's end, too",
     .more = "The reason is slow (it did not keep up), trimmed (the topic was full), expired, "
             "purged (by an operator) or mixed. Of more than 2,048 rows those make room whose "
             "subscriptions ended first.",
     .example = "broker-ctl loss 'camera.>'"},
    {.name = "trace",
     .args = trace_args,
     .options = trace_options,
     .help = "the stages of the next batches, and why each reader waited",
     .more =
         "A row for each stage: head, body, routed, appended, lent; of each reader held (why), "
         "written (how), given back, acknowledged, left out or dropped (why); over. It ends "
         "when N batches are over, or after --timeout (10 s). Fewer have come: 75. It needs the "
         "right to operate, and shows topics of one's own tenant.",
     .example = "broker-ctl trace 'camera.>' --count 3"},
    {.name = "check",
     .args = amb_cli_check_args,
     .options = amb_cli_check_options,
     .help = "one figure against two limits, for Nagios and its kin",
     .more = "Prints one line with performance data. The exit code is 0 OK, 1 WARNING, 2 CRITICAL "
             "or 3 UNKNOWN. A broker that does not answer is CRITICAL for ready and health, and "
             "UNKNOWN for the others.",
     .example = "broker-ctl check memory --warn 70 --critical 85"},
    {.name = "ping",
     .options = amb_cli_ping_options,
     .help = "round trips to the broker, with their times",
     .more = "It needs no right. A broker that does not answer within --timeout (5 s): 75.",
     .example = "broker-ctl ping --count 10 --interval 100ms"},
    {.name = "top",
     .args = amb_cli_top_args,
     .options = amb_cli_top_options,
     .help = "rates, lag, memory and losses as they change, on the whole screen",
     .more = "Keys: q ends, h explains keys and columns. It goes on when the broker restarts, and "
             "says so. A local broker that does not answer is seen by its counters file. --timeout "
             "ends it.",
     .example = "broker-ctl top subs --batch -n 1 --sort lag --top 10"},
    {.name = "report",
     .args = amb_cli_report_args,
     .options = amb_cli_report_options,
     .refuses = "output",
     .why = "makes an archive, and takes its name without an option",
     .help = "a tar for a bug report: views, configuration, versions, this machine",
     .more =
         "It has names of topics, clients and users, addresses and paths, and no message, token, "
         "key or password. Of a broker that does not answer it has the views of its counters "
         "file. A FILE that is there is left alone: 65.",
     .example = "broker-ctl report /tmp/report.tar"},
    {.name = "page",
     .options = page_options,
     .help = "the address of the broker's page for a browser, with a key that works once",
     .more = "The key holds for 60 s, and the browser's cookie for 12 h. Where the page is on a "
             "Unix socket alone, this leads a port of 127.0.0.1 there until a signal or --timeout.",
     .example = "broker-ctl page --port 8080"},
    {.heading = "messages",
     .name = "pub",
     .args = pub_text_args,
     .options = amb_cli_pub_options,
     .help = "publish a text, files, generated messages, or standard input",
     .more = "Waits until the broker has everything. Without TEXT, --file, --count and --size: "
             "standard input, to its end, as one message; with --lines a message for each line. On "
             "a terminal a bar shows the progress.",
     .example = "broker-ctl pub camera.1 --file frame.raw --wait-subscribers 1"},
    {.name = "sub",
     .args = patterns_args,
     .options = amb_cli_sub_options,
     .help = "receive messages: print, save, or count them",
     .more =
         "Without an option that says otherwise each payload goes to standard output with a line "
         "feed behind it. Bytes that would drive a terminal are shown as '.' there. With -o json "
         "an object for each message has topic, sequence, size, name, path, properties, and "
         "payload where it is text, else payload_base64. Several patterns: a message comes once "
         "for each that it matches.",
     .example = "broker-ctl sub 'camera.>' --count 10 --out-dir frames"},
    {.name = "request",
     .args = pub_args,
     .options = amb_cli_request_options,
     .help = "publish one request, and print its reply",
     .more =
         "Prints the bytes of the reply; waits 5 s unless --timeout says otherwise. Nobody reads "
         "the topic: 69, at once.",
     .example = "broker-ctl request jobs.resize --text 640x480"},
    {.name = "reply",
     .args = pattern_args,
     .options = amb_cli_reply_options,
     .help = "answer requests with a text, or with their own words",
     .more =
         "Goes on until --count, --timeout or a signal. It says ready on standard error when it "
         "is.",
     .example = "broker-ctl reply 'jobs.>' --text done"},
    {.heading = "operate",
     .name = "topics purge",
     .args = topic_args,
     .options = yes_options,
     .help = "drop all messages that the topic holds",
     .more =
         "Readers that have not had them lose them: they count in lost_purged. Messages that are "
         "out at a client stay.",
     .example = "broker-ctl topics purge camera.1"},
    {.name = "topics rm",
     .args = topic_args,
     .options = yes_options,
     .help = "forget a topic that nobody publishes to, and nobody reads by its name",
     .more = "Its history goes with it. Readers with a wildcard first get what it holds.",
     .example = "broker-ctl topics rm camera.1"},
    {.name = "queues redeliver",
     .args = durable_args,
     .options = yes_options,
     .help = "deliver again, at once, the messages of a durable name that wait for an "
             "acknowledgement",
     .more = "Each counts as delivered once more.",
     .example = "broker-ctl queues redeliver billing"},
    {.name = "queues rm",
     .aliases = AMB_CLI_ALIASES("durable rm"),
     .args = durable_args,
     .options = yes_options,
     .help = "forget a durable name that no subscription uses, with the messages that wait for it",
     .example = "broker-ctl queues rm billing"},
    {.name = "clients kick",
     .aliases = AMB_CLI_ALIASES("kick"),
     .args = kick_args,
     .options = kick_options,
     .help = "end a client, or all clients of a user",
     .more = "It is told EKICKED, and does not come back by itself.",
     .example = "broker-ctl clients kick camera-1 --reason 'the lens is being cleaned'"},
    {.name = "block",
     .args = user_args,
     .options = yes_options,
     .help = "end a user's clients, and let in no more until unblock or the broker's end",
     .example = "broker-ctl block viewer"},
    {.name = "unblock",
     .args = user_args,
     .help = "let the user in again",
     .example = "broker-ctl unblock viewer"},
    {.name = "blocked",
     .options = view_options,
     .help = "users who are kept out, and since when",
     .example = "broker-ctl blocked"},
    {.name = "config reload",
     .aliases = AMB_CLI_ALIASES("reload"),
     .help = "read the configuration, users and certificates again, and say what became of it",
     .more = "A row for each change. Where a value is wrong, or a key needs a restart, nothing "
             "changes: a line for each, and 78.",
     .example = "broker-ctl config reload"},
    {.name = "config diff",
     .args = config_file_args,
     .options = view_options,
     .help = "the changes that FILE would make, and when each applies",
     .more = "applies: live, new sessions, or restart. The broker reads the file with its own "
             "options and variables above it. A file that is wrong: 78.",
     .example = "broker-ctl config diff /etc/ambroker/broker.conf"},
    {.name = "config test",
     .args = config_file_args,
     .help = "the faults that FILE would have in the running broker",
     .more = "A line for each, with file:line, and 78.",
     .example = "broker-ctl config test new.conf"},
    {.name = "config set",
     .args = config_set_args,
     .help = "another value of a live key, until the broker ends",
     .more = "It goes before files, variables and options, also at a reload. A key that needs a "
             "restart, or a wrong value: 64.",
     .example = "broker-ctl config set log.level=debug"},
    {.name = "drain",
     .options = yes_options,
     .help = "deliver what is there, then end the broker",
     .more =
         "Says what each client has not had yet, and returns when the broker has ended. --timeout "
         "goes before limits.drain_timeout. Messages that are left then: 75.",
     .example = "broker-ctl drain --timeout 10s"},
    {.name = "stop",
     .options = yes_options,
     .help = "end the broker at once; messages that were not delivered are lost: 75",
     .example = "broker-ctl stop"},
    {.heading = "set up, without a broker",
     .name = "config show",
     .aliases = AMB_CLI_ALIASES("config"),
     .args = amb_cli_config_args,
     .options = amb_cli_config_options,
     .stops = true,
     .help = "the values that hold, and where each comes from",
     .more = "Prints one key a line, as it would stand in a file; with -o json each with key and "
             "value. Options behind -- are brokerd's own. A file that is wrong: 65, with "
             "file:line: key: reason. Secrets are not shown.",
     .example = "broker-ctl config --role broker -- --dev -o server.workers=2"},
    {.name = "context ls",
     .aliases = AMB_CLI_ALIASES("context"),
     .help = "contexts: a broker's URL and what belongs to it, under a name",
     .example = "broker-ctl context"},
    {.name = "context show",
     .args = context_show_args,
     .help = "one of them",
     .example = "broker-ctl context show plant"},
    {.name = "context add",
     .args = context_add_args,
     .help = "make one of --url, --credentials and --client-name; its file is its owner's alone",
     .more = "A file has the path of the credentials, never a secret. One that is there is left "
             "alone: 65.",
     .example = "broker-ctl context add plant --url tls://plant:4733 --credentials plant.key"},
    {.name = "context use",
     .args = context_args,
     .help = "choose the one that holds where neither options nor variables name a broker",
     .example = "broker-ctl context use plant"},
    {.name = "context rm",
     .args = context_args,
     .help = "forget one",
     .example = "broker-ctl context rm plant"},
    {.name = "address",
     .options = amb_cli_address_options,
     .help = "the URLs that others can use for a broker on this machine",
     .more =
         "One a line; with -o json each with its interface and family. $AMB_URL is not looked at, "
         "and link-local IPv6 addresses are left out. No listener with an address for others: 65.",
     .example = "broker-ctl address --interface ib0"},
    {.name = "local",
     .args = amb_cli_local_args,
     .options = amb_cli_local_options,
     .stops = true,
     .refuses = "url,context",
     .why = "has a broker of its own, and takes no URL",
     .help = "a private broker, and COMMAND for each GPU (or N times), until the last has ended",
     .example = "broker-ctl local --per-gpu -- python3 train.py"},
    {.name = "key new",
     .args = amb_cli_key_args,
     .options = amb_cli_key_new_options,
     .help = "make a user's credentials: FILE, mode 0600, with a new Ed25519 key",
     .more =
         "Prints the credential as the users file has it. A FILE that is there is left alone: 65. "
         "--url is the broker, for clients that name none.",
     .example = "broker-ctl key new camera.key --user camera"},
    {.name = "key show",
     .args = amb_cli_key_args,
     .help = "print the credential of FILE: of its key, or of its token",
     .example = "broker-ctl key show camera.key"},
    {.name = "tls init",
     .options = amb_cli_tls_options,
     .help =
         "make an authority (ca.pem, ca.key), and a broker's certificate (server.pem, server.key)",
     .example = "broker-ctl tls init --dir /etc/ambroker/tls"},
    {.name = "tls issue",
     .args = amb_cli_tls_issue_args,
     .options = amb_cli_tls_options,
     .help = "make a client's certificate (NAME.pem, NAME.key)",
     .example = "broker-ctl tls issue camera --dir /etc/ambroker/tls"},
    {.name = "tls renew",
     .args = amb_cli_tls_renew_args,
     .options = amb_cli_tls_options,
     .help = "make another certificate of the same key and names",
     .example = "broker-ctl tls renew --dir /etc/ambroker/tls"},
    {.name = "tls show",
     .options = amb_cli_tls_options,
     .help = "names, end and pin of each certificate with a key beside it",
     .example = "broker-ctl tls show --dir /etc/ambroker/tls"},
    {.heading = "users",
     .name = "user add",
     .args = amb_cli_user_name_args,
     .options = amb_cli_user_change_options,
     .help = "a line at the end of the users file, which is made where it is not there",
     .example = "broker-ctl user add camera --role camera --new-key camera.key"},
    {.name = "user set",
     .args = amb_cli_user_name_args,
     .options = amb_cli_user_change_options,
     .help = "change the parts of the user's line that options name",
     .example = "broker-ctl user set camera --off"},
    {.name = "user rm",
     .args = amb_cli_user_name_args,
     .options = amb_cli_user_file_options,
     .refuses = "url",
     .help = "take the user's line out",
     .example = "broker-ctl user rm camera"},
    {.name = "user list",
     .aliases = AMB_CLI_ALIASES("user ls", "user"),
     .options = amb_cli_user_file_options,
     .refuses = "url",
     .help = "a row for each user, with the number of its line",
     .more = "Of keys and tokens the table has the kind alone.",
     .example = "broker-ctl user list"},
    {.name = "user show",
     .args = amb_cli_user_name_args,
     .options = amb_cli_user_file_options,
     .refuses = "url",
     .help = "the user's line",
     .example = "broker-ctl user show camera"},
    {.name = "user test",
     .args = amb_cli_user_test_args,
     .help = "may a user do that, and by which line of the roles; asks the broker",
     .example = "broker-ctl user test camera publish camera.1"},
    {.heading = "this program",
     .name = "help",
     .args = help_args,
     .help = "a command with its arguments and options",
     .example = "broker-ctl help pub"},
    {.name = "version", .help = "the release", .example = "broker-ctl version"},
    {.name = "completion",
     .args = completion_args,
     .help = "a script that completes command lines, for the shell to read",
     .more = "It asks this program, so that topics, clients and durable names complete, too.",
     .example = "source <(broker-ctl completion bash)"},
    {.name = NULL},
};

static const struct amb_cli_option options[] = {
    {.name = "url",
     .type = AMB_CLI_TEXT,
     .value = "URL",
     .default_text =
         "$AMB_URL, else that of a context, else client.url of the file that $AMB_CONFIG "
         "names, else the URL of the credentials, else unix:///run/ambroker/broker.sock",
     .help = "unix:///path, tcp://host:port or tls://host:port, with ?pin=sha256/... of its key. "
             "?link=ring, stream or ucx insists on a link; ?expect=ring, zero-copy, rdma or nvlink "
             "takes nothing slower; ?interface=ib0 connects from there. A comma list is tried in "
             "order",
     .see = "transports.md#demands"},
    {.name = "context",
     .type = AMB_CLI_TEXT,
     .value = "NAME",
     .excludes = "url",
     .min = 1,
     .max = 64,
     .live = AMB_CLI_LIVE_CONTEXTS,
     .default_text = "where $AMB_URL is not set: $AMB_CONTEXT, else the chosen one",
     .help = "the broker, and credentials, of a context",
     .see = "#context"},
    {.name = "output",
     .letter = 'o',
     .type = AMB_CLI_WORD,
     .value = "FORM",
     .words = amb_cli_form_words,
     .default_text = "table",
     .help = "how answers are printed; json is one line"},
    {.name = "credentials",
     .type = AMB_CLI_FILE,
     .value = "FILE",
     .default_text = "$AMB_CREDENTIALS",
     .help = "the credentials of a user (key new), or a token in its first line",
     .see = "#key"},
    {.name = "client-name",
     .type = AMB_CLI_TEXT,
     .value = "NAME",
     .default_text = "broker-ctl",
     .help = "how the broker shows this client"},
    {.name = "timeout",
     .type = AMB_CLI_TIME,
     .value = "T",
     .default_text = "views: 5; pub and sub: never",
     .help = "views: wait so long for an answer; pub and sub: end after T; drain: the broker ends "
             "after "
             "T; user: wait so long for another program that edits the file"},
    {.name = "help", .letter = 'h', .type = AMB_CLI_FLAG, .help = "show this and end"},
    {.name = "version", .letter = 'V', .type = AMB_CLI_FLAG, .help = "show the release and end"},
    {.name = NULL},
};

static const struct amb_cli_habit habits[] = {
    {"publish", "broker-ctl pub TOPIC publishes"},
    {"produce", "broker-ctl pub TOPIC publishes"},
    {"send", "broker-ctl pub TOPIC publishes"},
    {"subscribe", "broker-ctl sub PATTERN receives"},
    {"consume", "broker-ctl sub PATTERN receives"},
    {"get", "broker-ctl sub PATTERN --count 1 receives one message"},
    {"list_queues", "broker-ctl queues lists them, and broker-ctl topics has the topics"},
    {"list_exchanges", "there are no exchanges: broker-ctl topics lists topics"},
    {"list_bindings", "broker-ctl subs lists subscriptions with their patterns"},
    {"list_connections", "broker-ctl clients lists them"},
    {"list_consumers", "broker-ctl subs lists subscriptions"},
    {"close_connection", "broker-ctl clients kick CLIENT ends one"},
    {"stream", "broker-ctl topics lists topics; each keeps its messages by the rules of topics"},
    {"consumer", "broker-ctl queues lists durable subscriptions"},
    {"server", "broker-ctl status has the broker"},
    {"account", "broker-ctl user lists users"},
    {"start", "brokerd starts a broker"},
    {NULL, NULL},
};

static const struct amb_cli_exit exits[] = {
    {0, "done"},
    {64, "usage: an option, an argument or a URL is wrong, or not supported"},
    {65, "data: a topic, a file or a message that cannot be taken"},
    {69, "unavailable: no broker there, it refused the session, or it went away; local: no GPU"},
    {70, "the system refused something (no space, no memory), or a fault of ours"},
    {75, "the time given has passed, or a signal came before the count was reached"},
    {77, "forbidden: no right to do this, or the wrong token"},
    {78, "configuration: a running broker refuses it, and the former one stays"},
    {0, NULL},
};

static const struct amb_cli_variable variables[] = {
    {"AMB_URL", "the broker, unless --url names one"},
    {"AMB_CONFIG", "a configuration file, which options and variables go before"},
    {"AMB_CONTEXT", "a context, unless --context, --url or $AMB_URL is there"},
    {"XDG_RUNTIME_DIR", "where an error looks for this user's own brokerd --dev; else /tmp"},
    {"XDG_CONFIG_HOME", "its folder ambroker has the contexts; else ~/.config"},
    {"AMB_CREDENTIALS", "a file, unless --credentials names one"},
    {"AMB_TRUSTED", "interfaces on which this program may open a UCX port, for ?link=ucx"},
    {"AMB_UCX_LIBRARY", "which UCX is loaded for it"},
    {"AMB_SPIN", "how long a wait looks for a message before it sleeps: 0, 50us"},
    {NULL, NULL},
};

const struct amb_cli_program amb_cli_broker_ctl = {
    .name = "broker-ctl",
    .section = 1,
    .help = "looks into a broker, publishes and subscribes, sets one up",
    .commands = commands,
    .options = options,
    .habits = habits,
    .exits = exits,
    .variables = variables,
    .see_also = "broker-bench 1, broker.conf 5, ambroker 7, brokerd 8",
};
