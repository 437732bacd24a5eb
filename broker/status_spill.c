/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/status_spill.h"

#include "broker/shard.h"
#include "broker/spill.h"
#include "broker/subscription.h"
#include "broker/topic.h"

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
    struct amb_topic_tail tail;
    amb_topic_tail(topic, &tail);
    const uint64_t values[NAMES] = {topic->spill.msgs, topic->spill.bytes, topic->spill.failed,
                                    topic->spill.lost,
                                    topic->spillers == 0 ? 0 : amb_topic_tail_bytes(topic, &tail)};
    for (size_t i = 0; i < NAMES; i++) {
        (void)json_object_set_new(row, names[i],
                                  json_integer(number_of(row, names[i]) + (json_int_t)values[i]));
    }
}

json_t *amb_status_spills(const struct amb_shard *shard)
{
    char key[KEY_MAX];
    json_t *rows = json_object();
    for (uint32_t i = 0; i < shard->topic_slots; i++) {
        const struct amb_topic *topic = shard->topics[i];
        if (topic == NULL || (topic->spillers == 0 && topic->spill.msgs == 0 &&
                              topic->spill.lost == 0 && amb_list_is_empty(&topic->privates))) {
            continue;
        }
        json_t *row = json_object();
        add(row, topic);
        AMB_LIST_FOR_EACH (node, &topic->privates) {
            add(row, AMB_CONTAINER_OF(node, struct amb_topic, of_namesake));
        }
        char letter = "nhl"[topic->priority]; /* each priority's name begins with its own */
        (void)json_object_set_new(rows, key_of(key, letter, topic->name), row);
    }
    return rows;
}

uint64_t amb_status_spill_waiting(const struct amb_subscription *sub)
{
    uint64_t bytes = 0;
    AMB_LIST_FOR_EACH (node, &sub->cursors) {
        bytes += amb_spill_waiting(AMB_CONTAINER_OF(node, struct amb_cursor, of_sub));
    }
    return bytes;
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
        for (size_t k = 0; k < NAMES; k++) {
            (void)json_object_set_new(
                row, names[k], json_integer(number_of(row, names[k]) + number_of(part, names[k])));
        }
    }
}
