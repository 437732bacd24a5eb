/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/ctl/asked.h"

#include "tools/ctl/connect.h"
#include "tools/ctl/counted.h"

#include <stdio.h>
#include <string.h>

enum amb_exit amb_ctl_asked_begin(struct amb_ctl_asked *asked)
{
    char path[AMB_CTL_COUNTED_PATH_MAX];
    if (asked->file != NULL) {
        amb_ctl_catch_signals();
        return amb_ctl_counted_check(asked->file);
    }
    enum amb_exit code = amb_ctl_connect(asked->ctl);
    bool has_file = code == AMB_EXIT_UNAVAILABLE && amb_ctl_counted_path(asked->ctl, path);
    return has_file ? AMB_EXIT_OK : code;
}

static void forget(json_t **answers, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        json_decref(answers[i]);
        answers[i] = NULL;
    }
}

/* The reason of a call that has failed. */
static void write_why(const struct amb_ctl *ctl, enum amb_status status, char *note)
{
    struct amb_error error = amb_last_error(ctl->conn);
    bool has_text = error.status == status && error.text[0] != '\0';
    (void)snprintf(note, AMB_CTL_NOTE_MAX, "%.300s", has_text ? error.text : amb_strerror(status));
}

/* One question to the broker. A refusal is no failure. */
static enum amb_status ask(const struct amb_ctl_asked *asked, const char *query, json_t **out,
                           char *note)
{
    struct amb_msg *answer;
    enum amb_status status = amb_admin(asked->ctl->conn, query, asked->timeout_ns, &answer);
    if (status == AMB_EFORBIDDEN || status == AMB_ENOTFOUND || status == AMB_EINVAL) {
        write_why(asked->ctl, status, note);
        return AMB_OK;
    }
    if (status != AMB_OK) {
        write_why(asked->ctl, status, note);
        return status;
    }
    *out = amb_ctl_take_json(answer);
    if (*out == NULL) {
        (void)snprintf(note, AMB_CTL_NOTE_MAX, "%s: the answer is not JSON", query);
    }
    return AMB_OK;
}

/* By the user, not by the broker. */
static bool is_ended(enum amb_status status)
{
    return status == AMB_ESTOPPED || status == AMB_ECANCELED;
}

static enum amb_status ask_broker(struct amb_ctl_asked *asked, const char *const *queries,
                                  size_t count, json_t **answers, char *note)
{
    enum amb_status status = AMB_OK;
    if (asked->ctl->conn == NULL) {
        struct amb_error error = {.status = AMB_OK};
        status = amb_ctl_open(asked->ctl, asked->timeout_ns, &error);
        if (status != AMB_OK) {
            (void)snprintf(note, AMB_CTL_NOTE_MAX, "%.300s",
                           error.text[0] != '\0' ? error.text : amb_strerror(status));
            return status;
        }
    }
    for (size_t i = 0; i < count && status == AMB_OK; i++) {
        status = ask(asked, queries[i], &answers[i], note);
    }
    if (status != AMB_OK) {
        forget(answers, count);
    }
    if (status != AMB_OK && status != AMB_ETIMEDOUT && !is_ended(status)) {
        (void)amb_ctl_close(asked->ctl, AMB_EXIT_UNAVAILABLE);
    }
    return status;
}

enum amb_status amb_ctl_ask_all(struct amb_ctl_asked *asked, const char *const *queries,
                                size_t count, json_t **answers, char note[AMB_CTL_NOTE_MAX])
{
    note[0] = '\0';
    if (asked->file != NULL) {
        return amb_ctl_counted_all(asked->file, queries, count, answers, note, AMB_CTL_NOTE_MAX);
    }
    enum amb_status status = ask_broker(asked, queries, count, answers, note);
    char path[AMB_CTL_COUNTED_PATH_MAX], from_file[AMB_CTL_NOTE_MAX];
    if (status == AMB_OK || is_ended(status) || status == AMB_EFORBIDDEN ||
        !amb_ctl_counted_path(asked->ctl, path)) {
        return status;
    }
    enum amb_status counted =
        amb_ctl_counted_all(path, queries, count, answers, from_file, sizeof(from_file));
    if (counted != AMB_OK) {
        return status;
    }
    char why[AMB_CTL_NOTE_MAX];
    (void)snprintf(why, sizeof(why), "%s", note);
    (void)snprintf(note, AMB_CTL_NOTE_MAX, "%.200s (%.100s)", from_file, why);
    return AMB_OK;
}
