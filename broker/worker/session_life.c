/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/worker/session_life.h"

#include "broker/delivery/reader/subscription.h"
#include "broker/ingest/publisher.h"
#include "broker/session/session.h"
#include "broker/shard/shard.h"
#include "wire/base/assert.h"

#include <sys/epoll.h>

/* The share of a turn that a closed subscription takes, in deliveries that are given up. */
#define SUBSCRIPTION_COST 8u

/* Gives up what it was delivered. False: this turn has done enough. */
static bool session_clear(struct amb_session *session, unsigned *budget)
{
    AMB_LIST_FOR_EACH_SAFE (node, &session->subscription_list) {
        struct amb_subscription *sub = AMB_CONTAINER_OF(node, struct amb_subscription, node);
        if (*budget == 0) {
            return false;
        }
        *budget -= *budget < SUBSCRIPTION_COST ? *budget : SUBSCRIPTION_COST;
        if (!amb_subscription_give_up(sub, session->keep_held, budget)) {
            return false;
        }
        amb_subscription_destroy(&sub, session->keep_held);
    }
    return true;
}

static void session_cleared(struct amb_session *session)
{
    amb_list_remove(&session->clearing);
    amb_lease_book_end(&session->book, session->keep_held);
    amb_stat_add(&session->shard->stats.quarantined_bytes, amb_lease_book_held(&session->book));
    session->state = AMB_SESSION_QUARANTINED;
    session->closed(session, session->closed_arg);
}

/* As far as this turn goes. */
static void sessions_clear(struct amb_shard *shard)
{
    while (!amb_list_is_empty(&shard->clearing.sessions)) {
        struct amb_session *session =
            AMB_CONTAINER_OF(shard->clearing.sessions.next, struct amb_session, clearing);
        if (!session_clear(session, &shard->clearing.left)) {
            return;
        }
        session_cleared(session);
    }
}

unsigned amb_sessions_clear(struct amb_shard *shard)
{
    if (amb_list_is_empty(&shard->clearing.sessions)) {
        return 0;
    }
    sessions_clear(shard);
    return 1;
}

void amb_session_link_gone(struct amb_session *session)
{
    session->link = NULL;
    AMB_LIST_FOR_EACH_SAFE (node, &session->publisher_list) {
        struct amb_publisher *publisher = AMB_CONTAINER_OF(node, struct amb_publisher, node);
        amb_publisher_destroy(&publisher);
    }
    amb_assert(session->reserved == 0);
    amb_list_push_back(&session->shard->clearing.sessions, &session->clearing);
    sessions_clear(session->shard);
}

/* The client shares its ring's bell: an item that is left behind would stay, and wake us, for as
 * long as anybody there keeps it. */
static void session_unwatch(const struct amb_session *session)
{
    int fd = session->link == NULL ? -1 : amb_link_fd(session->link);
    if (fd >= 0 && session->shard->poll.epoll_fd >= 0) {
        (void)epoll_ctl(session->shard->poll.epoll_fd, EPOLL_CTL_DEL, fd, NULL);
    }
}

void amb_session_close(struct amb_session *session, bool keep_held,
                       void (*closed)(struct amb_session *session, void *arg), void *arg)
{
    amb_assert(session->state == AMB_SESSION_OPEN);
    session->state = AMB_SESSION_CLOSING;
    session->is_link_down = true;
    session->keep_held = keep_held;
    session->closed = closed;
    session->closed_arg = arg;
    /* The link may take its time; nobody waits for this session meanwhile. */
    AMB_LIST_FOR_EACH (node, &session->subscription_list) {
        amb_subscription_detach(AMB_CONTAINER_OF(node, struct amb_subscription, node));
    }
    session_unwatch(session);
    if (amb_link_close(session->link)) {
        amb_session_link_gone(session);
    }
}
