/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/ctl/printed.h"

#include "tools/cli/forms.h"
#include "tools/common/shown.h"
#include "wire/base/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define HEX_STEP ((size_t)256) /* bytes that are written as digits at once */

void amb_print_bytes(bool is_terminal, const void *data, size_t len)
{
    if (!is_terminal) {
        (void)fwrite(data, 1, len, stdout);
    } else {
        amb_shown_put(stdout, data, len, true);
    }
}

void amb_print_text(const char *text)
{
    amb_shown_put(stdout, text, strlen(text), false);
}

/* "name=value"; both are the publisher's, and characters that would break the line are shown as
 * '.'. */
static void print_prop(const char *name, const char *value, size_t len)
{
    amb_print_text(name);
    (void)fputc('=', stdout);
    amb_shown_put(stdout, value, len, false);
}

/* `before` stands before each but the first. */
static void print_props(const struct amb_msg *msg, const char *before)
{
    struct amb_prop prop;
    for (size_t i = 0; amb_msg_prop_at(msg, i, &prop) == AMB_OK; i++) {
        (void)fputs(before, stdout);
        before = " ";
        print_prop(prop.name, prop.value, prop.len);
    }
}

void amb_print_header(const struct amb_msg *msg)
{
    amb_print_text(amb_msg_topic(msg));
    (void)printf(" seq=%" PRIu64 " size=%zu", amb_msg_seq(msg), amb_msg_size(msg));
    const char *key = amb_msg_key(msg), *type = amb_msg_content_type(msg);
    if (key != NULL) {
        (void)fputc(' ', stdout);
        print_prop("$key", key, strlen(key));
    }
    if (type != NULL) {
        (void)fputc(' ', stdout);
        print_prop("$content-type", type, strlen(type));
    }
    print_props(msg, " ");
}

static void print_hex(const uint8_t *data, size_t len)
{
    char text[2 * HEX_STEP + 1];
    for (size_t at = 0; at < len; at += HEX_STEP) {
        amb_text_format_hex(data + at, len - at < HEX_STEP ? len - at : HEX_STEP, text);
        (void)fputs(text, stdout);
    }
}

static void print_field(bool is_terminal, char field, const struct amb_msg *msg)
{
    char date[AMB_TEXT_MAX];
    const char *text = "";
    switch (field) {
    case 'p':
        amb_print_bytes(is_terminal, amb_msg_data(msg), amb_msg_size(msg));
        return;
    case 'x':
        print_hex(amb_msg_data(msg), amb_msg_size(msg));
        return;
    case 'l':
        (void)printf("%zu", amb_msg_size(msg));
        return;
    case 's':
        (void)printf("%" PRIu64, amb_msg_seq(msg));
        return;
    case 'P':
        print_props(msg, "");
        return;
    case 't':
        text = amb_msg_topic(msg);
        break;
    case 'k':
        text = amb_msg_key(msg);
        break;
    case 'I':
        amb_text_format_date(amb_msg_time(msg), 9, date, sizeof(date));
        text = date;
        break;
    case 'h':
        text = amb_msg_path(msg);
        break;
    default:
        break;
    }
    amb_print_text(text != NULL ? text : "");
}

void amb_print_format(bool is_terminal, const char *format, const struct amb_msg *msg)
{
    struct amb_form_piece piece;
    while (amb_form_format_next(&format, &piece)) {
        if (piece.field != 0) {
            print_field(is_terminal, piece.field, msg);
        } else {
            (void)fwrite(piece.text, 1, piece.len, stdout);
        }
    }
}
