/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/worker/tell.h"

#include "broker/ingest/commit.h"
#include "broker/session/session.h"
#include "broker/shard/shard.h"
#include "wire/link/link.h"

/* Sessions with counters alone that wait until frames have left; more of them do not wait. */
#define TELL_AFTER_MAX 32u

/* A flush has an end also where more is there to be said. The next turn goes on then. */
static void flush(struct amb_session *session)
{
    struct amb_session_word *word = &session->word;
    word->is_held = word->is_new = false;
    word->flow.since_ns = 0;
    amb_link_flush(session->link);
    word->has_news = word->is_urgent = session->link->is_pending && !session->link->is_blocked;
}

/* Frames leave, and counters with them. */
static void tell_frames(struct amb_session *session, int64_t now_ns)
{
    struct amb_session_word *word = &session->word;
    if (word->was_alone) {
        bool is_reply = now_ns - word->told_ns < AMB_TELL_SOON_NS;
        word->was_alone = false;
        word->replies = !is_reply                               ? 0
                        : word->replies < AMB_TELL_REPLIES_MANY ? word->replies + 1
                                                                : AMB_TELL_REPLIES_MANY;
    }
    flush(session);
}

static void tell_counters(struct amb_session *session, int64_t now_ns)
{
    struct amb_session_word *word = &session->word;
    if (word->was_alone || word->is_held) {
        word->replies = 0; /* No frame has followed. */
    }
    word->was_alone = true;
    word->told_ns = now_ns;
    flush(session);
}

/* Of a flow without replies: do its receipts wait for the next one? */
static bool waits_for_next(struct amb_session_word *word, bool is_new, int64_t now_ns)
{
    if (is_new ? amb_rhythm_waits(&word->flow, now_ns)
               : word->flow.since_ns != 0 && now_ns - word->flow.since_ns < AMB_RHYTHM_HOLD_NS) {
        word->due_ns = word->flow.since_ns + AMB_RHYTHM_HOLD_NS;
        return true;
    }
    amb_rhythm_left(&word->flow, now_ns);
    return false;
}

/* Only counters are to be told. Do they wait for a frame, or for more of them? */
static bool is_kept_back(struct amb_session *session, int64_t now_ns)
{
    struct amb_session_word *word = &session->word;
    bool is_new = word->is_new;
    word->is_new = false;
    if (word->is_urgent) {
        return false;
    }
    if (word->replies < AMB_TELL_REPLIES_MANY) {
        return waits_for_next(word, is_new, now_ns);
    }
    if (!word->is_held) {
        word->is_held = true;
        word->due_ns = now_ns + AMB_TELL_SOON_NS;
    }
    return now_ns < word->due_ns;
}

void amb_tell_all(struct amb_shard *shard)
{
    struct amb_session *after[TELL_AFTER_MAX];
    unsigned count = 0;
    shard->poll.tell_due_ns = INT64_MAX;
    AMB_LIST_FOR_EACH (node, &shard->poll.warm) {
        struct amb_session *session = AMB_CONTAINER_OF(node, struct amb_session, heat);
        if (!amb_session_is_up(session)) {
            continue;
        }
        amb_commit_tell(session);
        if (!session->is_watched) {
            amb_link_flush(session->link);
        } else if (session->link->queued != 0) {
            tell_frames(session, shard->now_ns);
        } else if (!session->word.has_news) {
            continue; /* Nothing was said to it. */
        } else if (is_kept_back(session, shard->now_ns)) {
            int64_t due_ns = session->word.due_ns;
            shard->poll.tell_due_ns =
                due_ns < shard->poll.tell_due_ns ? due_ns : shard->poll.tell_due_ns;
        } else if (count < TELL_AFTER_MAX) {
            after[count++] = session;
        } else {
            tell_counters(session, shard->now_ns);
        }
    }
    /* A flush ends no session: links go down in polls. */
    for (unsigned i = 0; i < count; i++) {
        tell_counters(after[i], shard->now_ns);
    }
}

int64_t amb_tell_due(struct amb_shard *shard)
{
    return shard->poll.tell_due_ns;
}
