/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The desk: what broker/requests.c and broker/client.c do on the control thread, without its
 * sockets and messages. The directory, its queues, the identities and all orders are the broker's
 * own.
 */
#include "broker/config.h"
#include "broker/dispatch.h"
#include "broker/entry.h"
#include "broker/orders.h"
#include "broker/queues.h"
#include "broker/retire.h"
#include "broker/route.h"
#include "broker/session.h"
#include "tests/sim/sim.h"
#include "wire/base/assert.h"
#include "wire/base/clock.h"
#include "wire/codec/position.h"
#include "wire/link/sim.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define POSITION_ROOM 1024u
#define TICK_NS (20 * AMB_NS_PER_MS)

enum visit_state {
    VISIT_FREE,
    VISIT_LIVE,
    VISIT_ENDING,
    VISIT_QUARANTINED,
};

/* A session, as the control thread knows it. */
struct visit {
    enum visit_state state;
    unsigned slot;
    uint64_t id;
    struct amb_session_id session;
    bool may_map, said_bye, is_dead;
    struct amb_dir_publisher *pubs[SIM_HANDLES];
    struct amb_dir_sub *subs[SIM_HANDLES];
    struct sim_asks asks;
    unsigned waiting; /* orders of its requests */
};

/* A request whose answer waits for orders. */
struct request {
    struct sim *sim;
    struct visit *visit;
    struct sim_ask answer;
    uint64_t sub;
    unsigned waiting;
};

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

static struct sim_client *client_of(struct sim *s, const struct visit *visit)
{
    struct sim_client *client = &s->clients[visit->slot];
    return client->is_up && client->id == visit->id ? client : NULL;
}

static void tell(struct sim *s, const struct visit *visit, const struct sim_ask *answer)
{
    struct sim_client *client = client_of(s, visit);
    if (client != NULL) {
        SIM_CHECK(s, client->answers.count < SIM_ASKS, "too many answers wait");
        struct sim_asks *asks = &client->answers;
        asks->items[(asks->first + asks->count++) % SIM_ASKS] = *answer;
    }
}

static struct request *request_create(struct sim *s, struct visit *visit, const struct sim_ask *ask)
{
    struct request *request = calloc(1, sizeof(*request));
    amb_assert(request != NULL);
    request->sim = s;
    request->visit = visit;
    request->answer = *ask;
    request->waiting = 1;
    visit->waiting++;
    return request;
}

/* One of its orders has come back. True: that was the last one. */
static bool request_step(struct request *request, struct amb_order *order)
{
    if (order->status != AMB_OK && request->answer.status == AMB_OK) {
        request->answer.status = order->status;
    }
    amb_order_free(order);
    return --request->waiting == 0;
}

static void request_end(struct request *request)
{
    if (request->visit->state == VISIT_LIVE) {
        tell(request->sim, request->visit, &request->answer);
    }
    request->visit->waiting--;
    free(request);
}

static struct amb_order *order_of(amb_order_fn run, amb_order_done_fn done, struct visit *visit,
                                  void *context)
{
    struct amb_order *order = amb_order_create(run, done, context);
    amb_assert(order != NULL);
    order->session = visit->session;
    return order;
}

static void post(struct sim *s, const struct visit *visit, struct amb_order *order)
{
    amb_order_post(s->peers[visit->session.shard], order);
}

/* Publishers ----------------------------------------------------------------------------------- */

static void publisher_forget(struct sim *s, struct visit *visit, uint32_t handle)
{
    struct amb_dir_publisher *publisher = visit->pubs[handle];
    if (publisher != NULL) {
        amb_directory_unpublish(&s->directory, publisher);
        amb_identity_give(&s->identities, publisher->identity, s->now_ns);
        free(publisher);
        visit->pubs[handle] = NULL;
    }
}

static void publisher_opened(void *owner, struct amb_order *order)
{
    (void)owner;
    struct request *request = order->context;
    request->answer.number = order->u.publisher.window;
    request->answer.last_seq = order->u.publisher.last_seq;
    if (order->status != AMB_OK && request->visit->state == VISIT_LIVE) {
        publisher_forget(request->sim, request->visit, request->answer.handle);
    }
    (void)request_step(request, order);
    request_end(request);
}

/* The worker that had the name has read that it is over. */
static void identity_known(void *owner, struct amb_order *fence)
{
    struct sim *s = owner;
    struct amb_order *order = fence->context;
    struct amb_identity *identity = order->u.publisher.identity;
    amb_order_free(fence);
    order->u.publisher.last_seq = identity->seq;
    identity->shard = order->session.shard;
    identity->was_taken = true;
    amb_order_post(s->peers[order->session.shard], order);
}

static void pub_open(struct sim *s, struct visit *visit, const struct sim_ask *ask)
{
    const struct sim_publisher *wish = &s->clients[visit->slot].pubs[ask->handle];
    const char *name = s->names[wish->topic];
    struct amb_dir_topic *topic;
    struct sim_ask answer = *ask;
    struct amb_identity *identity = NULL;
    answer.status =
        amb_directory_topic(&s->directory, name, strlen(name), visit->session.shard, &topic);
    if (answer.status == AMB_OK) {
        answer.status = amb_directory_priority(&s->directory, topic, wish->priority, &topic);
    }
    if (answer.status == AMB_OK && wish->name != 0) {
        char id[2] = {(char)('a' + wish->name), '\0'};
        answer.status = amb_identity_take(&s->identities, 0, id, name, wish->priority, s->now_ns,
                                          s->config->limits.dedup_window_ns, &identity);
    }
    if (answer.status != AMB_OK) {
        tell(s, visit, &answer);
        return;
    }
    struct amb_dir_publisher *publisher = calloc(1, sizeof(*publisher));
    amb_assert(publisher != NULL);
    amb_list_init(&publisher->of_topic);
    publisher->session = visit->session;
    publisher->handle = ask->handle;
    publisher->identity = identity;
    visit->pubs[ask->handle] = publisher;
    amb_directory_publish(publisher, topic);
    answer.topic = topic->id;
    struct request *request = request_create(s, visit, &answer);
    struct amb_order *order = order_of(amb_order_publisher_open, publisher_opened, visit, request);
    order->u.publisher.identity = identity;
    order->u.publisher.handle = ask->handle;
    order->u.publisher.topic = topic->id;
    order->u.publisher.home = topic->home;
    order->u.publisher.wants_settled = wish->wants_settled;
    if (identity != NULL && identity->was_taken) {
        struct amb_order *fence = amb_order_create(amb_order_nothing, identity_known, order);
        amb_assert(fence != NULL);
        amb_order_post(s->peers[identity->shard], fence);
    } else if (identity != NULL) {
        identity->shard = visit->session.shard;
        identity->was_taken = true;
        order->u.publisher.last_seq = identity->seq;
        post(s, visit, order);
    } else {
        post(s, visit, order);
    }
}

static void publisher_closed(void *owner, struct amb_order *order)
{
    (void)owner;
    struct request *request = order->context;
    if (request->visit->state == VISIT_LIVE) {
        publisher_forget(request->sim, request->visit, request->answer.handle);
    }
    (void)request_step(request, order);
    request_end(request);
}

static void pub_close(struct sim *s, struct visit *visit, const struct sim_ask *ask)
{
    struct request *request = request_create(s, visit, ask);
    struct amb_order *order = order_of(amb_order_publisher_close, publisher_closed, visit, request);
    visit->pubs[ask->handle]->is_closing = true;
    order->u.publisher.handle = ask->handle;
    order->u.publisher.batches = ask->number;
    post(s, visit, order);
}

/* Subscriptions -------------------------------------------------------------------------------- */

static void sub_forget(struct sim *s, struct visit *visit, uint32_t handle, uint64_t id)
{
    struct amb_dir_sub *sub = visit->subs[handle];
    if (sub != NULL && sub->id == id) {
        amb_queues_unsubscribe(&s->directory, sub);
        free(sub);
        visit->subs[handle] = NULL;
    }
}

static void subscribe_step(void *owner, struct amb_order *order)
{
    (void)owner;
    struct request *request = order->context;
    if (request_step(request, order)) {
        if (request->answer.status != AMB_OK && request->visit->state == VISIT_LIVE) {
            sub_forget(request->sim, request->visit, request->answer.handle, request->sub);
        }
        request_end(request);
    }
}

/* From where its client has come to, topic by topic. */
static void write_position(struct sim *s, const struct sim_sub *wish, struct amb_dir_sub *sub)
{
    struct amb_position_writer writer;
    sub->position = (uint8_t *)(sub + 1);
    amb_position_begin(&writer, sub->position, POSITION_ROOM);
    for (unsigned i = 0; i < wish->reading_count; i++) {
        const struct model_topic *topic = &s->model.topics[wish->readings[i].topic];
        const struct amb_position_topic at = {.id = topic->id,
                                              .next = wish->readings[i].expected,
                                              .priority = topic->priority,
                                              .name = topic->name,
                                              .name_len = (uint32_t)strlen(topic->name)};
        if (wish->readings[i].expected != 0) {
            amb_position_add(&writer, &at);
        }
    }
    SIM_CHECK(s, amb_position_end(&writer, 1, 0) == AMB_OK, "a position is too long");
    sub->position_len = (uint32_t)writer.len;
    sub->begin = (struct amb_begin){
        .start = AMB_START_TIME, .at = (uint64_t)(INT64_C(1700000000000000000) + wish->first_ns)};
}

static struct amb_dir_sub *make_sub(struct sim *s, struct visit *visit, uint32_t handle)
{
    const struct sim_sub *wish = &s->clients[visit->slot].subs[handle];
    struct amb_dir_sub *sub = calloc(1, sizeof(*sub) + POSITION_ROOM);
    amb_assert(sub != NULL);
    sub->id = amb_directory_next_sub(&s->directory);
    sub->session = visit->session;
    sub->client_id = visit->id;
    sub->handle = handle;
    sub->options = wish->options;
    sub->begin = wish->begin;
    sub->pattern_len = (uint32_t)strlen(wish->pattern);
    memcpy(sub->pattern, wish->pattern, sub->pattern_len);
    if (wish->resumes) {
        write_position(s, wish, sub);
    }
    return sub;
}

static void subscribe(struct sim *s, struct visit *visit, const struct sim_ask *ask)
{
    struct sim_sub *wish = &s->clients[visit->slot].subs[ask->handle];
    struct amb_dir_sub *sub = make_sub(s, visit, ask->handle);
    struct request *request = request_create(s, visit, ask);
    struct amb_order *order = order_of(amb_order_subscription_open, subscribe_step, visit, request);
    visit->subs[ask->handle] = sub;
    request->sub = sub->id;
    order->u.subscription.handle = ask->handle;
    order->u.subscription.options = sub->options;
    order->u.subscription.id = sub->id;
    if (wish->wish == 0) {
        post(s, visit, order);
        request->waiting += amb_directory_subscribe(&s->directory, sub, subscribe_step, request);
        return;
    }
    const struct model_queue *queue = &s->model.queues[wish->wish];
    const struct amb_queue_wish queue_wish = {
        .group = queue->group, .durable = queue->durable, .options = queue->options};
    const char *why = "";
    unsigned posted;
    request->answer.status = amb_queues_subscribe(&s->directory, sub, &queue_wish, order,
                                                  subscribe_step, request, &posted, &why);
    if (request->answer.status == AMB_OK) {
        wish->queue = model_queue(s, wish->wish, sub->queue->sub.id);
        request->waiting += posted;
        post(s, visit, order);
        return;
    }
    amb_order_free(order);
    visit->subs[ask->handle] = NULL;
    free(sub);
    request_end(request);
}

static void subscription_closed(void *owner, struct amb_order *order)
{
    (void)owner;
    struct request *request = order->context;
    if (request->visit->state == VISIT_LIVE) {
        sub_forget(request->sim, request->visit, request->answer.handle, request->sub);
    }
    (void)request_step(request, order);
    request_end(request);
}

static void unsubscribe(struct sim *s, struct visit *visit, const struct sim_ask *ask)
{
    struct amb_dir_sub *sub = visit->subs[ask->handle];
    struct request *request = request_create(s, visit, ask);
    struct amb_order *order =
        order_of(amb_order_subscription_close, subscription_closed, visit, request);
    request->sub = sub->id;
    order->u.subscription.handle = ask->handle;
    order->u.subscription.acks = ask->number;
    if (sub->queue == NULL) {
        amb_directory_unsubscribe(&s->directory, sub);
    } else {
        sub->is_closing = true;
    }
    post(s, visit, order);
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
    session->may_map = client->may_map;
    const struct amb_link_events *events[2] = {&amb_dispatch_events, &sim_client_events};
    void *args[2] = {session, client};
    struct amb_link *ends[2];
    const struct amb_sim_options options = {
        .handles = SIM_HANDLES,
        .bytes_max = sim_chance(s, 25) ? 1 + sim_pick(s, 20000) : 0,
        .poll_frames = sim_chance(s, 25) ? 1 + sim_pick(s, 5) : 0,
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
    post(s, visit, order_of(amb_order_session_release, visit_released, visit, visit));
}

static void visit_closed(void *owner, struct amb_order *order)
{
    struct sim *s = owner;
    struct visit *visit = order->context;
    visit->waiting--;
    uint64_t held = order->u.close.held_bytes;
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

static void visit_end(struct sim *s, struct visit *visit)
{
    if (visit->state != VISIT_LIVE) {
        return;
    }
    SIM_EVENT(s, "end session", (uint64_t)(visit - visits));
    visit->state = VISIT_ENDING;
    for (uint32_t h = 0; h < SIM_HANDLES; h++) {
        publisher_forget(s, visit, h);
        if (visit->subs[h] != NULL) {
            amb_queues_unsubscribe(&s->directory, visit->subs[h]);
            free(visit->subs[h]);
            visit->subs[h] = NULL;
        }
    }
    struct sim_client *client = client_of(s, visit);
    for (uint32_t h = 0; client != NULL && h < SIM_HANDLES; h++) {
        model_left(s, &client->subs[h]);
    }
    tell(s, visit, &(struct sim_ask){.kind = SIM_ASK_ENDED});
    visit->waiting++;
    struct amb_order *order = order_of(amb_order_session_close, visit_closed, visit, visit);
    order->u.close.keep_held = visit->may_map && !visit->said_bye && !visit->is_dead;
    post(s, visit, order);
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
        tell(owner, visit, &note->answer);
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
    entry->status =
        amb_directory_topic(&s->directory, letter->topic, strlen(letter->topic), home, &topic);
    if (entry->status == AMB_OK) {
        entry->topic = topic->id;
        home = topic->home;
    }
    amb_route_hand_over(s->peers[home], entry);
    free(letter);
}

static void dead_letter(struct amb_shard *shard, struct amb_entry *entry, const char *topic)
{
    struct letter *letter = calloc(1, sizeof(*letter));
    amb_assert(letter != NULL);
    letter->entry = entry;
    strncpy(letter->topic, topic, sizeof(letter->topic) - 1);
    amb_mail_post(shard->control, &letter->mail, letter_arrived);
}

void sim_desk_connect_upcalls(struct amb_shard *shard)
{
    shard->offer_segment = offer_segment;
    shard->session_ended = session_ended;
    shard->dead_letter = dead_letter;
    shard->segment_gone = amb_retire_segment;
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

static void answer(struct sim *s, struct visit *visit, const struct sim_ask *ask)
{
    switch (ask->kind) {
    case SIM_ASK_PUB_OPEN:
        pub_open(s, visit, ask);
        break;
    case SIM_ASK_PUB_CLOSE:
        pub_close(s, visit, ask);
        break;
    case SIM_ASK_SUBSCRIBE:
        subscribe(s, visit, ask);
        break;
    case SIM_ASK_UNSUBSCRIBE:
        unsubscribe(s, visit, ask);
        break;
    case SIM_ASK_REFUSE: {
        struct amb_order *order = order_of(amb_order_segment_refused, NULL, visit, NULL);
        order->u.segment.segment = ask->number;
        post(s, visit, order);
        break;
    }
    case SIM_ASK_BYE:
        visit->said_bye = true;
        visit_end(s, visit);
        break;
    case SIM_ASK_OFFER:
    case SIM_ASK_ENDED:
        break;
    }
}

/* Heartbeats are frames of the control connection, which a frozen client does not send. */
static void expire(struct sim *s, struct visit *visit)
{
    const struct sim_client *client = client_of(s, visit);
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
            answer(s, visit, &ask);
            done++;
        }
        if (visit->state == VISIT_LIVE) {
            expire(s, visit);
        }
    }
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
