/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/ctl/deliver.h"

#include "tools/common/bytes_json.h"
#include "tools/common/name.h"
#include "tools/ctl/message_json.h"
#include "tools/ctl/printed.h"
#include "wire/auth/crypto.h"
#include "wire/base/clock.h"
#include "wire/base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SHA256_HEX 65u
#define FILE_NAME_MAX (AMB_NAME_MAX + 32u)

enum amb_exit amb_deliver_init(struct amb_deliver *d, const struct amb_deliver_options *options)
{
    *d = (struct amb_deliver){.options = *options, .dir_fd = -1};
    d->is_terminal = isatty(STDOUT_FILENO) == 1;
    amb_meter_init(&d->meter, amb_clock_monotonic_ns());
    if (options->wants_sha256) {
        d->digest = amb_crypto_begin() ? EVP_MD_CTX_new() : NULL;
        if (d->digest == NULL) {
            amb_tool_error("--sha256: libcrypto does not start");
            return AMB_EXIT_SOFTWARE;
        }
    }
    if (options->out_dir != NULL) {
        (void)mkdir(options->out_dir, 0777);
        d->dir_fd = open(options->out_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (d->dir_fd < 0) {
            amb_tool_error("--out-dir %s: %s", options->out_dir, strerror(errno));
            return AMB_EXIT_SOFTWARE;
        }
    }
    return AMB_EXIT_OK;
}

void amb_deliver_fini(struct amb_deliver *d)
{
    EVP_MD_CTX_free(d->digest);
    d->digest = NULL;
    if (d->dir_fd >= 0) {
        (void)close(d->dir_fd);
        d->dir_fd = -1;
    }
}

/* The sender's name of it, or its topic. */
static void message_name(const struct amb_msg *msg, char clean[AMB_NAME_MAX + 1])
{
    size_t len = 0;
    const char *name = amb_msg_prop(msg, "name", &len);
    if (name != NULL && amb_name_clean(name, len, clean) > 0) {
        return;
    }
    const char *topic = amb_msg_topic(msg);
    if (topic == NULL || amb_name_clean(topic, strlen(topic), clean) == 0) {
        (void)amb_name_clean("message", 7, clean);
    }
}

static bool write_all(int fd, const uint8_t *data, size_t len)
{
    while (len > 0) {
        ssize_t n = write(fd, data, len);
        if (n < 0 && errno != EINTR) {
            return false;
        }
        if (n > 0) {
            data += n;
            len -= (size_t)n;
        }
    }
    return true;
}

/* file becomes the name taken. */
static enum amb_exit save(const struct amb_deliver *d, const struct amb_msg *msg, const char *clean,
                          char file[FILE_NAME_MAX])
{
    int fd = amb_name_create(d->dir_fd, amb_msg_seq(msg), clean, file, FILE_NAME_MAX);
    if (fd < 0) {
        amb_tool_error("%s/%s: %s", d->options.out_dir, file, strerror(errno));
        return AMB_EXIT_SOFTWARE;
    }
    bool is_written = write_all(fd, amb_msg_data(msg), amb_msg_size(msg));
    int error = errno;
    /* Some file systems report a full disk only here. */
    if (close(fd) != 0 && is_written) {
        is_written = false;
        error = errno;
    }
    if (!is_written) {
        amb_tool_error("%s/%s: %s", d->options.out_dir, file, strerror(error));
        (void)unlinkat(d->dir_fd, file, 0);
        return AMB_EXIT_SOFTWARE;
    }
    return AMB_EXIT_OK;
}

static bool sha256(EVP_MD_CTX *digest, const struct amb_msg *msg, char hex[SHA256_HEX])
{
    unsigned char raw[EVP_MAX_MD_SIZE];
    unsigned int len = 0;
    if (EVP_DigestInit_ex(digest, EVP_sha256(), NULL) != 1 ||
        EVP_DigestUpdate(digest, amb_msg_data(msg), amb_msg_size(msg)) != 1 ||
        EVP_DigestFinal_ex(digest, raw, &len) != 1 || len * 2 + 1 != SHA256_HEX) {
        return false;
    }
    amb_text_format_hex(raw, len, hex);
    return true;
}

/* A payload that could not be had whole is told, and the next message is looked at. */
static bool is_had(const struct amb_msg *msg, enum amb_status status)
{
    if (status != AMB_OK) {
        amb_tool_error("%s seq=%" PRIu64 ": %s", amb_msg_topic(msg), amb_msg_seq(msg),
                       amb_strerror(status));
    }
    return status == AMB_OK;
}

static void print_range(const struct amb_deliver *d, struct amb_msg *msg)
{
    size_t size = amb_msg_size(msg), len = d->options.len;
    if (d->options.offset >= size) {
        len = 0;
    } else if (len > size - d->options.offset) {
        len = size - d->options.offset;
    }
    unsigned char *bytes = malloc(len + 1);
    enum amb_status status = bytes == NULL ? AMB_ENOMEM
                             : len == 0
                                 ? AMB_OK
                                 : amb_msg_read(msg, d->options.offset, bytes, len, 10 * AMB_SEC);
    if (is_had(msg, status)) {
        amb_print_bytes(d->is_terminal, bytes, len);
        (void)fputc('\n', stdout);
    }
    free(bytes);
}

static bool print_json(const struct amb_deliver *d, const struct amb_msg *msg, const char *clean,
                       const char *file, const char *hex)
{
    json_t *line = amb_message_json(msg, clean);
    if (file[0] != '\0') {
        (void)json_object_set_new(line, "file", amb_json_text(file));
    }
    if (hex[0] != '\0') {
        (void)json_object_set_new(line, "sha256", json_string(hex));
    }
    bool is_whole = line != NULL && (!d->options.has_json_payload ||
                                     amb_bytes_json(line, "payload", amb_msg_data(msg),
                                                    amb_msg_size(msg), d->options.payload_max));
    if (is_whole) {
        (void)json_dumpf(line, stdout, JSON_COMPACT);
        (void)fputc('\n', stdout);
    } else {
        amb_tool_error("%s seq=%" PRIu64 ": no memory for its JSON", amb_msg_topic(msg),
                       amb_msg_seq(msg));
    }
    json_decref(line);
    return is_whole;
}

static void count_path(struct amb_deliver *d, const char *path)
{
    path = path != NULL ? path : "unknown";
    for (size_t i = 0; i < AMB_DELIVER_PATHS; i++) {
        if (d->paths[i].name == NULL) {
            d->paths[i].name = path;
        }
        if (strcmp(d->paths[i].name, path) == 0) {
            d->paths[i].count++;
            return;
        }
    }
}

static void count(struct amb_deliver *d, const struct amb_msg *msg, int64_t now_ns)
{
    size_t len = amb_msg_size(msg);
    uint64_t lost = amb_msg_lost(msg, NULL);
    if (d->msgs == 0) {
        d->first_ns = now_ns;
        d->first_bytes = len;
    }
    d->last_ns = now_ns;
    d->msgs++;
    d->bytes += len;
    if (lost == UINT64_MAX) {
        d->is_lost_unknown = true;
    } else {
        d->lost += lost;
    }
    count_path(d, amb_msg_path(msg));
}

/* As text. */
static void print_message(const struct amb_deliver *d, struct amb_msg *msg)
{
    const struct amb_deliver_options *options = &d->options;
    if (options->form == AMB_DELIVER_HEADER) {
        amb_print_header(msg);
    } else if (options->form == AMB_DELIVER_FORMAT) {
        amb_print_format(d->is_terminal, options->format, msg);
    } else {
        amb_print_format(d->is_terminal, options->form == AMB_DELIVER_VERBOSE ? "%t %p" : "%p",
                         msg);
    }
    if (!options->is_raw) {
        (void)fputc('\n', stdout);
    }
    if (options->wants_range) {
        print_range(d, msg);
    }
}

static void print_digest(const struct amb_msg *msg, const char *clean, const char *file,
                         const char *hex)
{
    char name[FILE_NAME_MAX];
    (void)snprintf(name, sizeof(name), "%s", file);
    if (file[0] == '\0') {
        (void)snprintf(name, sizeof(name), "%" PRIu64 "-%s", amb_msg_seq(msg), clean);
    }
    (void)printf("%s  ", hex);
    amb_print_text(name);
    (void)fputc('\n', stdout);
}

/* Saved, hashed, or as JSON. */
static enum amb_exit take_message(const struct amb_deliver *d, struct amb_msg *msg)
{
    const struct amb_deliver_options *options = &d->options;
    char clean[AMB_NAME_MAX + 1];
    char file[FILE_NAME_MAX] = "";
    char hex[SHA256_HEX] = "";
    message_name(msg, clean);
    bool wants_bytes = options->out_dir != NULL || options->wants_sha256;
    if (options->is_lazy && wants_bytes && !is_had(msg, amb_msg_fetch(msg, 60 * AMB_SEC))) {
        return AMB_EXIT_OK;
    }
    if (options->out_dir != NULL) {
        enum amb_exit code = save(d, msg, clean, file);
        if (code != AMB_EXIT_OK) {
            return code;
        }
    }
    if (options->wants_sha256 && !sha256(d->digest, msg, hex)) {
        amb_tool_error("--sha256: libcrypto failed");
        return AMB_EXIT_SOFTWARE;
    }
    if (options->form == AMB_DELIVER_JSON) {
        return print_json(d, msg, clean, file, hex) ? AMB_EXIT_OK : AMB_EXIT_SOFTWARE;
    }
    if (options->wants_sha256) {
        print_digest(msg, clean, file, hex);
    }
    return AMB_EXIT_OK;
}

enum amb_exit amb_deliver_message(struct amb_deliver *d, struct amb_msg *msg, int64_t now_ns)
{
    const struct amb_deliver_options *options = &d->options;
    count(d, msg, now_ns);
    if (options->wants_meter) {
        amb_meter_add(&d->meter, amb_msg_size(msg), amb_msg_lost(msg, NULL),
                      amb_clock_realtime_ns(), amb_msg_time(msg));
    }
    if (options->out_dir != NULL || options->wants_sha256 || options->form == AMB_DELIVER_JSON) {
        return take_message(d, msg);
    }
    if (options->form != AMB_DELIVER_NOT) {
        print_message(d, msg);
    }
    return AMB_EXIT_OK;
}

json_t *amb_deliver_meter(struct amb_deliver *d, int64_t now_ns, bool is_last)
{
    return d->options.wants_meter ? amb_meter_row(&d->meter, now_ns, is_last) : NULL;
}

json_t *amb_deliver_stats(const struct amb_deliver *d)
{
    double seconds = (double)(d->last_ns - d->first_ns) / (double)AMB_SEC;
    bool has_rate = d->msgs > 1 && seconds > 0;
    json_t *paths = json_object();
    for (size_t i = 0; i < AMB_DELIVER_PATHS && d->paths[i].name != NULL; i++) {
        (void)json_object_set_new(paths, d->paths[i].name,
                                  json_integer((json_int_t)d->paths[i].count));
    }
    /* The first message started the clock, so it is not in the rate. */
    return json_pack("{s:I, s:I, s:f, s:f, s:f, s:o, s:o}", "messages", (json_int_t)d->msgs,
                     "bytes", (json_int_t)d->bytes, "seconds", seconds, "messages_per_s",
                     has_rate ? (double)(d->msgs - 1) / seconds : 0.0, "gb_per_s",
                     has_rate ? (double)(d->bytes - d->first_bytes) / seconds / 1e9 : 0.0, "lost",
                     d->is_lost_unknown ? json_null() : json_integer((json_int_t)d->lost), "path",
                     paths);
}
