/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/control/directory/directory_pairs.h"

#include "broker/base/party.h"
#include "broker/config/config.h"
#include "broker/control/directory/directory_connect.h"
#include "broker/control/directory/directory_counts.h"
#include "broker/control/directory/directory_topic.h"
#include "broker/control/directory/directory_wake.h"
#include "broker/shard/shard.h"
#include "wire/base/assert.h"
#include "wire/base/log.h"

#include <stdlib.h>

#define PAIRS_FIRST 8u
#define STALE_SHARE 64u   /* of a client's pairs one in so many may be of topics that have left */
#define LOOKS_PER_PAIR 8u /* places that may be looked at in place of making one pair */
#define EXCESS_SHARE 16u  /* of all pairs one in so many may be too many, while somebody goes */

/* A subscription with many topics that comes, or that has gone. */
struct amb_dir_chore {
    struct amb_list_node node; /* of directory->chores; in none: it only waits for answers */
    struct amb_directory *directory;
    struct amb_dir_sub *sub; /* the one that comes; NULL: it has gone meanwhile */
    struct amb_dir_sub gone; /* the one that leaves: as it was, with its pairs */
    bool is_leaving;
    uint32_t next; /* slot, or index of a pair */
    unsigned waiting;
    enum amb_status status;
    struct amb_order *last; /* its answer says that the subscription has come */
};

/* Accounts ------------------------------------------------------------------------------------ */

struct amb_pair_account *amb_pair_account_create(void *owner, struct amb_party *party)
{
    struct amb_pair_account *account = calloc(1, sizeof(*account));
    if (account != NULL) {
        account->refs = 1;
        account->owner = owner;
        account->party = amb_party_ref(party);
        amb_list_init(&account->subs);
    }
    return account;
}

void amb_pair_account_unref(struct amb_pair_account **account)
{
    if (*account != NULL && --(*account)->refs == 0) {
        amb_party_unref(&(*account)->party);
        free(*account);
    }
    *account = NULL;
}

/* More pairs of it, or fewer. NULL: nobody is charged. */
static void account_add(struct amb_pair_account *account, int64_t pairs)
{
    if (account != NULL) {
        account->pairs = (uint32_t)(account->pairs + pairs);
        if (account->party != NULL) {
            account->party->pairs = (uint32_t)(account->party->pairs + pairs);
            uint32_t *used = &account->party->user->used[AMB_SHARE_PAIRS];
            *used = (uint32_t)(*used + pairs);
        }
    }
}

/* The rest that a limit leaves, beside the rest that others have left already. */
static void lessen(uint64_t *left, const char **key, uint64_t limit, uint64_t own, const char *name)
{
    uint64_t here = limit > own ? limit - own : 0;
    if (here < *left) {
        *left = here;
        *key = name;
    }
}

/* How many more pairs may be asked for, and the key of the limit that says so. */
static uint64_t pairs_allowed(const struct amb_directory *directory,
                              const struct amb_pair_account *account, const char **key)
{
    const struct amb_config_limits *limits = &directory->config->limits;
    uint64_t left = UINT64_MAX, all = directory->pair_count;
    lessen(&left, key, limits->max_pairs, all, "limits.max_pairs");
    if (account == NULL) {
        return left;
    }
    lessen(&left, key, limits->max_pairs_per_client, account->pairs, "limits.max_pairs_per_client");
    if (account->party != NULL) {
        uint64_t own = account->party->pairs;
        lessen(&left, key, amb_share_of(limits->max_pairs, all, own, AMB_PARTY_SHARE), own,
               "limits.max_pairs: one process, or address, has half of what others leave");
        const struct amb_user *user = account->party->user;
        own = user->used[AMB_SHARE_PAIRS];
        lessen(&left, key, amb_user_share(user, limits->max_pairs, all, own, limits->user_share),
               own, "limits.user_share of limits.max_pairs");
    }
    return left;
}

/* Pairs --------------------------------------------------------------------------------------- */

static void pairs_compact(struct amb_directory *directory, struct amb_dir_sub *sub)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < sub->pair_count; i++) {
        if (amb_directory_topic_of(directory, sub->pairs[i]) != NULL) {
            sub->pairs[kept++] = sub->pairs[i];
        }
    }
    account_add(sub->account, (int64_t)kept - sub->pair_count);
    sub->pair_count = kept;
}

/* Pairs of topics that have left are looked for once there may be enough of them. Else each topic
 * that comes would go through all pairs of a client at its limit. */
static bool account_compact(struct amb_directory *directory, struct amb_pair_account *account)
{
    if (account == NULL ||
        directory->pairs_gone - account->looked_at <= account->pairs / STALE_SHARE) {
        return false;
    }
    account->looked_at = directory->pairs_gone;
    AMB_LIST_FOR_EACH (node, &account->subs) {
        pairs_compact(directory, AMB_CONTAINER_OF(node, struct amb_dir_sub, of_account));
    }
    return true;
}

static void sub_end(struct amb_directory *directory, struct amb_dir_sub *sub, const char *key)
{
    sub->over = key;
    if (amb_list_is_empty(&sub->of_over) && !sub->is_closing) {
        amb_list_push_back(&directory->over, &sub->of_over);
    }
}

/* More of the two: pairs of its party, then its own. */
static bool account_has_more(const struct amb_pair_account *a, const struct amb_pair_account *b)
{
    uint32_t of_a = a->party != NULL ? a->party->pairs : a->pairs;
    uint32_t of_b = b->party != NULL ? b->party->pairs : b->pairs;
    return of_a != of_b ? of_a > of_b : a->pairs > b->pairs;
}

/* All pairs are in use: the client with most of them has to go, not the next one. Returns its
 * account; NULL: nobody's has any. */
static struct amb_pair_account *account_with_most(const struct amb_directory *directory)
{
    struct amb_pair_account *most = NULL;
    AMB_LIST_FOR_EACH (node, &directory->subs) {
        struct amb_pair_account *account =
            AMB_CONTAINER_OF(node, struct amb_dir_sub, node)->account;
        if (account != NULL && account->owner != NULL && !amb_list_is_empty(&account->subs) &&
            (most == NULL || account_has_more(account, most))) {
            most = account;
        }
    }
    return most;
}

/* All pairs are in use. True: somebody else goes, and until then there are some more. */
static bool somebody_goes(struct amb_directory *directory, struct amb_dir_sub *sub)
{
    uint64_t max = directory->config->limits.max_pairs;
    if (directory->going != NULL && directory->going->pairs == 0) {
        amb_pair_account_unref(&directory->going);
    }
    if (directory->going == NULL) {
        struct amb_pair_account *most = account_with_most(directory);
        if (most != NULL && most->pairs > 0) {
            most->refs++;
            directory->going = most;
            sub_end(directory, AMB_CONTAINER_OF(most->subs.next, struct amb_dir_sub, of_account),
                    "limits.max_pairs");
        }
    }
    return directory->going != NULL && directory->going != sub->account &&
           directory->pair_count < max + max / EXCESS_SHARE + 1;
}

bool amb_pairs_have_room(struct amb_directory *directory, struct amb_dir_sub *sub)
{
    const struct amb_config_limits *limits = &directory->config->limits;
    if (sub->over != NULL || !sub->is_wild) {
        return sub->over == NULL;
    }
    struct amb_pair_account *account = sub->account;
    if (account != NULL && account->pairs >= limits->max_pairs_per_client &&
        (!account_compact(directory, account) || account->pairs >= limits->max_pairs_per_client)) {
        sub_end(directory, sub, "limits.max_pairs_per_client");
    } else if (directory->pair_count >= limits->max_pairs && !somebody_goes(directory, sub)) {
        sub_end(directory, sub, "limits.max_pairs");
    }
    return sub->over == NULL;
}

bool amb_pairs_reserve(struct amb_directory *directory, struct amb_dir_sub *sub)
{
    if (!sub->is_wild || sub->pair_count < sub->pair_size) {
        return true;
    }
    pairs_compact(directory, sub);
    if (sub->pair_count <= sub->pair_size / 2 && sub->pair_size > 0) {
        return true;
    }
    uint32_t size = sub->pair_size == 0 ? PAIRS_FIRST : sub->pair_size * 2;
    uint32_t *grown = realloc(sub->pairs, size * sizeof(*grown));
    if (grown == NULL) {
        return sub->pair_count < sub->pair_size;
    }
    sub->pairs = grown;
    sub->pair_size = size;
    return true;
}

void amb_pairs_note(struct amb_directory *directory, struct amb_dir_sub *sub,
                    struct amb_dir_topic *topic)
{
    if (sub->is_wild) {
        sub->pairs[sub->pair_count++] = topic->id;
        topic->pairs++;
        directory->pair_count++;
        account_add(sub->account, 1);
    }
}

void amb_pairs_topic_left(struct amb_directory *directory, struct amb_dir_topic *topic)
{
    directory->by_slot[amb_topic_slot(topic->id)] = NULL;
    amb_assert(directory->pair_count >= topic->pairs);
    directory->pair_count -= topic->pairs;
    directory->pairs_gone += topic->pairs;
    topic->pairs = 0; /* Its subscriptions note that later. */
}

void amb_pairs_each(struct amb_directory *directory, struct amb_dir_sub *sub, amb_pair_fn fn,
                    void *arg)
{
    for (uint32_t i = 0; i < sub->pair_count; i++) {
        struct amb_dir_topic *topic = amb_directory_topic_of(directory, sub->pairs[i]);
        if (topic != NULL) {
            fn(directory, sub, topic, arg);
        }
    }
}

const char *amb_directory_lacks_pairs(struct amb_directory *directory,
                                      const struct amb_pair_account *account, const char *pattern,
                                      size_t len)
{
    const char *key = NULL;
    uint64_t left = pairs_allowed(directory, account, &key), wanted = 0;
    if (amb_pattern_is_literal(pattern, len) || directory->awake_count <= left) {
        return NULL;
    }
    AMB_LIST_FOR_EACH (node, &directory->topics) {
        const struct amb_dir_topic *topic = AMB_CONTAINER_OF(node, struct amb_dir_topic, node);
        wanted += topic->wake != AMB_DIR_QUIET &&
                  amb_pattern_matches(pattern, len, topic->name, topic->name_len);
    }
    return wanted > left ? key : NULL;
}

/* Chores -------------------------------------------------------------------------------------- */

static void chore_end(struct amb_dir_chore *chore)
{
    amb_list_remove(&chore->node);
    if (chore->waiting > 0) {
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
    chore->waiting--;
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
    chore->waiting += orders;
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
            amb_directory_count_due(directory, topic);
            ++*made;
        }
    }
    return posted;
}

/* The next name from *slot on that the pattern matches: its main topic, and *slot is behind it.
 * *looks: how many places may be looked at. NULL: there is none, or that is used up. */
static struct amb_dir_topic *topic_next(const struct amb_directory *directory,
                                        const struct amb_dir_sub *sub, uint32_t *slot,
                                        unsigned *looks)
{
    while ((*slot < directory->slots) && (*looks > 0)) {
        struct amb_dir_topic *topic = directory->by_slot[(*slot)++];
        --*looks;
        if (topic != NULL && topic->main == NULL &&
            amb_pattern_matches(sub->pattern, sub->pattern_len, topic->name, topic->name_len)) {
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
    return sub->over != NULL || *next >= directory->slots;
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
        done == NULL ? NULL : amb_directory_order(amb_order_nothing, done, context);
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
        account_add(sub->account, -1);
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
    amb_pair_account_unref(&directory->going);
    struct amb_list_node *node;
    while ((node = amb_list_pop_front(&directory->chores)) != NULL) {
        struct amb_dir_chore *chore = AMB_CONTAINER_OF(node, struct amb_dir_chore, node);
        amb_order_free(chore->last);
        amb_pair_account_unref(&chore->gone.account);
        free(chore->gone.pairs);
        free(chore);
    }
    free(directory->by_slot);
    directory->by_slot = NULL;
}
