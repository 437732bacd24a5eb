/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The desk: what broker/control/requests/requests.c and broker/control/clients/client.c do on the
 * control thread, without its sockets and messages. The directory, its queues, the identities and
 * all orders are the broker's own.
 */
#include "tests/sim/desk.h"
#include "broker/base/tenant.h"
#include "broker/config/config.h"
#include "broker/control/directory/directory_chores.h"
#include "broker/control/directory/directory_counts.h"
#include "broker/control/directory/directory_leave.h"
#include "broker/control/directory/directory_wake.h"
#include "broker/control/directory/queues.h"
#include "broker/ingest/route.h"
#include "broker/session/retire.h"
#include "broker/session/session.h"
#include "broker/shard/entry.h"
#include "broker/shard/entry_share.h"
#include "broker/topic/topic.h"
#include "broker/worker/dispatch.h"
#include "broker/worker/orders_session.h"
#include "wire/base/assert.h"
#include "wire/base/clock.h"
#include "wire/link/sim.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TICK_NS (20 * AMB_NS_PER_MS)

struct letter {
    struct amb_mail mail;
    struct amb_entry *entry;
    char topic[64];
};

struct note {
    struct amb_mail mail;
    uint64_t client;
    struct sim_ask answer;
    enum amb_status why;
};

static struct visit visits[SIM_SESSIONS];
static uint32_t generations[SIM_SHARDS_MAX][SIM_SESSIONS]; /* odd: in use */
static uint64_t next_id;
static int64_t tick_ns;

/* Answers -------------------------------------------------------------------------------------- */

struct sim_client *desk_client(struct sim *s, const struct visit *visit)
{
    struct sim_client *client = &s->clients[visit->slot];
    return client->is_up && client->id == visit->id ? client : NULL;
}

void desk_tell(struct sim *s, const struct visit *visit, const struct sim_ask *answer)
{
    struct sim_client *client = desk_client(s, visit);
    if (client != NULL) {
        SIM_CHECK(s, client->answers.count < SIM_ASKS, "too many answers wait");
        struct sim_asks *asks = &client->answers;
        asks->items[(asks->first + asks->count++) % SIM_ASKS] = *answer;
    }
}

void *desk_order(const struct amb_order_kind *kind, amb_order_done_fn done, struct visit *visit,
                 void *context)
{
    struct amb_order *order = amb_order_new(kind, done, context);
    amb_assert(order != NULL);
    order->session = visit->session;
    return order;
}

void desk_post(struct sim *s, const struct visit *visit, struct amb_order *order)
{
    amb_order_post(s->peers[visit->session.shard], order);
}

/* Sessions ------------------------------------------------------------------------------------- */

bool sim_desk_open(struct sim *s, struct sim_client *client)
{
    uint32_t at = 0, index = 0;
    while (at < SIM_SESSIONS && (visits[at].state != VISIT_FREE || visits[at].waiting != 0)) {
        at++;
    }
    while (index < SIM_SESSIONS && (generations[client->shard][index] & 1) != 0) {
        index++;
    }
    if (at == SIM_SESSIONS || index == SIM_SESSIONS) {
        return false;
    }
    struct visit *visit = &visits[at];
    *visit = (struct visit){.state = VISIT_LIVE, .slot = client->slot, .id = ++next_id};
    visit->may_map = client->may_map;
    visit->session =
        (struct amb_session_id){client->shard, index, ++generations[client->shard][index]};
    client->session = at;
    client->id = visit->id;
    client->index = index;
    client->generation = visit->session.generation;
    struct amb_session *session;
    struct amb_shard *shard = s->peers[client->shard];
    amb_assert(amb_session_create(shard, index, client->generation, 0, visit->id, &session) ==
               AMB_OK);
    session->may_map = session->is_on_host = client->may_map;
    session->maps = UINT64_MAX;
    session->entry_share = amb_entry_share_open(shard, s->party[client->slot]);
    amb_assert(session->entry_share != NULL);
    const struct amb_link_events *events[2] = {&amb_dispatch_events, &sim_client_events};
    void *args[2] = {session, client};
    struct amb_link *ends[2];
    const struct amb_sim_options options = {
        .handles = SIM_HANDLES,
        .bytes_max = sim_chance(s, 25) ? 1 + sim_pick(s, 20000) : 0,
        .poll_frames = s->is_slow          ? 1
                       : sim_chance(s, 25) ? 1 + sim_pick(s, 5)
                                           : 0,
    };
    amb_assert(amb_sim_create(&options, events, args, ends) == AMB_OK);
    session->link = ends[0];
    client->link = ends[1];
    SIM_EVENT(s, "session client shard index generation", client->slot, client->shard, index,
              client->generation);
    return true;
}

static void visit_over(struct visit *visit)
{
    generations[visit->session.shard][visit->session.index]++;
    visit->state = VISIT_FREE;
}

static void visit_released(void *owner, struct amb_order *order)
{
    (void)owner;
    struct visit *visit = order->context;
    visit->waiting--;
    visit_over(visit);
    amb_order_free(order);
}

static void visit_release(struct sim *s, struct visit *visit)
{
    visit->waiting++;
    visit->state = VISIT_ENDING;
    desk_post(s, visit, desk_order(&amb_order_session_release, visit_released, visit, visit));
}

static void visit_closed(void *owner, struct amb_order *order)
{
    struct sim *s = owner;
    struct visit *visit = order->context;
    visit->waiting--;
    uint64_t held =
        AMB_CONTAINER_OF(order, struct amb_order_session_end, order)->closing.quarantined_bytes;
    amb_order_free(order);
    SIM_EVENT(s, "closed session held", (uint64_t)(visit - visits), held);
    if (held == 0) {
        visit_over(visit);
    } else if (visit->is_dead) {
        visit_release(s, visit);
    } else {
        visit->state = VISIT_QUARANTINED;
    }
}

static void visit_heard(void *owner, struct amb_order *order)
{
    (void)owner;
    struct visit *visit = order->context;
    visit->waiting--;
    visit->is_heard = true;
    amb_order_free(order);
}

static void visit_end(struct sim *s, struct visit *visit)
{
    if (visit->state != VISIT_LIVE) {
        return;
    }
    SIM_EVENT(s, "end session", (uint64_t)(visit - visits));
    visit->state = VISIT_ENDING;
    for (uint32_t h = 0; h < SIM_HANDLES; h++) {
        desk_forget_publisher(s, visit, h);
        if (visit->subs[h] != NULL) {
            amb_queues_unsubscribe(&s->directory, visit->subs[h]);
            free(visit->subs[h]);
            visit->subs[h] = NULL;
        }
    }
    struct sim_client *client = desk_client(s, visit);
    for (uint32_t h = 0; client != NULL && h < SIM_HANDLES; h++) {
        model_left(s, &client->subs[h]);
    }
    desk_tell(s, visit, &(struct sim_ask){.kind = SIM_ASK_ENDED});
    visit->waiting++;
    struct amb_order_session_end *end =
        desk_order(&amb_order_session_close, visit_closed, visit, visit);
    end->closing.keep_held = visit->may_map && !visit->said_bye && !visit->is_dead;
    desk_post(s, visit, &end->order);
    visit->waiting++;
    desk_post(s, visit, desk_order(&amb_order_session_heard, visit_heard, visit, visit));
}

bool sim_desk_end_former(struct sim *s, const struct sim_client *client)
{
    struct visit *visit = &visits[client->session];
    if (visit->state == VISIT_FREE || visit->id != client->id) {
        return true;
    }
    visit_end(s, visit);
    return visit->is_heard;
}

void sim_desk_died(struct sim *s, unsigned slot)
{
    for (uint32_t i = 0; i < SIM_SESSIONS; i++) {
        struct visit *visit = &visits[i];
        if (visit->state == VISIT_FREE || visit->slot != slot) {
            continue;
        }
        visit->is_dead = true;
        if (visit->state == VISIT_QUARANTINED) {
            visit_release(s, visit);
        } else {
            visit_end(s, visit);
        }
    }
}

/* Upcalls of workers --------------------------------------------------------------------------- */

static struct visit *visit_find(uint64_t id)
{
    for (uint32_t i = 0; i < SIM_SESSIONS; i++) {
        if (visits[i].id == id && visits[i].state == VISIT_LIVE) {
            return &visits[i];
        }
    }
    return NULL;
}

static void note_arrived(struct amb_mail *mail, void *owner)
{
    struct note *note = AMB_CONTAINER_OF(mail, struct note, mail);
    struct visit *visit = visit_find(note->client);
    if (visit != NULL && note->answer.kind == SIM_ASK_ENDED) {
        visit_end(owner, visit);
    } else if (visit != NULL) {
        desk_tell(owner, visit, &note->answer);
    }
    free(note);
}

static void note_post(struct amb_shard *shard, uint64_t client, const struct sim_ask *answer)
{
    struct note *note = calloc(1, sizeof(*note));
    amb_assert(note != NULL);
    note->client = client;
    note->answer = *answer;
    amb_mail_post(shard->control, &note->mail, note_arrived);
}

static void offer_segment(struct amb_shard *shard, uint64_t client, uint64_t segment, uint64_t size,
                          int fd)
{
    (void)size;
    (void)close(fd);
    note_post(shard, client, &(struct sim_ask){.kind = SIM_ASK_OFFER, .number = segment});
}

static void session_ended(struct amb_shard *shard, uint64_t client, enum amb_status why,
                          const char *text)
{
    struct sim *s = shard->control->owner;
    SIM_EVENT(s, "ended client why", client, (uint64_t) - (int64_t)why);
    SIM_CHECK(s, why == AMB_ELOST || why == AMB_EKICKED, "a session is ended: %s", text);
    note_post(shard, client, &(struct sim_ask){.kind = SIM_ASK_ENDED});
}

static void letter_arrived(struct amb_mail *mail, void *owner)
{
    struct sim *s = owner;
    struct letter *letter = AMB_CONTAINER_OF(mail, struct letter, mail);
    struct amb_entry *entry = letter->entry;
    struct amb_dir_topic *topic = NULL;
    unsigned home = entry->home->index;
    entry->status = amb_directory_topic(&s->directory, AMB_TENANT_OPERATORS, letter->topic,
                                        strlen(letter->topic), home, NULL, &topic);
    if (entry->status == AMB_OK) {
        entry->topic = topic->id;
        home = topic->home;
    }
    amb_route_hand_over(s->peers[home], entry);
    free(letter);
}

static void topic_heard_arrived(struct amb_mail *mail, void *owner)
{
    struct sim *s = owner;
    amb_directory_heard(&s->directory, AMB_CONTAINER_OF(mail, struct amb_topic, audience.heard));
}

static void topic_heard(struct amb_topic *topic)
{
    amb_mail_post(topic->shard->control, &topic->audience.heard, topic_heard_arrived);
}

static void dead_letter(struct amb_shard *shard, struct amb_entry *entry, uint32_t tenant,
                        const char *topic)
{
    amb_assert(tenant == AMB_TENANT_OPERATORS);
    struct letter *letter = calloc(1, sizeof(*letter));
    amb_assert(letter != NULL);
    letter->entry = entry;
    strncpy(letter->topic, topic, sizeof(letter->topic) - 1);
    amb_mail_post(shard->control, &letter->mail, letter_arrived);
}

void sim_desk_connect_upcalls(struct amb_shard *shard)
{
    static const struct amb_shard_upcalls upcalls = {
        .offer_segment = offer_segment,
        .segment_gone = amb_retire_segment,
        .session_ended = session_ended,
        .dead_letter = dead_letter,
        .topic_heard = topic_heard,
    };
    shard->upcalls = &upcalls;
}

/* Turns ---------------------------------------------------------------------------------------- */

bool sim_desk_ask(struct sim *s, struct sim_client *client, const struct sim_ask *ask)
{
    (void)s;
    struct sim_asks *asks = &visits[client->session].asks;
    if (visits[client->session].id != client->id) {
        return true; /* Its connection is closed, and it has not heard of it. */
    }
    if (asks->count == SIM_ASKS) {
        return false;
    }
    asks->items[(asks->first + asks->count++) % SIM_ASKS] = *ask;
    return true;
}

/* Heartbeats are frames of the control connection, which a frozen client does not send. */
static void expire(struct sim *s, struct visit *visit)
{
    const struct sim_client *client = desk_client(s, visit);
    if (client != NULL && client->frozen_ns > s->now_ns &&
        s->now_ns - client->turned_ns > SIM_PEER_TIMEOUT_NS) {
        visit_end(s, visit);
    }
}

unsigned sim_desk_turn(struct sim *s, unsigned budget)
{
    s->directory.now_ns = s->now_ns;
    unsigned done = amb_inbox_run(&s->control);
    for (uint32_t i = 0; i < SIM_SESSIONS; i++) {
        struct visit *visit = &visits[i];
        for (unsigned n = 0; n < budget && visit->state == VISIT_LIVE && visit->asks.count > 0;
             n++) {
            struct sim_ask ask = visit->asks.items[visit->asks.first];
            visit->asks.first = (visit->asks.first + 1) % SIM_ASKS;
            visit->asks.count--;
            if (ask.kind == SIM_ASK_BYE) {
                visit->said_bye = true;
                visit_end(s, visit);
            } else {
                desk_request(s, visit, &ask);
            }
            done++;
        }
        if (visit->state == VISIT_LIVE) {
            expire(s, visit);
        }
    }
    amb_directory_work(&s->directory);
    amb_directory_tell(&s->directory);
    if (s->now_ns >= tick_ns) {
        tick_ns = s->now_ns + TICK_NS;
        amb_directory_tick(&s->directory);
        amb_queues_tick(&s->directory);
    }
    return done;
}

bool sim_desk_is_quiet(void)
{
    for (uint32_t i = 0; i < SIM_SESSIONS; i++) {
        if (visits[i].waiting != 0 || (visits[i].state == VISIT_LIVE && visits[i].asks.count > 0)) {
            return false;
        }
    }
    return true;
}

bool sim_desk_has_quarantine(void)
{
    for (uint32_t i = 0; i < SIM_SESSIONS; i++) {
        if (visits[i].state == VISIT_QUARANTINED) {
            return true;
        }
    }
    return false;
}

void sim_desk_begin(struct sim *s)
{
    memset(visits, 0, sizeof(visits));
    memset(generations, 0, sizeof(generations));
    next_id = 0;
    tick_ns = 0;
    amb_assert(amb_inbox_init(&s->control, s) == AMB_OK);
    amb_assert(amb_identities_init(&s->identities) == AMB_OK);
    amb_assert(amb_directory_init(&s->directory, s->config, s->peers, s->shard_count) == AMB_OK);
}

/* Sessions are gone; queues end while the shards still run. */
void sim_desk_end(struct sim *s)
{
    for (uint32_t i = 0; i < SIM_SESSIONS; i++) {
        SIM_CHECK(s, visits[i].state == VISIT_FREE, "session %u is not over", i);
    }
    amb_directory_fini(&s->directory);
    amb_queues_forget(&s->directory);
    amb_identities_fini(&s->identities);
    amb_inbox_fini(&s->control);
}
