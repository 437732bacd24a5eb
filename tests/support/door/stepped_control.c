/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/door/stepped_control.h"
#include "broker/control/control_loop.h"
#include "broker/control/directory/directory_chores.h"
#include "broker/control/directory/directory_counts.h"
#include "broker/worker/shard_setup.h"

#include "broker/config/config.h"
#include "broker/shard/shard.h"
#include "broker/worker/worker.h"
#include "wire/base/assert.h"
#include "wire/config/transports.h"

#include <poll.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define ROUNDS_MAX 100

const uint8_t stepped_hello[] = {0x12, 0x0c, 0x08, 0x01, 0x10, 0x01, 0x2a,
                                 0x06, 's',  't',  'r',  'e',  'a',  'm'};
const uint8_t stepped_auth[] = {0x22, 0x00};

static struct amb_config *config;
static struct amb_membudget budget;
static struct amb_shard shards[STEPPED_SHARDS];
static struct amb_shard *peers[STEPPED_SHARDS];
static struct amb_control control;
static const struct amb_transports transports = {.why_not = "no ucx: transports.trusted is empty"};

static void offer_segment(struct amb_shard *shard, uint64_t client_id, uint64_t segment,
                          uint64_t size, int fd)
{
    (void)shard, (void)client_id, (void)segment, (void)size;
    (void)close(fd);
}

static void session_ended(struct amb_shard *shard, uint64_t client_id, enum amb_status why,
                          const char *text)
{
    (void)shard, (void)client_id, (void)why, (void)text;
}

static const struct amb_shard_upcalls upcalls = {
    .offer_segment = offer_segment,
    .session_ended = session_ended,
    .topic_heard = amb_control_topic_heard,
};

static void set_up(void)
{
    static const char *const options[] = {
        "listen=tcp://127.0.0.1:0", "server.workers=2",         "memory.host.size=16M",
        "memory.host.segment=2M",   "limits.max_topics=32",     "limits.max_subscriptions=16",
        "transports.ring_size=64K", "server.max_connections=4", "auth.token="};
    struct amb_config_source source = {.options = options,
                                       .option_count = sizeof(options) / sizeof(options[0])};
    amb_assert(amb_config_create(&source, NULL, 0, &config) == AMB_OK);
    budget.max = config->memory.host.size;
    for (unsigned i = 0; i < STEPPED_SHARDS; i++) {
        amb_assert(amb_shard_init(&shards[i], i, config, &budget) == AMB_OK);
        peers[i] = &shards[i];
        shards[i].peers = peers;
        shards[i].peer_count = STEPPED_SHARDS;
        shards[i].control = &control.inbox;
        shards[i].upcalls = &upcalls;
    }
    amb_assert(amb_control_init(&control, config, peers, STEPPED_SHARDS, &budget, NULL, &transports,
                                NULL, 0) == AMB_OK);
}

struct amb_control *stepped_control(void)
{
    if (config == NULL) {
        set_up();
    }
    return &control;
}

struct amb_client *stepped_connect(bool is_unix, int *fd)
{
    int fds[2];
    struct amb_client *client;
    amb_assert(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) == 0);
    amb_assert(amb_client_create(stepped_control(), fds[0], is_unix, &client) == AMB_OK);
    *fd = fds[1];
    return client;
}

void stepped_say(int fd, const void *bytes, size_t len)
{
    ssize_t sent = send(fd, bytes, len, MSG_NOSIGNAL | MSG_DONTWAIT);
    (void)sent; /* The broker may have had enough. */
}

void stepped_say_body(int fd, const uint8_t *body, uint8_t len)
{
    const uint8_t prefix[AMB_CONTROL_PREFIX_SIZE] = {'A', 'M', 'B', AMB_CONTROL_VERSION, len};
    stepped_say(fd, prefix, sizeof(prefix));
    stepped_say(fd, body, len);
}

void stepped_introduce(struct amb_client *client, int fd)
{
    stepped_say_body(fd, stepped_hello, sizeof(stepped_hello));
    stepped_say_body(fd, stepped_auth, sizeof(stepped_auth));
    stepped_settle(client);
    amb_assert(client->state == AMB_CLIENT_LIVE);
}

void stepped_control_turn(struct amb_client *client)
{
    client->watch.fn(&client->watch, EPOLLIN);
    amb_directory_tell(&control.directory);
    (void)amb_inbox_run(&control.inbox);
    amb_directory_work(&control.directory);
}

unsigned stepped_workers_turn(void)
{
    unsigned done = 0;
    for (unsigned i = 0; i < STEPPED_SHARDS; i++) {
        done += amb_shard_turn(&shards[i], control.now_ns, control.now_ns);
    }
    return done;
}

void stepped_settle(struct amb_client *client)
{
    unsigned done = 1;
    for (int i = 0; i < ROUNDS_MAX && done > 0; i++) {
        client->watch.fn(&client->watch, EPOLLIN);
        amb_directory_tell(&control.directory);
        done = amb_inbox_run(&control.inbox);
        amb_directory_work(&control.directory);
        done += stepped_workers_turn();
    }
}

Amb__Control__Control *stepped_hear(int fd)
{
    struct amb_control_reader reader;
    Amb__Control__Control *message = NULL;
    amb_control_reader_init(&reader);
    while (message == NULL) {
        uint8_t bytes[1024];
        size_t used, wanted = amb_control_wanted(&reader);
        ssize_t got =
            recv(fd, bytes, wanted < sizeof(bytes) ? wanted : sizeof(bytes), MSG_DONTWAIT);
        amb_assert(got > 0);
        amb_assert(amb_control_read(&reader, bytes, (size_t)got, &used, &message, NULL) == AMB_OK);
    }
    amb_control_reader_fini(&reader);
    return message;
}

void stepped_log_in(struct amb_client *client, int fd)
{
    stepped_introduce(client, fd);
    amb_control_free(stepped_hear(fd)); /* Challenge */
    amb_control_free(stepped_hear(fd)); /* Welcome */
}

static void say_packed(int fd, const Amb__Control__Control *message)
{
    uint8_t bytes[1024];
    size_t len = amb_control_packed_size(message);
    amb_assert(len > 0 && len <= sizeof(bytes));
    amb_control_pack(message, bytes);
    stepped_say(fd, bytes, len);
}

void stepped_say_auth_after(int fd, const struct amb_client *former)
{
    Amb__Control__Former named = AMB__CONTROL__FORMER__INIT;
    Amb__Control__Auth auth = AMB__CONTROL__AUTH__INIT;
    Amb__Control__Control message = AMB__CONTROL__CONTROL__INIT;
    named.session = former->session.index;
    named.generation = former->session.generation;
    named.secret = former->secret;
    auth.former = &named;
    message.body_case = AMB__CONTROL__CONTROL__BODY_AUTH;
    message.auth = &auth;
    say_packed(fd, &message);
}

void stepped_say_message(struct amb_client *client, int fd, const Amb__Control__Control *message)
{
    say_packed(fd, message);
    stepped_settle(client);
}

Amb__Control__Control *stepped_ask(struct amb_client *client, int fd,
                                   const Amb__Control__Control *message)
{
    stepped_say_message(client, fd, message);
    return stepped_hear(fd);
}

/* A client that has asked for the doctor stays until another thread has read the files. */
static void wait_for_looks(struct amb_client *client)
{
    while (!amb_list_is_empty(&control.looks)) {
        if (amb_inbox_arm(&control.inbox)) {
            struct pollfd bell = {.fd = control.inbox.bell, .events = POLLIN};
            amb_assert(poll(&bell, 1, -1) == 1); /* The test has a time limit of its own. */
        }
        amb_inbox_disarm(&control.inbox, true);
        stepped_settle(client);
    }
}

void stepped_leave(struct amb_client *client, int fd)
{
    (void)shutdown(fd, SHUT_WR);
    stepped_settle(client);
    wait_for_looks(client);
    if (client->state != AMB_CLIENT_ENDING && client->refusal_ns != 0) {
        amb_client_tick(client,
                        client->refusal_ns); /* Its refusal waits, and time stands still here. */
        stepped_settle(client);
    }
    (void)close(fd);
    amb_client_bury(&control);
    if (!amb_list_is_empty(&control.clients)) {
        return;
    }
    amb_assert(control.client_count == 0 && control.half_open.clients == 0);
    amb_assert(amb_control_sessions(&control) == 0 && control.directory.sub_count == 0);
    for (unsigned i = 0; i < STEPPED_SHARDS; i++) {
        amb_assert(amb_list_is_empty(&shards[i].sessions.live));
    }
}
