/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/bench/sender.h"

#include "tools/bench/payload.h"

#include <stdio.h>
#include <sys/mman.h>

#define SYNC_NS (20 * AMB_SEC)
#define LENT_BYTES (UINT64_C(64) << 20)

enum amb_status amb_sender_init(struct amb_sender *sender, const struct amb_bench *bench,
                                struct amb_conn *conn, const char *topic, unsigned index)
{
    *sender = (struct amb_sender){.bench = bench, .index = index};
    uint64_t count = bench->is_post ? LENT_BYTES / bench->size + 2 : 1;
    sender->buffer_count =
        count < AMB_SENDER_BUFFERS_MAX ? (unsigned)count : AMB_SENDER_BUFFERS_MAX;
    for (unsigned i = 0; i < sender->buffer_count; i++) {
        /* Present before the clock runs: page faults are not what is measured. */
        void *buffer = mmap(NULL, (size_t)bench->size, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
        if (buffer == MAP_FAILED) {
            return AMB_ENOMEM;
        }
        sender->buffers[i] = buffer;
    }
    return amb_pub_open(conn, topic, NULL, &sender->pub);
}

static enum amb_status send_lease(struct amb_sender *sender, uint64_t word, int64_t timeout_ns)
{
    const struct amb_bench *bench = sender->bench;
    struct amb_lease *lease;
    enum amb_status status = amb_lease(sender->pub, (size_t)bench->size, timeout_ns, &lease);
    if (status != AMB_OK) {
        return status;
    }
    amb_payload_write(amb_lease_data(lease), (size_t)bench->size, word, bench->is_touch);
    return amb_lease_commit(lease, NULL, NULL);
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
        amb_payload_write(sender->buffers[i], size, word, bench->is_touch);
        status = amb_pub_post(sender->pub, AMB_OUT(.data = sender->buffers[i], .len = size),
                              timeout_ns, &sender->seqs[i]);
    } else {
        amb_payload_write(sender->buffers[i], size, word, bench->is_touch);
        status = amb_pub_send(sender->pub, sender->buffers[i], size, timeout_ns);
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
            (void)munmap(sender->buffers[i], (size_t)sender->bench->size);
            sender->buffers[i] = NULL;
        }
    }
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
