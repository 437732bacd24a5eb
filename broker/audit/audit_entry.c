/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/audit/audit_entry.h"

#include "wire/base/text.h"

#include <jansson.h>
#include <stdio.h>

static void put_time(json_t *line, int64_t time_ns)
{
    char text[64];
    amb_text_format_date(time_ns, 3, text, sizeof(text));
    (void)json_object_set_new(line, "time", json_string(text));
}

/* Texts of peers may be anything. In one that is no UTF-8 each byte that does not print becomes
 * '?'. */
static void put_text(json_t *line, const char *key, const char *text)
{
    char shown[AMB_AUDIT_WHAT_SIZE];
    if (text == NULL || text[0] == '\0') {
        return;
    }
    json_t *value = json_string(text);
    if (value == NULL) {
        value = json_string(amb_text_show(text, shown, sizeof(shown)));
    }
    (void)json_object_set_new(line, key, value);
}

static void put_number(json_t *line, const char *key, uint64_t value)
{
    if (value != 0) {
        (void)json_object_set_new(line, key, json_integer((json_int_t)value));
    }
}

size_t amb_audit_entry_format(const struct amb_audit_entry *entry, char out[AMB_AUDIT_LINE_MAX])
{
    static const char *const events[] = {"login", "refused", "view", "command", "reload", "lost"};
    json_t *line = json_object();
    put_time(line, entry->time_ns);
    put_text(line, "event", events[entry->event]);
    put_number(line, "command", entry->command);
    put_text(line, "user", entry->user);
    put_text(line, "tenant", entry->tenant);
    put_text(line, "by", entry->by);
    put_text(line, "from", entry->address);
    put_number(line, "client", entry->client);
    put_text(line, "name", entry->name);
    put_text(line, "what", entry->is_mixed ? NULL : entry->what);
    put_text(line, "result", entry->result);
    put_text(line, "why", entry->is_mixed ? NULL : entry->why);
    put_number(line, "count", entry->count);
    if (entry->is_mixed) {
        (void)json_object_set_new(line, "mixed", json_true());
    }
    size_t len = json_dumpb(line, out, AMB_AUDIT_LINE_MAX - 1, JSON_COMPACT | JSON_ENSURE_ASCII);
    json_decref(line);
    if (len == 0 || len >= AMB_AUDIT_LINE_MAX - 1) {
        return 0;
    }
    out[len] = '\n';
    return len + 1;
}
