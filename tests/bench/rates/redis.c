/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Redis in the bench of rates, pub/sub; see rates.h. The publisher waits for no reply: it reads
 * those that have come, many at a time.
 */
#include "tests/bench/rates/rates.h"

#include <hiredis/hiredis.h>
#include <stdlib.h>
#include <string.h>

#define REPLIES 64u /* open before the publisher reads: the first of them has come long ago */

static redisContext *conn;
static unsigned unread;

static void must(const char *what, int rc)
{
    if (rc != REDIS_OK) {
        rates_fail(what, conn->errstr);
    }
}

/* HOST:PORT or the path of a socket. */
static void dial(const char *address)
{
    const char *colon = strrchr(address, ':');
    if (colon == NULL) {
        conn = redisConnectUnix(address);
    } else {
        char *host = strndup(address, (size_t)(colon - address));
        conn = redisConnect(host, (int)strtol(colon + 1, NULL, 10));
        free(host);
    }
    if (conn == NULL || conn->err != 0) {
        rates_fail("connect", conn != NULL ? conn->errstr : "no memory");
    }
    conn->reader->maxbuf = 0; /* keep the read buffer between messages */
}

static void take_replies(void)
{
    must("read", redisBufferRead(conn));
    for (;;) {
        void *reply = NULL;
        must("reply", redisGetReplyFromReader(conn, &reply));
        if (reply == NULL) {
            return;
        }
        if (((redisReply *)reply)->type == REDIS_REPLY_ERROR) {
            rates_fail("publish", ((redisReply *)reply)->str);
        }
        freeReplyObject(reply);
        unread--;
    }
}

static void publish(const void *data, size_t len)
{
    const char *words[] = {"PUBLISH", RATES_TOPIC, data};
    const size_t lengths[] = {strlen(words[0]), strlen(words[1]), len};
    int is_done = 0;
    must("publish", redisAppendCommandArgv(conn, 3, words, lengths));
    while (is_done == 0) {
        must("write", redisBufferWrite(conn, &is_done));
    }
    unread++;
    if (unread >= REPLIES) {
        take_replies();
    }
}

static void subscribe(const char *address)
{
    dial(address);
    void *reply = redisCommand(conn, "SUBSCRIBE " RATES_TOPIC);
    must("subscribe", reply != NULL ? REDIS_OK : REDIS_ERR);
    freeReplyObject(reply);
}

static void receive(void)
{
    void *reply = NULL;
    must("receive", redisGetReply(conn, &reply));
    const redisReply *got = reply;
    if (got->type != REDIS_REPLY_ARRAY || got->elements != 3) {
        rates_fail("receive", "no message");
    }
    rates_take(got->element[2]->str, (size_t)got->element[2]->len);
    freeReplyObject(reply);
}

const struct rates_system rates_redis = {"redis", dial, publish, subscribe, receive, NULL};
