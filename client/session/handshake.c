/* SPDX-License-Identifier: Apache-2.0 */
#include "client/session/handshake.h"

#include "client/drive/ucx.h"
#include "client/session/dispatch.h"
#include "client/session/insist.h"
#include "client/session/link_events.h"
#include "wire/base/host.h"
#include "wire/link/ring/ring.h"
#include "wire/link/stream/stream.h"
#include "wire/tls/tls_bind.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

#define TRUSTED_MAX 16u
#define BATCH_BYTES_MIN 4096u /* even if the broker says less */

/* Splits a comma list in place. */
static size_t split(char *list, char *out[], size_t max)
{
    size_t count = 0;
    char *rest = NULL;
    for (char *one = strtok_r(list, ", ", &rest); one != NULL && count < max;
         one = strtok_r(NULL, ", ", &rest)) {
        out[count++] = one;
    }
    return count;
}

static char visible_devices[AMB_VISIBLE_DEVICES_SIZE];

static void read_visible_devices(void)
{
    const char *value = getenv("CUDA_VISIBLE_DEVICES");
    (void)snprintf(visible_devices, sizeof(visible_devices), "%s%s", value == NULL ? "-" : "=",
                   value == NULL ? "" : value);
}

/* As the environment was at the first connection. A later one may be another thread's, while the
 * program changes its environment. */
static char *own_visible_devices(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)pthread_once(&once, read_visible_devices);
    return visible_devices;
}

static enum amb_status say_hello(struct amb_conn *conn, struct amb_dial *dial,
                                 const struct amb_handshake *with)
{
    (void)conn;
    char version[] = AMB_VERSION;
    char name[64];
    (void)snprintf(name, sizeof(name), "%s", with->name);
    char link[16] = "";
    if (with->url->link != AMB_LINK_ANY) {
        (void)snprintf(link, sizeof(link), "%s", amb_link_kind_name(with->url->link));
    }
    char trusted[256] = "";
    char *interfaces[TRUSTED_MAX];
    if (with->trusted != NULL) {
        (void)snprintf(trusted, sizeof(trusted), "%s", with->trusted);
    }
    Amb__Control__Peer peer;
    amb__control__peer__init(&peer);
    peer.n_trusted = split(trusted, interfaces, TRUSTED_MAX);
    peer.trusted = interfaces;
    if (peer.n_trusted != 0) { /* Else no ucx link can come of it, and UCX stays out of here. */
        peer.features = AMB_PEER_UCX_LATE;
        peer.ucx_release = amb_client_ucx_expect(with->ucx, &peer.ucx_tx_seg, &peer.ucx_rx_seg);
    }
    peer.host = amb_host_id("");
    peer.pid_ns = amb_host_namespace("pid");
    peer.ipc_ns = amb_host_namespace("ipc");
    peer.net_ns = amb_host_namespace("net");
    if (with->url->scheme == AMB_URL_UNIX) {
        peer.visible_devices = own_visible_devices();
    }
    Amb__Control__Hello hello;
    amb__control__hello__init(&hello);
    hello.version_min = hello.version_max = AMB_CONTROL_VERSION;
    hello.client_version = version;
    hello.name = name;
    hello.link = link;
    hello.expect = with->url->expect;
    hello.peer = &peer;
    Amb__Control__Control message;
    amb__control__control__init(&message);
    message.hello = &hello;
    message.body_case = AMB__CONTROL__CONTROL__BODY_HELLO;
    return amb_dial_send(dial, &message, -1);
}

/* The broker has chosen the ucx link, and has told its release. Where no UCX here fits that one,
 * and the URL does not insist, Auth says why, and a stream serves. */
static enum amb_status prepare_ucx(struct amb_conn *conn, struct amb_dial *dial,
                                   const struct amb_handshake *with,
                                   const Amb__Control__Challenge *challenge,
                                   Amb__Control__Auth *auth, char reason[AMB_CONTROL_TEXT_MAX])
{
    uint32_t broker = challenge->peer == NULL ? 0 : challenge->peer->ucx_release;
    enum amb_status status =
        amb_client_ucx_prepare(conn, with->ucx, broker, &auth->ucx_release, dial->error);
    if (status == AMB_OK) {
        auth->ucx_address.data = amb_client_ucx_address(conn, &auth->ucx_address.len);
    } else if (status == AMB_ENOTSUP && with->url->link != AMB_LINK_UCX) {
        amb_client_ucx_fini(conn);
        (void)snprintf(reason, AMB_CONTROL_TEXT_MAX, "%.*s", (int)AMB_CONTROL_TEXT_MAX - 1,
                       dial->error->text);
        auth->ucx_reason = reason;
        *dial->error = (struct amb_error){.status = AMB_OK};
        status = AMB_OK;
    }
    return status;
}

static enum amb_status say_auth(struct amb_conn *conn, struct amb_dial *dial,
                                const struct amb_handshake *with,
                                const Amb__Control__Challenge *challenge)
{
    if (challenge->version != AMB_CONTROL_VERSION) {
        return amb_dial_fail(dial, AMB_EVERSION, "the broker speaks version %u, this library %u",
                             challenge->version, AMB_CONTROL_VERSION);
    }
    conn->session.epoch = challenge->epoch;
    char reason[AMB_CONTROL_TEXT_MAX];
    struct amb_own_answer room;
    Amb__Control__Auth auth;
    amb__control__auth__init(&auth);
    enum amb_status status =
        amb_own_answer(with->own, dial, with->url->scheme == AMB_URL_UNIX, challenge, &room, &auth);
    if (status != AMB_OK) {
        return status;
    }
    Amb__Control__Former former;
    amb__control__former__init(&former);
    if (with->former != NULL && with->former->epoch == conn->session.epoch) {
        former.session = with->former->session;
        former.generation = with->former->generation;
        former.secret = with->former->secret;
        former.unmapped = with->former->is_unmapped;
        auth.former = &former;
    }
    if (strcmp(challenge->link, "ucx") == 0) {
        status = prepare_ucx(conn, dial, with, challenge, &auth, reason);
        if (status != AMB_OK) {
            return status;
        }
    }
    Amb__Control__Control message;
    amb__control__control__init(&message);
    message.auth = &auth;
    message.body_case = AMB__CONTROL__CONTROL__BODY_AUTH;
    /* The broker learns from it when this process is gone for good. Old kernels have none. */
    int pidfd = -1;
    if (with->url->scheme == AMB_URL_UNIX && !challenge->knows_process) {
        pidfd = (int)syscall(SYS_pidfd_open, getpid(), 0);
    }
    status = amb_dial_send(dial, &message, pidfd);
    if (pidfd >= 0) {
        (void)close(pidfd);
    }
    return status;
}

/* ---- links ---- */

static enum amb_status attach_ring(struct amb_conn *conn, struct amb_dial *dial,
                                   const Amb__Control__Welcome *welcome)
{
    if (dial->fd_count != 2) {
        return amb_dial_fail(dial, AMB_EPROTO,
                             "the ring's descriptors did not come: is this process out of "
                             "descriptors, or is the broker of another version?");
    }
    struct amb_ring_fds fds = {.memory = dial->fds[0], .bell = dial->fds[1]};
    dial->fd_count = 0;
    enum amb_status status =
        amb_ring_attach(welcome->ring_size, &fds, &amb_conn_link_events, conn, &conn->link);
    return status == AMB_OK ? status : amb_dial_fail(dial, status, "cannot map the ring");
}

/* Over TLS, beside the secret: that both connections are ours. */
static enum amb_status say_attach(const struct amb_conn *conn, const struct amb_dial *first,
                                  struct amb_dial *second)
{
    uint8_t proof[AMB_TLS_PROOF_SIZE];
    Amb__Control__Attach attach;
    amb__control__attach__init(&attach);
    attach.session = conn->session.id;
    attach.generation = conn->session.generation;
    attach.secret = conn->session.secret;
    if (second->tls != NULL) {
        if (!amb_tls_bind(first->tls, second->tls, attach.session, attach.generation, proof)) {
            return amb_dial_fail(second, AMB_EINTERNAL, "HMAC-SHA256 is not available");
        }
        attach.proof.data = proof;
        attach.proof.len = sizeof(proof);
    }
    Amb__Control__Control message;
    amb__control__control__init(&message);
    message.attach = &attach;
    message.body_case = AMB__CONTROL__CONTROL__BODY_ATTACH;
    return amb_dial_send(second, &message, -1);
}

static enum amb_status attach_stream(struct amb_conn *conn, struct amb_dial *dial,
                                     const struct amb_handshake *with)
{
    struct amb_dial second;
    enum amb_status status = amb_dial_open(&second, with->url, &dial->until, dial->error);
    if (status == AMB_EINVAL) { /* The first connection went this way: its interface may be back. */
        status = dial->error->status = AMB_EUNREACHABLE;
    }
    if (status == AMB_OK) {
        status = amb_secure_shake(with->secure, &second, with->url, AMB_TLS_ALPN_LINK);
    }
    if (status == AMB_OK) {
        status = say_attach(conn, dial, &second);
    }
    Amb__Control__Control *answer = NULL;
    if (status == AMB_OK) {
        status = amb_dial_receive(&second, &answer);
    }
    if (status == AMB_OK) {
        amb_control_free(answer);
        int fd = second.fd;
        struct amb_tls *tls = second.tls;
        second.fd = -1;
        second.tls = NULL;
        status = amb_stream_create_tls(fd, tls, &amb_conn_link_events, conn, &conn->link);
        if (status != AMB_OK) {
            (void)amb_dial_fail(dial, status, "no memory for the stream");
        }
    }
    amb_dial_close(&second);
    return status;
}

/* Makes the epoll to sleep on: it has the descriptor of the link, or of the UCX worker, edge
 * triggered. */
static enum amb_status watch_link(struct amb_conn *conn, struct amb_dial *dial)
{
    conn->link_state.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (conn->link_state.epoll_fd < 0) {
        return amb_dial_fail(dial, amb_status_from_errno(errno), "epoll: %s",
                             strerrordesc_np(errno));
    }
    struct epoll_event event = {.events = amb_link_fd_events(conn->link) | EPOLLET};
    int fd = amb_link_fd(conn->link);
    if (fd < 0) {
        fd = amb_client_ucx_fd(conn);
        event.events = EPOLLIN;
    }
    if (fd >= 0 && epoll_ctl(conn->link_state.epoll_fd, EPOLL_CTL_ADD, fd, &event) != 0) {
        return amb_dial_fail(dial, amb_status_from_errno(errno), "epoll: %s",
                             strerrordesc_np(errno));
    }
    return AMB_OK;
}

/* The name of a stream's way, for people. */
static const char *path_of(const struct amb_url *url)
{
    return url->scheme == AMB_URL_UNIX ? "stream" : amb_url_scheme_name(url->scheme);
}

static enum amb_status attach_link(struct amb_conn *conn, struct amb_dial *dial,
                                   const struct amb_handshake *with,
                                   const Amb__Control__Welcome *welcome)
{
    enum amb_status status;
    if (strcmp(welcome->link, "ucx") != 0) {
        amb_client_ucx_fini(conn); /* The broker may think otherwise once it has seen Auth. */
    }
    if (strcmp(welcome->link, "ring") == 0) {
        conn->link_state.path = "ring";
        conn->leases.bytes_max = welcome->lease_bytes;
        status = attach_ring(conn, dial, welcome);
    } else if (strcmp(welcome->link, "stream") == 0) {
        conn->link_state.path = path_of(with->url);
        conn->link_state.has_costly_poll = true;
        status = attach_stream(conn, dial, with);
    } else if (strcmp(welcome->link, "ucx") == 0) {
        conn->link_state.path = "ucx";
        conn->link_state.has_costly_poll = true;
        status = amb_client_ucx_attach(conn, welcome->ucx_address.data, welcome->ucx_address.len,
                                       &amb_conn_link_events, dial->error);
    } else {
        return amb_dial_fail(dial, AMB_EPROTO,
                             "the broker chose a link that this library does "
                             "not know");
    }
    if (status == AMB_OK) {
        status = amb_insist_session(conn, dial->error, with->url, welcome->may_map != 0);
    }
    return status == AMB_OK ? watch_link(conn, dial) : status;
}

static enum amb_status take_welcome(struct amb_conn *conn, struct amb_dial *dial,
                                    const struct amb_handshake *with,
                                    const Amb__Control__Welcome *welcome)
{
    conn->session.id = welcome->session;
    conn->session.generation = welcome->generation;
    conn->session.secret = welcome->secret;
    conn->session.max_message =
        welcome->max_message < AMB_DATA_MAX ? welcome->max_message : AMB_DATA_MAX - AMB_PAYLOAD_PAD;
    if (conn->session.max_message > UINT32_MAX) {
        conn->session.max_message = UINT32_MAX;
    }
    conn->session.batch_bytes = welcome->batch_bytes;
    conn->session.batch_msgs = welcome->batch_msgs;
    if (conn->session.batch_bytes == 0 || conn->session.batch_bytes > AMB_BATCH_BYTES) {
        conn->session.batch_bytes = AMB_BATCH_BYTES;
    }
    if (conn->session.batch_bytes < BATCH_BYTES_MIN) {
        conn->session.batch_bytes = BATCH_BYTES_MIN;
    }
    if (conn->session.batch_msgs == 0 || conn->session.batch_msgs > AMB_BATCH_MSGS_MAX) {
        conn->session.batch_msgs = AMB_BATCH_MSGS_MAX;
    }
    if (welcome->heartbeat_ns > 0 &&
        (conn->control.heartbeat_ns == 0 || welcome->heartbeat_ns < conn->control.heartbeat_ns)) {
        conn->control.heartbeat_ns = welcome->heartbeat_ns;
    }
    conn->control.heartbeat_ns =
        conn->control.heartbeat_ns > 0 ? conn->control.heartbeat_ns : AMB_SEC;
    conn->control.peer_timeout_ns =
        welcome->peer_timeout_ns > 0 ? welcome->peer_timeout_ns : 5 * conn->control.heartbeat_ns;
    return attach_link(conn, dial, with, welcome);
}

enum amb_status amb_handshake_run(struct amb_conn *conn, struct amb_dial *dial,
                                  const struct amb_handshake *with)
{
    enum amb_status status = say_hello(conn, dial, with);
    Amb__Control__Control *message = NULL;
    if (status == AMB_OK) {
        status = amb_dial_receive(dial, &message);
    }
    if (status == AMB_OK) {
        status = message->body_case == AMB__CONTROL__CONTROL__BODY_CHALLENGE
                     ? say_auth(conn, dial, with, message->challenge)
                     : amb_dial_fail(dial, AMB_EPROTO, "the broker did not answer the Hello");
        amb_control_free(message);
        message = NULL;
    }
    if (status == AMB_OK) {
        status = amb_dial_receive(dial, &message);
    }
    if (status == AMB_OK) {
        status = message->body_case == AMB__CONTROL__CONTROL__BODY_WELCOME
                     ? take_welcome(conn, dial, with, message->welcome)
                     : amb_dial_fail(dial, AMB_EPROTO, "the broker did not say Welcome");
        amb_control_free(message);
    }
    if (status == AMB_OK) {
        conn->control.fd = dial->fd;
        conn->control.tls = dial->tls;
        dial->fd = -1;
        dial->tls = NULL;
        conn->control.heard_ns = amb_clock_monotonic_ns();
        conn->control.ping_ns = amb_conn_ping_grid(conn, conn->control.heard_ns);
    }
    return status;
}
