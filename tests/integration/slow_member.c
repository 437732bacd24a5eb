/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Members of a group that need longer for their credit than ack_wait: do they get on?
 *
 *     slow_member URL TOPIC MEMBERS
 *
 * Each has a connection and a thread. A message is work of 2 ms; its credit of 200 messages is
 * then work of 400 ms, and ack_wait is 100 ms. The group is to work off MSGS messages. Where none
 * comes for QUIET_NS, all are settled, for each other one would have come again. Prints how many
 * messages came and how many deliveries that took. Exit: 0, or 1 where a message has not come, or
 * after AT_MOST deliveries of each.
 *
 * Memory: the table of what was seen; threads share it, as atomics.
 */
#include <amb/amb.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MSGS 1000u
#define MEMBERS_MAX 4
#define AT_MOST 10u
#define WORK_NS (2 * AMB_MS)
#define ACK_WAIT_NS (100 * AMB_MS)
#define CREDIT 200u
#define QUIET_NS (4 * AMB_SEC)
#define QUIETS_MAX 10 /* with messages missing: then they do not come */

struct group {
    const char *url, *topic;
    atomic_uint deliveries, seen;
    atomic_bool came[MSGS], has_failed;
};

struct member {
    struct group *group;
    struct amb_conn *conn;
    struct amb_sub *sub;
    pthread_t thread;
};

static void fail(struct group *group, struct amb_conn *conn, const char *what)
{
    fprintf(stderr, "%s: %s\n", what, conn == NULL ? "no connection" : amb_last_error(conn).text);
    atomic_store(&group->has_failed, true);
}

static void work(struct group *group, const struct amb_msg *msg)
{
    uint32_t number;
    memcpy(&number, amb_msg_data(msg), sizeof(number));
    atomic_fetch_add(&group->deliveries, 1);
    if (number < MSGS && !atomic_exchange(&group->came[number], true)) {
        atomic_fetch_add(&group->seen, 1);
    }
    (void)nanosleep(&(struct timespec){.tv_nsec = WORK_NS}, NULL);
}

static void *take(void *arg)
{
    struct member *member = arg;
    struct group *group = member->group;
    struct amb_msg *msg;
    enum amb_status status;
    int quiets = 0;
    while ((status = amb_next(member->sub, QUIET_NS, &msg)) == AMB_OK ||
           (status == AMB_ETIMEDOUT && atomic_load(&group->seen) < MSGS && ++quiets < QUIETS_MAX)) {
        if (status != AMB_OK) {
            continue;
        }
        work(group, msg);
        if (amb_msg_ack(msg) != AMB_OK) {
            fail(group, member->conn, "ack");
        }
        amb_msg_release(msg);
        if (atomic_load(&group->deliveries) > AT_MOST * MSGS || atomic_load(&group->has_failed)) {
            break;
        }
    }
    if (status != AMB_OK && status != AMB_ETIMEDOUT) {
        fail(group, member->conn, "next");
    }
    return NULL;
}

static void join(struct group *group, struct member *member)
{
    member->group = group;
    if (amb_connect(group->url, NULL, &member->conn) != AMB_OK) {
        fail(group, NULL, group->url);
    } else if (amb_subscribe(member->conn, group->topic,
                             AMB_SUB(.group = "slow", .durable = "slow", .ack = AMB_ACK_EXPLICIT,
                                     .ack_wait_ns = ACK_WAIT_NS, .credit_msgs = CREDIT),
                             &member->sub) != AMB_OK) {
        fail(group, member->conn, "subscribe");
    }
}

static void publish(struct group *group)
{
    struct amb_conn *conn;
    struct amb_pub *pub;
    if (amb_connect(group->url, NULL, &conn) != AMB_OK) {
        fail(group, NULL, group->url);
        return;
    }
    enum amb_status status = amb_pub_open(conn, group->topic, NULL, &pub);
    for (uint32_t i = 0; i < MSGS && status == AMB_OK; i++) {
        status = amb_pub_send(pub, &i, sizeof(i), AMB_FOREVER);
    }
    if (status != AMB_OK || amb_flush(conn, 20 * AMB_SEC) != AMB_OK) {
        fail(group, conn, "publish");
    }
    amb_close(conn, AMB_SEC);
}

int main(int argc, char **argv)
{
    static struct group group;
    struct member members[MEMBERS_MAX] = {0};
    int count = argc == 4 ? atoi(argv[3]) : 0;
    if (count < 1 || count > MEMBERS_MAX) {
        fprintf(stderr, "usage: %s URL TOPIC MEMBERS (1 to %d)\n", argv[0], MEMBERS_MAX);
        return 2;
    }
    group.url = argv[1];
    group.topic = argv[2];
    for (int i = 0; i < count; i++) {
        join(&group, &members[i]);
    }
    if (!atomic_load(&group.has_failed)) {
        publish(&group);
        for (int i = 0; i < count; i++) {
            if (pthread_create(&members[i].thread, NULL, take, &members[i]) != 0) {
                abort();
            }
        }
        for (int i = 0; i < count; i++) {
            (void)pthread_join(members[i].thread, NULL);
        }
    }
    for (int i = 0; i < count; i++) {
        amb_close(members[i].conn, 20 * AMB_SEC);
    }
    unsigned seen = atomic_load(&group.seen), deliveries = atomic_load(&group.deliveries);
    printf("%u messages, %u deliveries\n", seen, deliveries);
    return atomic_load(&group.has_failed) || seen != MSGS || deliveries > AT_MOST * MSGS;
}
