/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/control/status/status_spill.h"

#include "broker/delivery/spill.h"
#include "broker/topic/topic.h"
#include "broker/topic/topic_tail.h"

#include <stdio.h>

/* spill_kept_bytes: what waits for such readers alone. */
static const char *const names[] = {"spilled", "spilled_bytes", "spill_failed", "spill_dropped",
                                    "spill_kept_bytes"};
#define NAMES (sizeof(names) / sizeof(names[0]))

/* Topics of several priorities have one name. */
#define KEY_MAX (AMB_TOPIC_MAX + 2)

static const char *key_of(char *key, char priority, const char *name)
{
    (void)snprintf(key, KEY_MAX, "%c%s", priority, name == NULL ? "" : name);
    return key;
}

static json_int_t number_of(const json_t *row, const char *name)
{
    return json_integer_value(json_object_get(row, name));
}

static void add(json_t *row, const struct amb_topic *topic)
{
    struct amb_topic_tail tail = {0};
    if (topic->spill.readers != 0) {
        amb_topic_tail(topic, &tail);
    }
    const uint64_t values[NAMES] = {
        topic->spill.msgs, topic->spill.bytes, topic->spill.failed, topic->spill.lost,
        topic->spill.readers == 0 ? 0 : amb_topic_tail_bytes(topic, &tail)};
    for (size_t i = 0; i < NAMES; i++) {
        (void)json_object_set_new(row, names[i],
                                  json_integer(number_of(row, names[i]) + (json_int_t)values[i]));
    }
}

bool amb_status_has_spills(const struct amb_topic *topic)
{
    return topic->spill.readers != 0 || topic->spill.msgs != 0 || topic->spill.lost != 0 ||
           !amb_list_is_empty(&topic->privates.all);
}

void amb_status_spill_put(json_t *row, const struct amb_topic *topic)
{
    add(row, topic);
    AMB_LIST_FOR_EACH (node, &topic->privates.all) {
        add(row, AMB_CONTAINER_OF(node, struct amb_topic, privates.node));
    }
}

void amb_status_spill_note(json_t *spills, const struct amb_topic *topic)
{
    char key[KEY_MAX];
    json_t *row = json_object();
    amb_status_spill_put(row, topic);
    char letter = "nhl"[topic->priority]; /* each priority's name begins with its own */
    (void)json_object_set_new(spills, key_of(key, letter, topic->name), row);
}

void amb_status_add_spills(json_t *rows, const json_t *spills)
{
    size_t i;
    json_t *row;
    char key[KEY_MAX];
    json_array_foreach(rows, i, row)
    {
        const char *priority = json_string_value(json_object_get(row, "priority"));
        const char *name = json_string_value(json_object_get(row, "topic"));
        const json_t *part = json_object_get(spills, key_of(key, *priority, name));
        for (size_t k = 0; part != NULL && k < NAMES; k++) {
            (void)json_object_set_new(
                row, names[k], json_integer(number_of(row, names[k]) + number_of(part, names[k])));
        }
    }
}
