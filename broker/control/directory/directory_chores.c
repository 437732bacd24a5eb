/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/control/directory/directory_chores.h"

#include "broker/control/directory/directory_accounts.h"
#include "broker/control/directory/directory_connect.h"
#include "broker/control/directory/directory_counts.h"
#include "broker/control/directory/directory_narrowed.h"
#include "broker/control/directory/directory_topic.h"
#include "broker/control/directory/directory_wake.h"

#include <stdlib.h>

#define LOOKS_PER_PAIR 8u /* places that may be looked at in place of making one pair */

/* A subscription with many topics that comes, or that has gone. */
struct amb_dir_chore {
    struct amb_list_node node; /* of directory->chores; in none: it only waits for answers */
    struct amb_directory *directory;
    struct amb_dir_sub *sub; /* the one that comes; NULL: it has gone meanwhile */
    struct amb_dir_sub gone; /* the one that leaves: as it was, with its pairs */
    bool is_leaving;
    uint32_t next;       /* cell, or index of a pair */
    unsigned unanswered; /* orders */
    enum amb_status status;
    struct amb_order *last; /* its answer says that the subscription has come */
};

static void chore_end(struct amb_dir_chore *chore)
{
    amb_list_remove(&chore->node);
    if (chore->unanswered > 0) {
        return; /* Its answers come yet. */
    }
    if (chore->sub != NULL) {
        chore->sub->coming = NULL;
    }
    if (chore->directory->is_over) {
        amb_order_free(chore->last); /* Nobody carries it out any more. */
    } else if (chore->last != NULL) {
        chore->last->status = chore->status;
        amb_order_post(chore->directory->shards[chore->gone.session.shard], chore->last);
    }
    amb_pair_account_unref(&chore->gone.account);
    free(chore->gone.pairs);
    free(chore);
}

static void chore_answered(void *control, struct amb_order *order)
{
    (void)control;
    struct amb_dir_chore *chore = order->context;
    chore->directory->slow_orders--;
    chore->unanswered--;
    if (order->status != AMB_OK && chore->status == AMB_OK && !chore->is_leaving) {
        chore->status = order->status;
    }
    amb_order_free(order);
    if (amb_list_is_empty(&chore->node)) {
        chore_end(chore);
    }
}

static struct amb_dir_chore *chore_begin(struct amb_directory *directory,
                                         const struct amb_dir_sub *sub)
{
    struct amb_dir_chore *chore = calloc(1, sizeof(*chore));
    if (chore != NULL) {
        chore->directory = directory;
        chore->gone.session = sub->session;
        amb_list_push_back(&directory->chores, &chore->node);
    }
    return chore;
}

static void chore_posted(struct amb_dir_chore *chore, unsigned orders)
{
    chore->unanswered += orders;
    chore->directory->slow_orders += orders;
}

/* Topics of one name, in the order in which a reader comes to them. *made: pairs, and publishers
 * that have to be told at once. */
static unsigned come_to(struct amb_directory *directory, struct amb_dir_sub *sub,
                        struct amb_dir_topic *main, amb_order_done_fn done, void *context,
                        unsigned *made)
{
    unsigned posted = 0;
    for (unsigned i = 0; i <= AMB_PRIORITY_LOW; i++) {
        struct amb_dir_topic *topic = amb_directory_kin(main, i);
        if (topic != NULL && topic->wake == AMB_DIR_QUIET) {
            *made += amb_directory_come_quiet(directory, topic, sub);
        } else if (topic != NULL && topic->serial < sub->serial) { /* Else it wakes for this one. */
            posted += amb_directory_connect(directory, topic, sub, done, context);
            amb_directory_count_changed(directory, topic);
            ++*made;
        }
    }
    return posted;
}

/* The next name from *cell on that the pattern matches: its main topic, and *cell is behind it.
 * *looks: how many places may be looked at. NULL: there is none, or that is used up. */
static struct amb_dir_topic *topic_next(const struct amb_directory *directory,
                                        const struct amb_dir_sub *sub, uint32_t *cell,
                                        unsigned *looks)
{
    while ((*cell < directory->cells) && (*looks > 0)) {
        struct amb_dir_topic *topic = directory->by_cell[(*cell)++];
        --*looks;
        if (topic != NULL && topic->main == NULL && topic->tenant == sub->tenant &&
            amb_pattern_matches(sub->pattern, sub->pattern_len, topic->name, topic->name_len) &&
            !amb_dir_sub_leaves_out(sub, topic)) {
            return topic;
        }
    }
    return NULL;
}

/* True: the subscription has seen all topics, or shall see no more. */
static bool come_slice(struct amb_directory *directory, struct amb_dir_sub *sub, uint32_t *next,
                       unsigned budget, amb_order_done_fn done, void *context, unsigned *posted)
{
    unsigned looks = budget * LOOKS_PER_PAIR, made = 0;
    struct amb_dir_topic *topic;
    while (made < budget && sub->over == NULL &&
           (topic = topic_next(directory, sub, next, &looks)) != NULL) {
        *posted += come_to(directory, sub, topic, done, context, &made);
    }
    directory->at_once += made;
    return sub->over != NULL || *next >= directory->cells;
}

/* How many pairs may be made or undone at once: fewer, where this round has had many. */
static unsigned pairs_now(struct amb_directory *directory)
{
    return directory->at_once < AMB_PAIRS_UNDER_WAY ? AMB_PAIRS_NOW : AMB_PAIRS_FEW;
}

unsigned amb_pairs_come(struct amb_directory *directory, struct amb_dir_sub *sub,
                        amb_order_done_fn done, void *context)
{
    unsigned posted = 0;
    uint32_t next = 0;
    bool is_over = come_slice(directory, sub, &next, pairs_now(directory), done, context, &posted);
    if (is_over) {
        return posted;
    }
    struct amb_order *last =
        done == NULL ? NULL : amb_directory_order(&amb_order_nothing, done, context);
    struct amb_dir_chore *chore = done != NULL && last == NULL ? NULL : chore_begin(directory, sub);
    if (chore == NULL) { /* Then all at once. */
        amb_order_free(last);
        while (!come_slice(directory, sub, &next, AMB_PAIRS_NOW, done, context, &posted)) {
        }
        return posted;
    }
    chore->sub = sub;
    chore->next = next;
    chore->last = last;
    sub->coming = chore;
    return posted + (last != NULL ? 1 : 0);
}

/* A subscription goes before all of its pairs are made. */
static void come_cancel(struct amb_dir_sub *sub)
{
    struct amb_dir_chore *chore = sub->coming;
    if (chore != NULL) {
        sub->coming = NULL;
        chore->sub = NULL;
        chore->status = chore->status == AMB_OK ? AMB_ECLOSED : chore->status;
        chore_end(chore);
    }
}

/* True: none is left. */
static bool leave_slice(struct amb_directory *directory, struct amb_dir_sub *sub, uint32_t *next,
                        unsigned budget, amb_order_done_fn done, void *context, unsigned *posted)
{
    for (; *next < sub->pair_count && budget > 0; (*next)++, budget--) {
        struct amb_dir_topic *topic = amb_directory_topic_of(directory, sub->pairs[*next]);
        directory->at_once++;
        amb_pair_account_add(sub->account, -1);
        if (topic != NULL) {
            topic->pairs--;
            directory->pair_count--;
            *posted += amb_directory_disconnect(directory, topic, sub, done, context);
        }
    }
    return *next == sub->pair_count;
}

/* The rest of its pairs is a chore: until they are undone, they are its account's. */
void amb_pairs_leave(struct amb_directory *directory, struct amb_dir_sub *sub)
{
    come_cancel(sub);
    amb_list_remove(&sub->of_account);
    uint32_t next = 0;
    unsigned posted = 0;
    bool is_over = leave_slice(directory, sub, &next, pairs_now(directory), NULL, NULL, &posted);
    struct amb_dir_chore *chore = is_over ? NULL : chore_begin(directory, sub);
    if (chore != NULL) {
        chore->is_leaving = true;
        chore->next = next;
        chore->gone = *sub;
        chore->gone.position = NULL; /* It lies behind the subscription, which goes now. */
        chore->gone.position_len = 0;
        sub->pairs = NULL;
        sub->account = NULL;
    } else if (!is_over) { /* Then all at once. */
        (void)leave_slice(directory, sub, &next, UINT32_MAX, NULL, NULL, &posted);
    }
    amb_pair_account_unref(&sub->account);
    free(sub->pairs);
    sub->pairs = NULL;
    sub->pair_count = sub->pair_size = 0;
}

void amb_directory_work(struct amb_directory *directory)
{
    amb_directory_wake(directory);
    unsigned slices = AMB_PAIRS_SLICES;
    while (slices-- > 0 && directory->slow_orders < AMB_PAIRS_UNDER_WAY &&
           !amb_list_is_empty(&directory->chores)) {
        struct amb_list_node *node = amb_list_pop_front(&directory->chores);
        struct amb_dir_chore *chore = AMB_CONTAINER_OF(node, struct amb_dir_chore, node);
        unsigned posted = 0;
        bool is_over = chore->is_leaving
                           ? leave_slice(directory, &chore->gone, &chore->next, AMB_PAIRS_SLICE,
                                         chore_answered, chore, &posted)
                           : come_slice(directory, chore->sub, &chore->next, AMB_PAIRS_SLICE,
                                        chore_answered, chore, &posted);
        chore_posted(chore, posted);
        if (!is_over) {
            amb_list_push_back(&directory->chores, node);
            continue;
        }
        if (chore->sub != NULL && chore->sub->over != NULL) {
            chore->status = AMB_ELIMIT;
        }
        chore_end(chore);
    }
    amb_directory_count(directory);
}

bool amb_directory_is_busy(const struct amb_directory *directory)
{
    return amb_directory_may_wake(directory) || amb_directory_may_count(directory) ||
           (!amb_list_is_empty(&directory->chores) && directory->slow_orders < AMB_PAIRS_UNDER_WAY);
}

void amb_pairs_fini(struct amb_directory *directory)
{
    struct amb_list_node *node;
    while ((node = amb_list_pop_front(&directory->chores)) != NULL) {
        struct amb_dir_chore *chore = AMB_CONTAINER_OF(node, struct amb_dir_chore, node);
        amb_order_free(chore->last);
        amb_pair_account_unref(&chore->gone.account);
        free(chore->gone.pairs);
        free(chore);
    }
}
