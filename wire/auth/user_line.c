/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/auth/user_line.h"

#include "wire/base/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define SHOWN_MAX 64u
#define DAY_S INT64_C(86400)
#define NAME_LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_@"

enum {
    FIELD_NAME,
    FIELD_TENANT,
    FIELD_ROLES,
    FIELD_QUOTA,
    FIELD_FLAGS,
    FIELD_CREDENTIALS,
    FIELDS
};

/* Takes one item of a list. False: it is wrong, and `why` is filled. */
typedef bool (*take_fn)(struct amb_user_line *line, char *item, char *why);

static bool fail(char *why, const char *format, ...) __attribute__((format(printf, 2, 3)));

static bool fail(char *why, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    (void)vsnprintf(why, AMB_USER_LINE_WHY_MAX, format, args);
    va_end(args);
    return false;
}

bool amb_user_name_is(const char *name)
{
    size_t len = strnlen(name, AMB_USER_NAME_MAX + 1);
    return len >= 1 && len <= AMB_USER_NAME_MAX && strspn(name, NAME_LETTERS) == len &&
           strchr("-@0123456789", name[0]) == NULL;
}

static bool check_name(const char *field, const char *name, char *why)
{
    char shown[SHOWN_MAX];
    return amb_user_name_is(name) ||
           fail(why,
                "%s is no name (got \"%s\", allowed 1 to 64 letters, digits and -_@, a letter "
                "first)",
                field, amb_text_show(name, shown, sizeof(shown)));
}

/* ---- the items of lists ---- */

static bool take_role(struct amb_user_line *line, char *item, char *why)
{
    if (!check_name("the role", item, why)) {
        return false;
    }
    for (unsigned i = 0; i < line->role_count; i++) {
        if (strcmp(line->roles[i], item) == 0) {
            return fail(why, "the role %s is there twice", item);
        }
    }
    if (line->role_count == AMB_USER_ROLES_MAX) {
        return fail(why, "too many roles (allowed %u)", AMB_USER_ROLES_MAX);
    }
    line->roles[line->role_count++] = item;
    return true;
}

bool amb_user_day_parse(const char *text, int64_t *until_s)
{
    struct tm tm = {0};
    char again[SHOWN_MAX];
    const char *end = strptime(text, "%Y-%m-%d", &tm);
    if (strlen(text) != 10 || end == NULL || *end != '\0') {
        return false;
    }
    time_t day = timegm(&tm);
    /* The 31st of June would be another day. */
    if (gmtime_r(&day, &tm) == NULL || strftime(again, sizeof(again), "%Y-%m-%d", &tm) == 0 ||
        strcmp(again, text) != 0) {
        return false;
    }
    *until_s = (int64_t)day + DAY_S;
    return true;
}

static bool take_flag(struct amb_user_line *line, char *item, char *why)
{
    static const char until[] = "until=";
    char shown[SHOWN_MAX];
    if (strcmp(item, "off") == 0 && !line->is_off) {
        line->is_off = true;
        return true;
    }
    if (strncmp(item, until, sizeof(until) - 1) == 0 && line->until_s == AMB_USER_FOR_EVER) {
        return amb_user_day_parse(item + sizeof(until) - 1, &line->until_s) ||
               fail(why, "until is no day (got \"%s\", allowed until=2027-06-30)",
                    amb_text_show(item + sizeof(until) - 1, shown, sizeof(shown)));
    }
    return fail(why, "unknown flag, or one that is there twice (got \"%s\", allowed until=, off)",
                amb_text_show(item, shown, sizeof(shown)));
}

static bool take_credential(struct amb_user_line *line, char *item, char *why)
{
    char shown[SHOWN_MAX];
    enum amb_credential_kind kind;
    const char *problem = amb_credential_check(item, &kind);
    if (problem != NULL) {
        return fail(why, "credential \"%s\" %s", amb_text_show(item, shown, sizeof(shown)),
                    problem);
    }
    if (line->credential_count == AMB_USER_CREDENTIALS_MAX) {
        return fail(why, "too many credentials (allowed %u)", AMB_USER_CREDENTIALS_MAX);
    }
    line->credentials[line->credential_count++] = item;
    return true;
}

/* ---- the line ---- */

static bool take_list(struct amb_user_line *line, char *list, take_fn take, char *why)
{
    if (strcmp(list, "-") == 0) {
        return true;
    }
    char *item = list;
    while (item != NULL) {
        char *comma = strchr(item, ',');
        if (comma != NULL) {
            *comma = '\0';
        }
        if (!take(line, item, why)) {
            return false;
        }
        item = comma == NULL ? NULL : comma + 1;
    }
    return true;
}

static bool split(char *text, char *fields[FIELDS], char *why)
{
    static const char *const names[FIELDS] = {"name",  "tenant", "roles",
                                              "quota", "flags",  "credentials"};
    for (unsigned i = 0; i < FIELDS; i++) {
        fields[i] = text;
        if (i == FIELDS - 1) {
            return true; /* The rest: names of certificates have colons. */
        }
        char *colon = strchr(text, ':');
        if (colon == NULL) {
            return fail(why, "%s missing (allowed name:tenant:roles:quota:flags:credentials)",
                        names[i + 1]);
        }
        *colon = '\0';
        text = colon + 1;
    }
    return true;
}

static bool take_fields(struct amb_user_line *line, char *fields[FIELDS], char *why)
{
    line->name = fields[FIELD_NAME];
    line->tenant = fields[FIELD_TENANT];
    line->quota = strcmp(fields[FIELD_QUOTA], "-") == 0 ? NULL : fields[FIELD_QUOTA];
    if (!check_name("the user", line->name, why)) {
        return false;
    }
    if (strcmp(line->name, "tcp") == 0 || strcmp(line->name, "nobody") == 0) {
        return fail(why, "a user cannot have the name %s", line->name);
    }
    if (strcmp(line->tenant, AMB_USER_OPERATORS) != 0 &&
        !check_name("the tenant", line->tenant, why)) {
        return false;
    }
    return (line->quota == NULL || check_name("the quota", line->quota, why)) &&
           take_list(line, fields[FIELD_ROLES], take_role, why) &&
           take_list(line, fields[FIELD_FLAGS], take_flag, why) &&
           take_list(line, fields[FIELD_CREDENTIALS], take_credential, why);
}

enum amb_user_line_kind amb_user_line_parse(char *line, size_t len, struct amb_user_line *out,
                                            char why[AMB_USER_LINE_WHY_MAX])
{
    char *fields[FIELDS];
    *out = (struct amb_user_line){.until_s = AMB_USER_FOR_EVER};
    if (len > AMB_USER_LINE_MAX) {
        (void)fail(why, "is longer than %u bytes", AMB_USER_LINE_MAX);
        return AMB_USER_LINE_WRONG;
    }
    if (memchr(line, '\0', len) != NULL) {
        (void)fail(why, "has a NUL");
        return AMB_USER_LINE_WRONG;
    }
    if (line[0] == '#' || strspn(line, " \t\r") == len) {
        return AMB_USER_LINE_NOTHING;
    }
    /* Bytes beyond ASCII and blanks would make two names look alike. */
    if (!amb_text_is_visible(line, len)) {
        (void)fail(why, "has a blank, or a byte that does not print (allowed ASCII)");
        return AMB_USER_LINE_WRONG;
    }
    return split(line, fields, why) && take_fields(out, fields, why) ? AMB_USER_LINE_USER
                                                                     : AMB_USER_LINE_WRONG;
}

/* ---- the opposite ---- */

struct writing {
    char *out;
    size_t len;
    bool is_full;
};

static void put(struct writing *writing, const char *text)
{
    size_t len = strlen(text);
    if (writing->is_full || len > AMB_USER_LINE_MAX - writing->len) {
        writing->is_full = true;
        return;
    }
    memcpy(writing->out + writing->len, text, len + 1);
    writing->len += len;
}

static void put_list(struct writing *writing, const char *const *items, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        put(writing, i == 0 ? "" : ",");
        put(writing, items[i]);
    }
    put(writing, count == 0 ? "-" : "");
}

static void put_flags(struct writing *writing, const struct amb_user_line *line)
{
    const char *flags[2];
    unsigned count = 0;
    char until[SHOWN_MAX];
    if (line->until_s != AMB_USER_FOR_EVER) {
        time_t day = (time_t)(line->until_s - DAY_S);
        struct tm tm = {0};
        (void)gmtime_r(&day, &tm);
        (void)strftime(until, sizeof(until), "until=%Y-%m-%d", &tm);
        flags[count++] = until;
    }
    if (line->is_off) {
        flags[count++] = "off";
    }
    put_list(writing, flags, count);
}

void amb_user_flags_format(const struct amb_user_line *line, char *out)
{
    struct writing writing = {.out = out};
    put_flags(&writing, line);
}

void amb_user_list_format(const char *const *items, unsigned count, char *out)
{
    struct writing writing = {.out = out};
    put_list(&writing, items, count);
}

bool amb_user_line_format(const struct amb_user_line *line, char *out)
{
    struct writing writing = {.out = out};
    put(&writing, line->name);
    put(&writing, ":");
    put(&writing, line->tenant);
    put(&writing, ":");
    put_list(&writing, line->roles, line->role_count);
    put(&writing, ":");
    put(&writing, line->quota == NULL ? "-" : line->quota);
    put(&writing, ":");
    put_flags(&writing, line);
    put(&writing, ":");
    put_list(&writing, line->credentials, line->credential_count);
    return !writing.is_full;
}
