/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/ctl/watch_events.h"

#include "tools/common/output.h"
#include "tools/common/rows.h"
#include "tools/common/shown.h"
#include "tools/ctl/connect.h"
#include "tools/ctl/message_json.h"
#include "tools/ctl/printed.h"
#include "wire/base/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PREFIX "$SYS."
#define PATTERN_SIZE 300u

/* The event with its name; a new reference. One that is no JSON object has its text. */
static json_t *event_of(const struct amb_msg *msg)
{
    const char *topic = amb_msg_topic(msg);
    size_t len = strlen(PREFIX);
    const char *name = strncmp(topic, PREFIX, len) == 0 ? topic + len : topic;
    json_t *event = json_pack("{s:o, s:I}", "event", amb_json_text(name), "time_ns",
                              (json_int_t)amb_msg_time(msg));
    json_t *fields = json_loadb(amb_msg_data(msg), amb_msg_size(msg), 0, NULL);
    if (json_is_object(fields)) {
        (void)json_object_update(event, fields); /* Its time_ns is when it happened. */
        (void)json_object_set_new(event, "event", amb_json_text(name));
    }
    json_decref(fields);
    return event;
}

/* Quoted where it could be taken for more than one value: names and reasons are others' words. */
static void print_value(const char *text)
{
    if (text[0] != '\0' && strpbrk(text, " \"=\\") == NULL) {
        amb_print_text(text);
        return;
    }
    (void)fputc('"', stdout);
    while (*text != '\0') {
        size_t len = strcspn(text, "\"\\");
        amb_shown_put(stdout, text, len, false);
        text += len;
        if (*text != '\0') {
            (void)fputc('\\', stdout);
            (void)fputc(*text++, stdout);
        }
    }
    (void)fputc('"', stdout);
}

/* "TIME NAME key=value ..." */
static void print_event(json_t *event)
{
    char date[AMB_TEXT_MAX];
    const char *key;
    json_t *value;
    amb_text_format_date(json_integer_value(json_object_get(event, "time_ns")), 9, date,
                         sizeof(date));
    (void)printf("%s ", date);
    amb_print_text(json_string_value(json_object_get(event, "event")));
    json_object_foreach(event, key, value)
    {
        if (strcmp(key, "event") == 0 || strcmp(key, "time_ns") == 0) {
            continue;
        }
        const char *text = json_string_value(value);
        char *dumped = text != NULL ? NULL : json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
        (void)fputc(' ', stdout);
        amb_print_text(key);
        (void)fputc('=', stdout);
        if (text != NULL) {
            print_value(text);
        } else {
            amb_print_text(dumped != NULL ? dumped : "");
        }
        free(dumped);
    }
    (void)fputc('\n', stdout);
}

static void show(const struct amb_ctl *ctl, const struct amb_msg *msg)
{
    json_t *event = event_of(msg);
    if (ctl->is_json) {
        amb_ctl_print(ctl, event);
    } else {
        print_event(event);
        json_decref(event);
    }
    uint64_t lost = amb_msg_lost(msg, NULL);
    if (lost != 0 && lost != UINT64_MAX) {
        (void)fflush(stdout);
        amb_tool_error("events: %llu before this one are lost", (unsigned long long)lost);
    }
}

static enum amb_exit receive(struct amb_ctl *ctl, struct amb_sub *sub, const char *pattern)
{
    uint64_t count = amb_cli_number(ctl->line, "count", 0), seen = 0;
    while (count == 0 || seen < count) {
        struct amb_msg *msg;
        enum amb_status status = amb_next(sub, amb_ctl_slice_ns(ctl), &msg);
        if (status == AMB_OK) {
            seen++;
            show(ctl, msg);
            amb_msg_release(msg);
        }
        if (!amb_output_flush()) {
            return amb_output_is_unread() ? AMB_EXIT_OK : AMB_EXIT_SOFTWARE;
        }
        if (amb_output_is_unread() || amb_ctl_stopped()) {
            return count == 0 ? AMB_EXIT_OK : AMB_EXIT_TIMEOUT;
        }
        if (status == AMB_OK || amb_ctl_again(ctl, status)) {
            continue;
        }
        bool is_over = status == AMB_ETIMEDOUT || status == AMB_EAGAIN;
        if (is_over) {
            return count == 0 ? AMB_EXIT_OK : AMB_EXIT_TIMEOUT;
        }
        return amb_ctl_fail(ctl, pattern, status);
    }
    return AMB_EXIT_OK;
}

enum amb_exit amb_ctl_events(struct amb_ctl *ctl)
{
    char pattern[PATTERN_SIZE];
    struct amb_sub *sub = NULL;
    struct amb_sub_options options = AMB_INIT(amb_sub_options);
    if (ctl->form == AMB_CLI_FORM_CSV) { /* Each has fields of its own. */
        return amb_ctl_bad("events --output", "csv", "takes table, json or jsonl");
    }
    int len = snprintf(pattern, sizeof(pattern), PREFIX "%s",
                       ctl->line->arg_count > 0 ? ctl->line->args[0] : ">");
    if (len < 0 || (size_t)len >= sizeof(pattern)) {
        amb_tool_error("events: the pattern is too long");
        return AMB_EXIT_USAGE;
    }
    ctl->stays = amb_cli_has(ctl->line, "reconnect");
    enum amb_exit code = amb_ctl_connect(ctl);
    if (code == AMB_EXIT_OK) {
        enum amb_status status = amb_subscribe(ctl->conn, pattern, &options, &sub);
        code = status == AMB_OK ? receive(ctl, sub, pattern) : amb_ctl_fail(ctl, pattern, status);
        (void)amb_sub_close(sub, AMB_SEC);
    }
    return amb_ctl_close(ctl, code);
}
