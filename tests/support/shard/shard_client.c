/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/shard/shard_client_private.h"

#include "broker/config/config.h"
#include "broker/ingest/publisher.h"
#include "broker/shard/entry_share.h"
#include "broker/shard/gpuslot.h"
#include "broker/topic/begin.h"
#include "broker/topic/topic.h"
#include "broker/worker/dispatch.h"
#include "broker/worker/session_life.h"
#include "tests/support/shard/shard_harness.h"
#include "wire/codec/filter.h"
#include "wire/link/sim.h"
#include "wire/link/stream/stream.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

/* Life -------------------------------------------------------------------------------------- */

struct shard_client *shard_client_create(struct shard_harness *harness, unsigned shard,
                                         const struct client_options *options)
{
    static const struct client_options plain;
    options = options == NULL ? &plain : options;
    assert_true(harness->client_count < HARNESS_CLIENTS_MAX);
    struct shard_client *client = calloc(1, sizeof(*client));
    assert_non_null(client);
    client->harness = harness;
    client->shard = shard;
    client->id = harness->client_count;
    client->answers_offers = options->answers_offers;
    uint32_t index = harness->client_count++;
    harness->clients[index] = client;
    assert_int_equal(amb_session_create(harness->peers[shard], index, index * 7 + 1, index * 99,
                                        client->id, &client->session),
                     AMB_OK);
    if (options->party != NULL) {
        client->session->party = amb_party_ref(options->party);
        client->session->entry_share =
            amb_entry_share_open(client->session->shard, client->session->party);
        assert_non_null(client->session->entry_share);
    }
    client->session->may_map = options->may_map;
    client->session->maps = UINT64_MAX;
    client->session->is_on_host = true;
    const struct amb_link_events *events[2] = {&amb_dispatch_events, &shard_client_events};
    void *args[2] = {client->session, client};
    struct amb_link *ends[2];
    const struct amb_sim_options sim = {.bytes_max = options->link_bytes_max,
                                        .poll_frames = options->link_poll_frames,
                                        .copy = options->link_copy};
    if (options->sockets == NULL) {
        assert_int_equal(amb_sim_create(&sim, events, args, ends), AMB_OK);
    }
    for (unsigned i = 0; i < 2 && options->sockets != NULL; i++) {
        assert_int_equal(amb_stream_create(options->sockets[i], events[i], args[i], &ends[i]),
                         AMB_OK);
    }
    client->session->link = ends[0];
    client->link = ends[1];
    return client;
}

static void session_closed(void *arg, uint64_t held_bytes)
{
    struct shard_client *client = arg;
    client->is_closed = true;
    client->is_quarantined = held_bytes > 0;
    if (!client->is_quarantined) {
        client->session = NULL;
    }
}

static int sub_holds(const struct client_sub *sub, const struct amb_topic *topic)
{
    enum amb_slow slow = sub->options.slow;
    return (slow == AMB_SLOW_DEFAULT ? topic->rule->slow : slow) == AMB_SLOW_BLOCK ? 1 : 0;
}

static void unlend(struct shard_client *client, uint32_t handle)
{
    struct client_sub *sub = &client->subs[handle];
    for (unsigned i = 0; i < sub->topic_count; i++) {
        uint32_t topic = sub->topics[i];
        struct amb_topic *home = harness_home(client->harness, topic);
        if (client->shard != client->harness->topic_home[topic]) {
            harness_lend(client->harness, topic, client, handle, -1, -sub_holds(sub, home));
        }
        home->audience.matched--;
    }
    sub->topic_count = 0;
}

void client_close(struct shard_client *client, bool keep_held)
{
    for (unsigned i = 0; i < CLIENT_HANDLES; i++) {
        if (client->subs[i].is_open) {
            unlend(client, i);
            client->subs[i].is_open = false;
        }
    }
    amb_session_close(client->session, keep_held, session_closed, client);
}

void client_die(struct shard_client *client)
{
    if (client->session != NULL) {
        while (!amb_session_release(client->session)) {
        }
        client->session = NULL;
    }
    client->is_quarantined = false;
}

void shard_client_destroy(struct shard_client **client)
{
    struct shard_client *c = *client;
    if (c == NULL) {
        return;
    }
    *client = NULL;
    if (c->session != NULL && !c->is_closed) {
        client_close(c, false);
    }
    client_die(c);
    if (c->link != NULL) {
        assert_true(amb_link_close(c->link));
    }
    assert_int_equal(c->txs, 0);
    for (unsigned i = 0; i < CLIENT_HANDLES; i++) {
        free(c->subs[i].deliveries);
    }
    for (unsigned i = 0; i < c->segment_count; i++) {
        shard_client_unmap(&c->segments[i]);
    }
    free(c);
}

unsigned shard_client_turn(struct shard_client *client)
{
    if (client->link == NULL || client->link->is_down) {
        return 0;
    }
    unsigned done = 0;
    for (unsigned i = 0; client->answers_offers && i < client->segment_count; i++) {
        if (client->segments[i].base == NULL) {
            client_map(client, client->segments[i].id);
            done++;
        }
    }
    done += amb_link_poll(client->link, 64);
    if (!client->link->is_down) {
        size_t queued = client->link->queued;
        amb_link_flush(client->link);
        done += (unsigned)(queued - client->link->queued);
    }
    return done;
}

/* What goes --------------------------------------------------------------------------------- */

static struct client_tx *tx_create(struct shard_client *client, uint64_t len)
{
    struct client_tx *tx = calloc(1, sizeof(*tx) + len);
    assert_non_null(tx);
    client->txs++;
    return tx;
}

static void tx_send(struct shard_client *client, struct client_tx *tx,
                    const struct amb_frame *frame)
{
    tx->tx.frame = frame;
    tx->tx.data = tx->body;
    tx->tx.meta = tx->body + amb_frame_body_data(frame);
    if (amb_link_send(client->link, &tx->tx) != AMB_EAGAIN) {
        client->txs--;
        free(tx);
    }
}

void client_open_pub(struct shard_client *client, uint32_t handle, uint32_t topic, bool settled)
{
    struct amb_publisher *publisher;
    assert_int_equal(amb_publisher_create(client->session, handle, topic,
                                          client->harness->topic_home[topic], settled,
                                          amb_trust_group_or_main(client->group), &publisher),
                     AMB_OK);
    const struct amb_topic_rule *rule = harness_home(client->harness, topic)->rule;
    publisher->verifies = rule->trust == AMB_TRUST_VERIFY;
    publisher->avoids_gpu = !amb_gpuslot_suits(client->session->shard->config, rule);
    client->pubs[handle] = (struct client_pub){
        .is_open = true,
        .topic = topic,
        .opened = publisher->opened,
        .batches = publisher->batches,
        .bytes = publisher->received,
        .accepted = publisher->accepted,
        .window = publisher->window,
    };
}

void client_close_pub(struct shard_client *client, uint32_t handle)
{
    client->pubs[handle].is_open = false;
    struct amb_publisher *publisher = amb_session_publisher(client->session, handle);
    amb_publisher_destroy(&publisher);
}

uint64_t client_batch_bytes(uint32_t count, uint64_t len)
{
    return count * (amb_payload_padded(len) + sizeof(struct amb_record));
}

bool client_may_send(const struct shard_client *client, uint32_t handle, uint32_t count,
                     uint64_t len)
{
    const struct client_pub *pub = &client->pubs[handle];
    return pub->is_open && pub->bytes + client_batch_bytes(count, len) <= pub->window;
}

static void send_batch(struct shard_client *client, uint32_t handle, uint32_t count, uint64_t len,
                       bool is_malformed)
{
    struct client_pub *pub = &client->pubs[handle];
    uint64_t padded = amb_payload_padded(len);
    struct amb_frame frame = {
        .type = AMB_FRAME_BATCH,
        .handle = handle,
        .seq = ++pub->batches,
        .count = count,
        .data_len = count * padded,
        .meta_len = count * (uint32_t)sizeof(struct amb_record),
    };
    struct client_tx *tx = tx_create(client, frame.data_len + frame.meta_len);
    for (uint32_t i = 0; i < count; i++) {
        struct client_stamp stamp = {(uint32_t)client->id, handle | CLIENT_STAMP_KIND,
                                     ++pub->messages};
        if (len != 0) {
            memcpy(tx->body + i * padded, &stamp, sizeof(stamp));
        }
        struct amb_record record = {.len = (uint32_t)len + (is_malformed ? 32 : 0),
                                    .flags = client_stamp_flags(&stamp)};
        memcpy(tx->body + frame.data_len + i * sizeof(record), &record, sizeof(record));
    }
    pub->bytes += frame.data_len + frame.meta_len;
    tx_send(client, tx, &frame);
}

void client_send(struct shard_client *client, uint32_t handle, uint32_t count, uint64_t len)
{
    assert_true(len == 0 || len >= sizeof(struct client_stamp));
    send_batch(client, handle, count, len, false);
}

void client_send_malformed(struct shard_client *client, uint32_t handle)
{
    send_batch(client, handle, 1, 64, true);
}

void client_send_frame(struct shard_client *client, const struct amb_frame *frame)
{
    tx_send(client, tx_create(client, amb_frame_body_len(frame)), frame);
}

void client_send_body(struct shard_client *client, const struct amb_frame *frame, const void *body)
{
    struct client_tx *tx = tx_create(client, amb_frame_body_len(frame));
    memcpy(tx->body, body, amb_frame_body_len(frame));
    tx_send(client, tx, frame);
}

bool client_is_freed(const struct shard_client *client, uint64_t number)
{
    return number <= client->freed || (client->freed_early[number / 8] & (1u << (number % 8))) != 0;
}

void client_want(struct shard_client *client, uint32_t handle, uint64_t bytes)
{
    amb_link_flow(client->link, AMB_FLOW_WANT, handle, bytes);
}

uint64_t client_granted(const struct shard_client *client, uint32_t handle)
{
    return amb_session_publisher(client->session, handle)->freed;
}

void client_attach(struct shard_client *client, uint32_t handle, uint32_t topic)
{
    struct client_sub *sub = &client->subs[handle];
    struct amb_topic *home = harness_home(client->harness, topic);
    assert_true(sub->topic_count < CLIENT_TOPICS);
    sub->topics[sub->topic_count++] = topic;
    if (client->shard == client->harness->topic_home[topic]) {
        struct amb_begun begun;
        amb_begin_find(home, &sub->begin, &begun);
        assert_int_equal(amb_subscription_attach(amb_session_subscription(client->session, handle),
                                                 home, &begun),
                         AMB_OK);
    } else {
        harness_lend(client->harness, topic, client, handle, +1, sub_holds(sub, home));
    }
    home->audience.matched++;
}

/* Deliveries of the handle's former owners have numbers too. */
static void note_former(struct client_sub *sub, uint64_t delivered)
{
    sub->last = sub->released = sub->former = delivered;
    sub->deliveries_cap = delivered;
    if (delivered != 0) {
        sub->deliveries = calloc(delivered, sizeof(struct client_delivery));
        assert_non_null(sub->deliveries);
    }
    for (uint64_t i = 0; i < delivered; i++) {
        sub->deliveries[i].is_back = true;
    }
}

void client_subscribe(struct shard_client *client, uint32_t handle, uint32_t topic,
                      const struct amb_subscription_options *options)
{
    static const struct amb_begin end;
    client_subscribe_from(client, handle, topic, options, &end);
}

void client_subscribe_from(struct shard_client *client, uint32_t handle, uint32_t topic,
                           const struct amb_subscription_options *options,
                           const struct amb_begin *begin)
{
    static const struct amb_subscription_options plain;
    struct client_sub *sub = &client->subs[handle];
    struct amb_subscription *made;
    assert_false(sub->is_open);
    free(sub->deliveries);
    static uint64_t next_id;
    *sub = (struct client_sub){
        .is_open = true,
        .id = ++next_id,
        .options = options == NULL ? plain : *options,
        .begin = *begin,
    };
    assert_int_equal(
        amb_subscription_create(client->session, handle, sub->id, &sub->options, &made), AMB_OK);
    if (client->filter != NULL) {
        struct amb_filter_error error;
        assert_int_equal(
            amb_filter_parse(client->filter, strlen(client->filter), &made->filter, &error),
            AMB_OK);
    }
    note_former(sub, made->delivered);
    client_attach(client, handle, topic);
}

void client_unsubscribe(struct shard_client *client, uint32_t handle)
{
    amb_subscription_end(amb_session_subscription(client->session, handle), NULL, NULL);
    unlend(client, handle);
    client->subs[handle].is_open = false;
}

static void note_back(struct shard_client *client, uint32_t handle, uint64_t first, uint64_t count)
{
    struct client_sub *sub = &client->subs[handle];
    for (uint64_t number = first; number < first + count; number++) {
        if (number >= 1 && number <= sub->last) { /* else the test tells lies */
            sub->deliveries[number - 1].is_back = true;
        }
    }
}

void client_check_held(const struct shard_client *client, uint32_t handle)
{
    const struct client_sub *sub = &client->subs[handle];
    for (uint64_t i = sub->released; i < sub->last; i++) {
        const struct client_delivery *delivery = &sub->deliveries[i];
        if (delivery->is_back || (delivery->frame.type != AMB_FRAME_MAP &&
                                  delivery->frame.type != AMB_FRAME_MAP_LEASED)) {
            continue;
        }
        const struct client_segment *segment =
            shard_client_segment(client, delivery->frame.segment);
        assert_non_null(segment); /* Nothing that is held is dropped. */
        if (delivery->payload != NULL) {
            struct client_stamp stamp;
            memcpy(&stamp, delivery->payload, sizeof(stamp));
            stamp.handle &= ~CLIENT_STAMP_KIND;
            assert_memory_equal(&stamp, &delivery->stamp, sizeof(stamp));
        }
    }
}

void client_release(struct shard_client *client, uint32_t handle, uint64_t number)
{
    struct client_sub *sub = &client->subs[handle];
    if (number > sub->released) {
        note_back(client, handle, sub->released + 1, number - sub->released);
    }
    sub->released = number;
    amb_link_flow(client->link, AMB_FLOW_RELEASE, handle, number);
}

void client_release_range(struct shard_client *client, uint32_t handle, uint64_t number,
                          uint32_t count)
{
    const struct amb_frame frame = {
        .type = AMB_FRAME_RELEASE_RANGE, .handle = handle, .number = number, .count = count};
    note_back(client, handle, number, count);
    client_send_frame(client, &frame);
}

void client_release_all(struct shard_client *client, uint32_t handle)
{
    struct client_sub *sub = &client->subs[handle];
    if (sub->last > sub->released) {
        client_release(client, handle, sub->last);
    }
}

void client_drain(struct shard_client *client, uint32_t handle)
{
    struct client_sub *sub = &client->subs[handle];
    do {
        client_release_all(client, handle);
        harness_settle(client->harness);
    } while (sub->released < sub->last);
}

void client_fetch(struct shard_client *client, uint32_t handle, uint64_t number, uint32_t first,
                  uint64_t offset, uint64_t len)
{
    const struct amb_frame frame = {.type = AMB_FRAME_FETCH,
                                    .handle = handle,
                                    .number = number,
                                    .first = first,
                                    .offset = offset,
                                    .data_len = len,
                                    .seq = number * 1000 + first};
    client_send_frame(client, &frame);
}

void client_map(struct shard_client *client, uint64_t segment)
{
    for (unsigned i = 0; i < client->segment_count; i++) {
        struct client_segment *at = &client->segments[i];
        if (at->id == segment) {
            void *base = mmap(NULL, at->size, PROT_READ, MAP_SHARED, at->fd, 0);
            assert_true(base != MAP_FAILED);
            at->base = base;
            const struct amb_frame frame = {.type = AMB_FRAME_SEG_READY, .segment = segment};
            client_send_frame(client, &frame);
            return;
        }
    }
    fail_msg("the segment was not offered");
}

void client_refuse(struct shard_client *client, uint64_t segment)
{
    amb_session_mapping(client->session, segment, AMB_MAPPING_REFUSED);
    amb_session_unstall(client->session);
}

const struct client_delivery *client_delivery(const struct shard_client *client, uint32_t handle,
                                              uint64_t number)
{
    assert_true(number >= 1 && number <= client->subs[handle].last);
    return &client->subs[handle].deliveries[number - 1];
}
