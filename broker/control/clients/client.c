/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/control/clients/client_private.h"

#include "broker/base/party.h"
#include "broker/config/config.h"
#include "broker/control/clients/client_io.h"
#include "broker/control/clients/control.h"
#include "broker/control/clients/events.h"
#include "broker/control/directory/directory_pairs.h"
#include "broker/control/directory/queues.h"
#include "broker/delivery/slow.h"
#include "broker/memory/gpupool.h"
#include "broker/shard/shard.h"
#include "broker/worker/orders_session.h"
#include "broker/worker/porter.h"
#include "wire/base/assert.h"
#include "wire/base/clock.h"
#include "wire/base/log.h"
#include "wire/base/passed.h"

#include <inttypes.h>
#include <jansson.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

static void client_on_pidfd(struct amb_watch *watch, uint32_t events);

enum amb_status amb_client_create(struct amb_control *control, int fd, bool is_unix,
                                  struct amb_client **out)
{
    struct amb_client *client = calloc(1, sizeof(*client));
    if (is_unix) {
        amb_passed_prepare(fd);
    }
    if (client == NULL) {
        amb_porter_close(control->porter, fd);
        return AMB_ENOMEM;
    }
    client->watch.fn = amb_client_on_events;
    client->pidfd_watch.fn = client_on_pidfd;
    client->control = control;
    client->state = AMB_CLIENT_HELLO;
    client->id = ++control->next_client;
    client->fd = fd;
    client->pidfd = -1;
    client->passed_fd = -1;
    client->is_unix = is_unix;
    client->connected_ns = control->now_ns;
    client->seen_ns = control->now_ns;
    client->deadline_ns =
        amb_deadline_ns(control->now_ns, control->config->server.handshake_timeout_ns);
    amb_control_reader_init(&client->reader);
    amb_list_init(&client->out);
    amb_heap_init(&client->heap,
                  amb_heap_control_share(control->config->limits.max_heap_per_session));
    amb_heap_take(&client->heap, sizeof(*client) + AMB_CONTROL_MAX + 2 * AMB_HEAP_OVERHEAD);
    client->watched = EPOLLIN | EPOLLRDHUP | EPOLLHUP;
    enum amb_status status = amb_idmap_put(&control->by_id, &client->known, client->id);
    if (status == AMB_OK) {
        status = amb_watch_add(&control->watches, &client->watch, fd, client->watched);
        if (status != AMB_OK) {
            amb_idmap_remove(&control->by_id, &client->known);
        }
    }
    if (status != AMB_OK) {
        amb_porter_close(control->porter, fd);
        free(client);
        return status;
    }
    amb_list_push_back(&control->clients, &client->node);
    control->client_count++;
    control->half_open_count++;
    *out = client;
    return AMB_OK;
}

struct amb_client *amb_client_find(const struct amb_control *control, uint64_t id)
{
    struct amb_idmap_node *node = amb_idmap_find(&control->by_id, id);
    struct amb_client *client =
        node == NULL ? NULL : AMB_CONTAINER_OF(node, struct amb_client, known);
    return client != NULL && client->state == AMB_CLIENT_LIVE ? client : NULL;
}

bool amb_client_may_map_gpu(const struct amb_client *client)
{
    enum amb_gpu_trust trust = client->control->config->memory.cuda.trust;
    return amb_client_may_map(client) && trust != AMB_GPU_TRUST_NONE &&
           (trust == AMB_GPU_TRUST_ALL || client->uid == 0 || client->uid == geteuid());
}

const char *amb_client_gpu_obstacle(const struct amb_client *client)
{
    const struct amb_gpus *gpus = client->control->shards[0]->memory.gpus;
    if (gpus == NULL || gpus->count == 0) {
        return gpus != NULL ? gpus->why_not : "the broker has no GPU memory (memory.cuda.size)";
    }
    if (!amb_client_may_map(client)) {
        return "only over the ring, by clients on the broker's host";
    }
    return amb_client_may_map_gpu(client) ? NULL
                                          : "not trusted with GPU memory (memory.cuda.trust)";
}

/* Shares -------------------------------------------------------------------------------------- */

/* The pid of a process that we see; the connection of one that we do not see; an address without
 * its port. */
static void party_name(const struct amb_client *client, char *out, size_t size)
{
    if (!client->is_unix) {
        const char *port = strrchr(client->address, ':');
        int len = port == NULL ? (int)strlen(client->address) : (int)(port - client->address);
        (void)snprintf(out, size, "%.*s", len, client->address);
    } else if (client->pid > 0) {
        (void)snprintf(out, size, "%d", (int)client->pid);
    } else {
        (void)snprintf(out, size, "c%" PRIu64, client->id);
    }
}

/* Bytes that a session may hold in place. Quarantine counts: of its process, and of its user's
 * other processes. */
static uint64_t mapped_max(const struct amb_client *client)
{
    const struct amb_config *config = client->control->config;
    uint64_t max = config->limits.max_mapped_per_session;
    uint64_t left = max > client->party->held ? max - client->party->held : 0;
    const struct amb_user *user = client->party->user;
    uint64_t most = config->memory.host.size / 2;
    uint64_t users = most > user->held ? most - user->held : 0;
    return user->held > client->party->held && users < left ? users : left;
}

/* Else the reason is in why. */
static bool user_has_room(const struct amb_client *client, uint32_t leaving, char *why, size_t size)
{
    struct amb_control *control = client->control;
    const struct amb_user *user = client->party->user;
    uint32_t max = control->config->server.max_connections;
    if (amb_user_has_room(user, AMB_SHARE_SESSIONS, leaving, max, amb_control_sessions(control),
                          control->config->limits.user_share)) {
        return true;
    }
    uint32_t own = user->used[AMB_SHARE_SESSIONS];
    own -= own < leaving ? own : leaving;
    control->stats.refused_limit++;
    (void)snprintf(why, size,
                   "limit: %" PRIu32 " of %u connections are one user's "
                   "(limits.user_share, server.max_connections)",
                   own, max);
    return false;
}

enum amb_status amb_client_take_party(struct amb_client *client, uint32_t leaving, char *why,
                                      size_t size)
{
    char name[80];
    party_name(client, name, sizeof(name));
    uint64_t user = client->is_unix ? (uint64_t)client->uid : AMB_PARTY_TCP;
    if (client->party == NULL &&
        amb_parties_find(&client->control->parties, user, name, &client->party) != AMB_OK) {
        (void)snprintf(why, size, "no memory");
        return AMB_ENOMEM;
    }
    client->mapped_max = mapped_max(client);
    if (!user_has_room(client, leaving, why, size)) {
        amb_party_unref(&client->party);
        return AMB_EBUSY;
    }
    client->party->user->used[AMB_SHARE_SESSIONS]++;
    return AMB_OK;
}

static void client_leave_party(struct amb_client *client)
{
    if (client->party == NULL) {
        return;
    }
    client->party->held -= client->charged_bytes;
    client->party->user->held -= client->charged_bytes;
    client->charged_bytes = 0;
    client->party->user->used[AMB_SHARE_SESSIONS]--;
    if (client->is_dead) {
        amb_parties_end(&client->control->parties, client->party);
    }
    amb_party_unref(&client->party);
}

void amb_client_count_sub(struct amb_client *client, int change)
{
    if (client->party != NULL) {
        client->party->user->used[AMB_SHARE_SUBSCRIPTIONS] += (uint32_t)change;
    }
}

/* Orders of ended sessions ------------------------------------------------------------------- */

static void client_charge(struct amb_client *client, uint64_t bytes)
{
    if (client->party != NULL) {
        client->party->held += bytes - client->charged_bytes;
        client->party->user->held += bytes - client->charged_bytes;
        client->charged_bytes = bytes;
    }
}

static void mapped_raised(void *control, struct amb_order *order)
{
    (void)control;
    amb_client_release(order->context);
    amb_order_free(order);
}

void amb_client_raise_mapped(struct amb_client *client)
{
    if (client->state != AMB_CLIENT_LIVE || client->party == NULL ||
        mapped_max(client) <= client->mapped_max) {
        return;
    }
    struct amb_order *order =
        amb_order_create(amb_order_session_raise_mapped, mapped_raised, client);
    if (order == NULL) {
        return; /* Copies serve it meanwhile. */
    }
    client->mapped_max = mapped_max(client);
    order->session = client->session;
    order->u.open.mapped_max = client->mapped_max;
    amb_client_hold(client);
    amb_order_post(client->control->shards[client->session.shard], order);
}

/* Less of its user's is in quarantine: the other sessions of that user may hold more in place. */
static void charge_fell(const struct amb_client *client)
{
    AMB_LIST_FOR_EACH (node, &client->control->clients) {
        struct amb_client *other = AMB_CONTAINER_OF(node, struct amb_client, node);
        if (other->party != NULL && client->party != NULL &&
            other->party->user == client->party->user) {
            amb_client_raise_mapped(other);
        }
    }
}

static void session_released(void *control, struct amb_order *order)
{
    struct amb_client *client = order->context;
    client_charge(client, 0);
    charge_fell(client);
    amb_control_session_give(control, &order->session);
    client->is_quarantined = false;
    client->has_session = false;
    client->held_bytes = 0;
    amb_order_free(order);
    amb_client_release(client);
}

static void client_release_session(struct amb_client *client)
{
    struct amb_order *order = client->end_order;
    amb_assert(order != NULL);
    client->end_order = NULL;
    order->run = amb_order_session_release;
    order->done = session_released;
    amb_client_hold(client);
    amb_order_post(client->control->shards[client->session.shard], order);
}

static void session_closed(void *owner, struct amb_order *order)
{
    struct amb_control *control = owner;
    struct amb_client *client = order->context;
    client->held_bytes = order->u.close.held_bytes;
    bool has_fallen = client->held_bytes < client->charged_bytes;
    client_charge(client, client->held_bytes);
    if (has_fallen) {
        charge_fell(client);
    }
    client->end_order = order; /* It goes with the client, or ends the quarantine first. */
    if (client->held_bytes == 0) {
        amb_control_session_give(control, &order->session);
        client->has_session = false;
    } else if (client->is_dead || client->is_given_up) {
        client_release_session(client);
    } else {
        client->is_quarantined = true;
        control->stats.quarantined++;
        amb_info("client %" PRIu64 " (%s, pid %d): %" PRIu64
                 " bytes stay until its process has ended",
                 client->id, client->name, (int)client->pid, client->held_bytes);
    }
    amb_client_release(client);
}

void amb_client_close_session(struct amb_client *client)
{
    struct amb_order *order = client->end_order;
    amb_assert(order != NULL);
    client->end_order = NULL;
    order->run = amb_order_session_close;
    order->done = session_closed;
    order->context = client;
    order->session = client->session;
    /* Without a mapping, or with the client's word that it has none left, nothing is held. */
    order->u.close.keep_held = client->link == AMB_LINK_RING && !client->said_bye &&
                               !client->is_dead && !client->is_given_up;
    if (order->u.close.keep_held) {
        /* The worst, until its worker has counted: its process may have another session by then. */
        client_charge(client, client->mapped_max);
    }
    amb_client_hold(client);
    amb_order_post(client->control->shards[client->session.shard], order);
}

static void client_leave_directory(struct amb_client *client)
{
    struct amb_directory *directory = &client->control->directory;
    for (unsigned i = 0; client->publishers != NULL && i < AMB_HANDLES_MAX; i++) {
        if (client->publishers[i] != NULL) {
            amb_directory_unpublish(directory, client->publishers[i]);
            amb_identity_give(&client->control->identities, client->publishers[i]->identity,
                              client->control->now_ns);
            free(client->publishers[i]);
        }
    }
    for (unsigned i = 0; client->subs != NULL && i < AMB_HANDLES_MAX; i++) {
        if (client->subs[i] != NULL) {
            amb_queues_unsubscribe(directory, client->subs[i]); /* Harmless twice. */
            free(client->subs[i]);
            amb_client_count_sub(client, -1);
        }
    }
    free(client->publishers);
    free(client->subs);
    client->publishers = NULL;
    client->publisher_count = 0;
    client->subs = NULL;
    if (client->account != NULL) {
        client->account->owner = NULL; /* Queues that go on may keep it. */
        amb_pair_account_unref(&client->account);
    }
}

static json_t *client_event(const struct amb_client *client)
{
    if (!amb_events_are_wanted(client->control)) {
        return NULL;
    }
    return json_pack("{s:I, s:s, s:s, s:s}", "client", (json_int_t)client->id, "name", client->name,
                     "address", client->address, "link", amb_link_kind_name(client->link));
}

void amb_client_come(const struct amb_client *client)
{
    amb_events_publish(client->control, "$SYS.client.come", client_event(client));
}

/* left: it said so; ended: the broker ended it, and told it why; lost: neither. */
static void client_gone(const struct amb_client *client, const char *why)
{
    const char *kind = client->said_bye ? "left" : client->end_status != AMB_OK ? "ended" : "lost";
    json_t *json = client_event(client);
    if (json != NULL) {
        (void)json_object_set_new(json, "kind", json_string(kind));
        (void)json_object_set_new(json, "status", json_integer(client->end_status));
        (void)json_object_set_new(json, "why", json_string(why));
    }
    amb_events_publish(client->control, "$SYS.client.gone", json);
}

static void client_tell_note(struct amb_client *client, const struct amb_note *note)
{
    Amb__Control__SubNotice notice = AMB__CONTROL__SUB_NOTICE__INIT;
    notice.handle = note->handle;
    notice.slow = note->kind == AMB_NOTE_SLOW;
    notice.outstanding = note->msgs_out;
    Amb__Control__Control message = AMB__CONTROL__CONTROL__INIT;
    message.body_case = AMB__CONTROL__CONTROL__BODY_SUB_NOTICE;
    message.sub_notice = &notice;
    amb_client_send(client, &message, NULL, 0);
}

void amb_client_note(struct amb_client *client, const struct amb_note *note)
{
    static const char *const topics[] = {"$SYS.sub.slow", "$SYS.sub.recovered", "$SYS.sub.lost",
                                         "$SYS.sub.spill_begin", "$SYS.sub.spill_end"};
    static const char *const reasons[] = {"none",     "slow",           "trimmed", "expired",
                                          "transfer", "broker restart", "mixed"};
    const struct amb_dir_sub *sub = client->subs == NULL ? NULL : client->subs[note->handle];
    if (sub == NULL || sub->id != note->sub) {
        return;
    }
    json_t *json = client_event(client);
    if (json != NULL) {
        (void)json_object_set_new(json, "subscription", json_integer((json_int_t)sub->id));
        (void)json_object_set_new(json, "pattern", json_string(amb_topic_shown(sub->pattern)));
        if (note->kind == AMB_NOTE_LOST) {
            (void)json_object_set_new(json, "count", json_integer((json_int_t)note->count));
            (void)json_object_set_new(json, "total", json_integer((json_int_t)note->total));
            (void)json_object_set_new(json, "why", json_string(reasons[note->why]));
        } else {
            (void)json_object_set_new(json, "outstanding",
                                      json_integer((json_int_t)note->msgs_out));
            (void)json_object_set_new(json, "outstanding_bytes",
                                      json_integer((json_int_t)note->bytes_out));
        }
        if (note->kind >= AMB_NOTE_SPILL_BEGIN) {
            (void)json_object_set_new(json, "spilled", json_integer((json_int_t)note->spilled));
        }
    }
    amb_events_publish(client->control, topics[note->kind], json);
    if (note->kind == AMB_NOTE_SLOW || note->kind == AMB_NOTE_RECOVERED) {
        client_tell_note(client, note); /* That may end it. */
    }
}

void amb_client_end(struct amb_client *client, const char *why)
{
    if (client->state == AMB_CLIENT_ENDING) {
        return;
    }
    if (client->state == AMB_CLIENT_LIVE) {
        amb_info("client %" PRIu64 " (%s): ended: %s", client->id, client->name, why);
        client_gone(client, why);
    } else {
        client->control->half_open_count -= client->state != AMB_CLIENT_OPENING;
        amb_debug("connection %" PRIu64 ": ended: %s", client->id, why);
    }
    bool is_opening = client->state == AMB_CLIENT_OPENING;
    client->state = AMB_CLIENT_ENDING;
    amb_client_close_connection(client);
    client_leave_directory(client);
    if (client->has_session && !is_opening) { /* opening: closed when the worker has answered */
        amb_client_close_session(client);
    }
    if (client->orders == 0) {
        amb_client_hold(client);
        amb_client_release(client);
    }
}

/* Ends a quarantine, once, whatever else of the client is under way. */
static void client_end_quarantine(struct amb_client *client)
{
    if (client->is_quarantined && client->end_order != NULL) {
        client_release_session(client);
    }
}

void amb_client_give_up(struct amb_client *client)
{
    client->is_given_up = true; /* For the answer that is still to come. */
    client_end_quarantine(client);
}

void amb_client_hold(struct amb_client *client)
{
    client->orders++;
}

void amb_client_release(struct amb_client *client)
{
    amb_assert(client->orders > 0);
    client->orders--;
    if (client->orders > 0 || client->state != AMB_CLIENT_ENDING || client->has_session) {
        return;
    }
    amb_list_remove(&client->node);
    amb_list_push_back(&client->control->dead, &client->node);
}

void amb_client_begin_work(struct amb_client *client)
{
    client->work++;
    amb_client_hold(client);
}

void amb_client_end_work(struct amb_client *client)
{
    amb_assert(client->work > 0);
    client->work--;
    if (client->is_paused && client->work <= AMB_CLIENT_WORK_MAX / 2) {
        client->is_paused = false;
        client->seen_ns = client->control->now_ns; /* Its heartbeats were not read meanwhile. */
        amb_client_rewatch(client);
    }
    amb_client_release(client);
}

void amb_client_bury(struct amb_control *control)
{
    struct amb_list_node *node;
    while ((node = amb_list_pop_front(&control->dead)) != NULL) {
        struct amb_client *client = AMB_CONTAINER_OF(node, struct amb_client, node);
        if (client->pidfd >= 0) {
            amb_watch_remove(&control->watches, &client->pidfd_watch, client->pidfd);
            (void)close(client->pidfd);
        }
        client_leave_party(client);
        amb_idmap_remove(&control->by_id, &client->known);
        amb_control_reader_fini(&client->reader);
        amb_order_free(client->end_order);
        control->client_count--;
        free(client);
    }
}

static void client_on_pidfd(struct amb_watch *watch, uint32_t events)
{
    (void)events;
    struct amb_client *client = AMB_CONTAINER_OF(watch, struct amb_client, pidfd_watch);
    if (client->is_dead) {
        return;
    }
    client->is_dead = true;
    amb_watch_remove(&client->control->watches, watch, client->pidfd);
    amb_client_end(client, "its process has ended");
    client_end_quarantine(client);
}

static void client_tell_refusal(struct amb_client *client)
{
    amb_client_send_error(client, 0, AMB_EAUTH, "not authenticated");
}

void amb_client_refuse(struct amb_client *client)
{
    struct amb_control *control = client->control;
    control->stats.refused_auth++;
    int64_t delay_ns = amb_failures_note(&control->failures, client->address, control->now_ns);
    if (delay_ns == 0) {
        client_tell_refusal(client);
        return;
    }
    /* It counts as half open meanwhile, and nothing more of it is read. */
    client->refusal_ns = amb_deadline_ns(control->now_ns, delay_ns);
    client->is_paused = true;
}

/* Something may have come since its connection was last read: it is we who are late. */
static bool client_is_unread(const struct amb_client *client)
{
    struct pollfd poller = {.fd = client->fd, .events = POLLIN};
    return poll(&poller, 1, 0) > 0;
}

void amb_client_tick(struct amb_client *client, int64_t now_ns)
{
    switch (client->state) {
    case AMB_CLIENT_HELLO:
    case AMB_CLIENT_AUTH:
        if (client->refusal_ns != 0) {
            if (now_ns >= client->refusal_ns) {
                client_tell_refusal(client);
            }
        } else if (now_ns >= client->deadline_ns) {
            client->control->stats.handshake_timeout++;
            amb_client_end(client, "handshake timeout");
        }
        break;
    case AMB_CLIENT_LIVE:
        if (!client->is_paused && now_ns - client->seen_ns > client->peer_timeout_ns &&
            !client_is_unread(client)) {
            client->control->stats.expired++;
            amb_client_send_error(client, 0, AMB_ELOST, "session expired: no heartbeat");
        }
        break;
    case AMB_CLIENT_OPENING: /* It waits for us, and not we for it. */
    case AMB_CLIENT_ENDING:
        break;
    }
}
