/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connections that do what a test says, a line each.
 *
 *     puppet
 *
 * Standard input: "SLOT COMMAND ARGUMENT..."; a slot is a connection. Each line has one answer:
 * "ok ..." or "no STATUS TEXT". A time is in milliseconds, H is a handle of the test's choice.
 *
 *     connect URL CREDENTIALS     a path, or "-"            close
 *     pub H TOPIC NAME            NAME: "-" for none        unpub H
 *     send H TEXT TIME            settled when it answers
 *     fill H COUNT SIZE TIME      as many as leave within TIME: "ok SENT BLOCKED"
 *     for H SECONDS SIZE          as many as leave meanwhile: "ok SENT"
 *     sub H PATTERN KEY=VALUE...  group, durable, ack, start=first, filter, credit
 *     unsub H
 *     next H TIME                 "ok TOPIC TEXT"; the message is acknowledged and given back
 *     keep H TIME                 the same, and the message is kept
 *     term H TIME                 the same, and the message is a dead letter
 *     take H TIME                 all that come until none comes for TIME: "ok COUNT"
 *     request TOPIC TEXT TIME     "ok TEXT"
 *     answer H TEXT TIME          the next message of H, a request, gets TEXT
 *     ask QUERY                   "ok JSON"
 *     lease H COUNT SIZE SECONDS  payloads written in leased memory: "ok SENT"
 *     hold H COUNT TIME           so many messages, which are kept: "ok COUNT IN_PLACE"
 *     asks SECONDS                as many questions as are answered meanwhile: "ok COUNT"
 *     takes H COUNT TIME          so many messages of any size, or all within TIME: "ok COUNT TOOK"
 *
 * Exit: 0, when its input ends.
 */
#include <amb/amb.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SLOTS 512u
#define HANDLES 2048u
#define WORDS 12u
#define LINE_MAX_LEN 4096u
#define SIZE_MAX_LEN (32u << 20)

struct slot {
    struct amb_conn *conn;
    struct amb_pub *pubs[HANDLES];
    struct amb_sub *subs[HANDLES];
};

static struct slot *slots[SLOTS];
static char *words[WORDS];
static unsigned word_count;
static char *payload;

static const char *word(unsigned i)
{
    return i < word_count ? words[i] : "";
}

static uint64_t number(unsigned i)
{
    return strtoull(word(i), NULL, 10);
}

static int64_t time_of(unsigned i)
{
    return (int64_t)number(i) * AMB_MS;
}

static void say(enum amb_status status, const struct amb_conn *conn)
{
    struct amb_error error = amb_last_error(conn);
    if (status == AMB_OK) {
        (void)printf("ok\n");
    } else {
        (void)printf("no %d %s: %s\n", (int)status, amb_strerror(status), error.text);
    }
}

static double now_s(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void do_connect(struct slot *slot)
{
    struct amb_error error = {0};
    const char *credentials = strcmp(word(3), "-") == 0 ? NULL : word(3);
    enum amb_status status =
        amb_connect(word(2),
                    AMB_OPTIONS(.name = "puppet", .error = &error, .credentials = credentials,
                                .reconnect_attempts = AMB_NONE),
                    &slot->conn);
    if (status == AMB_OK) {
        (void)printf("ok\n");
    } else {
        (void)printf("no %d %s\n", (int)status, error.text);
    }
}

static void do_close(struct slot *slot)
{
    enum amb_status status = amb_close(slot->conn, AMB_NOWAIT);
    memset(slot, 0, sizeof(*slot));
    (void)printf(status == AMB_OK ? "ok\n" : "no %d closed\n", (int)status);
}

static void do_pub(struct slot *slot)
{
    struct amb_pub **pub = &slot->pubs[number(2) % HANDLES];
    const char *name = word(4)[0] == '\0' || strcmp(word(4), "-") == 0 ? NULL : word(4);
    say(amb_pub_open(slot->conn, word(3), AMB_PUB(.name = name), pub), slot->conn);
}

static void do_unpub(struct slot *slot)
{
    struct amb_pub **pub = &slot->pubs[number(2) % HANDLES];
    say(amb_pub_close(*pub, 5 * AMB_SEC), slot->conn);
    *pub = NULL;
}

static void do_send(struct slot *slot)
{
    struct amb_pub *pub = slot->pubs[number(2) % HANDLES];
    enum amb_status status = amb_pub_send(pub, word(3), strlen(word(3)), time_of(4));
    say(status == AMB_OK ? amb_pub_flush(pub, 0, time_of(4)) : status, slot->conn);
}

static void do_fill(struct slot *slot)
{
    struct amb_pub *pub = slot->pubs[number(2) % HANDLES];
    struct amb_pub_info info = {.size = sizeof(info)};
    uint64_t sent = 0, size = number(4) % (SIZE_MAX_LEN + 1);
    while (sent < number(3) && amb_pub_send(pub, payload, size, time_of(5)) == AMB_OK) {
        sent++;
    }
    (void)amb_pub_stat(pub, &info);
    (void)printf("ok %" PRIu64 " %d\n", sent, (int)info.blocked);
}

static void do_for(struct slot *slot)
{
    struct amb_pub *pub = slot->pubs[number(2) % HANDLES];
    uint64_t sent = 0, size = number(4) % (SIZE_MAX_LEN + 1);
    double end = now_s() + strtod(word(3), NULL);
    while (now_s() < end) {
        sent += amb_pub_send(pub, payload, size, 10 * AMB_MS) == AMB_OK;
    }
    (void)printf("ok %" PRIu64 "\n", sent);
}

static const char *value_of(const char *key)
{
    size_t len = strlen(key);
    for (unsigned i = 4; i < word_count; i++) {
        if (strncmp(words[i], key, len) == 0 && words[i][len] == '=') {
            return words[i] + len + 1;
        }
    }
    return NULL;
}

static void do_sub(struct slot *slot)
{
    struct amb_sub **sub = &slot->subs[number(2) % HANDLES];
    const char *start = value_of("start"), *credit = value_of("credit");
    const struct amb_sub_options options = {
        .size = sizeof(options),
        .group = value_of("group"),
        .durable = value_of("durable"),
        .ack = value_of("ack") == NULL ? AMB_ACK_NONE : AMB_ACK_EXPLICIT,
        .start = start != NULL && strcmp(start, "first") == 0 ? AMB_START_FIRST : AMB_START_NEW,
        .filter = value_of("filter"),
        .credit_msgs = credit == NULL ? 0 : strtoull(credit, NULL, 10),
    };
    say(amb_subscribe(slot->conn, word(3), &options, sub), slot->conn);
}

static void do_unsub(struct slot *slot)
{
    struct amb_sub **sub = &slot->subs[number(2) % HANDLES];
    say(amb_sub_close(*sub, 5 * AMB_SEC), slot->conn);
    *sub = NULL;
}

static void show(const struct amb_msg *msg)
{
    const char *data = amb_msg_data(msg);
    (void)printf("ok %s %.*s\n", amb_msg_topic(msg), (int)(amb_msg_size(msg) % 256), data);
}

static void do_next(struct slot *slot)
{
    struct amb_msg *msg = NULL;
    enum amb_status status = amb_next(slot->subs[number(2) % HANDLES], time_of(3), &msg);
    if (status != AMB_OK) {
        say(status, slot->conn);
        return;
    }
    show(msg);
    bool is_given_up = strcmp(word(1), "term") == 0;
    (void)(is_given_up ? amb_msg_term(msg, "the test says so") : amb_msg_ack(msg));
    if (strcmp(word(1), "keep") != 0) {
        amb_msg_release(msg);
    }
}

static void do_take(struct slot *slot)
{
    struct amb_msg *msg = NULL;
    uint64_t count = 0;
    while (amb_next(slot->subs[number(2) % HANDLES], time_of(3), &msg) == AMB_OK) {
        amb_msg_release(msg);
        count++;
    }
    (void)printf("ok %" PRIu64 "\n", count);
}

static void do_request(struct slot *slot)
{
    struct amb_msg *reply = NULL;
    enum amb_status status =
        amb_request(slot->conn, word(2), word(3), strlen(word(3)), time_of(4), &reply);
    if (status != AMB_OK) {
        say(status, slot->conn);
        return;
    }
    show(reply);
    amb_msg_release(reply);
}

static void do_answer(struct slot *slot)
{
    struct amb_msg *msg = NULL;
    enum amb_status status = amb_next(slot->subs[number(2) % HANDLES], time_of(4), &msg);
    if (status == AMB_OK) {
        status = amb_reply(msg, word(3), strlen(word(3)), time_of(4));
        amb_msg_release(msg);
    }
    say(status, slot->conn);
}

static void do_ask(struct slot *slot)
{
    char query[LINE_MAX_LEN] = "";
    struct amb_msg *answer = NULL;
    size_t len = 0;
    for (unsigned i = 2; i < word_count; i++) {
        len += (size_t)snprintf(query + len, sizeof(query) - len, i == 2 ? "%s" : " %s", words[i]);
    }
    enum amb_status status = amb_admin(slot->conn, query, 10 * AMB_SEC, &answer);
    if (status != AMB_OK) {
        say(status, slot->conn);
        return;
    }
    (void)printf("ok %.*s\n", (int)amb_msg_size(answer), (const char *)amb_msg_data(answer));
    amb_msg_release(answer);
}

static void do_lease(struct slot *slot)
{
    struct amb_pub *pub = slot->pubs[number(2) % HANDLES];
    uint64_t sent = 0;
    double end = now_s() + strtod(word(5), NULL);
    while (sent < number(3) && now_s() < end) {
        struct amb_lease *lease = NULL;
        if (amb_lease(pub, number(4), 10 * AMB_MS, &lease) == AMB_OK) {
            memset(amb_lease_data(lease), 1, 64);
            sent += amb_lease_commit(lease, NULL, NULL) == AMB_OK;
        }
    }
    (void)printf("ok %" PRIu64 "\n", sent);
}

static void do_hold(struct slot *slot)
{
    uint64_t count = 0, in_place = 0;
    struct amb_msg *msg = NULL;
    while (count < number(3) &&
           amb_next(slot->subs[number(2) % HANDLES], time_of(4), &msg) == AMB_OK) {
        count++;
        in_place += strcmp(amb_msg_path(msg), "mapped") == 0;
    }
    (void)printf("ok %" PRIu64 " %" PRIu64 "\n", count, in_place);
}

static void do_asks(struct slot *slot)
{
    struct amb_msg *answer = NULL;
    uint64_t count = 0;
    double end = now_s() + strtod(word(2), NULL);
    while (now_s() < end && amb_admin(slot->conn, "quotas", 10 * AMB_SEC, &answer) == AMB_OK) {
        amb_msg_release(answer);
        count++;
    }
    (void)printf("ok %" PRIu64 "\n", count);
}

static void do_takes(struct slot *slot)
{
    struct amb_msg *msg = NULL;
    uint64_t count = 0;
    double begin = now_s(), left = (double)time_of(4) / 1e9;
    while (count < number(3) && now_s() - begin < left) {
        if (amb_next(slot->subs[number(2) % HANDLES], 10 * AMB_MS, &msg) == AMB_OK) {
            amb_msg_release(msg);
            count++;
        }
    }
    (void)printf("ok %" PRIu64 " %.3f\n", count, now_s() - begin);
}

static const struct {
    const char *name;
    void (*run)(struct slot *slot);
} commands[] = {
    {"connect", do_connect}, {"close", do_close},     {"pub", do_pub},       {"unpub", do_unpub},
    {"send", do_send},       {"fill", do_fill},       {"for", do_for},       {"sub", do_sub},
    {"unsub", do_unsub},     {"next", do_next},       {"keep", do_next},     {"term", do_next},
    {"take", do_take},       {"request", do_request}, {"answer", do_answer}, {"ask", do_ask},
    {"lease", do_lease},     {"hold", do_hold},       {"asks", do_asks},     {"takes", do_takes},
};

static void obey(char *line)
{
    char *rest = NULL;
    word_count = 0;
    for (char *w = strtok_r(line, " \n", &rest); w != NULL && word_count < WORDS;
         w = strtok_r(NULL, " \n", &rest)) {
        words[word_count++] = w;
    }
    struct slot **slot = &slots[number(0) % SLOTS];
    if (*slot == NULL) {
        *slot = calloc(1, sizeof(**slot));
    }
    for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
        if (strcmp(word(1), commands[i].name) == 0) {
            commands[i].run(*slot);
            (void)fflush(stdout);
            return;
        }
    }
    (void)printf("no 0 no such command\n");
    (void)fflush(stdout);
}

int main(void)
{
    static char line[LINE_MAX_LEN];
    payload = calloc(1, SIZE_MAX_LEN);
    while (payload != NULL && fgets(line, sizeof(line), stdin) != NULL) {
        obey(line);
    }
    for (unsigned i = 0; i < SLOTS; i++) {
        if (slots[i] != NULL && slots[i]->conn != NULL) {
            (void)amb_close(slots[i]->conn, AMB_NOWAIT);
        }
        free(slots[i]);
    }
    free(payload);
    return 0;
}
