/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/ctl/names.h"

#include "tools/ctl/connect.h"
#include "tools/ctl/contexts.h"

#include <amb/amb.h>
#include <jansson.h>
#include <signal.h>
#include <sys/time.h>
#include <unistd.h>

#define NAMES_TIME_US 300000
#define NAMES_TIME_NS (NAMES_TIME_US * INT64_C(1000))

/* The view that has the names of a kind, and the field of its rows. */
struct source {
    const char *view, *field;
};

static struct source source_of(enum amb_cli_live kind)
{
    switch (kind) {
    case AMB_CLI_LIVE_TOPICS:
        return (struct source){"topics", "topic"};
    case AMB_CLI_LIVE_SUBSCRIPTIONS:
        return (struct source){"subs", "pattern"};
    case AMB_CLI_LIVE_DURABLES:
        return (struct source){"queues", "durable"};
    case AMB_CLI_LIVE_CLIENTS:
        return (struct source){"clients", "name"};
    case AMB_CLI_LIVE_NONE:
    case AMB_CLI_LIVE_CONTEXTS:
    case AMB_CLI_LIVE_COMMANDS:
        break;
    }
    return (struct source){NULL, NULL};
}

static void on_alarm(int number)
{
    (void)number;
    _exit(0); /* All that is known has been flushed. */
}

static void start_alarm(void)
{
    struct sigaction action = {.sa_handler = on_alarm};
    const struct itimerval after = {.it_value = {.tv_usec = NAMES_TIME_US}};
    (void)sigaction(SIGALRM, &action, NULL);
    (void)setitimer(ITIMER_REAL, &after, NULL);
}

/* The rows of an answer: {"topics": [{"topic": "a"}]}. */
static void add_rows(const json_t *answer, const struct source *source,
                     struct amb_cli_candidates *to)
{
    const json_t *rows = json_object_get(answer, source->view);
    json_t *seen = json_object(), *row;
    size_t i;
    json_array_foreach(rows, i, row)
    {
        const char *name = json_string_value(json_object_get(row, source->field));
        if (name != NULL && json_object_get(seen, name) == NULL) {
            amb_cli_candidate(to, name, "");
            (void)json_object_set_new(seen, name, json_true());
        }
    }
    json_decref(seen);
}

static void ask(struct amb_conn *conn, const struct source *source, struct amb_cli_candidates *to)
{
    struct amb_msg *answer;
    if (amb_admin(conn, source->view, NAMES_TIME_NS, &answer) != AMB_OK) {
        return;
    }
    json_t *value = amb_ctl_take_json(answer);
    add_rows(value, source, to);
    json_decref(value);
}

void amb_ctl_names(enum amb_cli_live kind, const struct amb_cli_line *line,
                   struct amb_cli_candidates *to)
{
    struct source source = source_of(kind);
    struct amb_conn *conn = NULL;
    struct amb_ctl ctl = {
        .line = line,
        .url = amb_cli_text(line, "url"),
        .credentials = amb_cli_text(line, "credentials"),
        .client_name = amb_cli_text(line, "client-name"),
    };
    if (kind == AMB_CLI_LIVE_CONTEXTS) {
        amb_ctl_context_names(to);
    }
    if (source.view == NULL || amb_ctl_use_context(&ctl) != AMB_EXIT_OK) {
        amb_context_fini(&ctl.context);
        return;
    }
    struct amb_options options = {
        .size = sizeof(options),
        .name = ctl.client_name != NULL ? ctl.client_name : "broker-ctl",
        .credentials = ctl.credentials,
        .connect_timeout_ns = NAMES_TIME_NS,
        .reconnect_attempts = AMB_NONE,
    };
    start_alarm();
    if (amb_connect(ctl.url, &options, &conn) == AMB_OK) {
        ask(conn, &source, to);
        (void)fflush(to->out);
        (void)amb_close(conn, AMB_NOWAIT);
    }
    amb_context_fini(&ctl.context);
}
