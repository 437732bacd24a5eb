/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attacks by leased segments, the only memory of the broker's that a client may write. They come
 * before it is sealed, after, and by commits of slots that are not the client's to commit.
 */
#include "tests/support/hostile/hostile.h"

#include "wire/base/clock.h"

#include <fcntl.h>
#include <linux/falloc.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define SLOT UINT64_C(65536)
#define SLOTS 32u
#define PATIENCE_NS (30 * AMB_NS_PER_SEC)
#define KEPT_SLOTS 128u
#define MAPPED AMB__CONTROL__CONTROL__BODY_LEASE_MAPPED
#define CLOSE AMB__CONTROL__CONTROL__BODY_LEASE_CLOSE
#define PUB 1u

/* The attack beside this one may have all the memory just now. */
static bool is_short(const struct hostile *h)
{
    return !h->is_over && (h->answer_status == AMB_ENOMEM || h->answer_status == AMB_ELIMIT);
}

static void open_lease(struct hostile *h)
{
    int64_t deadline_ns = amb_clock_monotonic_ns() + PATIENCE_NS;
    while (!hostile_await(h, hostile_lease_open(h, SLOT, SLOTS)) || h->lease.fd < 0) {
        if (!is_short(h) || amb_clock_monotonic_ns() > deadline_ns) {
            hostile_fail("no lease: %d %s", h->answer_status, h->over_text);
        }
        hostile_ping(h, 0); /* It may take longer than the peer timeout. */
        hostile_live(h, 10);
    }
    void *base = mmap(NULL, h->lease.size, PROT_READ | PROT_WRITE, MAP_SHARED, h->lease.fd, 0);
    if (base == MAP_FAILED) {
        hostile_fail("the lease cannot be mapped");
    }
    h->lease.base = base;
}

/* As a good client does, but for the descriptor, which is kept. */
static void have_lease(struct hostile *h)
{
    open_lease(h);
    if (!hostile_await(h, hostile_lease_say(h, MAPPED, h->lease.id))) {
        hostile_fail("LeaseMapped is refused: %d", h->answer_status);
    }
}

static void commit_raw(struct hostile *h, uint64_t segment, uint64_t number, uint32_t count,
                       const uint64_t *offsets, uint32_t len)
{
    uint8_t meta[32 * 24] = {0};
    for (uint32_t i = 0; i < count; i++) {
        const struct amb_record record = {.len = len};
        memcpy(meta + i * 16, &record, sizeof(record));
        memcpy(meta + count * 16 + i * 8, &offsets[i], sizeof(offsets[i]));
    }
    const struct amb_frame frame = {.type = AMB_FRAME_COMMIT,
                                    .handle = PUB,
                                    .seq = ++h->pubs[PUB].batches,
                                    .count = count,
                                    .number = number,
                                    .segment = segment,
                                    .data_len = count * amb_payload_padded(len),
                                    .meta_len = count * 24};
    hostile_frame(h, &frame, meta);
}

static void commit(struct hostile *h, uint64_t segment, uint64_t offset, uint32_t len)
{
    commit_raw(h, segment, ++h->commits, 1, &offset, len);
}

/* Of any size; each one given must come back. */
static enum hostile_verdict lease_sizes(struct hostile *h)
{
    for (unsigned i = 0; i < 30 && !h->is_over; i++) {
        uint64_t slot =
            hostile_below(h, 2) == 0 ? hostile_edge(h) : 4096 * (1 + hostile_below(h, 64));
        (void)hostile_await(h, hostile_lease_open(h, slot, (uint32_t)hostile_edge(h)));
        if (hostile_below(h, 2) == 0) {
            (void)hostile_lease_say(h, CLOSE, h->lease.id);
        }
    }
    return HOSTILE_LIVES;
}

/* More of them than there may be, and none used. */
static enum hostile_verdict lease_many(struct hostile *h)
{
    uint64_t id = 0;
    for (unsigned i = 0; i < 40; i++) {
        id = hostile_lease_open(h, 4096, 1 + (uint32_t)hostile_below(h, 100));
    }
    (void)hostile_await(h, id);
    return HOSTILE_LIVES;
}

/* While it can still be written: neither its size nor what the broker reads of it may suffer. */
static enum hostile_verdict lease_before(struct hostile *h)
{
    open_lease(h);
    int fd = h->lease.fd;
    if (ftruncate(fd, 0) == 0 || ftruncate(fd, (off_t)h->lease.size * 2) == 0) {
        hostile_fail("a leased segment can be cut or grown");
    }
    (void)fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, (off_t)h->lease.size);
    (void)madvise(h->lease.base, SLOT * 4, MADV_REMOVE);
    if (hostile_below(h, 4) == 0) {
        (void)fcntl(fd, F_ADD_SEALS, 1 << hostile_below(h, 6));
    }
    bool is_mapped = hostile_await(h, hostile_lease_say(h, MAPPED, h->lease.id));
    for (uint64_t i = 0; i < 4 && is_mapped; i++) {
        memset(h->lease.base + i * SLOT, (int)i, 20000);
        commit(h, h->lease.id, i * SLOT, 20000);
        hostile_live(h, 1);
    }
    return HOSTILE_LIVES;
}

/* It is sealed: the descriptor that was kept is of no more use. */
static enum hostile_verdict lease_after(struct hostile *h)
{
    have_lease(h);
    hostile_try_segment(h->lease.fd, h->lease.size, "a leased segment");
    hostile_try_as_nobody(h->lease.fd, h->lease.size, "a leased segment");
    if (madvise(h->lease.base, SLOT, MADV_REMOVE) == 0) {
        hostile_fail("pages of a leased segment can be taken away");
    }
    commit(h, h->lease.id, 0, 1000);
    return HOSTILE_LIVES;
}

/* It changes what it has committed, while others read that: their affair, and nobody else's. */
static enum hostile_verdict lease_writes(struct hostile *h)
{
    have_lease(h);
    int64_t until_ns = amb_clock_monotonic_ns() + 20 * AMB_NS_PER_MS;
    uint64_t next = 0;
    while (amb_clock_monotonic_ns() < until_ns && !h->is_over) {
        if (next < SLOTS) {
            commit(h, h->lease.id, next++ * SLOT, (uint32_t)(1 + hostile_below(h, SLOT)));
        }
        hostile_bytes(h, h->lease.base + hostile_below(h, SLOTS) * SLOT, 4096);
        hostile_live(h, 0);
    }
    return HOSTILE_LIVES;
}

static enum hostile_verdict commit_early(struct hostile *h)
{
    open_lease(h);
    if (hostile_below(h, 2) == 0) {
        (void)hostile_lease_say(h, MAPPED, h->lease.id); /* ... and does not wait for Ok. */

        commit(h, h->lease.id, 0, 100);
        amb_link_flush(h->link);
        return HOSTILE_EITHER;
    }
    commit(h, h->lease.id, 0, 100);
    return HOSTILE_ENDS;
}

static enum hostile_verdict commit_foreign(struct hostile *h)
{
    have_lease(h);
    uint64_t id = h->lease.id;
    switch (hostile_below(h, 4)) {
    case 0:
        id += 1 + hostile_below(h, 10);
        break;
    case 1:
        id -= 1 + hostile_below(h, 3);
        break;
    case 2:
        id = h->segment_count > 0 ? h->segments[0].id : 0;
        break;
    default:
        id = hostile_random(h);
    }
    commit(h, id, 0, 100);
    return HOSTILE_ENDS;
}

static enum hostile_verdict commit_twice(struct hostile *h)
{
    have_lease(h);
    const uint64_t offsets[2] = {SLOT * 3, SLOT * 3};
    commit_raw(h, h->lease.id, ++h->commits, 2, offsets, 100);
    return HOSTILE_ENDS;
}

/* Again and again, whether anybody still reads it or not. */
static enum hostile_verdict commit_again(struct hostile *h)
{
    have_lease(h);
    h->keeps_deliveries = hostile_below(h, 2) == 0;
    for (unsigned i = 0; i < 50 && !h->is_over; i++) {
        commit(h, h->lease.id, 0, 1000);
        hostile_live(h, 0);
    }
    return HOSTILE_EITHER;
}

static enum hostile_verdict commit_places(struct hostile *h)
{
    have_lease(h);
    uint64_t offset = 0;
    uint32_t len = 100;
    switch (hostile_below(h, 4)) {
    case 0:
        offset = SLOT * SLOTS + SLOT * hostile_below(h, 3);
        break;
    case 1:
        offset = 16 * (1 + hostile_below(h, 4000));
        break;
    case 2:
        offset = UINT64_MAX - 16 * hostile_below(h, 3) - 15;
        break;
    default:
        len = (uint32_t)(SLOT + 1 + hostile_below(h, SLOT));
    }
    commit(h, h->lease.id, offset, len);
    return HOSTILE_ENDS;
}

static enum hostile_verdict commit_numbers(struct hostile *h)
{
    have_lease(h);
    h->commits += hostile_below(h, 2) == 0 ? 1 + hostile_below(h, 100) : UINT64_MAX - 3;
    commit(h, h->lease.id, 0, 100);
    return HOSTILE_ENDS;
}

static enum hostile_verdict commit_meta(struct hostile *h)
{
    have_lease(h);
    uint8_t meta[1024];
    hostile_bytes(h, meta, sizeof(meta));
    uint32_t count = 1 + (uint32_t)hostile_below(h, 16);
    const struct amb_frame frame = {.type = AMB_FRAME_COMMIT,
                                    .handle = PUB,
                                    .seq = ++h->pubs[PUB].batches,
                                    .count = count,
                                    .number = ++h->commits,
                                    .segment = h->lease.id,
                                    .data_len = 16 * hostile_below(h, 100),
                                    .meta_len = count * 24 + 8 * (uint32_t)hostile_below(h, 16)};
    hostile_frame(h, &frame, meta);
    return HOSTILE_ENDS;
}

/* By a publisher that is not there: over at once. */
static enum hostile_verdict commit_nobody(struct hostile *h)
{
    have_lease(h);
    for (unsigned i = 0; i < 200; i++) {
        uint8_t meta[24] = {0};
        const struct amb_frame frame = {.type = AMB_FRAME_COMMIT,
                                        .handle = 7,
                                        .seq = hostile_edge(h),
                                        .count = 1,
                                        .number = ++h->commits,
                                        .segment = hostile_edge(h),
                                        .data_len = 16,
                                        .meta_len = 24};
        hostile_frame(h, &frame, meta);
        if (i % 16 == 0) {
            hostile_live(h, 0);
        }
    }
    return HOSTILE_LIVES;
}

/* Keeps its oldest commit alive, reads nothing, and commits on, for publishers that are there and
 * that are not. The words that it does not read must cost the broker nothing. */
static enum hostile_verdict commit_untold(struct hostile *h)
{
    have_lease(h);
    h->keeps_deliveries = true;
    commit(h, h->lease.id, 0, 1000);
    hostile_live(h, 20);
    for (unsigned i = 0; i < (h->is_greedy ? 200000 : 20000) && !h->is_over; i++) {
        uint8_t meta[24] = {0};
        const struct amb_frame frame = {.type = AMB_FRAME_COMMIT,
                                        .handle = 7,
                                        .seq = 1,
                                        .count = 1,
                                        .number = ++h->commits,
                                        .segment = h->lease.id,
                                        .data_len = 16,
                                        .meta_len = 24};
        hostile_frame(h, &frame, meta);
    }
    return HOSTILE_LIVES;
}

/* Closed with commits that are read, closed twice, mapped twice, and used after that. */
static enum hostile_verdict lease_closed(struct hostile *h)
{
    have_lease(h);
    h->keeps_deliveries = true;
    for (uint64_t i = 0; i < 8; i++) {
        commit(h, h->lease.id, i * SLOT, 5000);
        hostile_live(h, 0);
    }
    (void)hostile_await(h, hostile_lease_say(h, MAPPED, h->lease.id));
    (void)hostile_lease_say(h, CLOSE, h->lease.id);
    (void)hostile_lease_say(h, CLOSE, h->lease.id);
    (void)hostile_lease_say(h, CLOSE, hostile_edge(h));
    (void)hostile_await(h, hostile_lease_say(h, MAPPED, h->lease.id));
    (void)hostile_await(h, hostile_lease_say(h, MAPPED, hostile_edge(h)));
    if (hostile_below(h, 2) == 0) {
        return HOSTILE_EITHER; /* LeaseClose may have overtaken a commit. */
    }
    commit(h, h->lease.id, 20 * SLOT, 100);
    return HOSTILE_ENDS;
}

/* Opens, maps, closes, and keeps the mapping, again and again. The kept memory stays charged to it,
 * so it is refused long before it has all memory. */
static enum hostile_verdict lease_keep(struct hostile *h)
{
    enum {
        KEPT_MAX = 40
    };
    void *kept[KEPT_MAX];
    uint64_t sizes[KEPT_MAX];
    unsigned count = 0;
    while (count < KEPT_MAX && !h->is_over &&
           hostile_await(h, hostile_lease_open(h, SLOT, KEPT_SLOTS)) && h->lease.fd >= 0) {
        void *base = mmap(NULL, h->lease.size, PROT_READ | PROT_WRITE, MAP_SHARED, h->lease.fd, 0);
        (void)close(h->lease.fd);
        h->lease.fd = -1;
        if (base == MAP_FAILED || !hostile_await(h, hostile_lease_say(h, MAPPED, h->lease.id))) {
            break;
        }
        kept[count] = base;
        sizes[count++] = h->lease.size;
        (void)hostile_lease_say(h, CLOSE, h->lease.id);
        hostile_live(h, 0);
    }
    if (count == KEPT_MAX) {
        hostile_fail("%u closed segments of 8 MiB are kept mapped, and one more is given", count);
    }
    while (count > 0) {
        count--;
        (void)munmap(kept[count], sizes[count]);
    }
    return HOSTILE_LIVES;
}

/* A child goes on writing when the client's process is gone. */
static enum hostile_verdict lease_orphan(struct hostile *h)
{
    have_lease(h);
    for (uint64_t i = 0; i < 16; i++) {
        commit(h, h->lease.id, i * SLOT, 60000);
        hostile_live(h, 0);
    }
    if (fork() == 0) {
        for (int i = 0; i < 20; i++) {
            memset(h->lease.base, i, h->lease.size);
            (void)usleep(1000);
        }
        _exit(0);
    }
    return HOSTILE_GONE;
}

const struct hostile_attack hostile_lease_attacks[] = {
    {.name = "lease-sizes", .run = lease_sizes},
    {.name = "lease-many", .run = lease_many},
    {.name = "lease-before", .run = lease_before},
    {.name = "lease-after", .run = lease_after},
    {.name = "lease-writes", .run = lease_writes},
    {.name = "lease-closed", .run = lease_closed},
    {.name = "lease-keep", .run = lease_keep, .is_greedy = true},
    {.name = "lease-orphan", .run = lease_orphan},
    {.name = "commit-early", .run = commit_early},
    {.name = "commit-foreign", .run = commit_foreign},
    {.name = "commit-twice", .run = commit_twice},
    {.name = "commit-again", .run = commit_again},
    {.name = "commit-places", .run = commit_places},
    {.name = "commit-numbers", .run = commit_numbers},
    {.name = "commit-meta", .run = commit_meta},
    {.name = "commit-nobody", .run = commit_nobody},
    {.name = "commit-untold", .run = commit_untold, .is_greedy = true},
    {.name = NULL},
};
