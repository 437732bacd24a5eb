/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Accounts of pairs: a client is charged for those of its subscriptions. The limits are its own,
 * its party's (half of the pairs that others leave), its user's, and that of all. A Subscribe is
 * refused past any of them. Where topics wake, those of the client and of all hold. Where all pairs
 * are in use, one client goes: of the party with the most pairs, the client with the most.
 *
 * Threads: the control thread. Memory: an allocation a client.
 */
#pragma once

#include "broker/control/directory/directory.h"

/* The key of the limit that a quota says (broker/base/account.h). */
extern const char amb_pairs_quota[];

/* With one reference. party: or NULL. NULL: no memory. */
struct amb_pair_account *amb_pair_account_create(void *owner, struct amb_party *party);
void amb_pair_account_unref(struct amb_pair_account **account);
/* The directory ends. */
void amb_pair_accounts_fini(struct amb_directory *directory);
/* Before a subscription of that tenant comes: the key of the limit that its pairs would exceed;
 * NULL: none. */
const char *amb_directory_lacks_pairs(struct amb_directory *directory,
                                      const struct amb_pair_account *account, uint32_t tenant,
                                      const char *pattern, size_t len);
/* More pairs of it, or fewer. NULL: nobody is charged. */
void amb_pair_account_add(struct amb_pair_account *account, int64_t pairs);
/* May the subscription have one more pair? Else sub->over names the limit, and
 * the subscription is listed in directory->over. */
bool amb_pairs_have_room(struct amb_directory *directory, struct amb_dir_sub *sub);
