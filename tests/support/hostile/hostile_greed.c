/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Greed: clients that break no rule and take all that they can get. In a round of their own they
 * take a little. `--greedy` has all of them take as much as a limit allows, beside each other and
 * for as long as GREED_MS. The broker may refuse, or end them with a reason; others must not
 * notice.
 */
#include "tests/support/hostile/hostile.h"

#include "wire/base/clock.h"
#include "wire/codec/props.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#define GREED_MS 4000
#define FIRST 2u /* handle; those below are set_out's */
#define MAPPED AMB__CONTROL__CONTROL__BODY_LEASE_MAPPED
#define CLOSE AMB__CONTROL__CONTROL__BODY_LEASE_CLOSE
#define CUMULATIVE 2u /* enum amb_ack, of libamb's public header */

static uint32_t some(const struct hostile *h, uint32_t greedy, uint32_t modest)
{
    return h->is_greedy ? greedy : modest;
}

static int64_t until(const struct hostile *h)
{
    return amb_clock_monotonic_ns() + (h->is_greedy ? GREED_MS : 20) * AMB_NS_PER_MS;
}

static bool is_time(const struct hostile *h, int64_t until_ns)
{
    return !h->is_over && !h->is_down && amb_clock_monotonic_ns() < until_ns;
}

static void stay(struct hostile *h, int64_t until_ns)
{
    while (is_time(h, until_ns)) {
        hostile_live(h, 5);
    }
}

/* A message with as many properties as fit; false: there is no room for it now. */
static bool publish_properties(struct hostile *h, uint32_t handle)
{
    struct hostile_pub *pub = &h->pubs[handle];
    uint8_t body[sizeof(struct amb_record) + AMB_PROPS_MAX + 8] = {0};
    struct amb_props_writer writer;
    amb_props_writer_init(&writer, body + sizeof(struct amb_record), AMB_PROPS_MAX);
    char name[8] = "a";
    for (unsigned i = 0; amb_props_add(&writer, name, "", 0) == AMB_OK; i++) {
        (void)snprintf(name, sizeof(name), "%x", i);
    }
    const struct amb_record record = {.props_len = (uint16_t)writer.len};
    memcpy(body, &record, sizeof(record));
    uint32_t all = (uint32_t)sizeof(record) + amb_props_padded((uint32_t)writer.len);
    if (h->link->queued > 64 || pub->sent + all > pub->window) {
        hostile_flow(h, AMB_FLOW_WANT, handle, pub->want = pub->sent + all);
        return false;
    }
    const struct amb_frame frame = {.type = AMB_FRAME_BATCH,
                                    .handle = handle,
                                    .seq = ++pub->batches,
                                    .count = 1,
                                    .meta_len = all};
    pub->sent += all;
    hostile_frame(h, &frame, body);
    return true;
}

/* Opens a publisher of each of these topics, sends one message, and closes it. */
static void wake_topics(struct hostile *h, uint32_t first, uint32_t count, int64_t until_ns)
{
    uint64_t id = 0;
    for (uint32_t i = 0; i < count; i++) {
        char topic[64];
        (void)snprintf(topic, sizeof(topic), "hostile.pairs.%x.%u", (unsigned)h->dice, first + i);
        id = hostile_pub_open(h, FIRST + i, topic, false);
    }
    (void)hostile_await(h, id);
    for (uint32_t i = 0; i < count; i++) {
        while (!hostile_publish(h, FIRST + i, 0) && is_time(h, until_ns)) {
            hostile_live(h, 1);
        }
        id = hostile_pub_close(h, FIRST + i);
    }
    (void)hostile_await(h, id);
}

/* Subscriptions to everything, and four topics with a message for each: a pair of the two costs the
 * broker heap, until limits.max_pairs_per_client ends the client. */
static enum hostile_verdict greed_pairs(struct hostile *h)
{
    int64_t until_ns = until(h);
    uint32_t subs = some(h, 1000, 8), group = some(h, 32, 2);
    uint64_t id = 0;
    h->keeps_deliveries = true; /* One each: it is the places that cost, not what is sent. */
    for (uint32_t i = 0; i < subs; i++) {
        id = hostile_subscribe(h, FIRST + i, ">", AMB_SLOW_DROP_OLDEST, 1, true);
    }
    (void)hostile_await(h, id);
    for (uint32_t i = 0; i < 4 * subs && is_time(h, until_ns); i += group) {
        wake_topics(h, i, group, until_ns);
    }
    stay(h, until_ns);
    return HOSTILE_EITHER;
}

/* Filters as long as they may be, on messages with as many properties as they may have. */
static enum hostile_verdict greed_filters(struct hostile *h)
{
    int64_t until_ns = until(h);
    char filter[1024] = "";
    for (unsigned i = 0; i < 32; i++) {
        size_t len = strlen(filter);
        (void)snprintf(filter + len, sizeof(filter) - len, "%shas zz%u", i == 0 ? "" : " or ", i);
    }
    (void)hostile_await(h, hostile_pub_open(h, FIRST, "hostile.filtered", false));
    uint32_t count = some(h, 512, 8);
    for (uint32_t i = 0; i < count; i++) {
        Amb__Control__Subscribe subscribe;
        amb__control__subscribe__init(&subscribe);
        subscribe.handle = FIRST + i;
        subscribe.pattern = (char *)(uintptr_t) "hostile.filtered";
        subscribe.credit_msgs = UINT64_MAX;
        subscribe.credit_bytes = 1 << 20;
        subscribe.slow = AMB_SLOW_DROP_OLDEST;
        subscribe.filter = filter;
        (void)hostile_send_subscribe(h, &subscribe);
    }
    (void)hostile_await(h, h->next_id);
    while (is_time(h, until_ns)) {
        while (publish_properties(h, FIRST)) {
        }
        hostile_live(h, 0);
    }
    return HOSTILE_EITHER;
}

/* Shared memory that is given back by word alone. */
static enum hostile_verdict greed_segments(struct hostile *h)
{
    int64_t until_ns = until(h);
    while (is_time(h, until_ns) &&
           hostile_await(h, hostile_lease_open(h, UINT64_C(1) << 20, some(h, 16, 1)))) {
        void *base = mmap(NULL, h->lease.size, PROT_READ | PROT_WRITE, MAP_SHARED, h->lease.fd, 0);
        if (base == MAP_FAILED || !hostile_await(h, hostile_lease_say(h, MAPPED, h->lease.id))) {
            break;
        }
        memset(base, 1, h->lease.size);
        (void)hostile_lease_say(h, CLOSE, h->lease.id);
        hostile_live(h, 1);
    }
    stay(h, until_ns);
    return HOSTILE_EITHER;
}

/* Nothing that is delivered is ever given back, to as many subscriptions as there may be. */
static enum hostile_verdict greed_deliveries(struct hostile *h)
{
    int64_t until_ns = until(h);
    h->keeps_deliveries = true;
    uint32_t count = some(h, 256, 8);
    for (uint32_t i = 0; i < count; i++) {
        (void)hostile_subscribe(h, FIRST + i, "hostile.kept", AMB_SLOW_DROP_OLDEST,
                                UINT64_C(1) << 40, true);
    }
    (void)hostile_await(h, hostile_pub_open(h, FIRST, "hostile.kept", false));
    while (is_time(h, until_ns)) {
        while (hostile_publish(h, FIRST, 0)) {
        }
        hostile_live(h, 0);
    }
    return HOSTILE_EITHER;
}

/* Questions whose answers are never read. */
static enum hostile_verdict greed_pongs(struct hostile *h)
{
    Amb__Control__Ping ping;
    amb__control__ping__init(&ping);
    Amb__Control__Control message;
    amb__control__control__init(&message);
    message.body_case = AMB__CONTROL__CONTROL__BODY_PING;
    message.ping = &ping;
    uint8_t bytes[64];
    size_t len = amb_control_packed_size(&message);
    amb_control_pack(&message, bytes);
    for (uint32_t i = 0; i < some(h, 200000, 2000); i++) {
        if (send(h->control, bytes, len, MSG_NOSIGNAL) < 0) {
            break;
        }
    }
    stay(h, until(h));
    return HOSTILE_EITHER;
}

/* Names that publishers are known by, for as long as the broker remembers them. */
static enum hostile_verdict greed_names(struct hostile *h)
{
    int64_t until_ns = until(h);
    for (uint32_t n = 0; n < some(h, 70000, 20) && is_time(h, until_ns); n++) {
        char name[32];
        (void)snprintf(name, sizeof(name), "n%u-%x", n, (unsigned)h->dice);
        Amb__Control__PubOpen open;
        amb__control__pub_open__init(&open);
        open.handle = FIRST + n % 512;
        open.topic = (char *)(uintptr_t) "hostile.named";
        open.name = name;
        open.first_seq = 1;
        Amb__Control__Control message;
        amb__control__control__init(&message);
        message.id = ++h->next_id;
        message.body_case = AMB__CONTROL__CONTROL__BODY_PUB_OPEN;
        message.pub_open = &open;
        (void)hostile_send(h, &message);
        uint64_t id = hostile_pub_close(h, open.handle);
        if (n % 64 == 0) {
            (void)hostile_await(h, id);
        }
    }
    stay(h, until_ns);
    return HOSTILE_EITHER;
}

/* Room for messages of the largest size, that never come. */
static enum hostile_verdict greed_wants(struct hostile *h)
{
    int64_t until_ns = until(h);
    for (uint32_t i = 0; i < 8; i++) {
        char topic[32];
        (void)snprintf(topic, sizeof(topic), "hostile.want%u", i);
        (void)hostile_await(h, hostile_pub_open(h, FIRST + i, topic, false));
        hostile_flow(h, AMB_FLOW_WANT, FIRST + i, h->max_message);
    }
    stay(h, until_ns);
    return HOSTILE_EITHER;
}

/* Messages held in place, by sessions of one process that end without a word. */
static enum hostile_verdict greed_quarantine(struct hostile *h)
{
    int64_t until_ns = until(h);
    for (uint32_t turn = 0; turn < some(h, 64, 1) && is_time(h, until_ns); turn++) {
        h->keeps_deliveries = true;
        (void)hostile_subscribe(h, FIRST, "hostile.held", AMB_SLOW_DROP_OLDEST, UINT64_C(1) << 40,
                                false);
        (void)hostile_await(h, hostile_pub_open(h, FIRST, "hostile.held", false));
        int64_t some_ns = amb_clock_monotonic_ns() + 100 * AMB_NS_PER_MS;
        while (is_time(h, some_ns)) {
            (void)hostile_publish(h, FIRST, 8000);
            hostile_live(h, 0);
        }
        if (!h->is_greedy || h->is_over) {
            break;
        }
        (void)close(h->control);
        struct hostile *next = h;
        const struct hostile old = *h;
        hostile_init(next, old.unix_path, old.tcp_port, old.dice);
        next->is_greedy = true;
        if (!hostile_login(next, AMB_LINK_RING)) {
            return HOSTILE_GONE;
        }
    }
    return HOSTILE_EITHER;
}

/* Thousands of deliveries that are open, and more time asked for each, again and again. */
static enum hostile_verdict greed_progress(struct hostile *h)
{
    int64_t until_ns = until(h);
    h->keeps_deliveries = true;
    Amb__Control__Subscribe subscribe;
    amb__control__subscribe__init(&subscribe);
    subscribe.handle = FIRST;
    subscribe.pattern = (char *)(uintptr_t) "hostile.progress";
    subscribe.credit_msgs = UINT64_MAX;
    subscribe.credit_bytes = UINT64_C(1) << 30;
    subscribe.slow = AMB_SLOW_DROP_OLDEST;
    subscribe.ack = CUMULATIVE;
    (void)hostile_send_subscribe(h, &subscribe);
    (void)hostile_await(h, h->next_id);
    (void)hostile_await(h, hostile_pub_open(h, FIRST, "hostile.progress", false));
    for (uint32_t i = 0; i < some(h, 20000, 100) && is_time(h, until_ns); i++) {
        (void)hostile_publish(h, FIRST, 0);
        if (i % 32 == 0) {
            hostile_live(h, 0);
        }
    }
    while (is_time(h, until_ns)) {
        const struct amb_frame frame = {.type = AMB_FRAME_ACK,
                                        .handle = FIRST,
                                        .number = h->subs[FIRST].delivered,
                                        .count = 1,
                                        .status = AMB_ACK_KIND_IN_PROGRESS};
        for (unsigned i = 0; i < 64 && h->subs[FIRST].delivered > 0 && h->link->queued < 64; i++) {
            hostile_frame(h, &frame, NULL);
        }
        hostile_live(h, 0);
    }
    return HOSTILE_EITHER;
}

/* Clients that come and go. */
static enum hostile_verdict greed_connects(struct hostile *h)
{
    int64_t until_ns = until(h);
    for (uint32_t i = 0; i < some(h, 100000, 3) && amb_clock_monotonic_ns() < until_ns; i++) {
        struct hostile other;
        hostile_init(&other, h->unix_path, h->tcp_port, h->dice + i);
        if (!hostile_handshake(&other, AMB_LINK_RING)) {
            (void)snprintf(h->refused_text, sizeof(h->refused_text), "%s", other.over_text);
            h->errors++;
        }
        for (unsigned f = 0; f < other.fd_count; f++) {
            (void)close(other.fds[f]);
        }
        (void)close(other.control);
        amb_control_reader_fini(&other.reader);
    }
    return HOSTILE_EITHER;
}

const struct hostile_attack hostile_greed_attacks[] = {
    {.name = "greed-pairs", .run = greed_pairs, .is_greedy = true},
    {.name = "greed-filters", .run = greed_filters, .is_greedy = true},
    {.name = "greed-segments", .run = greed_segments, .is_greedy = true},
    {.name = "greed-deliveries", .run = greed_deliveries, .is_greedy = true},
    {.name = "greed-pongs", .run = greed_pongs, .is_greedy = true},
    {.name = "greed-names", .run = greed_names, .is_greedy = true},
    {.name = "greed-wants", .run = greed_wants, .is_greedy = true},
    {.name = "greed-quarantine", .run = greed_quarantine, .is_greedy = true},
    {.name = "greed-progress", .run = greed_progress, .is_greedy = true},
    {.name = "greed-connects", .run = greed_connects, .is_greedy = true},
    {.name = NULL},
};
