/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/ctl/top/lens.h"

#include <stdint.h>
#include <string.h>
#include <strings.h>

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

static const struct amb_top_column topics[] = {
    {"TOPIC", "topic", AMB_TOP_TEXT, .help = "its name"},
    {"MSG/S", "messages", AMB_TOP_RATE, .help = "messages that it takes"},
    {"BYTES/S", "bytes", AMB_TOP_BYTE_RATE, .help = "payload of these"},
    {"HELD", "log_bytes", AMB_TOP_BYTES, .help = "memory that its log holds"},
    {"WAIT", "log_messages", AMB_TOP_COUNT, .help = "messages in its log"},
    {"SUBS", "subscriptions", AMB_TOP_COUNT, .help = "subscriptions that match it"},
    {"DROP/S", "dropped", AMB_TOP_RATE, .is_loss = true,
     .help = "messages that went before all had read them"},
    {"DROPPED", "dropped", AMB_TOP_COUNT, .help = "all of these"},
    {"REFUSED", "rejected", AMB_TOP_COUNT, .help = "messages that it has refused"},
    {"MESSAGES", "messages", AMB_TOP_COUNT, .help = "all that it has taken"},
    {"WORKER", "worker", AMB_TOP_NUMBER, .help = "its home"},
    {"TENANT", "tenant", AMB_TOP_TEXT, .help = "of its users"},
};

static const struct amb_top_column subs[] = {
    {"PATTERN", "pattern", AMB_TOP_TEXT, .help = "the topics that it asks for"},
    {"MSG/S", "delivered", AMB_TOP_RATE, .help = "messages that it is given"},
    {"BYTES/S", "bytes", AMB_TOP_BYTE_RATE, .help = "payload of these"},
    {"LAG", "pending_bytes", AMB_TOP_BYTES, .help = "bytes in logs that wait for it"},
    {"OUT", "outstanding_bytes", AMB_TOP_BYTES, .help = "bytes that it has and has not given back"},
    {"CREDIT", "credit_bytes", AMB_TOP_BYTES, .help = "bytes that may be out"},
    {"HOLDS", "held_host_bytes+held_gpu_bytes", AMB_TOP_BYTES,
     .help = "memory that it holds in place"},
    {"LOST/S", "lost", AMB_TOP_RATE, .is_loss = true, .help = "messages that it does not get"},
    {"LOST", "lost", AMB_TOP_COUNT, .help = "all of these"},
    {"CLIENT", "client", AMB_TOP_NUMBER, .help = "the number of its client"},
    {"WORKER", "worker", AMB_TOP_NUMBER, .help = "its worker"},
    {"ID", "id", AMB_TOP_NUMBER, .help = "its number"},
};

static const struct amb_top_column clients[] = {
    {"CLIENT", "name", AMB_TOP_TEXT, .help = "its name, by its own word"},
    {"ID", "id", AMB_TOP_NUMBER, .help = "its number, as clients kick takes it"},
    {"IN/S", "messages_in", AMB_TOP_RATE, .help = "messages that it publishes"},
    {"BYTES IN/S", "bytes_in", AMB_TOP_BYTE_RATE, .help = "payload of these"},
    {"OUT/S", "messages_out", AMB_TOP_RATE, .help = "messages that it is given"},
    {"BYTES OUT/S", "bytes_out", AMB_TOP_BYTE_RATE, .help = "payload of these"},
    {"LAG", "pending_bytes", AMB_TOP_BYTES, "subs", "client", "id",
     .help = "bytes in logs that wait for its subscriptions"},
    {"MEMORY", "mapped_bytes+leased_bytes", AMB_TOP_BYTES,
     .help = "messages that it holds in place, and leases"},
    {"HEAP", "heap_bytes", AMB_TOP_BYTES, .help = "heap that the broker uses for it"},
    {"LOST/S", "lost", AMB_TOP_RATE, "subs", "client", "id", .is_loss = true,
     .help = "messages that its subscriptions do not get"},
    {"LOST", "lost", AMB_TOP_COUNT, "subs", "client", "id", .help = "all of these"},
    {"LINK", "link", AMB_TOP_TEXT, .help = "how it is connected"},
    {"USER", "user", AMB_TOP_TEXT, .help = "its user"},
    {"PID", "pid", AMB_TOP_NUMBER, .help = "its process"},
    {"WORKER", "worker", AMB_TOP_NUMBER, .help = "the worker of its session"},
};

static const struct amb_top_column workers[] = {
    {"WORKER", "worker", AMB_TOP_NUMBER, .help = "its number"},
    {"IN/S", "messages_in", AMB_TOP_RATE, .help = "messages that come"},
    {"BYTES IN/S", "bytes_in", AMB_TOP_BYTE_RATE, .help = "payload of these"},
    {"OUT/S", "messages_out", AMB_TOP_RATE, .help = "messages that readers are given, each time"},
    {"BYTES OUT/S", "bytes_out", AMB_TOP_BYTE_RATE, .help = "payload of these"},
    {"LAG", "pending_bytes", AMB_TOP_BYTES, "subs", "worker", "worker",
     .help = "bytes in logs that wait for its subscriptions"},
    {"HELD", "log_bytes", AMB_TOP_BYTES, "topics", "worker", "worker",
     .help = "memory that logs of its topics hold"},
    {"LOST/S", AMB_TOP_LOST, AMB_TOP_RATE, .is_loss = true,
     .help = "messages that readers do not get"},
    {"LOST", AMB_TOP_LOST, AMB_TOP_COUNT, .help = "all of these"},
    {"DROPPED", "dropped", AMB_TOP_COUNT, .help = "messages that went before all had read them"},
    {"TURNS/S", "turns", AMB_TOP_RATE, .help = "turns of its loop"},
    {"LONGEST", "longest_turn_10s_ns", AMB_TOP_NS, .help = "the longest turn of 10 s"},
    {"CPU", "processor", AMB_TOP_NUMBER, .help = "the processor that it is bound to"},
};

static const struct amb_top_column queues[] = {
    {"PATTERN", "pattern", AMB_TOP_TEXT, .help = "the topics that it asks for"},
    {"DURABLE", "durable", AMB_TOP_TEXT, .help = "its durable name"},
    {"GROUP", "group", AMB_TOP_TEXT, .help = "its group"},
    {"MSG/S", "delivered", AMB_TOP_RATE, .help = "messages that it gives to members"},
    {"LAG", "waiting_bytes", AMB_TOP_BYTES, .help = "bytes in logs that wait for it"},
    {"PENDING", "pending", AMB_TOP_COUNT, .help = "messages that are not acknowledged"},
    {"AGAIN/S", "redelivered", AMB_TOP_RATE, .help = "messages that are given out again"},
    {"LOST/S", "lost+dead", AMB_TOP_RATE, .is_loss = true,
     .help = "messages that are lost or given up"},
    {"LOST", "lost", AMB_TOP_COUNT, .help = "messages that went before a member had them"},
    {"DEAD", "dead", AMB_TOP_COUNT, .help = "messages that it has given up"},
    {"MEMBERS", "members", AMB_TOP_COUNT, .help = "its members"},
    {"USER", "user", AMB_TOP_TEXT, .help = "the owner of the names"},
    {"WORKER", "worker", AMB_TOP_NUMBER, .help = "its worker"},
};

static const struct amb_top_lens lenses[] = {
    [AMB_TOP_TOPICS] =
        {"topics", "topic", {"topic", "tenant"}, {NULL}, topics, COUNT_OF(topics), 1, true},
    [AMB_TOP_SUBS] =
        {"subs", "subscription", {"client", "id"}, {NULL}, subs, COUNT_OF(subs), 1, true},
    [AMB_TOP_CLIENTS] =
        {"clients", "client", {"id"}, {"subs"}, clients, COUNT_OF(clients), 4, true},
    [AMB_TOP_WORKERS] =
        {"workers", "worker", {"worker"}, {"subs", "topics"}, workers, COUNT_OF(workers), 1, false},
    [AMB_TOP_QUEUES] = {"queues", "queue", {"id"}, {NULL}, queues, COUNT_OF(queues), 4, true},
};

_Static_assert(COUNT_OF(lenses) == AMB_TOP_VIEWS, "one each");
_Static_assert(COUNT_OF(topics) <= AMB_TOP_COLUMNS_MAX, "room");
_Static_assert(COUNT_OF(subs) <= AMB_TOP_COLUMNS_MAX, "room");
_Static_assert(COUNT_OF(clients) <= AMB_TOP_COLUMNS_MAX, "room");
_Static_assert(COUNT_OF(workers) <= AMB_TOP_COLUMNS_MAX, "room");
_Static_assert(COUNT_OF(queues) <= AMB_TOP_COLUMNS_MAX, "room");

const struct amb_top_lens *amb_top_lens(enum amb_top_view view)
{
    return &lenses[view];
}

enum amb_top_view amb_top_view_named(const char *query)
{
    for (unsigned i = 0; i < AMB_TOP_VIEWS; i++) {
        if (strcmp(lenses[i].query, query) == 0) {
            return (enum amb_top_view)i;
        }
    }
    return AMB_TOP_TOPICS;
}

size_t amb_top_column(const struct amb_top_lens *lens, const char *title)
{
    for (size_t i = 0; i < lens->count; i++) {
        if (strcasecmp(lens->columns[i].title, title) == 0) {
            return i;
        }
    }
    return SIZE_MAX;
}
