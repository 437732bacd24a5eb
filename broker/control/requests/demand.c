/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/control/requests/demand.h"

#include "broker/config/config.h"
#include "broker/config/config_trust.h"
#include "broker/control/clients/client_io.h"
#include "broker/control/clients/client_share.h"
#include "broker/control/clients/control.h"
#include "broker/control/status/why.h"
#include "wire/codec/expect.h"
#include "wire/codec/topic.h"

#include <stdio.h>
#include <string.h>

/* No ring, and so nothing in place. */
static bool lacks_ring(const struct amb_client *client, char out[AMB_WHY_MAX])
{
    if (client->link == AMB_LINK_RING) {
        return false;
    }
    amb_why_link(client, NULL, out);
    if (!amb_why_is_near(client)) {
        (void)snprintf(out, AMB_WHY_MAX,
                       "the client is on another host, and shares no memory with "
                       "the broker");
    }
    return true;
}

static bool lacks_rdma(const struct amb_client *client, char out[AMB_WHY_MAX])
{
    const char *why = client->is_unix && client->link != AMB_LINK_UCX
                          ? "a unix:// URL leads to a ring; tcp:// may lead to a ucx link"
                      : client->ucx_obstacle != NULL ? client->ucx_obstacle
                                                     : amb_why_no_rdma(client->control);
    if (why == NULL && client->link != AMB_LINK_UCX) {
        why = "the link is a stream: the URL asks for link=stream";
    }
    if (why == NULL && (client->lanes_lack & AMB_EXPECT_RDMA) != 0) {
        why = "UCX has chosen no lane of RDMA to the client (broker-ctl paths)";
    }
    if (why != NULL) {
        (void)snprintf(out, AMB_WHY_MAX, "%s", why);
    }
    return why != NULL;
}

/* Is that one demand not met by the client's session? Then out says what is missing. */
static bool lacks(const struct amb_client *client, uint32_t demand, char out[AMB_WHY_MAX])
{
    const char *why = NULL;
    switch ((enum amb_expect)demand) {
    case AMB_EXPECT_RING:
        return lacks_ring(client, out);
    case AMB_EXPECT_ZERO_COPY:
        if (client->link == AMB_LINK_RING) {
            amb_why_link(client, NULL, out);
            return !amb_client_may_map(client);
        }
        return lacks_ring(client, out);
    case AMB_EXPECT_RDMA:
        return lacks_rdma(client, out);
    case AMB_EXPECT_NVLINK:
        why = amb_why_no_nvlink(client);
        if (why == NULL && (client->lanes_lack & AMB_EXPECT_NVLINK) != 0) {
            why = "UCX has chosen no lane of cuda_ipc to the client (broker-ctl paths)";
        }
        break;
    }
    if (why != NULL) {
        (void)snprintf(out, AMB_WHY_MAX, "%s", why);
    }
    return why != NULL;
}

/* Why a client that shares memory can read nothing there; NULL: it can. */
static const char *lacks_room(const struct amb_client *client, uint32_t demands,
                              enum amb_status *status)
{
    if ((demands & AMB_EXPECT_ZERO_COPY) == 0 || client->mapped_max != 0) {
        return NULL;
    }
    if (client->control->config->limits.max_mapped_per_session == 0) {
        *status = AMB_ENOTSUP;
        return "the client may hold nothing in place (limits.max_mapped_per_session)";
    }
    *status = AMB_EBUSY;
    return "this process, or its user, holds messages of sessions that ended without a word "
           "(limits.max_mapped_per_session)";
}

/* Is the client given copies of one of these groups? A mapping shows all of a group. */
static bool lacks_group(const struct amb_client *client, uint64_t groups, char out[AMB_WHY_MAX])
{
    uint64_t lacking = groups & ~amb_client_maps(client);
    if (lacking == 0) {
        return false;
    }
    const char *name =
        client->control->config->trust_groups.names[(unsigned)__builtin_ctzll(lacking)];
    (void)snprintf(out, AMB_WHY_MAX,
                   "its user may not read all of the trust group %.40s, and gets copies", name);
    return true;
}

/* The same of all groups: then nothing can be in place. None is named, for it may be others' alone.
 */
static bool lacks_groups(const struct amb_client *client)
{
    uint32_t last = client->control->config->trust_groups.count - 1; /* There is one always. */
    uint64_t all = UINT64_MAX >> (AMB_TRUST_GROUPS_MAX - 1 - last);
    return (amb_client_maps(client) & all) == 0;
}

bool amb_demand_session(struct amb_client *client)
{
    for (uint32_t left = client->expect; left != 0; left -= amb_expect_first(left)) {
        char why[AMB_WHY_MAX] = "";
        if (lacks(client, amb_expect_first(left), why)) {
            amb_client_send_error(client, 0, AMB_ENOTSUP, "expect=%s: %s", amb_expect_name(left),
                                  why);
            return false;
        }
    }
    enum amb_status status = AMB_OK;
    const char *why = lacks_room(client, client->expect, &status);
    if (why == NULL && (client->expect & AMB_EXPECT_ZERO_COPY) != 0 && lacks_groups(client)) {
        status = AMB_ENOTSUP;
        why = "its user may not read all of any trust group, and gets copies";
    }
    if (why != NULL) {
        amb_client_send_error(client, 0, status, "expect=zero-copy: %s", why);
    }
    return why == NULL;
}

/* Of a topic's demand. */
static bool refuse_with(struct amb_client *client, uint64_t id, const struct amb_topic_rule *rule,
                        enum amb_status status, const char *why)
{
    amb_client_send_error(client, id, status, "topics.expect = \"%s\" of %.40s: %s",
                          amb_expect_name(rule->expect), rule->match, why);
    return false;
}

static bool refuse(struct amb_client *client, uint64_t id, const struct amb_topic_rule *rule,
                   const char *why)
{
    return refuse_with(client, id, rule, AMB_ENOTSUP, why);
}

bool amb_demand_publish(struct amb_client *client, uint64_t id, const char *topic)
{
    const struct amb_topic_rule *rule = amb_config_topic(client->control->config, topic);
    char why[AMB_WHY_MAX] = "";
    if (rule->expect == 0) {
        return true;
    }
    if (rule->trust == AMB_TRUST_VERIFY &&
        (rule->expect & (AMB_EXPECT_ZERO_COPY | AMB_EXPECT_NVLINK)) != 0) {
        return refuse(client, id, rule,
                      "the topic copies what is published (topics.trust = \"verify\")");
    }
    if (rule->expect == AMB_EXPECT_ZERO_COPY && rule->trust == AMB_TRUST_AUTO &&
        client->user == AMB_USER_NOBODY) {
        return refuse(client, id, rule,
                      "the kernel does not know its uid, so what it publishes is copied "
                      "(topics.trust = \"auto\")");
    }
    if (rule->expect == AMB_EXPECT_ZERO_COPY &&
        client->control->config->limits.max_leased_per_session == 0) {
        return refuse(client, id, rule, "nothing may be leased (limits.max_leased_per_session)");
    }
    return !lacks(client, rule->expect, why) || refuse(client, id, rule, why);
}

/* Why a subscription like that does not take the way; NULL: it does, if its session can. */
static const char *subscription_lacks(const Amb__Control__Subscribe *subscribe, uint32_t demand)
{
    bool wants_gpu = subscribe->mem == AMB_MEM_CUDA || subscribe->mem == AMB_MEM_AS_SENT ||
                     subscribe->mem_by_link != 0;
    if (demand == AMB_EXPECT_ZERO_COPY && subscribe->copy != 0) {
        return "the subscription asks for copies (copy)";
    }
    if (demand == AMB_EXPECT_NVLINK && subscribe->lazy != AMB_LAZY_OFF) {
        return "what a lazy subscription asks for comes by host memory (lazy)";
    }
    if (demand == AMB_EXPECT_NVLINK && !wants_gpu) {
        return "the subscription asks for host memory (mem)";
    }
    return NULL;
}

static bool demand_of(struct amb_client *client, uint64_t id,
                      const Amb__Control__Subscribe *subscribe, const struct amb_topic_rule *rule)
{
    char why[AMB_WHY_MAX] = "";
    if (rule->expect == 0 || subscribe->lazy == AMB_LAZY_HEADERS) {
        return true;
    }
    const char *own = subscription_lacks(subscribe, rule->expect);
    if (own != NULL) {
        return refuse(client, id, rule, own);
    }
    if (lacks(client, rule->expect, why)) {
        return refuse(client, id, rule, why);
    }
    enum amb_status status = AMB_OK;
    own = lacks_room(client, rule->expect, &status);
    if (own == NULL && rule->expect == AMB_EXPECT_ZERO_COPY &&
        lacks_group(client, UINT64_C(1) << rule->group, why)) {
        return refuse(client, id, rule, why);
    }
    return own == NULL || refuse_with(client, id, rule, status, own);
}

/* Of the session's own demand. */
static bool session_is_met(struct amb_client *client, uint64_t id,
                           const Amb__Control__Subscribe *subscribe)
{
    const char *pattern = subscribe->pattern;
    char why[AMB_WHY_MAX];
    if ((client->expect & AMB_EXPECT_ZERO_COPY) == 0 || subscribe->copy != 0 ||
        subscribe->lazy == AMB_LAZY_HEADERS ||
        !lacks_group(
            client, amb_config_trust_met(client->control->config, pattern, strlen(pattern)), why)) {
        return true;
    }
    amb_client_send_error(client, id, AMB_ENOTSUP, "expect=zero-copy: %s", why);
    return false;
}

bool amb_demand_subscribe(struct amb_client *client, uint64_t id,
                          const Amb__Control__Subscribe *subscribe)
{
    const struct amb_config *config = client->control->config;
    const char *pattern = subscribe->pattern;
    size_t len = strlen(pattern);
    if (!session_is_met(client, id, subscribe)) {
        return false;
    }
    if (amb_pattern_is_literal(pattern, len)) {
        return demand_of(client, id, subscribe, amb_config_topic(config, pattern));
    }
    for (size_t i = 0; i < config->topics.count; i++) {
        const struct amb_topic_rule *rule = &config->topics.items[i];
        if (rule->expect != 0 &&
            amb_pattern_meets(pattern, len, rule->match, strlen(rule->match)) &&
            !demand_of(client, id, subscribe, rule)) {
            return false;
        }
    }
    return true;
}
