/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/worker/session_life.h"

#include "broker/base/fault.h"
#include "broker/base/party.h"
#include "broker/delivery/reader/deliveries.h"
#include "broker/delivery/reader/subscription.h"
#include "broker/ingest/publisher.h"
#include "broker/session/quarantine.h"
#include "broker/session/session.h"
#include "broker/shard/entry_share.h"
#include "broker/shard/purse.h"
#include "broker/shard/shard.h"
#include "broker/tls/charge.h"
#include "broker/worker/dispatch.h"
#include "broker/worker/links.h"
#include "broker/worker/porter.h"
#include "broker/worker/ucxport.h"
#include "wire/base/assert.h"
#include "wire/codec/expect.h"
#include "wire/link/stream/stream.h"
#include "wire/link/ucx/ucx_link.h"
#include "wire/tls/tls.h"

#define CLOSE_POLLS_MAX 64u   /* of a session's link, */
#define CLOSE_POLL_BUDGET 64u /* ... so many frames each */
/* The share of a turn that a closed subscription takes, in deliveries that are given up. */
#define SUBSCRIPTION_COST 8u
#define LANES_MAX 256u       /* bytes of their list */
#define RELEASE_BUDGET 4096u /* references of a quarantined session that go in one turn */

/* Opened -------------------------------------------------------------------------------------- */

static enum amb_status session_make_link(struct amb_session *session,
                                         struct amb_session_opening *opening)
{
    struct amb_shard *shard = session->shard;
    enum amb_status status = AMB_OK;
    switch (opening->link) {
    case AMB_LINK_RING:
        if (opening->ring == NULL) { /* Without a porter. */
            status = amb_ring_create(opening->ring_size, NULL, NULL, &opening->fds, &opening->ring);
        }
        if (status == AMB_OK) {
            session->link = opening->ring;
            opening->ring = NULL;
            amb_ring_adopt(session->link, &amb_dispatch_events, session);
        }
        break;
    case AMB_LINK_UCX:
        status = amb_ucxport_open(shard);
        if (status == AMB_OK) {
            status = amb_ucx_link_create(shard->ucx.worker, opening->address, opening->address_len,
                                         session->index, session->generation, session->secret,
                                         &amb_dispatch_events, session, &session->link);
        }
        break;
    case AMB_LINK_STREAM: /* comes with its own connection: attach */
        return AMB_OK;
    case AMB_LINK_ANY:
    case AMB_LINK_SIM:
        return AMB_ENOTSUP;
    }
    return status == AMB_OK ? amb_links_watch(session) : status;
}

/* UCX chooses the lanes when it makes the endpoint. */
static uint32_t lanes_lack(const struct amb_link *link)
{
    char lanes[LANES_MAX];
    amb_link_describe(link, lanes, sizeof(lanes));
    return (amb_expect_is_rdma(lanes) ? 0 : AMB_EXPECT_RDMA) |
           (amb_expect_is_nvlink(lanes) ? 0 : AMB_EXPECT_NVLINK);
}

enum amb_status amb_session_open(struct amb_shard *shard, uint32_t index, uint32_t generation,
                                 struct amb_session_opening *opening)
{
    struct amb_session *session;
    enum amb_status status =
        amb_session_create(shard, index, generation, opening->secret, opening->client_id, &session);
    if (status != AMB_OK) {
        return status;
    }
    session->user = opening->user;
    session->is_on_host = opening->is_on_host;
    session->may_map = opening->may_map;
    session->may_map_gpu = opening->may_map_gpu;
    session->tenant = opening->tenant;
    session->maps = opening->maps;
    session->mapped_max = opening->mapped_max;
    session->party = session->book.party = amb_party_ref(opening->party);
    session->purse = session->sifter.purse = amb_purse_find(shard, session->party);
    amb_heap_pay(&session->heap, session->purse == NULL ? NULL : session->purse->account);
    bool lacks_purse = session->purse == NULL && amb_purse_is_due(session->party);
    if (session->party != NULL) {
        session->entry_share = amb_entry_share_open(shard, session->party);
    }
    bool lacks_share = session->entry_share == NULL && session->party != NULL;
    status = lacks_purse || lacks_share ? AMB_ENOMEM : session_make_link(session, opening);
    if (status != AMB_OK) {
        amb_session_close(session, false, NULL, NULL);
    } else if (opening->link == AMB_LINK_UCX) {
        opening->lanes_lack = lanes_lack(session->link);
    }
    return status;
}

enum amb_status amb_session_attach(struct amb_session *session, int fd, struct amb_tls *tls)
{
    enum amb_status status = AMB_OK;
    if (session->link != NULL) {
        status = AMB_ESTATE;
    } else if (tls != NULL && !amb_tls_charge_heap(tls, &session->heap)) {
        status = AMB_ELIMIT;
    }
    if (status != AMB_OK) {
        amb_tls_destroy(&tls);
        amb_porter_close(session->shard->memory.porter, fd);
        return status;
    }
    status = amb_stream_create_tls(fd, tls, &amb_dispatch_events, session, &session->link);
    if (status == AMB_OK) {
        status = amb_links_watch(session);
        if (session->link->trims_soon) {
            amb_links_trim_soon(session->shard);
        }
        amb_session_unstall(session);
    }
    return status;
}

/* Down, and heard ----------------------------------------------------------------------------- */

void amb_session_link_down(struct amb_session *session, enum amb_status why, const char *text)
{
    session->is_link_down = true;
    if (why == AMB_EPROTO && session->broken != NULL) {
        text = session->broken;
    }
    session->shard->upcalls->session_ended(session->shard, session->client_id, why, text);
}

/* A session has so many polls, and all that close together so many a turn: a poll that finds
 * nothing costs none. */
static bool session_read_on(struct amb_session *session, struct amb_session_closing *closing)
{
    struct amb_shard *shard = session->shard;
    while (closing->polls < CLOSE_POLLS_MAX && amb_session_is_up(session)) {
        if (shard->hearing.budget == 0) {
            return false;
        }
        closing->polls++;
        if (amb_link_poll(session->link, CLOSE_POLL_BUDGET) == 0) {
            return true;
        }
        shard->hearing.budget--;
    }
    return true;
}

bool amb_session_hear(struct amb_session *session, struct amb_session_closing *closing)
{
    struct amb_shard_hearing *hearing = &session->shard->hearing;
    if (!closing->has_begun) {
        closing->has_begun = true;
        closing->number = ++hearing->newest;
        amb_list_init(&closing->hearing);
        amb_list_push_back(&hearing->closings, &closing->hearing);
    }
    if (!session_read_on(session, closing)) {
        return false;
    }
    amb_list_remove(&closing->hearing);
    return true;
}

uint64_t amb_sessions_newest(const struct amb_shard *shard)
{
    return shard->hearing.newest;
}

bool amb_sessions_are_heard(const struct amb_shard *shard, uint64_t number)
{
    if (amb_list_is_empty(&shard->hearing.closings) || AMB_FAULT(FENCE_EARLY)) {
        return true;
    }
    const struct amb_session_closing *oldest =
        AMB_CONTAINER_OF(shard->hearing.closings.next, struct amb_session_closing, hearing);
    return oldest->number > number;
}

/* Closing ------------------------------------------------------------------------------------- */

void amb_session_close(struct amb_session *session, bool keep_held,
                       void (*closed)(void *arg, uint64_t quarantined_bytes), void *arg)
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
    amb_links_unwatch(session);
    if (amb_link_close(session->link)) {
        amb_session_link_gone(session);
    }
}

void amb_session_take_waste(struct amb_session *session, struct amb_link_waste *waste)
{
    if (session->keep_held && waste->unread > 0) {
        session->ring_waste = waste; /* Its process may be about to read that. */
    } else {
        amb_porter_dispose(session->shard->memory.porter, waste);
    }
}

/* Cleared ------------------------------------------------------------------------------------- */

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

/* Nobody reads anything of it any more. */
static void session_free(struct amb_session *session)
{
    if (session->ring_waste != NULL) {
        amb_porter_dispose(session->shard->memory.porter, session->ring_waste);
        session->ring_waste = NULL;
    }
    amb_session_destroy(&session);
}

/* It goes, unless its client's process may still read deliveries that it holds, or frames in its
 * ring. */
static void session_cleared(struct amb_session *session)
{
    void (*closed)(void *arg, uint64_t quarantined_bytes) = session->closed;
    void *closed_arg = session->closed_arg;
    amb_list_remove(&session->clearing);
    amb_quarantine_begin(session);
    session->state = AMB_SESSION_QUARANTINED;
    uint64_t quarantined_bytes = amb_quarantine_bytes(session) +
                                 (session->ring_waste == NULL ? 0 : session->ring_waste->bytes);
    if (quarantined_bytes == 0) {
        session_free(session);
    }
    if (closed != NULL) {
        closed(closed_arg, quarantined_bytes);
    }
}

/* As far as this turn goes. */
static void sessions_clear(struct amb_shard *shard)
{
    while (!amb_list_is_empty(&shard->clearing.sessions)) {
        struct amb_session *session =
            AMB_CONTAINER_OF(shard->clearing.sessions.next, struct amb_session, clearing);
        if (!session_clear(session, &shard->clearing.budget)) {
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
    /* There is nothing to give up. And one that could not be opened must be gone when that is
     * answered: its index is free then. */
    if (amb_list_is_empty(&session->subscription_list)) {
        session_cleared(session);
        return;
    }
    amb_list_push_back(&session->shard->clearing.sessions, &session->clearing);
    sessions_clear(session->shard);
}

/* Quarantined --------------------------------------------------------------------------------- */

bool amb_session_release(struct amb_session *session)
{
    amb_assert(session->state == AMB_SESSION_QUARANTINED);
    if (!amb_quarantine_release(session, RELEASE_BUDGET)) {
        return false;
    }
    session_free(session);
    return true;
}
