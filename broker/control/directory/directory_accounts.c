/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/control/directory/directory_accounts.h"

#include "broker/base/party.h"
#include "broker/config/config.h"
#include "broker/control/directory/directory_pairs.h"

#include <stdlib.h>

#define STALE_SHARE 64u  /* of a client's pairs one in so many may be of topics that have gone */
#define EXCESS_SHARE 16u /* of all pairs one in so many may be too many, while somebody goes */

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

void amb_pair_accounts_fini(struct amb_directory *directory)
{
    amb_pair_account_unref(&directory->going);
}

void amb_pair_account_add(struct amb_pair_account *account, int64_t pairs)
{
    if (account != NULL) {
        account->pairs = (uint32_t)(account->pairs + pairs);
        if (account->party != NULL) {
            account->party->pairs = (uint32_t)(account->party->pairs + pairs);
            amb_user_count(account->party->user, AMB_SHARE_PAIRS, pairs);
        }
    }
}

const char amb_pairs_quota[] = "quotas: pairs";

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
        lessen(&left, key, amb_account_left(&user->account, AMB_QUOTA_PAIRS), 0, amb_pairs_quota);
    }
    return left;
}

const char *amb_directory_lacks_pairs(struct amb_directory *directory,
                                      const struct amb_pair_account *account, uint32_t tenant,
                                      const char *pattern, size_t len)
{
    const char *key = NULL;
    uint64_t left = pairs_allowed(directory, account, &key), wanted = 0;
    if (amb_pattern_is_literal(pattern, len) || directory->awake_count <= left) {
        return NULL;
    }
    AMB_LIST_FOR_EACH (node, &directory->topics) {
        const struct amb_dir_topic *topic = AMB_CONTAINER_OF(node, struct amb_dir_topic, node);
        wanted += topic->wake != AMB_DIR_QUIET && topic->tenant == tenant &&
                  amb_pattern_matches(pattern, len, topic->name, topic->name_len);
    }
    return wanted > left ? key : NULL;
}

/* Pairs of topics that have gone are looked for once there may be enough of them. Else each topic
 * that comes would go through all pairs of a client at its limit. */
static bool account_compact(struct amb_directory *directory, struct amb_pair_account *account)
{
    if (account == NULL ||
        directory->pairs_gone - account->looked_at <= account->pairs / STALE_SHARE) {
        return false;
    }
    account->looked_at = directory->pairs_gone;
    AMB_LIST_FOR_EACH (node, &account->subs) {
        amb_pairs_compact(directory, AMB_CONTAINER_OF(node, struct amb_dir_sub, of_account));
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

static bool is_past_quota(const struct amb_pair_account *account)
{
    return account != NULL && account->party != NULL &&
           amb_account_full(&account->party->user->account, AMB_QUOTA_PAIRS, 1) != NULL;
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
    } else if (is_past_quota(account) &&
               (!account_compact(directory, account) || is_past_quota(account))) {
        (void)amb_account_refuses(&account->party->user->account, AMB_QUOTA_PAIRS, 1);
        sub_end(directory, sub, amb_pairs_quota);
    } else if (directory->pair_count >= limits->max_pairs && !somebody_goes(directory, sub)) {
        sub_end(directory, sub, "limits.max_pairs");
    }
    return sub->over == NULL;
}
