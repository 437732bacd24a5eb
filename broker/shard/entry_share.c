/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/shard/entry_share.h"

#include "broker/config/config.h"

#include <stdlib.h>

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

/* How many entries a party or user with `used` of them may have. Up to plenty they are all that
 * others leave. Of the last ones they are so much per cent of that. */
static size_t most_of(const struct amb_shard *shard, size_t used, unsigned percent)
{
    const struct amb_shard_entries *entries = &shard->entries;
    size_t all = entries->pool.used + entries->reserved, others = all > used ? all - used : 0;
    size_t plenty = amb_entries_plenty_max(shard), from = others > plenty ? others : plenty;
    return (size_t)(from - others + amb_share_of(amb_entries_open_max(shard), from, 0, percent));
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

size_t amb_entry_share_left(const struct amb_shard *shard, const struct amb_entry_share *share)
{
    size_t left = SIZE_MAX;
    if (share != NULL) {
        size_t user = share->above->used;
        left = less(most_of(shard, share->used, AMB_PARTY_SHARE), share->used, left);
        left = less(most_of(shard, user, user_percent(shard, share)), user, left);
    }
    return left;
}

size_t amb_entry_share_room(const struct amb_shard *shard, const struct amb_entry_share *share)
{
    size_t room = amb_entries_room(shard), left = amb_entry_share_left(shard, share);
    return left < room ? left : room;
}

/* With batches that come. Windows were granted before, and so this is wider. Up to plenty
 * it may have all that is left, for it cannot keep the windows of all shut alone. */
static size_t most_in_all(const struct amb_shard *shard, size_t used, unsigned percent)
{
    size_t most = most_of(shard, used, percent + (100 - percent) / 2);
    size_t plenty = amb_entries_plenty_max(shard);
    return most > plenty ? most : plenty;
}

static size_t most_of_party(const struct amb_shard *shard, const struct amb_entry_share *share)
{
    return most_in_all(shard, share->used, AMB_PARTY_SHARE);
}

static size_t most_of_user(const struct amb_shard *shard, const struct amb_entry_share *share)
{
    unsigned percent = user_percent(shard, share);
    return percent == 100 ? SIZE_MAX : most_in_all(shard, share->above->used, percent);
}

bool amb_entry_share_is_used_up(const struct amb_shard *shard, const struct amb_entry_claim *claim)
{
    const struct amb_entry_share *share = claim->share;
    if (claim->has_entry) {
        return false;
    }
    if (amb_entries_are_used_up(shard)) {
        return true;
    }
    if (share == NULL) {
        return false;
    }
    return share->used > most_of_party(shard, share) ||
           share->above->used > most_of_user(shard, share);
}

bool amb_entry_share_is_over(const struct amb_shard *shard, const struct amb_entry *entry)
{
    const struct amb_shard_entries *entries = &shard->entries;
    if (entry->party == NULL ||
        entries->pool.used + entries->reserved <= amb_entries_plenty_max(shard)) {
        return false;
    }
    const struct amb_entry_share *share = entry->party->entry_shares->of[shard->index];
    return share != NULL && share->party != NULL &&
           (share->used >= most_of_party(shard, share) ||
            share->above->used >= most_of_user(shard, share));
}
