/* SPDX-License-Identifier: Apache-2.0 */
/*
 * broker-ctl: looks into a broker, publishes and subscribes, starts a local set-up.
 */
#include "tools/ctl/ctl.h"

#include "tools/cli/complete.h"
#include "tools/cli/help.h"
#include "tools/cli/tables.h"
#include "tools/common/output.h"
#include "tools/ctl/about.h"
#include "tools/ctl/address.h"
#include "tools/ctl/admin.h"
#include "tools/ctl/check.h"
#include "tools/ctl/config.h"
#include "tools/ctl/config_ask.h"
#include "tools/ctl/connect.h"
#include "tools/ctl/contexts.h"
#include "tools/ctl/doctor.h"
#include "tools/ctl/drain.h"
#include "tools/ctl/key.h"
#include "tools/ctl/local.h"
#include "tools/ctl/names.h"
#include "tools/ctl/page.h"
#include "tools/ctl/ping.h"
#include "tools/ctl/pub.h"
#include "tools/ctl/report.h"
#include "tools/ctl/request.h"
#include "tools/ctl/sub.h"
#include "tools/ctl/tls.h"
#include "tools/ctl/top.h"
#include "tools/ctl/trace.h"
#include "tools/ctl/user.h"
#include "tools/ctl/watch_events.h"
#include "wire/base/assert.h"
#include "wire/base/clock.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

/* A command of the table, and the function that it is. */
struct command {
    const char *name;
    amb_ctl_fn run;
    const char *query; /* of a view, or a command to the broker: its word for it */
};

static const struct command commands[] = {
    {"status", amb_ctl_ask, "status"},
    {"topics ls", amb_ctl_ask, "topics"},
    {"subs ls", amb_ctl_ask, "subs"},
    {"queues ls", amb_ctl_ask, "queues"},
    {"clients ls", amb_ctl_ask, "clients"},
    {"workers ls", amb_ctl_ask, "workers"},
    {"metrics", amb_ctl_ask, "metrics"},
    {"memory ls", amb_ctl_ask, "memory"},
    {"transports ls", amb_ctl_ask, "transports"},
    {"paths", amb_ctl_ask, "paths"},
    {"quotas", amb_ctl_ask, "quotas"},
    {"doctor", amb_ctl_doctor, "doctor"},
    {"topo", amb_ctl_ask, "topo"},
    {"events", amb_ctl_events, NULL},
    {"errors", amb_ctl_ask, "errors"},
    {"loss", amb_ctl_ask, "loss"},
    {"trace", amb_ctl_trace, "trace"},
    {"check", amb_ctl_check, NULL},
    {"ping", amb_ctl_ping, NULL},
    {"top", amb_ctl_top, NULL},
    {"report", amb_ctl_report, NULL},
    {"page", amb_ctl_page, NULL},
    {"pub", amb_ctl_pub, NULL},
    {"sub", amb_ctl_sub, NULL},
    {"request", amb_ctl_request, NULL},
    {"reply", amb_ctl_reply, NULL},
    {"topics purge", amb_ctl_ask, "topic purge"},
    {"topics rm", amb_ctl_ask, "topic rm"},
    {"queues redeliver", amb_ctl_ask, "queue redeliver"},
    {"queues rm", amb_ctl_ask, "durable rm"},
    {"clients kick", amb_ctl_kick, "kick"},
    {"block", amb_ctl_ask, "block"},
    {"unblock", amb_ctl_ask, "unblock"},
    {"blocked", amb_ctl_ask, "blocked"},
    {"config reload", amb_ctl_config_ask, "config reload"},
    {"config diff", amb_ctl_config_file, "config diff"},
    {"config test", amb_ctl_config_file, "config test"},
    {"config set", amb_ctl_config_set, "config set"},
    {"drain", amb_ctl_drain, NULL},
    {"stop", amb_ctl_stop, NULL},
    {"config show", amb_ctl_config, NULL},
    {"context ls", amb_ctl_context_ls, NULL},
    {"context show", amb_ctl_context_show, NULL},
    {"context add", amb_ctl_context_add, NULL},
    {"context use", amb_ctl_context_use, NULL},
    {"context rm", amb_ctl_context_rm, NULL},
    {"address", amb_ctl_address, NULL},
    {"local", amb_ctl_local, NULL},
    {"key new", amb_ctl_key_new, NULL},
    {"key show", amb_ctl_key_show, NULL},
    {"tls init", amb_ctl_tls_init, NULL},
    {"tls issue", amb_ctl_tls_issue, NULL},
    {"tls renew", amb_ctl_tls_renew, NULL},
    {"tls show", amb_ctl_tls_show, NULL},
    {"user add", amb_ctl_user_add, NULL},
    {"user set", amb_ctl_user_set, NULL},
    {"user rm", amb_ctl_user_rm, NULL},
    {"user list", amb_ctl_user_list, NULL},
    {"user show", amb_ctl_user_show, NULL},
    {"user test", amb_ctl_ask, "user test"},
    {"help", amb_ctl_help, NULL},
    {"version", amb_ctl_version, NULL},
    {"completion", amb_ctl_completion, NULL},
};

static const struct command *find_command(const char *name)
{
    for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
        if (strcmp(commands[i].name, name) == 0) {
            return &commands[i];
        }
    }
    return NULL;
}

static enum amb_exit run(const struct amb_cli_line *line)
{
    struct amb_ctl ctl = {.line = line, .timeout_ns = -1, .start_ns = amb_clock_monotonic_ns()};
    const struct command *command = NULL;
    if (line->command != NULL) {
        command = find_command(line->command->name);
        amb_assert(command != NULL); /* integration-cli runs each */
    }
    if (line->wants_help) {
        amb_cli_help_line(line, stdout);
        return AMB_EXIT_OK;
    }
    if (line->wants_version) {
        return amb_ctl_version(&ctl);
    }
    amb_ctl_take_options(&ctl);
    amb_ctl_hint(line);
    ctl.query = command->query;
    enum amb_exit code = command->run(&ctl);
    amb_context_fini(&ctl.context);
    return code;
}

int main(int argc, char **argv)
{
    char error[AMB_CLI_ERROR_MAX];
    struct amb_cli_line line;
    amb_tool_name("broker-ctl");
    (void)signal(SIGPIPE, SIG_IGN);
    if (argc > 1 && strcmp(argv[1], AMB_CLI_COMPLETE) == 0) {
        amb_cli_complete(&amb_cli_broker_ctl, argc - 2, argv + 2, amb_ctl_names, stdout);
        return AMB_EXIT_OK;
    }
    enum amb_status status =
        amb_cli_parse(&amb_cli_broker_ctl, argc, argv, &line, error, sizeof(error));
    if (status != AMB_OK) {
        amb_tool_error("%s", error);
        return (int)amb_exit_of(status);
    }
    enum amb_exit code = run(&line);
    amb_cli_fini(&line);
    return (int)amb_output_end(code);
}
