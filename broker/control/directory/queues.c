/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/control/directory/queues.h"

#include "broker/base/heap_account.h"
#include "broker/base/party.h"
#include "broker/base/tenant.h"
#include "broker/base/user.h"
#include "broker/config/config.h"
#include "broker/control/directory/listing.h"
#include "broker/shard/shard.h"
#include "broker/worker/orders_subscription.h"
#include "wire/base/assert.h"
#include "wire/base/clock.h"
#include "wire/base/log.h"
#include "wire/codec/control.h"

#include <stdlib.h>
#include <string.h>

bool amb_queue_name_check(const char *name)
{
    static const char letters[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.:@";
    size_t len = strlen(name);
    return len <= AMB_QUEUE_NAME_MAX && strspn(name, letters) == len;
}

bool amb_queues_are_wanted(const Amb__Control__Subscribe *subscribe)
{
    return subscribe->ack > AMB_ACK_NONE || subscribe->group[0] != '\0' ||
           subscribe->durable[0] != '\0';
}

const char *amb_queues_refusal(const Amb__Control__Subscribe *subscribe)
{
    if (!amb_queues_are_wanted(subscribe)) {
        return NULL;
    }
    if (subscribe->ack > AMB_ACK_CUMULATIVE || subscribe->n_backoff_ns > AMB_BACKOFF_MAX ||
        subscribe->ack_wait_ns < 0) {
        return "ack, ack_wait or backoff is out of range";
    }
    for (size_t i = 0; i < subscribe->n_backoff_ns; i++) {
        if (subscribe->backoff_ns[i] < 0) {
            return "a time of backoff is negative";
        }
    }
    if (!amb_queue_name_check(subscribe->group) || !amb_queue_name_check(subscribe->durable)) {
        return "group and durable: at most 64 letters, digits and -_.:@";
    }
    if (subscribe->position.len > 0 &&
        (subscribe->group[0] != '\0' || subscribe->durable[0] != '\0')) {
        return "start = POSITION is not for groups and durable names: they keep their place";
    }
    if (subscribe->ack == AMB_ACK_CUMULATIVE && subscribe->group[0] != '\0') {
        return "members of a group acknowledge each message: explicit, not cumulative";
    }
    if (subscribe->slow != AMB_SLOW_DEFAULT && subscribe->slow != AMB_SLOW_DROP_OLDEST &&
        subscribe->slow != AMB_SLOW_BLOCK && subscribe->slow != AMB_SLOW_SPILL) {
        return "slow: with acknowledgements, groups and durable names block, drop-oldest or spill";
    }
    return NULL;
}

void amb_queues_wish(const Amb__Control__Subscribe *subscribe, uint32_t user,
                     const struct amb_subscription_options *options, struct amb_queue_wish *wish)
{
    *wish = (struct amb_queue_wish){
        .user = user,
        .group = subscribe->group,
        .durable = subscribe->durable,
        .filter = subscribe->filter,
        .options =
            {
                .ack = subscribe->ack > AMB_ACK_NONE ? (enum amb_ack)subscribe->ack : AMB_ACK_NONE,
                .ack_wait_ns =
                    subscribe->ack_wait_ns > 0 ? subscribe->ack_wait_ns : AMB_ACK_WAIT_DEFAULT_NS,
                .max_deliver = subscribe->max_deliver,
                .backoff_count = (uint32_t)subscribe->n_backoff_ns,
                .slow = options->slow,
                .slow_block_ns = options->slow_block_ns,
            },
    };
    for (size_t i = 0; i < subscribe->n_backoff_ns; i++) {
        wish->options.backoff_ns[i] = subscribe->backoff_ns[i];
    }
}

static struct amb_dir_queue *queue_find(struct amb_directory *directory,
                                        const struct amb_queue_wish *wish,
                                        const struct amb_dir_sub *sub)
{
    const char *group = wish->group, *durable = wish->durable;
    if (group[0] == '\0' && durable[0] == '\0') {
        return NULL;
    }
    AMB_LIST_FOR_EACH (node, &directory->queues) {
        struct amb_dir_queue *queue = AMB_CONTAINER_OF(node, struct amb_dir_queue, node);
        if (!amb_user_is_same(queue->user, wish->user) || queue->sub.tenant != sub->tenant) {
            continue;
        }
        if (durable[0] != '\0' ? strcmp(queue->durable, durable) == 0
                               : queue->durable[0] == '\0' && strcmp(queue->group, group) == 0 &&
                                     strcmp(queue->sub.pattern, sub->pattern) == 0) {
            return queue;
        }
    }
    return NULL;
}

static bool is_same_backoff(const struct amb_queue_options *a, const struct amb_queue_options *b)
{
    return a->backoff_count == b->backoff_count &&
           memcmp(a->backoff_ns, b->backoff_ns, a->backoff_count * sizeof(a->backoff_ns[0])) == 0;
}

/* A group is one reader: the rules for all of it are its first member's word. NULL, or the field in
 * which this one differs, as a sentence. ack_wait is each member's own. */
static const char *queue_differs(const struct amb_dir_queue *queue,
                                 const struct amb_queue_wish *wish)
{
    const struct amb_queue_options *first = &queue->options, *other = &wish->options;
    if (strcmp(queue->filter != NULL ? queue->filter : "", wish->filter) != 0) {
        return "filter: it differs from that of the group's first member";
    }
    if (first->max_deliver != other->max_deliver) {
        return "max_deliver: it differs from that of the group's first member";
    }
    if (!is_same_backoff(first, other)) {
        return "backoff: it differs from that of the group's first member";
    }
    if (first->slow != other->slow) {
        return "slow: it differs from that of the group's first member";
    }
    if (first->slow_block_ns != other->slow_block_ns) {
        return "slow_block: it differs from that of the group's first member";
    }
    return NULL;
}

/* May it join? */
static enum amb_status queue_fits(const struct amb_dir_queue *queue, const struct amb_dir_sub *sub,
                                  const struct amb_queue_wish *wish, const char **why)
{
    if (strcmp(queue->sub.pattern, sub->pattern) != 0) {
        *why = "the durable name is another pattern's";
        return AMB_EINVAL;
    }
    if (strcmp(queue->group, wish->group) != 0) {
        *why = "the durable name is another group's";
        return AMB_EINVAL;
    }
    if (queue->options.ack != wish->options.ack) {
        *why = "ack: its members acknowledge in another way";
        return AMB_EINVAL;
    }
    if (queue->is_forbidden) {
        *why = "the durable name goes: rights have changed";
        return AMB_EBUSY;
    }
    if (queue->group[0] == '\0' && queue->members > 0) {
        *why = "the durable name is in use; several members need a group";
        return AMB_EBUSY;
    }
    const char *differs = queue->members == 0 ? NULL : queue_differs(queue, wish);
    *why = differs != NULL ? differs : "";
    return differs != NULL ? AMB_EINVAL : AMB_OK;
}

static void queue_free(struct amb_dir_queue *queue)
{
    amb_party_uncharge(&queue->party, AMB_SHARE_SUBSCRIPTIONS);
    amb_party_heap(queue->payer, -(int64_t)queue->heap);
    amb_party_unref(&queue->payer);
    free(queue->filter);
    free(queue);
}

/* The first member: what it asks for holds for all that join it. False without memory. */
static bool queue_adopt(struct amb_dir_queue *queue, const struct amb_queue_wish *wish)
{
    char *filter = wish->filter[0] == '\0' ? NULL : strdup(wish->filter);
    if (filter == NULL && wish->filter[0] != '\0') {
        return false;
    }
    free(queue->filter);
    queue->filter = filter;
    queue->options = wish->options;
    return true;
}

/* A new one, and the orders that make it and have it read. */
static struct amb_dir_queue *queue_make(struct amb_directory *directory,
                                        const struct amb_dir_sub *sub,
                                        const struct amb_queue_wish *wish, amb_order_done_fn done,
                                        void *context, unsigned *posted)
{
    struct amb_dir_queue *queue = calloc(1, sizeof(*queue) + sub->position_len);
    struct amb_order_queue_open *open = amb_order_new(&amb_order_queue_open, done, context);
    if (queue == NULL || open == NULL || !queue_adopt(queue, wish)) {
        free(queue);
        amb_order_free(open == NULL ? NULL : &open->order);
        return NULL;
    }
    queue->user = wish->user;
    queue->review = directory->queue_review;
    memcpy(queue->group, wish->group, strlen(wish->group));
    memcpy(queue->durable, wish->durable, strlen(wish->durable));
    queue->sub.id = amb_directory_next_sub(directory);
    queue->sub.session = (struct amb_session_id){.shard = sub->session.shard};
    queue->sub.handle = AMB_QUEUE_HANDLE;
    queue->sub.user = wish->user;
    queue->sub.tenant = sub->tenant;
    queue->sub.may_map = wish->user != AMB_USER_TCP; /* Some member may. */
    queue->sub.options = sub->options;
    queue->sub.begin = sub->begin;
    queue->sub.account = sub->account;
    queue->sub.is_foreign = sub->is_foreign;
    if (sub->position_len > 0) {
        queue->sub.position = (uint8_t *)(queue + 1);
        queue->sub.position_len = sub->position_len;
        memcpy(queue->sub.position, sub->position, sub->position_len);
    }
    queue->sub.pattern_len = sub->pattern_len;
    memcpy(queue->sub.pattern, sub->pattern, sub->pattern_len);
    amb_list_push_back(&directory->queues, &queue->node);
    open->id = queue->sub.id;
    open->options = wish->options;
    queue->payer = sub->account == NULL ? NULL : amb_party_ref(sub->account->party);
    queue->heap = sizeof(*queue) + sub->position_len + sizeof(struct amb_queue) +
                  2 * (uint64_t)AMB_HEAP_OVERHEAD;
    amb_party_heap(queue->payer, (int64_t)queue->heap);
    open->party = amb_party_ref(queue->payer);
    amb_order_post(directory->shards[queue->sub.session.shard], &open->order);
    *posted = 1 + amb_directory_subscribe(directory, &queue->sub, done, context);
    amb_list_remove(&queue->sub.node); /* Members are what is listed. */
    return queue;
}

static void queue_remove(struct amb_directory *directory, struct amb_dir_queue *queue)
{
    amb_directory_unsubscribe(directory, &queue->sub);
    struct amb_order_queue_close *close = amb_order_new(&amb_order_queue_close, NULL, NULL);
    if (close == NULL) {
        amb_error("no memory for an order to a worker");
    } else {
        close->id = queue->sub.id;
        amb_order_post(directory->shards[queue->sub.session.shard], &close->order);
    }
    amb_list_remove(&queue->node);
    amb_listing_queue_gone(directory, queue);
    queue_free(queue);
}

enum amb_status amb_queues_subscribe(struct amb_directory *directory, struct amb_dir_sub *sub,
                                     const struct amb_queue_wish *wish,
                                     struct amb_order_subscription_open *open,
                                     amb_order_done_fn done, void *context, unsigned *posted,
                                     const char **why)
{
    *posted = 0;
    if ((wish->group[0] != '\0' || wish->durable[0] != '\0') && !amb_user_has_names(wish->user)) {
        *why = AMB_USER_NO_NAMES;
        return AMB_EFORBIDDEN;
    }
    struct amb_dir_queue *queue = queue_find(directory, wish, sub);
    if (queue != NULL) {
        enum amb_status status = queue_fits(queue, sub, wish, why);
        if (status != AMB_OK) {
            return status;
        }
        if (queue->members == 0 && !queue_adopt(queue, wish)) {
            *why = "no memory";
            return AMB_ENOMEM;
        }
        amb_directory_reslow(directory, &queue->sub, wish->options.slow, false);
    } else {
        queue = queue_make(directory, sub, wish, done, context, posted);
        if (queue == NULL) {
            *why = "no memory";
            return AMB_ENOMEM;
        }
    }
    amb_party_uncharge(&queue->party, AMB_SHARE_SUBSCRIPTIONS); /* Its members count now. */
    queue->members++;
    queue->active++;
    sub->queue = queue;
    amb_listing_queue(directory, queue);
    amb_list_push_back(&directory->subs, &sub->node);
    amb_listing_subscription(directory, sub);
    amb_list_init(&sub->same);
    open->queue = queue->sub.id;
    open->queue_home = queue->sub.session.shard;
    open->queue_options = wish->options;
    return AMB_OK;
}

void amb_queues_stop(struct amb_directory *directory, struct amb_dir_sub *sub)
{
    struct amb_dir_queue *queue = sub->queue;
    if (queue == NULL || sub->is_idle) {
        return;
    }
    sub->is_idle = true;
    amb_assert(queue->active > 0);
    if (--queue->active == 0) {
        amb_directory_reslow(directory, &queue->sub, queue->sub.options.slow, true);
    }
}

void amb_queues_unsubscribe(struct amb_directory *directory, struct amb_dir_sub *sub)
{
    struct amb_dir_queue *queue = sub->queue;
    if (queue == NULL) {
        amb_directory_unsubscribe(directory, sub);
        return;
    }
    amb_queues_stop(directory, sub);
    sub->queue = NULL;
    sub->is_closing = true;
    amb_list_remove(&sub->node);
    amb_listing_subscription_gone(directory, sub);
    amb_assert(queue->members > 0);
    queue->members--;
    amb_listing_queue(directory, queue);
    if (queue->members > 0) {
        return;
    }
    queue->idle_ns = directory->now_ns;
    if (queue->durable[0] == '\0' || directory->is_ending || queue->is_forbidden) {
        queue_remove(directory, queue);
    } else if (queue->sub.account != NULL) {
        amb_party_charge(queue->sub.account->party, AMB_SHARE_SUBSCRIPTIONS, &queue->party);
    }
}

void amb_queues_review(struct amb_directory *directory)
{
    directory->queue_review++;
}

/* The first one is the next: behind it are those of this review, and new ones. */
bool amb_queues_review_next(struct amb_directory *directory, amb_queue_ask_fn may_stay,
                            amb_queue_gone_fn gone, void *arg)
{
    struct amb_list_node *node = directory->queues.next;
    struct amb_dir_queue *queue = AMB_CONTAINER_OF(node, struct amb_dir_queue, node);
    if (amb_list_is_empty(&directory->queues) || queue->review == directory->queue_review) {
        return false;
    }
    queue->review = directory->queue_review;
    amb_list_remove(node);
    amb_list_push_back(&directory->queues, node);
    if (queue->is_forbidden || may_stay(queue, arg)) {
        return true;
    }
    gone(queue, arg);
    queue->is_forbidden = true;
    if (queue->members == 0) {
        queue_remove(directory, queue);
    }
    return true;
}

const struct amb_dir_queue *amb_queues_waiting(const struct amb_directory *directory,
                                               const char *durable, uint32_t user)
{
    AMB_LIST_FOR_EACH (node, &directory->queues) {
        const struct amb_dir_queue *queue = AMB_CONTAINER_OF(node, struct amb_dir_queue, node);
        if (durable[0] != '\0' && queue->members == 0 && amb_user_is_same(queue->user, user) &&
            strcmp(queue->durable, durable) == 0) {
            return queue;
        }
    }
    return NULL;
}

void amb_queues_tick(struct amb_directory *directory)
{
    AMB_LIST_FOR_EACH_SAFE (node, &directory->queues) {
        struct amb_dir_queue *queue = AMB_CONTAINER_OF(node, struct amb_dir_queue, node);
        if (queue->members == 0 &&
            amb_deadline_ns(queue->idle_ns, directory->config->limits.durable_expiry_ns) <=
                directory->now_ns) {
            amb_info("durable name %s has expired", queue->durable);
            queue_remove(directory, queue);
        }
    }
}

/* ENOTFOUND, EINVAL: several have that name. */
static enum amb_status durable_find(struct amb_directory *directory, const char *name,
                                    const uint32_t *user, uint32_t tenant,
                                    struct amb_dir_queue **out)
{
    struct amb_dir_queue *found = NULL;
    AMB_LIST_FOR_EACH (node, &directory->queues) {
        struct amb_dir_queue *queue = AMB_CONTAINER_OF(node, struct amb_dir_queue, node);
        if (name[0] == '\0' || strcmp(queue->durable, name) != 0 ||
            (user != NULL && queue->user != *user) ||
            !amb_tenant_is_asked(tenant, queue->sub.tenant)) {
            continue;
        }
        if (found != NULL) {
            return AMB_EINVAL;
        }
        found = queue;
    }
    *out = found;
    return found == NULL ? AMB_ENOTFOUND : AMB_OK;
}

enum amb_status amb_queues_remove_durable(struct amb_directory *directory, const char *name,
                                          const uint32_t *user, uint32_t tenant)
{
    struct amb_dir_queue *found;
    enum amb_status status = durable_find(directory, name, user, tenant, &found);
    if (status != AMB_OK) {
        return status;
    }
    if (found->members > 0) {
        return AMB_EBUSY;
    }
    queue_remove(directory, found);
    return AMB_OK;
}

enum amb_status amb_queues_recall(struct amb_directory *directory, const char *name,
                                  const uint32_t *user, uint32_t tenant, amb_order_done_fn done,
                                  void *context, unsigned *posted)
{
    struct amb_dir_queue *found;
    *posted = 0;
    enum amb_status status = durable_find(directory, name, user, tenant, &found);
    if (status != AMB_OK) {
        return status;
    }
    AMB_LIST_FOR_EACH (node, &directory->subs) {
        const struct amb_dir_sub *sub = AMB_CONTAINER_OF(node, struct amb_dir_sub, node);
        struct amb_order_member_recall *recall =
            sub->queue != found ? NULL : amb_order_new(&amb_order_member_recall, done, context);
        if (recall != NULL) {
            recall->order.session = sub->session;
            recall->handle = sub->handle;
            recall->id = sub->id;
            ++*posted;
            amb_order_post(directory->shards[sub->session.shard], &recall->order);
        }
    }
    return AMB_OK;
}

void amb_queues_end(struct amb_directory *directory)
{
    directory->is_ending = true;
    AMB_LIST_FOR_EACH_SAFE (node, &directory->queues) {
        struct amb_dir_queue *queue = AMB_CONTAINER_OF(node, struct amb_dir_queue, node);
        if (queue->members == 0) {
            queue_remove(directory, queue);
        }
    }
}

void amb_queues_close(struct amb_directory *directory)
{
    while (!amb_list_is_empty(&directory->queues)) {
        queue_remove(directory,
                     AMB_CONTAINER_OF(directory->queues.next, struct amb_dir_queue, node));
    }
}

void amb_queues_forget(struct amb_directory *directory)
{
    struct amb_list_node *node;
    while (directory->queues.next != NULL && /* else it never began */
           (node = amb_list_pop_front(&directory->queues)) != NULL) {
        queue_free(AMB_CONTAINER_OF(node, struct amb_dir_queue, node));
    }
}
