/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/control/directory/identity.h"

#include "broker/base/heap_account.h"
#include "broker/base/party.h"
#include "wire/base/assert.h"
#include "wire/base/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Names that are looked at for one that nobody need be charged for any more. */
#define LAPSE_LOOKS 64u

#define IDENTITY_HEAP ((int64_t)(sizeof(struct amb_identity) + AMB_HEAP_OVERHEAD))

enum amb_status amb_identities_init(struct amb_identities *identities)
{
    memset(identities, 0, sizeof(*identities));
    amb_list_init(&identities->all);
    amb_list_init(&identities->lapsed);
    return amb_map_create(&identities->by_key);
}

static void uncharge(struct amb_identities *identities, struct amb_identity *identity)
{
    if (identity->party != NULL) {
        identity->party->names--;
        amb_user_count(identity->party->user, AMB_SHARE_NAMES, -1);
        amb_party_heap(identity->party, -IDENTITY_HEAP);
        identities->charged--;
        amb_party_unref(&identity->party);
    }
}

void amb_identity_charge(struct amb_identities *identities, struct amb_identity *identity,
                         struct amb_party *party)
{
    uncharge(identities, identity);
    if (party != NULL) {
        identity->party = amb_party_ref(party);
        party->names++;
        amb_user_count(party->user, AMB_SHARE_NAMES, 1);
        amb_party_heap(party, IDENTITY_HEAP);
        identities->charged++;
    }
}

/* Those that nobody has used for the window are no more to anybody's charge, though they are known
 * until their place is needed. */
static void lapse(struct amb_identities *identities, int64_t now_ns, int64_t window_ns)
{
    for (unsigned i = 0; i < LAPSE_LOOKS && !amb_list_is_empty(&identities->all); i++) {
        struct amb_identity *identity =
            AMB_CONTAINER_OF(identities->all.next, struct amb_identity, node);
        if (!identity->is_taken && amb_deadline_ns(identity->used_ns, window_ns) > now_ns) {
            return;
        }
        amb_list_remove(&identity->node);
        if (identity->is_taken) {
            amb_list_push_back(&identities->all, &identity->node);
        } else {
            uncharge(identities, identity);
            amb_list_push_back(&identities->lapsed, &identity->node);
        }
    }
}

const char *amb_identities_full(struct amb_identities *identities, const struct amb_party *party,
                                unsigned user_share, int64_t now_ns, int64_t window_ns)
{
    lapse(identities, now_ns, window_ns);
    if (party == NULL) {
        return NULL;
    }
    uint64_t max = AMB_IDENTITIES_MAX, all = identities->charged;
    if (party->names >= amb_share_of(max, all, party->names, AMB_PARTY_SHARE)) {
        return "limit: one process, or address, has half of the names that others leave of 65536";
    }
    uint64_t own = party->user->used[AMB_SHARE_NAMES];
    if (own >= amb_user_share(party->user, max, all, own, user_share)) {
        return "limit: one user's share of 65536 names (limits.user_share)";
    }
    return NULL;
}

void amb_identities_fini(struct amb_identities *identities)
{
    if (identities->by_key == NULL) {
        return;
    }
    struct amb_list_node *node;
    while ((node = amb_list_pop_front(&identities->all)) != NULL ||
           (node = amb_list_pop_front(&identities->lapsed)) != NULL) {
        struct amb_identity *identity = AMB_CONTAINER_OF(node, struct amb_identity, node);
        uncharge(identities, identity);
        free(identity);
    }
    amb_map_destroy(&identities->by_key);
}

/* "user name topic priority": a topic has no spaces, and neither have the others. */
static bool make_key(uint32_t user, const char *name, const char *topic, enum amb_priority priority,
                     char key[AMB_IDENTITY_KEY_MAX], size_t *len)
{
    size_t name_len = strlen(name);
    if (name_len == 0 || name_len > AMB_IDENTITY_NAME_MAX || strcspn(name, " \t\r\n") != name_len) {
        return false;
    }
    *len = (size_t)snprintf(key, AMB_IDENTITY_KEY_MAX, "%u %s %s %u", user, name, topic,
                            (unsigned)priority);
    return *len < AMB_IDENTITY_KEY_MAX;
}

struct amb_party *amb_identity_payer(const struct amb_identities *identities, uint32_t user,
                                     const char *name, const char *topic,
                                     enum amb_priority priority)
{
    char key[AMB_IDENTITY_KEY_MAX];
    size_t len;
    if (!make_key(user, name, topic, priority, key, &len)) {
        return NULL;
    }
    const struct amb_identity *identity = amb_map_get(identities->by_key, key, len);
    return identity == NULL ? NULL : identity->party;
}

bool amb_identity_is_of(const struct amb_identities *identities, const struct amb_party *party,
                        uint32_t user, const char *name, const char *topic,
                        enum amb_priority priority)
{
    return party != NULL && amb_identity_payer(identities, user, name, topic, priority) == party;
}

/* One that nobody has used for the window. */
static struct amb_identity *oldest(struct amb_identities *identities, int64_t now_ns,
                                   int64_t window_ns)
{
    lapse(identities, now_ns, window_ns);
    struct amb_list_node *first = identities->lapsed.next;
    return first == &identities->lapsed ? NULL : AMB_CONTAINER_OF(first, struct amb_identity, node);
}

static enum amb_status make(struct amb_identities *identities, const char *key, size_t len,
                            int64_t now_ns, int64_t window_ns, struct amb_identity **out)
{
    struct amb_identity *identity = NULL;
    if (identities->count < AMB_IDENTITIES_MAX) {
        identity = malloc(sizeof(*identity));
        if (identity == NULL) {
            return AMB_ENOMEM;
        }
        identities->count++;
    } else {
        identity = oldest(identities, now_ns, window_ns);
        if (identity == NULL) {
            return AMB_ELIMIT;
        }
        (void)amb_map_remove(identities->by_key, identity->key, identity->key_len);
        amb_list_remove(&identity->node);
    }
    memset(identity, 0, sizeof(*identity));
    memcpy(identity->key, key, len);
    identity->key_len = len;
    if (amb_map_put(identities->by_key, identity->key, len, identity) != AMB_OK) {
        identities->count--;
        free(identity);
        return AMB_ENOMEM;
    }
    amb_list_push_back(&identities->all, &identity->node);
    *out = identity;
    return AMB_OK;
}

enum amb_status amb_identity_take(struct amb_identities *identities, uint32_t user,
                                  const char *name, const char *topic, enum amb_priority priority,
                                  int64_t now_ns, int64_t window_ns, struct amb_identity **out)
{
    char key[AMB_IDENTITY_KEY_MAX];
    size_t len;
    if (!make_key(user, name, topic, priority, key, &len)) {
        return AMB_EINVAL;
    }
    struct amb_identity *identity = amb_map_get(identities->by_key, key, len);
    if (identity != NULL && identity->is_taken) {
        return AMB_EBUSY;
    }
    if (identity == NULL) {
        enum amb_status status = make(identities, key, len, now_ns, window_ns, &identity);
        if (status != AMB_OK) {
            return status;
        }
    }
    identity->is_taken = true;
    amb_list_remove(&identity->node);
    amb_list_push_back(&identities->all, &identity->node);
    *out = identity;
    return AMB_OK;
}

void amb_identity_give(struct amb_identities *identities, struct amb_identity *identity,
                       int64_t now_ns)
{
    if (identity == NULL) {
        return;
    }
    amb_assert(identity->is_taken);
    identity->is_taken = false;
    identity->used_ns = now_ns;
    amb_list_remove(&identity->node);
    amb_list_push_back(&identities->all, &identity->node);
}
