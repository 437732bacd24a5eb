/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/ingest/route.h"

#include "broker/base/fault.h"
#include "broker/ingest/publisher.h"
#include "broker/ingest/publisher_window.h"
#include "broker/session/session.h"
#include "broker/shard/entry.h"
#include "broker/shard/shard.h"
#include "broker/shard/tally.h"
#include "broker/shard/trace.h"
#include "broker/topic/append.h"
#include "broker/topic/topic.h"
#include "wire/base/assert.h"

#define AWAKE_SLICE 32u /* held entries that are appended at once */

/* The publisher that sent the entry; NULL if it, or its session, is gone. */
static struct amb_publisher *route_publisher(struct amb_shard *shard,
                                             const struct amb_origin *origin)
{
    struct amb_session *session = amb_session_find(shard, origin->session, origin->generation);
    if (session == NULL) {
        return NULL;
    }
    struct amb_publisher *publisher = amb_session_publisher(session, origin->handle);
    return publisher != NULL && publisher->opened == origin->opened ? publisher : NULL;
}

static void route_receipt(struct amb_shard *shard, const struct amb_entry *entry)
{
    struct amb_publisher *publisher = route_publisher(shard, &entry->origin);
    if (entry->status != AMB_OK) {
        amb_stat_add(&shard->stats->msgs_rejected, entry->count);
    }
    if (publisher != NULL) {
        amb_publisher_receipt(publisher, entry);
    }
}

static void route_grant(struct amb_shard *shard, struct amb_entry *entry)
{
    amb_payload_settled(&entry->payload);
    if (!entry->has_window) {
        return;
    }
    struct amb_publisher *publisher = route_publisher(shard, &entry->origin);
    if (publisher != NULL) {
        amb_publisher_grant(publisher, amb_entry_window(entry));
    }
}

void amb_route_confirmed(struct amb_mail *mail, void *owner)
{
    struct amb_tally *tally = AMB_CONTAINER_OF(mail, struct amb_tally, mail);
    struct amb_publisher *publisher = route_publisher(owner, &tally->origin);
    if (publisher != NULL) {
        amb_publisher_confirmed(publisher, tally);
    }
    amb_tally_put(tally);
}

void amb_route_traced_confirmed(struct amb_mail *mail, void *owner)
{
    amb_trace_over(owner, AMB_CONTAINER_OF(mail, struct amb_tally, mail));
    amb_route_confirmed(mail, owner);
}

void amb_route_traced(struct amb_mail *mail, void *owner)
{
    struct amb_tally *tally = AMB_CONTAINER_OF(mail, struct amb_tally, mail);
    amb_trace_over(owner, tally);
    amb_tally_put(tally);
}

static void receipt_arrived(struct amb_mail *mail, void *owner)
{
    route_receipt(owner, AMB_CONTAINER_OF(mail, struct amb_entry, receipt));
}

static void grant_arrived(struct amb_mail *mail, void *owner)
{
    route_grant(owner, AMB_CONTAINER_OF(mail, struct amb_entry, grant));
}

/* Roots only: home is the publisher's worker. The entry goes home after this mail, so it is still
 * there when the mail is read. */
static void route_send_receipt(struct amb_shard *shard, struct amb_entry *entry)
{
    if (entry->home == shard) {
        route_receipt(shard, entry);
    } else {
        amb_mail_post(&entry->home->inbox, &entry->receipt, receipt_arrived);
    }
}

static void route_send_grant(struct amb_shard *shard, struct amb_entry *entry)
{
    if (entry->home == shard) {
        route_grant(shard, entry);
    } else {
        amb_mail_post(&entry->home->inbox, &entry->grant, grant_arrived);
    }
}

void amb_route_grants(struct amb_topic *topic)
{
    struct amb_entry *entry;
    while (amb_topic_next_grant(topic, &entry)) {
        route_send_grant(topic->shard, entry);
    }
}

void amb_route_grants_all(struct amb_topic *topic)
{
    struct amb_entry *entry;
    while (amb_topic_any_grant(topic, &entry)) {
        route_send_grant(topic->shard, entry);
    }
}

/* In the order of their coming, also what is refused: receipts are in that order. The windows of
 * its publishers bound the messages that may wait. */
static void route_hold(struct amb_topic *topic, struct amb_entry *entry)
{
    bool is_first = amb_list_is_empty(&topic->audience.waiting);
    amb_list_push_back(&topic->audience.waiting, &entry->pending);
    if (is_first) {
        topic->shard->upcalls->topic_heard(topic);
    }
}

static void route_append(struct amb_shard *shard, struct amb_entry *entry)
{
    struct amb_topic *topic = amb_shard_topic(shard, entry->topic);
    if (__builtin_expect(entry->expect != 0, 0) && entry->status == AMB_OK && topic != NULL &&
        topic->log.next_seq + topic->log.above != entry->expect) {
        entry->status = AMB_EREJECTED; /* Somebody else was faster. */
    }
    if (entry->status == AMB_OK) {
        entry->status = topic == NULL ? AMB_ENOTFOUND : amb_topic_append(topic, entry, 0);
        entry->matched = topic == NULL ? 0 : topic->audience.matched;
    }
    route_send_receipt(shard, entry);
    if (entry->status == AMB_OK) {
        /* Else an older entry waits for its grant: readers move in a walk only. */
        if (topic->ungranted + 1 >= topic->log.hi) {
            amb_route_grants(topic);
        }
    } else {
        if (entry->tally != NULL) {
            if (entry->tally->ticket != 0) {
                amb_trace_refused(shard, entry, entry->tally->ticket);
            }
            amb_tally_cancel(shard, entry);
        }
        route_send_grant(shard, entry);
        amb_entry_give_up(entry, shard);
    }
}

static void awake_goes_on(struct amb_mail *mail, void *owner)
{
    (void)owner;
    amb_route_awake(AMB_CONTAINER_OF(mail, struct amb_topic, audience.heard));
}

/* In slices: each entry is a look at all readers. Messages that come meanwhile are held behind the
 * rest. */
void amb_route_awake(struct amb_topic *topic)
{
    for (unsigned i = 0; i < AWAKE_SLICE && !amb_list_is_empty(&topic->audience.waiting); i++) {
        struct amb_list_node *node = amb_list_pop_front(&topic->audience.waiting);
        route_append(topic->shard, AMB_CONTAINER_OF(node, struct amb_entry, pending));
    }
    topic->audience.is_quiet = !amb_list_is_empty(&topic->audience.waiting);
    if (topic->audience.is_quiet) {
        amb_mail_post(&topic->shard->inbox, &topic->audience.heard, awake_goes_on);
    }
}

static void route_arrived(struct amb_shard *shard, struct amb_entry *entry)
{
    struct amb_topic *topic = amb_shard_topic(shard, entry->topic);
    if (__builtin_expect(topic == NULL || !topic->audience.is_quiet, 1)) {
        route_append(shard, entry);
        return;
    }
    route_hold(topic, entry);
    if (AMB_FAULT(AWAKE_EARLY)) {
        amb_route_awake(topic);
    }
}

static void entry_handed_over(struct amb_mail *mail, void *owner)
{
    route_arrived(owner, AMB_CONTAINER_OF(mail, struct amb_entry, mail));
}

void amb_route_hand_over(struct amb_shard *home, struct amb_entry *entry)
{
    amb_mail_post(&home->inbox, &entry->mail, entry_handed_over);
}

void amb_route(struct amb_shard *shard, struct amb_entry *entry, unsigned home)
{
    amb_assert(home < shard->peer_count && entry->parent == NULL);
    if (home == shard->index) {
        route_arrived(shard, entry);
    } else {
        amb_route_hand_over(shard->peers[home], entry);
    }
}
