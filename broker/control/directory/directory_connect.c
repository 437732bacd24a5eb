/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/control/directory/directory_connect.h"

#include "broker/config/config.h"
#include "broker/control/directory/directory_accounts.h"
#include "broker/control/directory/directory_counts.h"
#include "broker/control/directory/directory_leave.h"
#include "broker/control/directory/directory_pairs.h"
#include "broker/control/directory/directory_topic.h"
#include "broker/shard/shard.h"
#include "broker/topic/begin.h"
#include "broker/worker/orders_topic.h"
#include "wire/codec/position.h"

/* A queue without members holds nobody up. */
static enum amb_slow sub_slow(const struct amb_directory *directory, const struct amb_dir_sub *sub,
                              const struct amb_dir_topic *topic)
{
    enum amb_slow slow = sub->options.slow;
    slow = slow != AMB_SLOW_DEFAULT ? slow : amb_config_topic(directory->config, topic->name)->slow;
    return slow == AMB_SLOW_BLOCK && sub->is_idle ? AMB_SLOW_DROP_OLDEST : slow;
}

/* Where it begins to read that topic. */
static struct amb_begin sub_begin(const struct amb_dir_sub *sub, const struct amb_dir_topic *topic)
{
    struct amb_position_topic at;
    bool is_known =
        sub->position_len > 0 && amb_position_find(sub->position, sub->position_len, topic->name,
                                                   topic->name_len, topic->priority, &at);
    if (!is_known) {
        return sub->begin;
    }
    if (sub->is_foreign || at.id != topic->id) {
        return (struct amb_begin){.start = AMB_START_FIRST, .is_unknown = true};
    }
    return (struct amb_begin){.start = AMB_START_SEQ, .at = at.next, .is_own = true};
}

/* Changes what the topic's home lends to the subscriber's worker; a change upwards attaches the
 * cursor there. False without memory. */
static bool topic_lend(struct amb_directory *directory, struct amb_dir_topic *topic,
                       const struct amb_dir_sub *sub, int change, amb_order_done_fn done,
                       void *context)
{
    struct amb_order_lend *lend = amb_directory_order(&amb_order_lend, done, context);
    if (lend == NULL) {
        return false;
    }
    lend->order.session = sub->session;
    lend->sub = sub->id;
    lend->handle = sub->handle;
    lend->begin = sub_begin(sub, topic);
    lend->topic = topic->id;
    lend->borrower = sub->session.shard;
    lend->subs = change;
    enum amb_slow slow = sub_slow(directory, sub, topic);
    lend->holding = slow == AMB_SLOW_BLOCK ? change : 0;
    lend->spilling = slow == AMB_SLOW_SPILL ? change : 0;
    lend->shadow = topic->on_shard[sub->session.shard];
    amb_order_post(directory->shards[topic->home], &lend->order);
    return true;
}

static bool topic_attach(struct amb_directory *directory, struct amb_dir_topic *topic,
                         const struct amb_dir_sub *sub, amb_order_done_fn done, void *context)
{
    struct amb_order_cursor_attach *attach =
        amb_directory_order(&amb_order_cursor_attach, done, context);
    if (attach == NULL) {
        return false;
    }
    attach->order.session = sub->session;
    attach->sub = sub->id;
    attach->handle = sub->handle;
    attach->topic = topic->id;
    attach->begin = sub_begin(sub, topic);
    amb_order_post(directory->shards[topic->home], &attach->order);
    return true;
}

/* May its client read in place what is published there? */
static bool may_map(const struct amb_dir_sub *sub, const struct amb_dir_topic *topic)
{
    return sub->may_map && amb_trust_group_may_map(topic->group, topic->group->tenant, sub->maps);
}

unsigned amb_directory_connect(struct amb_directory *directory, struct amb_dir_topic *topic,
                               struct amb_dir_sub *sub, amb_order_done_fn done, void *context)
{
    unsigned shard = sub->session.shard;
    if (!sub->is_wild) {
        amb_dir_topic_use(topic); /* However it fails: its name is subscribed to. */
    }
    if (!amb_pairs_have_room(directory, sub) || !amb_pairs_reserve(directory, sub) ||
        amb_dir_topic_introduce(directory, topic, shard) == NULL) {
        return 0;
    }
    bool posted = shard == topic->home ? topic_attach(directory, topic, sub, done, context)
                                       : topic_lend(directory, topic, sub, +1, done, context);
    if (!posted) {
        return 0;
    }
    topic->connected++;
    if (may_map(sub, topic)) {
        amb_readers_add(&topic->readers, sub->user);
    }
    amb_pairs_note(directory, sub, topic);
    return done == NULL ? 0 : 1;
}

unsigned amb_directory_disconnect(struct amb_directory *directory, struct amb_dir_topic *topic,
                                  struct amb_dir_sub *sub, amb_order_done_fn done, void *context)
{
    topic->connected -= topic->connected > 0;
    if (may_map(sub, topic)) {
        amb_readers_remove(&topic->readers, sub->user);
    }
    bool is_lent = sub->session.shard != topic->home;
    bool is_posted = is_lent && topic_lend(directory, topic, sub, -1, done, context);
    amb_directory_count_changed(directory, topic);
    amb_directory_rest(directory, topic);
    return is_posted && done != NULL ? 1 : 0;
}

void amb_directory_recount(struct amb_directory *directory, const struct amb_dir_sub *sub,
                           struct amb_dir_topic *topic, const struct amb_dir_sub *former)
{
    enum amb_slow slow = sub_slow(directory, sub, topic), was = sub_slow(directory, former, topic);
    if (sub->session.shard == topic->home || slow == was) {
        return;
    }
    struct amb_order_recount *recount = amb_directory_order(&amb_order_recount, NULL, NULL);
    if (recount == NULL) {
        return;
    }
    recount->order.session = sub->session;
    recount->sub = sub->id;
    recount->topic = topic->id;
    recount->borrower = sub->session.shard;
    recount->holding = (slow == AMB_SLOW_BLOCK) - (was == AMB_SLOW_BLOCK);
    recount->spilling = (slow == AMB_SLOW_SPILL) - (was == AMB_SLOW_SPILL);
    amb_order_post(directory->shards[topic->home], &recount->order);
}
