/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NATS and JetStream in the bench of acknowledgements; see acks.h. Without a log (-stored) it is
 * plain subjects and queue groups. Else it is a stream in memory and one consumer, its state in
 * memory too. All members pull in batches, or a delivery group is pushed to. Confirmed messages go
 * by js_PublishAsync with up to `pending` on their way, others by natsConnection_Publish to the
 * stream's subject, which costs the server no answer.
 */
#include "tests/bench/acks/acks.h"

#include <nats/nats.h>
#include <stdio.h>
#include <stdlib.h>

#define STREAM "BENCH"
#define CONSUMER "consumer"
#define DELIVER "deliver"
#define SECOND_NS 1000000000

struct client {
    natsConnection *conn;
    jsCtx *js;
};

static void must(const char *what, natsStatus status)
{
    if (status != NATS_OK) {
        const char *why = nats_GetLastError(NULL);
        acks_fail(what, why != NULL && why[0] != '\0' ? why : natsStatus_GetText(status));
    }
}

/* Whether the messages are in a stream. */
static bool has_stream(const struct acks_job *job)
{
    return job->is_stored || job->ack != ACKS_NONE || job->confirm != ACKS_UNCONFIRMED ||
           job->is_named;
}

static const char *refuses(const struct acks_job *job)
{
    if (job->confirm == ACKS_DELIVERED) {
        return "JetStream tells a publisher that a message is stored, not that it was consumed";
    }
    return NULL;
}

/* One of the acknowledgements of js_PublishAsync, on a thread of the library. */
static void stored(jsCtx *js, natsMsg *msg, jsPubAck *ack, jsPubAckErr *failure, void *arg)
{
    (void)js;
    if (ack == NULL || ack->Duplicate) {
        acks_fail("a message is refused", failure != NULL ? failure->ErrText : "as a duplicate");
    }
    acks_confirmed(arg, 1);
    natsMsg_Destroy(msg);
}

static struct client dial(const struct acks_job *job, void *arg)
{
    struct client client = {0};
    natsOptions *options = NULL;
    jsOptions js;
    must("options", natsOptions_Create(&options));
    must("url", natsOptions_SetURL(options, job->address));
    must("options", natsOptions_SetAllowReconnect(options, false));
    must("options", natsOptions_SetSendAsap(options, job->size >= (64u << 10)));
    must("options", natsOptions_SetMaxPendingMsgs(options, 1 << 20));
    must("connect", natsConnection_Connect(&client.conn, options));
    natsOptions_Destroy(options);
    must("jetstream", jsOptions_Init(&js));
    js.PublishAsync.MaxPending = job->pending;
    js.PublishAsync.StallWait = 20000;
    if (arg != NULL) {
        js.PublishAsync.AckHandler = stored;
        js.PublishAsync.AckHandlerClosure = arg;
    }
    must("jetstream", natsConnection_JetStream(&client.js, client.conn, &js));
    return client;
}

static void hang_up(struct client *client)
{
    jsCtx_Destroy(client->js);
    natsConnection_Close(client->conn);
    natsConnection_Destroy(client->conn);
}

/* No run fills it with small messages; large ones fall out behind. Interest and work queue were
 * slower with acknowledgements. */
static void add_stream(jsCtx *js)
{
    jsStreamConfig config;
    const char *subjects[] = {ACKS_TOPIC};
    must("stream", jsStreamConfig_Init(&config));
    config.Name = STREAM;
    config.Subjects = subjects;
    config.SubjectsLen = 1;
    config.Storage = js_MemoryStorage;
    config.Retention = js_LimitsPolicy;
    config.MaxBytes = (int64_t)1 << 30;
    config.Discard = js_DiscardOld;
    config.Duplicates = 120 * (int64_t)SECOND_NS;
    must("stream", js_AddStream(NULL, js, &config, NULL, NULL));
}

static void add_consumer(jsCtx *js, const struct acks_job *job)
{
    static const jsAckPolicy policies[] = {
        [ACKS_NONE] = js_AckNone, [ACKS_EXPLICIT] = js_AckExplicit, [ACKS_CUMULATIVE] = js_AckAll};
    jsConsumerConfig config;
    must("consumer", jsConsumerConfig_Init(&config));
    config.Durable = CONSUMER;
    config.AckPolicy = policies[job->ack];
    config.AckWait = 30 * (int64_t)SECOND_NS;
    config.MemoryStorage = true;
    if (job->ack != ACKS_NONE) {
        config.MaxAckPending = job->pending;
    }
    if (job->is_push) {
        config.DeliverSubject = DELIVER;
        config.DeliverGroup = job->is_group ? "group" : NULL;
    } else {
        config.MaxWaiting = 4096;
    }
    must("consumer", js_AddConsumer(NULL, js, STREAM, &config, NULL, NULL));
}

static void prepare(const struct acks_job *job)
{
    if (has_stream(job)) {
        struct client client = dial(job, NULL);
        add_stream(client.js);
        add_consumer(client.js, job);
        hang_up(&client);
    }
}

static void publish_stored(struct client *client, struct acks_job *job)
{
    char id[32];
    jsPubOptions options;
    const void *data = acks_payload(job);
    if (job->confirm == ACKS_UNCONFIRMED && !job->is_named) {
        must("publish", natsConnection_Publish(client->conn, job->topic, data, (int)job->size));
        return;
    }
    must("publish", jsPubOptions_Init(&options));
    if (job->is_named) {
        (void)snprintf(id, sizeof(id), "p-%llu", (unsigned long long)job->next);
        options.MsgId = id;
    }
    must("publish", js_PublishAsync(client->js, ACKS_TOPIC, data, (int)job->size, &options));
}

static void publish(struct acks_job *job)
{
    bool is_confirmed = job->confirm != ACKS_UNCONFIRMED || job->is_named;
    struct client client = dial(job, is_confirmed ? job : NULL);
    acks_ready(job);
    while (!acks_is_over(job)) {
        uint64_t room = acks_room(job);
        for (uint64_t i = 0; i < room; i++) {
            publish_stored(&client, job);
            acks_sent(job);
        }
        if (room == 0) {
            acks_wait();
        }
    }
    if (is_confirmed) {
        must("confirmed", js_PublishAsyncComplete(client.js, NULL));
        while (atomic_load(&job->shared->confirmed) < job->next) {
            acks_wait(); /* The handler of the last one may still run. */
        }
    }
    must("flush", natsConnection_Flush(client.conn));
    hang_up(&client);
}

/* Asks for `batch` more. */
static void ask(struct client *client, const struct acks_job *job, const char *inbox)
{
    char text[64];
    (void)snprintf(text, sizeof(text), "{\"batch\":%u,\"expires\":60000000000}", job->batch);
    must("ask", natsConnection_PublishRequestString(
                    client->conn, "$JS.API.CONSUMER.MSG.NEXT." STREAM "." CONSUMER, inbox, text));
}

static void acknowledge(struct client *client, natsMsg *msg)
{
    must("ack", natsConnection_PublishString(client->conn, natsMsg_GetReply(msg), "+ACK"));
}

/*
 * Pulled, pushed, and plain subjects. inbox: two batches are asked for ahead, as later clients'
 * Consume does; natsSubscription_Fetch of this release writes past its list when more has come.
 */
static void take_all(struct client *client, struct acks_job *job, unsigned member,
                     natsSubscription *sub, const char *inbox)
{
    natsMsg *last = NULL;
    uint64_t asked = 0;
    while (!acks_is_stopped(job)) {
        natsMsg *msg = NULL;
        for (; inbox != NULL && asked <= job->batch; asked += job->batch) {
            ask(client, job, inbox);
        }
        natsStatus status = natsSubscription_NextMsg(&msg, sub, job->mine > 0 ? 1 : 50);
        if (status != NATS_TIMEOUT) {
            must("receive", status);
            acks_take(job, member, natsMsg_GetData(msg), (size_t)natsMsg_GetDataLength(msg));
            if (job->ack == ACKS_EXPLICIT) {
                acknowledge(client, msg);
            }
            natsMsg_Destroy(last);
            last = msg;
            asked--;
        }
        if (job->mine > 0 && (msg == NULL || job->mine >= job->batch)) {
            if (job->ack == ACKS_CUMULATIVE) {
                acknowledge(client, last);
            }
            acks_taken(job, member);
        }
    }
    natsMsg_Destroy(last);
}

static void subscribe_pushed(struct client *client, const struct acks_job *job,
                             natsSubscription **sub)
{
    jsSubOptions options;
    must("options", jsSubOptions_Init(&options));
    options.Stream = STREAM;
    options.Consumer = CONSUMER;
    options.Config.MemoryStorage = true; /* compared with what the consumer has */
    options.ManualAck = true;
    options.Queue = job->is_group ? "group" : NULL;
    must("subscribe", js_SubscribeSync(sub, client->js, ACKS_TOPIC, NULL, &options, NULL));
}

static void consume(struct acks_job *job, unsigned member)
{
    struct client client = dial(job, NULL);
    natsSubscription *sub = NULL;
    char inbox[32];
    if (has_stream(job) && job->is_push) {
        subscribe_pushed(&client, job, &sub);
    } else if (has_stream(job)) {
        (void)snprintf(inbox, sizeof(inbox), "pulled.%u", member);
        must("subscribe", natsConnection_SubscribeSync(&sub, client.conn, inbox));
    } else if (job->is_group) {
        must("subscribe", natsConnection_QueueSubscribeSync(&sub, client.conn, job->topic, "g"));
    } else {
        must("subscribe", natsConnection_SubscribeSync(&sub, client.conn, job->topic));
    }
    must("subscribe", natsSubscription_SetPendingLimits(sub, -1, -1));
    must("flush", natsConnection_Flush(client.conn));
    acks_ready(job);
    take_all(&client, job, member, sub, has_stream(job) && !job->is_push ? inbox : NULL);
    must("flush", natsConnection_Flush(client.conn)); /* The server has read all acks. */
    natsSubscription_Destroy(sub);
    hang_up(&client);
}

static uint64_t unacked(const struct acks_job *job)
{
    uint64_t left = 0;
    if (job->ack != ACKS_NONE) {
        struct client client = dial(job, NULL);
        jsConsumerInfo *info = NULL;
        must("info", js_GetConsumerInfo(&info, client.js, STREAM, CONSUMER, NULL, NULL));
        left = (uint64_t)info->NumAckPending;
        jsConsumerInfo_Destroy(info);
        hang_up(&client);
    }
    return left;
}

const struct acks_system acks_nats = {"nats", refuses, prepare, publish, consume, unacked};
