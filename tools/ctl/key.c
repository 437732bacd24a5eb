/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/ctl/key.h"

#include "tools/ctl/connect.h"
#include "wire/auth/credential.h"
#include "wire/auth/credentials_file.h"
#include "wire/base/text.h"
#include "wire/codec/url.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define TOKEN_BYTES 32u /* 256 random bits */
#define TOKEN_TEXT (2 * TOKEN_BYTES + 1)

static enum amb_exit failed(const char *why)
{
    amb_tool_error("key: %s", why);
    return AMB_EXIT_DATA;
}

static void show(const struct amb_ctl *ctl, const char *path, const char *credential,
                 const struct amb_credentials *credentials)
{
    if (!ctl->is_json) {
        (void)printf("%s\n", credential);
        return;
    }
    json_t *row = json_pack("{s:s, s:s}", "file", path, "credential", credential);
    if (credentials->user != NULL) {
        (void)json_object_set_new(row, "user", json_string(credentials->user));
    }
    if (credentials->url != NULL) {
        (void)json_object_set_new(row, "url", json_string(credentials->url));
    }
    amb_ctl_print(ctl, json_pack("[o]", row));
}

/* The credential of a file, as the users file has it. */
static enum amb_exit credential_of(const char *path, const struct amb_credentials *credentials,
                                   char *credential)
{
    uint8_t key[AMB_CREDENTIAL_KEY_SIZE];
    const char *token = credentials->token;
    if (credentials->signer != NULL) {
        amb_signer_public(credentials->signer, key);
        amb_credential_of_key(key, credential);
    } else if (token == NULL) {
        amb_tool_error("key: %s has no key and is no token", path);
        return AMB_EXIT_DATA;
    } else if (strlen(token) > AMB_CREDENTIAL_TOKEN_MAX) {
        amb_tool_error("key: %s: the token of a user has at most %u bytes (got %zu)", path,
                       AMB_CREDENTIAL_TOKEN_MAX, strlen(token));
        return AMB_EXIT_DATA;
    } else if (!amb_credential_of_token(token, strlen(token), credential)) {
        amb_tool_error("key: SHA-256 is not available");
        return AMB_EXIT_SOFTWARE;
    }
    return AMB_EXIT_OK;
}

static enum amb_exit describe(const struct amb_ctl *ctl, const char *path,
                              const struct amb_credentials *credentials)
{
    char credential[AMB_CREDENTIAL_MAX + 1] = "";
    enum amb_exit code = credential_of(path, credentials, credential);
    if (code == AMB_EXIT_OK) {
        show(ctl, path, credential, credentials);
    }
    return code;
}

/* ---- new ---- */

static enum amb_exit create(const char *path, const char *text)
{
    char why[AMB_PRIVATE_WHY_MAX];
    return amb_private_file_create(path, text, why) == AMB_OK ? AMB_EXIT_OK : failed(why);
}

static enum amb_exit new_token(const struct amb_ctl *ctl, const char *path)
{
    uint8_t bytes[TOKEN_BYTES];
    char text[TOKEN_TEXT], line[TOKEN_TEXT + 1];
    if (getrandom(bytes, sizeof(bytes), 0) != (ssize_t)sizeof(bytes)) {
        amb_tool_error("key: the system has no random numbers");
        return AMB_EXIT_SOFTWARE;
    }
    amb_text_format_hex(bytes, sizeof(bytes), text);
    (void)snprintf(line, sizeof(line), "%s\n", text);
    const struct amb_credentials credentials = {.token = text};
    enum amb_exit code = create(path, line);
    code = code == AMB_EXIT_OK ? describe(ctl, path, &credentials) : code;
    explicit_bzero(bytes, sizeof(bytes));
    explicit_bzero(text, sizeof(text));
    explicit_bzero(line, sizeof(line));
    return code;
}

/* The authorities of a file, as its text. */
static enum amb_exit read_ca(const char *path, char **out)
{
    char *text = NULL;
    size_t size = 0;
    FILE *file = fopen(path, "re");
    ssize_t len = file == NULL ? -1 : getdelim(&text, &size, '\0', file);
    if (file == NULL || (len < 0 && ferror(file) != 0)) {
        amb_tool_error("key: %s: %s", path, strerror(errno));
        if (file != NULL) {
            (void)fclose(file);
        }
        free(text);
        return AMB_EXIT_DATA;
    }
    (void)fclose(file);
    bool is_pem = len > 0 && strstr(text, "-----BEGIN CERTIFICATE-----") != NULL &&
                  strstr(text, "PRIVATE KEY") == NULL;
    if (!is_pem) {
        free(text);
        amb_tool_error("key: %s has no certificates in PEM, or a private key too", path);
        return AMB_EXIT_DATA;
    }
    *out = text;
    return AMB_EXIT_OK;
}

/* Is what has been put together a file that a client can read? */
static bool is_readable(const char *text)
{
    char why[AMB_PRIVATE_WHY_MAX];
    struct amb_credentials again;
    char *copy = strdup(text);
    bool is_good = copy != NULL &&
                   amb_credentials_parse(copy, strlen(copy), "the file", &again, why) == AMB_OK;
    if (is_good) {
        amb_credentials_fini(&again);
    } else {
        amb_tool_error("key: %s", copy == NULL ? "no memory" : why);
    }
    amb_private_text_free(copy);
    return is_good;
}

/* *out: as it is in the file, to be freed. */
static enum amb_exit make_key(const struct amb_key_parts *wanted, const char *path,
                              struct amb_credentials *out)
{
    struct amb_credentials credentials = {.url = (char *)(uintptr_t)wanted->url,
                                          .user = (char *)(uintptr_t)wanted->user};
    enum amb_exit code = wanted->ca == NULL ? AMB_EXIT_OK : read_ca(wanted->ca, &credentials.ca);
    if (code == AMB_EXIT_OK && amb_signer_create(&credentials.signer) != AMB_OK) {
        amb_tool_error("key: Ed25519 is not available");
        code = AMB_EXIT_SOFTWARE;
    }
    if (code == AMB_EXIT_OK) {
        char *text = amb_credentials_format(&credentials);
        if (text == NULL) {
            amb_tool_error("key: no memory");
            code = AMB_EXIT_SOFTWARE;
        } else {
            code = is_readable(text) ? create(path, text) : AMB_EXIT_DATA;
        }
        amb_private_text_free(text);
    }
    *out = credentials;
    return code;
}

/* The URL and the user are the caller's. */
static void free_key(struct amb_credentials *credentials)
{
    free(credentials->ca);
    amb_signer_free(&credentials->signer);
}

enum amb_exit amb_ctl_key_make(const struct amb_key_parts *wanted, const char *path,
                               char *credential)
{
    struct amb_credentials credentials;
    enum amb_exit code = make_key(wanted, path, &credentials);
    code = code == AMB_EXIT_OK ? credential_of(path, &credentials, credential) : code;
    free_key(&credentials);
    return code;
}

static enum amb_exit new_key(const struct amb_ctl *ctl, const struct amb_key_parts *wanted,
                             const char *path)
{
    struct amb_credentials credentials;
    enum amb_exit code = make_key(wanted, path, &credentials);
    code = code == AMB_EXIT_OK ? describe(ctl, path, &credentials) : code;
    free_key(&credentials);
    return code;
}

/* ---- the command ---- */

enum amb_exit amb_ctl_key_check(const struct amb_key_parts *wanted)
{
    char why[160];
    struct amb_url url;
    if (wanted->user != NULL && !amb_user_name_is(wanted->user)) {
        return amb_ctl_bad("key --user", wanted->user, "letters, digits and -_@, a letter first");
    }
    /* Of a comma list the first one: those behind it may be bare hosts. */
    if (wanted->url != NULL && strchr(wanted->url, ',') == NULL &&
        amb_url_parse(wanted->url, &url, why, sizeof(why)) != AMB_OK) {
        return failed(why);
    }
    return AMB_EXIT_OK;
}

enum amb_exit amb_ctl_key_new(struct amb_ctl *ctl)
{
    const struct amb_key_parts key = {
        .user = amb_cli_text(ctl->line, "user"),
        .ca = amb_cli_text(ctl->line, "ca"),
        .url = ctl->url,
    };
    const char *path = ctl->line->args[0];
    enum amb_exit code = amb_ctl_key_check(&key);
    if (code != AMB_EXIT_OK) {
        return code;
    }
    return amb_cli_has(ctl->line, "token") ? new_token(ctl, path) : new_key(ctl, &key, path);
}

enum amb_exit amb_ctl_key_show(struct amb_ctl *ctl)
{
    char why[AMB_PRIVATE_WHY_MAX];
    struct amb_credentials credentials;
    bool is_file;
    const char *path = ctl->line->args[0];
    if (amb_credentials_read(path, &credentials, &is_file, why) != AMB_OK) {
        return failed(why);
    }
    enum amb_exit code = describe(ctl, path, &credentials);
    amb_credentials_fini(&credentials);
    return code;
}
