/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/ctl/contexts.h"

#include "tools/ctl/connect.h"
#include "wire/auth/private_file.h"
#include "wire/base/temp_file.h"
#include "wire/codec/url.h"

#include <dirent.h>
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define TEXT_MAX 4096u

static enum amb_exit failed(const struct amb_ctl *ctl, const char *why)
{
    amb_tool_error("%s: %s", ctl->line->called, why);
    return AMB_EXIT_USAGE;
}

/* ---- the one that holds ---- */

/* Its name; empty: none. False: the file of the chosen one is wrong. */
static bool find_name(const struct amb_ctl *ctl, char *out, char why[AMB_CONTEXT_WHY_MAX])
{
    const char *given = amb_cli_text(ctl->line, "context");
    out[0] = '\0';
    if (ctl->url != NULL || (given == NULL && amb_ctl_variable("AMB_URL") != NULL)) {
        return true;
    }
    given = given != NULL ? given : amb_ctl_variable("AMB_CONTEXT");
    if (given != NULL) {
        (void)snprintf(out, AMB_CONTEXT_NAME_MAX + 2, "%s", given); /* One more is too long. */
        return true;
    }
    return amb_context_chosen(out, why);
}

enum amb_exit amb_ctl_use_context(struct amb_ctl *ctl)
{
    char name[AMB_CONTEXT_NAME_MAX + 2], why[AMB_CONTEXT_WHY_MAX];
    if (!find_name(ctl, name, why)) {
        return failed(ctl, why);
    }
    if (name[0] == '\0') {
        return AMB_EXIT_OK;
    }
    if (!amb_context_read(name, &ctl->context, why)) {
        return failed(ctl, why);
    }
    const struct amb_context *context = &ctl->context;
    ctl->url = context->url;
    ctl->credentials = ctl->credentials != NULL ? ctl->credentials : context->credentials;
    ctl->client_name = ctl->client_name != NULL ? ctl->client_name : context->client_name;
    return AMB_EXIT_OK;
}

/* ---- all of them ---- */

/* The names in the folder, in order; a new reference. */
static json_t *all_names(void)
{
    char folder[AMB_CONTEXT_PATH_MAX];
    struct dirent **entries = NULL;
    json_t *names = json_array();
    int count = amb_context_folder(folder) ? scandir(folder, &entries, NULL, alphasort) : -1;
    for (int i = 0; i < count; i++) {
        char *name = entries[i]->d_name;
        size_t len = strlen(name), end = strlen(AMB_CONTEXT_SUFFIX);
        if (len > end && strcmp(name + len - end, AMB_CONTEXT_SUFFIX) == 0) {
            name[len - end] = '\0';
            if (amb_context_name_is(name)) {
                (void)json_array_append_new(names, json_string(name));
            }
        }
        free(entries[i]);
    }
    free(entries);
    return names;
}

void amb_ctl_context_names(struct amb_cli_candidates *to)
{
    json_t *names = all_names(), *name;
    size_t i;
    json_array_foreach(names, i, name)
    {
        amb_cli_candidate(to, json_string_value(name), "");
    }
    json_decref(names);
}

/* A row; a file that is wrong has its fault. */
static json_t *row_of(const char *name, const char *chosen)
{
    char why[AMB_CONTEXT_WHY_MAX];
    struct amb_context context;
    bool is_good = amb_context_read(name, &context, why);
    json_t *row = json_pack("{s:s, s:b}", "context", name, "chosen", strcmp(name, chosen) == 0);
    if (!is_good) {
        (void)json_object_set_new(row, "fault", json_string(why));
        return row;
    }
    const struct {
        const char *key, *value;
    } all[] = {{"url", context.url},
               {"credentials", context.credentials},
               {"client_name", context.client_name}};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        if (all[i].value != NULL) {
            (void)json_object_set_new(row, all[i].key, json_string(all[i].value));
        }
    }
    amb_context_fini(&context);
    return row;
}

enum amb_exit amb_ctl_context_ls(struct amb_ctl *ctl)
{
    char chosen[AMB_CONTEXT_NAME_MAX + 1], why[AMB_CONTEXT_WHY_MAX];
    if (!amb_context_chosen(chosen, why)) {
        return failed(ctl, why);
    }
    json_t *names = all_names(), *rows = json_array(), *name;
    size_t i;
    json_array_foreach(names, i, name)
    {
        (void)json_array_append_new(rows, row_of(json_string_value(name), chosen));
    }
    json_decref(names);
    amb_ctl_print(ctl, json_pack("{s:o}", "contexts", rows));
    return AMB_EXIT_OK;
}

enum amb_exit amb_ctl_context_show(struct amb_ctl *ctl)
{
    char chosen[AMB_CONTEXT_NAME_MAX + 1], why[AMB_CONTEXT_WHY_MAX];
    struct amb_context context;
    if (!amb_context_chosen(chosen, why)) {
        return failed(ctl, why);
    }
    const char *name = ctl->line->arg_count > 0 ? ctl->line->args[0] : chosen;
    if (name[0] == '\0') {
        return failed(ctl, "none is chosen");
    }
    if (!amb_context_read(name, &context, why)) {
        return failed(ctl, why);
    }
    amb_context_fini(&context);
    amb_ctl_print(ctl, row_of(name, chosen));
    return AMB_EXIT_OK;
}

/* ---- changes ---- */

/* The path of a context's file; false: it has been said. */
static bool path_of(const struct amb_ctl *ctl, const char *name, char *path)
{
    if (!amb_context_name_is(name)) {
        amb_tool_error("%s %.80s: is no name: letters, digits, '.', '-', '_'", ctl->line->called,
                       name);
        return false;
    }
    if (!amb_context_path(name, path)) {
        (void)failed(ctl, "there is neither $XDG_CONFIG_HOME nor $HOME");
        return false;
    }
    return true;
}

/* The folder, and the one above it: only its owner may look into it. */
static bool make_folder(const struct amb_ctl *ctl)
{
    char folder[AMB_CONTEXT_PATH_MAX];
    if (!amb_context_folder(folder)) {
        return false;
    }
    char *slash = strrchr(folder, '/');
    *slash = '\0';
    (void)mkdir(folder, 0700);
    *slash = '/';
    if (mkdir(folder, 0700) != 0 && errno != EEXIST) {
        amb_tool_error("%s: %s: %s", ctl->line->called, folder, strerror(errno));
        return false;
    }
    return true;
}

/* A relative path, made absolute; an absolute one and NULL stay as they are. */
static const char *whole_path(const char *path, char *out, size_t size)
{
    if (path == NULL || path[0] == '/' || getcwd(out, size) == NULL) {
        return path;
    }
    path += strncmp(path, "./", 2) == 0 ? 2 : 0;
    size_t len = strlen(out);
    (void)snprintf(out + len, size - len, "/%s", path);
    return out;
}

/* Is it what a line of the file gives back? */
static bool is_kept(const char *value)
{
    size_t len = strlen(value);
    return len > 0 && strpbrk(value, "\n\r") == NULL && strchr(" \t", value[0]) == NULL &&
           strchr(" \t", value[len - 1]) == NULL;
}

enum amb_exit amb_ctl_context_add(struct amb_ctl *ctl)
{
    char path[AMB_CONTEXT_PATH_MAX], text[TEXT_MAX], why[AMB_PRIVATE_WHY_MAX] = "";
    char credentials[TEXT_MAX]; /* Cut, it is still too long for a text. */
    struct amb_url url;
    const char *name = ctl->line->args[0];
    if (ctl->url == NULL) {
        amb_tool_error("%s --url: is needed", ctl->line->called);
        return AMB_EXIT_USAGE;
    }
    if (strchr(ctl->url, ',') == NULL &&
        amb_url_parse(ctl->url, &url, why, sizeof(why)) != AMB_OK) {
        return failed(ctl, why);
    }
    if (!path_of(ctl, name, path) || !make_folder(ctl)) {
        return AMB_EXIT_USAGE;
    }
    const struct {
        const char *key, *value;
    } all[] = {{"url", ctl->url},
               {"credentials", whole_path(ctl->credentials, credentials, sizeof(credentials))},
               {"client-name", ctl->client_name}};
    size_t len = 0;
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        if (all[i].value != NULL && !is_kept(all[i].value)) {
            amb_tool_error("%s --%s: is empty, or has a line feed, or a blank at an end",
                           ctl->line->called, all[i].key);
            return AMB_EXIT_USAGE;
        }
        if (all[i].value != NULL && len < sizeof(text)) {
            len += (size_t)snprintf(text + len, sizeof(text) - len, "%s = %s\n", all[i].key,
                                    all[i].value);
        }
    }
    if (len >= sizeof(text)) {
        return failed(ctl, "the values are too long");
    }
    if (amb_private_file_create(path, text, why) != AMB_OK) {
        (void)failed(ctl, why);
        return AMB_EXIT_DATA;
    }
    return AMB_EXIT_OK;
}

/* Replaces the file of the chosen one's name as a whole. */
static enum amb_exit choose(const struct amb_ctl *ctl, const char *name)
{
    char path[AMB_CONTEXT_PATH_MAX];
    const struct amb_temp_file_end end = {.former = NULL};
    if (!amb_context_chosen_path(path)) {
        return AMB_EXIT_USAGE;
    }
    if (!amb_temp_file_replace(path, name, strlen(name), 0600, &end)) {
        amb_tool_error("%s: %s: %s", ctl->line->called, path, strerror(errno));
        return AMB_EXIT_SOFTWARE;
    }
    return AMB_EXIT_OK;
}

enum amb_exit amb_ctl_context_use(struct amb_ctl *ctl)
{
    char why[AMB_CONTEXT_WHY_MAX];
    struct amb_context context;
    const char *name = ctl->line->args[0];
    if (!amb_context_read(name, &context, why)) {
        return failed(ctl, why);
    }
    amb_context_fini(&context);
    return choose(ctl, name);
}

enum amb_exit amb_ctl_context_rm(struct amb_ctl *ctl)
{
    char path[AMB_CONTEXT_PATH_MAX], chosen[AMB_CONTEXT_NAME_MAX + 1], why[AMB_CONTEXT_WHY_MAX];
    const char *name = ctl->line->args[0];
    if (!path_of(ctl, name, path)) {
        return AMB_EXIT_USAGE;
    }
    if (unlink(path) != 0) {
        amb_tool_error("%s: %s: %s", ctl->line->called, path, strerror(errno));
        return AMB_EXIT_USAGE;
    }
    if (amb_context_chosen(chosen, why) && strcmp(chosen, name) == 0 &&
        amb_context_chosen_path(path)) {
        (void)unlink(path);
    }
    return AMB_EXIT_OK;
}
