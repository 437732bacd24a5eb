/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/topic/reclaim.h"

#include "broker/memory/bufpool.h"
#include "broker/memory/limbo.h"
#include "broker/shard/entry.h"
#include "broker/shard/shard.h"
#include "broker/topic/topic.h"
#include "broker/topic/trim.h"

#define TRIM_COST 1024u /* a look for free segments counts as so many dropped entries */

/* Back at the shard that asked, whose starving publishers are tried again this turn. */
static void relief_came_back(struct amb_mail *mail, void *owner)
{
    struct amb_shard *shard = owner;
    AMB_CONTAINER_OF(mail, struct amb_relief, mail)->is_out = false;
    shard->reclaim.relief_at_ns = amb_deadline_ns(shard->now_ns, AMB_RECLAIM_PAUSE_NS);
}

/* The same of its private shadows, those that home lends more to than their readers have read:
 * readers that spill, or were given their time. Returns the bytes. */
static uint64_t privates_shed(struct amb_topic *topic, uint32_t *budget)
{
    uint64_t given = 0;
    AMB_LIST_FOR_EACH (node, &topic->privates.all) {
        struct amb_topic *shadow = AMB_CONTAINER_OF(node, struct amb_topic, privates.node);
        uint64_t kept = shadow->log.bytes;
        if (shadow != shadow->shard->reclaim.spared && kept > 2 * amb_topic_depth(shadow) &&
            amb_topic_shed(shadow, budget)) {
            given += kept - shadow->log.bytes;
            amb_topic_mark(shadow);
        }
    }
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

/* Unmaps free segments for another shard, before that one hears of it. Were it left to the maker,
 * the asker would find no memory yet, ask again, and cost other messages. 16 MiB take 4 ms. */
static void relief_trim(struct amb_shard *shard, bool is_pressed)
{
    for (uint32_t i = 0; i < shard->memory.pool_count; i++) {
        struct amb_bufpool *pool = shard->memory.pools[i];
        pool->is_pressed = is_pressed;
        amb_bufpool_trim(pool, 0);
        pool->is_pressed = false;
    }
}

/* The next topic gives its messages. Returns their bytes. */
static uint64_t relief_shed_next(struct amb_shard *shard)
{
    struct amb_shard_reclaim *reclaim = &shard->reclaim;
    bool is_last = reclaim->relief_last + 1 >= shard->topics.cells;
    reclaim->relief_last = is_last ? 0 : reclaim->relief_last + 1;
    struct amb_topic *topic = shard->topics.at[reclaim->relief_last];
    if (topic == NULL) {
        return 0;
    }
    uint64_t given = 0, kept = topic->log.bytes;
    if (amb_topic_shed(topic, &reclaim->relief_budget)) {
        given = kept - topic->log.bytes;
    }
    return given + privates_shed(topic, &reclaim->relief_budget);
}

/* The asker may need a segment, and messages of one topic may free none. So topics give until a
 * segment is free, or until as many bytes are given. If they gave only the bytes that are asked
 * for, the asker would have to ask once for each of thousands of topics. before: segment_bytes
 * before anything was given. */
static void relief_shed(struct amb_shard *shard, const struct amb_relief *relief, uint64_t before)
{
    uint32_t *budget = &shard->reclaim.relief_budget;
    uint64_t segment = shard->memory.bufpool.options.segment_bytes;
    uint64_t most = relief->bytes > segment ? relief->bytes : segment;
    uint64_t given = 0, trimmed = 0; /* trimmed: what was given before the last trim */
    bool is_enough = before - segment_bytes(shard) >= relief->bytes;
    for (uint32_t i = 0; i < shard->topics.cells && !is_enough && *budget > 0; i++) {
        uint64_t more = relief_shed_next(shard);
        if (more == 0) { /* Many have nothing. */
            continue;
        }
        given += more;
        if (given - trimmed >= segment) {
            relief_trim(shard, relief->is_pressed);
            *budget -= *budget < TRIM_COST ? *budget : TRIM_COST;
            trimmed = given;
        }
        is_enough = given >= most || before - segment_bytes(shard) >= relief->bytes;
    }
    if (given > trimmed) {
        relief_trim(shard, relief->is_pressed);
    }
}

/* At another shard: free segments first, and messages only if those are not enough. */
static void relief_asked(struct amb_mail *mail, void *owner)
{
    struct amb_shard *shard = owner;
    struct amb_relief *relief = AMB_CONTAINER_OF(mail, struct amb_relief, mail);
    uint64_t before = segment_bytes(shard);
    (void)shard->reclaim.drop_kept(shard);
    relief_trim(shard, relief->is_pressed);
    relief_shed(shard, relief, before);
    amb_mail_post(&relief->asker->inbox, mail, relief_came_back);
}

static void reclaim_ask(struct amb_shard *shard, uint64_t bytes)
{
    if (shard->now_ns < shard->reclaim.relief_at_ns) {
        return;
    }
    for (unsigned i = 0; i < shard->peer_count; i++) {
        struct amb_relief *relief = &shard->reclaim.relief[i];
        if (i == shard->index || relief->is_out) {
            continue;
        }
        relief->asker = shard;
        relief->bytes = bytes;
        relief->is_pressed = shard->windows.is_pressed;
        relief->is_out = true;
        amb_mail_post(&shard->peers[i]->inbox, &relief->mail, relief_asked);
    }
}

/* The wish: a buffer, or bytes to grant. */
struct reclaim {
    struct amb_bufpool *pool; /* of the shard: where */
    uint64_t len;
    struct amb_buf *out; /* NULL: bytes */
    bool is_granted;     /* the buffer is for what was reserved */
    bool has_entry;      /* its entry was reserved */
    bool wide;           /* of bytes: amb_bufpool_reserve */
    bool may_wait;       /* a caller that wants it comes again: a turn's work is enough */
};

/* Entries lie in the heap, beside the budget, and the smallest message has one: they are bounded
 * too. The last quarter is for what was granted. */
static bool shard_lacks_entries(const struct amb_shard *shard, const struct reclaim *what)
{
    if (what->out == NULL) {
        return shard->entries.pool.used > shard->entries.max / 4 * 3;
    }
    return what->may_wait ? amb_entries_room(shard) == 0
                          : !what->has_entry && amb_entries_are_used_up(shard);
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

/* The messages that only slow readers of one topic want. */
static enum amb_status reclaim_shed_topic(struct amb_shard *shard, const struct reclaim *what,
                                          struct amb_topic *topic, uint32_t *budget)
{
    enum amb_status status = AMB_ENOMEM;
    while (status == AMB_ENOMEM &&
           (amb_topic_shed(topic, budget) || privates_shed(topic, budget) != 0)) {
        if (!shard_lacks_entries(shard, what)) {
            reclaim_trim(shard, what);
            if (budget != NULL) {
                *budget -= *budget < TRIM_COST ? *budget : TRIM_COST;
            }
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
        if (topic != NULL && topic != shard->reclaim.spared) {
            status = reclaim_shed_topic(shard, what, topic, NULL);
        }
    }
    return status;
}

/* As far as a turn goes: EAGAIN, and the walk goes on in the next one, with the same topic. */
static enum amb_status reclaim_shed_some(struct amb_shard *shard, const struct reclaim *what)
{
    enum amb_status status = AMB_ENOMEM;
    while (shard->reclaim.shed_walked < shard->topics.cells && status == AMB_ENOMEM) {
        uint32_t at = shard->reclaim.shed_next < shard->topics.cells ? shard->reclaim.shed_next : 0;
        struct amb_topic *topic = shard->topics.at[at];
        if (topic != NULL && topic != shard->reclaim.spared) {
            status = reclaim_shed_topic(shard, what, topic, &shard->reclaim.shed_budget);
        }
        if (status == AMB_ENOMEM && shard->reclaim.shed_budget == 0) {
            shard->reclaim.shed_goes_on = true;
            return AMB_EAGAIN;
        }
        shard->reclaim.shed_next = at + 1;
        shard->reclaim.shed_walked++;
    }
    shard->reclaim.shed_walked = 0;
    return status;
}

static enum amb_status reclaim_shed(struct amb_shard *shard, const struct reclaim *what)
{
    return what->may_wait ? reclaim_shed_some(shard, what) : reclaim_shed_all(shard, what);
}

static enum amb_status reclaim(struct amb_shard *shard, const struct reclaim *what)
{
    enum amb_status status = reclaim_try(shard, what);
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
    /* Unmapping gives back segments, not entries; and a granted batch must not wait. */
    if (status == AMB_ENOMEM && !what->is_granted && !shard_lacks_entries(shard, what) &&
        amb_limbo_may_give(shard->memory.bufpool.options.budget, what->len, shard->now_ns)) {
        return AMB_ENOMEM; /* Readers are unmapping it just now: nothing is given up for that. */
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
    if (status == AMB_ENOMEM && !shard_lacks_entries(shard, what)) {
        reclaim_ask(shard, amb_bufpool_charge(what->pool, what->len));
    }
    return status;
}

enum amb_status amb_reclaim_alloc(struct amb_shard *shard, struct amb_bufpool *pool, uint64_t len,
                                  struct amb_buf *out)
{
    return reclaim(shard, &(struct reclaim){.pool = pool, .len = len, .out = out});
}

enum amb_status amb_reclaim_alloc_some(struct amb_shard *shard, struct amb_bufpool *pool,
                                       uint64_t len, struct amb_buf *out)
{
    return reclaim(shard,
                   &(struct reclaim){.pool = pool, .len = len, .out = out, .may_wait = true});
}

enum amb_status amb_reclaim_alloc_granted(struct amb_shard *shard, struct amb_bufpool *pool,
                                          uint64_t len, bool has_entry, struct amb_buf *out)
{
    return reclaim(
        shard,
        &(struct reclaim){
            .pool = pool, .len = len, .out = out, .is_granted = true, .has_entry = has_entry});
}

enum amb_status amb_reclaim_alloc_short(struct amb_shard *shard, struct amb_bufpool *pool,
                                        uint64_t len, bool has_entry, struct amb_buf *out)
{
    return reclaim(shard,
                   &(struct reclaim){.pool = pool, .len = len, .out = out, .has_entry = has_entry});
}

bool amb_reclaim_reserve(struct amb_shard *shard, struct amb_bufpool *pool, uint64_t bytes,
                         bool wide)
{
    const struct reclaim what = {.pool = pool, .len = bytes, .wide = wide, .may_wait = true};
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
    *is_coming = segment_bytes(shard) < before;
    reclaim_ask(shard, bytes);
    return false;
}
