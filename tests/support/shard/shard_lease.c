/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/shard/shard_lease.h"
#include "broker/worker/orders_lease.h"

#include "broker/worker/orders.h"
#include "tests/support/shard/shard_harness.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

/* The control thread's order, and its answer. */
struct lease_answer {
    bool has_come;
    enum amb_status status;
    uint64_t segment, size;
    int fd;
};

static void lease_answered(void *control, struct amb_order *order)
{
    const struct amb_order_lease *ask = AMB_CONTAINER_OF(order, struct amb_order_lease, order);
    (void)control;
    struct lease_answer *answer = order->context;
    *answer = (struct lease_answer){.has_come = true,
                                    .status = order->status,
                                    .segment = ask->segment,
                                    .size = ask->size,
                                    .fd = ask->fd};
    if (order->status != AMB_OK && order->kind != &amb_order_lease_close) {
        assert_non_null(ask->why);
    }
    amb_order_free(order);
}

static struct lease_answer lease_ask(struct shard_client *client, const struct amb_order_kind *kind,
                                     uint64_t segment, uint64_t slot, uint32_t slots)
{
    struct lease_answer answer = {0};
    struct amb_order_lease *ask = amb_order_new(kind, lease_answered, &answer);
    assert_non_null(ask);
    ask->order.session =
        (struct amb_session_id){client->shard, (uint32_t)client->id, client->session->generation};
    ask->segment = segment;
    ask->slot = slot;
    ask->slots = slots;
    amb_order_post(client->harness->peers[client->shard], &ask->order);
    harness_settle(client->harness);
    assert_true(answer.has_come);
    return answer;
}

enum amb_status client_lease_open(struct shard_client *client, uint64_t slot, uint32_t slots,
                                  struct client_lease *out)
{
    struct lease_answer answer = lease_ask(client, &amb_order_lease_open, 0, slot, slots);
    if (answer.status == AMB_OK) {
        *out = (struct client_lease){
            .segment = answer.segment, .size = answer.size, .slot = slot, .fd = answer.fd};
    }
    return answer.status;
}

enum amb_status client_lease_say_mapped(struct shard_client *client, uint64_t segment)
{
    return lease_ask(client, &amb_order_lease_mapped, segment, 0, 0).status;
}

enum amb_status client_lease_map(struct shard_client *client, struct client_lease *lease)
{
    lease->base = mmap(NULL, lease->size, PROT_READ | PROT_WRITE, MAP_SHARED, lease->fd, 0);
    assert_true(lease->base != MAP_FAILED);
    (void)close(lease->fd);
    lease->fd = -1;
    return client_lease_say_mapped(client, lease->segment);
}

void client_lease_close(struct shard_client *client, const struct client_lease *lease)
{
    (void)lease_ask(client, &amb_order_lease_close, lease->segment, 0, 0);
}

void client_lease_fini(struct client_lease *lease)
{
    if (lease->base != NULL) {
        (void)munmap(lease->base, lease->size);
    }
    if (lease->fd >= 0) {
        (void)close(lease->fd);
    }
    *lease = (struct client_lease){.fd = -1};
}

/* Returns the flags of its record. */
static uint16_t stamp_payload(struct shard_client *client, uint32_t handle,
                              const struct client_lease *lease, uint64_t offset, uint32_t len)
{
    struct client_stamp stamp = {(uint32_t)client->id, handle | CLIENT_STAMP_KIND,
                                 ++client->pubs[handle].messages};
    if (len >= sizeof(stamp) && offset <= lease->size - sizeof(stamp)) {
        memcpy(lease->base + offset, &stamp, sizeof(stamp));
    }
    return client_stamp_flags(&stamp);
}

void client_commit(struct shard_client *client, uint32_t handle, const struct client_lease *lease,
                   uint32_t first, uint32_t count, uint32_t len)
{
    const size_t record_size = sizeof(struct amb_record);
    const struct amb_frame frame = {
        .type = AMB_FRAME_COMMIT,
        .handle = handle,
        .seq = ++client->pubs[handle].batches,
        .number = ++client->commits,
        .count = count,
        .segment = lease->segment,
        .data_len = count * amb_payload_padded(len),
        .meta_len = count * (uint32_t)(record_size + sizeof(uint64_t)),
    };
    uint8_t *body = calloc(1, frame.meta_len);
    assert_non_null(body);
    for (uint32_t i = 0; i < count; i++) {
        uint64_t offset = (first + i) * lease->slot;
        struct amb_record record = {.len = len};
        if (lease->base != NULL) {
            record.flags = stamp_payload(client, handle, lease, offset, len);
        }
        memcpy(body + i * record_size, &record, record_size);
        memcpy(body + count * record_size + i * sizeof(offset), &offset, sizeof(offset));
    }
    client_send_body(client, &frame, body);
    free(body);
}

void client_commit_as(struct shard_client *client, uint32_t handle,
                      const struct client_lease *lease, const struct client_commit *commit)
{
    uint32_t padded = amb_props_padded(commit->props_len);
    const struct amb_frame frame = {
        .type = AMB_FRAME_COMMIT,
        .handle = handle,
        .seq = commit->seq != 0 ? commit->seq : ++client->pubs[handle].batches,
        .number = commit->number != 0 ? commit->number : ++client->commits,
        .count = 1,
        .segment = commit->segment != 0 ? commit->segment : lease->segment,
        .data_len = amb_payload_padded(commit->len) + (commit->is_malformed ? 16 : 0),
        .meta_len = (uint32_t)(sizeof(struct amb_record) + sizeof(uint64_t)) + padded,
    };
    uint8_t *body = calloc(1, frame.meta_len);
    assert_non_null(body);
    struct amb_record record = {.len = commit->len, .props_len = (uint16_t)commit->props_len};
    if (lease->base != NULL) {
        record.flags = stamp_payload(client, handle, lease, commit->offset, commit->len);
    }
    memcpy(body, &record, sizeof(record));
    memcpy(body + sizeof(record), &commit->offset, sizeof(commit->offset));
    if (commit->props_len > 0) { /* one property: name "n", a value of zeros */
        uint8_t *blob = body + sizeof(record) + sizeof(commit->offset);
        uint16_t value_len = (uint16_t)(commit->props_len - 7);
        assert_true(commit->props_len >= 7);
        blob[0] = 1;
        memcpy(blob + 2, &value_len, sizeof(value_len));
        blob[4] = 'n';
    }
    client_send_body(client, &frame, body);
    free(body);
}
