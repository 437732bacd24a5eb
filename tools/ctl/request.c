/* SPDX-License-Identifier: Apache-2.0 */
/*
 * broker-ctl request, reply: one question and its answer; a service that answers all the same.
 */
#include "tools/ctl/request.h"

#include "tools/cli/limits.h"
#include "tools/ctl/connect.h"
#include "tools/ctl/printed.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define STDIN_STEP ((size_t)1 << 16)
#define WAIT_DEFAULT_NS (5 * AMB_SEC)

struct text {
    uint8_t *owned;
    const void *data;
    size_t len;
};

/* All of standard input. */
static enum amb_exit read_stdin(struct text *text)
{
    size_t cap = 0;
    for (;;) {
        if (text->len == cap) {
            cap = cap == 0 ? STDIN_STEP : cap * 2;
            uint8_t *grown = realloc(text->owned, cap);
            if (grown == NULL) {
                amb_tool_error("standard input: no memory for %zu bytes", cap);
                return AMB_EXIT_SOFTWARE;
            }
            text->owned = grown;
            text->data = grown;
        }
        ssize_t n = read(STDIN_FILENO, text->owned + text->len, cap - text->len);
        if (n < 0 && errno == EINTR && !amb_ctl_stopped()) {
            continue;
        }
        if (n < 0) {
            amb_tool_error("standard input: %s", strerror(errno));
            return AMB_EXIT_DATA;
        }
        if (n == 0) {
            return AMB_EXIT_OK;
        }
        text->len += (size_t)n;
        if (text->len > AMB_PUB_SIZE_MAX) {
            amb_tool_error("standard input: more than a message can have, %u bytes",
                           AMB_PUB_SIZE_MAX);
            return AMB_EXIT_DATA;
        }
    }
}

/* ---- request ---- */

static enum amb_exit request(struct amb_ctl *ctl, const char *topic, const struct text *text)
{
    struct amb_msg *reply;
    int64_t timeout_ns = ctl->timeout_ns > 0 ? ctl->timeout_ns : WAIT_DEFAULT_NS;
    enum amb_status status =
        amb_request(ctl->conn, topic, text->data, text->len, timeout_ns, &reply);
    if (status != AMB_OK) {
        char what[300];
        (void)snprintf(what, sizeof(what), "request %.255s", topic);
        return amb_ctl_fail(ctl, what, status);
    }
    amb_print_bytes(isatty(STDOUT_FILENO) == 1, amb_msg_data(reply), amb_msg_size(reply));
    amb_msg_release(reply);
    return AMB_EXIT_OK;
}

enum amb_exit amb_ctl_request(struct amb_ctl *ctl)
{
    const char *given = amb_cli_text(ctl->line, "text");
    struct text text = {.data = given, .len = given != NULL ? strlen(given) : 0};
    enum amb_exit code = given != NULL ? AMB_EXIT_OK : read_stdin(&text);
    if (code == AMB_EXIT_OK) {
        code = amb_ctl_connect(ctl);
    }
    if (code == AMB_EXIT_OK) {
        code = request(ctl, ctl->line->args[0], &text);
        code = amb_ctl_close(ctl, code);
    }
    free(text.owned);
    return code;
}

/* ---- reply ---- */

struct service {
    struct amb_ctl *ctl;
    const char *pattern, *text; /* text NULL: what was asked */
    uint64_t count, answered;   /* count 0: no end */
};

static enum amb_status answer(struct service *s, struct amb_msg *msg)
{
    if (!amb_msg_wants_reply(msg)) {
        return AMB_OK;
    }
    const void *data = s->text != NULL ? s->text : amb_msg_data(msg);
    size_t len = s->text != NULL ? strlen(s->text) : amb_msg_size(msg);
    enum amb_status status = amb_reply(msg, data, len, AMB_SEC);
    s->answered += status == AMB_OK;
    return status;
}

static enum amb_exit serve(struct service *s)
{
    char what[300];
    (void)snprintf(what, sizeof(what), "reply %.255s", s->pattern);
    struct amb_sub *sub;
    enum amb_status status = amb_subscribe(s->ctl->conn, s->pattern, NULL, &sub);
    if (status != AMB_OK) {
        return amb_ctl_fail(s->ctl, what, status);
    }
    (void)fputs("ready\n", stderr);
    while (s->count == 0 || s->answered < s->count) {
        struct amb_msg *msg;
        status = amb_next(sub, amb_ctl_slice_ns(s->ctl), &msg);
        if (status == AMB_OK) {
            status = answer(s, msg);
            amb_msg_release(msg);
            if (status != AMB_OK) { /* One requester's trouble. */
                (void)amb_ctl_fail(s->ctl, what, status);
            }
        } else if (!amb_ctl_again(s->ctl, status)) {
            break;
        }
    }
    (void)amb_sub_close(sub, AMB_SEC);
    bool is_over = status == AMB_OK || status == AMB_ESTOPPED || amb_ctl_stopped();
    if (is_over && (s->count == 0 || s->answered == s->count)) {
        return AMB_EXIT_OK;
    }
    if (status == AMB_ETIMEDOUT || status == AMB_EAGAIN || is_over) {
        amb_tool_error("%s: %" PRIu64 " requests answered after the time given", what, s->answered);
        return s->count == 0 && s->answered > 0 ? AMB_EXIT_OK : AMB_EXIT_TIMEOUT;
    }
    return amb_ctl_fail(s->ctl, what, status);
}

enum amb_exit amb_ctl_reply(struct amb_ctl *ctl)
{
    struct service s = {
        .ctl = ctl,
        .pattern = ctl->line->args[0],
        .text = amb_cli_text(ctl->line, "text"),
        .count = amb_cli_number(ctl->line, "count", 0),
    };
    enum amb_exit code = amb_ctl_connect(ctl);
    return code == AMB_EXIT_OK ? amb_ctl_close(ctl, serve(&s)) : code;
}
