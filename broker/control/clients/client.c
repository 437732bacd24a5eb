/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/control/clients/client.h"

#include "broker/base/peer.h"
#include "broker/base/user.h"
#include "broker/config/config.h"
#include "broker/control/clients/client_closed.h"
#include "broker/control/clients/client_io.h"
#include "broker/control/clients/client_listed.h"
#include "broker/control/clients/client_news.h"
#include "broker/control/clients/client_session.h"
#include "broker/control/clients/client_share.h"
#include "broker/control/clients/control.h"
#include "broker/control/clients/half_open.h"
#include "broker/control/clients/quotas.h"
#include "broker/control/clients/renew.h"
#include "broker/control/directory/directory_accounts.h"
#include "broker/control/directory/queues.h"
#include "broker/tls/charge.h"
#include "broker/worker/porter.h"
#include "wire/base/clock.h"
#include "wire/base/log.h"
#include "wire/base/passed.h"
#include "wire/tls/tls_io.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

/* A client that has asked for nothing by then is noted. */
#define CLIENT_LOG_NS AMB_NS_PER_SEC

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
    client->passed_fd = client->closing_fd = -1;
    client->sharer = AMB_USER_NOBODY;
    client->is_unix = is_unix;
    client->connected_ns = control->now_ns;
    client->seen_ns = control->now_ns;
    client->deadline_ns =
        amb_deadline_ns(control->now_ns, control->config->server.handshake_timeout_ns);
    amb_control_reader_init(&client->reader);
    amb_list_init(&client->out);
    amb_list_init(&client->of_unread);
    amb_list_init(&client->of_revoked);
    amb_list_init(&client->of_resting);
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
    control->half_open.clients++;
    *out = client;
    return AMB_OK;
}

enum amb_status amb_client_use_tls(struct amb_client *client, struct amb_tls *tls)
{
    if (!amb_tls_charge_heap(tls, &client->heap)) {
        return AMB_ELIMIT;
    }
    client->tls = tls;
    amb_client_rewatch(client);
    amb_client_note_unread(client);
    return AMB_OK;
}

struct amb_client *amb_client_find(const struct amb_control *control, uint64_t id)
{
    struct amb_idmap_node *node = amb_idmap_find(&control->by_id, id);
    struct amb_client *client =
        node == NULL ? NULL : AMB_CONTAINER_OF(node, struct amb_client, known);
    return client != NULL && client->state == AMB_CLIENT_LIVE ? client : NULL;
}

void amb_client_challenged(struct amb_client *client)
{
    client->state = AMB_CLIENT_AUTH;
}

void amb_client_opening(struct amb_client *client)
{
    client->has_session = true;
    client->state = AMB_CLIENT_OPENING;
    amb_client_list(client);
    amb_half_open_leave(client);
    client->control->opening_count++;
}

bool amb_client_opened(struct amb_client *client, enum amb_status status)
{
    struct amb_control *control = client->control;
    control->opening_count--;
    if (status != AMB_OK) {
        amb_control_session_give(control, &client->session);
        client->has_session = false;
        amb_client_list(client);
        return false;
    }
    if (client->state == AMB_CLIENT_ENDING) {
        amb_client_close_session(client);
        return false;
    }
    client->state = AMB_CLIENT_LIVE;
    amb_client_list(client);
    client->seen_ns = control->now_ns; /* It has waited for us, perhaps for seconds. */
    return true;
}

static void client_leave_directory(struct amb_client *client)
{
    struct amb_directory *directory = &client->control->directory;
    for (uint32_t i = 0; i < client->publishers.count; i++) {
        struct amb_dir_publisher *publisher = amb_client_publisher(client, i);
        if (publisher != NULL) {
            amb_directory_unpublish(directory, publisher);
            amb_identity_give(&client->control->identities, publisher->identity,
                              client->control->now_ns);
            free(publisher);
        }
    }
    for (uint32_t i = 0; i < client->subs.count; i++) {
        struct amb_dir_sub *sub = amb_client_sub(client, i);
        if (sub != NULL) {
            amb_queues_unsubscribe(directory, sub); /* Harmless twice. */
            free(sub);
            amb_client_count_sub(client, -1);
        }
    }
    free(client->publishers.at);
    free(client->subs.at);
    client->publishers = client->subs = (struct amb_client_table){0};
    amb_account_sub(amb_client_account(client), AMB_QUOTA_PUBLISHERS, client->publisher_count);
    client->publisher_count = 0;
    if (client->account != NULL) {
        client->account->owner = NULL; /* Queues that go on may keep it. */
        amb_pair_account_unref(&client->account);
    }
}

/* Process ------------------------------------------------------------------------------------- */

/* False: the kernel has no room for one more watch. */
static bool client_watch_pidfd(struct amb_client *client, int pidfd)
{
    if (amb_watch_add(&client->control->watches, &client->pidfd_watch, pidfd, EPOLLIN) != AMB_OK) {
        (void)close(pidfd);
        return false;
    }
    client->pidfd = pidfd;
    return true;
}

/* Its session shares no memory with it. Without a word its user would only see it slow. */
static void client_is_unknown(const struct amb_client *client)
{
    if (amb_stat_get(&client->control->stats->unknown_processes) == 0) {
        amb_warn("connection %" PRIu64
                 ": its process cannot be asked about (%s), so it is served by "
                 "copies alone; further ones are counted in unknown_processes of status",
                 client->id, strerror(errno));
    }
    amb_stat_add(&client->control->stats->unknown_processes, 1);
}

void amb_client_know_process(struct amb_client *client)
{
    if (!client->is_unix) {
        return;
    }
    if (client->control->kernel_names_peers) {
        enum amb_peer_state peer = amb_peer_state(client->fd);
        client->knows_process = peer == AMB_PEER_LIVES;
        if (peer == AMB_PEER_UNKNOWN) {
            client_is_unknown(client);
        }
        return;
    }
    int pidfd = client->passed_fd; /* Its own, that it was asked for. */
    client->passed_fd = -1;
    if (pidfd < 0) {
        pidfd = amb_peer_pidfd(client->fd, client->pid);
    }
    bool is_gone = pidfd < 0 && errno == ESRCH; /* Its number was waited for: that is an answer. */
    client->knows_process = pidfd >= 0 && client_watch_pidfd(client, pidfd);
    if (!client->knows_process && !is_gone) {
        client_is_unknown(client);
    }
}

/* False: not now. */
static bool client_ask_for_process(struct amb_client *client, int connection)
{
    int pidfd;
    if (!amb_peer_process(connection, &pidfd)) {
        return false;
    }
    client->is_dead = pidfd < 0;
    return client->is_dead || client_watch_pidfd(client, pidfd);
}

/* Its process may hold what the session had. The connection is kept where that cannot be asked. */
static void client_await_process(struct amb_client *client)
{
    if (!client->knows_process || client->pidfd >= 0 || client->is_dead || !client->has_session ||
        client->link != AMB_LINK_RING || client->said_bye || client->is_given_up ||
        client_ask_for_process(client, client->fd)) {
        return;
    }
    amb_watch_remove(&client->control->watches, &client->watch, client->fd);
    (void)shutdown(client->fd, SHUT_RDWR);
    client->closing_fd = client->fd;
    client->fd = -1;
}

static void client_close_closing(struct amb_client *client)
{
    if (client->closing_fd >= 0) {
        amb_porter_close(client->control->porter, client->closing_fd);
        client->closing_fd = -1;
    }
}

static void client_ask_again(struct amb_client *client)
{
    if (client->closing_fd >= 0 && client_ask_for_process(client, client->closing_fd)) {
        client_close_closing(client);
        if (client->is_dead) {
            amb_client_end_quarantine(client);
        }
    }
}

/* The end ------------------------------------------------------------------------------------- */

void amb_client_log(struct amb_client *client)
{
    if (!client->is_logged) {
        client->is_logged = true;
        amb_info("client %" PRIu64 " (%s): %s from %s, worker %u", client->id, client->name,
                 amb_link_kind_name(client->link), client->address, client->session.shard);
    }
}

/* A client that has but looked at the broker, and has left, is nothing to note. */
static void client_log_end(struct amb_client *client, const char *why)
{
    bool is_quiet = client->has_asked && !client->is_logged && client->said_bye;
    if (!is_quiet) {
        amb_client_log(client);
    }
    amb_log(is_quiet ? AMB_LOG_DEBUG : AMB_LOG_INFO, "client %" PRIu64 " (%s): ended: %s",
            client->id, client->name, why);
}

void amb_client_end(struct amb_client *client, const char *why)
{
    if (client->state == AMB_CLIENT_ENDING) {
        return;
    }
    amb_renew_client(client); /* Its process may keep what it has mapped. */
    if (client->state == AMB_CLIENT_LIVE) {
        client_log_end(client, why);
        amb_client_gone(client, why);
        amb_client_closed(client, amb_client_end_kind(client), why);
    } else {
        if (client->state != AMB_CLIENT_OPENING) {
            amb_half_open_leave(client);
        }
        amb_debug("connection %" PRIu64 ": ended: %s", client->id, why);
    }
    bool is_opening = client->state == AMB_CLIENT_OPENING;
    client->state = AMB_CLIENT_ENDING;
    amb_list_remove(&client->of_revoked);
    amb_list_remove(&client->of_resting);
    client_await_process(client);
    amb_client_list(client);
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

void amb_client_bury(struct amb_control *control)
{
    struct amb_list_node *node;
    while ((node = amb_list_pop_front(&control->dead)) != NULL) {
        struct amb_client *client = AMB_CONTAINER_OF(node, struct amb_client, node);
        if (client->pidfd >= 0) {
            amb_watch_remove(&control->watches, &client->pidfd_watch, client->pidfd);
            (void)close(client->pidfd);
        }
        client_close_closing(client);
        amb_counters_unlist(control->counters, &client->listed, AMB_COUNTERS_CLIENT);
        amb_client_leave_party(client);
        amb_idmap_remove(&control->by_id, &client->known);
        amb_control_reader_fini(&client->reader);
        amb_control_free(client->kept);
        amb_login_fini(&client->login);
        amb_rights_unref(&client->rights);
        free(client->kick_text);
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
    amb_client_end_quarantine(client);
}

static void client_tell_refusal(struct amb_client *client)
{
    amb_client_send_error(client, 0, AMB_EAUTH, "not authenticated");
}

void amb_client_refuse(struct amb_client *client)
{
    struct amb_control *control = client->control;
    amb_stat_add(&control->stats->refused_auth, 1);
    int64_t delay_ns = amb_failures_note(&control->failures, client->address, control->now_ns);
    if (delay_ns == 0) {
        client_tell_refusal(client);
        return;
    }
    /* It counts as half open meanwhile, and nothing more of it is read. It is the first of its
     * crowd to go. */
    client->refusal_ns = amb_deadline_ns(control->now_ns, delay_ns);
    client->paused |= AMB_PAUSE_LOGIN;
}

/* Something may have come since its connection was last read: it is we who are late. */
static bool client_is_unread(const struct amb_client *client)
{
    struct pollfd poller = {.fd = client->fd, .events = POLLIN};
    return (client->tls != NULL && amb_tls_has_unread(client->tls)) || poll(&poller, 1, 0) > 0;
}

void amb_client_tick(struct amb_client *client, int64_t now_ns)
{
    amb_client_list(client);
    if (client->tls != NULL) {
        (void)amb_tls_trim(client->tls); /* After an answer that came late. */
    }
    switch (client->state) {
    case AMB_CLIENT_HELLO:
    case AMB_CLIENT_AUTH:
        if (client->refusal_ns != 0) {
            if (now_ns >= client->refusal_ns) {
                client_tell_refusal(client);
            }
        } else if (now_ns >= client->deadline_ns) {
            amb_stat_add(&client->control->stats->handshake_timeout, 1);
            amb_client_end(client, "handshake timeout");
        }
        break;
    case AMB_CLIENT_LIVE:
        if (!client->has_asked && now_ns - client->connected_ns > CLIENT_LOG_NS) {
            amb_client_log(client);
        }
        if (client->paused == 0 && now_ns - client->seen_ns > client->peer_timeout_ns &&
            !client_is_unread(client)) {
            amb_stat_add(&client->control->stats->expired, 1);
            amb_client_send_error(client, 0, AMB_ELOST, "session expired: no heartbeat");
        } else if (amb_login_is_over(&client->login, (int64_t)time(NULL))) {
            client->loses_maps = true;
            client_tell_refusal(client); /* `until` of its user has come. */
        }
        break;
    case AMB_CLIENT_ENDING:
        client_ask_again(client);
        break;
    case AMB_CLIENT_OPENING: /* It waits for us, and not we for it. */
        break;
    }
}
