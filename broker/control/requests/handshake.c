/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/control/requests/handshake.h"

#include "broker/base/user.h"
#include "broker/config/config.h"
#include "broker/control/clients/client_io.h"
#include "broker/control/clients/client_news.h"
#include "broker/control/clients/client_session.h"
#include "broker/control/clients/client_share.h"
#include "broker/control/clients/control.h"
#include "broker/control/clients/record.h"
#include "broker/control/requests/demand.h"
#include "broker/control/requests/prove.h"
#include "broker/shard/shard.h"
#include "broker/worker/orders_session.h"
#include "broker/worker/porter.h"
#include "wire/base/assert.h"
#include "wire/base/clock.h"
#include "wire/base/hash.h"
#include "wire/base/log.h"
#include "wire/codec/expect.h"
#include "wire/config/transports.h"
#include "wire/link/ucx/ucx_worker.h"
#include "wire/link/ucxlib/ucx_prove.h"
#include "wire/link/ucxlib/ucx_release.h"
#include "wire/tls/tls_bind.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define HANDSHAKE_ADDRESS_MAX 4096u /* bytes of a UCX worker address */

/* Peer ----------------------------------------------------------------------------------------- */

static void peer_fill(const struct amb_control *control, Amb__Control__Peer *peer)
{
    peer->ucx_release = control->ucx_release;
    peer->ucx_tx_seg = control->ucx_tx_seg;
    peer->ucx_rx_seg = control->ucx_rx_seg;
    peer->host = control->host;
    peer->pid_ns = control->pid_ns;
    peer->ipc_ns = control->ipc_ns;
    peer->net_ns = control->net_ns;
    peer->trusted = (char **)(uintptr_t)control->config->transports.trusted.items;
    peer->n_trusted = control->config->transports.trusted.count;
}

/* Which link ----------------------------------------------------------------------------------- */

/* Why this client's UCX and ours do not go together; NULL: they do. */
static const char *ucx_misfit(struct amb_client *client)
{
    const struct amb_control *control = client->control;
    char own[AMB_UCX_RELEASE_TEXT_MAX], theirs[AMB_UCX_RELEASE_TEXT_MAX];
    const char *why = NULL;
    if (amb_ucx_compatible(control->ucx_release, control->ucx_tx_seg, control->ucx_rx_seg,
                           client->ucx_release, client->ucx_tx_seg, client->ucx_rx_seg, &why)) {
        return NULL;
    }
    if (client->ucx_release == 0) {
        return "link ucx: the client has no UCX library";
    }
    (void)snprintf(client->link_text, sizeof(client->link_text),
                   "link ucx: %s: the client has UCX %s, the broker %s", why,
                   amb_ucx_release_text(client->ucx_release, theirs, sizeof(theirs)),
                   amb_ucx_release_text(control->ucx_release, own, sizeof(own)));
    return client->link_text;
}

/* Why the ucx link cannot serve this client; NULL: it can, as far as Hello says. */
static const char *ucx_obstacle(struct amb_client *client, const Amb__Control__Peer *peer)
{
    const struct amb_control *control = client->control;
    if (control->ucx == NULL) {
        return control->transports->why_not;
    }
    if (control->ucx_broken != NULL) {
        return control->ucx_broken;
    }
    if (peer == NULL || peer->n_trusted == 0) {
        return "link ucx: the client declares no trusted interface "
               "(options.trusted_network or AMB_TRUSTED)";
    }
    client->ucx_late = (peer->features & AMB_PEER_UCX_LATE) != 0;
    client->ucx_release = peer->ucx_release;
    client->ucx_tx_seg = peer->ucx_tx_seg;
    client->ucx_rx_seg = peer->ucx_rx_seg;
    return client->ucx_late ? NULL : ucx_misfit(client);
}

/* A client on this host. Where there are no rings, one that does not insist has a stream. */
static bool link_choose_near(struct amb_client *client)
{
    const char *obstacle = client->control->no_ring;
    if (obstacle != NULL && client->insists) {
        amb_client_send_error(client, 0, AMB_ENOTSUP, "%s", obstacle);
        return false;
    }
    client->link = obstacle == NULL ? AMB_LINK_RING : AMB_LINK_STREAM;
    client->link_reason = obstacle;
    return true;
}

/* False: refused, and the client told. */
static bool link_choose(struct amb_client *client, const char *wish, const Amb__Control__Peer *peer)
{
    const struct amb_control *control = client->control;
    client->insists = wish[0] != '\0';
    client->wish = amb_link_kind_find(wish, strlen(wish));
    if (client->wish == AMB_LINK_UCX || (client->wish == AMB_LINK_ANY && !client->is_unix)) {
        client->ucx_obstacle = ucx_obstacle(client, peer);
    }
    if (client->wish == AMB_LINK_UCX) {
        const char *obstacle = client->ucx_obstacle;
        if (obstacle != NULL) {
            amb_client_send_error(client, 0, AMB_ENOTSUP, "%s", obstacle);
            return false;
        }
        client->link = AMB_LINK_UCX;
        return true;
    }
    if (client->wish == AMB_LINK_RING || (!client->insists && client->is_unix)) {
        if (!client->is_unix) {
            amb_client_send_error(client, 0, AMB_EINVAL,
                                  "link ring: works over a unix:// URL only");
            return false;
        }
        return link_choose_near(client);
    }
    if (client->insists && client->wish != AMB_LINK_STREAM) {
        amb_client_send_error(client, 0, AMB_EINVAL, "unknown link: ring, stream, ucx are known");
        return false;
    }
    client->link = AMB_LINK_STREAM;
    /* Bytes of a ucx link are not encrypted: a client with TLS has to ask for one. */
    if (!client->insists && control->transports->prefer_ucx && client->tls == NULL) {
        client->link_reason = client->ucx_obstacle;
        client->link = client->link_reason == NULL ? AMB_LINK_UCX : AMB_LINK_STREAM;
    }
    return true;
}

/* Hello ---------------------------------------------------------------------------------------- */

/* Names are shown to people and written to logs: printable ASCII only. */
void amb_copy_printable(char *out, size_t size, const char *in)
{
    size_t len = 0;
    for (; in[len] != '\0' && len + 1 < size; len++) {
        out[len] = in[len] >= ' ' && in[len] <= '~' ? in[len] : '?';
    }
    out[len] = '\0';
}

static void challenge_send(struct amb_client *client)
{
    struct amb_control *control = client->control;
    amb_random_bytes(client->nonce, sizeof(client->nonce));
    Amb__Control__Peer peer = AMB__CONTROL__PEER__INIT;
    peer_fill(control, &peer);
    Amb__Control__Challenge challenge = AMB__CONTROL__CHALLENGE__INIT;
    challenge.version = AMB_CONTROL_VERSION;
    challenge.nonce.data = client->nonce;
    challenge.nonce.len = sizeof(client->nonce);
    challenge.epoch = control->epoch;
    challenge.server_version = (char *)(uintptr_t)AMB_BROKER_VERSION;
    char *mechanisms[AMB_MECHANISMS];
    amb_prove_ask(client, &challenge, mechanisms);
    challenge.link = (char *)(uintptr_t)amb_link_kind_name(client->link);
    challenge.peer = &peer;
    client->asks_for_pidfd = client->is_unix && !control->kernel_names_peers && client->pid <= 0 &&
                             control->kept_fds < AMB_KEPT_FDS_MAX;
    challenge.knows_process = !client->asks_for_pidfd;
    Amb__Control__Control message = AMB__CONTROL__CONTROL__INIT;
    message.body_case = AMB__CONTROL__CONTROL__BODY_CHALLENGE;
    message.challenge = &challenge;
    amb_client_challenged(client);
    amb_client_send(client, &message, NULL, 0);
}

/* leaving: sessions that are counted still, and as good as gone. False: refused, and the client
 * told. */
static bool session_has_room(struct amb_client *client, uint32_t leaving)
{
    const struct amb_control *control = client->control;
    uint32_t max = control->config->server.max_connections;
    if (amb_control_sessions(control) - leaving < max) {
        return true;
    }
    amb_stat_add(&client->control->stats->refused_limit, 1);
    amb_client_send_error(client, 0, AMB_EBUSY,
                          "limit: %u connections (server.max_connections; where that is auto, the "
                          "broker's ulimit -n)",
                          max);
    return false;
}

void amb_handshake_hello(struct amb_client *client, const Amb__Control__Hello *hello)
{
    if (client->tls != NULL && amb_tls_agreed(client->tls) != AMB_TLS_ALPN_CONTROL) {
        amb_client_send_error(client, 0, AMB_EPROTO, "a connection of a stream link says Attach");
        return;
    }
    if (hello->version_min > AMB_CONTROL_VERSION || hello->version_max < AMB_CONTROL_VERSION) {
        amb_stat_add(&client->control->stats->refused_version, 1);
        amb_client_send_error(client, 0, AMB_EVERSION,
                              "protocol version: this broker speaks %u to %u", AMB_CONTROL_VERSION,
                              AMB_CONTROL_VERSION);
        return;
    }
    if (client->control->is_draining) {
        amb_client_send_error(client, 0, AMB_EBUSY, "the broker is shutting down");
        return;
    }
    amb_copy_printable(client->name, sizeof(client->name), hello->name);
    amb_copy_printable(client->version, sizeof(client->version), hello->client_version);
    if (hello->peer != NULL) {
        client->place.host = hello->peer->host;
        client->place.pid_ns = hello->peer->pid_ns;
        client->place.ipc_ns = hello->peer->ipc_ns;
        client->place.net_ns = hello->peer->net_ns;
        amb_copy_printable(client->place.visible_devices, sizeof(client->place.visible_devices),
                           hello->peer->visible_devices);
    }
    client->expect = hello->expect & AMB_EXPECT_ALL;
    if (hello->expect != client->expect) {
        amb_client_send_error(client, 0, AMB_ENOTSUP,
                              "expect: this broker knows " AMB_EXPECT_WORDS " alone");
    } else if (link_choose(client, hello->link, hello->peer)) {
        challenge_send(client);
    }
}

/* Auth ----------------------------------------------------------------------------------------- */

static void welcome_fill(const struct amb_client *client, Amb__Control__Welcome *welcome)
{
    const struct amb_config *config = client->control->config;
    welcome->session = client->session.index;
    welcome->generation = client->session.generation;
    welcome->secret = client->secret;
    welcome->link = (char *)(uintptr_t)amb_link_kind_name(client->link);
    welcome->worker = client->session.shard;
    welcome->ring_size = config->transports.ring_size;
    welcome->max_message = config->server.max_message;
    welcome->batch_bytes = AMB_BATCH_BYTES;
    welcome->batch_msgs = AMB_BATCH_MSGS_MAX;
    welcome->heartbeat_ns = config->limits.heartbeat_ns;
    welcome->peer_timeout_ns = config->limits.peer_timeout_ns;
    welcome->client_id = client->id;
    welcome->server_name = (char *)(uintptr_t)config->server.name;
    if (client->link_reason != NULL) {
        welcome->link_reason = (char *)(uintptr_t)client->link_reason;
    }
    if (amb_client_may_map(client) && client->mapped_max < config->limits.max_mapped_per_session) {
        /* It is served by copies sooner, or at once. */
        welcome->link_reason = (char *)(uintptr_t) "this process, or its user, holds messages of "
                                                   "sessions that ended without a word; "
                                                   "they count (limits.max_mapped_per_session)";
    }
    welcome->may_map = amb_client_may_map(client);
    welcome->lease_bytes = amb_client_may_map(client) ? config->limits.max_leased_per_session : 0;
}

static void fds_close(const struct amb_ring_fds *fds)
{
    const int all[] = {fds->memory, fds->bell};
    for (unsigned i = 0; i < 2; i++) {
        if (all[i] >= 0) {
            (void)close(all[i]);
        }
    }
}

/* UCX opens no port here. Clients that do not insist on it get another link from now on. */
static void ucx_give_up(struct amb_control *control)
{
    control->ucx_broken = "the broker's UCX could not open a port; its log says why";
    amb_error("%s; no more ucx links until a restart", control->ucx_broken);
}

/* The session is made. fds: of its ring. */
static void welcome_send(struct amb_client *client, const struct amb_ring_fds *fds)
{
    struct amb_control *control = client->control;
    Amb__Control__Welcome welcome = AMB__CONTROL__WELCOME__INIT;
    welcome_fill(client, &welcome);
    client->peer_timeout_ns = welcome.peer_timeout_ns;
    size_t address_len = 0;
    if (client->link == AMB_LINK_UCX) {
        welcome.ucx_address.data = (uint8_t *)(uintptr_t)amb_ucx_worker_address(
            control->shards[client->session.shard]->ucx.worker, &address_len);
        welcome.ucx_address.len = address_len;
    }
    Amb__Control__Control message = AMB__CONTROL__CONTROL__INIT;
    message.body_case = AMB__CONTROL__CONTROL__BODY_WELCOME;
    message.welcome = &welcome;
    const int passed[] = {fds->memory, fds->bell};
    amb_client_send(client, &message, client->link == AMB_LINK_RING ? passed : NULL,
                    client->link == AMB_LINK_RING ? 2 : 0);
}

/* The worker has made the session, or has not. */
static void session_opened(void *owner, struct amb_order *order)
{
    const struct amb_order_session_open *open =
        AMB_CONTAINER_OF(order, struct amb_order_session_open, order);
    struct amb_control *control = owner;
    struct amb_client *client = order->context;
    struct amb_ring_fds fds = open->opening.fds;
    client->lanes_lack = open->opening.lanes_lack;
    if (amb_client_opened(client, order->status)) {
        amb_client_raise_mapped(client); /* Its former session has been counted meanwhile. */
        welcome_send(client, &fds);
        amb_record_login(client);
        if (client->state == AMB_CLIENT_LIVE) {
            amb_client_come(client);
        }
    } else {
        fds_close(&fds);
    }
    if (order->status != AMB_OK) {
        if (order->status == AMB_EUCX && client->link == AMB_LINK_UCX &&
            control->shards[order->session.shard]->ucx.worker == NULL) {
            ucx_give_up(control);
        }
        amb_client_send_error(client, 0, order->status, "the session could not be made: %s",
                              amb_status_text(order->status));
    }
    amb_order_free(order);
    amb_client_release(client);
}

/* Before the first ucx link, on this thread: it takes some 20 ms, and a worker has others to serve.
 * False: UCX does not do what it is told, and the client has been told. */
static bool ucx_is_proved(struct amb_client *client)
{
    struct amb_control *control = client->control;
    char error[256];
    if (client->link != AMB_LINK_UCX) {
        return true;
    }
    enum amb_status status = amb_ucx_context_prove(control->ucx, error, sizeof(error));
    if (status != AMB_OK) {
        amb_error("ucx: %s", error);
        ucx_give_up(control);
        amb_client_send_error(client, 0, status, "%s", error);
    }
    return status == AMB_OK;
}

static void session_open_post(struct amb_order_session_open *open)
{
    const struct amb_client *client = open->order.context;
    struct amb_control *control = client->control;
    struct amb_shard *shard = control->shards[client->session.shard];
    if (client->link == AMB_LINK_RING && control->porter != NULL) {
        amb_porter_open(control->porter, shard, open);
    } else {
        amb_order_post(shard, &open->order);
    }
}

/* The client's frames of its former session are heard: it may speak in the next one. */
static void former_heard(void *control, struct amb_order *heard)
{
    (void)control;
    session_open_post(heard->context);
    amb_order_free(heard);
}

/* old: the session whose place this one takes, and which is ending; NULL: none. */
static void session_order(struct amb_client *client, const Amb__Control__Auth *auth,
                          const struct amb_client *old)
{
    struct amb_control *control = client->control;
    if (!ucx_is_proved(client)) {
        return;
    }
    enum amb_status status = amb_control_session_take(control, &client->session);
    struct amb_order_session_open *open =
        status == AMB_OK ? amb_order_new(&amb_order_session_open, session_opened, client) : NULL;
    struct amb_order *heard = amb_order_new(&amb_order_session_heard, former_heard, open);
    size_t address_len = client->link == AMB_LINK_UCX ? auth->ucx_address.len : 0;
    uint8_t *address = malloc(address_len + 1);
    client->end_order = amb_order_new(&amb_order_session_close, NULL, NULL);
    if (open == NULL || heard == NULL || address == NULL || client->end_order == NULL) {
        free(address);
        amb_order_free(heard);
        amb_order_free(open == NULL ? NULL : &open->order);
        if (status == AMB_OK) {
            amb_control_session_give(control, &client->session);
        }
        amb_client_send_error(client, 0, AMB_EBUSY, "no room for another session");
        return;
    }
    amb_random_bytes(&client->secret, sizeof(client->secret));
    amb_control_session_assign(control, &client->session, client);
    amb_client_opening(client);
    open->order.session = client->session;
    open->opening.secret = client->secret;
    open->opening.client_id = client->id;
    open->opening.link = client->link;
    open->opening.user = client->user;
    open->opening.is_on_host = client->is_unix;
    open->opening.may_map = amb_client_may_map(client);
    open->opening.maps = amb_client_maps(client);
    open->opening.tenant = amb_client_tenant(client);
    open->opening.mapped_max = client->mapped_max;
    open->opening.party = client->party;
    open->opening.may_map_gpu = amb_client_may_map_gpu(client);
    open->opening.ring_size = control->config->transports.ring_size;
    open->opening.address = address;
    open->opening.address_len = address_len;
    if (address_len > 0) {
        memcpy(address, auth->ucx_address.data, address_len);
    }
    amb_client_hold(client);
    if (old == NULL) {
        amb_order_free(heard);
        session_open_post(open);
    } else {
        heard->session = old->session;
        amb_order_post(control->shards[old->session.shard], heard);
    }
}

/* The session that the client names, as its secret proves. NULL: it names none, or one that is
 * over, or the secret is wrong. */
static struct amb_client *find_former(const struct amb_client *client,
                                      const Amb__Control__Former *former)
{
    if (former == NULL) {
        return NULL;
    }
    struct amb_client *old = amb_control_session_client(client->control, former->session,
                                                        former->generation, former->secret);
    bool is_own = old != client && old != NULL && old->has_session;
    /* Users of a file take the place of nobody else's session, whatever they know of it. */
    return is_own && (client->login.user == NULL || amb_user_is_same(old->user, client->user))
               ? old
               : NULL;
}

/* Its client has a new session, so the old one is ended first. Then nothing is delivered to both,
 * and its handles and inboxes are free. Returns 1 if that session goes now: it must not stand in
 * the new one's way, nor in that of one more. One that stays in quarantine counts as any other. */
static uint32_t end_former(struct amb_client *old, bool is_unmapped)
{
    bool holds = old->link == AMB_LINK_RING && !is_unmapped && !old->is_dead;
    if (old->state == AMB_CLIENT_LIVE) {
        old->said_bye = is_unmapped;
        amb_client_end(old, "its client has another session");
    } else if (is_unmapped) {
        amb_client_give_up(old); /* As if its process were gone. */
    }
    bool frees = !holds && old->has_session && !old->is_replaced;
    old->is_replaced = old->is_replaced || frees;
    return frees ? 1 : 0;
}

/* The UCX that the client has loaded is known now. One that does not fit leaves it a stream, where
 * its URL does not insist. False: refused, and the client told. */
static bool ucx_settle(struct amb_client *client, const Amb__Control__Auth *auth)
{
    const char *misfit = NULL;
    client->ucx_release = auth->ucx_release;
    if (auth->ucx_address.len == 0 && !client->insists) {
        amb_copy_printable(client->link_text, sizeof(client->link_text), auth->ucx_reason);
        misfit = client->link_text[0] != '\0' ? client->link_text
                                              : "link ucx: the client has opened no port for it";
    } else {
        misfit = ucx_misfit(client);
    }
    if (misfit != NULL && client->insists) {
        amb_client_send_error(client, 0, AMB_ENOTSUP, "%s", misfit);
        return false;
    }
    if (misfit != NULL) {
        client->link = AMB_LINK_STREAM;
        client->link_reason = client->ucx_obstacle = misfit;
    }
    return true;
}

/* A ucx link is no security boundary, so its user needs a role that says so. Without one it has a
 * stream, where its URL does not insist. False: refused, and the client told. */
static bool ucx_permit(struct amb_client *client)
{
    static const char why[] = "link ucx: no role of this user has ucx";
    if (amb_rights_may_ucx(client->rights)) {
        return true;
    }
    if (client->insists || !client->ucx_late) {
        amb_stat_add(&client->control->stats->forbidden, 1);
        amb_record_refused(client, "link ucx", why);
        amb_client_send_error(client, 0, AMB_EFORBIDDEN, "%s", why);
        return false;
    }
    client->link = AMB_LINK_STREAM;
    client->link_reason = client->ucx_obstacle = why;
    return true;
}

/* The client is who it says. */
static void auth_proved(struct amb_client *client, const Amb__Control__Auth *auth)
{
    bool may_have_address = client->link == AMB_LINK_UCX;
    if (may_have_address && !ucx_permit(client)) {
        return;
    }
    if (client->link == AMB_LINK_UCX && client->ucx_late && !ucx_settle(client, auth)) {
        return;
    }
    const size_t len = auth->ucx_address.len;
    const char *fault = len == 0 && client->link == AMB_LINK_UCX ? "missing"
                        : len != 0 && !may_have_address          ? "not asked for"
                        : len > HANDSHAKE_ADDRESS_MAX            ? "too long"
                                                                 : NULL;
    if (fault != NULL) {
        amb_client_send_error(client, 0, AMB_EPROTO, "the UCX worker address is %s", fault);
        return;
    }
    /* Not before: only now is it known whose session it takes the place of. */
    struct amb_client *old = find_former(client, auth->former);
    uint32_t leaving = old == NULL ? 0 : end_former(old, auth->former->unmapped != 0);
    if (!session_has_room(client, leaving)) {
        return;
    }
    amb_client_know_process(client);
    char why[AMB_QUOTA_TEXT_MAX];
    enum amb_status status = amb_client_take_party(client, leaving, why, sizeof(why));
    if (status != AMB_OK) {
        amb_client_send_error(client, 0, status, "%s", why);
        return;
    }
    if (!amb_demand_session(client)) {
        return;
    }
    /* One that is being made has said nothing. */
    session_order(client, auth, old != NULL && old->state == AMB_CLIENT_ENDING ? old : NULL);
}

/* A handshaker has had its signature. */
static void auth_answered(struct amb_client *client, bool is_proved)
{
    Amb__Control__Control *message = client->kept;
    client->kept = NULL;
    client->paused &= (uint8_t)~AMB_PAUSE_LOGIN;
    if (is_proved) {
        auth_proved(client, message->auth);
    } else {
        amb_client_refuse(client);
    }
    amb_control_free(message);
    amb_client_rewatch(client);
    amb_client_note_unread(client);
}

void amb_handshake_auth(struct amb_client *client, const Amb__Control__Control *message)
{
    switch (amb_prove(client, message->auth, auth_answered)) {
    case AMB_PROOF_GOOD:
        auth_proved(client, message->auth);
        break;
    case AMB_PROOF_BAD:
        amb_client_refuse(client);
        break;
    case AMB_PROOF_LATER: /* Nothing more of it is read until then. */
        client->kept = (Amb__Control__Control *)(uintptr_t)message;
        client->paused |= AMB_PAUSE_LOGIN;
        break;
    }
}

/* Attach --------------------------------------------------------------------------------------- */

static struct amb_client *attach_find(const struct amb_control *control,
                                      const Amb__Control__Attach *attach)
{
    struct amb_client *client =
        amb_control_session_client(control, attach->session, attach->generation, attach->secret);
    return client != NULL && client->state == AMB_CLIENT_LIVE && client->link == AMB_LINK_STREAM
               ? client
               : NULL;
}

/* With a users file: does the connection come by the session's kind of socket, and on a Unix socket
 * from the same uid? By TCP and TLS the kernel tells none; over TLS Attach has a proof. */
static bool attach_is_own(const struct amb_client *target, const struct amb_client *client)
{
    return target->login.user == NULL ||
           (target->is_unix == client->is_unix && (!target->is_unix || target->uid == client->uid));
}

/* Both connections are plain, or both are of one client's TLS. */
static bool attach_proves(const struct amb_client *target, const struct amb_client *client,
                          const Amb__Control__Attach *attach)
{
    uint8_t expected[AMB_TLS_PROOF_SIZE];
    if (target->tls == NULL || client->tls == NULL) {
        return target->tls == client->tls && attach->proof.len == 0;
    }
    return amb_tls_agreed(client->tls) == AMB_TLS_ALPN_LINK &&
           amb_tls_bind(target->tls, client->tls, attach->session, attach->generation, expected) &&
           amb_tls_proof_is(attach->proof.data, attach->proof.len, expected);
}

static void attach_answered(void *owner, struct amb_order *order)
{
    (void)owner;
    struct amb_client *client = order->context;
    if (order->status != AMB_OK && client->state == AMB_CLIENT_LIVE) {
        amb_client_send_error(client, 0, order->status, "the stream could not be attached");
    }
    amb_order_free(order);
    amb_client_release(client);
}

void amb_handshake_attach(struct amb_client *client, uint64_t id,
                          const Amb__Control__Attach *attach)
{
    struct amb_control *control = client->control;
    struct amb_client *target = attach_find(control, attach);
    if (target == NULL || !attach_is_own(target, client) ||
        !attach_proves(target, client, attach)) {
        amb_record_refused(client, "attach", "no such session, or not its client");
        amb_client_refuse(client);
        return;
    }
    struct amb_order_session_attach *order =
        amb_order_new(&amb_order_session_attach, attach_answered, target);
    if (order == NULL) {
        amb_client_send_error(client, 0, AMB_ENOMEM, "no memory");
        return;
    }
    /* The answer is the last that we write to this connection. */
    amb_client_send_ok(client, id);
    if (client->state == AMB_CLIENT_ENDING || amb_client_has_unsent(client)) {
        amb_order_free(&order->order);
        amb_client_end(client, "its answer to Attach does not go out");
        return;
    }
    amb_stat_add(&control->stats->attached, 1);
    amb_watch_remove(&control->watches, &client->watch, client->fd);
    order->order.session = target->session;
    order->fd = client->fd;
    order->tls = client->tls;
    client->fd = -1;
    client->tls = NULL;
    amb_list_remove(&client->of_unread);
    if (order->tls != NULL) {
        (void)amb_tls_charge(order->tls, NULL); /* Its session is charged from here on. */
    }
    amb_client_hold(target);
    amb_order_post(control->shards[target->session.shard], &order->order);
    amb_client_end(client, "attached");
}
