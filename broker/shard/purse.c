/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/shard/purse.h"

#include "broker/base/party.h"
#include "broker/shard/shard.h"
#include "wire/base/clock.h"

#include <stdlib.h>

/* A limit that is less than so many spares leaves none. No worker could give its own to another. */
#define SPARES UINT64_C(256)

/* Less than a piece is always left over. */
static uint64_t spare_of(const struct amb_purse *purse, enum amb_quota row)
{
    return amb_account_past(purse->account, row, SPARES * AMB_PURSE_SPARE) == NULL
               ? AMB_PURSE_SPARE
               : AMB_PURSE_PIECE - 1;
}

/* There is a session. */
static void set_spare(struct amb_purse *purse)
{
    purse->spare = spare_of(purse, AMB_QUOTA_HOST_BYTES);
    purse->map_spare = spare_of(purse, AMB_QUOTA_MAPPED);
}

bool amb_purse_is_due(const struct amb_party *party)
{
    return party != NULL && party->user->tenant != NULL;
}

struct amb_purse *amb_purse_find(struct amb_shard *shard, struct amb_party *party)
{
    if (!amb_purse_is_due(party)) {
        return NULL;
    }
    AMB_LIST_FOR_EACH (node, &shard->purses) {
        struct amb_purse *purse = AMB_CONTAINER_OF(node, struct amb_purse, node);
        if (purse->party->user == party->user) {
            purse->refs++;
            set_spare(purse);
            return purse;
        }
    }
    struct amb_purse *purse = calloc(1, sizeof(*purse));
    if (purse != NULL) {
        purse->shard = shard;
        purse->party = amb_party_ref(party);
        purse->account = &party->user->account;
        purse->refs = 1;
        set_spare(purse);
        purse->billed_ns = -AMB_PURSE_BILL_NS;
        amb_list_push_back(&shard->purses, &purse->node);
    }
    return purse;
}

static void put_on_bill(struct amb_purse *purse, int64_t now_ns)
{
    amb_account_bill(purse->account, AMB_QUOTA_IN_MSGS, purse->msgs, now_ns);
    amb_account_bill(purse->account, AMB_QUOTA_IN_BYTES, purse->bytes, now_ns);
    purse->msgs = purse->bytes = 0;
}

static void purse_end(struct amb_purse *purse)
{
    amb_assert(purse->gpu == 0); /* Each of its slots has host bytes beside it. */
    amb_account_sub(purse->account, AMB_QUOTA_GPU_BYTES, purse->gpu_taken);
    amb_account_sub(purse->account, AMB_QUOTA_HOST_BYTES, purse->taken);
    amb_list_remove(&purse->node);
    amb_party_unref(&purse->party);
    free(purse);
}

void amb_purse_unref(struct amb_purse **ref)
{
    struct amb_purse *purse = *ref;
    *ref = NULL;
    if (purse == NULL || --purse->refs > 0) {
        return;
    }
    put_on_bill(purse, purse->shard->now_ns);
    amb_account_bill(purse->account, AMB_QUOTA_FILTER_TESTS, purse->tests, purse->shard->now_ns);
    purse->tests = 0;
    amb_assert(purse->mapped == 0); /* No session is left. */
    amb_purse_map_settle(purse);
    purse->spare = 0; /* Each let_go comes to amb_purse_return. */
    if (purse->held == 0) {
        purse_end(purse);
    }
}

void amb_purse_take(struct amb_purse *purse)
{
    uint64_t more =
        (purse->held - purse->taken + AMB_PURSE_PIECE - 1) / AMB_PURSE_PIECE * AMB_PURSE_PIECE;
    amb_account_add(purse->account, AMB_QUOTA_HOST_BYTES, more);
    purse->taken += more;
    purse->is_past = amb_account_left(purse->account, AMB_QUOTA_HOST_BYTES) == 0;
}

void amb_purse_return(struct amb_purse *purse)
{
    if (purse->refs == 0 && purse->held == 0) {
        purse_end(purse);
        return;
    }
    uint64_t kept = purse->spare >= AMB_PURSE_SPARE ? AMB_PURSE_PIECE : 0;
    uint64_t less = (purse->taken - purse->held) / AMB_PURSE_PIECE * AMB_PURSE_PIECE - kept;
    amb_account_sub(purse->account, AMB_QUOTA_HOST_BYTES, less);
    purse->taken -= less;
    purse->is_past = purse->is_past && amb_account_left(purse->account, AMB_QUOTA_HOST_BYTES) == 0;
}

bool amb_purse_has_room(const struct amb_purse *purse, uint64_t bytes)
{
    if (!purse->is_past && bytes <= purse->taken - purse->held) {
        return true; /* Nearly always, so nobody asks the account. */
    }
    return amb_account_has_room(purse->account, AMB_QUOTA_HOST_BYTES, bytes,
                                purse->taken - purse->held);
}

/* So much of a second's bytes. Messages may be small: a batch of them at a time. */
#define WINDOWS_A_SECOND 10u
#define PURSE_WINDOW (UINT64_C(64) << 10)

uint64_t amb_purse_window(const struct amb_purse *purse, uint64_t most)
{
    for (const struct amb_account *account = purse->account; account != NULL;
         account = account->above) {
        uint64_t bytes = amb_account_limit_of(account, AMB_QUOTA_IN_BYTES) / WINDOWS_A_SECOND;
        if (amb_account_limit_of(account, AMB_QUOTA_IN_MSGS) != AMB_QUOTA_NONE ||
            bytes < PURSE_WINDOW) {
            bytes = PURSE_WINDOW;
        }
        most = bytes < most ? bytes : most;
    }
    return most;
}

static bool is_rated(const struct amb_account *account)
{
    return amb_account_has_limit(account, AMB_QUOTA_IN_MSGS) ||
           amb_account_has_limit(account, AMB_QUOTA_IN_BYTES);
}

/* Puts all that came on the bill. The row of a rate whose bill is not over; AMB_QUOTA_COUNT: none.
 */
static enum amb_quota late_row(struct amb_purse *purse, int64_t now_ns)
{
    put_on_bill(purse, now_ns);
    if (!purse->is_rated) {
        return AMB_QUOTA_COUNT;
    }
    if (amb_account_is_late(purse->account, AMB_QUOTA_IN_MSGS, now_ns)) {
        return AMB_QUOTA_IN_MSGS;
    }
    return amb_account_is_late(purse->account, AMB_QUOTA_IN_BYTES, now_ns) ? AMB_QUOTA_IN_BYTES
                                                                           : AMB_QUOTA_COUNT;
}

enum amb_quota amb_purse_obstacle(struct amb_purse *purse, uint64_t bytes, int64_t now_ns)
{
    if (purse->is_rated || now_ns - purse->billed_ns >= AMB_PURSE_BILL_NS) {
        purse->billed_ns = now_ns;
        purse->is_rated = is_rated(purse->account);
        purse->is_bounded = amb_account_has_limit(purse->account, AMB_QUOTA_HOST_BYTES);
        set_spare(purse); /* The limit may be another one. */
        if (purse->taken - purse->held > purse->spare) {
            amb_purse_return(purse);
        }
        enum amb_quota late = late_row(purse, now_ns);
        if (late != AMB_QUOTA_COUNT) {
            return late;
        }
    }
    return !purse->is_bounded || amb_purse_has_room(purse, amb_purse_cost(bytes))
               ? AMB_QUOTA_COUNT
               : AMB_QUOTA_HOST_BYTES;
}

/* Tests are put on the bill in pieces: that part of a second's, and TESTS_PIECE at most. */
#define PIECES_A_SECOND 256u
#define TESTS_PIECE 4096u

uint32_t amb_purse_tests(struct amb_purse *purse, uint32_t most, int64_t now_ns)
{
    uint64_t piece = TESTS_PIECE, here = most;
    for (const struct amb_account *account = purse->account; account != NULL;
         account = account->above) {
        uint64_t limit = amb_account_limit_of(account, AMB_QUOTA_FILTER_TESTS);
        uint64_t share = limit / PIECES_A_SECOND;
        piece = share < piece ? share : piece;
        /* A burst's worth, so that a low rate is not left behind by a turn. */
        share = limit / (uint64_t)(AMB_NS_PER_SEC / AMB_QUOTA_BURST_NS) + 1;
        here = share < here ? share : here;
    }
    if (purse->tests > piece || purse->is_sifting_late) {
        bool was_late = purse->is_sifting_late;
        amb_account_bill(purse->account, AMB_QUOTA_FILTER_TESTS, purse->tests, now_ns);
        purse->tests = 0;
        purse->is_sifting_late =
            amb_account_is_late(purse->account, AMB_QUOTA_FILTER_TESTS, now_ns);
        if (purse->is_sifting_late && !was_late) {
            amb_account_note_late(purse->account, AMB_QUOTA_FILTER_TESTS, now_ns);
        }
    }
    return purse->is_sifting_late ? 0 : (uint32_t)here;
}

void amb_purse_note_blocked(struct amb_purse *purse, enum amb_quota row, int64_t now_ns)
{
    if (row == AMB_QUOTA_HOST_BYTES) {
        uint64_t left = amb_account_left(purse->account, row);
        (void)amb_account_refuses(purse->account, row, left + 1);
    } else {
        amb_account_note_late(purse->account, row, now_ns);
    }
}

/* How many more of that row there may be, with what was taken and is not in use. */
static uint64_t room(const struct amb_purse *purse, enum amb_quota row, uint64_t used,
                     uint64_t taken)
{
    uint64_t left = amb_account_left(purse->account, row), here = taken - used;
    return left > AMB_QUOTA_NONE - here ? AMB_QUOTA_NONE : left + here;
}

/* Whole pieces of what is in use are taken, and no more. */
static void settle(struct amb_account *account, enum amb_quota row, uint64_t used, uint64_t *taken)
{
    uint64_t wanted = (used + AMB_PURSE_PIECE - 1) / AMB_PURSE_PIECE * AMB_PURSE_PIECE;
    if (wanted > *taken) {
        amb_account_add(account, row, wanted - *taken);
    } else {
        amb_account_sub(account, row, *taken - wanted);
    }
    *taken = wanted;
}

uint64_t amb_purse_map_room(const struct amb_purse *purse)
{
    return amb_account_has_limit(purse->account, AMB_QUOTA_MAPPED)
               ? room(purse, AMB_QUOTA_MAPPED, purse->mapped, purse->mapped_taken)
               : AMB_QUOTA_NONE;
}

void amb_purse_map_settle(struct amb_purse *purse)
{
    purse->map_spare = spare_of(purse, AMB_QUOTA_MAPPED); /* The limit may be another one. */
    settle(purse->account, AMB_QUOTA_MAPPED, purse->mapped, &purse->mapped_taken);
}

bool amb_purse_may_land(struct amb_purse *purse, uint64_t bytes)
{
    if (room(purse, AMB_QUOTA_GPU_BYTES, purse->gpu, purse->gpu_taken) >= bytes) {
        return true;
    }
    (void)amb_account_refuses(purse->account, AMB_QUOTA_GPU_BYTES, bytes);
    return false;
}

void amb_purse_land(struct amb_purse *purse, uint64_t bytes)
{
    purse->gpu += bytes;
    if (purse->gpu > purse->gpu_taken) {
        settle(purse->account, AMB_QUOTA_GPU_BYTES, purse->gpu, &purse->gpu_taken);
    }
}

void amb_purse_lift(struct amb_purse *purse, uint64_t bytes)
{
    amb_assert(purse->gpu >= bytes);
    purse->gpu -= bytes;
    uint64_t rest = purse->gpu_taken - purse->gpu;
    if (rest > (purse->refs > 0 ? spare_of(purse, AMB_QUOTA_GPU_BYTES) : 0)) {
        settle(purse->account, AMB_QUOTA_GPU_BYTES, purse->gpu, &purse->gpu_taken);
    }
}
