/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long after its cause comes an effect that nobody calls for? The next heartbeat heals a
 * forgotten wake-up, a second later: here that is too late.
 *
 *     promptness RING_URL STREAM_URL [--rounds N] [--tries N] [--late MS] [--broker PID]
 *                [CASE]...
 *
 * Each case runs on both links, in rounds (1). A round is over with the first try that is in time.
 * As many late ones in a row as there are tries (5) fail it, and so does a message that never
 * comes. Prints a line for each case with the times seen, each the longest of that try, and "end"
 * behind the last. Exit: 0, or 1 if one has failed. Late is more than --late (300). Beside busy
 * cores a large message is on its way for long; --broker is the process whose work is no lateness.
 *
 * Heartbeats lie on a grid of the host's clock. All connections of a try are opened in one step of
 * it, and the cause comes just behind one. So the next heartbeat does not hide anything.
 */
#include "tests/support/moment.h"

#include <amb/amb.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#define NEVER_NS (10 * AMB_SEC) /* so long nobody waits */
#define GRID_NS (250 * AMB_MS)
#define BEHIND_NS (100 * AMB_MS) /* a heartbeat */
#define BURSTS 8                 /* one behind the other, in less than half a heartbeat */
#define CONNS_MAX 24
#define SMALL 1024u
#define LARGE ((size_t)3 << 20)
#define IDLE_RINGS 7
#define PAIRS 2
#define SLOT ((size_t)1 << 20)
#define BALLS 8 /* in play between the two of a pair */

struct trial {
    const char *urls[2];
    const char *url;
    int64_t grid_ns; /* when its connections were opened */
    unsigned number;
    struct amb_conn *conns[CONNS_MAX];
    unsigned conn_count;
    char topics[2][64];
};

/* Takes `wanted` messages on a thread of its own. */
struct reader {
    struct amb_conn *conn;
    struct amb_sub *sub;
    uint64_t wanted;
    int64_t hold_ns; /* before it gives one back */
    pthread_t thread;
    int64_t got_ns, released_ns; /* the last one; NEVER_NS after it gave up */
    int64_t still_ns;            /* the longest without one while one of send_many's was due */
    struct moment large;         /* when the last one of LARGE was taken */
    uint64_t count;              /* taken */
};

/* A message of send_many. */
struct small {
    int64_t sent_ns;
    uint8_t rest[SMALL - sizeof(int64_t)];
};

static uint8_t payload[LARGE];
static int64_t late_most_ns = 300 * AMB_MS; /* longer than that is late */
static const char *broker_pid;              /* or NULL */

/* ---- time ---- */

static int64_t now_ns(void)
{
    return moment_time_ns();
}

static void sleep_for(int64_t ns)
{
    moment_sleep_until(now_ns() + ns);
}

/* At least so long, then until just behind a heartbeat. */
static void stay_idle(const struct trial *trial, int64_t idle_ns)
{
    int64_t end_ns = now_ns() + idle_ns;
    int64_t over_ns = (end_ns - trial->grid_ns - BEHIND_NS) % AMB_SEC;
    moment_sleep_until(end_ns + (over_ns > 0 ? AMB_SEC - over_ns : -over_ns));
}

static int64_t longer(int64_t a_ns, int64_t b_ns)
{
    return a_ns > b_ns ? a_ns : b_ns;
}

/* ---- what all cases need ---- */

static void must(const char *what, enum amb_status status, const struct amb_conn *conn)
{
    if (status != AMB_OK) {
        struct amb_error error = amb_last_error(conn);
        (void)fprintf(stderr, "promptness: %s: %s (%s)\n", what, amb_strerror(status), error.text);
        exit(1);
    }
}

static struct amb_conn *open_conn(struct trial *trial, const char *url, enum amb_progress progress)
{
    struct amb_conn *conn;
    if (trial->conn_count == 0) { /* A whole step for all of them. */
        moment_sleep_until(now_ns() / GRID_NS * GRID_NS + GRID_NS + 5 * AMB_MS);
        trial->grid_ns = now_ns() / GRID_NS * GRID_NS;
    }
    must("connect", amb_connect(url, AMB_OPTIONS(.progress = progress), &conn), NULL);
    trial->conns[trial->conn_count++] = conn;
    return conn;
}

static struct amb_conn *open_client(struct trial *trial)
{
    return open_conn(trial, trial->url, AMB_PROGRESS_THREAD);
}

static struct amb_sub *subscribe(struct amb_conn *conn, const char *topic)
{
    struct amb_sub *sub;
    must("subscribe",
         amb_subscribe(conn, topic, AMB_SUB(.slow = AMB_SLOW_BLOCK, .slow_block_ns = AMB_FOREVER),
                       &sub),
         conn);
    return sub;
}

/* With `count` subscriptions. */
static struct amb_pub *open_pub(struct amb_conn *conn, const char *topic,
                                const struct amb_pub_options *options, uint32_t count)
{
    struct amb_pub *pub;
    must("pub_open", amb_pub_open(conn, topic, options, &pub), conn);
    must("wait_subscribers", amb_pub_wait_subscribers(pub, count, NEVER_NS), conn);
    return pub;
}

/* A message of send_many is due since it was sent, and not before the one ahead of it was there. */
static void note_got(struct reader *reader, const struct amb_msg *msg)
{
    int64_t sent_ns, got_ns = now_ns();
    memcpy(&sent_ns, amb_msg_data(msg), sizeof(sent_ns));
    if (sent_ns != 0) {
        int64_t due_ns = longer(sent_ns, reader->got_ns);
        reader->still_ns = longer(reader->still_ns, got_ns - due_ns);
    }
    reader->got_ns = got_ns;
    if (amb_msg_size(msg) == LARGE) {
        reader->large = moment_now(broker_pid);
    }
}

static void *read_all(void *arg)
{
    struct reader *reader = arg;
    for (; reader->count < reader->wanted; reader->count++) {
        struct amb_msg *msg;
        if (amb_next(reader->sub, NEVER_NS, &msg) != AMB_OK) {
            reader->got_ns = reader->released_ns = now_ns();
            return NULL;
        }
        note_got(reader, msg);
        if (reader->hold_ns != 0) {
            sleep_for(reader->hold_ns);
        }
        reader->released_ns = now_ns();
        amb_msg_release(msg);
    }
    return NULL;
}

static void spawn(pthread_t *thread, void *(*fn)(void *), void *arg)
{
    if (pthread_create(thread, NULL, fn, arg) != 0) {
        (void)fprintf(stderr, "promptness: no thread\n");
        exit(1);
    }
}

static void reader_start(struct reader *reader, struct amb_sub *sub, uint64_t wanted)
{
    reader->sub = sub;
    reader->wanted = wanted;
    spawn(&reader->thread, read_all, reader);
}

/* How long after `cause_ns` the last message came. */
static int64_t reader_late(struct reader *reader, int64_t cause_ns)
{
    (void)pthread_join(reader->thread, NULL);
    if (reader->count < reader->wanted) {
        return NEVER_NS;
    }
    return reader->got_ns > cause_ns ? reader->got_ns - cause_ns : 0;
}

/* The part of reader_late in which everybody slept, for one of LARGE. Such a message is handed over
 * a dozen times, and beside busy cores each of these may wait for a slice of another's. That is its
 * way. It is late for as long as nobody works on it, or wants a core to do so. */
static int64_t reader_asleep(struct reader *reader, struct moment cause)
{
    (void)pthread_join(reader->thread, NULL);
    return reader->count < reader->wanted ? NEVER_NS : moment_asleep_ns(cause, reader->large);
}

/* The longest without a message while one was due. The way of all of them is long beside busy
 * cores: each hand-over may wait for a slice of another's. So the last one is not late because it
 * comes long after it was sent, as long as those before it keep coming. */
static int64_t reader_still(struct reader *reader)
{
    (void)pthread_join(reader->thread, NULL);
    return reader->count < reader->wanted ? NEVER_NS : reader->still_ns;
}

/* Small messages, `bytes` in all. Returns the longest that one had to wait; *last_ns: when the last
 * one was taken. */
static int64_t send_many(struct amb_pub *pub, struct amb_conn *conn, size_t bytes,
                         int64_t timeout_ns, int64_t *last_ns)
{
    struct small message = {0};
    int64_t longest_ns = 0;
    *last_ns = now_ns();
    for (size_t i = 0; i < bytes / SMALL;) {
        message.sent_ns = now_ns();
        enum amb_status status = amb_pub_send(pub, &message, sizeof(message), timeout_ns);
        int64_t waited_ns = now_ns() - *last_ns;
        longest_ns = longer(longest_ns, waited_ns);
        if (status == AMB_OK) {
            i++;
            *last_ns += waited_ns;
        } else if (status != AMB_EAGAIN && status != AMB_ETIMEDOUT) {
            must("pub_send", status, conn);
        } else if (waited_ns > NEVER_NS) {
            return longest_ns;
        } else {
            sleep_for(200 * AMB_US);
        }
    }
    return longest_ns;
}

/* For whoever looks for the cause. */
static void say_stuck(const struct reader *reader, const struct amb_pub *pub)
{
    struct amb_pub_info out = AMB_INIT(amb_pub_info);
    struct amb_sub_info in = AMB_INIT(amb_sub_info);
    (void)amb_pub_stat(pub, &out);
    (void)amb_sub_stat(reader->sub, &in);
    (void)fprintf(stderr,
                  "promptness: posted %" PRIu64 ", settled %" PRIu64 ", accepted %" PRIu64
                  ", blocked %d; delivered %" PRIu64 ", pending %" PRIu64 ", held %" PRIu64
                  "; taken %" PRIu64 " of %" PRIu64 "\n",
                  out.posted, out.settled, out.accepted_seq, (int)out.blocked, in.delivered,
                  in.pending_msgs, in.held_msgs, reader->count, reader->wanted);
}

/* ---- the cases: each returns how late its effect was ---- */

/* A confirmation goes out by itself when a quiet subscriber gives the message back. */
static int64_t try_delivered(struct trial *trial)
{
    struct amb_conn *conn = open_client(trial);
    struct reader reader = {.hold_ns = 500 * AMB_MS};
    struct amb_sub *sub = subscribe(open_client(trial), trial->topics[0]);
    struct amb_pub *pub =
        open_pub(conn, trial->topics[0], AMB_PUB(.confirm = AMB_CONFIRM_DELIVERED), 1);
    reader_start(&reader, sub, 1);
    stay_idle(trial, 1500 * AMB_MS);
    must("pub_send", amb_pub_send(pub, payload, SMALL, NEVER_NS), conn);
    enum amb_status status = amb_pub_flush(pub, 0, NEVER_NS);
    int64_t told_ns = now_ns();
    (void)reader_late(&reader, 0);
    return status == AMB_OK && reader.count == 1 ? told_ns - reader.released_ns : NEVER_NS;
}

static void *wait_next(void *arg)
{
    struct amb_msg *msg;
    if (amb_next(arg, AMB_FOREVER, &msg) == AMB_OK) {
        amb_msg_release(msg);
    }
    return NULL;
}

/* A message larger than the window leaves without another call, whether another thread waits on
 * the connection or not. */
static int64_t post_large(struct trial *trial, const char *name, bool is_beside)
{
    struct amb_conn *conn = open_client(trial);
    struct reader reader = {0};
    struct amb_sub *sub = subscribe(open_client(trial), trial->topics[0]);
    struct amb_sub *silent = subscribe(conn, trial->topics[1]);
    struct amb_pub *pub = open_pub(conn, trial->topics[0], AMB_PUB(.name = name), 1);
    pthread_t waiter;
    if (is_beside) {
        spawn(&waiter, wait_next, silent);
    }
    reader_start(&reader, sub, 1);
    stay_idle(trial, 1200 * AMB_MS);
    struct moment cause = moment_now(broker_pid);
    enum amb_status status;
    while ((status = amb_pub_post(pub, AMB_OUT(.data = payload, .len = LARGE), AMB_NOWAIT, NULL)) ==
               AMB_EAGAIN &&
           now_ns() - cause.after_ns < NEVER_NS) {
        sleep_for(AMB_MS);
    }
    must("pub_post", status, conn);
    int64_t late_ns = reader_asleep(&reader, cause);
    if (late_ns >= NEVER_NS) {
        say_stuck(&reader, pub);
    }
    amb_stop(conn);
    if (is_beside) {
        (void)pthread_join(waiter, NULL);
    }
    return late_ns;
}

static int64_t try_named(struct trial *trial)
{
    return post_large(trial, trial->topics[1], false);
}

static int64_t try_post(struct trial *trial)
{
    return post_large(trial, NULL, false);
}

static int64_t try_beside_named(struct trial *trial)
{
    return post_large(trial, trial->topics[1], true);
}

/* One thread waits for what never comes while another publishes on the same connection. */
static int64_t publish_beside(struct trial *trial, int64_t timeout_ns)
{
    struct amb_conn *conn = open_client(trial);
    struct amb_sub *sub = subscribe(open_client(trial), trial->topics[0]);
    struct amb_sub *silent = subscribe(conn, trial->topics[1]);
    struct amb_pub *pub = open_pub(conn, trial->topics[0], NULL, 1);
    pthread_t waiter;
    spawn(&waiter, wait_next, silent);
    stay_idle(trial, 1200 * AMB_MS);
    int64_t late_ns = 0;
    for (int i = 0; i < BURSTS && late_ns <= late_most_ns; i++) {
        int64_t last_ns;
        struct reader reader = {0};
        reader_start(&reader, sub, LARGE / SMALL);
        late_ns = longer(late_ns, send_many(pub, conn, LARGE, timeout_ns, &last_ns));
        late_ns = longer(late_ns, reader_still(&reader));
        if (late_ns >= NEVER_NS) {
            say_stuck(&reader, pub);
        }
    }
    amb_stop(conn);
    (void)pthread_join(waiter, NULL);
    return late_ns;
}

static int64_t try_beside_nowait(struct trial *trial)
{
    return publish_beside(trial, AMB_NOWAIT);
}

static int64_t try_beside_send(struct trial *trial)
{
    return publish_beside(trial, NEVER_NS);
}

static void *wait_flush(void *arg)
{
    (void)!amb_pub_flush(arg, 0, NEVER_NS);
    return NULL;
}

/* One thread waits in a flush, for a message that is held, while another sends a large one. */
static int64_t try_beside_flush(struct trial *trial)
{
    struct amb_conn *conn = open_client(trial);
    struct amb_conn *other = open_client(trial);
    struct reader reader = {0};
    struct amb_sub *sub = subscribe(other, trial->topics[0]);
    struct amb_sub *holder = subscribe(other, trial->topics[1]);
    struct amb_pub *pub = open_pub(conn, trial->topics[0], NULL, 1);
    struct amb_pub *slow =
        open_pub(conn, trial->topics[1], AMB_PUB(.confirm = AMB_CONFIRM_DELIVERED), 1);
    must("pub_send", amb_pub_send(slow, payload, SMALL, NEVER_NS), conn);
    struct amb_msg *held;
    must("next", amb_next(holder, NEVER_NS, &held), other);
    pthread_t waiter;
    spawn(&waiter, wait_flush, slow);
    reader_start(&reader, sub, 1);
    stay_idle(trial, 200 * AMB_MS);
    struct moment cause = moment_now(broker_pid);
    must("pub_send", amb_pub_send(pub, payload, LARGE, NEVER_NS), conn);
    int64_t sent_ns = moment_asleep_ns(cause, moment_now(broker_pid));
    int64_t late_ns = reader_asleep(&reader, cause);
    amb_msg_release(held);
    (void)pthread_join(waiter, NULL);
    return longer(sent_ns, late_ns);
}

struct release {
    struct amb_msg *msg;
    int64_t at_ns;
};

static void *release_later(void *arg)
{
    struct release *release = arg;
    sleep_for(50 * AMB_MS);
    release->at_ns = now_ns();
    amb_msg_release(release->msg);
    return NULL;
}

/* A drain ends when the last message is given back. */
static int64_t try_drain(struct trial *trial)
{
    struct amb_conn *conn = open_client(trial);
    struct amb_conn *other = open_client(trial);
    struct amb_sub *sub = subscribe(conn, trial->topics[0]);
    struct amb_pub *pub = open_pub(other, trial->topics[0], NULL, 1);
    struct release release = {0};
    must("pub_send", amb_pub_send(pub, payload, SMALL, NEVER_NS), other);
    must("next", amb_next(sub, NEVER_NS, &release.msg), conn);
    stay_idle(trial, 200 * AMB_MS);
    pthread_t releaser;
    spawn(&releaser, release_later, &release);
    enum amb_status status = amb_drain(conn, NEVER_NS);
    int64_t drained_ns = now_ns();
    (void)pthread_join(releaser, NULL);
    return status == AMB_OK ? drained_ns - release.at_ns : NEVER_NS;
}

/* All slots of a segment are held, with little in each. One that comes back is leased at once, and
 * not when the lease has waited for its 100 ms. */
static int64_t try_lease(struct trial *trial)
{
    struct amb_conn *conn = open_client(trial), *other = open_client(trial);
    struct amb_sub *sub = subscribe(other, trial->topics[0]);
    struct amb_pub *pub = open_pub(conn, trial->topics[0], NULL, 1);
    struct release held[17]; /* The first one has the reader map the slots, which are 16. */
    struct amb_lease *lease;
    for (int i = 0; i < 17; i++) {
        must("lease", amb_lease(pub, SLOT, NEVER_NS, &lease), conn);
        must("commit", amb_lease_commit(lease, AMB_OUT(.len = 64), NULL), conn);
        must("next", amb_next(sub, NEVER_NS, &held[i].msg), other);
        if (i == 0) {
            amb_msg_release(held[0].msg);
            stay_idle(trial, 200 * AMB_MS);
        }
    }
    pthread_t releaser;
    spawn(&releaser, release_later, &held[1]);
    must("lease", amb_lease(pub, SLOT, NEVER_NS, &lease), conn);
    int64_t leased_ns = now_ns();
    (void)pthread_join(releaser, NULL);
    amb_lease_abandon(lease);
    for (int i = 2; i < 17; i++) {
        amb_msg_release(held[i].msg);
    }
    return leased_ns - held[1].at_ns;
}

/* ---- POLL mode ---- */

struct sending {
    struct amb_pub *pub;
    int64_t at_ns;
};

static void *send_later(void *arg)
{
    struct sending *sending = arg;
    sleep_for(200 * AMB_MS);
    sending->at_ns = now_ns();
    (void)!amb_pub_send(sending->pub, payload, SMALL, NEVER_NS);
    return NULL;
}

static void *answer(void *arg)
{
    struct amb_msg *msg;
    if (amb_next(arg, NEVER_NS, &msg) == AMB_OK) {
        if (amb_msg_wants_reply(msg)) {
            (void)amb_reply(msg, "yes", 3, NEVER_NS);
        }
        amb_msg_release(msg);
    }
    return NULL;
}

/* Until sub has a message, in a loop as programs have them. */
static bool poll_for(struct amb_conn *conn, struct amb_sub *sub, int loop, int64_t timeout_ns)
{
    int64_t end_ns = now_ns() + timeout_ns;
    for (;;) {
        int64_t left_ns = end_ns - now_ns();
        struct epoll_event ready;
        struct amb_msg *msg;
        if (left_ns <= 0 || epoll_wait(loop, &ready, 1, (int)(left_ns / AMB_MS) + 1) != 1) {
            return false;
        }
        must("poll", amb_poll(conn, AMB_NOWAIT), conn);
        if (amb_next(sub, AMB_NOWAIT, &msg) == AMB_OK) {
            amb_msg_release(msg);
            return true;
        }
    }
}

static void call_send(struct amb_conn *conn, struct amb_pub *pub, const char *topic)
{
    (void)topic;
    must("pub_send", amb_pub_send(pub, payload, SMALL, NEVER_NS), conn);
}

static void call_flush(struct amb_conn *conn, struct amb_pub *pub, const char *topic)
{
    call_send(conn, pub, topic);
    must("pub_flush", amb_pub_flush(pub, 0, NEVER_NS), conn);
}

static void call_open(struct amb_conn *conn, struct amb_pub *pub, const char *topic)
{
    (void)pub;
    struct amb_pub *opened;
    must("pub_open", amb_pub_open(conn, topic, NULL, &opened), conn);
}

static void call_request(struct amb_conn *conn, struct amb_pub *pub, const char *topic)
{
    (void)pub;
    struct amb_msg *reply;
    must("request", amb_request(conn, topic, payload, SMALL, NEVER_NS, &reply), conn);
    amb_msg_release(reply);
}

/* The descriptor tells of a message that comes after a call that has moved data by itself. */
static int64_t poll_after(struct trial *trial,
                          void (*call)(struct amb_conn *, struct amb_pub *, const char *))
{
    struct amb_conn *conn = open_conn(trial, trial->url, AMB_PROGRESS_POLL);
    struct amb_conn *other = open_client(trial);
    struct amb_sub *sub = subscribe(conn, trial->topics[0]);
    struct amb_sub *asked = subscribe(other, trial->topics[1]);
    struct amb_pub *pub = open_pub(conn, trial->topics[1], NULL, 1);
    struct sending sending = {.pub = open_pub(other, trial->topics[0], NULL, 1)};
    int loop = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event want = {.events = EPOLLIN};
    if (loop < 0 || epoll_ctl(loop, EPOLL_CTL_ADD, amb_fd(conn), &want) != 0) {
        (void)fprintf(stderr, "promptness: no epoll\n");
        exit(1);
    }
    pthread_t sender, answerer;
    spawn(&answerer, answer, asked);
    stay_idle(trial, 200 * AMB_MS);
    (void)poll_for(conn, sub, loop, 10 * AMB_MS);
    spawn(&sender, send_later, &sending);
    call(conn, pub, trial->topics[1]);
    bool has_come = poll_for(conn, sub, loop, NEVER_NS);
    int64_t come_ns = now_ns();
    (void)pthread_join(sender, NULL);
    amb_stop(other);
    (void)pthread_join(answerer, NULL);
    (void)close(loop);
    return has_come ? come_ns - sending.at_ns : NEVER_NS;
}

static int64_t try_poll_send(struct trial *trial)
{
    return poll_after(trial, call_send);
}

static int64_t try_poll_flush(struct trial *trial)
{
    return poll_after(trial, call_flush);
}

static int64_t try_poll_open(struct trial *trial)
{
    return poll_after(trial, call_open);
}

static int64_t try_poll_request(struct trial *trial)
{
    return poll_after(trial, call_request);
}

/* ---- many sessions, and bursts ---- */

struct player {
    struct amb_conn *conn;
    struct amb_sub *sub;
    struct amb_pub *pub;
    pthread_t thread;
};

static _Atomic uint64_t played;

static void *play(void *arg)
{
    struct player *player = arg;
    struct amb_msg *msg;
    while (amb_next(player->sub, AMB_FOREVER, &msg) == AMB_OK) {
        amb_msg_release(msg);
        atomic_fetch_add(&played, 1);
        if (amb_pub_send(player->pub, payload, 64, NEVER_NS) != AMB_OK) {
            break;
        }
    }
    return NULL;
}

static void pair_start(struct trial *trial, struct player pair[2], int index)
{
    char topics[2][96];
    for (int i = 0; i < 2; i++) {
        (void)snprintf(topics[i], sizeof(topics[i]), "%s.%d.%d", trial->topics[1], index, i);
        pair[i].conn = open_client(trial);
        pair[i].sub = subscribe(pair[i].conn, topics[i]);
    }
    for (int i = 0; i < 2; i++) {
        pair[i].pub = open_pub(pair[i].conn, topics[1 - i], NULL, 1);
        spawn(&pair[i].thread, play, &pair[i]);
    }
    for (int i = 0; i < BALLS; i++) {
        must("pub_send", amb_pub_send(pair[0].pub, payload, 64, NEVER_NS), pair[0].conn);
    }
}

/* A worker without a pause still looks at a socket that has been silent. */
static int64_t try_crowd(struct trial *trial)
{
    struct amb_conn *conn = open_conn(trial, trial->urls[1], AMB_PROGRESS_THREAD);
    struct amb_sub *sub = subscribe(open_client(trial), trial->topics[0]);
    struct amb_pub *pub = open_pub(conn, trial->topics[0], NULL, 1);
    for (int i = 0; i < IDLE_RINGS; i++) {
        (void)open_client(trial);
    }
    struct player pairs[PAIRS][2];
    for (int i = 0; i < PAIRS; i++) {
        pair_start(trial, pairs[i], i);
    }
    struct reader reader = {0};
    reader_start(&reader, sub, 1);
    stay_idle(trial, 3 * AMB_SEC);
    int64_t cause_ns = now_ns();
    must("pub_send", amb_pub_send(pub, payload, SMALL, NEVER_NS), conn);
    int64_t late_ns = reader_late(&reader, cause_ns);
    for (int i = 0; i < PAIRS * 2; i++) {
        amb_stop(pairs[i / 2][i % 2].conn);
    }
    for (int i = 0; i < PAIRS * 2; i++) {
        (void)pthread_join(pairs[i / 2][i % 2].thread, NULL);
    }
    return late_ns;
}

/* Batches that a burst leaves behind go out with flushes that do not wait. */
static int64_t try_burst(struct trial *trial)
{
    struct amb_conn *conn = open_client(trial);
    struct reader reader = {0};
    size_t bytes = (size_t)2 << 20;
    struct amb_sub *sub = subscribe(open_client(trial), trial->topics[0]);
    struct amb_pub *pub = open_pub(conn, trial->topics[0], NULL, 1);
    reader_start(&reader, sub, bytes / SMALL);
    stay_idle(trial, 200 * AMB_MS);
    int64_t last_ns;
    int64_t waited_ns = send_many(pub, conn, bytes, AMB_NOWAIT, &last_ns);
    while (now_ns() - last_ns < NEVER_NS && amb_pub_flush(pub, 0, AMB_NOWAIT) == AMB_EAGAIN) {
        sleep_for(AMB_MS);
    }
    return longer(waited_ns, reader_still(&reader));
}

/* ---- running them ---- */

static const struct {
    const char *name;
    int64_t (*run)(struct trial *trial);
    bool is_ring_only;
} cases[] = {
    {"delivered", try_delivered, false},
    {"named", try_named, false},
    {"post", try_post, false},
    {"beside-named", try_beside_named, false},
    {"beside-nowait", try_beside_nowait, false},
    {"beside-send", try_beside_send, false},
    {"beside-flush", try_beside_flush, false},
    {"drain", try_drain, false},
    {"lease", try_lease, true},
    {"poll-send", try_poll_send, false},
    {"poll-flush", try_poll_flush, false},
    {"poll-open", try_poll_open, false},
    {"poll-request", try_poll_request, false},
    {"burst", try_burst, false},
    {"crowd", try_crowd, true},
};

static const char *const links[2] = {"ring", "stream"};

static int64_t run_trial(size_t index, int link, const char *const urls[2])
{
    static unsigned number;
    struct trial trial = {
        .urls = {urls[0], urls[1]}, .url = urls[link], .number = ++number, .conn_count = 0};
    for (int i = 0; i < 2; i++) {
        (void)snprintf(trial.topics[i], sizeof(trial.topics[i]), "prompt.%d-%u.%s", (int)getpid(),
                       trial.number, i == 0 ? "a" : "b");
    }
    int64_t late_ns = cases[index].run(&trial);
    while (trial.conn_count > 0) {
        (void)amb_close(trial.conns[--trial.conn_count], 2 * AMB_SEC);
    }
    return late_ns;
}

/* Is it in time? */
static bool run_case(size_t index, int link, const char *const urls[2], long rounds, long tries)
{
    bool is_good = true;
    (void)printf("%-14s %-6s", cases[index].name, links[link]);
    for (long round = 0; round < rounds && is_good; round++) {
        is_good = false;
        for (long i = 0; i < tries && !is_good; i++) {
            int64_t late_ns = run_trial(index, link, urls);
            is_good = late_ns <= late_most_ns;
            if (late_ns >= NEVER_NS) { /* No load excuses that. */
                (void)printf(" never");
                tries = 0;
            } else {
                (void)printf(" %.1f", (double)late_ns / 1e6);
            }
        }
    }
    (void)printf(" ms: %s\n", is_good ? "in time" : "LATE");
    (void)fflush(stdout);
    return is_good;
}

static bool is_chosen(const char *name, char **names, int count)
{
    for (int i = 0; i < count; i++) {
        if (strcmp(names[i], name) == 0) {
            return true;
        }
    }
    return count == 0;
}

int main(int argc, char **argv)
{
    bool is_good = true;
    long rounds = 1, tries = 5;
    if (argc < 3) {
        (void)fprintf(stderr, "usage: promptness RING_URL STREAM_URL [--rounds N] "
                              "[--tries N] [--late MS] [--broker PID] [CASE]...\n");
        return 64;
    }
    int at = 3;
    for (; at < argc && argv[at][0] == '-'; at++) {
        if (strcmp(argv[at], "--rounds") == 0 && at + 1 < argc) {
            rounds = strtol(argv[++at], NULL, 10);
        } else if (strcmp(argv[at], "--tries") == 0 && at + 1 < argc) {
            tries = strtol(argv[++at], NULL, 10);
        } else if (strcmp(argv[at], "--broker") == 0 && at + 1 < argc) {
            broker_pid = argv[++at];
        } else if (strcmp(argv[at], "--late") == 0 && at + 1 < argc) {
            late_most_ns = (int64_t)(strtod(argv[++at], NULL) * (double)AMB_MS);
        }
    }
    const char *const urls[2] = {argv[1], argv[2]};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        for (int link = 0; link < (cases[i].is_ring_only ? 1 : 2); link++) {
            if (is_chosen(cases[i].name, argv + at, argc - at)) {
                is_good = run_case(i, link, urls, rounds, tries) && is_good;
            }
        }
    }
    (void)printf("end\n");
    (void)fflush(stdout);
    return is_good ? 0 : 1;
}
