/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/client.h"

#include "broker/config.h"
#include "broker/control.h"
#include "broker/events.h"
#include "broker/gpupool.h"
#include "broker/queues.h"
#include "broker/shard.h"
#include "broker/slow.h"
#include "wire/base/assert.h"
#include "wire/base/clock.h"
#include "wire/base/log.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define CLIENT_READS_A_ROUND 64 /* messages of one client before others have their turn */
/* Requests of one client under way: past it, it is not read until half of them are answered, so
 * that nobody piles up work for a worker faster than it is done. */
#define CLIENT_WORK_MAX 64u

/* Bytes on their way out, with the descriptors that go with the first of them. */
struct client_out {
    struct amb_list_node node;
    size_t len, sent;
    unsigned fd_count;
    int fds[AMB_CLIENT_FDS_MAX];
    uint8_t bytes[];
};

static void client_on_events(struct amb_watch *watch, uint32_t events);
static void client_on_pidfd(struct amb_watch *watch, uint32_t events);

enum amb_status amb_client_create(struct amb_control *control, int fd, bool is_unix,
                                  struct amb_client **out)
{
    struct amb_client *client = calloc(1, sizeof(*client));
    if (client == NULL) {
        (void)close(fd);
        return AMB_ENOMEM;
    }
    client->watch.fn = client_on_events;
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
    client->watched = EPOLLIN | EPOLLRDHUP | EPOLLHUP;
    enum amb_status status = amb_control_watch(control, &client->watch, fd, client->watched);
    if (status != AMB_OK) {
        (void)close(fd);
        free(client);
        return status;
    }
    amb_list_push_back(&control->clients, &client->node);
    control->client_count++;
    control->half_open_count++;
    *out = client;
    return AMB_OK;
}

bool amb_client_may_map_gpu(const struct amb_client *client)
{
    enum amb_gpu_trust trust = client->control->config->memory.cuda.trust;
    return amb_client_may_map(client) && trust != AMB_GPU_TRUST_NONE &&
           (trust == AMB_GPU_TRUST_ALL || client->uid == 0 || client->uid == geteuid());
}

const char *amb_client_gpu_obstacle(const struct amb_client *client)
{
    const struct amb_gpus *gpus = client->control->shards[0]->gpus;
    if (gpus == NULL || gpus->count == 0) {
        return gpus != NULL ? gpus->why_not : "the broker has no GPU memory (memory.cuda.size)";
    }
    if (!amb_client_may_map(client)) {
        return "only over the ring, by clients on the broker's host";
    }
    return amb_client_may_map_gpu(client) ? NULL
                                          : "not trusted with GPU memory (memory.cuda.trust)";
}

static void out_free(struct amb_client *client, struct client_out *out)
{
    for (unsigned i = 0; i < out->fd_count; i++) {
        (void)close(out->fds[i]);
    }
    client->out_bytes -= out->len;
    amb_list_remove(&out->node);
    free(out);
}

static ssize_t out_write(const struct amb_client *client, const struct client_out *out)
{
    struct iovec iov = {
        .iov_base = (void *)(uintptr_t)(out->bytes + out->sent),
        .iov_len = out->len - out->sent,
    };
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

/* Has epoll report what is of interest now. HUP always is, and is not 0. */
static void client_rewatch(struct amb_client *client)
{
    uint32_t events = EPOLLHUP;
    if (!client->is_paused) {
        events |= EPOLLIN | EPOLLRDHUP;
    }
    if (!amb_list_is_empty(&client->out)) {
        events |= EPOLLOUT;
    }
    if (client->fd >= 0 && events != client->watched) {
        client->watched = events;
        amb_control_rewatch(client->control, &client->watch, client->fd, events);
    }
}

/* False: the connection is broken. */
static bool client_flush(struct amb_client *client)
{
    while (!amb_list_is_empty(&client->out)) {
        struct client_out *out = AMB_CONTAINER_OF(client->out.next, struct client_out, node);
        ssize_t sent = out_write(client, out);
        if (sent < 0) {
            if (errno == EINTR) {
                continue;
            }
            if (errno == EAGAIN || errno == EWOULDBLOCK) {
                client_rewatch(client);
                return true;
            }
            return false;
        }
        out->sent += (size_t)sent;
        if (out->sent == out->len) {
            out_free(client, out);
        }
    }
    client_rewatch(client);
    return true;
}

void amb_client_send(struct amb_client *client, const Amb__Control__Control *message,
                     const int *fds, unsigned fd_count)
{
    amb_assert(fd_count <= AMB_CLIENT_FDS_MAX);
    size_t len = amb_control_packed_size(message);
    amb_assert(len > 0);
    struct client_out *out = NULL;
    if (client->fd >= 0 && client->out_bytes + len <= AMB_CLIENT_OUT_MAX) {
        out = malloc(sizeof(*out) + len);
    }
    if (out == NULL) {
        for (unsigned i = 0; i < fd_count; i++) {
            (void)close(fds[i]);
        }
        amb_client_end(client, "it does not read its control connection");
        return;
    }
    out->len = len;
    out->sent = 0;
    out->fd_count = fd_count;
    if (fd_count > 0) {
        memcpy(out->fds, fds, sizeof(int) * fd_count);
    }
    amb_control_pack(message, out->bytes);
    client->out_bytes += len;
    amb_list_push_back(&client->out, &out->node);
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
        client->control->stats.violations++;
    }
    amb_client_send(client, &message, NULL, 0);
    if (id == 0) {
        amb_client_end(client, text);
    }
}

/* Orders of ended sessions ------------------------------------------------------------------- */

static void session_released(void *control, struct amb_order *order)
{
    struct amb_client *client = order->context;
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
    client->end_order = order; /* It goes with the client, or ends the quarantine first. */
    if (client->held_bytes == 0) {
        amb_control_session_give(control, &order->session);
        client->has_session = false;
    } else if (client->is_dead) {
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
    order->u.close.keep_held =
        client->link == AMB_LINK_RING && !client->said_bye && !client->is_dead;
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
        }
    }
    free(client->publishers);
    free(client->subs);
    client->publishers = NULL;
    client->publisher_count = 0;
    client->subs = NULL;
}

static void client_drop_fd(struct amb_client *client)
{
    if (client->passed_fd >= 0) {
        (void)close(client->passed_fd);
        client->passed_fd = -1;
    }
}

static void client_close_connection(struct amb_client *client)
{
    AMB_LIST_FOR_EACH_SAFE (node, &client->out) {
        out_free(client, AMB_CONTAINER_OF(node, struct client_out, node));
    }
    if (client->fd >= 0) {
        (void)close(client->fd);
        client->fd = -1;
    }
    client_drop_fd(client);
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
        (void)json_object_set_new(json, "pattern", json_string(sub->pattern));
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
        client_tell_note(client, note); /* Which may end it. */
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
        client->control->half_open_count--;
        amb_debug("connection %" PRIu64 ": ended: %s", client->id, why);
    }
    bool is_opening = client->state == AMB_CLIENT_OPENING;
    client->state = AMB_CLIENT_ENDING;
    client_close_connection(client);
    client_leave_directory(client);
    if (client->has_session && !is_opening) { /* opening: closed when the worker has answered */
        amb_client_close_session(client);
    }
    if (client->orders == 0) {
        amb_client_hold(client);
        amb_client_release(client);
    }
}

void amb_client_give_up(struct amb_client *client)
{
    client->is_dead = true; /* For the answer that is still to come. */
    if (client->is_quarantined && client->orders == 0) {
        client_release_session(client);
    }
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
    if (client->is_paused && client->work <= CLIENT_WORK_MAX / 2) {
        client->is_paused = false;
        client->seen_ns = client->control->now_ns; /* Its heartbeats were not read meanwhile. */
        client_rewatch(client);
    }
    amb_client_release(client);
}

void amb_client_bury(struct amb_control *control)
{
    struct amb_list_node *node;
    while ((node = amb_list_pop_front(&control->dead)) != NULL) {
        struct amb_client *client = AMB_CONTAINER_OF(node, struct amb_client, node);
        if (client->pidfd >= 0) {
            (void)close(client->pidfd);
        }
        amb_control_reader_fini(&client->reader);
        amb_order_free(client->end_order);
        control->client_count--;
        free(client);
    }
}

/* Input -------------------------------------------------------------------------------------- */

/* Keeps the last descriptor and closes the others: alignment leaves room for two where there is
 * room for one, and whatever comes is ours. */
static void client_take_fds(struct amb_client *client, const struct cmsghdr *header)
{
    size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; i++) {
        client_drop_fd(client);
        memcpy(&client->passed_fd, CMSG_DATA(header) + i * sizeof(int), sizeof(int));
    }
}

/* Reads at most what the reader wants, so that a descriptor comes with its own message. Returns
 * what recvmsg does. */
static ssize_t client_receive(struct amb_client *client, uint8_t *bytes, size_t size)
{
    struct iovec iov = {.iov_base = bytes, .iov_len = size};
    union {
        char bytes[CMSG_SPACE(sizeof(int))];
        struct cmsghdr align;
    } control;
    struct msghdr message = {
        .msg_iov = &iov,
        .msg_iovlen = 1,
        .msg_control = control.bytes,
        .msg_controllen = sizeof(control.bytes),
    };
    ssize_t got = recvmsg(client->fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (got < 0) {
        return got;
    }
    for (struct cmsghdr *c = CMSG_FIRSTHDR(&message); c != NULL; c = CMSG_NXTHDR(&message, c)) {
        if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS) {
            client_take_fds(client, c);
        }
    }
    return got;
}

/* What it sent is no message. Whoever does not speak our protocol at all gets no answer. */
static void client_refuse_bytes(struct amb_client *client, enum amb_status status,
                                const char *reason)
{
    struct amb_control_stats *stats = &client->control->stats;
    if (status == AMB_ENOMEM) {
        amb_client_send_error(client, 0, AMB_ENOMEM, "no memory");
    } else if (strcmp(reason, "bad_magic") == 0) {
        stats->bad_magic++;
        amb_client_end(client, "it does not speak our protocol");
    } else if (strcmp(reason, "bad_version") == 0) {
        stats->refused_version++;
        amb_client_send_error(client, 0, AMB_EVERSION,
                              "protocol version: this broker speaks %u to %u", AMB_CONTROL_VERSION,
                              AMB_CONTROL_VERSION);
    } else {
        stats->bad_message++;
        amb_client_send_error(client, 0, AMB_EPROTO, "malformed control message: %s", reason);
    }
}

/* False: nothing more to read now, or the client has ended. */
static bool client_read_one(struct amb_client *client)
{
    uint8_t bytes[4096];
    size_t wanted = amb_control_wanted(&client->reader);
    ssize_t got = client_receive(client, bytes, wanted < sizeof(bytes) ? wanted : sizeof(bytes));
    if (got < 0) {
        if (errno == EAGAIN || errno == EWOULDBLOCK) {
            return false;
        }
        if (errno == EINTR) {
            return true;
        }
        amb_client_end(client, "its control connection is broken");
        return false;
    }
    if (got == 0) {
        amb_client_end(client, "it has closed its control connection");
        return false;
    }
    size_t used;
    Amb__Control__Control *message = NULL;
    const char *reason = "";
    enum amb_status status =
        amb_control_read(&client->reader, bytes, (size_t)got, &used, &message, &reason);
    if (status != AMB_OK) {
        client_refuse_bytes(client, status, reason);
        return false;
    }
    amb_assert(used == (size_t)got); /* No more than wanted was read. */
    if (message != NULL) {
        client->seen_ns = client->control->now_ns;
        client->control->on_request(client, message);
        amb_control_free(message);
        client_drop_fd(client); /* Nobody wanted it. */
    }
    if (client->state == AMB_CLIENT_LIVE && client->work >= CLIENT_WORK_MAX) {
        client->is_paused = true;
    }
    if (client->is_paused) {
        client_rewatch(client);
        return false;
    }
    return client->state != AMB_CLIENT_ENDING;
}

static void client_on_events(struct amb_watch *watch, uint32_t events)
{
    struct amb_client *client = AMB_CONTAINER_OF(watch, struct amb_client, watch);
    if (client->state == AMB_CLIENT_ENDING) {
        return;
    }
    if ((events & EPOLLOUT) != 0 && !client_flush(client)) {
        amb_client_end(client, "its control connection is broken");
        return;
    }
    if (client->is_paused) {
        if ((events & (EPOLLHUP | EPOLLERR)) != 0) {
            amb_client_end(client, "it has closed its control connection");
        }
        return;
    }
    if ((events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0) {
        for (int i = 0; i < CLIENT_READS_A_ROUND && client_read_one(client); i++) {
        }
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
    amb_control_rewatch(client->control, watch, client->pidfd, 0);
    amb_client_end(client, "its process has ended");
    if (client->is_quarantined) {
        client_release_session(client);
    }
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
    case AMB_CLIENT_OPENING:
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
    case AMB_CLIENT_ENDING:
        break;
    }
}
