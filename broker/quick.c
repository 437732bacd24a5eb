/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/quick.h"

#include "broker/config/config_quick.h"
#include "wire/auth/credentials_file.h"
#include "wire/base/log.h"
#include "wire/config/config_layers.h"
#include "wire/tls/tls_issue.h"
#include "wire/tls/tls_names.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define FOLDER_MAX 200u
#define FILE_MAX (FOLDER_MAX + 16u)
#define DAY_S INT64_C(86400)
#define DAYS 3650
#define BEFORE_S 300 /* clocks of other machines may be slow by that */
#define URLS_MAX 8u  /* of the credentials file */

#define USERS "# name:tenant:roles:quota:flags:credentials\n"

/* Of a folder in the making. */
static const char *const files[] = {"ca.pem",     "ca.key", "server.pem",
                                    "server.key", "users",  "dev.cred"};

static enum amb_status fail(char *why, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static enum amb_status fail(char *why, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    (void)vsnprintf(why, AMB_CONFIG_QUICK_WHY_MAX, format, args);
    va_end(args);
    return AMB_EINVAL;
}

/* ---- the folder ---- */

/* One more folder below, for nobody else. */
static enum amb_status make_one(char *path, const char *name, char *why)
{
    size_t len = strlen(path);
    int more = snprintf(path + len, FOLDER_MAX - len, "/%s", name);
    if (more < 0 || (size_t)more >= FOLDER_MAX - len) {
        return fail(why, "the path of the folder for its files is too long");
    }
    if (mkdir(path, 0700) != 0 && errno != EEXIST) {
        return fail(why, "%s cannot be made: %s", path, strerrordesc_np(errno));
    }
    return AMB_OK;
}

/* The folder, and those above it that are not there either. */
static enum amb_status make_all(const char *path, char *why)
{
    char part[FOLDER_MAX];
    const char *at = path;
    do {
        at = strchrnul(at + 1, '/');
        (void)snprintf(part, sizeof(part), "%.*s", (int)(at - path), path);
        if (mkdir(part, 0700) != 0 && errno != EEXIST) {
            return fail(why, "%s cannot be made: %s", part, strerrordesc_np(errno));
        }
    } while (*at != '\0');
    return AMB_OK;
}

static enum amb_status find_parent(const char *const *environment, char path[FOLDER_MAX], char *why)
{
    const char *state = amb_config_variable_find(environment, "XDG_STATE_HOME");
    const char *home = amb_config_variable_find(environment, "HOME");
    const char *base = state != NULL && state[0] == '/' ? state : home;
    enum amb_status status = AMB_OK;
    if (base == NULL || base[0] != '/' || strlen(base) >= FOLDER_MAX) {
        return fail(why, "there is no folder for its files: HOME is not set, nor XDG_STATE_HOME");
    }
    (void)snprintf(path, FOLDER_MAX, "%s", base);
    if (base == home) {
        status = make_one(path, ".local", why);
        status = status == AMB_OK ? make_one(path, "state", why) : status;
    } else {
        status = make_all(path, why);
    }
    status = status == AMB_OK ? make_one(path, "ambroker", why) : status;
    struct stat st;
    if (status == AMB_OK && (lstat(path, &st) != 0 || !S_ISDIR(st.st_mode) ||
                             st.st_uid != geteuid() || (st.st_mode & 0022) != 0)) {
        return fail(why, "%s must be a folder of this user that nobody else may write to", path);
    }
    return status;
}

/* ---- the files ---- */

static void path_of(const char *folder, const char *file, char path[FILE_MAX])
{
    (void)snprintf(path, FILE_MAX, "%s/%s", folder, file);
}

static enum amb_status write_file(const char *folder, const char *file, const char *text, char *why)
{
    char path[FILE_MAX], reason[AMB_PRIVATE_WHY_MAX];
    path_of(folder, file, path);
    if (text == NULL) {
        return AMB_ENOMEM;
    }
    enum amb_status status = amb_private_file_create(path, text, reason);
    return status == AMB_OK ? AMB_OK : fail(why, "%s", reason);
}

static enum amb_status write_pair(const char *folder, const char *base,
                                  const struct amb_tls_pair *pair, char *why)
{
    char certificate[16], key[16];
    (void)snprintf(certificate, sizeof(certificate), "%s.pem", base);
    (void)snprintf(key, sizeof(key), "%s.key", base);
    char *public = amb_tls_pair_certificate(pair), *secret = amb_tls_pair_key(pair);
    enum amb_status status = write_file(folder, certificate, public, why);
    if (status == AMB_OK) {
        status = write_file(folder, key, secret, why);
    }
    free(public);
    amb_private_text_free(secret);
    return status;
}

/* Does the listener have all addresses of this machine? */
static bool is_any(const struct amb_url *door)
{
    return strcmp(door->host, "0.0.0.0") == 0 || strcmp(door->host, "::") == 0;
}

/* The URLs by which other machines reach that listener; "": its port is not known yet. */
static void format_urls(const struct amb_url *door, const struct amb_tls_own_names *own, char *out,
                        size_t size)
{
    struct amb_url url = *door;
    bool has_all = is_any(door);
    size_t first = has_all ? own->first : 0;
    unsigned count = 0;
    out[0] = '\0';
    if (door->port == 0) {
        return;
    }
    if (!has_all || first == own->count) {
        (void)snprintf(url.host, sizeof(url.host), "%s", has_all ? "localhost" : door->host);
        amb_url_format(&url, out, size);
        return;
    }
    for (size_t i = first; i < own->count && count < URLS_MAX; i++, count++) {
        bool is_v6 = strchr(own->names[i], ':') != NULL;
        if (is_v6 && strcmp(door->host, "0.0.0.0") == 0) {
            continue;
        }
        (void)snprintf(url.host, sizeof(url.host), "%s", own->names[i]);
        size_t len = strlen(out);
        if (len + sizeof(url.host) + 32 < size) {
            (void)snprintf(out + len, size - len, "%s", len == 0 ? "" : ",");
            len = strlen(out);
            amb_url_format(&url, out + len, size - len);
        }
    }
}

static enum amb_status write_user(const char *folder, const struct amb_url *door,
                                  const struct amb_tls_own_names *own,
                                  const struct amb_tls_pair *authority, char *why)
{
    char urls[AMB_CREDENTIALS_URL_MAX + 1], line[AMB_CREDENTIAL_MAX + sizeof(USERS) + 64];
    char credential[AMB_CREDENTIAL_MAX + 1];
    uint8_t key[AMB_CREDENTIAL_KEY_SIZE];
    format_urls(door, own, urls, sizeof(urls));
    struct amb_credentials credentials = {.url = urls[0] == '\0' ? NULL : urls,
                                          .user = (char *)(uintptr_t)AMB_CONFIG_QUICK_USER,
                                          .ca = amb_tls_pair_certificate(authority)};
    if (credentials.ca == NULL || amb_signer_create(&credentials.signer) != AMB_OK) {
        free(credentials.ca);
        return fail(why, "no memory, or libcrypto has no Ed25519");
    }
    char *text = amb_credentials_format(&credentials);
    enum amb_status status = write_file(folder, "dev.cred", text, why);
    amb_signer_public(credentials.signer, key);
    amb_credential_of_key(key, credential);
    (void)snprintf(line, sizeof(line),
                   USERS AMB_CONFIG_QUICK_USER ":" AMB_USER_OPERATORS ":" AMB_CONFIG_QUICK_USER
                                               ":-:-:%s\n",
                   credential);
    if (status == AMB_OK) {
        status = write_file(folder, "users", line, why);
    }
    amb_private_text_free(text);
    free(credentials.ca);
    amb_signer_free(&credentials.signer);
    return status;
}

static enum amb_status issue(enum amb_tls_role role, const char *name,
                             const struct amb_tls_own_names *own, const struct amb_tls_pair *issuer,
                             struct amb_tls_pair **out, char *why)
{
    int64_t now_s = (int64_t)time(NULL);
    const struct amb_tls_request request = {
        .role = role,
        .name = name,
        .names = own == NULL ? NULL : own->names,
        .name_count = own == NULL ? 0 : own->count,
        .from_s = now_s - BEFORE_S,
        .until_s = now_s + DAYS * DAY_S,
    };
    return amb_tls_issue(&request, issuer, why, AMB_CONFIG_QUICK_WHY_MAX, out);
}

static enum amb_status make_files(const char *folder, const struct amb_url *door, char *why)
{
    struct amb_tls_own_names own;
    struct amb_tls_pair *authority = NULL, *server = NULL;
    amb_tls_own_names_read(&own);
    if (!is_any(door) && own.count < AMB_TLS_NAMES_MAX) {
        own.names[own.count++] = door->host;
    }
    enum amb_status status =
        issue(AMB_TLS_AUTHORITY, "ambroker dev authority", NULL, NULL, &authority, why);
    if (status == AMB_OK) {
        status = issue(AMB_TLS_SERVER, "ambroker dev broker", &own, authority, &server, why);
    }
    if (status == AMB_OK) {
        status = write_pair(folder, "ca", authority, why);
    }
    if (status == AMB_OK) {
        status = write_pair(folder, "server", server, why);
    }
    if (status == AMB_OK) {
        status = write_user(folder, door, &own, authority, why);
    }
    amb_tls_pair_free(&authority);
    amb_tls_pair_free(&server);
    return status;
}

static void remove_folder(const char *folder)
{
    for (unsigned i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        char path[FILE_MAX];
        path_of(folder, files[i], path);
        (void)unlink(path);
    }
    (void)rmdir(folder);
}

/* Made in a folder of another name. Where two brokers do it at once, one of them has the name. */
static enum amb_status make_folder(const char *parent, const char *folder,
                                   const struct amb_url *door, char *why)
{
    char young[FOLDER_MAX];
    int len = snprintf(young, sizeof(young), "%s/.dev-XXXXXX", parent);
    if (len < 0 || (size_t)len >= sizeof(young) || mkdtemp(young) == NULL) {
        return fail(why, "a folder cannot be made in %s: %s", parent, strerrordesc_np(errno));
    }
    enum amb_status status = make_files(young, door, why);
    if (status == AMB_OK && rename(young, folder) == 0) {
        return AMB_OK;
    }
    bool is_there = status == AMB_OK && (errno == ENOTEMPTY || errno == EEXIST);
    if (status == AMB_OK && !is_there) {
        status = fail(why, "%s cannot be made: %s", folder, strerrordesc_np(errno));
    }
    remove_folder(young);
    return status;
}

enum amb_status amb_quick_start(const struct amb_url *door, const char *const *environment,
                                struct amb_config_quick *out, char why[AMB_CONFIG_QUICK_WHY_MAX])
{
    char parent[FOLDER_MAX], folder[FOLDER_MAX];
    struct stat st;
    enum amb_status status = find_parent(environment, parent, why);
    if (status != AMB_OK) {
        return status;
    }
    int len = snprintf(folder, sizeof(folder), "%s/dev", parent);
    if (len < 0 || (size_t)len >= sizeof(folder)) {
        return fail(why, "the path of the folder for its files is too long");
    }
    status = lstat(folder, &st) == 0 ? AMB_OK : make_folder(parent, folder, door, why);
    if (status == AMB_OK) {
        path_of(folder, "server.pem", out->certificate);
        path_of(folder, "server.key", out->key);
        path_of(folder, "users", out->users);
    }
    return status;
}

void amb_quick_say(const struct amb_config *config)
{
    static const char name[] = "/users";
    const char *users = config->auth.users_file;
    size_t len = strlen(users), name_len = sizeof(name) - 1;
    char where[64];
    amb_config_where(config, "auth.users", where, sizeof(where));
    if (len < name_len || strcmp(where, "--dev") != 0) {
        return;
    }
    int folder = (int)(len - name_len);
    amb_info("quick start: authority, certificate and user dev are in %.*s; on another machine: "
             "copy %.*s/dev.cred, and AMB_CREDENTIALS=dev.cred broker-ctl sub '>'",
             folder, users, folder, users);
}
