/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/auth/users.h"

#include "wire/auth/private_file.h"
#include "wire/base/array.h"
#include "wire/base/hash.h"
#include "wire/base/text.h"

#include <openssl/evp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_ROOM 16u
#define SHOWN_MAX 160u /* bytes of a path in a reason */

struct amb_auth_users {
    _Atomic uint32_t refs;
    struct amb_auth_user **users; /* each of one block, with its texts */
    uint32_t count, room;
    struct amb_map *by_name, *by_credential;
    struct amb_auth_numbers *numbers;
    struct amb_auth_user local_admin;
    uint8_t digest[AMB_AUTH_DIGEST_SIZE]; /* of the file's bytes */
    int64_t modified_ns;
};

/* A set in the making. */
struct reading {
    struct amb_auth_users *users;
    const char *path;
    unsigned line;
    char *why;
    size_t why_size;
};

static enum amb_status fail(const struct reading *reading, enum amb_status status,
                            const char *format, ...) __attribute__((format(printf, 3, 4)));

static enum amb_status fail(const struct reading *reading, enum amb_status status,
                            const char *format, ...)
{
    char shown[SHOWN_MAX];
    int len =
        snprintf(reading->why, reading->why_size,
                 "%s:%u: ", amb_text_show(reading->path, shown, sizeof(shown)), reading->line);
    size_t used = len < 0 ? 0 : (size_t)len;
    if (used < reading->why_size) {
        va_list args;
        va_start(args, format);
        (void)vsnprintf(reading->why + used, reading->why_size - used, format, args);
        va_end(args);
    }
    return status;
}

static enum amb_status no_memory(const struct reading *reading)
{
    return fail(reading, AMB_ENOMEM, "no memory");
}

/* ---- a user ---- */

static const char *copy_text(char **room, const char *text)
{
    size_t len = strlen(text) + 1;
    char *copy = *room;
    memcpy(copy, text, len);
    *room += len;
    return copy;
}

/* One block: the user, the pointers of its lists, and all texts. The latter fit the line's bytes,
 * with a NUL in place of each separator and one at the end. */
static struct amb_auth_user *make_user(const struct amb_user_line *line, size_t line_len)
{
    size_t lists = (line->role_count + line->credential_count) * sizeof(char *);
    struct amb_auth_user *user = malloc(sizeof(*user) + lists + line_len + 1);
    if (user == NULL) {
        return NULL;
    }
    const char **list = (const char **)(void *)(user + 1);
    char *room = (char *)(user + 1) + lists;
    *user = (struct amb_auth_user){
        .name = copy_text(&room, line->name),
        .tenant = copy_text(&room, line->tenant),
        .quota = line->quota == NULL ? NULL : copy_text(&room, line->quota),
        .roles = list,
        .role_count = line->role_count,
        .credentials = list + line->role_count,
        .credential_count = line->credential_count,
        .until_s = line->until_s,
        .is_off = line->is_off,
    };
    for (unsigned i = 0; i < line->role_count; i++) {
        *list++ = copy_text(&room, line->roles[i]);
    }
    for (unsigned i = 0; i < line->credential_count; i++) {
        *list++ = copy_text(&room, line->credentials[i]);
    }
    return user;
}

static bool make_room(struct amb_auth_users *users)
{
    void *reached = amb_array_reach(users->users, users->count, &users->room, FIRST_ROOM,
                                    sizeof(*users->users));
    users->users = reached != NULL ? reached : users->users;
    return reached != NULL;
}

/* The user has a place in the set already, so that the set frees it. */
static enum amb_status index_user(const struct reading *reading, struct amb_auth_user *user)
{
    struct amb_auth_users *users = reading->users;
    enum amb_status status =
        amb_auth_numbers_take(users->numbers, user->tenant, user->name, &user->number);
    if (status != AMB_OK) {
        return status == AMB_ELIMIT ? fail(reading, AMB_EINVAL,
                                           "too many users since the broker was started "
                                           "(allowed 262,144)")
                                    : no_memory(reading);
    }
    status = amb_map_put(users->by_name, user->name, strlen(user->name), user);
    if (status == AMB_ESTATE) {
        const struct amb_auth_user *other = amb_auth_users_find(users, user->name);
        return fail(reading, AMB_EINVAL, "the user %s is there twice (the other one is in line %u)",
                    user->name, other->line);
    }
    for (unsigned i = 0; status == AMB_OK && i < user->credential_count; i++) {
        const char *credential = user->credentials[i];
        status = amb_map_put(users->by_credential, credential, strlen(credential), user);
        if (status == AMB_ESTATE) {
            const struct amb_auth_user *other = amb_auth_users_by_credential(users, credential);
            return fail(reading, AMB_EINVAL,
                        "the credential %.64s is there twice (the other one is in line %u)",
                        credential, other->line);
        }
    }
    return status == AMB_OK ? AMB_OK : no_memory(reading);
}

static enum amb_status add_user(const struct reading *reading, const struct amb_user_line *line,
                                size_t line_len)
{
    struct amb_auth_users *users = reading->users;
    if (users->count == AMB_AUTH_USERS_MAX) {
        return fail(reading, AMB_EINVAL, "too many users (allowed %u)", AMB_AUTH_USERS_MAX);
    }
    struct amb_auth_user *user = make_room(users) ? make_user(line, line_len) : NULL;
    if (user == NULL) {
        return no_memory(reading);
    }
    user->line = reading->line;
    users->users[users->count++] = user;
    return index_user(reading, user);
}

/* ---- the file ---- */

static enum amb_status read_lines(struct reading *reading, char *text, size_t len)
{
    for (size_t at = 0; at < len;) {
        char why[AMB_USER_LINE_WHY_MAX];
        struct amb_user_line line;
        char *end = memchr(text + at, '\n', len - at);
        size_t line_len = end == NULL ? len - at : (size_t)(end - (text + at));
        text[at + line_len] = '\0';
        reading->line++;
        enum amb_user_line_kind kind = amb_user_line_parse(text + at, line_len, &line, why);
        enum amb_status status = AMB_OK;
        if (kind == AMB_USER_LINE_WRONG) {
            status = fail(reading, AMB_EINVAL, "%s", why);
        } else if (kind == AMB_USER_LINE_USER) {
            status = add_user(reading, &line, line_len);
        }
        if (status != AMB_OK) {
            return status;
        }
        at += line_len + 1;
    }
    return AMB_OK;
}

static struct amb_auth_users *make_set(struct amb_auth_numbers *numbers)
{
    struct amb_auth_users *users = calloc(1, sizeof(*users));
    if (users == NULL) {
        return NULL;
    }
    atomic_init(&users->refs, 1);
    users->local_admin = (struct amb_auth_user){.name = "admin",
                                                .tenant = AMB_USER_OPERATORS,
                                                .until_s = AMB_USER_FOR_EVER,
                                                .is_local_admin = true};
    enum amb_status status = AMB_OK;
    if (numbers != NULL) {
        users->numbers = amb_auth_numbers_ref(numbers);
    } else {
        status = amb_auth_numbers_create(&users->numbers);
    }
    if (status != AMB_OK || amb_map_create(&users->by_name) != AMB_OK ||
        amb_map_create(&users->by_credential) != AMB_OK) {
        amb_auth_users_unref(&users);
    }
    return users;
}

enum amb_status amb_auth_users_parse(char *text, size_t len, const char *path,
                                     struct amb_auth_numbers *numbers, char *why, size_t why_size,
                                     struct amb_auth_users **out)
{
    struct reading reading = {.path = path, .why = why, .why_size = why_size};
    reading.users = make_set(numbers);
    if (reading.users == NULL ||
        EVP_Digest(text, len, reading.users->digest, NULL, EVP_sha256(), NULL) != 1) {
        amb_auth_users_unref(&reading.users);
        return no_memory(&reading);
    }
    enum amb_status status = read_lines(&reading, text, len);
    if (status != AMB_OK) {
        amb_auth_users_unref(&reading.users);
        return status;
    }
    *out = reading.users;
    return AMB_OK;
}

enum amb_status amb_auth_users_load(const char *path, struct amb_auth_numbers *numbers, char *why,
                                    size_t why_size, struct amb_auth_users **out)
{
    struct amb_private_file file;
    char reason[AMB_PRIVATE_WHY_MAX];
    enum amb_status status = amb_private_file_read(path, AMB_AUTH_FILE_MAX, &file, reason);
    if (status != AMB_OK) {
        (void)snprintf(why, why_size, "%s", reason);
        return status;
    }
    status = amb_auth_users_parse(file.text, file.len, path, numbers, why, why_size, out);
    if (status == AMB_OK) {
        (*out)->modified_ns = file.modified_ns;
    }
    amb_private_file_free(&file);
    return status;
}

/* ---- the set ---- */

struct amb_auth_users *amb_auth_users_ref(struct amb_auth_users *users)
{
    if (users != NULL) {
        (void)atomic_fetch_add_explicit(&users->refs, 1, memory_order_relaxed);
    }
    return users;
}

void amb_auth_users_unref(struct amb_auth_users **users)
{
    struct amb_auth_users *set = *users;
    *users = NULL;
    /* Acquire: other owners have done with it before it is freed. */
    if (set == NULL || atomic_fetch_sub_explicit(&set->refs, 1, memory_order_acq_rel) != 1) {
        return;
    }
    for (uint32_t i = 0; i < set->count; i++) {
        free(set->users[i]);
    }
    free(set->users);
    if (set->by_name != NULL) {
        amb_map_destroy(&set->by_name);
    }
    if (set->by_credential != NULL) {
        amb_map_destroy(&set->by_credential);
    }
    amb_auth_numbers_unref(&set->numbers);
    free(set);
}

bool amb_auth_users_is_same(const struct amb_auth_users *a, const struct amb_auth_users *b)
{
    return a == b ||
           (a != NULL && b != NULL && memcmp(a->digest, b->digest, sizeof(a->digest)) == 0);
}

size_t amb_auth_users_count(const struct amb_auth_users *users)
{
    return users->count;
}

const struct amb_auth_user *amb_auth_users_at(const struct amb_auth_users *users, size_t index)
{
    return users->users[index];
}

const struct amb_auth_user *amb_auth_users_find(const struct amb_auth_users *users,
                                                const char *name)
{
    return amb_map_get(users->by_name, name, strlen(name));
}

const struct amb_auth_user *amb_auth_users_by_credential(const struct amb_auth_users *users,
                                                         const char *credential)
{
    return amb_map_get(users->by_credential, credential, strlen(credential));
}

const struct amb_auth_user *amb_auth_users_local_admin(const struct amb_auth_users *users)
{
    return &users->local_admin;
}

struct amb_auth_numbers *amb_auth_users_numbers(const struct amb_auth_users *users)
{
    return users->numbers;
}

int64_t amb_auth_users_modified_ns(const struct amb_auth_users *users)
{
    return users->modified_ns;
}

bool amb_auth_user_has(const struct amb_auth_user *user, const char *credential)
{
    for (unsigned i = 0; i < user->credential_count; i++) {
        if (strcmp(user->credentials[i], credential) == 0) {
            return true;
        }
    }
    return false;
}
