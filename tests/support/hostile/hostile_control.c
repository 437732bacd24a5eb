/* SPDX-License-Identifier: Apache-2.0 */
/* Attacks on the control connection: requests with any fields, floods, halves, and descriptors. */
#include "tests/support/hostile/hostile.h"
#include "tests/support/lingering.h"

#include "wire/base/clock.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static const char *any_text(struct hostile *h, char *out, size_t size)
{
    static const char *const texts[] = {"",           ".",        "a..b",
                                        ">",          "*",        "hostile.>",
                                        "$SYS.a",     "$DLQ.x",   "a.>.b",
                                        " ",          "\x01\x02", "\xff",
                                        "hostile.*.", "a b",      "status",
                                        "clients",    "%s%n%s%n", "../",
                                        "hostile.x",  "\xc3",     "hostile.\xf0\x9f\x90\x99"};
    uint64_t kind = hostile_below(h, 4);
    if (kind == 0) {
        size_t len = (size_t)hostile_below(h, size);
        hostile_bytes(h, out, len);
        for (size_t i = 0; i < len; i++) {
            out[i] = out[i] == '\0' ? 'x' : out[i];
        }
        out[len] = '\0';
    } else if (kind == 1) {
        memset(out, 'y', size - 1);
        out[size - 1] = '\0';
    } else {
        (void)snprintf(out, size, "%s", texts[hostile_below(h, sizeof(texts) / sizeof(*texts))]);
    }
    return out;
}

/* One message of any type, its fields as the dice fall. */
static void send_any(struct hostile *h)
{
    char text[600];
    Amb__Control__Control message;
    amb__control__control__init(&message);
    message.id = hostile_below(h, 20) == 0 ? 0 : hostile_edge(h) | 1;
    union {
        Amb__Control__PubOpen pub_open;
        Amb__Control__PubClose pub_close;
        Amb__Control__Subscribe subscribe;
        Amb__Control__Unsubscribe unsubscribe;
        Amb__Control__SegRefused refused;
        Amb__Control__Ping ping;
        Amb__Control__Admin admin;
        Amb__Control__LeaseOpen lease_open;
        Amb__Control__LeaseMapped lease_mapped;
        Amb__Control__LeaseClose lease_close;
    } u;
    switch (hostile_below(h, 10)) {
    case 0:
        amb__control__pub_open__init(&u.pub_open);
        u.pub_open.handle = (uint32_t)hostile_edge(h);
        u.pub_open.topic = (char *)(uintptr_t)any_text(h, text, sizeof(text));
        u.pub_open.confirm = (uint32_t)hostile_edge(h);
        u.pub_open.settled = (uint32_t)hostile_edge(h);
        message.body_case = AMB__CONTROL__CONTROL__BODY_PUB_OPEN;
        break;
    case 1:
        amb__control__pub_close__init(&u.pub_close);
        u.pub_close.handle = (uint32_t)hostile_edge(h);
        u.pub_close.batches = hostile_edge(h);
        message.body_case = AMB__CONTROL__CONTROL__BODY_PUB_CLOSE;
        break;
    case 2:
        amb__control__subscribe__init(&u.subscribe);
        u.subscribe.handle = (uint32_t)hostile_edge(h);
        u.subscribe.pattern = (char *)(uintptr_t)any_text(h, text, sizeof(text));
        u.subscribe.credit_msgs = hostile_edge(h);
        u.subscribe.credit_bytes = hostile_edge(h);
        u.subscribe.slow = AMB_SLOW_DROP_OLDEST; /* Anything else may hold others up, by right. */
        u.subscribe.slow_block_ns = (int64_t)hostile_edge(h);
        u.subscribe.copy = (uint32_t)hostile_edge(h);
        message.body_case = AMB__CONTROL__CONTROL__BODY_SUBSCRIBE;
        break;
    case 3:
        amb__control__unsubscribe__init(&u.unsubscribe);
        u.unsubscribe.handle = (uint32_t)hostile_edge(h);
        message.body_case = AMB__CONTROL__CONTROL__BODY_UNSUBSCRIBE;
        break;
    case 4:
        amb__control__seg_refused__init(&u.refused);
        u.refused.segment = hostile_edge(h);
        message.body_case = AMB__CONTROL__CONTROL__BODY_SEG_REFUSED;
        break;
    case 5:
        amb__control__ping__init(&u.ping);
        u.ping.time_ns = (int64_t)hostile_edge(h);
        message.body_case = AMB__CONTROL__CONTROL__BODY_PING;
        break;
    case 6:
        amb__control__lease_open__init(&u.lease_open);
        u.lease_open.slot = hostile_edge(h);
        u.lease_open.slots = (uint32_t)hostile_edge(h);
        message.body_case = AMB__CONTROL__CONTROL__BODY_LEASE_OPEN;
        break;
    case 7:
        amb__control__lease_mapped__init(&u.lease_mapped);
        u.lease_mapped.segment = hostile_edge(h);
        message.body_case = AMB__CONTROL__CONTROL__BODY_LEASE_MAPPED;
        break;
    case 8:
        amb__control__lease_close__init(&u.lease_close);
        u.lease_close.segment = hostile_edge(h);
        message.body_case = AMB__CONTROL__CONTROL__BODY_LEASE_CLOSE;
        break;
    default:
        amb__control__admin__init(&u.admin);
        u.admin.query = (char *)(uintptr_t)any_text(h, text, sizeof(text));
        message.body_case = AMB__CONTROL__CONTROL__BODY_ADMIN;
    }
    message.ping = &u.ping; /* The members of its union are all pointers. */
    (void)hostile_send(h, &message);
}

static enum hostile_verdict any_requests(struct hostile *h)
{
    for (unsigned i = 0; i < 60 && !h->is_over; i++) {
        send_any(h);
        if (i % 16 == 0) {
            hostile_traffic(h, 1);
        }
    }
    return HOSTILE_EITHER;
}

/* Asks for Pongs and reads none of them. */
static enum hostile_verdict ping_unread(struct hostile *h)
{
    for (int64_t i = 0; i < 20000 && !h->is_over; i++) {
        hostile_ping(h, i);
    }
    return HOSTILE_LIVES;
}

/* Every handle there is, and some more, of both kinds; then half of them closed. */
static enum hostile_verdict thousands(struct hostile *h)
{
    char name[64];
    uint64_t id = 0;
    for (uint32_t i = 2; i < AMB_HANDLES_MAX + 8 && !h->is_over; i++) {
        (void)snprintf(name, sizeof(name), "hostile.many.%u", (unsigned)hostile_below(h, 64));
        (void)hostile_pub_open(h, i, name, i % 2 == 0);
        (void)snprintf(name, sizeof(name), i % 3 == 0 ? "hostile.many.>" : "hostile.*.%u",
                       (unsigned)hostile_below(h, 64));
        id = hostile_subscribe(h, i, name, AMB_SLOW_DROP_OLDEST, 0, i % 2 == 0);
        if (i % 64 == 0) {
            hostile_live(h, 0);
        }
    }
    (void)hostile_await(h, id);
    for (uint32_t i = 2; i < 100 && !h->is_over; i++) {
        (void)hostile_publish(h, i, 100);
        hostile_live(h, 0);
        id = i % 2 == 0 ? hostile_pub_close(h, i) : hostile_unsubscribe(h, i);
    }
    return HOSTILE_LIVES;
}

/* The same handle over and over, with deliveries that nobody gives back. */
static enum hostile_verdict reopened(struct hostile *h)
{
    h->keeps_deliveries = true;
    for (unsigned i = 0; i < 50 && !h->is_over; i++) {
        (void)hostile_subscribe(h, 5, "hostile.>", AMB_SLOW_DROP_OLDEST, UINT64_MAX, false);
        uint64_t id = hostile_pub_open(h, 5, "hostile.again", true);
        if (hostile_below(h, 2) == 0) {
            (void)hostile_await(h, id);
        }
        (void)hostile_publish(h, 5, hostile_below(h, 30000));
        amb_link_flush(h->link);
        (void)hostile_unsubscribe(h, 5);
        (void)hostile_unsubscribe(h, 5);
        (void)hostile_pub_close(h, 5);
        (void)hostile_pub_close(h, 5);
        hostile_live(h, 0);
    }
    return HOSTILE_EITHER;
}

static enum hostile_verdict admin_garbage(struct hostile *h)
{
    char text[600];
    for (unsigned i = 0; i < 100 && !h->is_over; i++) {
        (void)hostile_admin(h, any_text(h, text, sizeof(text)));
        if (i % 16 == 0) {
            hostile_live(h, 0);
        }
    }
    (void)hostile_await(h, h->next_id);
    return h->is_over ? HOSTILE_ENDS : HOSTILE_LIVES;
}

static enum hostile_verdict half_request(struct hostile *h)
{
    uint8_t bytes[64] = {'A', 'M', 'B', 1, 200, 0, 0, 0};
    (void)hostile_send_bytes(h, bytes, 1 + hostile_below(h, sizeof(bytes) - 1));
    hostile_traffic(h, 5);
    return HOSTILE_GONE;
}

static enum hostile_verdict garbage(struct hostile *h)
{
    uint8_t bytes[3000] = {'A', 'M', 'B', 1, 200, 2, 0, 0};
    size_t from = hostile_below(h, 2) == 0 ? 8 : 4;
    hostile_bytes(h, bytes + from, sizeof(bytes) - from);
    if (from == 4) {
        bytes[7] |= 0x80; /* a length beyond any limit */
    }
    (void)hostile_send_bytes(h, bytes, sizeof(bytes));
    return HOSTILE_ENDS;
}

/* Messages that belong to the handshake, that only a broker says, or that have no id. */
static enum hostile_verdict out_of_place(struct hostile *h)
{
    Amb__Control__Control message;
    amb__control__control__init(&message);
    union {
        Amb__Control__Auth auth;
        Amb__Control__Ok ok;
        Amb__Control__Attach attach;
        Amb__Control__SegAdd seg_add;
        Amb__Control__Admin admin;
        Amb__Control__LeaseOpened opened;
    } u;
    switch (hostile_below(h, 6)) {
    case 0:
        amb__control__auth__init(&u.auth);
        message.body_case = AMB__CONTROL__CONTROL__BODY_AUTH;
        break;
    case 1:
        amb__control__ok__init(&u.ok);
        message.body_case = AMB__CONTROL__CONTROL__BODY_OK;
        break;
    case 2:
        amb__control__attach__init(&u.attach);
        u.attach.session = h->welcome.session;
        u.attach.generation = h->welcome.generation;
        u.attach.secret = h->welcome.secret;
        message.body_case = AMB__CONTROL__CONTROL__BODY_ATTACH;
        break;
    case 3:
        amb__control__seg_add__init(&u.seg_add);
        message.body_case = AMB__CONTROL__CONTROL__BODY_SEG_ADD;
        break;
    case 4:
        amb__control__lease_opened__init(&u.opened);
        message.body_case = AMB__CONTROL__CONTROL__BODY_LEASE_OPENED;
        break;
    default:
        amb__control__admin__init(&u.admin);
        message.body_case = AMB__CONTROL__CONTROL__BODY_ADMIN; /* without id */
    }
    message.ok = &u.ok;
    (void)hostile_send(h, &message);
    return HOSTILE_ENDS;
}

/* Requests without end, and no answer is read. */
static enum hostile_verdict unread(struct hostile *h)
{
    static uint8_t bytes[64 * 1024];
    Amb__Control__Control message;
    amb__control__control__init(&message);
    Amb__Control__Ping ping;
    amb__control__ping__init(&ping);
    Amb__Control__SegRefused refused;
    amb__control__seg_refused__init(&refused);
    Amb__Control__Admin admin;
    amb__control__admin__init(&admin);
    message.id = 7;
    switch (hostile_below(h, 3)) {
    case 0:
        message.body_case = AMB__CONTROL__CONTROL__BODY_PING;
        message.ping = &ping;
        ping.time_ns = 1;
        break;
    case 1:
        message.body_case = AMB__CONTROL__CONTROL__BODY_SEG_REFUSED;
        message.seg_refused = &refused;
        refused.segment = 77;
        break;
    default:
        message.body_case = AMB__CONTROL__CONTROL__BODY_ADMIN;
        message.admin = &admin;
        admin.query = (char *)(uintptr_t) "clients";
    }
    size_t len = amb_control_packed_size(&message), all = 0;
    for (; all + len <= sizeof(bytes); all += len) {
        amb_control_pack(&message, bytes + all);
    }
    size_t at = 0;
    int64_t until_ns = amb_clock_monotonic_ns() + 40 * AMB_NS_PER_MS;
    while (amb_clock_monotonic_ns() < until_ns) {
        ssize_t sent = send(h->control, bytes + at, all - at, MSG_NOSIGNAL | MSG_DONTWAIT);
        at = sent <= 0 ? at : (at + (size_t)sent) % all;
    }
    return HOSTILE_GONE;
}

/* Descriptors that nobody asked for, with every message. */
static enum hostile_verdict descriptors(struct hostile *h)
{
    int fds[HOSTILE_FDS_MAX];
    for (unsigned i = 0; i < HOSTILE_FDS_MAX; i++) {
        fds[i] = i % 3 == 0   ? open("/dev/null", O_RDONLY | O_CLOEXEC)
                 : i % 3 == 1 ? fcntl(h->control, F_DUPFD_CLOEXEC, 0)
                              : fcntl(h->ring.memory, F_DUPFD_CLOEXEC, 0);
    }
    Amb__Control__Control message;
    amb__control__control__init(&message);
    Amb__Control__Ping ping;
    amb__control__ping__init(&ping);
    message.body_case = AMB__CONTROL__CONTROL__BODY_PING;
    message.ping = &ping;
    for (unsigned i = 0; i < 50 && !h->is_over; i++) {
        ping.time_ns = i;
        if (!hostile_send_fds(h, &message, fds, 1 + (unsigned)hostile_below(h, HOSTILE_FDS_MAX))) {
            break;
        }
        hostile_hear(h, 0);
    }
    for (unsigned i = 0; i < HOSTILE_FDS_MAX; i++) {
        (void)close(fds[i]);
    }
    return HOSTILE_ENDS;
}

/* Sockets that take a minute to close, before anybody is logged in: read, or left to be dropped
 * with the connection. Their other ends stay for a while, or there would be nothing to wait for. */
static enum hostile_verdict lingering(struct hostile *h)
{
    static int peers[8];
    static unsigned count;
    for (unsigned i = 0; i < 3; i++, count++) {
        int *peer = &peers[count % 8];
        if (count >= 8) {
            (void)close(*peer);
        }
        int fd = hostile_connect(h, true);
        if (fd < 0) {
            *peer = -1;
            continue;
        }
        lingering_pass_bytes(fd, "AMB\1\3\0\0\0\x82\1\0", 1 + hostile_below(h, 11), peer);
        (void)close(fd);
    }
    return HOSTILE_LIVES;
}

/* Connections that begin to log in, each in its own way, and stay. */
static enum hostile_verdict half_logins(struct hostile *h)
{
    enum {
        COUNT = 16
    };
    int fds[COUNT];
    for (unsigned i = 0; i < COUNT; i++) {
        struct hostile other;
        hostile_init(&other, h->unix_path, h->tcp_port, hostile_random(h));
        other.control = fds[i] = hostile_connect(h, i % 2 == 0);
        if (fds[i] >= 0 && hostile_below(h, 4) != 0) {
            send_any(&other); /* Authentication comes first. */
        }
        if (fds[i] >= 0 && hostile_below(h, 2) == 0) {
            hostile_hear(&other, 1);
        }
        amb_control_reader_fini(&other.reader);
    }
    for (unsigned i = 0; i < COUNT; i++) {
        (void)close(fds[i]);
    }
    return HOSTILE_LIVES;
}

const struct hostile_attack hostile_control_attacks[] = {
    {.name = "ping-unread", .run = ping_unread},
    {.name = "any-requests", .run = any_requests},
    {.name = "thousands", .run = thousands},
    {.name = "reopened", .run = reopened},
    {.name = "admin-garbage", .run = admin_garbage},
    {.name = "half-request", .run = half_request},
    {.name = "garbage", .run = garbage},
    {.name = "out-of-place", .run = out_of_place},
    {.name = "unread", .run = unread},
    {.name = "descriptors", .run = descriptors},
    {.name = "lingering", .run = lingering},
    {.name = "half-logins", .run = half_logins},
    {.name = NULL},
};
