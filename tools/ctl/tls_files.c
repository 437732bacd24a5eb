/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/ctl/tls_files.h"

#include "wire/auth/private_file.h"
#include "wire/base/file.h"
#include "wire/base/temp_file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define DAY_S INT64_C(86400)
#define ERROR_MAX 512u
#define OLD_MAX 10000u /* certificates that were renewed */

bool amb_tls_files_is_base(const char *name)
{
    for (size_t i = 0; name[i] != '\0'; i++) {
        char c = name[i];
        bool is_good = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                       c == '-' || c == '_' || c == '.';
        if (!is_good) {
            return false;
        }
    }
    return name[0] != '\0' && name[0] != '.' && strlen(name) <= AMB_TLS_COMMON_NAME_MAX;
}

static void path_of(const char *folder, const char *base, const char *ending, char *out)
{
    (void)snprintf(out, PATH_MAX, "%s/%s%s", folder, base, ending);
}

static enum amb_exit complain(const char *path, int why)
{
    amb_tool_error("tls: %s: %s", path, strerrordesc_np(why));
    return AMB_EXIT_SOFTWARE;
}

enum amb_exit amb_tls_files_absent(const char *folder, const char *const *bases, size_t count)
{
    static const char *const endings[] = {".pem", ".key"};
    for (size_t i = 0; i < 2 * count; i++) {
        char path[PATH_MAX];
        struct stat st;
        path_of(folder, bases[i / 2], endings[i % 2], path);
        if (lstat(path, &st) == 0) {
            amb_tool_error("tls: %s is there already, and is left as it is", path);
            return AMB_EXIT_DATA;
        }
    }
    return AMB_EXIT_OK;
}

enum amb_exit amb_tls_files_read(const char *folder, const char *base, struct amb_tls_pair **out)
{
    char certificate[PATH_MAX], key[PATH_MAX], error[ERROR_MAX] = "";
    path_of(folder, base, ".pem", certificate);
    path_of(folder, base, ".key", key);
    enum amb_status status = amb_tls_pair_read(certificate, key, error, sizeof(error), out);
    if (status != AMB_OK) {
        amb_tool_error("tls: %s", error);
        return AMB_EXIT_DATA;
    }
    return AMB_EXIT_OK;
}

enum amb_exit amb_tls_files_authority(const char *folder, struct amb_tls_pair **out)
{
    enum amb_exit code = amb_tls_files_read(folder, "ca", out);
    if (code == AMB_EXIT_OK && amb_tls_pair_until_s(*out) <= (int64_t)time(NULL)) {
        amb_tool_error("tls: %s/ca.pem has expired: renew it first (tls renew ca)", folder);
        amb_tls_pair_free(out);
        return AMB_EXIT_DATA;
    }
    return code;
}

/* A new file, whole on disk; nothing is left of one that fails. */
static enum amb_exit write_file(const char *path, const char *text, bool is_secret)
{
    char why[AMB_PRIVATE_WHY_MAX];
    enum amb_status status = is_secret ? amb_private_file_create(path, text, why)
                                       : amb_public_file_create(path, text, why);
    if (status != AMB_OK) {
        amb_tool_error("tls: %s", why);
        return AMB_EXIT_SOFTWARE;
    }
    return AMB_EXIT_OK;
}

enum amb_exit amb_tls_files_write(const char *folder, const char *base,
                                  const struct amb_tls_pair *pair)
{
    char certificate[PATH_MAX], key[PATH_MAX];
    path_of(folder, base, ".pem", certificate);
    path_of(folder, base, ".key", key);
    char *public = amb_tls_pair_certificate(pair), *secret = amb_tls_pair_key(pair);
    enum amb_exit code = AMB_EXIT_SOFTWARE;
    if (public == NULL || secret == NULL) {
        amb_tool_error("tls: no memory");
    } else {
        code = write_file(key, secret, true);
    }
    if (code == AMB_EXIT_OK) {
        code = write_file(certificate, public, false);
        if (code != AMB_EXIT_OK) {
            (void)unlink(key);
        }
    }
    free(public);
    amb_private_text_free(secret);
    return code;
}

/* Gives the old certificate another name, and takes the name away. */
static enum amb_exit keep_old(const char *path)
{
    for (unsigned i = 1; i < OLD_MAX; i++) {
        char old[PATH_MAX + 16];
        (void)snprintf(old, sizeof(old), "%s.%u", path, i);
        if (link(path, old) == 0) {
            return AMB_EXIT_OK;
        }
        if (errno != EEXIST) {
            return complain(old, errno);
        }
    }
    return complain(path, EMLINK);
}

enum amb_exit amb_tls_files_replace(const char *folder, const char *base,
                                    const struct amb_tls_pair *pair)
{
    char path[PATH_MAX];
    struct amb_temp_file temp;
    const struct amb_temp_file_end end = {.mode = 0644};
    path_of(folder, base, ".pem", path);
    char *text = amb_tls_pair_certificate(pair);
    if (text == NULL) {
        amb_tool_error("tls: no memory");
        return AMB_EXIT_SOFTWARE;
    }
    bool is_written =
        amb_temp_file_create(&temp, path, 0600) && amb_file_write(temp.fd, text, strlen(text));
    enum amb_exit code = is_written ? keep_old(path) : complain(path, errno);
    free(text);
    /* The broker finds the old one or the new one, never none. */
    if (code == AMB_EXIT_OK && !amb_temp_file_rename(&temp, &end)) {
        code = complain(path, errno);
    }
    amb_temp_file_drop(&temp);
    return code;
}

void amb_tls_files_remove(const char *folder, const char *base)
{
    char path[PATH_MAX];
    path_of(folder, base, ".pem", path);
    (void)unlink(path);
    path_of(folder, base, ".key", path);
    (void)unlink(path);
}

json_t *amb_tls_files_describe(const char *folder, const char *base,
                               const struct amb_tls_pair *pair)
{
    char path[PATH_MAX], names[256], pin[AMB_TLS_PIN_TEXT_MAX] = "", until[32] = "?";
    int64_t until_s = amb_tls_pair_until_s(pair);
    time_t at = (time_t)until_s;
    struct tm tm;
    path_of(folder, base, ".pem", path);
    amb_tls_pair_names(pair, names, sizeof(names));
    (void)amb_tls_pair_pin(pair, pin, sizeof(pin));
    if (gmtime_r(&at, &tm) != NULL) {
        (void)strftime(until, sizeof(until), "%Y-%m-%dT%H:%M:%SZ", &tm);
    }
    int64_t left_s = until_s - (int64_t)time(NULL);
    return json_pack("{s:s, s:s, s:s, s:I, s:s}", "file", path, "names", names, "until", until,
                     "days_left", (json_int_t)(left_s / DAY_S), "pin", pin);
}

/* Adds FOLDER/FILE, if it is a certificate with its key beside it. */
static enum amb_exit list_one(const char *folder, const char *file, json_t *rows)
{
    char base[NAME_MAX + 1], key[PATH_MAX];
    size_t len = strlen(file);
    if (len <= 4 || strcmp(file + len - 4, ".pem") != 0) {
        return AMB_EXIT_OK;
    }
    (void)snprintf(base, sizeof(base), "%.*s", (int)(len - 4), file);
    path_of(folder, base, ".key", key);
    if (access(key, F_OK) != 0) {
        return AMB_EXIT_OK;
    }
    struct amb_tls_pair *pair = NULL;
    enum amb_exit code = amb_tls_files_read(folder, base, &pair);
    if (code == AMB_EXIT_OK) {
        (void)json_array_append_new(rows, amb_tls_files_describe(folder, base, pair));
        amb_tls_pair_free(&pair);
    }
    return code;
}

enum amb_exit amb_tls_files_list(const char *folder, json_t **out)
{
    struct dirent **found = NULL;
    int count = scandir(folder, &found, NULL, alphasort);
    if (count < 0) {
        return complain(folder, errno);
    }
    json_t *rows = json_array();
    enum amb_exit code = AMB_EXIT_OK;
    for (int i = 0; i < count; i++) {
        enum amb_exit one = list_one(folder, found[i]->d_name, rows);
        code = code == AMB_EXIT_OK ? one : code; /* The others are shown all the same. */
        free(found[i]);
    }
    free(found);
    if (json_array_size(rows) == 0) {
        json_decref(rows);
        if (code == AMB_EXIT_OK) {
            amb_tool_error("tls: %s has no certificate with its key", folder);
        }
        return AMB_EXIT_DATA;
    }
    *out = rows;
    return code;
}
