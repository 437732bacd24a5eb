/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/control/admin/tracing.h"

#include "broker/control/admin/trace_rows.h"
#include "broker/control/clients/client.h"
#include "broker/control/clients/control.h"
#include "broker/control/directory/directory.h"
#include "broker/control/status/status.h"
#include "broker/observe/observer.h"
#include "broker/shard/shard.h"
#include "broker/shard/trace.h"
#include "broker/worker/orders_trace.h"
#include "wire/base/clock.h"
#include "wire/base/log.h"
#include "wire/base/text.h"
#include "wire/codec/topic.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum stage {
    ARMING,
    ARMED,
    DISARMING,
    TOLD, /* the observer makes its rows */
};

struct tracing {
    struct amb_list_node node; /* of control->traces */
    struct amb_client *client; /* held by its command */
    struct amb_trace *trace;
    enum stage stage;
    unsigned unanswered; /* orders */
    /* One a worker, made before it is armed: its end must not need memory. */
    struct amb_order *orders[AMB_SHARDS_MAX];
    int64_t until_ns;
    struct amb_observer_job job;
    struct amb_trace_names names;
    amb_tracing_done_fn done;
    void *context;
};

static void tracing_free(struct tracing *tracing)
{
    amb_list_remove(&tracing->node);
    for (unsigned i = 0; i < AMB_SHARDS_MAX; i++) {
        amb_order_free(tracing->orders[i]);
    }
    amb_trace_names_fini(&tracing->names);
    amb_trace_destroy(&tracing->trace);
    free(tracing);
}

static void tracing_end(struct tracing *tracing, enum amb_status status, const char *why,
                        char *json)
{
    amb_tracing_done_fn done = tracing->done;
    void *context = tracing->context;
    tracing_free(tracing);
    done(context, status, why, json);
}

static bool has_gone(const struct tracing *tracing)
{
    return tracing->client->state != AMB_CLIENT_LIVE || tracing->client->control->is_over;
}

/* ---- told ---- */

/* On the observer. */
static void make_rows(struct amb_observer_job *job)
{
    const struct tracing *tracing = AMB_CONTAINER_OF(job, struct tracing, job);
    job->text = amb_trace_rows(tracing->trace, &tracing->names);
    job->status = job->text == NULL ? AMB_ENOMEM : AMB_OK;
}

static void rows_made(struct amb_mail *mail, void *owner)
{
    struct tracing *tracing = AMB_CONTAINER_OF(mail, struct tracing, job.mail);
    (void)owner;
    tracing_end(tracing, tracing->job.status, "no memory for the answer", tracing->job.text);
}

static void tell(struct tracing *tracing)
{
    struct amb_control *control = tracing->client->control;
    tracing->stage = TOLD;
    if (has_gone(tracing)) {
        tracing_end(tracing, AMB_ECANCELED, "its client has gone", NULL);
    } else if (control->observer == NULL ||
               amb_trace_names_find(&tracing->names, control, tracing->trace) != AMB_OK) {
        tracing_end(tracing, AMB_ENOMEM, "no memory, or no thread, for the answer", NULL);
    } else {
        tracing->job.make = make_rows;
        tracing->job.to = &control->inbox;
        tracing->job.done = rows_made;
        amb_observer_page(control->observer, &tracing->job);
    }
}

/* ---- armed and disarmed ---- */

static void answered(void *owner, struct amb_order *order);

static void post_all(struct tracing *tracing, const struct amb_order_kind *kind)
{
    struct amb_control *control = tracing->client->control;
    tracing->unanswered = control->shard_count;
    for (unsigned i = 0; i < control->shard_count; i++) {
        struct amb_order *order = tracing->orders[i];
        tracing->orders[i] = NULL;
        amb_order_renew(order, kind, answered);
        amb_order_post(control->shards[i], order);
    }
}

static void forget_topics(struct amb_directory *directory, const struct amb_trace *trace)
{
    for (unsigned i = 0; i < AMB_TRACES_MAX; i++) {
        if (directory->traces[i] == trace) {
            directory->traces[i] = NULL;
        }
    }
}

static void disarm(struct tracing *tracing)
{
    tracing->stage = DISARMING;
    forget_topics(&tracing->client->control->directory, tracing->trace);
    post_all(tracing, &amb_order_trace_disarm);
}

static void answered(void *owner, struct amb_order *order)
{
    struct tracing *tracing = order->context;
    (void)owner;
    tracing->orders[order->shard->index] = order;
    if (--tracing->unanswered > 0) {
        return;
    }
    if (tracing->stage == ARMING) {
        tracing->stage = ARMED;
        amb_info("client %" PRIu64 ": trace %s: armed", tracing->client->id,
                 amb_topic_shown(tracing->trace->pattern));
    } else {
        tell(tracing);
    }
}

static bool is_complete(const struct amb_trace *trace)
{
    return atomic_load_explicit(&trace->over, memory_order_acquire) >= trace->batches;
}

void amb_tracing_run(struct amb_control *control)
{
    AMB_LIST_FOR_EACH_SAFE (node, &control->traces) {
        struct tracing *tracing = AMB_CONTAINER_OF(node, struct tracing, node);
        if (tracing->stage == ARMED && (has_gone(tracing) || control->now_ns >= tracing->until_ns ||
                                        is_complete(tracing->trace))) {
            disarm(tracing);
        }
    }
}

void amb_tracing_fini(struct amb_control *control)
{
    for (unsigned i = 0; i < control->shard_count; i++) {
        for (unsigned k = 0; k < AMB_TRACES_MAX; k++) {
            if (control->shards[i]->trace.armed[k] != NULL) {
                amb_trace_disarm(control->shards[i], control->shards[i]->trace.armed[k]);
            }
        }
    }
    AMB_LIST_FOR_EACH_SAFE (node, &control->traces) {
        struct tracing *tracing = AMB_CONTAINER_OF(node, struct tracing, node);
        forget_topics(&control->directory, tracing->trace);
        tracing_end(tracing, AMB_ECANCELED, "the broker ends", NULL);
    }
}

/* ---- asked ---- */

/* Has its directory a place for it? A tenant has one trace at a time. */
static bool has_room(const struct amb_control *control, uint32_t tenant)
{
    unsigned count = 0;
    AMB_LIST_FOR_EACH (node, &control->traces) {
        const struct amb_trace *other = AMB_CONTAINER_OF(node, struct tracing, node)->trace;
        if (other->tenant == tenant && tenant != AMB_TENANT_ANY) {
            return false;
        }
        count++;
    }
    return count < AMB_TRACES_MAX;
}

/* The tickets of a trace stand in a row, and none has lower bits of 0: trace.h. */
static uint32_t take_tickets(struct amb_control *control, uint32_t batches)
{
    uint32_t first = control->next_ticket == 0 ? 1 : control->next_ticket;
    if ((first & 0xffffu) + batches > 0xffffu) {
        first = (first | 0xffffu) + 2;
    }
    control->next_ticket = first + batches;
    return first;
}

static void take_topics(struct amb_directory *directory, struct amb_trace *trace)
{
    AMB_LIST_FOR_EACH (node, &directory->topics) {
        const struct amb_dir_topic *topic = AMB_CONTAINER_OF(node, struct amb_dir_topic, node);
        amb_trace_topic(trace, topic->id, topic->tenant, topic->name, topic->name_len);
    }
    for (unsigned i = 0; i < AMB_TRACES_MAX; i++) {
        if (directory->traces[i] == NULL) {
            directory->traces[i] = trace;
            break;
        }
    }
}

static struct tracing *tracing_make(struct amb_client *client, const char *pattern,
                                    uint32_t batches)
{
    struct amb_control *control = client->control;
    struct tracing *tracing = calloc(1, sizeof(*tracing));
    if (tracing == NULL) {
        return NULL;
    }
    amb_list_init(&tracing->node);
    tracing->client = client;
    tracing->trace =
        amb_trace_create(pattern, amb_status_tenant(client), take_tickets(control, batches),
                         batches, control->shard_count);
    bool is_whole = tracing->trace != NULL;
    for (unsigned i = 0; i < control->shard_count && is_whole; i++) {
        struct amb_order_trace *order = amb_order_new(&amb_order_trace_arm, NULL, tracing);
        is_whole = order != NULL;
        if (is_whole) {
            order->trace = tracing->trace;
            tracing->orders[i] = &order->order;
        }
    }
    if (!is_whole) {
        tracing_free(tracing);
        return NULL;
    }
    return tracing;
}

enum amb_status amb_tracing_begin(struct amb_client *client, const char *pattern, const char *count,
                                  const char *time, amb_tracing_done_fn done, void *context,
                                  const char **why)
{
    struct amb_control *control = client->control;
    uint64_t batches;
    int64_t time_ns;
    const char *fault = NULL;
    if (amb_pattern_check(pattern, strlen(pattern), &fault) != AMB_OK) {
        *why = fault;
        return AMB_EINVAL;
    }
    if (!amb_text_parse_count(count, &batches) || batches == 0 || batches > AMB_TRACE_BATCHES_MAX ||
        !amb_text_parse_time(time, &time_ns) || time_ns <= 0 || time_ns > AMB_TRACING_NS_MAX) {
        *why = "trace PATTERN N TIME: N is 1 to 100, and the time up to 1h";
        return AMB_EINVAL;
    }
    if (!has_room(control, amb_status_tenant(client))) {
        *why = "as many traces are under way as there may be: 4, and one of each tenant";
        return AMB_EBUSY;
    }
    struct tracing *tracing = tracing_make(client, pattern, (uint32_t)batches);
    if (tracing == NULL) {
        *why = "no memory";
        return AMB_ENOMEM;
    }
    tracing->done = done;
    tracing->context = context;
    tracing->until_ns = amb_deadline_ns(amb_clock_monotonic_ns(), time_ns);
    amb_list_push_back(&control->traces, &tracing->node);
    take_topics(&control->directory, tracing->trace);
    post_all(tracing, &amb_order_trace_arm);
    return AMB_OK;
}
