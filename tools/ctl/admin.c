/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/ctl/admin.h"

#include "tools/common/output.h"
#include "tools/ctl/confirm.h"
#include "tools/ctl/connect.h"
#include "tools/ctl/counted.h"
#include "tools/ctl/view.h"
#include "wire/base/clock.h"
#include "wire/counters/query.h"

#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define QUERY_MAX 1024u /* bytes of a question */

/* Prints what the broker answers. FORBIDDEN: the answer is a row that says no. */
static enum amb_exit show(struct amb_ctl *ctl, const char *query)
{
    struct amb_msg *answer;
    enum amb_status status = amb_admin(ctl->conn, query, amb_ctl_answer_ns(ctl), &answer);
    if (status != AMB_OK) {
        enum amb_exit failed = amb_ctl_fail(ctl, query, status);
        return status == AMB_ETIMEDOUT || status == AMB_ELOST
                   ? amb_ctl_counted_instead(ctl, query, failed)
                   : failed;
    }
    json_error_t error;
    json_t *value = json_loadb(amb_msg_data(answer), amb_msg_size(answer), JSON_DECODE_ANY, &error);
    amb_msg_release(answer);
    if (value == NULL) {
        amb_tool_error("%s: the broker's answer is not JSON: %s", query, error.text);
        return AMB_EXIT_SOFTWARE;
    }
    const char *word = json_string_value(json_object_get(json_array_get(value, 0), "answer"));
    enum amb_exit code = word != NULL && strcmp(word, "no") == 0 ? AMB_EXIT_FORBIDDEN : AMB_EXIT_OK;
    json_int_t not_shown = json_integer_value(json_object_get(value, "not_shown"));
    if (ctl->form != AMB_CLI_FORM_JSON) {
        (void)json_object_del(value, "not_shown");
    }
    enum amb_exit printed = amb_ctl_show(ctl, value);
    if (printed != AMB_EXIT_OK) {
        return printed;
    }
    if (not_shown > 0) {
        (void)fflush(stdout);
        amb_tool_error("%s: %" JSON_INTEGER_FORMAT " more %s not shown%s", query, not_shown,
                       not_shown == 1 ? "is" : "are",
                       amb_counters_query_is(query) ? " (server.counters_objects)" : "");
    }
    return code;
}

/* The text of an option that not every view has; NULL: not given. */
static const char *text_of(const struct amb_cli_line *line, const char *name)
{
    bool has_it = amb_cli_option_named(line->command->options, name) != NULL;
    return has_it ? amb_cli_text(line, name) : NULL;
}

bool amb_ctl_is_one_word(const struct amb_ctl *ctl, const char *word, const char *rule)
{
    if (strchr(word, ' ') == NULL) {
        return true;
    }
    amb_tool_error("%s: %s", ctl->line->called, rule);
    return false;
}

/* The question: the broker's word, the arguments that were typed, and choices as "sort=COLUMN".
 * False: it is too long. */
static bool write_query(const struct amb_ctl *ctl, char *query, size_t size)
{
    const struct amb_cli_line *line = ctl->line;
    bool is_of_closed = amb_cli_option_named(line->command->options, "closed") != NULL &&
                        amb_cli_has(line, "closed");
    size_t len = (size_t)snprintf(query, size, "%s", is_of_closed ? "closed" : ctl->query);
    for (size_t i = 0; i < line->arg_count && len < size; i++) {
        len += (size_t)snprintf(query + len, size - len, " %s", line->args[i]);
    }
    static const char *const choices[] = {"match", "sort", "top"};
    for (size_t i = 0; i < sizeof(choices) / sizeof(choices[0]) && len < size; i++) {
        const char *word = text_of(line, choices[i]);
        if (word != NULL) {
            len += (size_t)snprintf(query + len, size - len, " %s=%s", choices[i], word);
        }
    }
    return len < size;
}

/* At most so long; a signal ends it. */
static void sleep_ns(int64_t ns)
{
    struct timespec rest = {.tv_sec = ns / AMB_SEC, .tv_nsec = ns % AMB_SEC};
    (void)nanosleep(&rest, NULL);
}

/* Until the next time. False: a signal has come, the time is over, or nobody reads any more. */
static bool wait_for_next(struct amb_ctl *ctl, int64_t every_ns)
{
    int64_t next_ns = amb_deadline_ns(amb_clock_monotonic_ns(), every_ns);
    for (;;) {
        int64_t left_ns = next_ns - amb_clock_monotonic_ns();
        int64_t slice_ns = amb_ctl_slice_ns(ctl);
        if (amb_ctl_stopped() || slice_ns == 0 || amb_output_is_unread()) {
            return false;
        }
        if (left_ns <= 0) {
            return true;
        }
        slice_ns = left_ns < slice_ns ? left_ns : slice_ns;
        if (ctl->conn == NULL) { /* A file is looked at. */
            sleep_ns(slice_ns);
            continue;
        }
        enum amb_status status = amb_poll(ctl->conn, slice_ns);
        if (status == AMB_ESTOPPED) {
            return false;
        }
        if (status != AMB_OK && status != AMB_ETIMEDOUT && status != AMB_EAGAIN) {
            sleep_ns(slice_ns); /* A lost connection is no wait; the next question tells of it. */
        }
    }
}

enum amb_exit amb_ctl_watch(struct amb_ctl *ctl, const char *query, int64_t every_ns,
                            amb_ctl_show_fn show_once)
{
    bool is_terminal = isatty(STDOUT_FILENO) != 0;
    enum amb_exit code;
    do {
        (void)fputs(is_terminal ? "\033[H\033[2J" : "", stdout);
        code = show_once(ctl, query);
        ctl->has_no_head = ctl->has_no_head || ctl->form == AMB_CLI_FORM_CSV;
    } while (code == AMB_EXIT_OK && amb_output_flush() && wait_for_next(ctl, every_ns));
    return code;
}

static enum amb_exit show_file(struct amb_ctl *ctl, const char *query)
{
    return amb_ctl_counted(ctl, text_of(ctl->line, "file"), query);
}

static enum amb_exit ask(struct amb_ctl *ctl, const char *query)
{
    int64_t every_ns = amb_ctl_take_form(ctl);
    if (text_of(ctl->line, "file") != NULL) {
        if (every_ns == 0) {
            return show_file(ctl, query);
        }
        amb_ctl_catch_signals();
        return amb_ctl_watch(ctl, query, every_ns, show_file);
    }
    enum amb_exit code = amb_ctl_confirm(ctl);
    if (code != AMB_EXIT_OK) {
        return code;
    }
    code = amb_ctl_connect(ctl);
    if (code == AMB_EXIT_OK) {
        code = every_ns > 0 ? amb_ctl_watch(ctl, query, every_ns, show) : show(ctl, query);
    } else if (code == AMB_EXIT_UNAVAILABLE) {
        code = amb_ctl_counted_instead(ctl, query, code);
    }
    return amb_ctl_close(ctl, code);
}

enum amb_exit amb_ctl_ask(struct amb_ctl *ctl)
{
    char query[QUERY_MAX];
    for (size_t i = 0; i < ctl->line->arg_count; i++) {
        if (!amb_ctl_is_one_word(ctl, ctl->line->args[i], "an argument has no blank")) {
            return AMB_EXIT_USAGE;
        }
    }
    if (!write_query(ctl, query, sizeof(query))) {
        amb_tool_error("%s: the argument is too long", ctl->line->called);
        return AMB_EXIT_USAGE;
    }
    return ask(ctl, query);
}

enum amb_exit amb_ctl_kick(struct amb_ctl *ctl)
{
    char query[QUERY_MAX];
    const struct amb_cli_line *line = ctl->line;
    const char *user = amb_cli_text(line, "user");
    if ((user != NULL) == (line->arg_count > 0)) {
        amb_tool_error("%s: takes a client, or --user NAME", line->called);
        return AMB_EXIT_USAGE;
    }
    const char *rule = user != NULL ? "a user has no blank"
                                    : "a client has no blank; give its number, which clients shows";
    if (!amb_ctl_is_one_word(ctl, user != NULL ? user : line->args[0], rule)) {
        return AMB_EXIT_USAGE;
    }
    const char *reason = amb_cli_text(line, "reason");
    (void)snprintf(query, sizeof(query), "%s%s %s%s%s", ctl->query, user != NULL ? " --user" : "",
                   user != NULL ? user : line->args[0], reason == NULL ? "" : " -- ",
                   reason == NULL ? "" : reason);
    return ask(ctl, query);
}
