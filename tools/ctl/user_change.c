/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/ctl/user_change.h"

#include "tools/common/exit.h"
#include "wire/base/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define SHOWN_MAX 64u

static bool fail(char *why, const char *format, ...) __attribute__((format(printf, 2, 3)));

static bool fail(char *why, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    (void)vsnprintf(why, AMB_USER_CHANGE_WHY_MAX, format, args);
    va_end(args);
    return false;
}

/* ---- options ---- */

static bool append(const char **items, unsigned *count, unsigned max, const char *option,
                   const char *value)
{
    if (*count == max) {
        amb_tool_error("user: more than %u times %s", max, option);
        return false;
    }
    items[(*count)++] = value;
    return true;
}

bool amb_user_change_role(struct amb_user_change *change, const char *role)
{
    return append(change->roles, &change->role_count, AMB_USER_ROLES_MAX, "--role", role);
}

bool amb_user_change_add(struct amb_user_change *change, const char *credential)
{
    return append(change->added, &change->added_count, AMB_USER_CREDENTIALS_MAX, "--credential",
                  credential);
}

bool amb_user_change_remove(struct amb_user_change *change, const char *credential)
{
    return append(change->removed, &change->removed_count, AMB_USER_CREDENTIALS_MAX,
                  "--rm-credential", credential);
}

bool amb_user_change_is_empty(const struct amb_user_change *change)
{
    return change->tenant == NULL && change->quota == NULL && change->until == NULL &&
           change->role_count == 0 && change->added_count == 0 && change->removed_count == 0 &&
           !change->has_off;
}

/* ---- the line ---- */

static bool change_until(const char *until, int64_t *out, char *why)
{
    char shown[SHOWN_MAX];
    if (strcmp(until, "never") == 0) {
        *out = AMB_USER_FOR_EVER;
        return true;
    }
    return amb_user_day_parse(until, out) ||
           fail(why, "--until \"%s\" is no day (allowed 2027-06-30, or never)",
                amb_text_show(until, shown, sizeof(shown)));
}

static void change_roles(const struct amb_user_change *change, struct amb_user_line *line)
{
    bool is_none = change->role_count == 1 && strcmp(change->roles[0], "-") == 0;
    line->role_count = is_none ? 0 : change->role_count;
    for (unsigned i = 0; i < line->role_count; i++) {
        line->roles[i] = change->roles[i];
    }
}

static bool take_away(struct amb_user_line *line, const char *credential, char *why)
{
    char shown[SHOWN_MAX];
    for (unsigned i = 0; i < line->credential_count; i++) {
        if (strcmp(line->credentials[i], credential) == 0) {
            line->credential_count--;
            memmove(&line->credentials[i], &line->credentials[i + 1],
                    (line->credential_count - i) * sizeof(line->credentials[0]));
            return true;
        }
    }
    return fail(why, "%s has no credential \"%s\"", line->name,
                amb_text_show(credential, shown, sizeof(shown)));
}

static bool give(struct amb_user_line *line, const char *credential, char *why)
{
    enum amb_credential_kind kind;
    char shown[SHOWN_MAX];
    const char *fault = amb_credential_check(credential, &kind);
    if (fault != NULL) {
        return fail(why, "credential \"%s\" %s", amb_text_show(credential, shown, sizeof(shown)),
                    fault);
    }
    if (line->credential_count == AMB_USER_CREDENTIALS_MAX) {
        return fail(why, "%s has %u credentials, and may not have more", line->name,
                    AMB_USER_CREDENTIALS_MAX);
    }
    line->credentials[line->credential_count++] = credential;
    return true;
}

static bool change_credentials(const struct amb_user_change *change, struct amb_user_line *line,
                               const char *credential, char *why)
{
    for (unsigned i = 0; i < change->removed_count; i++) {
        if (!take_away(line, change->removed[i], why)) {
            return false;
        }
    }
    for (unsigned i = 0; i < change->added_count; i++) {
        if (!give(line, change->added[i], why)) {
            return false;
        }
    }
    return credential == NULL || give(line, credential, why);
}

/* A comma or a colon in an option would make other fields. A name in a certificate may have a
 * colon. */
static bool has_separators(const struct amb_user_line *line)
{
    bool has = strpbrk(line->name, ":,") != NULL || strpbrk(line->tenant, ":,") != NULL ||
               (line->quota != NULL && strpbrk(line->quota, ":,") != NULL);
    for (unsigned i = 0; i < line->role_count; i++) {
        has = has || strpbrk(line->roles[i], ":,") != NULL;
    }
    for (unsigned i = 0; i < line->credential_count; i++) {
        has = has || strchr(line->credentials[i], ',') != NULL;
    }
    return has;
}

/* The line is one, by all its rules? */
static bool read_again(const char *text, char *why)
{
    char copy[AMB_USER_LINE_MAX + 1], reason[AMB_USER_LINE_WHY_MAX];
    struct amb_user_line line;
    (void)snprintf(copy, sizeof(copy), "%s", text);
    enum amb_user_line_kind kind = amb_user_line_parse(copy, strlen(copy), &line, reason);
    if (kind == AMB_USER_LINE_WRONG) {
        return fail(why, "%s", reason);
    }
    return kind == AMB_USER_LINE_USER || fail(why, "it would be a comment");
}

bool amb_user_change_apply(const struct amb_user_change *change, const char *name,
                           const char *credential, char *before, char *out,
                           char why[AMB_USER_CHANGE_WHY_MAX])
{
    struct amb_user_line line = {
        .name = name, .tenant = AMB_USER_CHANGE_TENANT, .until_s = AMB_USER_FOR_EVER};
    if (before != NULL &&
        amb_user_line_parse(before, strlen(before), &line, why) != AMB_USER_LINE_USER) {
        return false;
    }
    line.tenant = change->tenant != NULL ? change->tenant : line.tenant;
    if (change->quota != NULL) {
        line.quota = strcmp(change->quota, "-") == 0 ? NULL : change->quota;
    }
    if (change->until != NULL && !change_until(change->until, &line.until_s, why)) {
        return false;
    }
    if (change->role_count > 0) {
        change_roles(change, &line);
    }
    line.is_off = change->has_off ? change->is_off : line.is_off;
    if (!change_credentials(change, &line, credential, why)) {
        return false;
    }
    if (has_separators(&line)) {
        return fail(why, "a name, a role or a credential has a ':' or a ','");
    }
    if (!amb_user_line_format(&line, out)) {
        return fail(why, "the line of %.64s would be longer than %u bytes", name,
                    AMB_USER_LINE_MAX);
    }
    return read_again(out, why);
}

/* ---- for people ---- */

void amb_user_change_kinds(const struct amb_user_line *line, char *out)
{
    const char *shown[AMB_USER_CREDENTIALS_MAX];
    for (unsigned i = 0; i < line->credential_count; i++) {
        enum amb_credential_kind kind = AMB_CREDENTIAL_UID;
        (void)amb_credential_check(line->credentials[i], &kind);
        bool is_secretive = kind == AMB_CREDENTIAL_KEY || kind == AMB_CREDENTIAL_TOKEN;
        shown[i] = is_secretive ? amb_credential_kind_name(kind) : line->credentials[i];
    }
    amb_user_list_format(shown, line->credential_count, out);
}
