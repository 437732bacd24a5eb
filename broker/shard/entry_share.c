/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/shard/entry_share.h"

#include "broker/config/config.h"

#include <stdlib.h>

/* Parts of all entries of a worker: */
#define PARTS 64u
#define PLENTY 44u      /* while fewer are in use or reserved, nobody has a share */
#define OPEN 52u        /* the last that windows open for; of parties with few there are more */
#define FEW_OF_PARTY 1u /* a party has few, */
#define FEW_OF_USER 4u  /* ... and a user */

/* So many parts may be in use or reserved ... */
struct marks {
    unsigned windows; /* where its windows open, */
    unsigned batches; /* ... and where its batches come in without a reserved entry */
};
/* The one after the other has what those before it leave. */
static const struct marks nobodys = {OPEN, PARTS}, many = {OPEN, 60}, few_of_many = {61, 62},
                          few = {63, PARTS};

static struct amb_entry_share *share_find(const struct amb_shard *shard,
                                          struct amb_entry_shares *shares)
{
    amb_assert(shard->index < shares->count);
    struct amb_entry_share **share = &shares->of[shard->index];
    if (*share == NULL) {
        *share = calloc(1, sizeof(**share));
    }
    return *share;
}

static struct amb_entry_share *share_of(const struct amb_shard *shard, struct amb_party *party)
{
    struct amb_entry_share *share = share_find(shard, party->entry_shares);
    if (share == NULL || share->party != NULL) {
        return share;
    }
    share->above = share_find(shard, party->user->entry_shares);
    if (share->above == NULL) {
        return NULL;
    }
    share->party = amb_party_ref(party);
    return share;
}

struct amb_entry_share *amb_entry_share_open(struct amb_shard *shard, struct amb_party *party)
{
    struct amb_entry_share *share = share_of(shard, party);
    if (share != NULL) {
        share->sessions++;
    }
    return share;
}

/* The share itself may be freed with the party. */
void amb_entry_share_let_go(struct amb_entry_share *share)
{
    amb_assert(share->used == 0 && share->sessions == 0);
    amb_party_unref(&share->party);
}

void amb_entry_share_close(struct amb_entry_share **ref)
{
    struct amb_entry_share *share = *ref;
    *ref = NULL;
    if (share != NULL && --share->sessions == 0 && share->used == 0) {
        amb_entry_share_let_go(share);
    }
}

void amb_entry_share_take_copy(struct amb_entry *copy, const struct amb_entry *of)
{
    struct amb_entry_share *share = of->party == NULL ? NULL : share_of(copy->home, of->party);
    amb_entry_share_take(share, copy);
}

static size_t part_of(const struct amb_shard *shard)
{
    return shard->entries.max / PARTS;
}

static size_t in_all(const struct amb_shard *shard)
{
    return shard->entries.pool.used + shard->entries.reserved;
}

/* How many entries a party or user with `used` of them may have. Up to plenty they are all that
 * others leave. Of the last ones they are so much per cent of that. */
static size_t most_of(const struct amb_shard *shard, size_t used, unsigned percent)
{
    size_t all = in_all(shard), others = all > used ? all - used : 0;
    size_t plenty = part_of(shard) * PLENTY, from = others > plenty ? others : plenty;
    return (size_t)(from - others + amb_share_of(part_of(shard) * OPEN, from, 0, percent));
}

static unsigned user_percent(const struct amb_shard *shard, const struct amb_entry_share *share)
{
    return share->party->user->is_free ? 100 : shard->limits->user_share;
}

/* The rest of `most`, or `left` if that is less. */
static size_t less(size_t most, size_t used, size_t left)
{
    size_t rest = used < most ? most - used : 0;
    return rest < left ? rest : left;
}

static struct marks marks_of(const struct amb_shard *shard, const struct amb_entry_share *share)
{
    size_t part = part_of(shard);
    if (share == NULL) {
        return nobodys;
    }
    if (share->used > part * FEW_OF_PARTY) {
        return many;
    }
    bool is_of_many = !share->party->user->is_free && share->above->used > part * FEW_OF_USER;
    return is_of_many ? few_of_many : few;
}

size_t amb_entry_share_left(const struct amb_shard *shard, const struct amb_entry_share *share)
{
    size_t left = SIZE_MAX;
    if (share != NULL) {
        size_t least = less(part_of(shard) * FEW_OF_PARTY, share->used, SIZE_MAX);
        size_t user = share->above->used;
        left = less(most_of(shard, share->used, AMB_PARTY_SHARE), share->used, left);
        left = less(most_of(shard, user, user_percent(shard, share)), user, left);
        left = left > least ? left : least;
    }
    return left;
}

size_t amb_entry_share_room(const struct amb_shard *shard, const struct amb_entry_share *share)
{
    size_t most = part_of(shard) * marks_of(shard, share).windows;
    return less(most, in_all(shard), amb_entry_share_left(shard, share));
}

bool amb_entry_share_is_used_up(const struct amb_shard *shard, const struct amb_entry_claim *claim)
{
    if (claim->has_entry) {
        return false;
    }
    unsigned batches = marks_of(shard, claim->share).batches;
    return amb_entries_are_used_up(shard) ||
           (batches < PARTS && in_all(shard) > part_of(shard) * batches);
}

bool amb_entry_shares_are_idle(const struct amb_shard *shard)
{
    return in_all(shard) <= part_of(shard) * PLENTY;
}

bool amb_entry_share_is_over(const struct amb_shard *shard, const struct amb_entry *entry)
{
    if (entry->party == NULL || amb_entry_shares_are_idle(shard)) {
        return false;
    }
    const struct amb_entry_share *share = entry->party->entry_shares->of[shard->index];
    return share != NULL && share->party != NULL && amb_entry_share_left(shard, share) == 0;
}
