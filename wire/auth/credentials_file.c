/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/auth/credentials_file.h"

#include "wire/base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SHOWN_MAX 160u /* bytes of a path in a reason */
#define WORD_MAX 32u
#define BEGIN "-----BEGIN "
#define CERTIFICATE "CERTIFICATE"
#define KEY "PRIVATE KEY"
#define NEARLY "ambroker credentials"

struct parsing {
    struct amb_credentials *out;
    const char *path;
    unsigned line;
    char *why;
    char *at, *end; /* the rest; at its end there is a NUL */
    size_t ca_len;
};

static enum amb_status fail(const struct parsing *parsing, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static enum amb_status fail(const struct parsing *parsing, const char *format, ...)
{
    char shown[SHOWN_MAX];
    int len =
        snprintf(parsing->why, AMB_PRIVATE_WHY_MAX,
                 "%s:%u: ", amb_text_show(parsing->path, shown, sizeof(shown)), parsing->line);
    va_list args;
    va_start(args, format);
    (void)vsnprintf(parsing->why + len, AMB_PRIVATE_WHY_MAX - (size_t)len, format, args);
    va_end(args);
    return AMB_EINVAL;
}

static enum amb_status no_memory(const struct parsing *parsing)
{
    (void)fail(parsing, "no memory");
    return AMB_ENOMEM;
}

/* ---- lines ---- */

/* The next line without its end, which becomes a NUL; NULL: there is none. */
static char *next_line(struct parsing *parsing)
{
    if (parsing->at >= parsing->end) {
        return NULL;
    }
    char *line = parsing->at;
    char *stop = memchr(line, '\n', (size_t)(parsing->end - line));
    parsing->at = stop == NULL ? parsing->end : stop + 1;
    stop = stop == NULL ? parsing->end : stop;
    *stop = '\0';
    if (stop > line && stop[-1] == '\r') {
        stop[-1] = '\0';
    }
    parsing->line++;
    return line;
}

/* The end of the block that begins there. NULL: it does not come. Its lines are counted. */
static char *block_end(struct parsing *parsing, char *begin, const char *word)
{
    char mark[WORD_MAX];
    (void)snprintf(mark, sizeof(mark), "-----END %s-----", word);
    char *found = strstr(begin, mark);
    if (found == NULL) {
        return NULL;
    }
    char *stop = found + strlen(mark);
    for (const char *c = begin; c < stop; c++) {
        parsing->line += *c == '\n';
    }
    return stop;
}

static enum amb_status add_certificate(struct parsing *parsing, const char *pem, size_t len)
{
    char *grown = realloc(parsing->out->ca, parsing->ca_len + len + 2);
    if (grown == NULL) {
        return no_memory(parsing);
    }
    parsing->out->ca = grown;
    memcpy(grown + parsing->ca_len, pem, len);
    parsing->ca_len += len;
    grown[parsing->ca_len++] = '\n';
    grown[parsing->ca_len] = '\0';
    return AMB_OK;
}

static enum amb_status add_key(struct parsing *parsing, const char *pem, size_t len)
{
    if (parsing->out->signer != NULL) {
        return fail(parsing, "a second private key");
    }
    enum amb_status status = amb_signer_parse(pem, len, &parsing->out->signer);
    return status == AMB_EINVAL   ? fail(parsing, "is no Ed25519 key in PEM, without a passphrase")
           : status == AMB_ENOMEM ? no_memory(parsing)
                                  : status;
}

/* line: of its beginning, that has been cut off already. */
static enum amb_status take_block(struct parsing *parsing, char *line)
{
    static const char *const words[] = {CERTIFICATE, KEY};
    for (unsigned i = 0; i < 2; i++) {
        char begin[WORD_MAX];
        (void)snprintf(begin, sizeof(begin), BEGIN "%s-----", words[i]);
        if (strcmp(line, begin) != 0) {
            continue;
        }
        /* The line's end is put back: PEM has lines. */
        for (char *c = line + strlen(line); c < parsing->at; c++) {
            *c = '\n';
        }
        char *stop = block_end(parsing, line, words[i]);
        if (stop == NULL) {
            return fail(parsing, "%s has no end", begin);
        }
        parsing->at = stop + strspn(stop, "\r");
        parsing->at += *parsing->at == '\n';
        size_t len = (size_t)(stop - line);
        return i == 0 ? add_certificate(parsing, line, len) : add_key(parsing, line, len);
    }
    return fail(parsing, "is no part that is known (allowed a certificate, a private key)");
}

static enum amb_status take_value(const struct parsing *parsing, const char *name, char **to,
                                  const char *value, bool is_good)
{
    if (*to != NULL) {
        return fail(parsing, "a second %s", name);
    }
    if (!is_good) {
        char shown[64];
        return fail(parsing, "is no %s (got \"%s\")", name,
                    amb_text_show(value, shown, sizeof(shown)));
    }
    *to = strdup(value);
    return *to == NULL ? no_memory(parsing) : AMB_OK;
}

/* "name = value" */
static enum amb_status take_setting(const struct parsing *parsing, char *line)
{
    char *equals = strchr(line, '=');
    if (equals == NULL) {
        return fail(parsing, "is no line that is known (allowed url = , user = , PEM)");
    }
    *equals = '\0';
    char *value = equals + 1 + strspn(equals + 1, " \t");
    line[strcspn(line, " \t")] = '\0';
    if (strcmp(line, "url") == 0) {
        size_t len = strlen(value);
        return take_value(parsing, "url", &parsing->out->url, value,
                          len >= 1 && len <= AMB_CREDENTIALS_URL_MAX &&
                              amb_text_is_visible(value, len));
    }
    if (strcmp(line, "user") == 0) {
        return take_value(parsing, "user", &parsing->out->user, value, amb_user_name_is(value));
    }
    return fail(parsing, "unknown key (allowed url, user)");
}

static enum amb_status parse_all(struct parsing *parsing)
{
    enum amb_status status = AMB_OK;
    char *line;
    while (status == AMB_OK && (line = next_line(parsing)) != NULL) {
        if (line[0] == '#' || line[strspn(line, " \t")] == '\0') {
            continue;
        }
        status = strncmp(line, BEGIN, sizeof(BEGIN) - 1) == 0 ? take_block(parsing, line)
                                                              : take_setting(parsing, line);
    }
    return status;
}

static enum amb_status parse_token(const struct parsing *parsing, const char *line)
{
    size_t len = strlen(line);
    if (len == 0 || len > AMB_CREDENTIALS_TOKEN_MAX) {
        return fail(parsing, "is no token (allowed 1 to %u bytes)", AMB_CREDENTIALS_TOKEN_MAX);
    }
    parsing->out->token = strdup(line);
    return parsing->out->token == NULL ? no_memory(parsing) : AMB_OK;
}

/* Is it meant to be a file of credentials? Some have another version, a mark of their encoding in
 * front, a comment. */
static bool is_nearly(const char *text, size_t len)
{
    static const char mark[] = KEY "-----";
    const char *end = memchr(text, '\n', len);
    size_t first = end == NULL ? len : (size_t)(end - text);
    return memmem(text, first, NEARLY, sizeof(NEARLY) - 1) != NULL ||
           memmem(text, len, mark, sizeof(mark) - 1) != NULL;
}

/* Of a file with another first line. NULL: that may be a token. */
static const char *token_fault(const char *text, size_t len)
{
    const char *end = memchr(text, '\n', len);
    if (is_nearly(text, len)) {
        return "is no first line of credentials, nor a token (allowed \"" AMB_CREDENTIALS_FIRST
               "\")";
    }
    return memchr(text, '\0', end == NULL ? len : (size_t)(end - text)) != NULL
               ? "the token has a NUL"
               : NULL;
}

static bool is_credentials(const char *text, size_t len)
{
    static const char first[] = AMB_CREDENTIALS_FIRST;
    size_t first_len = sizeof(first) - 1;
    return len >= first_len && memcmp(text, first, first_len) == 0 &&
           (len == first_len || text[first_len] == '\n' || text[first_len] == '\r');
}

enum amb_status amb_credentials_parse(char *text, size_t len, const char *path,
                                      struct amb_credentials *out, char why[AMB_PRIVATE_WHY_MAX])
{
    struct parsing parsing = {.out = out, .path = path, .why = why, .at = text, .end = text + len};
    *out = (struct amb_credentials){0};
    bool is_file = is_credentials(text, len), has_nul = memchr(text, '\0', len) != NULL;
    const char *fault = is_file ? NULL : token_fault(text, len), *line = next_line(&parsing);
    enum amb_status status;
    if (fault != NULL) {
        status = fail(&parsing, "%s", fault);
    } else if (!is_file) {
        status = parse_token(&parsing, line == NULL ? "" : line);
    } else if (has_nul) {
        status = fail(&parsing, "the file has a NUL");
    } else {
        status = parse_all(&parsing);
    }
    if (status != AMB_OK) {
        amb_credentials_fini(out);
    }
    return status;
}

/* ---- the file ---- */

/* At most `size` bytes. -1: errno; 0 there: it is no regular file, and might keep us waiting. */
static ssize_t read_some(int fd, struct stat *st, char *out, size_t size)
{
    size_t len = 0;
    ssize_t got = 1;
    errno = 0;
    if (fstat(fd, st) != 0 || !S_ISREG(st->st_mode)) {
        return -1;
    }
    while (len < size && got > 0) {
        got = read(fd, out + len, size - len);
        if (got < 0 && errno == EINTR) {
            got = 1;
        } else if (got > 0) {
            len += (size_t)got;
        }
    }
    return got < 0 ? -1 : (ssize_t)len;
}

static enum amb_status take_bytes(const char *path, const struct stat *st, char *text, ssize_t len,
                                  struct amb_credentials *out, bool *is_file, char *why)
{
    *is_file = is_credentials(text, (size_t)len) || is_nearly(text, (size_t)len);
    if (*is_file) {
        if (!amb_private_file_check(path, st, why)) {
            return AMB_EINVAL;
        }
        if ((size_t)len > AMB_CREDENTIALS_FILE_MAX) {
            (void)snprintf(why, AMB_PRIVATE_WHY_MAX, "%.160s is too large (allowed %zu bytes)",
                           path, AMB_CREDENTIALS_FILE_MAX);
            return AMB_EINVAL;
        }
    }
    return amb_credentials_parse(text, (size_t)len, path, out, why);
}

enum amb_status amb_credentials_read(const char *path, struct amb_credentials *out, bool *is_file,
                                     char why[AMB_PRIVATE_WHY_MAX])
{
    *out = (struct amb_credentials){0};
    *is_file = false;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    struct stat st;
    size_t room = AMB_CREDENTIALS_FILE_MAX + 1;
    char *text = malloc(room + 1);
    ssize_t len = fd < 0 || text == NULL ? -1 : read_some(fd, &st, text, room);
    enum amb_status status = AMB_EINVAL;
    if (text == NULL) {
        (void)snprintf(why, AMB_PRIVATE_WHY_MAX, "no memory");
        status = AMB_ENOMEM;
    } else if (len < 0) {
        char shown[SHOWN_MAX];
        int error = errno;
        (void)snprintf(why, AMB_PRIVATE_WHY_MAX, "%s %s%s",
                       amb_text_show(path, shown, sizeof(shown)),
                       error == 0 ? "is not a regular file" : "cannot be read: ",
                       error == 0 ? "" : strerrordesc_np(error));
    } else {
        text[len] = '\0';
        status = take_bytes(path, &st, text, len, out, is_file, why);
        explicit_bzero(text, (size_t)len);
    }
    free(text);
    if (fd >= 0) {
        (void)close(fd);
    }
    return status;
}

void amb_credentials_fini(struct amb_credentials *credentials)
{
    amb_private_text_free(credentials->token);
    free(credentials->url);
    free(credentials->user);
    free(credentials->ca);
    amb_signer_free(&credentials->signer);
    *credentials = (struct amb_credentials){0};
}

char *amb_credentials_format(const struct amb_credentials *credentials)
{
    char *text = NULL, *key = NULL;
    if (credentials->signer != NULL) {
        key = amb_signer_format(credentials->signer);
        if (key == NULL) {
            return NULL;
        }
    }
    const char *url = credentials->url, *user = credentials->user, *ca = credentials->ca;
    int len = asprintf(&text, AMB_CREDENTIALS_FIRST "\n%s%s%s%s%s%s%s%s",
                       url == NULL ? "" : "url = ", url == NULL ? "" : url, url == NULL ? "" : "\n",
                       user == NULL ? "" : "user = ", user == NULL ? "" : user,
                       user == NULL ? "" : "\n", ca == NULL ? "" : ca, key == NULL ? "" : key);
    amb_private_text_free(key);
    return len < 0 ? NULL : text;
}
