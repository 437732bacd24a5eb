/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/ctl/config_ask.h"

#include "tools/common/rows.h"
#include "tools/common/shown.h"
#include "tools/ctl/connect.h"
#include "tools/ctl/printed.h"
#include "tools/ctl/view.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define QUERY_MAX 1024u /* bytes of a question */
#define LINE_MAX 960u   /* bytes of a refusal: amb_tool_error has 1024 */

/* "broker.conf:4: server.workers: needs a restart (was 2, becomes 3)" */
static void say_refusal(const struct amb_ctl *ctl, const json_t *row)
{
    char text[LINE_MAX];
    const char *place = amb_rows_text(row, "place"), *key = amb_rows_text(row, "key");
    const char *was = amb_rows_text(row, "was"), *becomes = amb_rows_text(row, "becomes");
    size_t len =
        (size_t)snprintf(text, sizeof(text), "%s%s%s%s%s", place, place[0] == '\0' ? "" : ": ", key,
                         key[0] == '\0' ? "" : ": ", amb_rows_text(row, "why"));
    if (was[0] != '\0' && len < sizeof(text)) {
        (void)snprintf(text + len, sizeof(text) - len, " (was %s%s%s)", was,
                       becomes[0] == '\0' ? "" : ", becomes ", becomes);
    }
    amb_tool_error("%s: %s", ctl->line->called, text);
}

/* rows: of a view, or refusals. */
static enum amb_exit print(struct amb_ctl *ctl, json_t *rows, const char *note, bool is_refused)
{
    bool is_table = ctl->form == AMB_CLI_FORM_TABLE;
    (void)amb_ctl_take_form(ctl);
    if (is_refused) {
        size_t i;
        const json_t *row;
        json_array_foreach(rows, i, row)
        {
            say_refusal(ctl, row);
        }
    }
    if (is_table && !is_refused && json_array_size(rows) == 0) {
        amb_print_text(note);
        (void)fputc('\n', stdout);
        return AMB_EXIT_OK;
    }
    return is_table && is_refused ? AMB_EXIT_OK : amb_ctl_show(ctl, json_incref(rows));
}

/* The answer, a new reference; NULL: it has been said why not. */
static json_t *answer_of(struct amb_ctl *ctl, const char *query, enum amb_exit *code)
{
    struct amb_msg *answer;
    enum amb_status status = amb_admin(ctl->conn, query, amb_ctl_answer_ns(ctl), &answer);
    if (status != AMB_OK) {
        *code = amb_ctl_fail(ctl, ctl->line->called, status);
        return NULL;
    }
    json_t *value = amb_ctl_take_json(answer);
    if (!json_is_array(json_object_get(value, "rows"))) {
        amb_tool_error("%s: the broker's answer is not understood here", ctl->line->called);
        *code = AMB_EXIT_SOFTWARE;
        json_decref(value);
        return NULL;
    }
    return value;
}

static enum amb_exit show(struct amb_ctl *ctl, const char *query, enum amb_exit refused)
{
    enum amb_exit code = AMB_EXIT_OK;
    json_t *value = answer_of(ctl, query, &code);
    if (value == NULL) {
        return code;
    }
    bool is_refused = strcmp(amb_rows_text(value, "result"), "done") != 0;
    code = print(ctl, json_object_get(value, "rows"), amb_rows_text(value, "note"), is_refused);
    json_decref(value);
    return code == AMB_EXIT_OK && is_refused ? refused : code;
}

static enum amb_exit ask(struct amb_ctl *ctl, const char *query, enum amb_exit refused)
{
    enum amb_exit code = amb_ctl_connect(ctl);
    if (code == AMB_EXIT_OK) {
        code = show(ctl, query, refused);
    }
    return amb_ctl_close(ctl, code);
}

enum amb_exit amb_ctl_config_ask(struct amb_ctl *ctl)
{
    return ask(ctl, ctl->query, AMB_EXIT_CONFIG);
}

/* As the broker sees it, which is in another folder. False: it has none, or is too long. */
static bool write_path(const char *path, char *out, size_t size)
{
    size_t len = 0;
    if (path[0] != '/') {
        if (getcwd(out, size) == NULL) {
            return false;
        }
        len = strlen(out);
        len += (size_t)snprintf(out + len, size - len, "/");
    }
    return len < size && (size_t)snprintf(out + len, size - len, "%s", path) < size - len;
}

enum amb_exit amb_ctl_config_file(struct amb_ctl *ctl)
{
    char query[QUERY_MAX];
    size_t len = (size_t)snprintf(query, sizeof(query), "%s ", ctl->query);
    if (!write_path(ctl->line->args[0], query + len, sizeof(query) - len)) {
        amb_tool_error("%s: the path is too long", ctl->line->called);
        return AMB_EXIT_USAGE;
    }
    return ask(ctl, query, AMB_EXIT_CONFIG);
}

enum amb_exit amb_ctl_config_set(struct amb_ctl *ctl)
{
    char query[QUERY_MAX];
    const char *text = ctl->line->args[0];
    if (strchr(text, '=') == NULL) {
        amb_tool_error("%s: has no value (allowed KEY=VALUE)", ctl->line->called);
        return AMB_EXIT_USAGE;
    }
    if ((size_t)snprintf(query, sizeof(query), "%s %s", ctl->query, text) >= sizeof(query)) {
        amb_tool_error("%s: the value is too long", ctl->line->called);
        return AMB_EXIT_USAGE;
    }
    return ask(ctl, query, AMB_EXIT_USAGE);
}

/* As a file has them, a key a line. */
static void print_values(const json_t *rows, bool has_origin)
{
    size_t i;
    const json_t *row;
    json_array_foreach(rows, i, row)
    {
        const char *value = amb_rows_text(row, "value");
        amb_print_text(amb_rows_text(row, "key"));
        (void)fputs(" = ", stdout);
        amb_shown_put(stdout, value, strlen(value), true); /* A list has a line an element. */
        (void)fputs(has_origin ? "; # " : ";", stdout);
        amb_print_text(has_origin ? amb_rows_text(row, "origin") : "");
        (void)fputc('\n', stdout);
    }
}

static enum amb_exit show_running(struct amb_ctl *ctl, bool has_origin, bool are_defaults)
{
    enum amb_exit code = AMB_EXIT_OK;
    json_t *value = answer_of(ctl, are_defaults ? "config defaults" : "config show", &code);
    if (value == NULL) {
        return code;
    }
    json_t *rows = json_object_get(value, "rows"), *row;
    size_t i;
    json_array_foreach(rows, i, row)
    {
        if (!has_origin) {
            (void)json_object_del(row, "origin");
        }
    }
    if (ctl->form == AMB_CLI_FORM_TABLE) {
        print_values(rows, has_origin);
    } else {
        code = amb_ctl_show(ctl, json_incref(rows));
    }
    json_decref(value);
    return code;
}

enum amb_exit amb_ctl_config_running(struct amb_ctl *ctl, bool has_origin, bool are_defaults)
{
    enum amb_exit code = amb_ctl_connect(ctl);
    if (code == AMB_EXIT_OK) {
        code = show_running(ctl, has_origin, are_defaults);
    }
    return amb_ctl_close(ctl, code);
}
