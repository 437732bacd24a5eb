/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/control/clients/client_io.h"

#include "broker/base/peer.h"
#include "broker/control/clients/client_bill.h"
#include "broker/control/clients/client_session.h"
#include "broker/control/clients/control.h"
#include "broker/worker/porter.h"
#include "wire/base/assert.h"
#include "wire/base/passed.h"
#include "wire/tls/tls_io.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define CLIENT_READS_A_ROUND 64 /* of one client before others have their turn; two a message */
#define CLIENT_LAST_READS 1024  /* of one whose link is lost: bye may be behind other messages */

/* Bytes on their way out, with the descriptors that go with the first of them. */
struct client_out {
    struct amb_list_node node;
    size_t len, sent;
    unsigned fd_count;
    int fds[AMB_CLIENT_FDS_MAX];
    uint8_t bytes[];
};

static void out_free(struct amb_client *client, struct client_out *out)
{
    for (unsigned i = 0; i < out->fd_count; i++) {
        (void)close(out->fds[i]);
    }
    client->out_bytes -= sizeof(*out) + out->len;
    amb_heap_give(&client->heap, sizeof(*out) + out->len);
    amb_list_remove(&out->node);
    free(out);
}

static ssize_t out_write(const struct amb_client *client, const struct client_out *out)
{
    struct iovec iov = {
        .iov_base = (void *)(uintptr_t)(out->bytes + out->sent),
        .iov_len = out->len - out->sent,
    };
    if (client->tls != NULL) {
        amb_assert(out->fd_count == 0);
        return amb_tls_send(client->tls, &iov, 1);
    }
    struct msghdr message = {.msg_iov = &iov, .msg_iovlen = 1};
    union {
        char bytes[CMSG_SPACE(sizeof(int) * AMB_CLIENT_FDS_MAX)];
        struct cmsghdr align;
    } control = {{0}};
    if (out->fd_count > 0 && out->sent == 0) {
        message.msg_control = control.bytes;
        message.msg_controllen = CMSG_SPACE(sizeof(int) * out->fd_count);
        struct cmsghdr *header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(sizeof(int) * out->fd_count);
        memcpy(CMSG_DATA(header), out->fds, sizeof(int) * out->fd_count);
    }
    return sendmsg(client->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
}

bool amb_client_has_unsent(const struct amb_client *client)
{
    return !amb_list_is_empty(&client->out) ||
           (client->tls != NULL && amb_tls_has_unsent(client->tls));
}

void amb_client_note_unread(struct amb_client *client)
{
    if (client->tls != NULL && client->paused == 0 && client->state != AMB_CLIENT_ENDING &&
        amb_tls_has_unread(client->tls)) {
        amb_list_remove(&client->of_unread);
        amb_list_push_back(&client->control->unread, &client->of_unread);
    }
}

/* HUP always is of interest, and is not 0. */
void amb_client_rewatch(struct amb_client *client)
{
    uint32_t events = EPOLLHUP;
    if (client->paused == 0) {
        events |= EPOLLIN | EPOLLRDHUP;
    }
    if (amb_client_has_unsent(client)) {
        events |= EPOLLOUT;
    }
    if (client->fd >= 0 && events != client->watched) {
        client->watched = events;
        amb_watch_change(&client->control->watches, &client->watch, client->fd, events);
    }
}

/* At the end of what waits for it. NULL: that is more than may wait, or there is no memory. */
static struct client_out *out_make(struct amb_client *client, const Amb__Control__Control *message)
{
    size_t len = amb_control_packed_size(message);
    amb_assert(len > 0);
    size_t size = sizeof(struct client_out) + len;
    if (client->fd < 0 || client->out_bytes + size > AMB_CLIENT_OUT_MAX ||
        !amb_heap_go_on(&client->heap, size)) {
        return NULL;
    }
    struct client_out *out = malloc(size);
    if (out == NULL) {
        amb_heap_give(&client->heap, size);
        return NULL;
    }
    out->len = len;
    out->sent = 0;
    out->fd_count = 0;
    amb_control_pack(message, out->bytes);
    client->out_bytes += size;
    amb_list_push_back(&client->out, &out->node);
    return out;
}

static bool client_make_pong(struct amb_client *client)
{
    client->owes_pong = false;
    Amb__Control__Pong pong = AMB__CONTROL__PONG__INIT;
    pong.time_ns = client->pong_ns;
    Amb__Control__Control message = AMB__CONTROL__CONTROL__INIT;
    message.body_case = AMB__CONTROL__CONTROL__BODY_PONG;
    message.pong = &pong;
    return out_make(client, &message) != NULL;
}

/* False: the connection is broken. */
static bool client_flush(struct amb_client *client)
{
    if (client->tls != NULL && !amb_tls_push(client->tls)) {
        return false;
    }
    while (!amb_list_is_empty(&client->out) || client->owes_pong) {
        if (amb_list_is_empty(&client->out) && !client_make_pong(client)) {
            return false;
        }
        struct client_out *out = AMB_CONTAINER_OF(client->out.next, struct client_out, node);
        ssize_t sent = out_write(client, out);
        if (sent < 0) {
            if (errno == EINTR) {
                continue;
            }
            if (errno == EAGAIN || errno == EWOULDBLOCK) {
                amb_client_rewatch(client);
                return true;
            }
            return false;
        }
        out->sent += (size_t)sent;
        if (out->sent == out->len) {
            out_free(client, out);
        }
    }
    amb_client_rewatch(client);
    return true;
}

void amb_client_send(struct amb_client *client, const Amb__Control__Control *message,
                     const int *fds, unsigned fd_count)
{
    amb_assert(fd_count <= AMB_CLIENT_FDS_MAX);
    struct client_out *out = out_make(client, message);
    if (out == NULL) {
        for (unsigned i = 0; i < fd_count; i++) {
            (void)close(fds[i]);
        }
        amb_client_end(client, "it does not read its control connection: more waits for it than "
                               "4 MiB, or than " AMB_HEAP_KEY " allows");
        return;
    }
    out->fd_count = fd_count;
    if (fd_count > 0) {
        memcpy(out->fds, fds, sizeof(int) * fd_count);
    }
    if (!client_flush(client)) {
        amb_client_end(client, "its control connection is broken");
    }
}

void amb_client_send_pong(struct amb_client *client, int64_t time_ns)
{
    client->owes_pong = true;
    client->pong_ns = time_ns;
    if (!client_flush(client)) {
        amb_client_end(client, "its control connection is broken");
    }
}

void amb_client_send_ok(struct amb_client *client, uint64_t id)
{
    Amb__Control__Ok ok = AMB__CONTROL__OK__INIT;
    Amb__Control__Control message = AMB__CONTROL__CONTROL__INIT;
    message.id = id;
    message.body_case = AMB__CONTROL__CONTROL__BODY_OK;
    message.ok = &ok;
    amb_client_send(client, &message, NULL, 0);
}

void amb_client_send_error(struct amb_client *client, uint64_t id, enum amb_status status,
                           const char *format, ...)
{
    char text[AMB_CONTROL_TEXT_MAX];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    Amb__Control__Error error = AMB__CONTROL__ERROR__INIT;
    error.status = (int32_t)status;
    error.text = text;
    Amb__Control__Control message = AMB__CONTROL__CONTROL__INIT;
    message.id = id;
    message.body_case = AMB__CONTROL__CONTROL__BODY_ERROR;
    message.error = &error;
    if (client->fd < 0) {
        return;
    }
    if (id == 0 && client->end_status == AMB_OK) {
        client->end_status = status;
    }
    if (id == 0 && status == AMB_EPROTO) {
        amb_stat_add(&client->control->stats->violations, 1);
    }
    amb_client_send(client, &message, NULL, 0);
    if (id == 0) {
        amb_client_end(client, text);
    }
}

static void client_drop_fd(struct amb_client *client)
{
    if (client->passed_fd >= 0) {
        (void)close(client->passed_fd);
        client->passed_fd = -1;
    }
}

void amb_client_close_connection(struct amb_client *client)
{
    AMB_LIST_FOR_EACH_SAFE (node, &client->out) {
        out_free(client, AMB_CONTAINER_OF(node, struct client_out, node));
    }
    amb_list_remove(&client->of_unread);
    if (client->tls != NULL) {
        amb_tls_farewell(client->tls);
        amb_tls_destroy(&client->tls);
    }
    if (client->fd >= 0) {
        amb_watch_remove(&client->control->watches, &client->watch, client->fd);
        if (client->is_unix) {
            amb_porter_close(client->control->porter, client->fd);
        } else {
            (void)close(client->fd);
        }
        client->fd = -1;
    }
    client_drop_fd(client);
}

/* Descriptors of a message, at most as many as fds holds. */
static unsigned take_fds(struct msghdr *message, int *fds, unsigned max)
{
    unsigned taken = 0;
    for (struct cmsghdr *c = CMSG_FIRSTHDR(message); c != NULL; c = CMSG_NXTHDR(message, c)) {
        if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS) {
            size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
            for (size_t i = 0; i < count && taken < max; i++) {
                memcpy(&fds[taken++], CMSG_DATA(c) + i * sizeof(int), sizeof(int));
            }
        }
    }
    return taken;
}

/*
 * Auth, of a client that was asked for a pidfd. Looks before it takes: what is no pidfd, or more
 * than one, is left in the connection. Descriptors that the look has got of such are kept, because
 * closing one could wait for a file's server. False: that is so.
 */
static bool client_take_pidfd(struct amb_client *client, struct iovec *iov, ssize_t *got)
{
    /* Alignment leaves room for two where there is room for one. */
    enum {
        ROOM = 2
    };
    union {
        char bytes[CMSG_SPACE(sizeof(int) * ROOM)];
        struct cmsghdr align;
    } control;
    int fds[ROOM];
    struct msghdr message = {.msg_iov = iov,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof(control.bytes)};
    *got = recvmsg(client->fd, &message, MSG_PEEK | MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    unsigned count = *got <= 0 ? 0 : take_fds(&message, fds, ROOM);
    if (count != 1 || (message.msg_flags & MSG_CTRUNC) != 0 || !amb_peer_is_pidfd(fds[0])) {
        client->control->kept_fds += count;
        return false;
    }
    client->passed_fd = fds[0];
    iov->iov_len = (size_t)*got;
    message.msg_controllen = sizeof(control.bytes);
    *got = recvmsg(client->fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    count = *got <= 0 ? 0 : take_fds(&message, fds, ROOM);
    for (unsigned i = 0; i < count; i++) {
        (void)close(fds[i]); /* The same pidfd. */
    }
    return true;
}

/* Reads at most what the reader wants, so that a descriptor comes with its own message. Returns
 * what recvmsg does. *is_refused: descriptors came that nobody asked for; nothing was read. */
static ssize_t client_receive(struct amb_client *client, uint8_t *bytes, size_t size,
                              bool *is_refused)
{
    struct iovec iov = {.iov_base = bytes, .iov_len = size};
    *is_refused = false;
    if (client->tls != NULL) {
        return amb_tls_receive(client->tls, &iov, 1);
    }
    if (!client->is_unix) {
        return recv(client->fd, bytes, size, MSG_DONTWAIT);
    }
    ssize_t got = amb_passed_receive(client->fd, &iov, 1, is_refused);
    if (*is_refused && client->asks_for_pidfd && client->state == AMB_CLIENT_AUTH &&
        client->passed_fd < 0) {
        *is_refused = !client_take_pidfd(client, &iov, &got);
    }
    return got;
}

/* Its bytes are no message. A peer that does not speak our protocol at all gets no answer. */
static void client_refuse_bytes(struct amb_client *client, enum amb_status status,
                                const char *reason)
{
    struct amb_broker_stats *stats = client->control->stats;
    if (status == AMB_ENOMEM) {
        amb_client_send_error(client, 0, AMB_ENOMEM, "no memory");
    } else if (strcmp(reason, "bad_magic") == 0) {
        amb_stat_add(&stats->bad_magic, 1);
        amb_client_end(client, "it does not speak our protocol");
    } else if (strcmp(reason, "bad_version") == 0) {
        amb_stat_add(&stats->refused_version, 1);
        amb_client_send_error(client, 0, AMB_EVERSION,
                              "protocol version: this broker speaks %u to %u", AMB_CONTROL_VERSION,
                              AMB_CONTROL_VERSION);
    } else {
        amb_stat_add(&stats->bad_message, 1);
        amb_client_send_error(client, 0, AMB_EPROTO, "malformed control message: %s", reason);
    }
}

/* Reading has failed, as errno says. TLS has a sentence for what is wrong with a record. */
static void client_lose(struct amb_client *client)
{
    if (client->tls != NULL && errno == EPROTO) {
        amb_stat_add(&client->control->stats->bad_record, 1);
        amb_client_end(client, amb_tls_why(client->tls));
    } else {
        amb_client_end(client, "its control connection is broken");
    }
}

/* False: nothing more to read now, or the client has ended. */
static bool client_read_one(struct amb_client *client)
{
    uint8_t bytes[4096];
    size_t wanted = amb_control_wanted(&client->reader);
    bool is_refused;
    ssize_t got =
        client_receive(client, bytes, wanted < sizeof(bytes) ? wanted : sizeof(bytes), &is_refused);
    if (is_refused) {
        amb_stat_add(&client->control->stats->passed, 1);
        amb_client_send_error(client, 0, AMB_EPROTO, "descriptors were passed and not asked for");
        return false;
    }
    if (got < 0) {
        if (errno == EAGAIN || errno == EWOULDBLOCK) {
            return false;
        }
        if (errno == EINTR) {
            return true;
        }
        client_lose(client);
        return false;
    }
    if (got == 0) {
        amb_client_end(client, "it has closed its control connection");
        return false;
    }
    return amb_client_take(client, bytes, (size_t)got);
}

bool amb_client_take(struct amb_client *client, const uint8_t *bytes, size_t len)
{
    size_t used;
    Amb__Control__Control *message = NULL;
    const char *reason = "";
    enum amb_status status =
        amb_control_read(&client->reader, bytes, len, &used, &message, &reason);
    if (status != AMB_OK) {
        client_refuse_bytes(client, status, reason);
        return false;
    }
    amb_assert(used == len); /* No more than wanted was read. */
    if (message != NULL) {
        client->seen_ns = client->control->now_ns;
        if (!client->is_leaving || message->body_case == AMB__CONTROL__CONTROL__BODY_BYE) {
            amb_client_bill(client, message);
            client->control->on_request(client, message);
        }
        if (client->kept != message) {
            amb_control_free(message);
        }
    }
    if (client->state == AMB_CLIENT_LIVE && client->work >= AMB_CLIENT_WORK_MAX) {
        client->paused |= AMB_PAUSE_WORK;
    }
    if ((amb_client_must_rest(client) || client->paused != 0) && !client->is_leaving) {
        amb_client_rewatch(client);
        return false;
    }
    return client->state != AMB_CLIENT_ENDING;
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
    if ((client->paused & AMB_PAUSE_WORK) != 0 && client->work <= AMB_CLIENT_WORK_MAX / 2) {
        amb_client_resume(client, AMB_PAUSE_WORK);
    }
    amb_client_release(client);
}

void amb_client_resume(struct amb_client *client, enum amb_client_pause why)
{
    client->paused &= (uint8_t)~why;
    if (client->paused == 0) {
        client->seen_ns = client->control->now_ns; /* Its heartbeats were not read meanwhile. */
        amb_client_rewatch(client);
        amb_client_note_unread(client);
    }
}

void amb_client_read(struct amb_client *client)
{
    if (amb_client_must_rest(client)) {
        amb_client_rewatch(client);
        return;
    }
    for (int i = 0; i < CLIENT_READS_A_ROUND && client_read_one(client); i++) {
    }
    if (client->tls != NULL) {
        amb_client_rewatch(client); /* An answer of libssl's may have to wait for room. */
        amb_client_note_unread(client);
        (void)amb_tls_rest(client->tls); /* Thousands of clients beat at once, and then rest. */
    }
}

void amb_client_lose_link(struct amb_client *client, const char *why)
{
    amb_client_hold(client);
    if (client->state == AMB_CLIENT_LIVE) {
        client->is_leaving = true;
        for (int i = 0; i < CLIENT_LAST_READS && client_read_one(client); i++) {
        }
    }
    amb_client_end(client, why); /* Nothing more, if it has said bye. */
    amb_client_release(client);
}

void amb_client_on_events(struct amb_watch *watch, uint32_t events)
{
    struct amb_client *client = AMB_CONTAINER_OF(watch, struct amb_client, watch);
    if (client->state == AMB_CLIENT_ENDING) {
        return;
    }
    if ((events & EPOLLOUT) != 0 && !client_flush(client)) {
        amb_client_end(client, "its control connection is broken");
        return;
    }
    if (client->paused != 0 && (events & (EPOLLHUP | EPOLLERR)) == 0) {
        return;
    }
    if (client->paused != 0 && client->state != AMB_CLIENT_LIVE) {
        amb_client_end(client, "it has closed its control connection");
        return;
    }
    client->is_leaving = client->paused != 0;
    if ((events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0) {
        amb_client_read(client);
    }
}

void amb_client_read_on(struct amb_control *control)
{
    struct amb_list_node now;
    amb_list_init(&now);
    amb_list_move(&control->unread, &now);
    struct amb_list_node *node;
    while ((node = amb_list_pop_front(&now)) != NULL) {
        struct amb_client *client = AMB_CONTAINER_OF(node, struct amb_client, of_unread);
        if (client->state != AMB_CLIENT_ENDING && client->paused == 0) {
            amb_client_read(client);
        }
    }
}
