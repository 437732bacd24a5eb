/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/shard_client.h"

#include "wire/codec/filter.h"

#include "broker/begin.h"
#include "broker/config.h"
#include "broker/dispatch.h"
#include "broker/gpuslot.h"
#include "broker/publisher.h"
#include "broker/topic.h"
#include "tests/support/shard_harness.h"
#include "wire/link/sim.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

struct client_tx {
    struct amb_link_tx tx;
    uint8_t body[];
};

struct client_body {
    struct amb_frame frame;
    _Alignas(16) uint8_t bytes[];
};

/* What comes -------------------------------------------------------------------------------- */

static struct client_delivery *delivery_add(struct client_sub *sub, const struct amb_frame *frame)
{
    assert_true(sub->is_named[frame->topic]);
    assert_int_equal(frame->number, sub->last + 1);
    sub->last = frame->number;
    if (sub->last > sub->deliveries_cap) {
        sub->deliveries_cap = sub->deliveries_cap == 0 ? 64 : sub->deliveries_cap * 2;
        sub->deliveries =
            realloc(sub->deliveries, sub->deliveries_cap * sizeof(struct client_delivery));
        assert_non_null(sub->deliveries);
    }
    struct client_delivery *delivery = &sub->deliveries[sub->last - 1];
    *delivery = (struct client_delivery){.frame = *frame};
    sub->msgs += frame->count - frame->first - frame->rest;
    sub->lost += frame->lost;
    sub->bytes += frame->data_len + frame->meta_len;
    return delivery;
}

static void note_messages(struct shard_client *client, struct client_delivery *delivery,
                          struct amb_body_iter *iter)
{
    const struct amb_frame frame = delivery->frame; /* on_message may make the table move */
    struct amb_message_view view;
    uint32_t end = frame.count - frame.first - frame.rest;
    for (uint32_t i = 0; i < frame.first; i++) {
        assert_true(amb_body_iter_next(iter, &view));
    }
    for (uint32_t i = 0; i < end && amb_body_iter_next(iter, &view); i++) {
        struct client_stamp stamp = {0};
        if (view.len >= sizeof(stamp)) {
            memcpy(&stamp, view.payload, sizeof(stamp));
        }
        if (i == 0) {
            delivery->stamp = stamp;
            delivery->payload = view.len >= sizeof(stamp) ? view.payload : NULL;
        }
        if (client->on_message != NULL) {
            client->on_message(client, &frame, i, &stamp);
        }
    }
}

static void note_delivery(struct shard_client *client, const struct amb_frame *frame,
                          const uint8_t *body)
{
    struct amb_frame check = *frame;
    check.type = AMB_FRAME_BATCH;
    assert_int_equal(amb_body_check(&check, body), AMB_OK);
    struct amb_body_iter iter;
    amb_body_iter_init(&iter, body, frame->data_len, frame->count);
    note_messages(client, delivery_add(&client->subs[frame->handle], frame), &iter);
}

static const struct client_segment *segment_find(const struct shard_client *client, uint64_t id)
{
    for (unsigned i = 0; i < client->segment_count; i++) {
        if (client->segments[i].id == id) {
            return &client->segments[i];
        }
    }
    return NULL;
}

static void note_map(struct shard_client *client, const struct amb_frame *frame)
{
    const struct client_segment *segment = segment_find(client, frame->segment);
    assert_non_null(segment);       /* offered */
    assert_non_null(segment->base); /* and mapped */
    assert_true(frame->offset + frame->data_len + frame->meta_len <= segment->size);
    note_delivery(client, frame, segment->base + frame->offset);
}

static void note_leased(struct shard_client *client, const struct amb_frame *frame,
                        const uint8_t *meta)
{
    const struct client_segment *segment = segment_find(client, frame->segment);
    assert_non_null(segment);
    assert_non_null(segment->base);
    assert_int_equal(amb_leased_check(frame, meta, segment->size), AMB_OK);
    struct client_delivery *delivery = delivery_add(&client->subs[frame->handle], frame);
    struct amb_body_iter iter;
    amb_body_iter_init_leased(&iter, segment->base, meta, frame->count);
    note_messages(client, delivery, &iter);
}

static void note_lazy(struct shard_client *client, const struct amb_frame *frame,
                      const uint8_t *meta)
{
    assert_int_equal(amb_lazy_check(frame, meta), AMB_OK);
    (void)delivery_add(&client->subs[frame->handle], frame);
}

static void note_fetched(struct shard_client *client, const struct amb_frame *frame,
                         const uint8_t *bytes)
{
    client->answers++;
    client->answer = *frame;
    uint64_t len =
        frame->data_len < sizeof(client->answered) ? frame->data_len : sizeof(client->answered);
    memcpy(client->answered, bytes, len);
}

static void note_freed(struct shard_client *client, const struct amb_frame *frame)
{
    client->freed_frames++;
    assert_true(frame->number + frame->count - 1 <= client->commits);
    for (uint64_t i = frame->number; i < frame->number + frame->count; i++) {
        uint8_t bit = (uint8_t)(1u << (i % 8));
        assert_true(i < CLIENT_COMMITS_MAX && (client->freed_early[i / 8] & bit) == 0); /* once */
        client->freed_early[i / 8] |= bit;
    }
}

static void note_settled(struct shard_client *client, const struct amb_frame *frame)
{
    if (client->settle_count < CLIENT_SETTLES_MAX) {
        client->settles[client->settle_count] = (struct client_settle){
            .handle = frame->handle,
            .batch = frame->seq,
            .first_seq = frame->number,
            .above = frame->above,
            .dropped = frame->lost,
            .matched = frame->count,
            .status = (enum amb_status)frame->status,
        };
    }
    client->settle_count++;
}

static void segment_unmap(struct client_segment *segment)
{
    if (segment->base != NULL) {
        (void)munmap((void *)(uintptr_t)segment->base, segment->size);
    }
    (void)close(segment->fd);
}

static void note_drop(struct shard_client *client, uint64_t segment)
{
    for (unsigned i = 0; i < client->segment_count; i++) {
        if (client->segments[i].id == segment) {
            segment_unmap(&client->segments[i]);
            client->segments[i] = client->segments[--client->segment_count];
            client->drops++;
            return;
        }
    }
    fail_msg("an unknown segment is dropped");
}

static enum amb_status on_frame(void *arg, const struct amb_frame *frame, void **dst, void **cookie,
                                struct amb_link_mem **mem)
{
    struct shard_client *client = arg;
    assert_true(frame->handle < CLIENT_HANDLES);
    (void)mem;
    switch (frame->type) {
    case AMB_FRAME_TOPIC:
    case AMB_FRAME_MAP_LEASED:
    case AMB_FRAME_LAZY:
    case AMB_FRAME_DELIVER: {
        uint64_t len = amb_frame_body_len(frame);
        struct client_body *body = aligned_alloc(16, (sizeof(*body) + len + 15) & ~(size_t)15);
        assert_non_null(body);
        body->frame = *frame;
        *dst = body->bytes;
        *cookie = body;
        return AMB_OK;
    }
    case AMB_FRAME_FETCHED: {
        uint64_t len = frame->data_len;
        struct client_body *body = aligned_alloc(16, (sizeof(*body) + len + 15) & ~(size_t)15);
        assert_non_null(body);
        body->frame = *frame;
        if (len == 0) {
            note_fetched(client, frame, body->bytes);
            free(body);
            return AMB_OK;
        }
        *dst = body->bytes;
        *cookie = body;
        return AMB_OK;
    }
    case AMB_FRAME_MAP:
        note_map(client, frame);
        return AMB_OK;
    case AMB_FRAME_FETCHED_MAP: {
        const struct client_segment *segment = segment_find(client, frame->segment);
        assert_non_null(segment);
        assert_non_null(segment->base);
        assert_true(frame->offset + frame->data_len <= segment->size);
        note_fetched(client, frame, segment->base + frame->offset);
        return AMB_OK;
    }
    case AMB_FRAME_FREED:
        note_freed(client, frame);
        return AMB_OK;
    case AMB_FRAME_SETTLED:
        note_settled(client, frame);
        return AMB_OK;
    case AMB_FRAME_SEG_DROP:
        note_drop(client, frame->segment);
        return AMB_OK;
    default:
        fail_msg("a frame of type %u for a client", frame->type);
    }
    return AMB_EPROTO;
}

static enum amb_status on_body(void *arg, void *cookie, enum amb_status status)
{
    struct shard_client *client = arg;
    struct client_body *body = cookie;
    const struct amb_frame *frame = &body->frame;
    if (status == AMB_OK && frame->type == AMB_FRAME_TOPIC) {
        const char *name = client->harness->names[frame->topic];
        assert_int_equal(frame->data_len, strlen(name));
        assert_memory_equal(body->bytes, name, frame->data_len);
        assert_int_equal(frame->count, client->harness->topic_priority[frame->topic]);
        client->subs[frame->handle].is_named[frame->topic] = true;
    } else if (status == AMB_OK && frame->type == AMB_FRAME_MAP_LEASED) {
        note_leased(client, frame, body->bytes);
    } else if (status == AMB_OK && frame->type == AMB_FRAME_LAZY) {
        note_lazy(client, frame, body->bytes);
    } else if (status == AMB_OK && frame->type == AMB_FRAME_FETCHED) {
        note_fetched(client, frame, body->bytes);
    } else if (status == AMB_OK) {
        note_delivery(client, frame, body->bytes);
    }
    free(body);
    return AMB_OK;
}

static enum amb_status on_flow(void *arg, enum amb_flow_kind kind, uint32_t handle, uint64_t value)
{
    struct shard_client *client = arg;
    struct client_pub *pub = &client->pubs[handle];
    if (kind == AMB_FLOW_ACCEPTED) {
        assert_true(!pub->is_open || value <= pub->batches);
        pub->accepted = value;
    } else if (kind == AMB_FLOW_WINDOW) {
        assert_true(!pub->is_open || value >= pub->window);
        pub->window = value;
    } else if (kind == AMB_FLOW_FREED) {
        assert_int_equal(handle, 0);
        assert_true(value > client->freed && value <= client->commits);
        client->freed = value;
    }
    return AMB_OK;
}

static void on_sent(void *arg, struct amb_link_tx *tx, enum amb_status status)
{
    struct shard_client *client = arg;
    (void)status;
    client->txs--;
    free(AMB_CONTAINER_OF(tx, struct client_tx, tx));
}

static void on_down(void *arg, enum amb_status why, const char *text)
{
    struct shard_client *client = arg;
    (void)why;
    assert_non_null(text);
    client->downs++;
}

static void on_closed(void *arg)
{
    (void)arg;
    fail_msg("a sim link closes at once");
}

static const struct amb_link_events client_events = {
    .on_frame = on_frame,
    .on_body = on_body,
    .on_flow = on_flow,
    .on_sent = on_sent,
    .on_down = on_down,
    .on_closed = on_closed,
};

void shard_client_offered(struct shard_client *client, uint64_t segment, uint64_t size, int fd)
{
    assert_true(client->segment_count < CLIENT_SEGMENTS_MAX);
    client->segments[client->segment_count++] =
        (struct client_segment){.id = segment, .size = size, .fd = fd};
}

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
    client->session->may_map = options->may_map;
    const struct amb_link_events *events[2] = {&amb_dispatch_events, &client_events};
    void *args[2] = {client->session, client};
    struct amb_link *ends[2];
    const struct amb_sim_options sim = {.bytes_max = options->link_bytes_max,
                                        .poll_frames = options->link_poll_frames,
                                        .copy = options->link_copy};
    assert_int_equal(amb_sim_create(&sim, events, args, ends), AMB_OK);
    client->session->link = ends[0];
    client->link = ends[1];
    return client;
}

static void session_closed(struct amb_session *session, void *arg)
{
    struct shard_client *client = arg;
    assert_ptr_equal(client->session, session);
    assert_null(session->link);
    client->is_closed = true;
    client->is_quarantined =
        !amb_list_is_empty(&session->held) || amb_lease_book_held(&session->book) > 0;
    if (!client->is_quarantined) {
        amb_session_destroy(&client->session);
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
        home->matched--;
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
        amb_session_release_held(client->session);
        amb_session_destroy(&client->session);
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
        segment_unmap(&c->segments[i]);
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
                                          client->harness->topic_home[topic], settled, &publisher),
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
    amb_publisher_destroy(&client->session->publishers[handle]);
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
        struct client_stamp stamp = {(uint32_t)client->id, handle, ++pub->messages};
        if (len != 0) {
            memcpy(tx->body + i * padded, &stamp, sizeof(stamp));
        }
        struct amb_record record = {.len = (uint32_t)len + (is_malformed ? 32 : 0)};
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
    return client->session->publishers[handle]->granted;
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
        assert_int_equal(
            amb_subscription_attach(client->session->subscriptions[handle], home, &begun), AMB_OK);
    } else {
        harness_lend(client->harness, topic, client, handle, +1, sub_holds(sub, home));
    }
    home->matched++;
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
    amb_subscription_end(client->session->subscriptions[handle], NULL, NULL);
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
        const struct client_segment *segment = segment_find(client, delivery->frame.segment);
        assert_non_null(segment); /* Nothing that is held is dropped. */
        if (delivery->payload != NULL) {
            assert_memory_equal(delivery->payload, &delivery->stamp, sizeof(delivery->stamp));
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
