/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/control/directory/directory_counts.h"

#include "broker/control/directory/directory_narrowed.h"
#include "broker/control/directory/directory_topic.h"
#include "broker/shard/shard.h"
#include "broker/worker/orders_session.h"
#include "broker/worker/orders_topic.h"
#include "wire/base/clock.h"

#define COUNT_STEPS 4096u
#define COUNT_LOOKS 1024u            /* at subscriptions that are narrowed */
#define WALK_STEPS (4 * COUNT_STEPS) /* of all counts of a round */
#define WALK_LOOKS 2048u             /* at cells, in a round */
#define WALK_EVERY_NS (250 * AMB_NS_PER_MS)

struct count {
    struct amb_dir_topic *topic;
    uint32_t looks; /* at subscriptions, that may be had yet */
};

/* Subscriptions to the pattern, each: some leave topics out. */
static void count_narrowed(struct amb_pattern *pattern, struct count *count)
{
    AMB_LIST_FOR_EACH (node, &pattern->subs) {
        const struct amb_dir_sub *sub = AMB_CONTAINER_OF(node, struct amb_dir_sub, same);
        if (!amb_dir_sub_leaves_out(sub, count->topic)) {
            count->topic->wild.count++;
            if (sub->may_map) {
                amb_readers_add(&count->topic->wild.readers, sub->user);
            }
        }
    }
}

static bool count_pattern(struct amb_pattern *pattern, void *arg)
{
    struct count *count = arg;
    struct amb_dir_wild *wild = &count->topic->wild;
    if (pattern->narrowed > 0 && pattern->count <= count->looks) {
        count->looks -= pattern->count;
        count_narrowed(pattern, count);
        return true;
    }
    /* Too many are narrowed: until the topic wakes, those that leave it out are counted, too. */
    wild->count += pattern->count;
    amb_readers_merge(&wild->readers, &pattern->readers);
    return true;
}

/* Returns the steps that it took. */
static uint32_t topic_count(struct amb_dir_topic *topic)
{
    const struct amb_patterns *patterns = &topic->directory->patterns;
    if (topic->wild.generation == patterns->generation + 1) {
        return 0;
    }
    uint32_t steps = COUNT_STEPS;
    struct count count = {.topic = topic, .looks = COUNT_LOOKS};
    topic->wild = (struct amb_dir_wild){.generation = patterns->generation + 1};
    topic->wild.is_cut = !amb_patterns_match(patterns, topic->tenant, topic->name, topic->name_len,
                                             &steps, count_pattern, &count);
    return COUNT_STEPS - steps + COUNT_LOOKS - count.looks;
}

uint32_t amb_directory_matched(struct amb_dir_topic *topic)
{
    if (topic->wake == AMB_DIR_AWAKE) {
        return topic->connected;
    }
    (void)topic_count(topic);
    return topic->connected - topic->pairs + topic->wild.count; /* Some may be made already. */
}

bool amb_directory_copies(const struct amb_dir_publisher *publisher)
{
    struct amb_dir_topic *topic = publisher->topic;
    if (!publisher->is_auto || topic == NULL) {
        return false;
    }
    if (amb_readers_have_foreign(&topic->readers, publisher->user)) {
        return true;
    }
    if (topic->wake == AMB_DIR_AWAKE) {
        return false;
    }
    (void)topic_count(topic);
    return topic->wild.is_cut || amb_readers_have_foreign(&topic->wild.readers, publisher->user);
}

/* Telling ------------------------------------------------------------------------------------- */

/* Chores and walks go on when homes have heard what has changed so far. */
static void matched_told(void *control, struct amb_order *order)
{
    (void)control;
    struct amb_directory *directory = order->context;
    directory->slow_orders--;
    amb_order_free(order);
}

static void tell_home(struct amb_directory *directory, const struct amb_dir_topic *topic)
{
    struct amb_order_topic_matched *told =
        amb_directory_order(&amb_order_topic_matched, matched_told, directory);
    if (told != NULL) {
        directory->slow_orders++;
        told->topic = topic->id;
        told->matched = topic->told;
        amb_order_post(directory->shards[topic->home], &told->order);
    }
}

static void tell_publisher(struct amb_directory *directory, struct amb_dir_publisher *publisher)
{
    struct amb_order_publisher_subscribers *told =
        amb_directory_order(&amb_order_publisher_subscribers, NULL, NULL);
    if (told != NULL) {
        told->order.session = publisher->session;
        told->handle = publisher->handle;
        told->count = publisher->topic->told;
        told->copies = publisher->told_copies;
        amb_order_post(directory->shards[publisher->session.shard], &told->order);
    }
}

void amb_directory_tell_topic(struct amb_directory *directory, struct amb_dir_topic *topic)
{
    topic->told = amb_directory_matched(topic);
    amb_list_remove(&topic->of_counts);
    tell_home(directory, topic);
    AMB_LIST_FOR_EACH (node, &topic->publishers) {
        struct amb_dir_publisher *publisher =
            AMB_CONTAINER_OF(node, struct amb_dir_publisher, of_topic);
        publisher->told_copies = amb_directory_copies(publisher);
        tell_publisher(directory, publisher);
    }
}

/* Soon: a client may come or go with a thousand subscriptions to what a thousand publishers have.
 */
void amb_directory_count_changed(struct amb_directory *directory, struct amb_dir_topic *topic)
{
    if (amb_list_is_empty(&topic->of_counts)) {
        amb_list_push_back(&directory->counts_changed, &topic->of_counts);
    }
}

void amb_directory_tell(struct amb_directory *directory)
{
    directory->at_once = 0; /* A round begins, or ends. */
    struct amb_list_node *node;
    while ((node = amb_list_pop_front(&directory->counts_changed)) != NULL) {
        amb_directory_tell_topic(directory,
                                 AMB_CONTAINER_OF(node, struct amb_dir_topic, of_counts));
    }
}

/* Quiet topics -------------------------------------------------------------------------------- */

unsigned amb_directory_come_quiet(struct amb_directory *directory, struct amb_dir_topic *topic,
                                  const struct amb_dir_sub *comes)
{
    bool is_first = topic->told == 0 && topic->publisher_count > 0;
    unsigned told = 0;
    if (!is_first && !comes->may_map) {
        return 0;
    }
    if (is_first) {
        topic->told = 1; /* At least: the walk finds out. */
        tell_home(directory, topic);
    }
    AMB_LIST_FOR_EACH (node, &topic->publishers) {
        struct amb_dir_publisher *publisher =
            AMB_CONTAINER_OF(node, struct amb_dir_publisher, of_topic);
        bool must_copy = publisher->is_auto && !publisher->told_copies && comes->may_map &&
                         !amb_user_is_same(comes->user, publisher->user);
        if (is_first || must_copy) {
            publisher->told_copies = publisher->told_copies || must_copy;
            tell_publisher(directory, publisher);
            told++;
        }
    }
    return told;
}

static bool topic_has_changed(struct amb_dir_topic *topic)
{
    if (amb_directory_matched(topic) != topic->told) {
        return true;
    }
    AMB_LIST_FOR_EACH (node, &topic->publishers) {
        const struct amb_dir_publisher *publisher =
            AMB_CONTAINER_OF(node, struct amb_dir_publisher, of_topic);
        if (publisher->told_copies != amb_directory_copies(publisher)) {
            return true;
        }
    }
    return false;
}

/* Of few topics a walk is over in the round in which it begins. */
static bool count_begin(struct amb_directory *directory)
{
    struct amb_dir_counts *counts = &directory->counts;
    if (counts->generation == directory->patterns.generation ||
        (directory->cells > WALK_LOOKS &&
         directory->now_ns < amb_deadline_ns(counts->began_ns, WALK_EVERY_NS))) {
        return false;
    }
    *counts = (struct amb_dir_counts){
        .generation = directory->patterns.generation, .began_ns = directory->now_ns, .is_on = true};
    return true;
}

bool amb_directory_may_count(const struct amb_directory *directory)
{
    return directory->counts.is_on && directory->slow_orders < AMB_PAIRS_UNDER_WAY;
}

void amb_directory_count(struct amb_directory *directory)
{
    struct amb_dir_counts *counts = &directory->counts;
    if (!counts->is_on && !count_begin(directory)) {
        return;
    }
    uint32_t steps = 0, looks = 0;
    for (; counts->next < directory->cells; counts->next++) {
        if (looks++ == WALK_LOOKS || steps >= WALK_STEPS || !amb_directory_may_count(directory)) {
            return;
        }
        struct amb_dir_topic *topic = directory->by_cell[counts->next];
        if (topic == NULL || topic->wake != AMB_DIR_QUIET) {
            continue;
        }
        steps += topic_count(topic);
        if (topic_has_changed(topic)) {
            amb_directory_tell_topic(directory, topic);
        }
    }
    counts->is_on = false;
}
