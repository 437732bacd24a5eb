/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/control/admin/trace_rows.h"

#include "broker/control/clients/client.h"
#include "broker/control/clients/control.h"
#include "broker/control/directory/directory_topic.h"
#include "broker/control/status/status_units.h"
#include "broker/session/path.h"
#include "broker/shard/trace.h"
#include "wire/base/status.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#define LOOKS 32u /* cells that a search looks at */

static uint32_t count_of(const struct amb_trace_part *part)
{
    return atomic_load_explicit(&part->count, memory_order_acquire);
}

/* ---- names ---- */

/* 0 is a topic's id, too. */
static uint64_t topic_key(uint32_t id)
{
    return (uint64_t)id + 1;
}

/* The cell of that id, or a free one; NULL: there is no room. */
static struct amb_trace_name *cell_of(struct amb_trace_name *names, uint64_t id)
{
    uint64_t hash = id * UINT64_C(0x9e3779b97f4a7c15) >> 32;
    for (uint32_t i = 0; i < LOOKS; i++) {
        struct amb_trace_name *name = &names[(hash + i) % AMB_TRACE_NAMES_MAX];
        if (name->id == id || name->id == 0) {
            return name;
        }
    }
    return NULL;
}

static void name_client(struct amb_trace_name *clients, const struct amb_control *control,
                        uint64_t id)
{
    struct amb_trace_name *name = id == 0 ? NULL : cell_of(clients, id);
    if (name == NULL || name->id != 0) {
        return;
    }
    const struct amb_client *client = amb_client_find(control, id);
    name->id = id;
    name->link = client == NULL ? "" : amb_link_kind_name(client->link);
    (void)snprintf(name->text, sizeof(name->text), "%s", client == NULL ? "" : client->name);
}

static void name_topic(struct amb_trace_name *topics, const struct amb_control *control,
                       uint32_t id)
{
    struct amb_trace_name *name = cell_of(topics, topic_key(id));
    if (name == NULL || name->id != 0) {
        return;
    }
    const struct amb_dir_topic *topic = amb_directory_topic_of(&control->directory, id);
    name->id = topic_key(id);
    (void)snprintf(name->text, sizeof(name->text), "%s",
                   topic == NULL ? "" : amb_topic_shown(topic->name));
}

enum amb_status amb_trace_names_find(struct amb_trace_names *names,
                                     const struct amb_control *control,
                                     const struct amb_trace *trace)
{
    names->clients = calloc(AMB_TRACE_NAMES_MAX, sizeof(*names->clients));
    names->topics = calloc(AMB_TRACE_NAMES_MAX, sizeof(*names->topics));
    if (names->clients == NULL || names->topics == NULL) {
        amb_trace_names_fini(names);
        return AMB_ENOMEM;
    }
    for (unsigned i = 0; i < trace->part_count; i++) {
        const struct amb_trace_part *part = trace->parts[i];
        for (uint32_t k = 0; k < count_of(part); k++) {
            name_client(names->clients, control, part->records[k].client);
            name_topic(names->topics, control, part->records[k].topic);
        }
    }
    return AMB_OK;
}

void amb_trace_names_fini(struct amb_trace_names *names)
{
    free(names->clients);
    free(names->topics);
    names->clients = names->topics = NULL;
}

/* NULL: it has none. */
static const struct amb_trace_name *name_of(struct amb_trace_name *names, uint64_t id)
{
    const struct amb_trace_name *name = id == 0 ? NULL : cell_of(names, id);
    return name == NULL || name->id != id ? NULL : name;
}

/* ---- rows ---- */

/* By batch, time, and the order in which a batch goes. */
static int compare(const void *a, const void *b)
{
    const struct amb_trace_record *one = *(const struct amb_trace_record *const *)a;
    const struct amb_trace_record *two = *(const struct amb_trace_record *const *)b;
    if (one->batch != two->batch) {
        return one->batch < two->batch ? -1 : 1;
    }
    /* Clocks of workers are one, but are read at different times: a head is first in any case. */
    bool is_head = one->stage == AMB_TRACE_HEAD, is_other = two->stage == AMB_TRACE_HEAD;
    if (is_head != is_other) {
        return is_head ? -1 : 1;
    }
    if (one->at_ns != two->at_ns) {
        return one->at_ns < two->at_ns ? -1 : 1;
    }
    return (one->stage > two->stage) - (one->stage < two->stage);
}

static json_t *text_or_null(const char *text)
{
    return text == NULL || text[0] == '\0' ? json_null() : json_string(text);
}

static json_t *number_or_null(uint64_t number)
{
    return number == 0 ? json_null() : json_integer((json_int_t)number);
}

static const char *why_of(const struct amb_trace_record *record)
{
    return record->stage == AMB_TRACE_REFUSED ? amb_status_text((enum amb_status)record->status)
                                              : amb_trace_why_name(record->why);
}

/* Why it did not go in place. */
static const char *way_of(const struct amb_trace_record *record)
{
    return record->stage == AMB_TRACE_WRITTEN ? amb_path_why_text(record->path_why) : "";
}

/* Figures that a stage has are there, also where they are 0. */
static json_t *row_of(const struct amb_trace_record *record, int64_t head_ns,
                      const struct amb_trace_names *names)
{
    const struct amb_trace_name *client = name_of(names->clients, record->client);
    const struct amb_trace_name *topic = name_of(names->topics, topic_key(record->topic));
    const char *kind = record->reader == 0 ? NULL : record->is_queue ? "queue" : "sub";
    bool has_readers = record->stage == AMB_TRACE_APPENDED || record->stage == AMB_TRACE_OVER;
    bool has_msgs = record->msgs != 0 || record->stage == AMB_TRACE_OVER;
    return json_pack(
        "{s:i, s:s, s:I, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:i, s:o}",
        "batch", (int)record->batch, "stage", amb_trace_stage_name(record->stage), "after_ns",
        (json_int_t)(record->at_ns - head_ns), "kind", text_or_null(kind), "reader",
        number_or_null(record->reader), "name", text_or_null(client == NULL ? NULL : client->text),
        "how", text_or_null(amb_trace_how_name(record->how)), "why", text_or_null(why_of(record)),
        "messages", has_msgs ? json_integer(record->msgs) : json_null(), "readers",
        has_readers ? json_integer(record->readers) : json_null(), "topic",
        text_or_null(topic == NULL ? NULL : topic->text), "bytes", number_or_null(record->bytes),
        "sequence", number_or_null(record->seq), "client", number_or_null(record->client), "link",
        text_or_null(client == NULL ? NULL : client->link), "worker", (int)record->worker,
        "not_in_place", text_or_null(way_of(record)));
}

/* All records, in order; *count, *lost. NULL: no memory. */
static const struct amb_trace_record **sorted(const struct amb_trace *trace, size_t *count,
                                              uint64_t *lost)
{
    size_t all = 0, at = 0;
    *lost = 0;
    for (unsigned i = 0; i < trace->part_count; i++) {
        all += count_of(trace->parts[i]);
        *lost += atomic_load_explicit(&trace->parts[i]->lost, memory_order_relaxed);
    }
    const struct amb_trace_record **records = calloc(all + 1, sizeof(const void *));
    for (unsigned i = 0; i < trace->part_count && records != NULL; i++) {
        for (uint32_t k = 0; k < count_of(trace->parts[i]) && at < all; k++) {
            records[at++] = &trace->parts[i]->records[k];
        }
    }
    if (records != NULL) {
        qsort(records, at, sizeof(const void *), compare);
    }
    *count = at;
    return records;
}

/* The client of a member. It acknowledges by its queue, which knows its subscription alone. */
static uint64_t client_of(const struct amb_trace_record *const *records, size_t count,
                          const struct amb_trace_record *record)
{
    for (size_t i = 0; i < count; i++) {
        if (records[i]->stage == AMB_TRACE_WRITTEN && records[i]->batch == record->batch &&
            records[i]->reader == record->reader) {
            return records[i]->client;
        }
    }
    return 0;
}

static void add_rows(json_t *rows, const struct amb_trace_record *const *records, size_t count,
                     const struct amb_trace_names *names)
{
    int64_t head_ns = 0;
    unsigned batch = 0;
    uint32_t topic = 0;
    size_t begin = 0;
    for (size_t i = 0; i < count; i++) {
        struct amb_trace_record record = *records[i];
        if (record.batch != batch) {
            batch = record.batch;
            head_ns = record.at_ns;
            topic = record.topic;
            begin = i;
        }
        record.topic = topic;
        if (record.client == 0 && record.reader != 0 && !record.is_queue) {
            record.client = client_of(&records[begin], i - begin, &record);
        }
        (void)json_array_append_new(rows, row_of(&record, head_ns, names));
    }
}

char *amb_trace_rows(const struct amb_trace *trace, const struct amb_trace_names *names)
{
    size_t count;
    uint64_t lost;
    const struct amb_trace_record **records = sorted(trace, &count, &lost);
    json_t *rows = json_array();
    if (records == NULL || rows == NULL) {
        free(records);
        json_decref(rows);
        return NULL;
    }
    size_t shown = count < AMB_TRACE_ROWS_MAX ? count : AMB_TRACE_ROWS_MAX;
    add_rows(rows, records, shown, names);
    free(records);
    json_t *json = json_pack("{s:O, s:I, s:I, s:I, s:I}", "trace", rows, "batches",
                             (json_int_t)atomic_load_explicit(&trace->taken, memory_order_relaxed),
                             "of", (json_int_t)trace->batches, "not_shown",
                             (json_int_t)(count - shown), "not_noted", (json_int_t)lost);
    if (json != NULL) {
        amb_status_units_add(json, rows);
    }
    json_decref(rows);
    char *text = json == NULL ? NULL : json_dumps(json, JSON_COMPACT);
    json_decref(json);
    return text;
}
