/* SPDX-License-Identifier: Apache-2.0 */
/* NATS in the bench of rates, plain subjects; see rates.h. With SendAsap a publish writes. */
#include "tests/bench/rates/rates.h"

#include <nats/nats.h>

#define FOREVER_MS INT64_C(3600000)

static natsConnection *conn;
static natsSubscription *sub;

static void must(const char *what, natsStatus status)
{
    if (status != NATS_OK) {
        const char *why = nats_GetLastError(NULL);
        rates_fail(what, why != NULL && why[0] != '\0' ? why : natsStatus_GetText(status));
    }
}

static void dial(const char *address)
{
    natsOptions *options = NULL;
    must("options", natsOptions_Create(&options));
    must("url", natsOptions_SetURL(options, address));
    must("options", natsOptions_SetAllowReconnect(options, false));
    must("options", natsOptions_SetSendAsap(options, true));
    must("connect", natsConnection_Connect(&conn, options));
    natsOptions_Destroy(options);
}

static void publish(const void *data, size_t len)
{
    must("publish", natsConnection_Publish(conn, RATES_TOPIC, data, (int)len));
}

/* The round trip says that the server has the subscription; a publisher starts later. */
static void subscribe(const char *address)
{
    dial(address);
    must("subscribe", natsConnection_SubscribeSync(&sub, conn, RATES_TOPIC));
    must("flush", natsConnection_Flush(conn));
}

static void receive(void)
{
    natsMsg *msg = NULL;
    must("receive", natsSubscription_NextMsg(&msg, sub, FOREVER_MS));
    rates_take(natsMsg_GetData(msg), (size_t)natsMsg_GetDataLength(msg));
    natsMsg_Destroy(msg);
}

const struct rates_system rates_nats = {"nats", dial, publish, subscribe, receive, NULL};
