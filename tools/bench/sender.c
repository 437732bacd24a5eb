/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/bench/sender.h"

#include "tools/bench/gpu.h"
#include "tools/bench/payload.h"

#include <stdio.h>

#define SYNC_NS (20 * AMB_SEC)
#define LENT_BYTES (UINT64_C(64) << 20)

/* Payloads written on a GPU are whole behind its stream. */
static enum amb_status write_payload(struct amb_sender *sender, void *to, uint64_t word)
{
    const struct amb_bench *bench = sender->bench;
    if (sender->gpu == NULL) {
        amb_payload_write(to, (size_t)bench->size, word, bench->is_touch);
        return AMB_OK;
    }
    return bench->is_touch ? amb_bench_gpu_fill(sender->gpu, to, bench->size, (uint32_t)word)
                           : AMB_OK;
}

enum amb_status amb_sender_init(struct amb_sender *sender, const struct amb_bench *bench,
                                struct amb_conn *conn, const char *topic, unsigned index)
{
    *sender = (struct amb_sender){.bench = bench, .index = index};
    uint64_t count = bench->is_post ? LENT_BYTES / bench->size + 2 : 1;
    sender->buffer_count =
        count < AMB_SENDER_BUFFERS_MAX ? (unsigned)count : AMB_SENDER_BUFFERS_MAX;
    if (bench->mem == AMB_MEM_CUDA) {
        enum amb_status status = amb_bench_gpu_open(bench->device, &sender->gpu);
        if (status != AMB_OK) {
            return status;
        }
    }
    for (unsigned i = 0; i < sender->buffer_count; i++) {
        sender->buffers[i] = amb_bench_buffer_make(sender->gpu, bench->size);
        if (sender->buffers[i] == NULL) {
            return AMB_ENOMEM;
        }
    }
    bool is_gpu_lease = sender->gpu != NULL && bench->is_lease;
    return amb_pub_open(conn, topic,
                        AMB_PUB(.lease_mem = is_gpu_lease ? AMB_MEM_CUDA : AMB_MEM_DEFAULT,
                                .device = is_gpu_lease ? bench->device : 0),
                        &sender->pub);
}

static enum amb_status send_lease(struct amb_sender *sender, uint64_t word, int64_t timeout_ns)
{
    const struct amb_bench *bench = sender->bench;
    struct amb_lease *lease;
    enum amb_status status = amb_lease(sender->pub, (size_t)bench->size, timeout_ns, &lease);
    if (status != AMB_OK) {
        return status;
    }
    if (sender->gpu == NULL) {
        amb_payload_write(amb_lease_data(lease), (size_t)bench->size, word, bench->is_touch);
        return amb_lease_commit(lease, NULL, NULL);
    }
    status =
        write_payload(sender, amb_lease_data_on(lease, amb_bench_gpu_stream(sender->gpu)), word);
    if (status != AMB_OK) {
        amb_lease_abandon(lease);
        return status;
    }
    return amb_lease_commit(lease, AMB_OUT(.stream = amb_bench_gpu_stream(sender->gpu)), NULL);
}

enum amb_status amb_sender_send(struct amb_sender *sender, int64_t timeout_ns)
{
    const struct amb_bench *bench = sender->bench;
    size_t size = (size_t)bench->size;
    unsigned i = sender->next;
    uint64_t word = amb_payload_word(sender->index, sender->sent);
    enum amb_status status;
    if (bench->is_lease) {
        status = send_lease(sender, word, timeout_ns);
    } else if (bench->is_post) {
        if (sender->seqs[i] != 0) {
            status = amb_pub_flush(sender->pub, sender->seqs[i], timeout_ns);
            if (status != AMB_OK) {
                return status;
            }
            sender->seqs[i] = 0;
        }
        status = write_payload(sender, sender->buffers[i], word);
        if (status == AMB_OK) {
            status = amb_pub_post(sender->pub,
                                  AMB_OUT(.mem = bench->mem, .data = sender->buffers[i],
                                          .len = size, .stream = amb_bench_gpu_stream(sender->gpu)),
                                  timeout_ns, &sender->seqs[i]);
        }
    } else {
        status = write_payload(sender, sender->buffers[i], word);
        if (status == AMB_OK && sender->gpu != NULL && bench->is_touch) {
            status = amb_bench_gpu_sync(sender->gpu);
        }
        if (status == AMB_OK) {
            status = amb_pub_send(sender->pub, sender->buffers[i], size, timeout_ns);
        }
    }
    if (status == AMB_OK) {
        sender->sent++;
        sender->next = (i + 1) % sender->buffer_count;
    }
    return status;
}

enum amb_status amb_sender_push(struct amb_sender *sender)
{
    enum amb_status status = amb_pub_flush(sender->pub, 0, AMB_NOWAIT);
    return status == AMB_EAGAIN || status == AMB_ETIMEDOUT ? AMB_OK : status;
}

void amb_sender_fini(struct amb_sender *sender, int64_t timeout_ns)
{
    /* First the publisher: until it is closed, libamb may still read lent buffers. */
    (void)amb_pub_close(sender->pub, timeout_ns);
    sender->pub = NULL;
    for (unsigned i = 0; i < sender->buffer_count; i++) {
        if (sender->buffers[i] != NULL) {
            amb_bench_buffer_free(sender->gpu, sender->buffers[i], sender->bench->size);
            sender->buffers[i] = NULL;
        }
    }
    amb_bench_gpu_close(&sender->gpu);
}

void amb_sender_main(const struct amb_team *team, unsigned index, amb_sender_fn publish)
{
    struct amb_team_pub *counts = &team->shared->pub[index];
    struct amb_sender sender = {0};
    char name[32];
    (void)snprintf(name, sizeof(name), "bench-pub%u", index);
    struct amb_conn *conn = amb_team_connect(team, name);
    if (conn == NULL) {
        return;
    }
    enum amb_status status = amb_sender_init(&sender, team->bench, conn, team->bench->topic, index);
    if (status == AMB_OK) {
        status = amb_pub_wait_subscribers(sender.pub, team->bench->subs, SYNC_NS);
    }
    if (status == AMB_OK) {
        atomic_store(&counts->is_ready, true);
        while (amb_team_phase(team) == AMB_TEAM_SYNC) {
            amb_bench_sleep_ns(AMB_MS);
        }
        status = publish(team, &sender);
    }
    atomic_store(&counts->is_stopped, true);
    if (status != AMB_OK) {
        amb_team_fail(team, conn, name, status);
        return;
    }
    while (amb_team_phase(team) != AMB_TEAM_EXIT) {
        amb_bench_sleep_ns(AMB_MS);
    }
    amb_sender_fini(&sender, AMB_SEC);
    (void)amb_close(conn, AMB_SEC);
}
