/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/ctl/trace.h"

#include "tools/cli/limits.h"
#include "tools/common/rows.h"
#include "tools/ctl/admin.h"
#include "tools/ctl/connect.h"
#include "tools/ctl/view.h"
#include "wire/base/clock.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#define QUERY_MAX 512u
#define COUNT 10u
#define TRACE_NS (10 * AMB_SEC)
#define ANSWER_NS (5 * AMB_SEC) /* beyond the time of the trace: it is disarmed, and written */

/* A figure beside the rows, which tables and lines do not have. */
static json_int_t take_figure(const struct amb_ctl *ctl, json_t *value, const char *name)
{
    json_int_t figure = json_integer_value(json_object_get(value, name));
    if (ctl->form != AMB_CLI_FORM_JSON) {
        (void)json_object_del(value, name);
    }
    return figure;
}

static json_int_t count_over(const json_t *value)
{
    json_int_t count = 0;
    size_t i;
    json_t *row;
    json_array_foreach(json_object_get(value, "trace"), i, row)
    {
        const char *stage = amb_rows_text(row, "stage");
        count += strcmp(stage, "over") == 0 || strcmp(stage, "refused") == 0;
    }
    return count;
}

static void say_more(const struct amb_ctl *ctl, json_int_t count, const char *what)
{
    if (count > 0) {
        (void)fflush(stdout);
        amb_tool_error("%s: %" JSON_INTEGER_FORMAT " %s", ctl->line->called, count, what);
    }
}

static enum amb_exit show(const struct amb_ctl *ctl, json_t *value)
{
    json_int_t batches = take_figure(ctl, value, "batches"), of = take_figure(ctl, value, "of");
    json_int_t not_shown = take_figure(ctl, value, "not_shown");
    json_int_t not_noted = take_figure(ctl, value, "not_noted"), over = count_over(value);
    if (batches == 0 && ctl->form != AMB_CLI_FORM_JSON) {
        json_decref(value);
    } else {
        enum amb_exit printed = amb_ctl_show(ctl, value);
        if (printed != AMB_EXIT_OK) {
            return printed;
        }
    }
    say_more(ctl, not_shown, "more rows are not shown");
    say_more(ctl, not_noted, "stages had no room, and are missing");
    say_more(ctl, batches - over, "of the batches were not over at the end of --timeout");
    if (batches == 0) {
        amb_tool_error("%s %s: nobody has published to it meanwhile", ctl->line->called,
                       ctl->line->args[0]);
    } else if (batches < of) {
        amb_tool_error("%s %s: %" JSON_INTEGER_FORMAT " of %" JSON_INTEGER_FORMAT
                       " batches have come",
                       ctl->line->called, ctl->line->args[0], batches, of);
    }
    return batches < of ? AMB_EXIT_TIMEOUT : AMB_EXIT_OK;
}

static enum amb_exit ask(struct amb_ctl *ctl, const char *query, int64_t time_ns)
{
    struct amb_msg *answer;
    enum amb_status status =
        amb_admin(ctl->conn, query, amb_deadline_ns(time_ns, ANSWER_NS), &answer);
    if (status != AMB_OK) {
        return amb_ctl_fail(ctl, query, status);
    }
    json_t *value = amb_ctl_take_json(answer);
    if (value == NULL) {
        amb_tool_error("%s: the broker's answer is not JSON", ctl->line->called);
        return AMB_EXIT_SOFTWARE;
    }
    return show(ctl, value);
}

enum amb_exit amb_ctl_trace(struct amb_ctl *ctl)
{
    char query[QUERY_MAX];
    const char *pattern = ctl->line->args[0];
    int64_t time_ns = ctl->timeout_ns >= 0 ? ctl->timeout_ns : TRACE_NS;
    if (!amb_ctl_is_one_word(ctl, pattern, "an argument has no blank")) {
        return AMB_EXIT_USAGE;
    }
    if (time_ns < 1 || time_ns > AMB_CTL_TRACE_MS_MAX * AMB_MS) {
        return amb_ctl_bad("trace --timeout", amb_cli_text(ctl->line, "timeout"),
                           "takes a time of 1ms to 1h");
    }
    (void)amb_ctl_take_form(ctl);
    ctl->timeout_ns = -1; /* That is the trace's, and not the connection's. */
    (void)snprintf(query, sizeof(query), "trace %s %" PRIu64 " %" PRId64 "ms", pattern,
                   amb_cli_number(ctl->line, "count", COUNT), (time_ns + AMB_MS - 1) / AMB_MS);
    enum amb_exit code = amb_ctl_connect(ctl);
    if (code == AMB_EXIT_OK) {
        /* One answer is waited for. A signal ends this process, and with it the trace. */
        (void)signal(SIGINT, SIG_DFL);
        (void)signal(SIGTERM, SIG_DFL);
        code = ask(ctl, query, time_ns);
    }
    return amb_ctl_close(ctl, code);
}
