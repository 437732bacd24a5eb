/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/config/config_scan.h"

#include "wire/base/text.h"
#include "wire/config/config_build.h"

#include <string.h>

struct scan {
    struct amb_config_build *build;
    struct amb_config_place place;
    const char *at, *end;
    char name[AMB_CONFIG_SHOWN_MAX]; /* the last that was there: the key of what follows */
};

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_hex(char c)
{
    return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '*';
}

static bool is_name(char c)
{
    return is_letter(c) || is_digit(c) || c == '-' || c == '_';
}

static char peek(const struct scan *scan, size_t offset)
{
    return (size_t)(scan->end - scan->at) > offset ? scan->at[offset] : '\0';
}

static void step(struct scan *scan)
{
    scan->place.line += *scan->at == '\n';
    scan->at++;
}

static const char *key_of(const struct scan *scan)
{
    return scan->name[0] == '\0' ? NULL : scan->name;
}

static void scan_line_comment(struct scan *scan)
{
    while (scan->at < scan->end && *scan->at != '\n') {
        step(scan);
    }
}

static void scan_block_comment(struct scan *scan)
{
    scan->at += 2;
    while (scan->at < scan->end && !(peek(scan, 0) == '*' && peek(scan, 1) == '/')) {
        step(scan);
    }
    /* libconfig takes a '*' for a letter, so the end must not be left to be a name. */
    scan->at += scan->at < scan->end ? 2 : 0;
}

static enum amb_status scan_text(struct scan *scan)
{
    step(scan);
    while (scan->at < scan->end && *scan->at != '"') {
        if (*scan->at == '\\') {
            if (peek(scan, 1) == 'x' && peek(scan, 2) == '0' && peek(scan, 3) == '0') {
                return amb_config_fail(scan->build, &scan->place, key_of(scan),
                                       "has \\x00 in a text, which would end it there");
            }
            step(scan);
        }
        if (scan->at < scan->end) {
            step(scan);
        }
    }
    if (scan->at < scan->end) {
        step(scan);
    }
    return AMB_OK;
}

static void scan_name(struct scan *scan)
{
    size_t len = 0;
    for (; scan->at < scan->end && is_name(*scan->at); step(scan)) {
        if (len < sizeof(scan->name) - 1) {
            scan->name[len++] = *scan->at;
        }
    }
    scan->name[len] = '\0';
}

/* A number in a row of its digits; more than 64 bits are UINT64_MAX. */
static uint64_t scan_digits(struct scan *scan, unsigned base)
{
    uint64_t value = 0;
    for (; base == 16 ? is_hex(peek(scan, 0)) : is_digit(peek(scan, 0)); step(scan)) {
        char c = *scan->at;
        unsigned digit = is_digit(c) ? (unsigned)(c - '0') : ((unsigned)c | 0x20u) - 'a' + 10;
        value = value > (UINT64_MAX - digit) / base ? UINT64_MAX : value * base + digit;
    }
    return value;
}

static enum amb_status scan_number(struct scan *scan)
{
    const char *begin = scan->at;
    bool is_base16 = peek(scan, 0) == '0' && (peek(scan, 1) == 'x' || peek(scan, 1) == 'X');
    scan->at += is_base16 ? 2 : 0;
    uint64_t value = scan_digits(scan, is_base16 ? 16 : 10);
    char next = peek(scan, 0);
    if (next == '.' || next == 'e' || next == 'E') { /* A fraction; no key has one. */
        while (is_digit(peek(scan, 0)) || (peek(scan, 0) != '\0' && strchr(".eE+-", *scan->at))) {
            step(scan);
        }
        return AMB_OK;
    }
    if (next == 'L' || value <= INT32_MAX) {
        while (peek(scan, 0) == 'L') {
            step(scan);
        }
        return AMB_OK;
    }
    return amb_config_fail(scan->build, &scan->place, key_of(scan),
                           "a large number needs an L behind it, or is a text as \"5G\" (got %.*s, "
                           "allowed up to 2147483647 without)",
                           scan->at - begin > 40 ? 40 : (int)(scan->at - begin), begin);
}

enum amb_status amb_config_scan(struct amb_config_build *build, const char *text, size_t len,
                                const char *name)
{
    struct scan scan = {
        .build = build, .place = {AMB_CONFIG_ORIGIN_FILE, name, 1}, .at = text, .end = text + len};
    enum amb_status status = AMB_OK;
    while (status == AMB_OK && scan.at < scan.end) {
        char c = *scan.at;
        if (c == '#' || (c == '/' && peek(&scan, 1) == '/')) {
            scan_line_comment(&scan);
        } else if (c == '/' && peek(&scan, 1) == '*') {
            scan_block_comment(&scan);
        } else if (c == '"') {
            status = scan_text(&scan);
        } else if (is_digit(c)) {
            status = scan_number(&scan);
        } else if (is_letter(c)) {
            scan_name(&scan);
        } else {
            step(&scan);
        }
    }
    return status;
}
