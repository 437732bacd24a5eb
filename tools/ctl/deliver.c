/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/ctl/deliver.h"

#include "tools/common/name.h"
#include "tools/common/shown.h"

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
    if (options->wants_sha256) {
        d->digest = EVP_MD_CTX_new();
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
    static const char digits[] = "0123456789abcdef";
    unsigned char raw[EVP_MAX_MD_SIZE];
    unsigned int len = 0;
    if (EVP_DigestInit_ex(digest, EVP_sha256(), NULL) != 1 ||
        EVP_DigestUpdate(digest, amb_msg_data(msg), amb_msg_size(msg)) != 1 ||
        EVP_DigestFinal_ex(digest, raw, &len) != 1 || len * 2 + 1 != SHA256_HEX) {
        return false;
    }
    for (unsigned int i = 0; i < len; i++) {
        hex[2 * i] = digits[raw[i] >> 4];
        hex[2 * i + 1] = digits[raw[i] & 15];
    }
    hex[2 * len] = '\0';
    return true;
}

/* On a terminal, bytes that would drive it are shown as '.'. */
static void print_bytes(const struct amb_deliver *d, const unsigned char *data, size_t len)
{
    if (!d->is_terminal) {
        (void)fwrite(data, 1, len, stdout);
    } else {
        amb_shown_put(stdout, data, len, true);
    }
    (void)fputc('\n', stdout);
}

static void print_payload(const struct amb_deliver *d, const struct amb_msg *msg)
{
    print_bytes(d, amb_msg_data(msg), amb_msg_size(msg));
}

/* " name=value"; both are the publisher's, and characters that would break the line are shown as
 * '.'. */
static void print_prop(const char *name, const char *value, size_t len)
{
    (void)fputc(' ', stdout);
    amb_shown_put(stdout, name, strlen(name), false);
    (void)fputc('=', stdout);
    amb_shown_put(stdout, value, len, false);
}

static void print_header(const struct amb_msg *msg)
{
    amb_shown_put(stdout, amb_msg_topic(msg), strlen(amb_msg_topic(msg)), false);
    (void)printf(" seq=%" PRIu64 " size=%zu", amb_msg_seq(msg), amb_msg_size(msg));
    const char *key = amb_msg_key(msg), *type = amb_msg_content_type(msg);
    if (key != NULL) {
        print_prop("$key", key, strlen(key));
    }
    if (type != NULL) {
        print_prop("$content-type", type, strlen(type));
    }
    struct amb_prop prop;
    for (size_t i = 0; amb_msg_prop_at(msg, i, &prop) == AMB_OK; i++) {
        print_prop(prop.name, prop.value, prop.len);
    }
    (void)fputc('\n', stdout);
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
    if (bytes != NULL &&
        is_had(msg, len == 0 ? AMB_OK
                             : amb_msg_read(msg, d->options.offset, bytes, len, 10 * AMB_SEC))) {
        print_bytes(d, bytes, len);
    }
    free(bytes);
}

/* JSON is UTF-8; file names need not be: then all that is not ASCII becomes '?'. */
static json_t *json_text(const char *text)
{
    json_t *value = json_string(text);
    if (value == NULL) {
        char ascii[FILE_NAME_MAX];
        size_t n = 0;
        for (; text[n] != '\0' && n + 1 < sizeof(ascii); n++) {
            ascii[n] = (unsigned char)text[n] < 0x80 ? text[n] : '?';
        }
        ascii[n] = '\0';
        value = json_string(ascii);
    }
    return value;
}

static const char *priority_name(enum amb_priority priority)
{
    return priority == AMB_PRIORITY_HIGH ? "high" : priority == AMB_PRIORITY_LOW ? "low" : "normal";
}

static void print_json(const struct amb_msg *msg, const char *clean, const char *file,
                       const char *hex)
{
    uint64_t lost = amb_msg_lost(msg, NULL);
    json_t *line = json_pack(
        "{s:s?, s:s, s:I, s:I, s:o, s:s?, s:I, s:i, s:o}", "topic", amb_msg_topic(msg), "priority",
        priority_name(amb_msg_priority(msg)), "seq", (json_int_t)amb_msg_seq(msg), "size",
        (json_int_t)amb_msg_size(msg), "name", json_text(clean), "path", amb_msg_path(msg),
        "time_ns", (json_int_t)amb_msg_time(msg), "deliveries", (int)amb_msg_deliveries(msg),
        "lost", lost == UINT64_MAX ? json_null() : json_integer((json_int_t)lost));
    if (file[0] != '\0') {
        (void)json_object_set_new(line, "file", json_text(file));
    }
    if (hex[0] != '\0') {
        (void)json_object_set_new(line, "sha256", json_string(hex));
    }
    (void)json_dumpf(line, stdout, JSON_COMPACT);
    (void)fputc('\n', stdout);
    json_decref(line);
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

enum amb_exit amb_deliver_message(struct amb_deliver *d, struct amb_msg *msg, int64_t now_ns)
{
    const struct amb_deliver_options *options = &d->options;
    count(d, msg, now_ns);
    if (options->wants_payload) {
        if (options->is_lazy) {
            print_header(msg);
        } else {
            print_payload(d, msg);
        }
        if (options->wants_range) {
            print_range(d, msg);
        }
        return AMB_EXIT_OK;
    }
    if (options->out_dir == NULL && !options->wants_sha256 && !options->is_json) {
        return AMB_EXIT_OK;
    }
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
    if (options->is_json) {
        print_json(msg, clean, file, hex);
    } else if (options->wants_sha256) {
        if (file[0] == '\0') {
            (void)snprintf(file, sizeof(file), "%" PRIu64 "-%s", amb_msg_seq(msg), clean);
        }
        (void)printf("%s  ", hex);
        amb_shown_put(stdout, file, strlen(file), false);
        (void)fputc('\n', stdout);
    }
    return AMB_EXIT_OK;
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
