/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/ctl/message_json.h"

#include "tools/common/bytes_json.h"
#include "wire/config/config_words.h"

#define TEXT_MAX 256u /* bytes of a name that is no UTF-8 */

json_t *amb_json_text(const char *text)
{
    json_t *value = json_string(text);
    if (value == NULL) {
        char ascii[TEXT_MAX];
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
    const struct amb_config_word *word = amb_config_word_of(amb_config_priority_words, priority);
    return word != NULL ? word->word : "normal";
}

/* An object with a member for each. */
static json_t *properties(const struct amb_msg *msg)
{
    json_t *object = json_object();
    struct amb_prop prop;
    for (size_t i = 0; object != NULL && amb_msg_prop_at(msg, i, &prop) == AMB_OK; i++) {
        (void)amb_bytes_json(object, prop.name, prop.value, prop.len, AMB_BYTES_JSON_MAX);
    }
    return object;
}

static void set_text(json_t *object, const char *name, const char *text)
{
    if (text != NULL) {
        (void)json_object_set_new(object, name, amb_json_text(text));
    }
}

json_t *amb_message_json(const struct amb_msg *msg, const char *name)
{
    uint64_t lost = amb_msg_lost(msg, NULL);
    json_t *object = json_pack(
        "{s:s?, s:s, s:I, s:I, s:o, s:s?, s:I, s:i, s:o}", "topic", amb_msg_topic(msg), "priority",
        priority_name(amb_msg_priority(msg)), "seq", (json_int_t)amb_msg_seq(msg), "size",
        (json_int_t)amb_msg_size(msg), "name", amb_json_text(name), "path", amb_msg_path(msg),
        "time_ns", (json_int_t)amb_msg_time(msg), "deliveries", (int)amb_msg_deliveries(msg),
        "lost", lost == UINT64_MAX ? json_null() : json_integer((json_int_t)lost));
    if (object != NULL) {
        set_text(object, "key", amb_msg_key(msg));
        set_text(object, "content_type", amb_msg_content_type(msg));
        (void)json_object_set_new(object, "properties", properties(msg));
    }
    return object;
}
