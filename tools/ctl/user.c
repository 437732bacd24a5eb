/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/ctl/user.h"

#include "tools/ctl/connect.h"
#include "tools/ctl/key.h"
#include "tools/ctl/user_change.h"
#include "tools/ctl/users_path.h"
#include "wire/auth/users_file.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LOCK_NS (5 * AMB_SEC)

enum verb {
    VERB_ADD,
    VERB_SET,
    VERB_RM,
    VERB_LIST,
    VERB_SHOW,
    VERBS,
};

static const char *const verbs[VERBS] = {"add", "set", "rm", "list", "show"};

/* A command line. */
struct wanted {
    enum verb verb;
    const char *name;
    const char *file, *config;
    const char *new_key; /* the file to make, or NULL */
    struct amb_key_parts key;
    struct amb_user_change change;
};

static enum amb_exit failed(enum amb_status status, const char *why)
{
    amb_tool_error("user: %s", why);
    return status == AMB_EBUSY    ? AMB_EXIT_TIMEOUT
           : status == AMB_ENOMEM ? AMB_EXIT_SOFTWARE
                                  : AMB_EXIT_DATA;
}

/* ---- show ---- */

static json_t *list_of(const char *const *items, unsigned count)
{
    json_t *list = json_array();
    for (unsigned i = 0; i < count; i++) {
        (void)json_array_append_new(list, json_string(items[i]));
    }
    return list;
}

struct showing {
    const struct amb_ctl *ctl;
    const char *name; /* NULL: all */
    json_t *rows;
};

static bool add_row(const struct amb_user_line *line, const struct amb_users_place *place,
                    void *arg)
{
    struct showing *showing = arg;
    char flags[AMB_USER_LINE_MAX + 1], all[AMB_USER_LINE_MAX + 1];
    if (showing->name != NULL && strcmp(showing->name, line->name) != 0) {
        return true;
    }
    amb_user_flags_format(line, flags);
    json_t *row = json_pack("{s:s, s:s, s:s, s:s, s:i}", "user", line->name, "tenant", line->tenant,
                            "quota", line->quota == NULL ? "-" : line->quota, "flags", flags,
                            "line", (int)place->number);
    if (showing->ctl->is_json) {
        (void)json_object_set_new(row, "roles", list_of(line->roles, line->role_count));
        (void)json_object_set_new(row, "credentials",
                                  list_of(line->credentials, line->credential_count));
    } else {
        amb_user_list_format(line->roles, line->role_count, all);
        (void)json_object_set_new(row, "roles", json_string(all));
        amb_user_change_kinds(line, all);
        (void)json_object_set_new(row, "credentials", json_string(all));
    }
    (void)json_array_append_new(showing->rows, row);
    return true;
}

/* Of one user the line itself: it has all of each credential. */
static enum amb_exit show_line(const struct amb_users_file *file,
                               const struct amb_users_place *place)
{
    (void)printf("%.*s\n", (int)place->len, file->text + place->at);
    return AMB_EXIT_OK;
}

static enum amb_exit show(const struct amb_ctl *ctl, const struct wanted *wanted,
                          const struct amb_users_file *file)
{
    char why[AMB_USERS_TEXT_WHY_MAX];
    struct amb_users_place place;
    enum amb_status status =
        amb_users_text_find(file->text, file->len, file->path, wanted->name, &place, why);
    if (status != AMB_OK) {
        return failed(status, why);
    }
    if (wanted->name != NULL && place.number == 0) {
        amb_tool_error("user: %s has no user %s", file->path, wanted->name);
        return AMB_EXIT_DATA;
    }
    if (wanted->name != NULL && !ctl->is_json) {
        return show_line(file, &place);
    }
    struct showing showing = {.ctl = ctl, .name = wanted->name, .rows = json_array()};
    status = amb_users_text_each(file->text, file->len, file->path, add_row, &showing, why);
    if (status != AMB_OK) {
        json_decref(showing.rows);
        return failed(status, why);
    }
    amb_ctl_print(ctl, showing.rows);
    return AMB_EXIT_OK;
}

/* ---- edit ---- */

/* An edit under way. */
struct edit {
    const struct amb_ctl *ctl;
    const struct wanted *wanted;
    struct amb_users_file *file;
    struct amb_users_place place;     /* of the user; number 0: there is none */
    char line[AMB_USER_LINE_MAX + 1]; /* his line as it will be */
};

/* Is the user there, or not there, as the verb needs it? */
static enum amb_exit find(struct edit *edit)
{
    const struct wanted *wanted = edit->wanted;
    const struct amb_users_file *file = edit->file;
    char why[AMB_USERS_TEXT_WHY_MAX];
    enum amb_status status =
        amb_users_text_find(file->text, file->len, file->path, wanted->name, &edit->place, why);
    if (status != AMB_OK) {
        return failed(status, why);
    }
    if ((edit->place.number != 0) == (wanted->verb == VERB_ADD)) {
        amb_tool_error(wanted->verb == VERB_ADD ? "user: %s has a user %s already, in line %u"
                                                : "user: %s has no user %s",
                       file->path, wanted->name, edit->place.number);
        return AMB_EXIT_DATA;
    }
    return AMB_EXIT_OK;
}

/* The line as it will be. */
static enum amb_exit change(struct edit *edit, const char *new_credential)
{
    const struct wanted *wanted = edit->wanted;
    char why[AMB_USER_CHANGE_WHY_MAX];
    char before[AMB_USER_LINE_MAX + 1]; /* It is cut into its parts. */
    if (wanted->verb == VERB_RM) {
        return AMB_EXIT_OK;
    }
    memcpy(before, edit->file->text + edit->place.at, edit->place.len);
    before[edit->place.len] = '\0';
    if (!amb_user_change_apply(&wanted->change, wanted->name, new_credential,
                               wanted->verb == VERB_ADD ? NULL : before, edit->line, why)) {
        amb_tool_error("user: %s", why);
        return AMB_EXIT_DATA;
    }
    return AMB_EXIT_OK;
}

/* The whole text, judged as the broker will judge it. */
static enum amb_exit judge(const struct edit *edit, char **text, size_t *len)
{
    char why[AMB_USERS_TEXT_WHY_MAX];
    const struct amb_users_file *file = edit->file;
    struct amb_users_place ignored;
    *text = amb_users_text_put(file->text, file->len, &edit->place,
                               edit->wanted->verb == VERB_RM ? NULL : edit->line, len);
    if (*text == NULL) {
        return failed(AMB_ENOMEM, "no memory");
    }
    enum amb_status status = amb_users_text_find(*text, *len, file->path, NULL, &ignored, why);
    if (status != AMB_OK) {
        free(*text);
        return failed(status, why);
    }
    return AMB_EXIT_OK;
}

static enum amb_exit put(struct edit *edit, const char *new_credential)
{
    char why[AMB_USERS_TEXT_WHY_MAX], *text;
    size_t len;
    enum amb_exit code = change(edit, new_credential);
    code = code == AMB_EXIT_OK ? judge(edit, &text, &len) : code;
    if (code != AMB_EXIT_OK) {
        return code;
    }
    enum amb_status status = amb_users_file_replace(edit->file, text, len, why);
    free(text);
    return status == AMB_OK ? AMB_EXIT_OK : failed(status, why);
}

/* Nothing is made before all else is known to be good. A key that is made and cannot be entered
 * does not stay. */
static enum amb_exit put_with_key(struct edit *edit)
{
    char credential[AMB_CREDENTIAL_MAX + 1];
    const struct wanted *wanted = edit->wanted;
    enum amb_exit code = change(edit, NULL);
    code = code == AMB_EXIT_OK ? amb_ctl_key_check(&wanted->key) : code;
    code = code == AMB_EXIT_OK ? amb_ctl_key_make(&wanted->key, wanted->new_key, credential) : code;
    if (code != AMB_EXIT_OK) {
        return code;
    }
    code = put(edit, credential);
    if (code != AMB_EXIT_OK) {
        (void)unlink(wanted->new_key);
    }
    return code;
}

static void say_done(const struct edit *edit)
{
    static const char *const words[] = {"added to", "changed in", "removed from"};
    const struct wanted *wanted = edit->wanted;
    if (edit->ctl->is_json) {
        amb_ctl_print(edit->ctl, json_pack("[{s:s, s:s, s:s}]", "user", wanted->name, "done",
                                           verbs[wanted->verb], "file", edit->file->path));
        return;
    }
    (void)printf("%s is %s %s; the broker takes it with broker-ctl reload\n", wanted->name,
                 words[wanted->verb], edit->file->path);
}

static enum amb_exit edit_file(const struct amb_ctl *ctl, const struct wanted *wanted,
                               struct amb_users_file *file)
{
    struct edit edit = {.ctl = ctl, .wanted = wanted, .file = file};
    enum amb_exit code = find(&edit);
    if (code == AMB_EXIT_OK) {
        code = wanted->new_key != NULL ? put_with_key(&edit) : put(&edit, NULL);
    }
    if (code == AMB_EXIT_OK) {
        say_done(&edit);
    }
    return code;
}

/* ---- the command ---- */

static enum amb_exit run(const struct amb_ctl *ctl, const struct wanted *wanted)
{
    static const enum amb_users_file_how how[VERBS] = {AMB_USERS_FILE_MAKE, AMB_USERS_FILE_EDIT,
                                                       AMB_USERS_FILE_EDIT, AMB_USERS_FILE_READ,
                                                       AMB_USERS_FILE_READ};
    char why[AMB_USERS_TEXT_WHY_MAX], *path = NULL;
    struct amb_users_file file;
    enum amb_exit code = amb_users_path_find(wanted->file, wanted->config, &path);
    if (code != AMB_EXIT_OK) {
        return code;
    }
    enum amb_status status = amb_users_file_open(
        path, how[wanted->verb], ctl->timeout_ns >= 0 ? ctl->timeout_ns : LOCK_NS, &file, why);
    free(path);
    if (status != AMB_OK) {
        return failed(status, why);
    }
    code = wanted->verb < VERB_LIST ? edit_file(ctl, wanted, &file) : show(ctl, wanted, &file);
    amb_users_file_close(&file);
    return code;
}

/* Each text of an option that may be repeated. False: they are too many, which has been said. */
static bool take_all(const struct amb_cli_line *line, const char *name, struct amb_user_change *to,
                     bool (*add)(struct amb_user_change *, const char *))
{
    size_t at = 0;
    const char *text;
    while ((text = amb_cli_next(line, name, &at)) != NULL) {
        if (!add(to, text)) {
            return false;
        }
    }
    return true;
}

/* The parts that options change. */
static bool take_change(const struct amb_cli_line *line, struct amb_user_change *to)
{
    to->tenant = amb_cli_text(line, "tenant");
    to->quota = amb_cli_text(line, "quota");
    to->until = amb_cli_text(line, "until");
    for (size_t i = 0; i < line->given_count; i++) { /* The last of both holds. */
        const char *name = line->given[i].option->name;
        bool is_off = name != NULL && strcmp(name, "off") == 0;
        if (is_off || (name != NULL && strcmp(name, "on") == 0)) {
            to->has_off = true;
            to->is_off = is_off;
        }
    }
    return take_all(line, "role", to, amb_user_change_role) &&
           take_all(line, "credential", to, amb_user_change_add) &&
           take_all(line, "rm-credential", to, amb_user_change_remove);
}

/* Of add and set alone. */
static enum amb_exit take_edit(const struct amb_ctl *ctl, struct wanted *wanted)
{
    const struct amb_cli_line *line = ctl->line;
    if (!take_change(line, &wanted->change)) {
        return AMB_EXIT_USAGE;
    }
    wanted->new_key = amb_cli_text(line, "new-key");
    wanted->key = (struct amb_key_parts){
        .user = wanted->name, .ca = amb_cli_text(line, "ca"), .url = ctl->url};
    if (ctl->url != NULL && wanted->new_key == NULL) {
        amb_tool_error("%s --url: goes only with --new-key", line->called);
        return AMB_EXIT_USAGE;
    }
    if (wanted->verb == VERB_SET && amb_user_change_is_empty(&wanted->change) &&
        wanted->new_key == NULL) {
        amb_tool_error("%s: nothing to change", line->called);
        return AMB_EXIT_USAGE;
    }
    return AMB_EXIT_OK;
}

static enum amb_exit run_verb(const struct amb_ctl *ctl, enum verb verb)
{
    const struct amb_cli_line *line = ctl->line;
    struct wanted wanted = {
        .verb = verb,
        .name = line->arg_count > 0 ? line->args[0] : NULL,
        .file = amb_cli_text(line, "file"),
        .config = amb_cli_text(line, "config"),
    };
    bool is_edit = verb == VERB_ADD || verb == VERB_SET;
    enum amb_exit code = is_edit ? take_edit(ctl, &wanted) : AMB_EXIT_OK;
    return code == AMB_EXIT_OK ? run(ctl, &wanted) : code;
}

enum amb_exit amb_ctl_user_add(struct amb_ctl *ctl)
{
    return run_verb(ctl, VERB_ADD);
}

enum amb_exit amb_ctl_user_set(struct amb_ctl *ctl)
{
    return run_verb(ctl, VERB_SET);
}

enum amb_exit amb_ctl_user_rm(struct amb_ctl *ctl)
{
    return run_verb(ctl, VERB_RM);
}

enum amb_exit amb_ctl_user_list(struct amb_ctl *ctl)
{
    return run_verb(ctl, VERB_LIST);
}

enum amb_exit amb_ctl_user_show(struct amb_ctl *ctl)
{
    return run_verb(ctl, VERB_SHOW);
}
