/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/session/retire.h"

#include "broker/session/outgoing.h"
#include "broker/session/session.h"
#include "broker/shard/shard.h"
#include "wire/base/log.h"
#include "wire/codec/frame.h"

#include <inttypes.h>
#include <stdlib.h>

struct retire {
    struct amb_mail mail;
    uint64_t segment;
};

static void session_drop(struct amb_session *session, uint64_t segment)
{
    (void)amb_session_forget_segment(session, segment);
    if (!amb_session_is_up(session)) {
        return;
    }
    const struct amb_frame frame = {.type = AMB_FRAME_SEG_DROP, .segment = segment};
    if (amb_outgoing_send(session, &frame, NULL, NULL, NULL) != AMB_OK) {
        amb_debug("client %" PRIu64 ": could not be told to drop segment %" PRIu64,
                  session->client_id, segment);
    }
}

static void retire_arrived(struct amb_mail *mail, void *owner)
{
    struct amb_shard *shard = owner;
    struct retire *retire = AMB_CONTAINER_OF(mail, struct retire, mail);
    AMB_LIST_FOR_EACH (node, &shard->sessions.live) {
        struct amb_session *session = AMB_CONTAINER_OF(node, struct amb_session, live);
        if (amb_session_retire_segment(session, retire->segment)) {
            session_drop(session, retire->segment);
        }
    }
    free(retire);
}

void amb_retire_segment(struct amb_shard *shard, uint64_t segment)
{
    for (unsigned i = 0; i < shard->peer_count; i++) {
        struct retire *retire = malloc(sizeof(*retire));
        if (retire == NULL) {
            /* Clients keep the mapping until their session ends. */
            amb_warn("no memory to have segment %" PRIu64 " dropped", segment);
            continue;
        }
        retire->segment = segment;
        amb_mail_post(&shard->peers[i]->inbox, &retire->mail, retire_arrived);
    }
}

void amb_retire_or_use(struct amb_session *session, uint64_t segment)
{
    if (amb_session_is_retired(session, segment)) {
        session_drop(session, segment);
        return;
    }
    amb_session_mapping(session, segment, AMB_MAPPING_READY);
    amb_session_unstall(session);
}
