/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/worker/links.h"

#include "broker/ingest/commit.h"
#include "broker/session/session.h"
#include "broker/shard/shard.h"
#include "wire/base/clock.h"
#include "wire/link/link.h"

#include <sys/epoll.h>

#define LINKS_POLL_BUDGET 32u /* frames of one link in one turn */
#define LINKS_EVENTS 64
#define LINKS_WAITS 16u /* in a row, where each brings so many events */
/* While some links are known to have more, the others are asked about every so many turns, or after
 * so long. Turns are long where somebody takes all that he can get. Cold links are asked about as
 * seldom where each warm one is polled every turn. */
#define LINKS_EDGES_EVERY 4u
#define LINKS_EDGES_NS (100 * AMB_NS_PER_US)
/* ... or so long, after a turn without news. */
#define LINKS_EDGES_IDLE_NS (5 * AMB_NS_PER_US)
/* Up to so many watched links, all are asked, where messages are short. */
#define LINKS_ASK_ALL 2u
/* So many sessions are asked every turn, whatever they do. With more, those that were idle for so
 * many turns are asked so many a turn, or not at all where they have a bell. One more is asked for
 * each LINKS_COLD_NS since the last turn began: a look takes about 100 ns. */
#define LINKS_WARM_FEW 8u
#define LINKS_COOL_TURNS 4096u
#define LINKS_COLD_LOOKS 4u
#define LINKS_COLD_NS (4 * AMB_NS_PER_US)
#define LINKS_COLD_MOST 1024u
/* The peer's end may lie behind all that can be read. Is it there when an edge is taken, no other
 * edge tells of it; if it comes later, one does. */
#define LINKS_END (EPOLLRDHUP | EPOLLHUP | EPOLLERR)
/* Links that a turn looks at for idle memory, until one had some: that took 10 to 50 us. */
#define LINKS_TRIM_LOOKS 256u

enum amb_status amb_links_watch(struct amb_session *session)
{
    int fd = amb_link_fd(session->link);
    if (fd < 0 || session->shard->poll.epoll_fd < 0) {
        return AMB_OK;
    }
    uint32_t events = amb_link_fd_events(session->link) | EPOLLRDHUP | EPOLLET;
    struct epoll_event event = {
        .events = events, .data.u64 = amb_shard_watch_tag(session->index, session->generation)};
    if (epoll_ctl(session->shard->poll.epoll_fd, EPOLL_CTL_ADD, fd, &event) != 0) {
        return AMB_ENOMEM;
    }
    session->has_bell = true;
    session->is_watched = session->link->hears_end = session->link->ops->kind == AMB_LINK_STREAM;
    session->has_edge = true;
    return AMB_OK;
}

/* The client shares its ring's bell: an item that is left behind would stay, and wake us, for as
 * long as anybody there keeps it. */
void amb_links_unwatch(const struct amb_session *session)
{
    int fd = session->link == NULL ? -1 : amb_link_fd(session->link);
    if (fd >= 0 && session->shard->poll.epoll_fd >= 0) {
        (void)epoll_ctl(session->shard->poll.epoll_fd, EPOLL_CTL_DEL, fd, NULL);
    }
}

/* Sessions that epoll names are stirred. True: the bell of the inbox has rung. */
static bool take_edges(struct amb_shard *shard, const struct epoll_event *events, int count)
{
    bool rang = false;
    for (int i = 0; i < count; i++) {
        uint64_t tag = events[i].data.u64;
        if (tag == AMB_SHARD_TAG_BELL) {
            rang = true;
        } else if (tag != AMB_SHARD_TAG_UCX) {
            struct amb_session *session =
                amb_session_find(shard, (uint32_t)(tag >> 32), (uint32_t)tag);
            if (session != NULL) {
                session->has_edge = true;
                if ((events[i].events & LINKS_END) != 0 && session->link != NULL) {
                    session->link->hears_end = false;
                }
                amb_session_stir(session);
            }
        }
    }
    return rang;
}

bool amb_links_wait(struct amb_shard *shard, int timeout_ms)
{
    struct epoll_event events[LINKS_EVENTS];
    bool rang = false;
    int count = LINKS_EVENTS;
    for (unsigned i = 0; i < LINKS_WAITS && count == LINKS_EVENTS; i++) {
        count = epoll_wait(shard->poll.epoll_fd, events, LINKS_EVENTS, i == 0 ? timeout_ms : 0);
        rang = take_edges(shard, events, count) || rang;
    }
    return rang;
}

/* Asking a socket that has nothing costs a system call, so those are left alone which epoll has not
 * named. One call asks for all of them. If the warm ones are asked all the same, it is for the cold
 * ones, which nobody else asks. */
static void links_find_edges(struct amb_shard *shard, bool is_asking_all)
{
    uint64_t turn = amb_stat_get(&shard->stats->turns);
    bool has_resting = shard->poll.resting != 0;
    bool is_often = shard->poll.busy == 0 && !is_asking_all;
    /* A worker that is about to sleep asks by that. */
    bool will_sleep = shard->poll.busy == 0 && shard->poll.sleeps_at_once;
    bool is_due = (has_resting && !will_sleep && (is_often || turn % LINKS_EDGES_EVERY == 0)) ||
                  shard->now_ns - shard->poll.edges_ns >=
                      (shard->poll.has_found ? LINKS_EDGES_NS : LINKS_EDGES_IDLE_NS);
    if ((!has_resting && shard->poll.dormant_count == 0) || !is_due) {
        return;
    }
    shard->poll.edges_ns = shard->now_ns;
    if (amb_links_wait(shard, 0)) {
        amb_inbox_disarm(&shard->inbox, true);
    }
}

static unsigned links_poll_link(struct amb_shard *shard, struct amb_session *session,
                                bool is_asking_all)
{
    if (session->is_watched && !session->has_edge && !is_asking_all) {
        shard->poll.resting++;
        return 0;
    }
    unsigned done = amb_link_poll(session->link, LINKS_POLL_BUDGET);
    if (session->is_watched) {
        /* A push that ended with its burst goes on without an edge. */
        bool has_more = session->link->is_pending && !session->link->is_blocked;
        session->has_edge = (done != 0 && !session->link->is_dry) || has_more;
        shard->poll.resting += !session->has_edge;
        shard->poll.busy += session->has_edge;
    }
    return done;
}

/* Nothing of it waits that this worker could move without being told. */
static bool session_may_cool(const struct amb_session *session)
{
    return session->is_link_down ||
           (session->link != NULL && session->link->queued == 0 && !session->book.has_news &&
            !session->word.is_held && session->word.flow.since_ns == 0 &&
            amb_list_is_empty(&session->book.commits) && amb_list_is_empty(&session->stalled));
}

static unsigned cold_looks(const struct amb_shard *shard, int64_t since_ns)
{
    uint64_t looks = LINKS_COLD_LOOKS + (uint64_t)(since_ns > 0 ? since_ns : 0) / LINKS_COLD_NS;
    looks = looks < LINKS_COLD_MOST ? looks : LINKS_COLD_MOST;
    return looks < shard->poll.cold_count ? (unsigned)looks : shard->poll.cold_count;
}

static unsigned links_poll_cold(struct amb_shard *shard, int64_t since_ns)
{
    unsigned done = 0;
    for (unsigned i = cold_looks(shard, since_ns); i > 0 && !amb_list_is_empty(&shard->poll.cold);
         i--) {
        struct amb_list_node *node = amb_list_pop_front(&shard->poll.cold);
        struct amb_session *session = AMB_CONTAINER_OF(node, struct amb_session, heat);
        amb_list_push_back(&shard->poll.cold, node);
        if (amb_session_is_up(session) && (!session->is_watched || session->has_edge)) {
            unsigned got = amb_link_poll(session->link, LINKS_POLL_BUDGET);
            if (got != 0) {
                amb_session_stir(session);
            }
            done += got;
        }
    }
    shard->poll.resting += shard->poll.cold_watched;
    return done;
}

unsigned amb_links_poll(struct amb_shard *shard, int64_t since_ns)
{
    unsigned done = 0;
    /* Few sockets and short messages: asking each is the quickest. */
    bool is_asking_all = !shard->poll.sleeps_at_once && !shard->poll.is_bulk &&
                         shard->poll.resting + shard->poll.busy <= LINKS_ASK_ALL;
    if (!is_asking_all || shard->poll.cold_watched != 0 || shard->poll.dormant_count != 0) {
        links_find_edges(shard, is_asking_all);
    }
    shard->poll.resting = shard->poll.busy = 0;
    bool may_cool = shard->poll.warm_count > LINKS_WARM_FEW;
    AMB_LIST_FOR_EACH_SAFE (node, &shard->poll.warm) {
        struct amb_session *session = AMB_CONTAINER_OF(node, struct amb_session, heat);
        unsigned got = 0;
        if (amb_session_is_up(session)) {
            got = links_poll_link(shard, session, is_asking_all);
        }
        done += got;
        session->idle_turns = got != 0 ? 0 : session->idle_turns + 1;
        if (may_cool && session->idle_turns > LINKS_COOL_TURNS && session_may_cool(session)) {
            amb_session_cool(session);
        }
    }
    if (!amb_list_is_empty(&shard->poll.cold)) {
        done += links_poll_cold(shard, since_ns);
    }
    shard->poll.has_found = done != 0;
    return done;
}

static void links_disarm(struct amb_list_node *list)
{
    AMB_LIST_FOR_EACH (node, list) {
        struct amb_session *session = AMB_CONTAINER_OF(node, struct amb_session, heat);
        if (amb_session_is_up(session)) {
            amb_link_disarm(session->link);
        }
    }
}

void amb_links_disarm(struct amb_shard *shard)
{
    links_disarm(&shard->poll.warm);
    links_disarm(&shard->poll.cold);
}

static bool links_arm(struct amb_list_node *list)
{
    AMB_LIST_FOR_EACH (node, list) {
        struct amb_session *session = AMB_CONTAINER_OF(node, struct amb_session, heat);
        if (amb_session_is_up(session) &&
            (!amb_link_arm(session->link, amb_session_wants_flow(session)) ||
             amb_commit_may_tell(session) || (session->is_watched && session->has_edge))) {
            session->has_edge = true;
            amb_session_stir(session);
            return false;
        }
    }
    return true;
}

bool amb_links_arm(struct amb_shard *shard)
{
    return links_arm(&shard->poll.warm) && links_arm(&shard->poll.cold);
}

/* True: that took a system call, or as long. */
static bool links_trim_one(struct amb_shard_poll *poll, const struct amb_session *session)
{
    bool is_soon = session->link->trims_soon;
    poll->has_trimmed_soon = poll->has_trimmed_soon || is_soon;
    return (is_soon || poll->is_trimming_all) && amb_link_trim(session->link);
}

void amb_links_trim(struct amb_shard *shard)
{
    struct amb_shard_poll *poll = &shard->poll;
    if (poll->trim_next == 0) {
        poll->has_trimmed_soon = false;
        poll->is_trimming_all = shard->now_ns >= poll->trim_all_ns;
        if (poll->is_trimming_all) {
            poll->trim_all_ns = shard->now_ns + AMB_LINKS_TRIM_NS;
        }
    }
    for (unsigned i = 0; i < LINKS_TRIM_LOOKS; i++) {
        if (poll->trim_next >= shard->sessions.cells) {
            poll->trim_next = 0;
            poll->trim_due_ns =
                poll->has_trimmed_soon ? shard->now_ns + AMB_LINKS_TRIM_SOON_NS : poll->trim_all_ns;
            return;
        }
        struct amb_session *session = shard->sessions.at[poll->trim_next++];
        if (session != NULL && amb_session_is_up(session) && links_trim_one(poll, session)) {
            return;
        }
    }
}

void amb_links_trim_soon(struct amb_shard *shard)
{
    int64_t due_ns = shard->now_ns + AMB_LINKS_TRIM_SOON_NS;
    if (due_ns < shard->poll.trim_due_ns) {
        shard->poll.trim_due_ns = due_ns;
    }
}

int64_t amb_links_trim_due(struct amb_shard *shard)
{
    return shard->poll.trim_due_ns;
}
