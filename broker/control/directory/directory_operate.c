/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/control/directory/directory_operate.h"

#include "broker/base/tenant.h"
#include "broker/control/directory/directory_topic.h"
#include "broker/worker/orders_topic.h"

#include <string.h>

static bool is_of(struct amb_directory *directory, const struct amb_dir_topic *topic,
                  uint32_t tenant, const char *tenant_name)
{
    if (!amb_tenant_is_asked(tenant, topic->tenant)) {
        return false;
    }
    if (tenant_name == NULL || directory->tenant_text == NULL) {
        return tenant_name == NULL;
    }
    const char *name = directory->tenant_text(directory, topic->tenant);
    return name != NULL && strcmp(name, tenant_name) == 0;
}

enum amb_status amb_directory_find(struct amb_directory *directory, uint32_t tenant,
                                   const char *tenant_name, const char *name,
                                   struct amb_dir_topic **out)
{
    struct amb_dir_topic *found = NULL;
    AMB_LIST_FOR_EACH (node, &directory->topics) {
        struct amb_dir_topic *topic = AMB_CONTAINER_OF(node, struct amb_dir_topic, node);
        if (topic->main != NULL || strcmp(topic->name, name) != 0 ||
            !is_of(directory, topic, tenant, tenant_name)) {
            continue;
        }
        if (found != NULL) {
            return AMB_EINVAL;
        }
        found = topic;
    }
    *out = found;
    return found == NULL ? AMB_ENOTFOUND : AMB_OK;
}

unsigned amb_directory_purge(struct amb_directory *directory, struct amb_dir_topic *main,
                             amb_order_done_fn done, void *context)
{
    unsigned posted = 0;
    for (unsigned i = 0; i <= AMB_PRIORITY_LOW; i++) {
        struct amb_dir_topic *topic = amb_dir_topic_kin(main, (enum amb_priority)i);
        struct amb_order_topic_purge *purge =
            topic == NULL ? NULL : amb_order_new(&amb_order_topic_purge, done, context);
        if (purge != NULL) {
            purge->topic = topic->id;
            posted++;
            amb_order_post(directory->shards[topic->home], &purge->order);
        }
    }
    return posted;
}
