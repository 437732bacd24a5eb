/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/auth/users_text.h"

#include "wire/base/hash.h"
#include "wire/base/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SHOWN_MAX 160u /* bytes of a path in a reason */

typedef bool (*each_fn)(const struct amb_user_line *line, const struct amb_users_place *place,
                        void *arg);

struct reading {
    const char *path;
    struct amb_users_place place;
    struct amb_map *names, *credentials; /* to the number of their line */
    each_fn fn;
    void *arg;
    char *why;
};

static enum amb_status fail(const struct reading *reading, enum amb_status status,
                            const char *format, ...) __attribute__((format(printf, 3, 4)));

static enum amb_status fail(const struct reading *reading, enum amb_status status,
                            const char *format, ...)
{
    char shown[SHOWN_MAX];
    int len = snprintf(reading->why, AMB_USERS_TEXT_WHY_MAX,
                       "%s:%u: ", amb_text_show(reading->path, shown, sizeof(shown)),
                       reading->place.number);
    va_list args;
    va_start(args, format);
    (void)vsnprintf(reading->why + len, AMB_USERS_TEXT_WHY_MAX - (size_t)len, format, args);
    va_end(args);
    return status;
}

/* There once in the file. */
static enum amb_status note(const struct reading *reading, struct amb_map *map, const char *what,
                            const char *text)
{
    uintptr_t number = reading->place.number;
    enum amb_status status = amb_map_put(map, text, strlen(text), (void *)number);
    if (status == AMB_ESTATE) {
        number = (uintptr_t)amb_map_get(map, text, strlen(text));
        return fail(reading, AMB_EINVAL,
                    "the %s %.64s is there twice (the other one is in line %u)", what, text,
                    (unsigned)number);
    }
    return status == AMB_OK ? AMB_OK : fail(reading, AMB_ENOMEM, "no memory");
}

static enum amb_status note_user(const struct reading *reading, const struct amb_user_line *line)
{
    enum amb_status status = note(reading, reading->names, "user", line->name);
    for (unsigned i = 0; status == AMB_OK && i < line->credential_count; i++) {
        status = note(reading, reading->credentials, "credential", line->credentials[i]);
    }
    return status;
}

/* copy: of the text, which is written to. */
static enum amb_status read_lines(struct reading *reading, char *copy, size_t len)
{
    bool goes_on = true;
    for (size_t at = 0; at < len;) {
        char why[AMB_USER_LINE_WHY_MAX];
        struct amb_user_line line;
        char *end = memchr(copy + at, '\n', len - at);
        size_t line_len = end == NULL ? len - at : (size_t)(end - (copy + at));
        copy[at + line_len] = '\0';
        reading->place.number++;
        reading->place.at = at;
        reading->place.len = line_len;
        enum amb_status status = AMB_OK;
        switch (amb_user_line_parse(copy + at, line_len, &line, why)) {
        case AMB_USER_LINE_WRONG:
            return fail(reading, AMB_EINVAL, "%s", why);
        case AMB_USER_LINE_USER:
            status = note_user(reading, &line);
            break;
        case AMB_USER_LINE_NOTHING:
            at += line_len + 1;
            continue;
        }
        if (status != AMB_OK) {
            return status;
        }
        goes_on = goes_on && reading->fn(&line, &reading->place, reading->arg);
        at += line_len + 1;
    }
    return AMB_OK;
}

enum amb_status amb_users_text_each(const char *text, size_t len, const char *path, each_fn fn,
                                    void *arg, char why[AMB_USERS_TEXT_WHY_MAX])
{
    struct reading reading = {.path = path, .fn = fn, .arg = arg, .why = why};
    char *copy = malloc(len + 1);
    enum amb_status status = AMB_ENOMEM;
    if (copy != NULL && amb_map_create(&reading.names) == AMB_OK &&
        amb_map_create(&reading.credentials) == AMB_OK) {
        memcpy(copy, text, len);
        copy[len] = '\0';
        status = read_lines(&reading, copy, len);
    } else {
        (void)fail(&reading, AMB_ENOMEM, "no memory");
    }
    free(copy);
    if (reading.names != NULL) {
        amb_map_destroy(&reading.names);
    }
    if (reading.credentials != NULL) {
        amb_map_destroy(&reading.credentials);
    }
    return status;
}

struct search {
    const char *name;
    struct amb_users_place found;
};

static bool look_at(const struct amb_user_line *line, const struct amb_users_place *place,
                    void *arg)
{
    struct search *search = arg;
    if (search->name != NULL && strcmp(line->name, search->name) == 0) {
        search->found = *place;
    }
    return true;
}

enum amb_status amb_users_text_find(const char *text, size_t len, const char *path,
                                    const char *name, struct amb_users_place *out,
                                    char why[AMB_USERS_TEXT_WHY_MAX])
{
    struct search search = {.name = name};
    enum amb_status status = amb_users_text_each(text, len, path, look_at, &search, why);
    if (status == AMB_OK) {
        *out = search.found;
    }
    return status;
}

/* Its end, too: "\n", or "\r\n" which is a line's own. */
static size_t behind(const char *text, size_t len, const struct amb_users_place *place)
{
    size_t at = place->at + place->len;
    return at < len && text[at] == '\n' ? at + 1 : at;
}

char *amb_users_text_put(const char *text, size_t len, const struct amb_users_place *place,
                         const char *line, size_t *out_len)
{
    bool is_new = place->number == 0;
    size_t line_len = line == NULL ? 0 : strlen(line);
    /* A last line without its end gets one before another one follows. */
    bool is_open = is_new && len > 0 && text[len - 1] != '\n';
    size_t head = is_new ? len : place->at;
    size_t tail = is_new ? len : line == NULL ? behind(text, len, place) : place->at + place->len;
    char *out = malloc(len + line_len + 3);
    if (out == NULL) {
        return NULL;
    }
    size_t at = head;
    memcpy(out, text, head);
    if (is_open) {
        out[at++] = '\n';
    }
    if (line_len > 0) {
        memcpy(out + at, line, line_len);
        at += line_len;
    }
    if (is_new && line != NULL) {
        out[at++] = '\n';
    }
    memcpy(out + at, text + tail, len - tail);
    at += len - tail;
    out[at] = '\0';
    *out_len = at;
    return out;
}
