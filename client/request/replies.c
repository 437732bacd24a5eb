/* SPDX-License-Identifier: Apache-2.0 */
#include "client/request/replies.h"

#include "client/batch/pub.h"
#include "client/conn/conn.h"
#include "client/conn/error.h"
#include "client/drive/drive.h"
#include "client/drive/lock.h"
#include "client/drive/notify.h"
#include "client/drive/wake.h"
#include "client/message/landing.h"
#include "client/message/message.h"
#include "client/subscribe/bring.h"
#include "wire/base/assert.h"
#include "wire/base/clock.h"
#include "wire/base/hash.h"
#include "wire/codec/topic.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define CELLS_FIRST UINT64_C(64)
#define TAKEN_AT_ONCE 32u
#define SECRET_BYTES 16u

/* ---- the subscription ---- */

static struct amb_replies *replies_create(enum amb_status *status)
{
    uint8_t secret[2 * SECRET_BYTES]; /* of the name, and of the numbers */
    ssize_t got;
    do {
        got = getrandom(secret, sizeof(secret), 0);
    } while (got < 0 && errno == EINTR);
    *status = AMB_EINTERNAL;
    if (got != (ssize_t)sizeof(secret)) {
        return NULL;
    }
    struct amb_replies *replies = calloc(1, sizeof(*replies));
    *status = replies != NULL ? AMB_OK : AMB_ENOMEM;
    if (replies == NULL) {
        return NULL;
    }
    amb_list_init(&replies->open);
    amb_list_init(&replies->done);
    size_t at = (size_t)snprintf(replies->topic, sizeof(replies->topic), "%s", AMB_INBOX_PREFIX);
    memcpy(replies->key, secret + SECRET_BYTES, sizeof(replies->key));
    for (size_t i = 0; i < SECRET_BYTES; i++) {
        at += (size_t)snprintf(replies->topic + at, sizeof(replies->topic) - at, "%02x", secret[i]);
    }
    return replies;
}

enum amb_status amb_replies_open(struct amb_conn *conn)
{
    amb_conn_lock(conn);
    bool is_open = conn->replies != NULL;
    amb_conn_unlock(conn);
    if (is_open) {
        return AMB_OK;
    }
    enum amb_status status;
    struct amb_replies *replies = replies_create(&status);
    if (replies == NULL) {
        return amb_conn_fail(conn, status, "no inbox for replies: %s", amb_status_text(status));
    }
    status = amb_subscribe(conn, replies->topic, NULL, &replies->sub);
    if (status != AMB_OK) {
        free(replies);
        return status;
    }
    amb_conn_lock(conn);
    bool is_first = conn->replies == NULL;
    if (is_first) {
        replies->sub->is_inbox = true;
        conn->replies = replies;
    }
    amb_conn_unlock(conn);
    if (!is_first) { /* Two threads asked for the first time. */
        (void)amb_sub_close(replies->sub, AMB_NOWAIT);
        free(replies);
    }
    return AMB_OK;
}

void amb_replies_fini(struct amb_conn *conn)
{
    if (conn->replies != NULL) {
        amb_assert(conn->replies->count == 0 && amb_list_is_empty(&conn->replies->done));
        free(conn->replies->cells);
        free(conn->replies);
        conn->replies = NULL;
    }
}

/* ---- the table ---- */

static void note_deadline(struct amb_conn *conn, const struct amb_asked *asked)
{
    if (asked->deadline_ns < conn->notify.reply_ns) {
        conn->notify.reply_ns = asked->deadline_ns;
    }
}

static bool grow(struct amb_replies *replies)
{
    uint64_t size = replies->cells == NULL ? CELLS_FIRST : (replies->mask + 1) * 2;
    struct amb_asked **cells = calloc(size, sizeof(struct amb_asked *));
    if (cells == NULL) {
        return false;
    }
    /* Numbers that differ by a multiple of the new size differ by one of the old, too. */
    for (uint64_t i = 0; replies->cells != NULL && i <= replies->mask; i++) {
        if (replies->cells[i] != NULL) {
            cells[replies->cells[i]->number & (size - 1)] = replies->cells[i];
        }
    }
    free(replies->cells);
    replies->cells = cells;
    replies->mask = size - 1;
    return true;
}

/* A program that was asked something knows the inbox, and shall not answer what others were asked.
 * The upper half of a number says nothing of the next one's, the lower half finds a place in the
 * table. */
static uint64_t next_number(struct amb_replies *replies)
{
    uint64_t count = ++replies->last;
    uint64_t secret = amb_siphash24(replies->key, &count, sizeof(count));
    return (secret & ~UINT64_C(0xffffffff)) | (count & UINT64_C(0xffffffff));
}

enum amb_status amb_replies_enter(struct amb_conn *conn, struct amb_asked *asked)
{
    struct amb_replies *replies = conn->replies;
    if (replies->count >= AMB_REQUESTS_MAX) {
        return AMB_ELIMIT;
    }
    if ((replies->cells == NULL || replies->count * 2 > replies->mask) && !grow(replies)) {
        return AMB_ENOMEM;
    }
    do { /* A number is left out where an old request still has its place. */
        asked->number = next_number(replies);
    } while (replies->cells[asked->number & replies->mask] != NULL);
    replies->cells[asked->number & replies->mask] = asked;
    replies->count++;
    amb_list_push_back(&replies->open, &asked->node);
    amb_list_init(&asked->of_pub);
    note_deadline(conn, asked);
    return AMB_OK;
}

static void forget(struct amb_replies *replies, struct amb_asked *asked)
{
    struct amb_asked **cell = &replies->cells[asked->number & replies->mask];
    if (*cell == asked) {
        *cell = NULL;
        replies->count--;
    }
    amb_list_remove(&asked->of_pub);
}

void amb_replies_leave(struct amb_conn *conn, struct amb_asked *asked)
{
    forget(conn->replies, asked);
    amb_list_remove(&asked->node);
}

/* Its callback is due, unless it is still being put. */
static void make_due(struct amb_conn *conn, struct amb_asked *asked)
{
    if (asked->on_reply != NULL && asked->is_put) {
        amb_list_push_back(&conn->replies->done, &asked->node);
        amb_notify_callback(conn);
    }
}

static void finish(struct amb_conn *conn, struct amb_asked *asked, enum amb_status status,
                   struct amb_msg *reply)
{
    amb_assert(!asked->is_done);
    asked->is_done = true;
    asked->status = status;
    asked->reply = reply;
    forget(conn->replies, asked);
    amb_list_remove(&asked->node);
    make_due(conn, asked);
    amb_conn_changed(conn);
}

/* ---- replies ---- */

static struct amb_asked *find(const struct amb_replies *replies, const struct amb_msg *msg)
{
    size_t len = 0;
    const uint8_t *bytes = amb_msg_own_prop(msg, AMB_PROP_REQUEST, &len);
    if (bytes == NULL || len != sizeof(uint64_t) || replies->cells == NULL) {
        return NULL;
    }
    uint64_t number = 0;
    for (unsigned i = 0; i < sizeof(number); i++) {
        number |= (uint64_t)bytes[i] << (8 * i);
    }
    struct amb_asked *asked = replies->cells[number & replies->mask];
    return asked != NULL && asked->number == number ? asked : NULL;
}

static void collect(struct amb_conn *conn)
{
    struct amb_replies *replies = conn->replies;
    struct amb_msg *msgs[TAKEN_AT_ONCE];
    size_t n;
    while ((n = amb_sub_take(replies->sub, msgs, TAKEN_AT_ONCE)) != 0) {
        for (size_t i = 0; i < n; i++) {
            struct amb_asked *asked = find(replies, msgs[i]);
            if (asked != NULL) {
                finish(conn, asked, AMB_OK, msgs[i]);
            } else {
                replies->unwanted++;
                amb_msg_release(msgs[i]);
            }
        }
    }
}

/* Ends what is too late. A waiter looks at the clock itself. */
static void expire(struct amb_conn *conn, int64_t now_ns)
{
    struct amb_replies *replies = conn->replies;
    conn->notify.reply_ns = INT64_MAX;
    AMB_LIST_FOR_EACH_SAFE (node, &replies->open) {
        struct amb_asked *asked = AMB_CONTAINER_OF(node, struct amb_asked, node);
        if (asked->on_reply == NULL || !asked->is_put) {
            continue;
        }
        if (asked->deadline_ns <= now_ns) {
            finish(conn, asked, AMB_ETIMEDOUT, NULL);
        } else {
            note_deadline(conn, asked);
        }
    }
}

void amb_replies_turn(struct amb_conn *conn)
{
    struct amb_replies *replies = conn->replies;
    if (replies == NULL) {
        return;
    }
    if (amb_sub_has_ready(replies->sub)) {
        collect(conn);
    }
    if (conn->notify.reply_ns != INT64_MAX) {
        amb_replies_timer(conn, amb_clock_monotonic_ns());
    }
}

void amb_replies_timer(struct amb_conn *conn, int64_t now_ns)
{
    if (conn->replies == NULL || now_ns < conn->notify.reply_ns) {
        return;
    }
    conn->notify.reply_ns = INT64_MAX; /* Waits that the look wakes do not look once more. */
    /* Replies that came while this process was stopped, or had no core, have come in time. A driver
     * that sleeps is behind this thread then. */
    if (!conn->driver.is_taken || conn->driver.is_asleep) {
        (void)amb_conn_receive(conn);
    }
    if (amb_sub_has_ready(conn->replies->sub)) {
        collect(conn);
    }
    expire(conn, now_ns);
}

bool amb_replies_is_due(const struct amb_conn *conn)
{
    return conn->replies != NULL && !amb_list_is_empty(&conn->replies->done) &&
           !conn->replies->is_callback_run;
}

int64_t amb_replies_patience(const struct amb_conn *conn, int64_t timeout_ns)
{
    if (conn->replies == NULL || conn->notify.reply_ns == INT64_MAX || timeout_ns == AMB_NOWAIT) {
        return timeout_ns;
    }
    int64_t left = conn->notify.reply_ns - amb_clock_monotonic_ns();
    left = left > AMB_US ? left : AMB_US;
    return left < timeout_ns ? left : timeout_ns;
}

unsigned amb_replies_run(struct amb_conn *conn, unsigned max)
{
    unsigned ran = 0;
    amb_conn_lock(conn);
    while (ran < max && amb_replies_is_due(conn)) {
        struct amb_replies *replies = conn->replies;
        struct amb_list_node *node = amb_list_pop_front(&replies->done);
        struct amb_asked *asked = AMB_CONTAINER_OF(node, struct amb_asked, node);
        replies->is_callback_run = true;
        amb_conn_unlock(conn);
        asked->on_reply(asked->status, asked->reply, asked->arg);
        amb_msg_release(asked->reply);
        free(asked);
        amb_conn_lock(conn);
        replies->is_callback_run = false;
        amb_conn_changed(conn);
        ran++;
    }
    amb_conn_unlock(conn);
    return ran;
}

void amb_replies_end(struct amb_conn *conn, enum amb_status why)
{
    if (conn->replies == NULL) {
        return;
    }
    AMB_LIST_FOR_EACH_SAFE (node, &conn->replies->open) {
        finish(conn, AMB_CONTAINER_OF(node, struct amb_asked, node), why, NULL);
    }
}

/* ---- what becomes of their publishing ---- */

void amb_replies_put(struct amb_conn *conn, struct amb_asked *asked, struct amb_pub *pub,
                     uint64_t seq)
{
    asked->seq = seq;
    asked->is_put = true;
    if (asked->is_done) {
        make_due(conn, asked);
        return;
    }
    note_deadline(conn, asked); /* Meanwhile another one's time was looked at, perhaps. */
    if (seq > pub->settle.settled_seq) {
        amb_list_push_back(&pub->asking.asked, &asked->of_pub);
        return;
    }
    for (uint32_t i = 0; i < AMB_UNMATCHED_MAX; i++) { /* Its answer was here first. */
        const struct amb_unmatched *one = &pub->asking.recent[i];
        if (one->first <= seq && seq <= one->last) {
            finish(conn, asked, one->status, NULL);
            return;
        }
    }
}

void amb_asking_settled(struct amb_pub *pub, uint64_t first, uint64_t last, enum amb_status status,
                        uint32_t matched)
{
    struct amb_asking *asking = &pub->asking;
    if (status == AMB_OK && matched == 0) {
        status = AMB_ENORESPONDERS;
    }
    if (status != AMB_OK) {
        asking->recent[asking->next++ % AMB_UNMATCHED_MAX] =
            (struct amb_unmatched){.first = first, .last = last, .status = status};
    }
    AMB_LIST_FOR_EACH_SAFE (node, &asking->asked) {
        struct amb_asked *asked = AMB_CONTAINER_OF(node, struct amb_asked, of_pub);
        if (asked->seq > last) {
            continue;
        }
        amb_list_remove(&asked->of_pub);
        if (status != AMB_OK) {
            finish(pub->conn, asked, status, NULL);
        }
    }
}
