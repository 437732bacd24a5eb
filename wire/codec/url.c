/* SPDX-License-Identifier: Apache-2.0 */
/*
 * No percent-decoding: paths, hosts and groups that would need it are refused or taken literally.
 * The URL is split by hand from left to right: scheme "://" place [ '?' options ].
 */
#include "wire/codec/url.h"

#include "wire/base/text.h"
#include "wire/codec/expect.h"

#include <arpa/inet.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define PIN_PREFIX "sha256/"
#define PIECE_SHOWN 48u /* bytes of an offending part that an error repeats */
/* Room for "/ambroker-4294967295/broker.sock.http", the longer one of its two sockets. */
#define DEV_SOCKET_MAX 40u

struct piece {
    const char *text;
    size_t len;
};

struct parser {
    struct amb_url url;
    bool has_link, has_group, has_interface;
    char *error;
    size_t error_size;
};

static bool piece_is(struct piece piece, const char *text)
{
    return piece.len == strlen(text) && memcmp(piece.text, text, piece.len) == 0;
}

/* Writes "what 'piece'"; the piece is cut and made printable. */
static enum amb_status refuse(struct parser *parser, const char *what, struct piece piece)
{
    char shown[PIECE_SHOWN + 1];
    size_t len = piece.len < PIECE_SHOWN ? piece.len : PIECE_SHOWN;
    for (size_t i = 0; i < len; i++) {
        shown[i] = piece.text[i] >= 0x20 && piece.text[i] < 0x7f ? piece.text[i] : '?';
    }
    shown[len] = '\0';
    (void)snprintf(parser->error, parser->error_size, "%s '%s%s'", what, shown,
                   len < piece.len ? "..." : "");
    return AMB_EINVAL;
}

/* Splits `rest` at the first `separator`; without one everything is taken and rest is empty. */
static struct piece split(struct piece *rest, char separator)
{
    const char *at = memchr(rest->text, separator, rest->len);
    struct piece left = *rest;
    if (at == NULL) {
        rest->text += rest->len;
        rest->len = 0;
        return left;
    }
    left.len = (size_t)(at - rest->text);
    rest->text = at + 1;
    rest->len -= left.len + 1;
    return left;
}

static bool copy_piece(struct piece piece, char *out, size_t size)
{
    if (piece.len >= size) {
        return false;
    }
    memcpy(out, piece.text, piece.len);
    out[piece.len] = '\0';
    return true;
}

static enum amb_status parse_path(struct parser *parser, struct piece path)
{
    if (path.len < 2 || path.text[0] != '/') {
        return refuse(parser, "unix:// needs an absolute path, as in unix:///run/x.sock, not",
                      path);
    }
    if (amb_text_has_control(path.text, path.len)) {
        return refuse(parser, "control character in path", path);
    }
    if (!copy_piece(path, parser->url.path, sizeof(parser->url.path))) {
        return refuse(parser, "path longer than 107 bytes:", path);
    }
    return AMB_OK;
}

static bool is_alnum(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* Of hosts, interfaces and groups alike. */
static bool is_name(struct piece name)
{
    for (size_t i = 0; i < name.len; i++) {
        char c = name.text[i];
        if (!is_alnum(c) && c != '.' && c != '-' && c != '_') {
            return false;
        }
    }
    return name.len > 0 && name.text[0] != '-';
}

/* An IPv6 address, with %interface behind it where it is link-local. */
static bool is_ipv6(struct piece host)
{
    bool has_zone = memchr(host.text, '%', host.len) != NULL;
    struct piece zone = host;
    struct piece address = split(&zone, '%');
    char text[INET6_ADDRSTRLEN];
    struct in6_addr parsed;
    return copy_piece(address, text, sizeof(text)) && inet_pton(AF_INET6, text, &parsed) == 1 &&
           (!has_zone || is_name(zone));
}

static enum amb_status parse_port(struct parser *parser, struct piece port)
{
    uint32_t value = 0;
    for (size_t i = 0; i < port.len; i++) {
        if (port.text[i] < '0' || port.text[i] > '9') {
            return refuse(parser, "not a port:", port);
        }
        value = value * 10 + (uint32_t)(port.text[i] - '0');
        if (value > UINT16_MAX) {
            return refuse(parser, "port above 65535:", port);
        }
    }
    parser->url.port = (uint16_t)value;
    return AMB_OK;
}

/* The host of "host:port" or "[address]:port"; the text behind it goes to rest, with its ':'. */
static enum amb_status parse_host(struct parser *parser, struct piece place, struct piece *rest)
{
    struct piece host;
    *rest = place;
    if (place.len > 0 && place.text[0] == '[') {
        rest->text++;
        rest->len--;
        host = split(rest, ']');
        if (!is_ipv6(host)) {
            return refuse(parser, "not an IPv6 address:", host);
        }
    } else {
        host = split(rest, ':');
        if (!is_name(host)) {
            return refuse(parser, "not a host:", host);
        }
        rest->text = host.text + host.len;
        rest->len = place.len - host.len;
        if (rest->len > 0 && memchr(rest->text + 1, ':', rest->len - 1) != NULL) {
            return refuse(parser,
                          "more than one ':' (an IPv6 address needs brackets, and an alias as "
                          "eth0:1 is written as its address) in",
                          place);
        }
    }
    if (!copy_piece(host, parser->url.host, sizeof(parser->url.host))) {
        return refuse(parser, "host longer than 255 bytes:", host);
    }
    return AMB_OK;
}

static enum amb_status parse_host_port(struct parser *parser, struct piece place)
{
    struct piece rest;
    enum amb_status status = parse_host(parser, place, &rest);
    if (status != AMB_OK) {
        return status;
    }
    if (rest.len < 2 || rest.text[0] != ':') {
        return refuse(parser,
                      parser->url.scheme == AMB_URL_TLS ? "no port, as in tls://host:4733, in"
                                                        : "no port, as in tcp://host:4733, in",
                      place);
    }
    return parse_port(parser, (struct piece){rest.text + 1, rest.len - 1});
}

static enum amb_status parse_link(struct parser *parser, struct piece value)
{
    if (parser->has_link) {
        return refuse(parser, "link given twice:", value);
    }
    parser->url.link = amb_link_kind_find(value.text, value.len);
    parser->has_link = true;
    return parser->url.link != AMB_LINK_ANY
               ? AMB_OK
               : refuse(parser, "link is ring, stream or ucx, not", value);
}

static enum amb_status parse_mode(struct parser *parser, struct piece value)
{
    if (parser->url.mode >= 0) {
        return refuse(parser, "mode given twice:", value);
    }
    int32_t mode = 0;
    for (size_t i = 0; i < value.len; i++) {
        if (value.text[i] < '0' || value.text[i] > '7') {
            return refuse(parser, "mode is octal, as in 0660, not", value);
        }
        mode = mode * 8 + (value.text[i] - '0');
        if (mode > 0777) {
            return refuse(parser, "mode above 0777:", value);
        }
    }
    if (value.len == 0) {
        return refuse(parser, "mode is octal, as in 0660, not", value);
    }
    parser->url.mode = mode;
    return AMB_OK;
}

static enum amb_status parse_group(struct parser *parser, struct piece value)
{
    if (parser->has_group) {
        return refuse(parser, "group given twice:", value);
    }
    if (!is_name(value)) {
        return refuse(parser, "not a group name:", value);
    }
    if (!copy_piece(value, parser->url.group, sizeof(parser->url.group))) {
        return refuse(parser, "group longer than 63 bytes:", value);
    }
    parser->has_group = true;
    return AMB_OK;
}

static enum amb_status parse_interface(struct parser *parser, struct piece value)
{
    if (parser->has_interface) {
        return refuse(parser, "interface given twice:", value);
    }
    if (memchr(value.text, ':', value.len) != NULL) {
        return refuse(parser, "an alias is no interface: name the interface alone, not", value);
    }
    if (!copy_piece(value, parser->url.interface, sizeof(parser->url.interface))) {
        return refuse(parser, "interface longer than 15 bytes:", value);
    }
    if (!amb_interface_is_name(parser->url.interface)) {
        return refuse(parser, "not the name of an interface:", value);
    }
    parser->has_interface = true;
    return AMB_OK;
}

/* Each names one demand. */
static enum amb_status parse_expect(struct parser *parser, struct piece value)
{
    uint32_t expect = amb_expect_find(value.text, value.len);
    if (expect == 0) {
        return refuse(parser, "expect is " AMB_EXPECT_WORDS ", not", value);
    }
    parser->url.expect |= expect;
    return AMB_OK;
}

static bool is_base64(char c)
{
    return is_alnum(c) || c == '+' || c == '/';
}

static enum amb_status parse_pin(struct parser *parser, struct piece value)
{
    const size_t prefix = strlen(PIN_PREFIX);
    if (parser->url.pin[0] != '\0') {
        return refuse(parser, "pin given twice:", value);
    }
    bool is_one = value.len == AMB_URL_PIN_MAX && memcmp(value.text, PIN_PREFIX, prefix) == 0 &&
                  value.text[value.len - 1] == '=';
    for (size_t i = prefix; is_one && i + 1 < value.len; i++) {
        is_one = is_base64(value.text[i]);
    }
    if (!is_one) {
        return refuse(parser, "pin is sha256/ and 44 digits of base64, not", value);
    }
    (void)copy_piece(value, parser->url.pin, sizeof(parser->url.pin));
    return AMB_OK;
}

static enum amb_status parse_option(struct parser *parser, struct piece option)
{
    struct piece value = option;
    struct piece name = split(&value, '=');
    if (piece_is(name, "link")) {
        return parse_link(parser, value);
    }
    if (piece_is(name, "expect")) {
        return parse_expect(parser, value);
    }
    if (parser->url.scheme == AMB_URL_UNIX && piece_is(name, "mode")) {
        return parse_mode(parser, value);
    }
    if (parser->url.scheme == AMB_URL_UNIX && piece_is(name, "group")) {
        return parse_group(parser, value);
    }
    if (parser->url.scheme != AMB_URL_UNIX && piece_is(name, "interface")) {
        return parse_interface(parser, value);
    }
    if (parser->url.scheme == AMB_URL_TLS && piece_is(name, "pin")) {
        return parse_pin(parser, value);
    }
    return refuse(parser, "unknown option", option);
}

static enum amb_status parse_place(struct parser *parser, struct piece scheme, struct piece place)
{
    if (piece_is(scheme, "unix")) {
        parser->url.scheme = AMB_URL_UNIX;
        return parse_path(parser, place);
    }
    if (piece_is(scheme, "tcp")) {
        parser->url.scheme = AMB_URL_TCP;
        return parse_host_port(parser, place);
    }
    if (piece_is(scheme, "tls")) {
        parser->url.scheme = AMB_URL_TLS;
        return parse_host_port(parser, place);
    }
    return refuse(parser, "the scheme is unix, tcp or tls, not", scheme);
}

static enum amb_status parse_all(struct parser *parser, const char *text)
{
    struct piece whole = {text, strlen(text)};
    const char *colon = strstr(text, "://");
    if (colon == NULL) {
        return refuse(parser, "not a URL, as in unix:///path or tcp://host:port:", whole);
    }
    struct piece scheme = {text, (size_t)(colon - text)};
    struct piece rest = {colon + 3, strlen(colon + 3)};
    bool has_more = memchr(rest.text, '?', rest.len) != NULL;
    struct piece place = split(&rest, '?');
    enum amb_status status = parse_place(parser, scheme, place);
    while (status == AMB_OK && has_more) {
        has_more = memchr(rest.text, '&', rest.len) != NULL;
        status = parse_option(parser, split(&rest, '&'));
    }
    return status;
}

enum amb_status amb_url_parse(const char *text, struct amb_url *out, char *error, size_t error_size)
{
    struct parser parser = {
        .url = {.link = AMB_LINK_ANY, .mode = -1},
        .error = error,
        .error_size = error_size,
    };
    enum amb_status status = parse_all(&parser, text);
    if (status == AMB_OK) {
        *out = parser.url;
    }
    return status;
}

/* snprintf behind what is in `out`; a text that is full stays as it is. */
static void append(char *out, size_t size, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void append(char *out, size_t size, const char *format, ...)
{
    size_t len = strlen(out);
    va_list args;
    va_start(args, format);
    (void)vsnprintf(out + len, size - len, format, args);
    va_end(args);
}

void amb_url_format(const struct amb_url *url, char *out, size_t size)
{
    if (size == 0) {
        return;
    }
    out[0] = '\0';
    char separator = '?';
    switch (url->scheme) {
    case AMB_URL_UNIX:
        append(out, size, "unix://%s", url->path);
        if (url->mode >= 0) {
            append(out, size, "?mode=0%03o", (unsigned)url->mode);
            separator = '&';
        }
        if (url->group[0] != '\0') {
            append(out, size, "%cgroup=%s", separator, url->group);
            separator = '&';
        }
        break;
    case AMB_URL_TCP:
    case AMB_URL_TLS:
        append(out, size, strchr(url->host, ':') != NULL ? "%s://[%s]:%u" : "%s://%s:%u",
               amb_url_scheme_name(url->scheme), url->host, (unsigned)url->port);
        if (url->interface[0] != '\0') {
            append(out, size, "?interface=%s", url->interface);
            separator = '&';
        }
        if (url->pin[0] != '\0') {
            append(out, size, "%cpin=%s", separator, url->pin);
            separator = '&';
        }
        break;
    }
    if (url->link != AMB_LINK_ANY) {
        append(out, size, "%clink=%s", separator, amb_link_kind_name(url->link));
        separator = '&';
    }
    for (uint32_t left = url->expect; left != 0; left -= amb_expect_first(left)) {
        append(out, size, "%cexpect=%s", separator, amb_expect_name(left));
        separator = '&';
    }
}

void amb_url_format_dev(const char *runtime_folder, unsigned uid, char *out, size_t size)
{
    if (runtime_folder == NULL || runtime_folder[0] != '/' ||
        strlen(runtime_folder) > sizeof(((struct amb_url *)NULL)->path) - DEV_SOCKET_MAX ||
        strpbrk(runtime_folder, "?%, ") != NULL) {
        runtime_folder = "/tmp";
    }
    (void)snprintf(out, size, "unix://%s/ambroker-%u/broker.sock", runtime_folder, uid);
}

const char *amb_url_scheme_name(enum amb_url_scheme scheme)
{
    switch (scheme) {
    case AMB_URL_UNIX:
        return "unix";
    case AMB_URL_TCP:
        return "tcp";
    case AMB_URL_TLS:
        return "tls";
    }
    return "?";
}

const char *amb_link_kind_name(enum amb_link_kind kind)
{
    switch (kind) {
    case AMB_LINK_ANY:
        return "any";
    case AMB_LINK_RING:
        return "ring";
    case AMB_LINK_STREAM:
        return "stream";
    case AMB_LINK_UCX:
        return "ucx";
    case AMB_LINK_SIM:
        return "sim";
    }
    return "?";
}

enum amb_link_kind amb_link_kind_find(const char *text, size_t len)
{
    static const enum amb_link_kind kinds[] = {AMB_LINK_RING, AMB_LINK_STREAM, AMB_LINK_UCX};
    const struct piece name = {text, len};
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        if (piece_is(name, amb_link_kind_name(kinds[i]))) {
            return kinds[i];
        }
    }
    return AMB_LINK_ANY;
}
