/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/shard/segment_lease.h"

#include "broker/base/heap_account.h"
#include "broker/base/party.h"
#include "broker/config/config.h"
#include "broker/memory/gpupool.h"
#include "broker/shard/purse.h"
#include "broker/shard/shard.h"
#include "broker/shard/shard_segments.h"
#include "wire/base/assert.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

/* Bytes of a pass that the maker does at a time, before it looks for others' work. The kernel
 * clears new pages at about 1 GB/s and looks at present ones at ten times that. */
#define FILL_STEP (UINT64_C(2) << 20)
#define REFILL_STEP (UINT64_C(32) << 20)

static void lease_destroy(struct amb_segment_lease *lease)
{
    struct amb_shard *shard = lease->shard;
    amb_list_remove(&lease->of_book);
    amb_list_remove(&lease->of_shard);
    uint64_t size = lease->segment->size;
    bool is_gpu = lease->segment->gpu != NULL;
    if (lease->book != NULL) {
        amb_party_kept(lease->segment->party, size);
        *(is_gpu ? &lease->book->gpu_bytes : &lease->book->bytes) -= size;
        lease->book->slots -= lease->slots;
        lease->book->lease_count--;
    }
    if (lease->is_own) {
        (void)atomic_fetch_sub_explicit(&lease->segment->gpu->own_bytes, size,
                                        memory_order_relaxed);
    }
    amb_shard_segment_unmade(shard, lease->segment);
    if (is_gpu) {
        amb_party_end_lease_gpu(&lease->gpu_party, size);
        amb_segment_destroy(&lease->segment);
        free(lease);
        return;
    }
    /* Hundreds of milliseconds for hundreds of MiB; and it stays charged while it is mapped. */
    amb_shard_segment_unmake(shard, lease->segment);
    shard->leases.bytes -= size;
    free(lease);
}

/* Nobody reads there any more, and nobody can write. */
static void lease_end_if_unused(struct amb_segment_lease *lease)
{
    if (lease->state == AMB_LEASE_CLOSED && lease->commits == 0 && !lease->is_quarantined) {
        lease_destroy(lease);
    }
}

void amb_segment_lease_unref(struct amb_segment_lease *lease)
{
    lease->commits--;
    lease_end_if_unused(lease);
}

/* Of a party that keeps what was closed, that counts as well. */
static uint64_t book_kept(const struct amb_lease_book *book)
{
    return book->party == NULL ? 0 : atomic_load_explicit(&book->party->kept, memory_order_relaxed);
}

/* The share counts leases of all clients of the user. */
static bool user_may_lease(const struct amb_shard *shard, const struct amb_lease_book *book,
                           uint64_t bytes)
{
    const struct amb_membudget *budget = shard->memory.bufpool.options.budget;
    const struct amb_user *user = book->party == NULL ? NULL : book->party->user;
    uint64_t own = user == NULL ? 0 : atomic_load_explicit(&user->leased, memory_order_relaxed);
    uint64_t all = atomic_load_explicit(&budget->leased, memory_order_relaxed);
    uint64_t share = amb_user_share(user, budget->max / 4 * 3, all, own, shard->limits->user_share);
    return own <= share && bytes <= share - own;
}

static enum amb_status lease_check_slots(const struct amb_lease_book *book, uint64_t slot,
                                         uint32_t slots, const char **why)
{
    if (slot == 0 || slot % AMB_LEASE_SLOT_ALIGN != 0 || slots == 0) {
        *why = "slots are multiples of 4096 bytes, and at least one";
        return AMB_EINVAL;
    }
    if (book->lease_count >= AMB_LEASES_MAX || slots > AMB_LEASE_SLOTS_MAX - book->slots) {
        *why = "limit: 32 lease segments of one client, 65536 slots in all of them";
        return AMB_ELIMIT;
    }
    return AMB_OK;
}

enum amb_status amb_segment_lease_check(const struct amb_shard *shard,
                                        const struct amb_lease_book *book, uint64_t slot,
                                        uint32_t slots, uint64_t *size, const char **why)
{
    uint64_t max = shard->limits->max_leased_per_session;
    enum amb_status status = lease_check_slots(book, slot, slots, why);
    if (status != AMB_OK) {
        return status;
    }
    *why = "limit: bytes of lease segments of one client (limits.max_leased_per_session)";
    if (slot > max / slots) {
        return AMB_ELIMIT;
    }
    uint64_t bytes = (slot * slots + AMB_SEGMENT_ALIGN - 1) & ~(AMB_SEGMENT_ALIGN - 1);
    if (bytes > max || book->bytes > max - bytes) {
        return AMB_ELIMIT;
    }
    if (book->bytes + book_kept(book) > max - bytes) {
        *why = "limit: this process still has segments mapped that were closed, and they count "
               "(limits.max_leased_per_session)";
        return AMB_ELIMIT;
    }
    if (!user_may_lease(shard, book, bytes)) {
        *why = "limit: what clients of one user may lease (limits.user_share)";
        return AMB_ELIMIT;
    }
    struct amb_account *account = book->party == NULL ? NULL : &book->party->user->account;
    /* Commits take host memory too: without any left, no slot would ever come back. */
    if (amb_account_full(account, AMB_QUOTA_LEASED, bytes) != NULL ||
        amb_account_full(account, AMB_QUOTA_HOST_BYTES, bytes + AMB_PURSE_PIECE) != NULL) {
        *why = "limit: bytes that a quota allows (leased, host_bytes)";
        return AMB_ELIMIT;
    }
    *size = bytes;
    return AMB_OK;
}

/* pool NULL: in host memory. */
static enum amb_status lease_make(struct amb_shard *shard, struct amb_gpu_pool *pool, uint64_t size,
                                  uint32_t slots, struct amb_segment_lease **out)
{
    struct amb_segment_lease *lease =
        calloc(1, sizeof(*lease) + (slots + 63) / 64 * sizeof(uint64_t));
    if (lease == NULL) {
        return AMB_ENOMEM;
    }
    const struct amb_bufpool_options *options = &shard->memory.bufpool.options;
    uint64_t id = amb_membudget_next_id(options->budget);
    enum amb_status status = pool != NULL ? amb_segment_create_gpu(id, pool, size, &lease->segment)
                             : options->create != NULL
                                 ? options->create(id, size, &lease->segment)
                                 : amb_segment_create_leased(id, size, &lease->segment);
    if (status != AMB_OK) {
        free(lease);
        return status;
    }
    *out = lease;
    return AMB_OK;
}

static void lease_enter(struct amb_segment_lease *lease, struct amb_shard *shard,
                        struct amb_lease_book *book, uint64_t slot, uint32_t slots)
{
    lease->shard = shard;
    lease->book = book;
    lease->slot = slot;
    lease->slots = slots;
    lease->segment->slot_parts = (AMB_SLOT_PARTS + slots - 1) / slots;
    amb_list_push_back(&book->leases, &lease->of_book);
    amb_list_push_back(&shard->leases.all, &lease->of_shard);
    book->slots += slots;
    book->lease_count++;
}

enum amb_status amb_segment_lease_open(struct amb_shard *shard, struct amb_lease_book *book,
                                       uint64_t slot, uint32_t slots, uint64_t size,
                                       struct amb_segment_lease **out)
{
    struct amb_segment_lease *lease;
    enum amb_status status = lease_make(shard, NULL, size, slots, &lease);
    if (status != AMB_OK) {
        amb_membudget_end_lease(shard->memory.bufpool.options.budget, size);
        amb_membudget_give(shard->memory.bufpool.options.budget, size);
        return status;
    }
    lease_enter(lease, shard, book, slot, slots);
    lease->segment->is_leased = true;
    amb_segment_set_group(lease->segment, &amb_trust_group_main);
    lease->segment->party = amb_party_ref(book->party);
    amb_party_lease(book->party, size);
    book->bytes += size;
    shard->leases.bytes += size;
    *out = lease;
    return AMB_OK;
}

enum amb_status amb_segment_lease_open_gpu(struct amb_shard *shard, struct amb_lease_book *book,
                                           struct amb_gpu_pool *pool, uint64_t slot, uint32_t slots,
                                           struct amb_segment_lease **out, const char **why)
{
    enum amb_status status = lease_check_slots(book, slot, slots, why);
    if (status != AMB_OK) {
        return status;
    }
    if (!amb_gpu_pool_is_sound(pool)) {
        *why = "that GPU is out of use until the broker is started anew";
        return AMB_ECUDA;
    }
    *why = "limit: one client may lease half of a GPU's pool (memory.cuda.size)";
    uint64_t most = pool->size / 2;
    if (slot > most / slots || book->gpu_bytes > most) {
        return AMB_ELIMIT;
    }
    uint64_t size = (slot * slots + AMB_SEGMENT_ALIGN - 1) & ~(AMB_SEGMENT_ALIGN - 1);
    if (size > most - book->gpu_bytes) {
        return AMB_ELIMIT;
    }
    struct amb_account *account = book->party == NULL ? NULL : &book->party->user->account;
    if (amb_account_full(account, AMB_QUOTA_GPU_BYTES, size) != NULL) {
        *why = "limit: bytes that a quota allows (gpu_bytes)";
        return AMB_ELIMIT;
    }
    struct amb_segment_lease *lease;
    status = lease_make(shard, pool, size, slots, &lease);
    if (status != AMB_OK) {
        *why = "the GPU's pool is used up (memory.cuda.size)";
        return status;
    }
    lease_enter(lease, shard, book, slot, slots);
    lease->state = AMB_LEASE_OFFERED;
    lease->gpu_party = amb_party_ref(book->party);
    amb_party_lease_gpu(book->party, size);
    book->gpu_bytes += size;
    *out = lease;
    return AMB_OK;
}

enum amb_status amb_segment_lease_open_own(struct amb_shard *shard, struct amb_gpu_pool *pool,
                                           uint64_t slot, uint32_t slots,
                                           struct amb_segment_lease **out)
{
    struct amb_segment_lease *lease;
    uint64_t size = slot * slots;
    uint64_t others = atomic_fetch_add_explicit(&pool->own_bytes, size, memory_order_relaxed);
    enum amb_status status =
        others + size <= pool->size / 2 ? lease_make(shard, pool, size, slots, &lease) : AMB_ENOMEM;
    if (status != AMB_OK) {
        (void)atomic_fetch_sub_explicit(&pool->own_bytes, size, memory_order_relaxed);
        return status;
    }
    lease->shard = shard;
    lease->slot = slot;
    lease->slots = slots;
    lease->is_own = true;
    lease->state = AMB_LEASE_SEALED;
    amb_list_push_back(&shard->gpuslots.leases, &lease->of_book);
    amb_list_push_back(&shard->leases.all, &lease->of_shard);
    *out = lease;
    return AMB_OK;
}

enum amb_status amb_segment_lease_pass_begin(struct amb_segment_lease *lease,
                                             struct amb_segment_lease_pass *pass)
{
    bool is_new = lease->state == AMB_LEASE_FILLING;
    amb_assert((is_new || lease->state == AMB_LEASE_SEALING) && lease->pass == NULL);
    *pass = (struct amb_segment_lease_pass){
        .fd = fcntl(lease->segment->fd_rw, F_DUPFD_CLOEXEC, 0),
        .size = lease->segment->size,
        .step = is_new ? FILL_STEP : REFILL_STEP,
        .status = AMB_OK,
    };
    if (pass->fd < 0) {
        amb_segment_lease_close(lease);
        return AMB_ELIMIT;
    }
    lease->pass = pass;
    return AMB_OK;
}

bool amb_segment_lease_pass_step(struct amb_segment_lease_pass *pass)
{
    if (atomic_load_explicit(&pass->is_over, memory_order_relaxed)) {
        pass->status = AMB_ECLOSED;
        return false;
    }
    uint64_t left = pass->size - pass->done;
    uint64_t step = pass->step < left ? pass->step : left;
    pass->status = amb_segment_fill(pass->fd, pass->done, step);
    pass->done += step;
    return pass->status == AMB_OK && pass->done < pass->size;
}

void amb_segment_lease_pass_fini(struct amb_segment_lease_pass *pass)
{
    (void)close(pass->fd);
    pass->fd = -1;
}

enum amb_status amb_segment_lease_pass_end(struct amb_segment_lease *lease,
                                           struct amb_segment_lease_pass *pass)
{
    amb_assert(lease->pass == pass);
    lease->pass = NULL;
    bool is_new = lease->state == AMB_LEASE_FILLING;
    enum amb_status status = pass->status;
    if (status == AMB_OK && pass->done < pass->size) {
        status = AMB_ECLOSED; /* The broker ends. */
    }
    amb_segment_lease_pass_fini(pass);
    if (status == AMB_OK && !is_new) {
        /* Not before its pages are what they will be: a registration may hold on to them. */
        status = amb_shard_segment_made(lease->shard, lease->segment);
        amb_segment_finish(lease->segment);
    }
    if (status != AMB_OK) {
        amb_segment_lease_close(lease);
        return status;
    }
    lease->state = is_new ? AMB_LEASE_OFFERED : AMB_LEASE_SEALED;
    return AMB_OK;
}

enum amb_status amb_segment_lease_mapped(struct amb_segment_lease *lease)
{
    if (lease->state != AMB_LEASE_OFFERED) {
        return AMB_ESTATE;
    }
    if (lease->segment->gpu != NULL) {
        lease->state = AMB_LEASE_SEALED;
        return AMB_OK;
    }
    enum amb_status status = amb_segment_seal(lease->segment);
    if (status != AMB_OK) {
        amb_segment_lease_close(lease);
        return AMB_EFORBIDDEN;
    }
    /* Holes that were punched before the seals are filled again, and no more can be made. */
    lease->state = AMB_LEASE_SEALING;
    return AMB_OK;
}

void amb_segment_lease_close(struct amb_segment_lease *lease)
{
    if (lease->pass != NULL) {
        atomic_store_explicit(&lease->pass->is_over, true, memory_order_relaxed);
        lease->pass = NULL;
    }
    lease->state = AMB_LEASE_CLOSED;
    amb_segment_finish(lease->segment);
    lease_end_if_unused(lease);
}

void amb_segment_lease_orphan(struct amb_segment_lease *lease, bool is_quarantined)
{
    lease->book = NULL;
    lease->is_quarantined =
        is_quarantined && lease->state != AMB_LEASE_FILLING; /* else never given */
    amb_party_kept(lease->segment->party, lease->segment->size);
    if (!lease->is_quarantined) {
        amb_list_remove(&lease->of_book);
    }
    amb_segment_lease_close(lease);
}

void amb_segment_lease_release(struct amb_segment_lease *lease)
{
    amb_list_remove(&lease->of_book);
    lease->is_quarantined = false;
    lease_end_if_unused(lease);
}

struct amb_segment_lease *amb_segment_lease_find(const struct amb_lease_book *book,
                                                 uint64_t segment)
{
    AMB_LIST_FOR_EACH (node, &book->leases) {
        struct amb_segment_lease *lease = AMB_CONTAINER_OF(node, struct amb_segment_lease, of_book);
        if (lease->segment->id == segment) {
            return lease->state == AMB_LEASE_CLOSED ? NULL : lease;
        }
    }
    return NULL;
}

void amb_segment_lease_fini(struct amb_shard *shard)
{
    AMB_LIST_FOR_EACH_SAFE (node, &shard->leases.all) {
        lease_destroy(AMB_CONTAINER_OF(node, struct amb_segment_lease, of_shard));
    }
}
