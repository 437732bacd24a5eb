/* SPDX-License-Identifier: Apache-2.0 */
/*
 * broker-ctl: looks into a broker, publishes and subscribes, starts a local set-up.
 */
#include "tools/ctl/ctl.h"

#include "tools/common/output.h"
#include "tools/ctl/address.h"
#include "tools/ctl/admin.h"
#include "tools/ctl/config.h"
#include "tools/ctl/connect.h"
#include "tools/ctl/key.h"
#include "tools/ctl/local.h"
#include "tools/ctl/pub.h"
#include "tools/ctl/request.h"
#include "tools/ctl/sub.h"
#include "tools/ctl/tls.h"
#include "tools/ctl/user.h"
#include "wire/base/clock.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#define VIEW_OPTIONS " [--match PATTERN] [--sort COLUMN] [--top N] [--file F]"

static const struct amb_ctl_command commands[] = {
    {"status", amb_ctl_admin, "", "the broker: version, uptime, totals"},
    {"topics", amb_ctl_topics, "[PATTERN]" VIEW_OPTIONS, "topics: messages, bytes, subscriptions"},
    {"subs", amb_ctl_topics, "[PATTERN]" VIEW_OPTIONS,
     "subscriptions: pattern, delivered, waiting, lost"},
    {"queues", amb_ctl_topics, "[PATTERN]" VIEW_OPTIONS,
     "acknowledged, group and durable subscriptions: pending, dead"},
    {"durable", amb_ctl_durable, "rm NAME [USER]", "forget a durable name that nobody uses"},
    {"user", amb_ctl_user,
     "test NAME publish|subscribe|admin WHAT\n"
     "             add|set NAME [--tenant T] [--role R]... [--quota Q] [--until DAY] [--off|--on]\n"
     "             [--credential C]... [--rm-credential C]... [--new-key FILE [--ca FILE]]\n"
     "             rm NAME | list | show NAME   [--file FILE | --config FILE]",
     "may a user do that, and by which line of the roles; edits of a users file, which ask no "
     "broker"},
    {"clients", amb_ctl_topics, "[PATTERN]" VIEW_OPTIONS, "clients: name, user, link, worker"},
    {"kick", amb_ctl_kick, "CLIENT | --user NAME", "end a client, or all of a user"},
    {"block", amb_ctl_order_of, "USER", "end a user's clients and let in no more"},
    {"unblock", amb_ctl_order_of, "USER", "let the user in again"},
    {"blocked", amb_ctl_admin, "", "users who are kept out"},
    {"reload", amb_ctl_admin, "", "read the configuration again, and say what became of it"},
    {"drain", amb_ctl_admin, "", "deliver what is there, then end the broker"},
    {"workers", amb_ctl_admin, "", "worker threads"},
    {"metrics", amb_ctl_admin, "", "each figure of the broker and its workers, with what it is"},
    {"memory", amb_ctl_admin, "", "segments: used, free, held"},
    {"transports", amb_ctl_admin, "", "link and lanes that each client uses, and why"},
    {"paths", amb_ctl_topics, "[CLIENT]",
     "the way of each client's messages: copies, rates, and why no better one"},
    {"doctor", amb_ctl_admin, "", "what is not as it could be, and what to do about it"},
    {"topo", amb_ctl_admin, "", "network devices: how far from each GPU, which are used"},
    {"address", amb_ctl_address, "[--interface I] [--config FILE]",
     "the URLs that others can use for a broker on this machine; asks no broker"},
    {"config", amb_ctl_config, "[--role broker|client] [--config FILE] [--origin] [OPTION...]",
     "the values that hold, and where each comes from; asks no broker"},
    {"local", amb_ctl_local,
     "[--per-gpu | -n N] [--pool SIZE] [--broker-option K=V]... [--brokerd PATH]\n"
     "             [--sysfs DIR] -- COMMAND...",
     "a private broker, and COMMAND for each GPU (or N times), until the last has ended"},
    {"tls", amb_ctl_tls,
     "init | issue NAME | renew [NAME] | show\n"
     "             [--dir D] [--name HOST]... [--days N]",
     "certificates of one's own, as files; asks no broker"},
    {"key", amb_ctl_key, "new FILE [--user NAME] [--ca FILE] [--token] | show FILE",
     "a user's credentials, as a file for the client and a text for the users file; asks no "
     "broker"},
    {"pub", amb_ctl_pub,
     "TOPIC [--file F]... [--count N] [--size S] [--rate R]\n"
     "             [--wait-subscribers N] [--prop NAME=VALUE]... [--ttl T] [--stats] [--hold]\n"
     "             [--key K] [--confirm accepted|delivered] [--name N] [--expect-seq N]"
     " [--priority P]\n"
     "             [--reconnect]",
     "publish files, generated messages, or standard input"},
    {"sub", amb_ctl_sub,
     "PATTERN [--count N] [--out-dir D] [--sha256] [--stats]\n"
     "             [--start PLACE] [--save FILE] [--policy POLICY] [--slow-block T] [--credit N] "
     "[--copy] [--hold]\n"
     "             [--group G] [--durable D] [--ack explicit|cumulative] [--ack-wait T]\n"
     "             [--backoff T,...] [--max-deliver N] [--nak | --term REASON]\n"
     "             [--filter EXPRESSION] [--rate N] [--rate-bytes N] [--replay original] "
     "[--reconnect]\n"
     "             [--lazy | --pin | --headers-only] [--read OFFSET:LEN]",
     "receive messages: print, save, or count them"},
    {"request", amb_ctl_request, "TOPIC [--text TEXT]",
     "publish one request, of the text or of standard input, and print its reply"},
    {"reply", amb_ctl_reply, "PATTERN [--text TEXT] [--count N]",
     "answer requests with the text, or with what they say"},
};
#define COMMAND_COUNT (sizeof(commands) / sizeof(commands[0]))

static void print_help(void)
{
    (void)printf("usage: broker-ctl [OPTION]... COMMAND [ARGUMENT]...\n\ncommands:\n");
    for (size_t i = 0; i < COMMAND_COUNT; i++) {
        (void)printf("  %-10s %s\n", commands[i].name, commands[i].help);
        if (commands[i].arguments[0] != '\0') {
            (void)printf("             %s\n", commands[i].arguments);
        }
    }
    (void)printf(
        "\noptions, before or after the command:\n"
        "  --url URL            unix:///path, tcp://host:port or tls://host:port,\n"
        "                       ?link=ring|stream|ucx insists, ?interface=ib0 connects "
        "from there,\n"
        "                       ?pin=sha256/... names the key of a tls:// broker;\n"
        "                       ?expect=ring, zero-copy, rdma or nvlink takes nothing slower\n"
        "                       ($AMB_URL, else client.url of $AMB_CONFIG,\n"
        "                       else unix:///run/ambroker/broker.sock)\n"
        "  -o, --output FORM    table or json\n"
        "  --credentials FILE   of a user (key new), or a token, its first line\n"
        "  --client-name NAME   how the broker shows this client\n"
        "  --file F             a counters file in place of a broker, for status, topics, subs,\n"
        "                       queues, clients, workers and metrics\n"
        "  --timeout T          give up after T: 10 (seconds), 500ms, 2m\n"
        "  --help, --version\n\n"
        "exit codes: 0 done, 64 usage, 65 data, 69 no broker, 70 system, 75 timeout, "
        "77 forbidden\n");
}

static int usage(void)
{
    (void)fprintf(stderr, "usage: broker-ctl [--url URL] [-o table|json] COMMAND ...\n"
                          "       broker-ctl --help\n");
    return AMB_EXIT_USAGE;
}

static const struct amb_ctl_command *find_command(const char *name)
{
    for (size_t i = 0; i < COMMAND_COUNT; i++) {
        if (strcmp(commands[i].name, name) == 0) {
            return &commands[i];
        }
    }
    return NULL;
}

int main(int argc, char **argv)
{
    static const struct option options[] = {AMB_CTL_OPTIONS,
                                            {"file", required_argument, NULL, 'F'},
                                            {"version", no_argument, NULL, 'V'},
                                            {NULL, 0, NULL, 0}};
    struct amb_ctl ctl = {.timeout_ns = -1, .start_ns = amb_clock_monotonic_ns()};
    amb_tool_name("broker-ctl");
    (void)signal(SIGPIPE, SIG_IGN);
    int option;
    /* '+': stop at the command; words behind it are its own. */
    while ((option = getopt_long(argc, argv, "+o:hV", options, NULL)) != -1) {
        if (option == 'V') {
            (void)printf("broker-ctl %s\n", amb_version());
            return amb_output_end(AMB_EXIT_OK);
        }
        if (option == 'F') {
            ctl.file = optarg;
        } else if (!amb_ctl_option(&ctl, option, optarg)) {
            return usage();
        }
    }
    if (ctl.is_help_wanted) {
        print_help();
        return amb_output_end(AMB_EXIT_OK);
    }
    if (optind == argc) {
        amb_tool_error("a command is missing");
        return usage();
    }
    const struct amb_ctl_command *command = find_command(argv[optind]);
    if (command == NULL) {
        amb_tool_error("no command '%.40s'", argv[optind]);
        return usage();
    }
    if (ctl.file != NULL && command->run != amb_ctl_admin && command->run != amb_ctl_topics) {
        amb_tool_error("--file: '%s' is no view of a counters file", command->name);
        return usage();
    }
    int first = optind;
    optind = 0; /* glibc: start anew, also its hidden state */
    enum amb_exit code = command->run(&ctl, argc - first, argv + first);
    if (ctl.is_help_wanted) {
        (void)printf("usage: broker-ctl [OPTION]... %s %s\n\n%s\n", command->name,
                     command->arguments, command->help);
    }
    return (int)amb_output_end(code);
}
