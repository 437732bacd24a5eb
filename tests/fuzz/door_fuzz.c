/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A control connection from its first byte to its end, as the control thread and two workers see
 * it, without threads. The first byte says whether the client is known already, which door it came
 * through, and whether bytes come as they are or in messages (a length byte before each). Whatever
 * it says: the broker answers in whole messages, and nothing of the client is left afterwards.
 */
#include "broker/client.h"
#include "broker/config.h"
#include "broker/control.h"
#include "broker/shard.h"
#include "broker/transports.h"
#include "broker/worker.h"
#include "tests/fuzz/fuzz.h"
#include "wire/base/assert.h"

#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define SHARDS 2u
#define KNOWN 1u  /* flag: Hello and Auth have gone before */
#define LOCAL 2u  /* flag: on a Unix socket */
#define FRAMED 4u /* flag: messages, not bytes */
#define ROUNDS_MAX 100

static struct amb_config *config;
static struct amb_membudget budget;
static struct amb_shard shards[SHARDS];
static struct amb_shard *peers[SHARDS];
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

/* Once for all inputs: what they leave behind is a few topics, up to the limit. */
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
    for (unsigned i = 0; i < SHARDS; i++) {
        amb_assert(amb_shard_init(&shards[i], i, config, &budget) == AMB_OK);
        peers[i] = &shards[i];
        shards[i].peers = peers;
        shards[i].peer_count = SHARDS;
        shards[i].control = &control.inbox;
        shards[i].offer_segment = offer_segment;
        shards[i].session_ended = session_ended;
    }
    amb_assert(amb_control_init(&control, config, peers, SHARDS, &budget, NULL, &transports, NULL,
                                0) == AMB_OK);
}

/* Everybody does what there is to do. */
static void settle(struct amb_client *client)
{
    unsigned done = 1;
    for (int i = 0; i < ROUNDS_MAX && done > 0; i++) {
        client->watch.fn(&client->watch, EPOLLIN);
        done = amb_inbox_run(&control.inbox);
        for (unsigned s = 0; s < SHARDS; s++) {
            done += amb_shard_turn(&shards[s], control.now_ns, control.now_ns);
        }
    }
}

/* What the broker says has to be whole messages. */
static void listen_to(int fd, struct amb_control_reader *reader)
{
    uint8_t bytes[4096];
    ssize_t got;
    while ((got = recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT)) > 0) {
        for (size_t at = 0; at < (size_t)got;) {
            size_t used;
            Amb__Control__Control *message = NULL;
            amb_assert(amb_control_read(reader, bytes + at, (size_t)got - at, &used, &message,
                                        NULL) == AMB_OK);
            amb_control_free(message);
            at += used;
        }
    }
}

static void say(int fd, const uint8_t *bytes, size_t len)
{
    ssize_t sent = send(fd, bytes, len, MSG_NOSIGNAL | MSG_DONTWAIT);
    (void)sent; /* The broker may have had enough. */
}

static void say_message(int fd, const uint8_t *body, uint8_t len)
{
    const uint8_t prefix[AMB_CONTROL_PREFIX_SIZE] = {'A', 'M', 'B', AMB_CONTROL_VERSION, len};
    say(fd, prefix, sizeof(prefix));
    say(fd, body, len);
}

static void introduce(int fd, struct amb_client *client)
{
    static const uint8_t hello[] = {0x12, 0x04, 0x08, 0x01, 0x10, 0x01};
    static const uint8_t auth[] = {0x22, 0x00};
    say_message(fd, hello, sizeof(hello));
    say_message(fd, auth, sizeof(auth));
    settle(client);
    amb_assert(client->state == AMB_CLIENT_LIVE);
}

static void talk(int fd, struct amb_client *client, struct amb_control_reader *reader,
                 const uint8_t *data, size_t len, bool is_framed)
{
    while (len > 0) {
        size_t part = is_framed ? *data : len;
        if (is_framed) {
            data++;
            len--;
            part = part < len ? part : len;
            say_message(fd, data, (uint8_t)part);
        } else {
            part = part < 4096 ? part : 4096;
            say(fd, data, part);
        }
        settle(client);
        listen_to(fd, reader);
        data += part;
        len -= part;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    int fds[2];
    struct amb_client *client;
    if (config == NULL) {
        set_up();
    }
    if (len == 0 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) != 0) {
        return 0;
    }
    unsigned flags = data[0];
    amb_assert(amb_client_create(&control, fds[0], (flags & LOCAL) != 0, &client) == AMB_OK);
    struct amb_control_reader reader;
    amb_control_reader_init(&reader);
    if ((flags & KNOWN) != 0) {
        introduce(fds[1], client);
    }
    talk(fds[1], client, &reader, data + 1, len - 1, (flags & FRAMED) != 0);
    (void)shutdown(fds[1], SHUT_WR);
    settle(client);
    listen_to(fds[1], &reader);
    (void)close(fds[1]);
    amb_control_reader_fini(&reader);
    amb_client_bury(&control);
    amb_assert(amb_list_is_empty(&control.clients) && control.client_count == 0);
    amb_assert(control.half_open_count == 0 && amb_control_sessions(&control) == 0);
    amb_assert(control.directory.sub_count == 0);
    for (unsigned s = 0; s < SHARDS; s++) {
        amb_assert(amb_list_is_empty(&shards[s].live_sessions));
    }
    return 0;
}
