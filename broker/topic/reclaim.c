/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/topic/reclaim.h"

#include "broker/memory/bufpool.h"
#include "broker/memory/limbo.h"
#include "broker/memory/maker.h"
#include "broker/shard/entry.h"
#include "broker/shard/entry_share.h"
#include "broker/shard/shard.h"
#include "broker/topic/topic.h"
#include "broker/topic/trim.h"

#define TRIM_COST 1024u /* a look for free segments counts as so many dropped entries, */
#define EMPTY_CELLS 16u /* ... and so many empty cells of the table of topics as one */
#define HELPS_MAX 64u   /* segments that one need unmaps here */

/* Back at the shard that asked, whose starving publishers are tried again this turn. */
static void relief_came_back(struct amb_mail *mail, void *owner)
{
    struct amb_shard *shard = owner;
    struct amb_relief *relief = AMB_CONTAINER_OF(mail, struct amb_relief, mail);
    (void)atomic_fetch_sub_explicit(&shard->reclaim.coming, relief->given, memory_order_relaxed);
    relief->is_out = false;
    shard->reclaim.relief_at_ns = amb_deadline_ns(shard->now_ns, AMB_RECLAIM_PAUSE_NS);
}

/* Do so many bytes that other shards gave up for this one wait to be unmapped? */
static bool relief_is_coming(const struct amb_shard *shard, uint64_t bytes)
{
    return atomic_load_explicit(&shard->reclaim.coming, memory_order_relaxed) >= bytes;
}

static void spend(uint32_t *budget, uint32_t cost)
{
    if (budget != NULL) {
        *budget -= *budget < cost ? *budget : cost;
    }
}

static bool is_spent(const uint32_t *budget)
{
    return budget != NULL && *budget == 0;
}

/* A private shadow gives messages up where it keeps more than twice its depth. Returns their bytes.
 */
static uint64_t private_shed(struct amb_topic *shadow, uint32_t *budget)
{
    uint64_t kept = shadow->log.bytes;
    if (shadow == shadow->shard->reclaim.spared || kept <= 2 * amb_topic_depth(shadow) ||
        !amb_topic_shed(shadow, budget)) {
        return 0;
    }
    amb_topic_mark(shadow);
    return kept - shadow->log.bytes;
}

/*
 * The same of all private shadows of a topic. Home lends them more than their readers have read,
 * for these spill, or were given their time.
 *
 * There may be thousands, so a look may take several calls, and others may begin meanwhile. Each
 * shadow that a look comes to goes to the end of the list, with the number of the newest look. So
 * the numbers of the list rise, but for new shadows, which have 0. A look is over where the first
 * number is not below its own: it has come to all shadows, or later looks have. New ones are for
 * the next look. *look: its number if the budget is used up and nothing was found, and the next
 * call goes on with it; else 0.
 */
static uint64_t privates_shed(struct amb_topic *topic, uint32_t *budget, uint64_t *look)
{
    struct amb_list_node *all = &topic->privates.all;
    struct amb_shard_reclaim *reclaim = &topic->shard->reclaim;
    uint64_t given = 0;
    if (*look == 0) {
        *look = ++reclaim->looks;
    }
    while (!amb_list_is_empty(all)) {
        struct amb_topic *shadow = AMB_CONTAINER_OF(all->next, struct amb_topic, privates.node);
        if (shadow->privates.look >= *look) {
            break;
        }
        if (is_spent(budget)) {
            *look = given == 0 ? *look : 0;
            return given;
        }
        shadow->privates.look = reclaim->looks;
        amb_list_remove(&shadow->privates.node);
        amb_list_push_back(all, &shadow->privates.node);
        given += private_shed(shadow, budget);
        spend(budget, 1);
    }
    *look = 0;
    return given;
}

static uint64_t segment_bytes(const struct amb_shard *shard)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < shard->memory.pool_count; i++) {
        bytes += shard->memory.pools[i]->segment_bytes;
    }
    return bytes;
}

/* Free segments go, for another shard. The maker unmaps them, for that takes 4 ms for 16 MiB, and
 * then the asker hears of it. Until then they count as coming: else the asker would find no memory
 * and ask again. */
static void relief_trim(struct amb_shard *shard, struct amb_relief *relief)
{
    uint64_t before = segment_bytes(shard);
    for (uint32_t i = 0; i < shard->memory.pool_count; i++) {
        struct amb_bufpool *pool = shard->memory.pools[i];
        pool->is_pressed = relief->is_pressed;
        amb_bufpool_trim_later(pool, 0);
        pool->is_pressed = false;
    }
    uint64_t given = before - segment_bytes(shard);
    relief->given += given;
    (void)atomic_fetch_add_explicit(&relief->asker->reclaim.coming, given, memory_order_relaxed);
}

/* The next topic gives its messages. Returns their bytes. */
static uint64_t relief_shed_next(struct amb_shard *shard)
{
    struct amb_shard_reclaim *reclaim = &shard->reclaim;
    bool is_last = reclaim->relief_last + 1 >= shard->topics.cells;
    uint32_t at = is_last ? 0 : reclaim->relief_last + 1;
    struct amb_topic *topic = shard->topics.at[at];
    uint64_t given = 0;
    if (topic == NULL) {
        spend(&reclaim->relief_budget, at % EMPTY_CELLS == 0);
        reclaim->relief_look = 0;
    } else {
        uint64_t kept = topic->log.bytes;
        if (reclaim->relief_look == 0 && amb_topic_shed(topic, &reclaim->relief_budget)) {
            given = kept - topic->log.bytes;
        }
        given += privates_shed(topic, &reclaim->relief_budget, &reclaim->relief_look);
    }
    if (reclaim->relief_look == 0) {
        reclaim->relief_last = at;
    }
    return given;
}

/* The asker may need a segment, and messages of one topic may free none. So topics give until a
 * segment is free, or until as many bytes are given. If they gave only the bytes that are asked
 * for, the asker would have to ask once for each of thousands of topics. */
static void relief_shed(struct amb_shard *shard, struct amb_relief *relief)
{
    uint32_t *budget = &shard->reclaim.relief_budget;
    uint64_t segment = shard->memory.bufpool.options.segment_bytes;
    uint64_t most = relief->bytes > segment ? relief->bytes : segment;
    uint64_t given = 0, trimmed = 0; /* trimmed: what was given before the last trim */
    bool is_enough = relief_is_coming(relief->asker, relief->bytes);
    for (uint32_t i = 0; i < shard->topics.cells && !is_enough && *budget > 0; i++) {
        uint64_t more = relief_shed_next(shard);
        if (more == 0) { /* Many have nothing. */
            continue;
        }
        given += more;
        if (given - trimmed >= segment) {
            relief_trim(shard, relief);
            spend(budget, TRIM_COST);
            trimmed = given;
        }
        is_enough = given >= most || relief_is_coming(relief->asker, relief->bytes);
    }
    if (given > trimmed) {
        relief_trim(shard, relief);
    }
}

/* Entries are the publisher's worker's, wherever the log is that has them. So messages go until a
 * segment's bytes of them are given. */
static void relief_shed_entries(struct amb_shard *shard)
{
    uint64_t segment = shard->memory.bufpool.options.segment_bytes, given = 0;
    for (uint32_t i = 0; i < shard->topics.cells && given < segment; i++) {
        if (shard->reclaim.relief_budget == 0) {
            return;
        }
        given += relief_shed_next(shard);
    }
}

/* At a shard that is asked for memory: free segments first, and messages only if those are not
 * enough. Nothing, if other shards have given enough meanwhile. If entries are asked for, messages.
 */
static void relief_asked(struct amb_mail *mail, void *owner)
{
    struct amb_shard *shard = owner;
    struct amb_relief *relief = AMB_CONTAINER_OF(mail, struct amb_relief, mail);
    if (relief->is_of_entries) {
        (void)shard->reclaim.drop_kept(shard);
        relief_shed_entries(shard);
    } else if (!relief_is_coming(relief->asker, relief->bytes)) {
        (void)shard->reclaim.drop_kept(shard);
        relief_trim(shard, relief);
        relief_shed(shard, relief);
    }
    struct amb_inbox *home = &relief->asker->inbox;
    if (relief->given > 0 && shard->memory.maker != NULL) {
        relief->after = (struct amb_unmaking){.mail = mail, .to = home, .fn = relief_came_back};
        amb_maker_after(shard->memory.maker, &relief->after);
    } else {
        amb_mail_post(home, mail, relief_came_back);
    }
}

static void reclaim_ask(struct amb_shard *shard, uint64_t bytes, bool is_of_entries)
{
    if (shard->now_ns < shard->reclaim.relief_at_ns ||
        (!is_of_entries && relief_is_coming(shard, bytes))) {
        return;
    }
    for (unsigned i = 0; i < shard->peer_count; i++) {
        struct amb_relief *relief = &shard->reclaim.relief[i];
        if (i == shard->index || relief->is_out) {
            continue;
        }
        relief->asker = shard;
        relief->bytes = bytes;
        relief->is_of_entries = is_of_entries;
        relief->given = 0;
        relief->is_pressed = shard->windows.is_pressed;
        relief->is_out = true;
        amb_mail_post(&shard->peers[i]->inbox, &relief->mail, relief_asked);
    }
}

/* The wish: a buffer, or bytes to grant. */
struct reclaim {
    struct amb_bufpool *pool; /* of the shard: where */
    uint64_t len;
    struct amb_buf *out;                 /* NULL: bytes */
    bool is_granted;                     /* the buffer is for what was reserved */
    const struct amb_entry_claim *claim; /* NULL: nobody's */
    bool wide;                           /* of bytes: amb_bufpool_reserve */
    bool may_wait; /* a caller that wants it comes again: a turn's work is enough */
};

/* Entries lie in the heap, beside the budget, and the smallest message has one: they are bounded
 * too. A wish that may wait needs room in its party's share. Another buffer needs an entry: one
 * that is reserved for it, or one that nobody has reserved and that its party's share allows. */
static bool shard_lacks_entries(const struct amb_shard *shard, const struct reclaim *what)
{
    static const struct amb_entry_claim nobodys;
    const struct amb_entry_claim *claim = what->claim == NULL ? &nobodys : what->claim;
    return what->may_wait ? amb_entry_share_room(shard, claim->share) == 0
                          : amb_entry_share_is_used_up(shard, claim);
}

/* OK, ENOMEM, ELIMIT; of what may wait also EAGAIN: a segment is being made elsewhere. Here that
 * would take milliseconds, and for the largest messages tens of them. */
static enum amb_status reclaim_try(struct amb_shard *shard, const struct reclaim *what)
{
    struct amb_bufpool *pool = what->pool;
    if (shard_lacks_entries(shard, what)) {
        return AMB_ENOMEM;
    }
    if (what->out != NULL) {
        return what->is_granted ? amb_bufpool_alloc_granted(pool, what->len, what->out)
               : what->may_wait ? amb_bufpool_alloc_later(pool, what->len, what->out)
                                : amb_bufpool_alloc(pool, what->len, what->out);
    }
    if (amb_bufpool_reserve(pool, what->len, what->wide)) {
        return AMB_OK;
    }
    enum amb_status status = amb_bufpool_more(pool);
    return status == AMB_OK && !amb_bufpool_reserve(pool, what->len, what->wide) ? AMB_ENOMEM
                                                                                 : status;
}

/* A caller that looks for bytes wants segments of this pool with free room: free ones stay. Free
 * memory of other groups is of use to nobody here. */
static void reclaim_trim(struct amb_shard *shard, const struct reclaim *what)
{
    for (uint32_t i = 0; i < shard->memory.pool_count; i++) {
        if (shard->memory.pools[i] != what->pool) {
            amb_bufpool_trim(shard->memory.pools[i], 0);
        }
    }
    amb_bufpool_trim(what->pool, what->out != NULL ? 0 : UINT32_MAX);
}

/* One topic gives messages up, of its own log or of its private shadows. Its own log has had its
 * turn where a look at the shadows goes on. False: it gave nothing. */
static bool topic_shed_some(struct amb_topic *topic, uint32_t *budget, uint64_t *look)
{
    return (*look == 0 && amb_topic_shed(topic, budget)) || privates_shed(topic, budget, look) != 0;
}

/* The messages that only slow readers of one topic want. is_through: it has no more. */
static enum amb_status reclaim_shed_topic(struct amb_shard *shard, const struct reclaim *what,
                                          struct amb_topic *topic, uint32_t *budget, uint64_t *look,
                                          bool *is_through)
{
    enum amb_status status = AMB_ENOMEM;
    *is_through = false;
    while (status == AMB_ENOMEM && !is_spent(budget)) {
        if (!topic_shed_some(topic, budget, look)) {
            *is_through = *look == 0;
            break;
        }
        if (!shard_lacks_entries(shard, what)) {
            reclaim_trim(shard, what);
            spend(budget, TRIM_COST);
        }
        status = reclaim_try(shard, what);
    }
    return status;
}

/* The same of all topics, one after the other, until it is enough. */
static enum amb_status reclaim_shed_all(struct amb_shard *shard, const struct reclaim *what)
{
    enum amb_status status = AMB_ENOMEM;
    for (uint32_t i = 0; i < shard->topics.cells && status == AMB_ENOMEM; i++) {
        struct amb_topic *topic = shard->topics.at[i];
        uint64_t look = 0;
        bool is_through;
        if (topic != NULL && topic != shard->reclaim.spared) {
            status = reclaim_shed_topic(shard, what, topic, NULL, &look, &is_through);
        }
    }
    return status;
}

/* As far as a turn goes: EAGAIN, and the walk goes on in the next one, with the same topic. */
static enum amb_status reclaim_shed_some(struct amb_shard *shard, const struct reclaim *what)
{
    struct amb_shard_reclaim *reclaim = &shard->reclaim;
    enum amb_status status = AMB_ENOMEM;
    while (reclaim->shed_walked < shard->topics.cells && status == AMB_ENOMEM) {
        if (reclaim->shed_budget == 0) {
            reclaim->shed_goes_on = true;
            return AMB_EAGAIN;
        }
        uint32_t at = reclaim->shed_next < shard->topics.cells ? reclaim->shed_next : 0;
        struct amb_topic *topic = shard->topics.at[at];
        bool is_through = true;
        if (topic == NULL) {
            spend(&reclaim->shed_budget, at % EMPTY_CELLS == 0);
        } else if (topic != reclaim->spared) {
            status = reclaim_shed_topic(shard, what, topic, &reclaim->shed_budget,
                                        &reclaim->shed_look, &is_through);
        }
        if (is_through || status != AMB_ENOMEM) {
            reclaim->shed_look = 0;
            reclaim->shed_next = at + 1;
            reclaim->shed_walked++;
        }
    }
    reclaim->shed_walked = 0;
    return status;
}

static enum amb_status reclaim_shed(struct amb_shard *shard, const struct reclaim *what)
{
    return what->may_wait ? reclaim_shed_some(shard, what) : reclaim_shed_all(shard, what);
}

/* Is memory on its way, so that nothing is to be given up for it? Readers may be unmapping it, for
 * which a granted batch must not wait; or the maker is. Neither brings entries. */
static bool reclaim_is_coming(const struct amb_shard *shard, const struct reclaim *what)
{
    if (shard_lacks_entries(shard, what)) {
        return false;
    }
    return (!what->is_granted &&
            amb_limbo_may_give(shard->memory.bufpool.options.budget, what->len, shard->now_ns)) ||
           (what->may_wait && relief_is_coming(shard, amb_bufpool_charge(what->pool, what->len)));
}

/* Segments that wait for the maker are nobody's memory. For what cannot wait they are unmapped
 * here, one after the other. */
static enum amb_status reclaim_help(struct amb_shard *shard, const struct reclaim *what)
{
    enum amb_status status = AMB_ENOMEM;
    bool is_needed = !what->may_wait && !shard_lacks_entries(shard, what);
    for (unsigned i = 0; is_needed && i < HELPS_MAX && amb_maker_help(shard->memory.maker); i++) {
        status = reclaim_try(shard, what);
        is_needed = status == AMB_ENOMEM;
    }
    return status;
}

static enum amb_status reclaim(struct amb_shard *shard, const struct reclaim *what)
{
    enum amb_status status = reclaim_try(shard, what);
    if (status == AMB_ENOMEM) {
        status = reclaim_help(shard, what);
    }
    if (status != AMB_ENOMEM) {
        return status;
    }
    bool may_trim = !what->may_wait || shard->reclaim.trim_budget > 0;
    if (may_trim && !shard_lacks_entries(shard, what)) {
        shard->reclaim.trim_budget -= what->may_wait;
        uint64_t before = segment_bytes(shard);
        reclaim_trim(shard, what);
        if (segment_bytes(shard) < before) {
            status = reclaim_try(shard, what);
        }
    }
    if (status == AMB_ENOMEM && reclaim_is_coming(shard, what)) {
        return AMB_ENOMEM;
    }
    if (status == AMB_ENOMEM && shard->reclaim.drop_kept(shard)) {
        reclaim_trim(shard, what);
        status = reclaim_try(shard, what);
    }
    /* A walk that found nothing is not done again at once: there may be 10,000 topics. */
    if (status == AMB_ENOMEM && shard->now_ns >= shard->reclaim.shed_at_ns) {
        status = reclaim_shed(shard, what);
        if (status == AMB_EAGAIN) { /* The walk is not over, or a segment is being made. */
            return status;
        }
        if (status == AMB_ENOMEM &&
            shard->reclaim.spared == NULL) { /* Else there may be something in that. */
            shard->reclaim.shed_at_ns = amb_deadline_ns(shard->now_ns, AMB_RECLAIM_PAUSE_NS / 5);
        }
    }
    if (status == AMB_ENOMEM) {
        reclaim_ask(shard, amb_bufpool_charge(what->pool, what->len),
                    shard_lacks_entries(shard, what));
    }
    return status;
}

enum amb_status amb_reclaim_alloc(struct amb_shard *shard, struct amb_bufpool *pool, uint64_t len,
                                  struct amb_buf *out)
{
    return reclaim(shard, &(struct reclaim){.pool = pool, .len = len, .out = out});
}

enum amb_status amb_reclaim_alloc_some(struct amb_shard *shard, struct amb_bufpool *pool,
                                       uint64_t len, const struct amb_entry_claim *claim,
                                       struct amb_buf *out)
{
    return reclaim(
        shard,
        &(struct reclaim){.pool = pool, .len = len, .out = out, .may_wait = true, .claim = claim});
}

enum amb_status amb_reclaim_alloc_granted(struct amb_shard *shard, struct amb_bufpool *pool,
                                          uint64_t len, const struct amb_entry_claim *claim,
                                          struct amb_buf *out)
{
    return reclaim(shard,
                   &(struct reclaim){
                       .pool = pool, .len = len, .out = out, .is_granted = true, .claim = claim});
}

enum amb_status amb_reclaim_alloc_short(struct amb_shard *shard, struct amb_bufpool *pool,
                                        uint64_t len, const struct amb_entry_claim *claim,
                                        struct amb_buf *out)
{
    return reclaim(shard, &(struct reclaim){.pool = pool, .len = len, .out = out, .claim = claim});
}

bool amb_reclaim_reserve(struct amb_shard *shard, struct amb_bufpool *pool, uint64_t bytes,
                         bool wide, const struct amb_entry_claim *claim)
{
    const struct reclaim what = {
        .pool = pool, .len = bytes, .wide = wide, .may_wait = true, .claim = claim};
    return reclaim(shard, &what) == AMB_OK;
}

bool amb_reclaim_lease(struct amb_shard *shard, uint64_t bytes, bool *is_coming)
{
    struct amb_membudget *budget = shard->memory.bufpool.options.budget;
    *is_coming = false;
    if (amb_membudget_take_lease(budget, bytes)) {
        return true;
    }
    (void)shard->reclaim.drop_kept(shard);
    /* To unmap a segment takes milliseconds, and no message waits for this. */
    uint64_t before = segment_bytes(shard);
    for (uint32_t i = 0; i < shard->memory.pool_count; i++) {
        amb_bufpool_trim_later(shard->memory.pools[i], 0);
    }
    if (amb_membudget_take_lease(budget, bytes)) {
        return true;
    }
    uint64_t coming = before - segment_bytes(shard);
    *is_coming = coming > 0;
    if (coming < bytes) {
        reclaim_ask(shard, bytes, false);
    }
    return false;
}
