/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/ctl/drain.h"

#include "tools/cli/limits.h"
#include "tools/common/output.h"
#include "tools/common/rows.h"
#include "tools/ctl/confirm.h"
#include "tools/ctl/connect.h"
#include "tools/ctl/printed.h"
#include "wire/base/clock.h"
#include "wire/base/text.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#define LOOK_NS (AMB_SEC / 5)            /* how often what is left is asked for */
#define SHOWN_MAX 20u                    /* clients of one look */
#define AFTER_NS (INT64_C(20) * AMB_SEC) /* behind its time a broker ends within this */
#define END_WORDS "shutting down"        /* of a broker that ends as it was asked to */
#define LEFT_WORDS " messages are left"  /* ... before it was through */

static void say(const struct amb_ctl *ctl, const json_t *rows)
{
    size_t i, count = json_array_size(rows);
    const json_t *row;
    if (ctl->form != AMB_CLI_FORM_TABLE) {
        return;
    }
    json_array_foreach(rows, i, row)
    {
        if (i == SHOWN_MAX) {
            (void)printf("left: and %zu more clients\n", count - i);
            break;
        }
        (void)printf("left: client %" PRIu64 " (", amb_rows_number(row, "client"));
        amb_print_text(amb_rows_text(row, "name"));
        (void)printf("): %" PRIu64 " to be sent, %" PRIu64 " to be given back\n",
                     amb_rows_number(row, "left"), amb_rows_number(row, "held"));
    }
    (void)amb_output_flush();
}

/* One answer, which is released. The same rows are not said again. */
static void take(const struct amb_ctl *ctl, json_t **last, struct amb_msg *answer)
{
    json_t *value = amb_ctl_take_json(answer);
    json_t *rows = json_object_get(value, "left");
    if (json_is_array(rows) && !json_equal(rows, *last)) {
        say(ctl, rows);
        json_decref(*last);
        *last = json_incref(rows);
    }
    json_decref(value);
}

/* Messages that the broker says it has not delivered; 0: it says nothing of that. */
static uint64_t told_left(const struct amb_ctl *ctl)
{
    struct amb_error error = amb_last_error(ctl->conn);
    const char *end = strstr(error.text, LEFT_WORDS), *at = end;
    uint64_t left = 0;
    while (at != NULL && at > error.text && at[-1] >= '0' && at[-1] <= '9') {
        at--;
    }
    for (; at != NULL && at < end; at++) {
        left = left * 10 + (uint64_t)(*at - '0');
    }
    return left;
}

/* It was killed, or cannot be reached: nobody knows what is left. */
static enum amb_exit tell_loss(const struct amb_ctl *ctl)
{
    amb_tool_error("%s: the broker is gone, and has not said that all is delivered: %s",
                   ctl->line->called, amb_last_error(ctl->conn).text);
    return AMB_EXIT_UNAVAILABLE;
}

static enum amb_exit report(const struct amb_ctl *ctl, uint64_t left)
{
    if (ctl->form == AMB_CLI_FORM_TABLE && left == 0) {
        (void)printf("all is delivered, and the broker has ended\n");
    } else if (ctl->form != AMB_CLI_FORM_TABLE) {
        (void)amb_ctl_print(ctl,
                            json_pack("[{s:s, s:I}]", "result", left == 0 ? "delivered" : "left",
                                      "messages", (json_int_t)left));
    }
    if (left != 0) {
        (void)fflush(stdout);
        amb_tool_error("%s: the broker has ended, and %" PRIu64 " messages were left",
                       ctl->line->called, left);
        return AMB_EXIT_TIMEOUT;
    }
    return AMB_EXIT_OK;
}

/* Until it has ended. */
static enum amb_exit follow(struct amb_ctl *ctl)
{
    json_t *last = NULL;
    enum amb_exit code = AMB_EXIT_OK;
    int64_t deadline_ns =
        ctl->timeout_ns < 0 ? INT64_MAX
                            : amb_deadline_ns(amb_clock_monotonic_ns(), ctl->timeout_ns + AFTER_NS);
    for (;;) {
        struct amb_msg *answer;
        enum amb_status status = amb_admin(ctl->conn, "left", 5 * AMB_SEC, &answer);
        if (status == AMB_OK) {
            take(ctl, &last, answer);
            status = amb_poll(ctl->conn, LOOK_NS); /* Nothing comes but the end. */
        }
        if (amb_ctl_stopped()) {
            code = amb_ctl_fail(ctl, ctl->line->called, AMB_ESTOPPED);
            break;
        }
        if (status == AMB_ECLOSED || status == AMB_ELOST) {
            bool is_told = strstr(amb_last_error(ctl->conn).text, END_WORDS) != NULL;
            code = is_told ? report(ctl, told_left(ctl)) : tell_loss(ctl);
            break;
        }
        bool is_wait = status == AMB_OK || status == AMB_ETIMEDOUT || status == AMB_EAGAIN;
        if (!is_wait || amb_clock_monotonic_ns() > deadline_ns) {
            code = amb_ctl_fail(ctl, ctl->line->called, is_wait ? AMB_ETIMEDOUT : status);
            break;
        }
    }
    json_decref(last);
    return code;
}

static enum amb_exit begin(struct amb_ctl *ctl, int64_t limit_ns)
{
    char query[64] = "drain", limit[AMB_TEXT_MAX];
    if (limit_ns >= 0) {
        amb_text_format_time(limit_ns, limit, sizeof(limit));
        (void)snprintf(query, sizeof(query), "drain %s", limit);
    }
    enum amb_exit code = amb_ctl_confirm(ctl);
    if (code != AMB_EXIT_OK) {
        return code;
    }
    code = amb_ctl_connect(ctl);
    if (code == AMB_EXIT_OK) {
        struct amb_msg *answer;
        enum amb_status status = amb_admin(ctl->conn, query, 5 * AMB_SEC, &answer);
        if (status == AMB_OK) {
            amb_msg_release(answer);
            code = follow(ctl);
        } else {
            code = amb_ctl_fail(ctl, ctl->line->called, status);
        }
    }
    (void)amb_ctl_close(ctl, AMB_EXIT_UNAVAILABLE); /* It has gone: no close can do any more. */
    return code;
}

enum amb_exit amb_ctl_drain(struct amb_ctl *ctl)
{
    if (ctl->timeout_ns > AMB_CTL_DRAIN_S_MAX * AMB_SEC) {
        return amb_ctl_bad("drain --timeout", amb_cli_text(ctl->line, "timeout"),
                           "takes a time of at most 24h");
    }
    return begin(ctl, ctl->timeout_ns);
}

enum amb_exit amb_ctl_stop(struct amb_ctl *ctl)
{
    return begin(ctl, 0);
}
