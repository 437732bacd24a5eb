/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/control/admin/admin.h"

#include "broker/control/admin/command.h"
#include "broker/control/admin/operate.h"
#include "broker/control/admin/tracing.h"
#include "broker/control/clients/client.h"
#include "broker/control/clients/client_io.h"
#include "broker/control/clients/control.h"
#include "broker/control/clients/events.h"
#include "broker/control/clients/record.h"
#include "broker/control/clients/renew.h"
#include "broker/control/directory/directory_leave.h"
#include "broker/control/directory/directory_operate.h"
#include "broker/control/status/pieces.h"
#include "broker/control/status/status.h"
#include "broker/worker/orders_subscription.h"
#include "broker/worker/orders_topic.h"
#include "wire/base/clock.h"
#include "wire/base/log.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TEXT_SIZE AMB_AUDIT_REASON_SIZE

/* A command under way. */
struct running {
    struct amb_audit_answer recorded;
    struct amb_list_node node; /* of control->reloads */
    struct amb_client *client; /* held */
    uint64_t id;               /* of the request */
    uint64_t number;           /* of the command */
    uint64_t reload;           /* of the reload that it waits for */
    unsigned orders;           /* of workers that have not answered */
    uint64_t messages;         /* that these have named so far */
    struct amb_command command;
    struct amb_config_job job; /* of the configuration */
    char words[AMB_AUDIT_WHAT_SIZE];
    char *answer; /* JSON, for free(), in place of a row that says "done"; NULL: none */
};

/* ---- answers ---- */

static void note(const struct running *running, const char *result, const char *why,
                 struct amb_audit_entry *out)
{
    amb_record_fill(running->client, AMB_AUDIT_COMMAND, out);
    out->command = running->number;
    out->result = result;
    (void)snprintf(out->what, sizeof(out->what), "%s", running->words);
    (void)snprintf(out->why, sizeof(out->why), "%s", why == NULL ? "" : why);
}

/* Of a command that wants rows, and there are some: they say what no single text can. */
static bool reply_rows(struct running *running, const char *result, const char *text,
                       const char *rows)
{
    json_t *array = rows == NULL ? NULL : json_loads(rows, 0, NULL);
    if (array == NULL) {
        return false;
    }
    amb_status_reply(running->client, running->id,
                     json_pack("{s:s, s:s, s:o}", "result", result, "note", text, "rows", array));
    return true;
}

/* The end of it: a line in both logs, an event, an answer. text: what is to be said of it, or
 * NULL. rows: JSON, or NULL. */
static void finish_with(struct running *running, enum amb_status status, uint64_t count,
                        const char *text, const char *rows)
{
    struct amb_client *client = running->client;
    struct amb_audit_entry entry;
    bool is_done = status == AMB_OK;
    const char *result = is_done ? "done" : "failed", *before = text == NULL ? "" : ": ";
    text = text == NULL ? "" : text;
    note(running, result, text, &entry);
    amb_record_note(client->control, &entry);
    amb_info("client %" PRIu64 " (%s): %s: %s%s%s", client->id, entry.user, running->words, result,
             before, text);
    amb_events_publish(client->control, amb_tenant_number(client->tenant), "$SYS.command",
                       !amb_events_are_wanted(client->control)
                           ? NULL
                           : json_pack("{s:s, s:s, s:I, s:s, s:s}", "command", running->words,
                                       "user", entry.user, "client", (json_int_t)client->id,
                                       "result", result, "note", text));
    bool is_live = client->state == AMB_CLIENT_LIVE;
    if (is_live && is_done && running->answer != NULL) {
        amb_pieces_send(client, running->id, running->answer, true);
    } else if (is_live && running->command.wants_rows && reply_rows(running, result, text, rows)) {
        /* Answered. */
    } else if (is_live && is_done) {
        amb_status_reply(client, running->id,
                         json_pack("[{s:s, s:s, s:I, s:I, s:s}]", "command", running->words,
                                   "result", result, "clients", (json_int_t)count, "messages",
                                   (json_int_t)running->messages, "note", text));
    } else if (is_live) {
        amb_client_send_error(client, running->id, status, "%s: %s", running->words, text);
    }
    free(running->answer);
    free(running);
    amb_client_end_work(client);
}

static void finish(struct running *running, enum amb_status status, uint64_t count,
                   const char *text)
{
    finish_with(running, status, count, text, NULL);
}

static void finish_counted(struct running *running)
{
    char text[64];
    bool is_purge = running->command.kind == AMB_COMMAND_TOPIC_PURGE;
    (void)snprintf(text, sizeof(text), "%" PRIu64 " message%s %s", running->messages,
                   running->messages == 1 ? "" : "s", is_purge ? "dropped" : "to be redelivered");
    finish(running, AMB_OK, 0, text);
}

/* Not carried out, and not in the log. */
static void refuse_unrecorded(struct running *running, const char *why)
{
    struct amb_client *client = running->client;
    amb_warn("client %" PRIu64 ": %s: refused, for it cannot be recorded (log.audit: %s)",
             client->id, running->words, why);
    if (client->state == AMB_CLIENT_LIVE) {
        amb_client_send_error(client, running->id, AMB_ESTATE,
                              "%.80s: refused, for it cannot be recorded (log.audit: %s)",
                              running->words, why);
    }
    free(running);
    amb_client_end_work(client);
}

/* ---- what is carried out ---- */

static void begin_reload(struct running *running, const struct amb_control_hooks *hooks)
{
    struct amb_control *control = running->client->control;
    running->reload =
        atomic_fetch_add_explicit(&control->reloads_asked, 1, memory_order_release) + 1;
    amb_list_push_back(&control->reloads, &running->node);
    hooks->reload(hooks->arg);
}

/* One for all of the broker, whoever asked. */
static void publish_config(struct amb_control *control, bool is_done, const char *text)
{
    if (amb_events_are_wanted(control)) {
        amb_events_publish(control, AMB_TENANT_OPERATORS,
                           is_done ? "$SYS.config.changed" : "$SYS.config.refused",
                           json_pack("{s:s}", "note", text));
    }
}

void amb_admin_reloaded(struct amb_control *control, uint64_t upto, bool is_done, const char *text,
                        const char *rows)
{
    bool is_asked = false;
    publish_config(control, is_done, text);
    AMB_LIST_FOR_EACH_SAFE (node, &control->reloads) {
        struct running *running = AMB_CONTAINER_OF(node, struct running, node);
        if (running->reload <= upto) {
            is_asked = true;
            amb_list_remove(node);
            finish_with(running, is_done ? AMB_OK : AMB_EREJECTED, 0, text, rows);
        }
    }
    if (!is_asked) {
        struct amb_audit_entry entry;
        amb_record_fill(NULL, AMB_AUDIT_RELOAD, &entry);
        entry.by = "signal";
        entry.result = is_done ? "done" : "failed";
        (void)snprintf(entry.what, sizeof(entry.what), "reload");
        (void)snprintf(entry.why, sizeof(entry.why), "%s", text);
        amb_record_note(control, &entry);
    }
}

void amb_admin_end(struct amb_control *control)
{
    if (!amb_list_is_empty(&control->reloads)) {
        amb_admin_reloaded(control, UINT64_MAX, false, "the broker ends", NULL);
    }
}

static void job_done(struct amb_mail *mail, void *control)
{
    struct amb_config_job *job = AMB_CONTAINER_OF(mail, struct amb_config_job, mail);
    struct running *running = AMB_CONTAINER_OF(job, struct running, job);
    char *note_text = job->note, *rows = job->rows;
    if (job->task == AMB_CONFIG_TASK_SET && note_text != NULL) {
        publish_config(control, job->is_done, note_text);
    }
    finish_with(running, job->is_done ? AMB_OK : AMB_EREJECTED, 0, note_text, rows);
    free(note_text);
    free(rows);
}

static enum amb_config_task task_of(enum amb_command_kind kind)
{
    return kind == AMB_COMMAND_CONFIG_DEFAULTS ? AMB_CONFIG_TASK_DEFAULTS
           : kind == AMB_COMMAND_CONFIG_DIFF   ? AMB_CONFIG_TASK_DIFF
           : kind == AMB_COMMAND_CONFIG_TEST   ? AMB_CONFIG_TASK_TEST
           : kind == AMB_COMMAND_CONFIG_SET    ? AMB_CONFIG_TASK_SET
                                               : AMB_CONFIG_TASK_SHOW;
}

static void begin_job(struct running *running, const struct amb_control_hooks *hooks)
{
    running->job.task = task_of(running->command.kind);
    running->job.text = running->command.rest;
    running->job.to = &running->client->control->inbox;
    running->job.done = job_done;
    hooks->config(hooks->arg, &running->job);
}

/* One that goes on may be given another end. */
static void begin_drain(struct amb_control *control, int64_t limit_ns,
                        const struct amb_control_hooks *hooks)
{
    control->drain_limit_ns = limit_ns;
    if (control->is_draining && limit_ns >= 0) {
        control->drain_deadline_ns = amb_deadline_ns(control->now_ns, limit_ns);
    } else {
        hooks->drain(hooks->arg);
    }
}

/* Of things that main() does. */
static void carry_out_by_hook(struct running *running)
{
    struct amb_control *control = running->client->control;
    const struct amb_control_hooks *hooks =
        atomic_load_explicit(&control->hooks, memory_order_acquire);
    bool is_of_config = amb_command_is_of_config(&running->command);
    if (hooks == NULL || (is_of_config && hooks->config == NULL)) {
        finish(running, AMB_ENOTSUP, 0, "this broker has no such command");
    } else if (is_of_config) {
        begin_job(running, hooks);
    } else if (running->command.kind == AMB_COMMAND_RELOAD) {
        begin_reload(running, hooks);
    } else {
        begin_drain(control, running->command.limit_ns, hooks);
        finish(running, AMB_OK, 0, "the broker ends when what it has is delivered");
    }
}

/* A topic has been emptied, or a member's messages have gone back. */
static void worker_answered(void *control, struct amb_order *order)
{
    struct running *running = order->context;
    (void)control;
    if (order->status == AMB_OK) {
        running->messages +=
            order->kind == &amb_order_topic_purge
                ? AMB_CONTAINER_OF(order, struct amb_order_topic_purge, order)->messages
                : AMB_CONTAINER_OF(order, struct amb_order_member_recall, order)->messages;
    }
    amb_order_free(order);
    if (--running->orders == 0) {
        finish_counted(running);
    }
}

/* Of a topic. It is under way where orders are. *why: static. */
static enum amb_status carry_out_on_topic(struct running *running, const char **why)
{
    struct amb_client *client = running->client;
    struct amb_directory *directory = &client->control->directory;
    const struct amb_command *command = &running->command;
    struct amb_dir_topic *topic;
    enum amb_status status = amb_directory_find(directory, amb_status_tenant(client),
                                                command->second[0] == '\0' ? NULL : command->second,
                                                command->word, &topic);
    if (status != AMB_OK) {
        *why = status == AMB_EINVAL ? "several tenants have it: NAME TENANT"
                                    : "there is no topic of that name";
        return status;
    }
    if (command->kind == AMB_COMMAND_TOPIC_RM) {
        *why = amb_directory_remove(directory, topic);
        return *why == NULL ? AMB_OK : AMB_EBUSY;
    }
    running->orders = amb_directory_purge(directory, topic, worker_answered, running);
    *why = "no memory";
    return running->orders > 0 ? AMB_OK : AMB_ENOMEM;
}

static void traced(void *context, enum amb_status status, const char *why, char *json)
{
    struct running *running = context;
    running->answer = json;
    finish(running, status, 0, status == AMB_OK ? NULL : why);
}

static void begin_trace(struct running *running)
{
    const struct amb_command *command = &running->command;
    const char *why;
    enum amb_status status = amb_tracing_begin(running->client, command->word, command->second,
                                               command->third, traced, running, &why);
    if (status != AMB_OK) {
        finish(running, status, 0, why);
    }
}

static void carry_out(struct running *running)
{
    const char *why = NULL;
    uint64_t count = 0;
    enum amb_status status = AMB_EINTERNAL;
    if (amb_command_is_of_all(&running->command)) {
        carry_out_by_hook(running);
        return;
    }
    if (running->command.kind == AMB_COMMAND_TRACE) {
        begin_trace(running);
        return;
    }
    const char *word = running->command.word, *second = running->command.second;
    switch (running->command.kind) {
    case AMB_COMMAND_DURABLE_RM:
        status = amb_status_remove_durable(running->client, word, second, &why);
        break;
    case AMB_COMMAND_REDELIVER:
        status = amb_status_recall(running->client, word, second, worker_answered, running,
                                   &running->orders, &why);
        if (status == AMB_OK && running->orders == 0) {
            finish_counted(running);
            return;
        }
        break;
    case AMB_COMMAND_TOPIC_RM:
    case AMB_COMMAND_TOPIC_PURGE:
        status = carry_out_on_topic(running, &why);
        break;
    case AMB_COMMAND_KICK:
    case AMB_COMMAND_KICK_USER:
    case AMB_COMMAND_BLOCK:
    case AMB_COMMAND_UNBLOCK:
    case AMB_COMMAND_RELOAD:
    case AMB_COMMAND_DRAIN:
    case AMB_COMMAND_CONFIG_SHOW:
    case AMB_COMMAND_CONFIG_DEFAULTS:
    case AMB_COMMAND_CONFIG_DIFF:
    case AMB_COMMAND_CONFIG_TEST:
    case AMB_COMMAND_CONFIG_SET:
    case AMB_COMMAND_TRACE:
    case AMB_COMMAND_NONE:
        status = amb_operate(running->client, &running->command, &count, &why);
        break;
    }
    if (status != AMB_OK || running->orders == 0) {
        finish(running, status, count, status == AMB_OK ? NULL : why);
    }
}

/* ---- the record ---- */

/* A file's faults tell of the broker's machine: others than its own need more than a command. */
static enum amb_admin level_of(const struct amb_client *client, const struct amb_command *command)
{
    bool has_path =
        command->kind == AMB_COMMAND_CONFIG_DIFF || command->kind == AMB_COMMAND_CONFIG_TEST;
    if (command->kind == AMB_COMMAND_NONE || command->kind == AMB_COMMAND_CONFIG_SHOW ||
        command->kind == AMB_COMMAND_CONFIG_DEFAULTS) {
        return AMB_ADMIN_READ;
    }
    return amb_command_is_of_trust(command) || (has_path && !client->is_unix) ? AMB_ADMIN_ADMIN
                                                                              : AMB_ADMIN_OPERATE;
}

/* Its line is on the disk, or is not. Its client may have lost its rights meanwhile. */
static void recorded(struct amb_mail *mail, void *owner)
{
    const struct amb_control *control = owner;
    struct running *running = AMB_CONTAINER_OF(
        AMB_CONTAINER_OF(mail, struct amb_audit_answer, mail), struct running, recorded);
    struct amb_client *client = running->client;
    int trouble = running->recorded.trouble;
    amb_renew_client(client);
    if (trouble != 0) {
        refuse_unrecorded(running, strerrordesc_np(trouble));
    } else if (control->is_over || client->state != AMB_CLIENT_LIVE || client->revoked != AMB_OK ||
               amb_status_obstacle(client, level_of(client, &running->command)) != NULL) {
        finish(running, AMB_ECANCELED, 0, "not carried out: its client has gone, or its right");
    } else {
        carry_out(running);
    }
}

static void begin(struct amb_client *client, uint64_t id, const struct amb_command *command)
{
    struct amb_control *control = client->control;
    struct amb_audit_entry entry;
    struct running *running = calloc(1, sizeof(*running));
    if (running == NULL) {
        amb_client_send_error(client, id, AMB_ENOMEM, "no memory");
        return;
    }
    running->client = client;
    running->id = id;
    running->number = ++control->commands;
    running->command = *command;
    running->recorded.to = &control->inbox;
    running->recorded.fn = recorded;
    (void)amb_command_format(command, running->words, sizeof(running->words));
    amb_client_begin_work(client);
    if (control->audit == NULL) {
        carry_out(running);
        return;
    }
    note(running, "begun", NULL, &entry);
    if (!amb_audit_note(control->audit, &entry, &running->recorded)) {
        refuse_unrecorded(running, "too much waits for the disk");
    }
}

/* ---- requests ---- */

static void forbid(struct amb_client *client, uint64_t id, const char *query, const char *why)
{
    amb_stat_add(&client->control->stats->forbidden, 1);
    amb_record_refused(client, query, why);
    amb_client_send_error(client, id, AMB_EFORBIDDEN, "admin: %s", why);
}

/* Else it could be carried out, and neither its answer nor its event could be written. */
static bool is_utf8(const char *query)
{
    json_t *text = json_string(query);
    json_decref(text);
    return text != NULL;
}

void amb_admin_request(struct amb_client *client, uint64_t id, const char *query)
{
    struct amb_command command;
    const char *why = "";
    if (strcmp(query, "ping") == 0) { /* Nobody learns anything by it, so nobody needs a right. */
        amb_status_reply(client, id, json_array());
        return;
    }
    bool is_good = amb_command_parse(query, &command, &why);
    bool is_view = command.kind == AMB_COMMAND_NONE;
    const char *obstacle = amb_status_obstacle(client, level_of(client, &command));
    if (obstacle == NULL && amb_command_is_of_all(&command) && amb_operate_scope(client) != NULL) {
        obstacle = "only users of the tenant \"$\", or with admin = \"admin\": it is of the whole "
                   "broker";
    }
    if (obstacle != NULL) {
        char words[AMB_AUDIT_WHAT_SIZE];
        (void)amb_command_format(&command, words, sizeof(words)); /* Without a secret. */
        bool is_plain = is_view || (!is_good && command.kind != AMB_COMMAND_CONFIG_SET);
        forbid(client, id, is_plain ? query : words, obstacle);
    } else if (!is_good) {
        amb_client_send_error(client, id, AMB_EINVAL, "admin: %s", why);
    } else if (!is_view && !is_utf8(query)) {
        amb_client_send_error(client, id, AMB_EINVAL, "admin: a command is UTF-8");
    } else if (!is_view) {
        begin(client, id, &command);
    } else {
        amb_record_view(client, query);
        if (strcmp(query, "blocked") == 0) {
            amb_status_reply(client, id, amb_operate_blocked(client));
        } else {
            amb_status_request(client, id, query);
        }
    }
}
