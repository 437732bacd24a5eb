/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests and replies between two connections of one process, checked.
 *
 *     requester SERVICE_URL REQUESTER_URL COUNT
 *
 * Prints one line for each rule that held, then "done".
 */
#include <amb/amb.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define BIG (200u << 10)

static struct amb_conn *service, *client;
static atomic_uint answered;

static void need(bool condition, const char *rule)
{
    if (!condition) {
        (void)fprintf(stderr, "requester: %s: %s\n", rule, amb_last_error(client).text);
        exit(1);
    }
}

static int64_t now_ns(void)
{
    struct timespec ts;
    (void)clock_gettime(CLOCK_MONOTONIC, &ts);
    return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

/* Says everything twice; "mute" gets no answer. */
static void echo(struct amb_msg *msg, void *arg)
{
    (void)arg;
    need(amb_msg_wants_reply(msg), "what arrives is a request");
    need(amb_msg_prop_count(msg) == 0, "the library's properties are not the program's");
    if (amb_msg_size(msg) == 4 && memcmp(amb_msg_data(msg), "mute", 4) == 0) {
        return;
    }
    for (int i = 0; i < 2; i++) { /* The second one is for nobody. */
        enum amb_status status = amb_reply(msg, amb_msg_data(msg), amb_msg_size(msg), AMB_SEC);
        need(status == AMB_OK, "a request can be answered");
    }
    atomic_fetch_add(&answered, 1);
}

static void *serve(void *arg)
{
    (void)arg;
    while (amb_poll(service, AMB_FOREVER) == AMB_OK) {
    }
    return NULL;
}

static void said(const char *rule)
{
    (void)printf("%s\n", rule);
    (void)fflush(stdout);
}

static void ask_one_by_one(unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        struct amb_msg *reply;
        need(amb_request(client, "echo", &i, sizeof(i), 5 * AMB_SEC, &reply) == AMB_OK, "request");
        need(amb_msg_size(reply) == sizeof(i) && memcmp(amb_msg_data(reply), &i, sizeof(i)) == 0,
             "each request gets its own reply");
        need(amb_msg_sub(reply) == NULL && !amb_msg_wants_reply(reply), "a reply is no request");
        amb_msg_release(reply);
    }
    uint8_t *big = malloc(BIG);
    need(big != NULL, "memory");
    memset(big, 7, BIG);
    struct amb_msg *reply;
    need(amb_request(client, "echo", big, BIG, 5 * AMB_SEC, &reply) == AMB_OK, "a large request");
    need(amb_msg_size(reply) == BIG && memcmp(amb_msg_data(reply), big, BIG) == 0, "its reply");
    amb_msg_release(reply);
    free(big);
    said("one by one");
}

struct tally {
    unsigned ok, other, last;
};

static void count_reply(enum amb_status status, struct amb_msg *reply, void *arg)
{
    struct tally *tally = arg;
    need((reply != NULL) == (status == AMB_OK), "a reply comes with AMB_OK alone");
    tally->ok += status == AMB_OK;
    tally->other += status != AMB_OK;
    tally->last = (unsigned)-status;
}

static void ask_many(unsigned count)
{
    struct tally tally = {0};
    for (unsigned i = 0; i < count; i++) {
        need(amb_request_post(client, "echo", AMB_OUT(.data = &i, .len = sizeof(i)), 10 * AMB_SEC,
                              count_reply, &tally) == AMB_OK,
             "post");
        (void)amb_poll(client, AMB_NOWAIT);
    }
    while (tally.ok + tally.other < count) {
        need(amb_poll(client, 10 * AMB_SEC) == AMB_OK, "poll");
    }
    need(tally.ok == count, "every posted request is answered, once");
    need(amb_poll(client, 50 * AMB_MS) != AMB_ELOST && tally.ok == count, "the second is dropped");
    said("many");
}

static void nobody_answers(void)
{
    struct amb_msg *reply;
    int64_t start = now_ns();
    need(amb_request(client, "nobody", "x", 1, 30 * AMB_SEC, &reply) == AMB_ENORESPONDERS &&
             reply == NULL,
         "nobody reads it: ENORESPONDERS");
    need(now_ns() - start < 5 * AMB_SEC, "... at once");
    struct tally tally = {0};
    need(amb_request_post(client, "nobody", AMB_OUT(.data = "x", .len = 1), 30 * AMB_SEC,
                          count_reply, &tally) == AMB_OK,
         "post to nobody");
    while (tally.other == 0) {
        need(amb_poll(client, 5 * AMB_SEC) == AMB_OK, "poll");
    }
    need(tally.last == (unsigned)-AMB_ENORESPONDERS, "... its callback says so");
    said("no responders");
}

static void time_is_over(void)
{
    struct amb_msg *reply;
    int64_t start = now_ns();
    need(amb_request(client, "echo", "mute", 4, 100 * AMB_MS, &reply) == AMB_ETIMEDOUT, "mute");
    need(now_ns() - start < 3 * AMB_SEC, "the time-out is the one given");
    struct tally tally = {0};
    start = now_ns();
    need(amb_request_post(client, "echo", AMB_OUT(.data = "mute", .len = 4), 100 * AMB_MS,
                          count_reply, &tally) == AMB_OK,
         "post mute");
    while (tally.other == 0) {
        need(amb_poll(client, AMB_FOREVER) == AMB_OK, "poll wakes for it");
    }
    need(tally.last == (unsigned)-AMB_ETIMEDOUT && now_ns() - start < 3 * AMB_SEC, "... in time");
    said("time-out");
}

/* Two writers, each with what it has read: one of them wins. */
static void compare_and_set(void)
{
    struct amb_pub *mine, *theirs;
    uint64_t seq;
    char topic[64];
    (void)snprintf(topic, sizeof(topic), "cas.%d", (int)getpid());
    need(amb_pub_open(client, topic, NULL, &mine) == AMB_OK, "open");
    need(amb_pub_open(service, topic, NULL, &theirs) == AMB_OK, "open");
    need(amb_pub_post(mine, AMB_OUT(.data = "a", .len = 1, .expect_seq = 1), AMB_SEC, &seq) ==
             AMB_OK,
         "post");
    need(amb_pub_flush(mine, 0, 5 * AMB_SEC) == AMB_OK, "the first message has sequence 1");
    need(amb_pub_post(theirs, AMB_OUT(.data = "b", .len = 1, .expect_seq = 1), AMB_SEC, &seq) ==
             AMB_OK,
         "post");
    need(amb_pub_flush(theirs, 0, 5 * AMB_SEC) == AMB_EREJECTED, "who is late is told");
    need(amb_pub_post(theirs, AMB_OUT(.data = "b", .len = 1, .expect_seq = 2), AMB_SEC, &seq) ==
             AMB_OK,
         "post");
    need(amb_pub_flush(theirs, 0, 5 * AMB_SEC) == AMB_OK, "and may try again");
    need(amb_pub_send(mine, "c", 1, AMB_SEC) == AMB_OK, "others expect nothing");
    need(amb_pub_close(mine, 5 * AMB_SEC) == AMB_OK && amb_pub_close(theirs, AMB_SEC) == AMB_OK,
         "close");
    need(amb_flush(service, AMB_SEC) == AMB_EREJECTED, "the connection's flush tells too");
    said("compare and set");
}

static void rights(void)
{
    struct amb_sub *sub;
    need(amb_subscribe(client, "$INBOX.>", NULL, &sub) == AMB_EFORBIDDEN, "nobody reads inboxes");
    need(amb_subscribe(client, "$INBOX.*", NULL, &sub) == AMB_EFORBIDDEN, "... in no way");
    need(amb_subscribe(client, "$INBOX.short", NULL, &sub) == AMB_EFORBIDDEN, "... or guesses");
    struct amb_sub *all;
    need(amb_subscribe(service, ">", NULL, &all) == AMB_OK, "subscribe");
    struct amb_msg *reply, *seen;
    need(amb_request(client, "echo", "seen", 4, 5 * AMB_SEC, &reply) == AMB_OK, "request");
    amb_msg_release(reply);
    need(amb_next(all, AMB_SEC, &seen) == AMB_OK, "a request is a message");
    need(strcmp(amb_msg_topic(seen), "echo") == 0, "... of its topic");
    amb_msg_release(seen);
    need(amb_next(all, 100 * AMB_MS, &seen) == AMB_ETIMEDOUT, "replies match no wildcard");
    (void)amb_sub_close(all, AMB_SEC);
    struct amb_msg *plain;
    struct amb_sub *sub_plain;
    need(amb_subscribe(client, "plain", NULL, &sub_plain) == AMB_OK, "subscribe");
    need(amb_publish(service, "plain", "x", 1, AMB_SEC) == AMB_OK, "publish");
    need(amb_next(sub_plain, 5 * AMB_SEC, &plain) == AMB_OK, "next");
    need(!amb_msg_wants_reply(plain) && amb_reply(plain, "y", 1, AMB_SEC) == AMB_ESTATE,
         "what is no request is not answered");
    amb_msg_release(plain);
    said("rights");
}

int main(int argc, char **argv)
{
    if (argc != 4) {
        return 64;
    }
    unsigned count = (unsigned)strtoul(argv[3], NULL, 10);
    struct amb_error error = {0};
    if (amb_connect(argv[1], AMB_OPTIONS(.error = &error, .reconnect_attempts = AMB_NONE),
                    &service) != AMB_OK ||
        amb_connect(argv[2], AMB_OPTIONS(.error = &error, .reconnect_attempts = AMB_NONE),
                    &client) != AMB_OK) {
        (void)fprintf(stderr, "requester: %s\n", error.text);
        return 1;
    }
    struct amb_sub *sub;
    need(amb_subscribe(service, "echo", AMB_SUB(.on_message = echo), &sub) == AMB_OK, "subscribe");
    pthread_t thread;
    need(pthread_create(&thread, NULL, serve, NULL) == 0, "thread");
    ask_one_by_one(count);
    ask_many(count);
    nobody_answers();
    time_is_over();
    compare_and_set();
    rights();
    struct tally tally = {0};
    need(amb_request_post(client, "echo", AMB_OUT(.data = "mute", .len = 4), AMB_FOREVER,
                          count_reply, &tally) == AMB_OK,
         "post, and close");
    need(amb_close(client, AMB_SEC) == AMB_OK, "close");
    if (tally.other != 1 || tally.last != (unsigned)-AMB_ECLOSED) {
        return 1;
    }
    said("closed");
    amb_stop(service);
    (void)pthread_join(thread, NULL);
    if (amb_close(service, AMB_SEC) != AMB_OK) {
        return 1;
    }
    said("done");
    return 0;
}
