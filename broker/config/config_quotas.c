/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/config/config_quotas.h"

#include "broker/config/config_tenants.h"
#include "wire/config/config_build.h"

#include <string.h>

#define LIMIT(row) (offsetof(struct amb_config_quota, limit) + (row) * sizeof(uint64_t))
/* The key is not there. No limit is that large. */
#define UNSET (AMB_QUOTA_NONE - 1)

static const struct amb_config_word words[] = {
    {"default", INT64_C(-2) /* UNSET */, false},
    {"none", INT64_C(-1) /* AMB_QUOTA_NONE */, false},
    {NULL, 0, false},
};

#define ROW_FROM(least, row, key, text)                                                            \
    {                                                                                              \
        .path = (key), .type = AMB_CONFIG_SIZE, .offset = LIMIT(row), .apply = AMB_CONFIG_LIVE,    \
        .default_text = "default", .words = words, .min = (least), .max = UINT64_C(1) << 50,       \
        .help = (text)                                                                             \
    }
#define ROW(row, key, text) ROW_FROM(0, row, key, text)

static const struct amb_config_key quota_keys[] = {
    {.path = "name",
     .type = AMB_CONFIG_TEXT,
     .offset = offsetof(struct amb_config_quota, name),
     .apply = AMB_CONFIG_LIVE,
     .example_value = "\"small\"",
     .min = 1,
     .max = AMB_QUOTA_NAME_MAX,
     .help = "As the file of users and `tenants` say it: letters, digits and -_@, a letter first. "
             "That of users for whom the file has - is \"default\"."},
    ROW(AMB_QUOTA_CONNECTIONS, "connections", "Sessions. Past it a login gets EBUSY."),
    ROW(AMB_QUOTA_SUBSCRIPTIONS, "subscriptions",
        "Subscriptions, and durable names that wait. Past it: ELIMIT."),
    ROW(AMB_QUOTA_PUBLISHERS, "publishers", "Open publishers. Past it: ELIMIT."),
    ROW(AMB_QUOTA_TOPICS, "topics", "Topics that it has made and that are there. Past it: ELIMIT."),
    ROW(AMB_QUOTA_NAMES, "names",
        "Publishers' names in use, and for limits.dedup_window afterwards. Past it: ELIMIT. Built "
        "in: half of those there can be."),
    ROW(AMB_QUOTA_PAIRS, "pairs",
        "Pairs of a topic and a subscription with a wildcard. Past it: ELIMIT; where topics come, "
        "it ends the client. Built in: half of limits.max_pairs."),
    ROW(AMB_QUOTA_HOST_BYTES, "host_bytes",
        "Host memory of what it publishes: logs, history, what waits, and open windows. Past it no "
        "window opens, and the publisher waits."),
    ROW(AMB_QUOTA_GPU_BYTES, "gpu_bytes",
        "GPU memory of the broker that it leases, or that its messages lie in. Past it payloads go "
        "through host memory."),
    ROW(AMB_QUOTA_IN_MSGS, "in_msgs",
        "Messages a second that it publishes. Past it windows open later."),
    ROW(AMB_QUOTA_IN_BYTES, "in_bytes",
        "Bytes a second that it publishes. Past it windows open later."),
    ROW_FROM(
        1, AMB_QUOTA_REQUESTS, "requests",
        "Requests a second to the broker: what is opened, closed, asked. Past it the client is "
        "not read for a while. Built in: 20000."),
    ROW_FROM(1, AMB_QUOTA_FILTER_TESTS, "filter_tests",
             "Tests of content filters a second, and properties that they look at. Past it "
             "subscriptions with filters pause. Built in: 100000000."),
    ROW_FROM(1, AMB_QUOTA_HEAP, "heap",
             "Heap that it makes the broker use: sessions, publishers, subscriptions, queues, "
             "names, topics. Past it: ELIMIT. Built in: 16 times limits.max_heap_per_session."),
    ROW(AMB_QUOTA_LEASED, "leased",
        "Bytes of leased segments, closed ones that are still mapped too. Past it: ELIMIT, and "
        "libamb copies."),
    ROW(AMB_QUOTA_MAPPED, "mapped",
        "Bytes of messages that it holds in place. Past it they are copied."),
};

const struct amb_config_key *amb_config_quota_keys(size_t *count)
{
    *count = sizeof(quota_keys) / sizeof(quota_keys[0]);
    return quota_keys;
}

static enum amb_status quota_check(const struct amb_config_target *element)
{
    const struct amb_config_quota *quota = element->base;
    if (!amb_config_name_is(quota->name)) {
        return amb_config_fail(element->build, element->place, element->path,
                               "not a name (allowed letters, digits and -_@, a letter first)");
    }
    return AMB_OK;
}

const struct amb_config_elements amb_config_quotas_kind = {
    .keys = amb_config_quota_keys,
    .size = sizeof(struct amb_config_quota),
    .name = "name",
    .name_offset = offsetof(struct amb_config_quota, name),
    .name_help = "a name as \"small\"",
    .example = "{ name = \"small\"; connections = 8; }",
    .check = quota_check,
};

/* By name ------------------------------------------------------------------------------------- */

static const struct amb_config_quota *find(const struct amb_config_quotas *quotas, const char *name)
{
    return amb_config_elements_find(&amb_config_quotas_kind, quotas->items, quotas->count, name);
}

bool amb_config_quota_is_known(const struct amb_config_quotas *quotas, const char *name)
{
    return strcmp(name, AMB_QUOTA_DEFAULT) == 0 || find(quotas, name) != NULL;
}

/* Limits ------------------------------------------------------------------------------------- */

/* So many sessions may be as large as one can be. */
#define HEAP_SESSIONS 16u
/* As much as keeps half of a control thread busy, and a worker. */
#define REQUESTS_MAX 20000u
#define FILTER_TESTS_MAX 100000000u

/* So generous that only a user who takes all meets one. */
static uint64_t built_in(const struct amb_config *config, unsigned row)
{
    switch ((enum amb_quota)row) {
    case AMB_QUOTA_NAMES:
        return AMB_NAMES_MAX / 2;
    case AMB_QUOTA_PAIRS:
        return config->limits.max_pairs / 2 + 1;
    case AMB_QUOTA_HEAP:
        return HEAP_SESSIONS * config->limits.max_heap_per_session;
    case AMB_QUOTA_REQUESTS:
        return REQUESTS_MAX;
    case AMB_QUOTA_FILTER_TESTS:
        return FILTER_TESTS_MAX;
    case AMB_QUOTA_CONNECTIONS:
    case AMB_QUOTA_SUBSCRIPTIONS:
    case AMB_QUOTA_TOPICS:
    case AMB_QUOTA_PUBLISHERS:
    case AMB_QUOTA_HOST_BYTES:
    case AMB_QUOTA_GPU_BYTES:
    case AMB_QUOTA_LEASED:
    case AMB_QUOTA_MAPPED:
    case AMB_QUOTA_IN_MSGS:
    case AMB_QUOTA_IN_BYTES:
    case AMB_QUOTA_COUNT:
        break;
    }
    return AMB_QUOTA_NONE;
}

const char *amb_config_quota_of_user(const struct amb_config *config, const char *name,
                                     uint64_t limits[AMB_QUOTA_COUNT])
{
    const struct amb_config_quota *standard = find(&config->quotas, AMB_QUOTA_DEFAULT);
    const struct amb_config_quota *own = name == NULL ? standard : find(&config->quotas, name);
    for (unsigned i = 0; i < AMB_QUOTA_COUNT; i++) {
        limits[i] = own == NULL ? UNSET : own->limit[i];
        if (limits[i] == UNSET && standard != NULL) {
            limits[i] = standard->limit[i];
        }
        if (limits[i] == UNSET) {
            limits[i] = built_in(config, i);
        }
    }
    return own == NULL ? AMB_QUOTA_DEFAULT : own->name;
}

const char *amb_config_quota_of_tenant(const struct amb_config *config, const char *tenant,
                                       uint64_t limits[AMB_QUOTA_COUNT])
{
    const struct amb_config_tenant *found = amb_config_tenant(&config->tenants, tenant);
    const struct amb_config_quota *own =
        found == NULL || found->quota[0] == '\0' ? NULL : find(&config->quotas, found->quota);
    for (unsigned i = 0; i < AMB_QUOTA_COUNT; i++) {
        limits[i] = own == NULL || own->limit[i] == UNSET ? AMB_QUOTA_NONE : own->limit[i];
    }
    return own == NULL ? "" : own->name;
}
