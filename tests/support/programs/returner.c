/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A client that stays, whatever becomes of its broker.
 *
 *     returner URL PATTERN [TOPIC [lease | NAME]]
 *
 * Takes the messages of PATTERN, and publishes such to TOPIC, one a millisecond. Each begins with a
 * number of 8 bytes that only grows. "lease" writes them in place. NAME is the publisher's, who
 * sends 20 a millisecond. Prints "ready", then the events of on_event: "lost TEXT", "draining",
 * "restored", "gap COUNT WHY", "closed TEXT"; and "reads" with the first message of each broker. At
 * the end of standard input it flushes, takes what there is, and prints
 *
 *     sent N unknown N received N missing N lost N restarts N
 *
 * missing: numbers left out; lost: as the library told, but those of restarts. Ends with 0 unless a
 * number came twice or out of order, or a call answered what it must not.
 *
 * On SIGUSR1 it tells its counters, and the last answers of its calls, on standard error.
 */
#include <amb/amb.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct amb_conn *conn;
static uint64_t sent, received, missing, lost, restarts, next_number;
static volatile sig_atomic_t must_tell;
static enum amb_status last_room, last_next, last_poll; /* their last answers */

static void fail(const char *what, enum amb_status status)
{
    (void)fprintf(stderr, "returner: %s: %s (%s)\n", what, amb_strerror(status),
                  conn != NULL ? amb_last_error(conn).text : "");
    exit(1);
}

static void on_event(struct amb_conn *of, const struct amb_event *event, void *arg)
{
    (void)of;
    (void)arg;
    switch ((int)event->type) {
    case AMB_EVENT_LOST:
        (void)printf("lost %s\n", event->text);
        break;
    case AMB_EVENT_DRAINING:
        (void)printf("draining\n");
        break;
    case AMB_EVENT_RESTORED:
        (void)printf("restored\n");
        break;
    case AMB_EVENT_GAP:
        (void)printf("gap %" PRIu64 " %d\n", event->count, (int)event->loss);
        break;
    case AMB_EVENT_CLOSED:
        (void)printf("closed %s\n", event->text);
        break;
    default:
        break;
    }
    (void)fflush(stdout);
}

static void ask_tell(int number)
{
    (void)number;
    must_tell = 1;
}

/* For people who look for the reason of a halt. */
static void tell(const struct amb_pub *pub, const struct amb_sub *sub)
{
    struct amb_pub_info out = AMB_INIT(amb_pub_info);
    struct amb_sub_info in = AMB_INIT(amb_sub_info);
    must_tell = 0;
    if (pub != NULL) {
        (void)amb_pub_stat(pub, &out);
    }
    (void)amb_sub_stat(sub, &in);
    (void)fprintf(stderr,
                  "returner: sent %" PRIu64 ", received %" PRIu64 ", restarts %" PRIu64
                  "; room %d, next %d, poll %d; blocked %d, settled %" PRIu64 ", failed %" PRIu64
                  ", accepted %" PRIu64 ", in flight %" PRIu64 " of %" PRIu64
                  " bytes, subscribers %u, leases %u, leased %" PRIu64 "; pending %" PRIu64
                  ", held %" PRIu64 ", delivered %" PRIu64 "; %s\n",
                  sent, received, restarts, (int)last_room, (int)last_next, (int)last_poll,
                  (int)out.blocked, out.settled, out.failed, out.accepted_seq, out.inflight_msgs,
                  out.inflight_bytes, out.subscribers, out.leases, out.leased, in.pending_msgs,
                  in.held_msgs, in.delivered, amb_last_error(conn).text);
}

static void say_reads(void)
{
    (void)printf("reads\n");
    (void)fflush(stdout);
}

static void take(struct amb_msg *msg)
{
    uint64_t number;
    if (amb_msg_size(msg) < sizeof(number)) {
        return;
    }
    memcpy(&number, amb_msg_data(msg), sizeof(number));
    enum amb_loss why;
    uint64_t before = amb_msg_lost(msg, &why);
    if (number < next_number) {
        (void)fprintf(stderr, "returner: %" PRIu64 " after %" PRIu64 "\n", number, next_number);
        exit(1);
    }
    if (before == UINT64_MAX) {
        restarts++;
    } else {
        lost += before;
    }
    if (received == 0 || before == UINT64_MAX) {
        say_reads();
    }
    if (received != 0 && before != UINT64_MAX) {
        missing += number - next_number;
    }
    next_number = number + 1;
    received++;
}

/* For a millisecond or so. */
static void receive(struct amb_sub *sub, int64_t timeout_ns)
{
    struct amb_msg *msgs[64];
    size_t n;
    enum amb_status status;
    while ((status = amb_next_many(sub, timeout_ns, msgs, 64, &n)) == AMB_OK) {
        for (size_t i = 0; i < n; i++) {
            take(msgs[i]);
            amb_msg_release(msgs[i]);
        }
        timeout_ns = AMB_NOWAIT;
    }
    last_next = status;
    if (status != AMB_EAGAIN && status != AMB_ETIMEDOUT) {
        fail("next", status);
    }
}

static void publish(struct amb_pub *pub, bool is_lease)
{
    uint8_t text[100] = {0};
    enum amb_status status;
    memcpy(text, &sent, sizeof(sent));
    if (is_lease) {
        struct amb_lease *lease;
        status = amb_lease(pub, 30000, AMB_NOWAIT, &lease);
        if (status == AMB_OK) {
            memset(amb_lease_data(lease), 0, 30000);
            memcpy(amb_lease_data(lease), &sent, sizeof(sent));
            status = amb_lease_commit(lease, NULL, NULL);
        }
    } else {
        status = amb_pub_send(pub, text, sizeof(text), AMB_NOWAIT);
    }
    last_room = status;
    if (status == AMB_OK) {
        sent++;
    } else if (status != AMB_EAGAIN) {
        fail("publish", status);
    }
}

int main(int argc, char **argv)
{
    if (argc < 3) {
        return 64;
    }
    struct amb_error error = {0};
    const char *progress = getenv("RETURNER_POLL");
    enum amb_status status = amb_connect(
        argv[1],
        AMB_OPTIONS(.on_event = on_event, .error = &error, .retry_first = 1, .name = "returner",
                    .progress = progress != NULL ? AMB_PROGRESS_POLL : AMB_PROGRESS_THREAD,
                    .reconnect_min_ns = 20 * AMB_MS, .reconnect_max_ns = 200 * AMB_MS),
        &conn);
    if (status != AMB_OK) {
        (void)fprintf(stderr, "returner: connect: %s\n", error.text);
        return 1;
    }
    struct amb_sub *sub;
    struct amb_pub *pub = NULL;
    struct amb_pub_info info = AMB_INIT(amb_pub_info);
    const char *name = NULL;
    status = amb_subscribe(conn, argv[2], AMB_SUB(.slow = AMB_SLOW_DROP_OLDEST), &sub);
    if (status == AMB_OK && argc > 3) {
        name = argc > 4 && strcmp(argv[4], "lease") != 0 ? argv[4] : NULL;
        status = amb_pub_open(conn, argv[3], AMB_PUB(.name = name), &pub);
        if (status == AMB_OK) { /* A named one goes on where it was. */
            (void)amb_pub_stat(pub, &info);
            sent = info.posted;
        }
    }
    if (status != AMB_OK) {
        fail("open", status);
    }
    (void)signal(SIGUSR1, ask_tell);
    (void)printf("ready\n");
    (void)fflush(stdout);
    struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
    while (poll(&input, 1, 0) != 1) { /* A signal ends it with -1. */
        for (int i = 0; pub != NULL && i < (name != NULL ? 20 : 1); i++) {
            publish(pub, argc > 4 && name == NULL);
        }
        receive(sub, AMB_MS);
        status = last_poll = amb_poll(conn, AMB_NOWAIT);
        if (status != AMB_OK) {
            fail("poll", status);
        }
        if (must_tell != 0) {
            tell(pub, sub);
        }
    }
    status = amb_flush(conn, 10 * AMB_SEC);
    /* ECLOSED: a broker that was ending took no more. */
    if (status != AMB_OK && status != AMB_EUNKNOWN && status != AMB_ECLOSED) {
        fail("flush", status);
    }
    if (pub != NULL) {
        (void)amb_pub_stat(pub, &info);
        if (info.settled != sent || info.posted != sent) {
            fail("not everything is settled", AMB_OK);
        }
    }
    receive(sub, 300 * AMB_MS);
    (void)amb_poll(conn, AMB_NOWAIT);
    (void)printf("sent %" PRIu64 " unknown %" PRIu64 " received %" PRIu64 " missing %" PRIu64
                 " lost %" PRIu64 " restarts %" PRIu64 "\n",
                 sent, info.failed, received, missing, lost, restarts);
    (void)fflush(stdout);
    return amb_close(conn, 5 * AMB_SEC) != AMB_OK;
}
