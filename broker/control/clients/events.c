/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/control/clients/events.h"

#include "broker/control/clients/control.h"
#include "broker/worker/announce.h"
#include "wire/base/clock.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

bool amb_events_are_wanted(const struct amb_control *control)
{
    return control->directory.sys_count > 0 && !control->is_draining;
}

static void event_announced(void *owner, struct amb_order *order)
{
    struct amb_control *control = owner;
    control->events--;
    amb_stat_add(&control->stats->events_failed, order->status != AMB_OK);
    amb_order_free(order);
}

/* To the readers of one tenant. */
static bool event_send(struct amb_control *control, uint32_t tenant, const char *topic,
                       const char *text)
{
    struct amb_dir_topic *at;
    struct amb_directory *directory = &control->directory;
    if (tenant != AMB_TENANT_OPERATORS &&
        !amb_directory_is_read(directory, tenant, topic, strlen(topic))) {
        return true; /* Topics of tenants are not made for nobody. */
    }
    if (control->events >= AMB_EVENTS_MAX ||
        amb_directory_topic(directory, tenant, topic, strlen(topic), 0, NULL, &at) != AMB_OK) {
        return false;
    }
    struct amb_order_announce *announce = amb_order_new(&amb_order_announce, event_announced, NULL);
    char *copy = strdup(text);
    if (announce == NULL || copy == NULL) {
        amb_order_free(announce == NULL ? NULL : &announce->order);
        free(copy);
        return false;
    }
    announce->topic = at->id;
    announce->text = copy;
    control->events++;
    amb_order_post(control->shards[at->home], &announce->order);
    return true;
}

void amb_events_publish(struct amb_control *control, uint32_t tenant, const char *topic,
                        struct json_t *json)
{
    char *text = NULL;
    if (json != NULL && amb_events_are_wanted(control)) {
        if (tenant != AMB_TENANT_OPERATORS) {
            (void)json_object_set_new(json, "tenant",
                                      json_string(amb_tenants_name(&control->tenants, tenant)));
        }
        (void)json_object_set_new(json, "time_ns", json_integer(amb_clock_realtime_ns()));
        text = json_dumps(json, JSON_COMPACT);
    }
    if (text != NULL) {
        bool is_sent = event_send(control, AMB_TENANT_OPERATORS, topic, text);
        if (tenant != AMB_TENANT_OPERATORS) {
            is_sent = event_send(control, tenant, topic, text) && is_sent;
        }
        if (!is_sent) {
            amb_stat_add(&control->stats->events_failed, 1);
        }
        free(text);
    }
    json_decref(json);
}
