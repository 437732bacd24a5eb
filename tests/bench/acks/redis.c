/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Redis in the bench of acknowledgements; see acks.h. Without a log it is pub/sub; else a stream,
 * trimmed about as the others' logs are, and a consumer group. XREADGROUP has a COUNT, and the next
 * one is asked for before the last answer is looked at. One XACK for all of an answer goes in the
 * same write (NOACK where nothing is acknowledged). The publisher writes the protocol itself, a
 * pipeline of `batch` commands at a time; unless it waits for confirmations it asks for no replies.
 */
#include "tests/bench/acks/acks.h"

#include <hiredis/hiredis.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#define GROUP "group"
#define PIECE (64u << 10)
#define ROOM 512u /* for what stands around a payload */
#define DIRECT 4096u

/* Commands that have not been written. */
struct pipeline {
    redisContext *conn;
    size_t used;
    uint64_t commands; /* of servers whose replies were not read */
    char bytes[PIECE + DIRECT + ROOM];
};

static const char *refuses(const struct acks_job *job)
{
    if (job->ack == ACKS_CUMULATIVE) {
        return "XACK names each message";
    }
    if (job->is_named) {
        return "it knows no repeats";
    }
    return job->confirm == ACKS_DELIVERED ? "a reply says that a message is stored" : NULL;
}

static bool has_stream(const struct acks_job *job)
{
    return job->is_stored || job->is_group || job->ack != ACKS_NONE ||
           job->confirm != ACKS_UNCONFIRMED;
}

static redisContext *dial(const struct acks_job *job)
{
    redisContext *conn = redisConnectUnix(job->address);
    if (conn == NULL || conn->err != 0) {
        acks_fail("connect", conn != NULL ? conn->errstr : "no memory");
    }
    conn->reader->maxbuf = 0; /* keep the read buffer between messages */
    return conn;
}

static redisReply *checked(redisContext *conn, void *reply)
{
    redisReply *answer = reply;
    if (answer == NULL) {
        acks_fail("redis", conn->errstr);
    }
    if (answer->type == REDIS_REPLY_ERROR) {
        acks_fail("redis", answer->str);
    }
    return answer;
}

static void command(redisContext *conn, const char *text)
{
    freeReplyObject(checked(conn, redisCommand(conn, text)));
}

static void prepare(const struct acks_job *job)
{
    if (has_stream(job)) {
        redisContext *conn = dial(job);
        command(conn, "XGROUP CREATE " ACKS_TOPIC " " GROUP " $ MKSTREAM");
        redisFree(conn);
    }
}

static void write_all(int fd, struct iovec *iov, int count)
{
    while (count > 0) {
        ssize_t done = writev(fd, iov, count);
        if (done < 0) {
            acks_fail("write", "the server is gone");
        }
        while (count > 0 && (size_t)done >= iov->iov_len) {
            done -= (ssize_t)iov->iov_len;
            iov++;
            count--;
        }
        if (count > 0) {
            iov->iov_base = (char *)iov->iov_base + done;
            iov->iov_len -= (size_t)done;
        }
    }
}

static void flush(struct pipeline *pipe)
{
    struct iovec piece = {pipe->bytes, pipe->used};
    write_all(pipe->conn->fd, &piece, pipe->used > 0);
    pipe->used = 0;
}

static void append(struct pipeline *pipe, const char *head, const void *data, size_t len)
{
    char *at = pipe->bytes + pipe->used;
    pipe->used += (size_t)snprintf(at, ROOM, "%s$%zu\r\n", head, len);
    if (len > DIRECT) {
        static char end[] = "\r\n";
        struct iovec iov[] = {{pipe->bytes, pipe->used}, {(void *)(uintptr_t)data, len}, {end, 2}};
        write_all(pipe->conn->fd, iov, 3);
        pipe->used = 0;
        return;
    }
    memcpy(pipe->bytes + pipe->used, data, len);
    memcpy(pipe->bytes + pipe->used + len, "\r\n", 2);
    pipe->used += len + 2;
    if (pipe->used >= PIECE) {
        flush(pipe);
    }
}

/* Reads replies until at most `left` are open. */
static void confirm(struct pipeline *pipe, struct acks_job *job, uint64_t left)
{
    uint64_t count = 0;
    while (pipe->commands > left) {
        void *reply = NULL;
        if (redisGetReply(pipe->conn, &reply) != REDIS_OK) {
            acks_fail("confirm", pipe->conn->errstr);
        }
        freeReplyObject(checked(pipe->conn, reply));
        pipe->commands--;
        count++;
    }
    acks_confirmed(job, count);
}

static void write_out(redisContext *conn)
{
    int is_done = 0;
    while (is_done == 0) {
        if (redisBufferWrite(conn, &is_done) != REDIS_OK) {
            acks_fail("write", conn->errstr);
        }
    }
}

static void silence(redisContext *conn)
{
    redisAppendCommand(conn, "CLIENT REPLY OFF");
    write_out(conn);
}

static void publish(struct acks_job *job)
{
    static struct pipeline pipe;
    char head[ROOM];
    bool is_confirmed = job->confirm != ACKS_UNCONFIRMED;
    pipe.conn = dial(job);
    if (!is_confirmed) {
        silence(pipe.conn);
    }
    if (has_stream(job)) {
        char most[24];
        int digits = snprintf(most, sizeof(most), "%llu", (unsigned long long)job->window * 4);
        (void)snprintf(head, sizeof(head),
                       "*8\r\n$4\r\nXADD\r\n$5\r\n" ACKS_TOPIC
                       "\r\n$6\r\nMAXLEN\r\n$1\r\n~\r\n$%d\r\n%s\r\n$1\r\n*\r\n$1\r\nd\r\n",
                       digits, most);
    } else {
        (void)snprintf(head, sizeof(head), "*3\r\n$7\r\nPUBLISH\r\n$5\r\n" ACKS_TOPIC "\r\n");
    }
    acks_ready(job);
    while (!acks_is_over(job)) {
        uint64_t room = acks_room(job);
        for (uint64_t i = 0; i < room; i++) {
            append(&pipe, head, acks_payload(job), job->size);
            acks_sent(job);
        }
        flush(&pipe);
        if (is_confirmed) { /* the replies of the pipeline before */
            pipe.commands += room;
            confirm(&pipe, job, room);
        }
        if (room == 0) {
            acks_wait();
        }
    }
    if (is_confirmed) {
        confirm(&pipe, job, 0);
    }
    redisFree(pipe.conn);
}

static void take_published(struct acks_job *job, unsigned member, redisContext *conn)
{
    freeReplyObject(checked(conn, redisCommand(conn, "SUBSCRIBE " ACKS_TOPIC)));
    acks_ready(job);
    while (!acks_is_stopped(job)) {
        struct pollfd readable = {conn->fd, POLLIN, 0};
        void *reply = NULL;
        if (poll(&readable, 1, 50) <= 0) {
            continue;
        }
        if (redisBufferRead(conn) != REDIS_OK) {
            acks_fail("receive", conn->errstr);
        }
        while (redisGetReplyFromReader(conn, &reply) == REDIS_OK && reply != NULL) {
            redisReply *got = reply;
            if (got->type == REDIS_REPLY_ARRAY && got->elements == 3) {
                acks_take(job, member, got->element[2]->str, (size_t)got->element[2]->len);
            }
            freeReplyObject(got);
        }
        acks_taken(job, member);
    }
}

/* The messages of an answer to XREADGROUP; NULL: none. [[stream, [[id, [field, value]]...]]] */
static redisReply *messages_of(redisReply *answer)
{
    return answer->type == REDIS_REPLY_ARRAY && answer->elements == 1
               ? answer->element[0]->element[1]
               : NULL;
}

static void acknowledge(redisContext *conn, const redisReply *messages, const char **words,
                        size_t *lengths)
{
    static const char *const first[] = {"XACK", ACKS_TOPIC, GROUP};
    for (size_t i = 0; i < 3; i++) {
        words[i] = first[i];
        lengths[i] = strlen(first[i]);
    }
    for (size_t i = 0; i < messages->elements; i++) {
        const redisReply *id = messages->element[i]->element[0];
        words[3 + i] = id->str;
        lengths[3 + i] = (size_t)id->len;
    }
    if (redisAppendCommandArgv(conn, (int)messages->elements + 3, words, lengths) != REDIS_OK) {
        acks_fail("XACK", "no memory");
    }
}

static redisReply *next_reply(redisContext *conn)
{
    void *reply = NULL;
    if (redisGetReply(conn, &reply) != REDIS_OK) {
        acks_fail("receive", conn->errstr);
    }
    return checked(conn, reply);
}

/* One write has the XACK of what was looked at and the question for what comes after this answer.
 */
static void take_stored(struct acks_job *job, unsigned member, redisContext *conn)
{
    const char **words = calloc(job->batch + 3, sizeof(*words));
    size_t *lengths = calloc(job->batch + 3, sizeof(*lengths));
    char ask[128];
    redisReply *before = NULL; /* looked at, not acknowledged */
    bool is_last = words == NULL || lengths == NULL;
    (void)snprintf(ask, sizeof(ask),
                   "XREADGROUP GROUP " GROUP " c%u COUNT %u BLOCK 50 %s STREAMS " ACKS_TOPIC " >",
                   member, job->batch, job->ack == ACKS_NONE ? "NOACK" : "");
    acks_ready(job);
    redisAppendCommand(conn, ask);
    while (!is_last) {
        redisReply *answer = next_reply(conn);
        redisReply *messages = messages_of(answer);
        redisReply *done = before != NULL && job->ack != ACKS_NONE ? messages_of(before) : NULL;
        is_last = acks_is_stopped(job) && messages == NULL;
        if (done != NULL) {
            acknowledge(conn, done, words, lengths);
        }
        if (!is_last) {
            redisAppendCommand(conn, ask);
        }
        write_out(conn);
        for (size_t i = 0; messages != NULL && i < messages->elements; i++) {
            const redisReply *value = messages->element[i]->element[1]->element[1];
            acks_take(job, member, value->str, (size_t)value->len);
        }
        acks_taken(job, member);
        if (done != NULL) {
            freeReplyObject(next_reply(conn));
        }
        freeReplyObject(before);
        before = answer;
    }
    freeReplyObject(before);
    free(words);
    free(lengths);
}

static void consume(struct acks_job *job, unsigned member)
{
    redisContext *conn = dial(job);
    if (has_stream(job)) {
        take_stored(job, member, conn);
    } else {
        take_published(job, member, conn);
    }
    redisFree(conn);
}

static uint64_t unacked(const struct acks_job *job)
{
    uint64_t left = 0;
    if (job->ack != ACKS_NONE) {
        redisContext *conn = dial(job);
        redisReply *answer = checked(conn, redisCommand(conn, "XPENDING " ACKS_TOPIC " " GROUP));
        left = answer->elements > 0 ? (uint64_t)answer->element[0]->integer : 1;
        freeReplyObject(answer);
        redisFree(conn);
    }
    return left;
}

const struct acks_system acks_redis = {"redis", refuses, prepare, publish, consume, unacked};
