/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From a connection's first byte to its session, and to its end. There are up to three connections
 * at once, as the control thread sees them. The workers' answers come when and as the input says.
 * `door` has workers that do as they are told, and requests. Here a script stands for them, and
 * messages are handed to amb_client_take, so that it runs far more often. The answers go through
 * sockets that stay (on a Unix door: through a new pair, as that one is shut down).
 *
 * Four things hold always. Nobody has a session without the proof that is due. Nobody attaches to,
 * or ends, a session without its secret. Answers are whole messages in their order. And nothing of
 * anybody is left behind.
 *
 *   byte 0  1: TCP clients need a token  2: the broker drains  4: an old kernel  8: prefers ucx
 *   then steps: see step()
 *
 * It does not reach ucx links beyond Hello, descriptors that are passed, requests, events.
 */
#include "broker/config/config.h"
#include "broker/control/clients/client_io.h"
#include "broker/control/clients/client_session.h"
#include "broker/control/clients/control.h"
#include "broker/control/requests/requests.h"
#include "broker/shard/shard.h"
#include "broker/worker/orders_private.h"
#include "broker/worker/orders_session.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/door/stepped_control.h"
#include "wire/base/assert.h"
#include "wire/base/clock.h"
#include "wire/config/transports.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#define SLOTS 3u
#define PENDING_MAX 256u
#define PROOF_SIZE 32u
#define ROUNDS_MAX 16
#define TOKEN "a token"

#define NEEDS_TOKEN 1u
#define DRAINS 2u
#define OLD_KERNEL 4u
#define PREFERS_UCX 8u

/* A place for a connection. */
struct slot {
    struct amb_client *client; /* NULL: none, or it has ended */
    int pair[2];               /* that stays, of TCP clients */
    int far;                   /* where the answers come; its own on a Unix door */
    bool is_unix, has_proved;
    bool was_challenged, was_welcomed, is_over; /* by what was heard */
    struct amb_control_reader heard;
};

/* A request that the workers are at. */
struct pending {
    struct amb_client *client;
    uint64_t id;
};

struct script {
    const uint8_t *at, *end;
};

static struct amb_control *control;
static struct amb_config with_token, without_token;
static struct amb_transports transports = {.why_not = "no ucx here"};
static struct slot slots[SLOTS];
static struct pending pending[PENDING_MAX];
static unsigned pending_count;
static bool is_right_attach;
static int spare_fd; /* to be duplicated where a descriptor is wanted */
static uint8_t packed[1024];

/* Bytes ---------------------------------------------------------------------------------------- */

FUZZ_PLAIN static uint8_t take(struct script *script)
{
    return script->at < script->end ? *script->at++ : 0;
}

/* len bytes, or as many as there are. */
FUZZ_PLAIN static const uint8_t *take_bytes(struct script *script, size_t *len)
{
    const uint8_t *bytes = script->at;
    size_t left = (size_t)(script->end - script->at);
    *len = *len < left ? *len : left;
    script->at += *len;
    return bytes;
}

/* What the broker says ---------------------------------------------------------------------------
 */

FUZZ_PLAIN static void check_heard(struct slot *slot, const Amb__Control__Control *message)
{
    amb_assert(!slot->is_over);
    switch ((unsigned)message->body_case) {
    case AMB__CONTROL__CONTROL__BODY_CHALLENGE:
        amb_assert(!slot->was_challenged);
        slot->was_challenged = true;
        return;
    case AMB__CONTROL__CONTROL__BODY_WELCOME:
        amb_assert(slot->was_challenged && !slot->was_welcomed && slot->has_proved);
        slot->was_welcomed = true;
        return;
    case AMB__CONTROL__CONTROL__BODY_ERROR:
        slot->is_over = message->id == 0;
        return;
    case AMB__CONTROL__CONTROL__BODY_OK: /* of Attach, or of a request */
        return;
    case AMB__CONTROL__CONTROL__BODY_PONG:
        amb_assert(slot->was_welcomed);
        return;
    default:
        amb_assert(false);
    }
}

FUZZ_PLAIN static void listen_to(struct slot *slot)
{
    uint8_t bytes[4096];
    ssize_t got;
    while (slot->far >= 0 && (got = recv(slot->far, bytes, sizeof(bytes), MSG_DONTWAIT)) > 0) {
        for (size_t at = 0; at < (size_t)got;) {
            size_t used;
            Amb__Control__Control *message = NULL;
            amb_assert(amb_control_read(&slot->heard, bytes + at, (size_t)got - at, &used, &message,
                                        NULL) == AMB_OK);
            if (message != NULL) {
                check_heard(slot, message);
                amb_control_free(message);
            }
            at += used;
        }
    }
}

/* Clients -------------------------------------------------------------------------------------- */

/* Forgets clients that have ended: the next burial frees them. */
FUZZ_PLAIN static void look(void)
{
    for (unsigned i = 0; i < SLOTS; i++) {
        struct amb_client *client = slots[i].client;
        if (client == NULL) {
            continue;
        }
        if (client->state == AMB_CLIENT_OPENING || client->state == AMB_CLIENT_LIVE) {
            amb_assert(slots[i].has_proved);
        }
        if (client->state == AMB_CLIENT_ENDING) {
            slots[i].client = NULL;
        }
    }
}

/* Those that count as half open are, and those that get a session. */
FUZZ_PLAIN static void check_counts(void)
{
    unsigned half_open = 0, opening = 0, all = 0;
    AMB_LIST_FOR_EACH (node, &control->clients) {
        const struct amb_client *client = AMB_CONTAINER_OF(node, struct amb_client, node);
        half_open += client->state < AMB_CLIENT_OPENING;
        opening += client->state == AMB_CLIENT_OPENING;
        all++;
    }
    amb_assert(control->half_open.clients == half_open && control->client_count >= all);
    amb_assert(control->opening_count >= opening);
}

FUZZ_PLAIN static void be_over(struct slot *slot)
{
    listen_to(slot);
    if (slot->is_unix && slot->far >= 0) {
        (void)close(slot->far);
    }
    uint8_t *body = slot->heard.body;
    amb_control_reader_init(&slot->heard);
    slot->heard.body = body; /* It costs more than what is heard. */
    slot->far = -1;
    slot->is_unix = slot->has_proved = false;
    slot->was_challenged = slot->was_welcomed = slot->is_over = false;
}

/* 4: a Unix door  8: its process is known  16: another user's */
FUZZ_PLAIN static void come(struct slot *slot, uint8_t how)
{
    if (slot->client != NULL) {
        return;
    }
    be_over(slot);
    int near;
    slot->is_unix = (how & 4) != 0;
    if (slot->is_unix) {
        int fds[2];
        amb_assert(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) == 0);
        near = fds[0];
        slot->far = fds[1];
    } else {
        near = dup(slot->pair[0]);
        slot->far = slot->pair[1];
    }
    amb_assert(near >= 0 &&
               amb_client_create(control, near, slot->is_unix, &slot->client) == AMB_OK);
    struct amb_client *client = slot->client;
    unsigned index = (unsigned)(slot - slots);
    memcpy(client->address, "10.0.0.1:5000", 14);
    client->address[7] = (char)('1' + (index & 1));
    client->uid = (how & 16) != 0 ? 1001 : 1000;
    client->pid = (how & 8) != 0 ? (pid_t)(4000 + (how & 16) + (index & 1)) : 0;
    if (slot->is_unix && (how & 8) != 0) {
        client->passed_fd = dup(spare_fd);
    }
    slot->has_proved = slot->is_unix || control->config->auth.token[0] == '\0';
}

FUZZ_PLAIN static void feed(struct slot *slot, const uint8_t *bytes, size_t len)
{
    while (len > 0 && slot->client != NULL && slot->client->state != AMB_CLIENT_ENDING &&
           slot->client->paused == 0) {
        uint64_t attached = control->stats->attached;
        size_t wanted = amb_control_wanted(&slot->client->reader);
        size_t part = wanted < len ? wanted : len;
        (void)amb_client_take(slot->client, bytes, part);
        amb_assert(control->stats->attached == attached || is_right_attach);
        bytes += part;
        len -= part;
    }
    look();
}

FUZZ_PLAIN static void say(struct slot *slot, const Amb__Control__Control *message)
{
    size_t size = amb_control_packed_size(message);
    amb_assert(size > 0 && size <= sizeof(packed));
    amb_control_pack(message, packed);
    feed(slot, packed, size);
}

FUZZ_PLAIN static void say_body(struct slot *slot, const uint8_t *body, size_t len)
{
    const uint8_t prefix[AMB_CONTROL_PREFIX_SIZE] = {'A', 'M', 'B', AMB_CONTROL_VERSION,
                                                     (uint8_t)len};
    feed(slot, prefix, sizeof(prefix));
    feed(slot, body, len);
}

/* The n-th that has a session, also one that has ended; NULL: there is none. */
FUZZ_PLAIN static struct amb_client *with_session(unsigned n)
{
    AMB_LIST_FOR_EACH (node, &control->clients) {
        struct amb_client *client = AMB_CONTAINER_OF(node, struct amb_client, node);
        if (client->has_session && n-- == 0) {
            return client;
        }
    }
    return NULL;
}

FUZZ_PLAIN static unsigned live_beside(const struct amb_client *client)
{
    unsigned live = 0;
    AMB_LIST_FOR_EACH (node, &control->clients) {
        const struct amb_client *other = AMB_CONTAINER_OF(node, struct amb_client, node);
        live += other != client && other->state == AMB_CLIENT_LIVE;
    }
    return live;
}

/* What clients say ----------------------------------------------------------------------------- */

FUZZ_PLAIN static void say_hello(struct slot *slot, uint8_t how)
{
    static const char *const wishes[] = {"", "stream", "ring", "ucx", "unknown", "", "ring", ""};
    Amb__Control__Peer peer;
    amb__control__peer__init(&peer);
    Amb__Control__Hello hello;
    amb__control__hello__init(&hello);
    hello.version_min = (how & 0x40) != 0 ? 2 : 1;
    hello.version_max = (how & 0x80) != 0 ? 0 : 1;
    hello.name = (char *)(uintptr_t) "fuzz\x7f\n";
    hello.link = (char *)(uintptr_t)wishes[how >> 2 & 7];
    hello.peer = (how & 0x20) != 0 ? &peer : NULL;
    Amb__Control__Control message;
    amb__control__control__init(&message);
    message.body_case = AMB__CONTROL__CONTROL__BODY_HELLO;
    message.hello = &hello;
    say(slot, &message);
}

/* kind 0: the right one  1: a wrong one  2: a short one  3: none */
FUZZ_PLAIN static void fill_proof(struct slot *slot, unsigned kind, uint8_t proof[PROOF_SIZE],
                                  ProtobufCBinaryData *out)
{
    struct amb_client *client = slot->client;
    unsigned len = 0;
    memset(proof, 0, PROOF_SIZE);
    if (kind != 3 && client->control->config->auth.token[0] != '\0') {
        amb_assert(HMAC(EVP_sha256(), TOKEN, (int)strlen(TOKEN), client->nonce,
                        sizeof(client->nonce), proof, &len) != NULL &&
                   len == PROOF_SIZE);
    }
    proof[client->nonce[0] % PROOF_SIZE] ^= kind == 1;
    *out = (ProtobufCBinaryData){.len = kind == 2   ? PROOF_SIZE - 1
                                        : kind == 3 ? 0
                                                    : PROOF_SIZE,
                                 .data = proof};
    slot->has_proved = slot->has_proved || (kind == 0 && client->state == AMB_CLIENT_AUTH);
}

/* how: proof 3, former 12 (3: none), 16: its secret is wrong, 32: unmapped, 64: an address */
FUZZ_PLAIN static void say_auth(struct slot *slot, uint8_t how)
{
    uint8_t proof[PROOF_SIZE];
    const struct amb_client *old = with_session(how >> 2 & 3);
    bool is_wrong = (how & 16) != 0;
    if (slot->client == NULL) {
        return;
    }
    Amb__Control__Former former;
    amb__control__former__init(&former);
    Amb__Control__Auth auth;
    amb__control__auth__init(&auth);
    fill_proof(slot, how & 3, proof, &auth.proof);
    if ((how >> 2 & 3) != 3 && old != NULL) {
        former.session = old->session.index;
        former.generation = old->session.generation;
        former.secret = old->secret ^ is_wrong;
        former.unmapped = how >> 5 & 1;
        auth.former = &former;
    }
    if ((how & 64) != 0) {
        auth.ucx_address = (ProtobufCBinaryData){.len = 4, .data = proof};
    }
    Amb__Control__Control message;
    amb__control__control__init(&message);
    message.body_case = AMB__CONTROL__CONTROL__BODY_AUTH;
    message.auth = &auth;
    const struct amb_client *client = slot->client;
    unsigned live = live_beside(client);
    say(slot, &message);
    amb_assert(!is_wrong || live_beside(client) == live);
}

/* how: target 12, 16: wrong secret, 32: wrong generation, 64: wrong index, 128: no id */
FUZZ_PLAIN static void say_attach(struct slot *slot, uint8_t how)
{
    const struct amb_client *target = with_session(how >> 2 & 3);
    Amb__Control__Attach attach;
    amb__control__attach__init(&attach);
    if (target != NULL) {
        attach.session = target->session.index ^ (how >> 6 & 1);
        attach.generation = target->session.generation ^ (how >> 5 & 1);
        attach.secret = target->secret ^ (how >> 4 & 1);
        is_right_attach = (how & 0x70) == 0;
    }
    Amb__Control__Control message;
    amb__control__control__init(&message);
    message.id = (how & 128) == 0;
    message.body_case = AMB__CONTROL__CONTROL__BODY_ATTACH;
    message.attach = &attach;
    say(slot, &message);
    is_right_attach = false;
}

/* kind 0: Bye  1: Ping  2: requests  3: one without an id */
FUZZ_PLAIN static void say_often(struct slot *slot, unsigned kind, unsigned count)
{
    Amb__Control__Bye bye;
    amb__control__bye__init(&bye);
    Amb__Control__Ping ping;
    amb__control__ping__init(&ping);
    Amb__Control__Unsubscribe request;
    amb__control__unsubscribe__init(&request);
    Amb__Control__Control message;
    amb__control__control__init(&message);
    message.id = kind == 2;
    message.body_case = kind == 0   ? AMB__CONTROL__CONTROL__BODY_BYE
                        : kind == 1 ? AMB__CONTROL__CONTROL__BODY_PING
                                    : AMB__CONTROL__CONTROL__BODY_UNSUBSCRIBE;
    if (kind == 0) {
        message.bye = &bye;
    } else if (kind == 1) {
        message.ping = &ping;
    } else {
        message.unsubscribe = &request;
    }
    for (unsigned i = 0; i < count && slot->client != NULL; i++) {
        say(slot, &message);
    }
}

/* The workers ---------------------------------------------------------------------------------- */

/* In place of requests.h: a worker's work is answered when the script says so. */
FUZZ_PLAIN static void on_request(struct amb_client *client, const Amb__Control__Control *message)
{
    if (client->state != AMB_CLIENT_LIVE || message->body_case == AMB__CONTROL__CONTROL__BODY_BYE ||
        message->body_case == AMB__CONTROL__CONTROL__BODY_PING) {
        amb_request_handle(client, message);
    } else if (message->id == 0 || pending_count == PENDING_MAX) {
        amb_client_send_error(client, 0, AMB_EPROTO, "no request");
    } else {
        amb_client_begin_work(client);
        pending[pending_count++] = (struct pending){client, message->id};
    }
}

FUZZ_PLAIN static void answer_requests(unsigned count)
{
    for (; count > 0 && pending_count > 0; count--) {
        struct pending *last = &pending[--pending_count];
        if (last->client->state == AMB_CLIENT_LIVE) {
            amb_client_send_ok(last->client, last->id);
        }
        amb_client_end_work(last->client);
    }
}

/* how: 1: what can fail does, 2: with EUCX  4: a session that ends still holds something */
FUZZ_PLAIN static void answer_order(struct amb_order *order, uint8_t how)
{
    bool fails = (how & 1) != 0;
    if (order->kind == &amb_order_session_open) {
        struct amb_order_session_open *open =
            AMB_CONTAINER_OF(order, struct amb_order_session_open, order);
        order->status = !fails ? AMB_OK : (how & 2) != 0 ? AMB_EUCX : AMB_ENOMEM;
        if (!fails && open->opening.link == AMB_LINK_RING) {
            open->opening.fds = (struct amb_ring_fds){dup(spare_fd), dup(spare_fd)};
        } else {
            open->opening.fds = (struct amb_ring_fds){-1, -1};
        }
    } else if (order->kind == &amb_order_session_attach) {
        (void)close(AMB_CONTAINER_OF(order, struct amb_order_session_attach, order)->fd);
        order->status = fails ? AMB_ESTATE : AMB_OK;
    } else if (order->kind == &amb_order_session_close) {
        struct amb_order_session_end *end =
            AMB_CONTAINER_OF(order, struct amb_order_session_end, order);
        end->closing.quarantined_bytes = end->closing.keep_held && (how & 4) != 0 ? 4096 : 0;
    } else {
        amb_assert(order->kind == &amb_order_session_release ||
                   order->kind == &amb_order_session_heard ||
                   order->kind == &amb_order_session_raise_mapped);
    }
    amb_order_answer(order);
}

FUZZ_PLAIN static void answer_orders(uint8_t how)
{
    for (unsigned i = 0; i < control->shard_count; i++) {
        struct amb_mpsc_node *node = amb_mpsc_take_all(&control->shards[i]->inbox.posted);
        while (node != NULL) {
            struct amb_mpsc_node *next = node->next;
            answer_order(AMB_CONTAINER_OF(node, struct amb_order, mail.node), how);
            node = next;
        }
    }
}

/* Between two rounds of events. */
FUZZ_PLAIN static void control_turn(void)
{
    (void)amb_inbox_run(&control->inbox);
    amb_client_raise_fallen(control);
    look();
    check_counts();
    amb_client_bury(control);
}

/* Time, and ends ------------------------------------------------------------------------------- */

FUZZ_PLAIN static void tick(int64_t ns)
{
    control->now_ns += ns;
    AMB_LIST_FOR_EACH_SAFE (node, &control->clients) {
        amb_client_tick(AMB_CONTAINER_OF(node, struct amb_client, node), control->now_ns);
    }
    look();
}

/* The n-th process that we watch ends; odd: instead the broker waits no longer for its session. */
FUZZ_PLAIN static void process_ends(unsigned n)
{
    struct amb_client *client = with_session(n >> 1);
    if (client == NULL) {
        return;
    }
    if ((n & 1) != 0) {
        amb_client_give_up(client);
    } else if (client->pidfd_watch.place != 0) {
        client->pidfd_watch.fn(&client->pidfd_watch, EPOLLIN);
    }
    look();
}

/* how: 4: its peer reads first, 8: and has closed then */
FUZZ_PLAIN static void event(struct slot *slot, uint8_t how)
{
    struct amb_client *client = slot->client;
    if (client == NULL) {
        return;
    }
    if ((how & 4) != 0) {
        listen_to(slot);
        client->watch.fn(&client->watch, EPOLLOUT);
    }
    if ((how & 8) != 0) {
        amb_client_end(client, "it has closed its control connection");
    }
    look();
}

/* The low two bits of a step's second byte are the slot, the others are how. */
FUZZ_PLAIN static void step(struct script *script)
{
    uint8_t what = take(script), how = take(script);
    struct slot *slot = &slots[how % 4 % SLOTS];
    size_t len;
    const uint8_t *bytes;
    switch (what % 12) {
    case 0:
        come(slot, how);
        return;
    case 1:
        len = how >> 2;
        bytes = take_bytes(script, &len);
        feed(slot, bytes, len);
        return;
    case 2:
        len = how >> 2;
        bytes = take_bytes(script, &len);
        say_body(slot, bytes, len);
        return;
    case 3:
        say_hello(slot, how);
        return;
    case 4:
        say_auth(slot, take(script));
        return;
    case 5:
        say_attach(slot, how);
        return;
    case 6:
        say_often(slot, how >> 2 & 3, how >> 4 == 15 ? 80 : how >> 4);
        return;
    case 7:
        answer_orders(how);
        return;
    case 8:
        answer_requests(how);
        control_turn();
        return;
    case 9:
        tick(how * (AMB_NS_PER_SEC / 10));
        return;
    case 10:
        event(slot, how);
        return;
    default:
        process_ends(how);
        return;
    }
}

/* Once ------------------------------------------------------------------------------------------
 */

FUZZ_PLAIN static void set_up(void)
{
    control = stepped_control();
    control->on_request = on_request;
    control->transports = &transports;
    without_token = with_token = *control->config;
    with_token.auth.token = TOKEN;
    with_token.limits.user_share = 50;
    spare_fd = eventfd(0, EFD_CLOEXEC);
    amb_assert(spare_fd >= 0);
    for (unsigned i = 0; i < SLOTS; i++) {
        slots[i].far = -1;
        amb_assert(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, slots[i].pair) == 0);
        amb_assert(setsockopt(slots[i].pair[0], SOL_SOCKET, SO_SNDBUF, &(int){4096}, sizeof(int)) ==
                   0);
    }
}

/* As if nothing had been. */
FUZZ_PLAIN static void begin(uint8_t flags)
{
    control->config = (flags & NEEDS_TOKEN) != 0 ? &with_token : &without_token;
    control->is_draining = (flags & DRAINS) != 0;
    control->kernel_names_peers = (flags & OLD_KERNEL) == 0;
    transports.prefer_ucx = (flags & PREFERS_UCX) != 0;
    control->now_ns = 1000 * AMB_NS_PER_SEC;
    control->next_client = 0;
    control->kept_fds = 0;
    control->ucx_broken = NULL;
    if (control->stats->refused_auth != 0) {
        memset(&control->failures, 0, sizeof(control->failures));
        control->stats->refused_auth = 0;
    }
    for (unsigned i = 0; i < control->shard_count; i++) {
        struct amb_session_indices *indices = &control->indices[i];
        for (uint32_t k = 0; k < indices->count; k++) {
            indices->generations[k] = 0;
        }
    }
}

FUZZ_PLAIN static void finish(void)
{
    for (unsigned i = 0; i < SLOTS; i++) {
        if (slots[i].client != NULL) {
            amb_client_end(slots[i].client, "the end");
        }
    }
    look();
    for (int i = 0; i < ROUNDS_MAX && control->client_count > 0; i++) {
        answer_requests(PENDING_MAX);
        answer_orders(0);
        AMB_LIST_FOR_EACH_SAFE (node, &control->clients) {
            amb_client_give_up(AMB_CONTAINER_OF(node, struct amb_client, node));
        }
        control_turn();
    }
    amb_assert(amb_list_is_empty(&control->clients) && amb_list_is_empty(&control->dead));
    amb_assert(control->client_count == 0 && control->half_open.clients == 0);
    amb_assert(control->opening_count == 0);
    amb_assert(amb_control_sessions(control) == 0 && pending_count == 0);
    for (unsigned i = 0; i < SLOTS; i++) {
        be_over(&slots[i]);
    }
    control->parties.swept_ns = 0;
    amb_parties_sweep(&control->parties, control->now_ns);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    if (control == NULL) {
        set_up();
    }
    if (len == 0) {
        return 0;
    }
    struct script script = {data + 1, data + len};
    begin(data[0]);
    while (script.at < script.end) {
        step(&script);
    }
    finish();
    return 0;
}
