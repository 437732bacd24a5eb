/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/ctl/context.h"

#include "wire/auth/private_file.h"
#include "wire/base/text.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TEXT_MAX 16384u /* bytes of a file */
#define SHOWN_MAX 64u

bool amb_context_name_is(const char *name)
{
    static const char signs[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.";
    size_t len = strlen(name);
    return len > 0 && len <= AMB_CONTEXT_NAME_MAX && name[0] != '.' && strspn(name, signs) == len;
}

bool amb_context_folder(char *out)
{
    const char *config = secure_getenv("XDG_CONFIG_HOME"), *home = secure_getenv("HOME");
    int len = -1;
    if (config != NULL && config[0] == '/') {
        len = snprintf(out, AMB_CONTEXT_PATH_MAX, "%s/ambroker", config);
    } else if (home != NULL && home[0] == '/') {
        len = snprintf(out, AMB_CONTEXT_PATH_MAX, "%s/.config/ambroker", home);
    }
    return len > 0 && (size_t)len < AMB_CONTEXT_PATH_MAX - AMB_CONTEXT_NAME_MAX -
                                        sizeof("/" AMB_CONTEXT_SUFFIX);
}

/* The folder leaves room for any of its files. */
static bool path_in_folder(const char *file, const char *suffix, char *out)
{
    if (!amb_context_folder(out)) {
        return false;
    }
    size_t len = strlen(out);
    (void)snprintf(out + len, AMB_CONTEXT_PATH_MAX - len, "/%s%s", file, suffix);
    return true;
}

bool amb_context_path(const char *name, char *out)
{
    return path_in_folder(name, AMB_CONTEXT_SUFFIX, out);
}

bool amb_context_chosen_path(char *out)
{
    return path_in_folder("chosen", "", out);
}

/* ---- a file ---- */

static char *trim(char *text)
{
    text += strspn(text, " \t");
    size_t len = strlen(text);
    while (len > 0 && strchr(" \t\r", text[len - 1]) != NULL) {
        text[--len] = '\0';
    }
    return text;
}

/* NULL: it is set. */
static const char *set(struct amb_context *context, const char *key, const char *value)
{
    const struct {
        const char *key, **value;
    } all[] = {{"url", &context->url},
               {"credentials", &context->credentials},
               {"client-name", &context->client_name}};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        if (strcmp(key, all[i].key) == 0) {
            if (*all[i].value != NULL) {
                return "is there twice";
            }
            *all[i].value = value;
            return NULL;
        }
    }
    return "unknown key (url, credentials, client-name)";
}

/* One line, which is written to. NULL: it is good. */
static const char *take_line(struct amb_context *context, char *line, char *shown)
{
    line = trim(line);
    if (line[0] == '\0' || line[0] == '#') {
        return NULL;
    }
    char *equals = strchr(line, '=');
    if (equals == NULL) {
        return "has no '='";
    }
    *equals = '\0';
    const char *key = trim(line), *value = trim(equals + 1);
    if (value[0] == '\0') {
        return "has no value";
    }
    (void)amb_text_show(key, shown, SHOWN_MAX);
    return set(context, key, value);
}

bool amb_context_parse(char *text, const char *path, struct amb_context *out,
                       char why[AMB_CONTEXT_WHY_MAX])
{
    struct amb_context context = {.text = text};
    unsigned number = 0;
    for (char *line = text; line != NULL;) {
        char shown[SHOWN_MAX] = "";
        char *feed = strchr(line, '\n');
        if (feed != NULL) {
            *feed = '\0';
        }
        number++;
        const char *fault = take_line(&context, line, shown);
        if (fault != NULL) {
            (void)snprintf(why, AMB_CONTEXT_WHY_MAX, "%s:%u: %s%s%s", path, number, shown,
                           shown[0] != '\0' ? ": " : "", fault);
            free(text);
            return false;
        }
        line = feed != NULL ? feed + 1 : NULL;
    }
    if (context.url == NULL) {
        (void)snprintf(why, AMB_CONTEXT_WHY_MAX, "%s: has no url", path);
        free(text);
        return false;
    }
    *out = context;
    return true;
}

bool amb_context_read(const char *name, struct amb_context *out, char why[AMB_CONTEXT_WHY_MAX])
{
    char path[AMB_CONTEXT_PATH_MAX], reason[AMB_PRIVATE_WHY_MAX];
    struct amb_private_file file;
    if (!amb_context_name_is(name) || !amb_context_path(name, path)) {
        char shown[SHOWN_MAX];
        (void)snprintf(why, AMB_CONTEXT_WHY_MAX, "'%s' is no name of a context",
                       amb_text_show(name, shown, sizeof(shown)));
        return false;
    }
    if (amb_private_file_read(path, TEXT_MAX, &file, reason) != AMB_OK) {
        (void)snprintf(why, AMB_CONTEXT_WHY_MAX, "%s", reason);
        return false;
    }
    if (strlen(file.text) != file.len) {
        (void)snprintf(why, AMB_CONTEXT_WHY_MAX, "%s:1: has a NUL byte", path);
        amb_private_file_free(&file);
        return false;
    }
    return amb_context_parse(file.text, path, out, why);
}

void amb_context_fini(struct amb_context *context)
{
    free(context->text);
    *context = (struct amb_context){.text = NULL};
}

bool amb_context_chosen(char *out, char why[AMB_CONTEXT_WHY_MAX])
{
    char path[AMB_CONTEXT_PATH_MAX], reason[AMB_PRIVATE_WHY_MAX];
    struct amb_private_file file;
    out[0] = '\0';
    if (!amb_context_chosen_path(path)) {
        return true;
    }
    if (access(path, F_OK) != 0 && (errno == ENOENT || errno == ENOTDIR || errno == EACCES)) {
        return true; /* EACCES here is the folder's; a file that cannot be read is refused. */
    }
    if (amb_private_file_read(path, AMB_CONTEXT_NAME_MAX + 1, &file, reason) != AMB_OK) {
        (void)snprintf(why, AMB_CONTEXT_WHY_MAX, "%s", reason);
        return false;
    }
    (void)snprintf(out, AMB_CONTEXT_NAME_MAX + 1, "%s", trim(file.text));
    out[strcspn(out, "\n")] = '\0';
    amb_private_file_free(&file);
    if (!amb_context_name_is(out)) {
        (void)snprintf(why, AMB_CONTEXT_WHY_MAX, "%s:1: is no name of a context", path);
        return false;
    }
    return true;
}
