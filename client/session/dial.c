/* SPDX-License-Identifier: Apache-2.0 */
#include "client/session/dial.h"

#include "client/drive/control.h"
#include "client/session/via.h"
#include "wire/base/clock.h"
#include "wire/tls/tls_io.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define TLS_ALERT 21u       /* a record's first byte */
#define NAME_MAX_BYTES 400u /* of a URL in an error */

enum amb_status amb_dial_fail(struct amb_dial *dial, enum amb_status status, const char *format,
                              ...)
{
    dial->error->status = status;
    va_list args;
    va_start(args, format);
    (void)vsnprintf(dial->error->text, sizeof(dial->error->text), format, args);
    va_end(args);
    return status;
}

enum amb_status amb_dial_wait(struct amb_dial *dial, short events)
{
    for (;;) {
        int64_t left = dial->until.deadline_ns - amb_clock_monotonic_ns();
        if (left <= 0) {
            return amb_dial_fail(dial, AMB_ETIMEDOUT, "the broker does not answer");
        }
        struct pollfd fds[2] = {{.fd = dial->fd, .events = events},
                                {.fd = dial->until.cancel_fd, .events = POLLIN}};
        int64_t ms = amb_interrupt_slice(&dial->until.interrupt, left) / AMB_NS_PER_MS + 1;
        int ready = poll(fds, 2, ms > 1000 ? 1000 : (int)ms);
        if (ready > 0 && fds[1].revents != 0) {
            return amb_dial_fail(dial, AMB_ECLOSED, "the connection is being closed");
        }
        if (ready > 0) {
            return AMB_OK;
        }
        if (ready < 0 && errno != EINTR) {
            return amb_dial_fail(dial, amb_status_from_errno(errno), "poll: %s",
                                 strerrordesc_np(errno));
        }
        if (amb_is_interrupted(&dial->until.interrupt)) {
            return amb_dial_fail(dial, AMB_ECANCELED, "interrupted");
        }
    }
}

/* A socket, bound to `from` unless that is NULL or has no family. */
static enum amb_status open_socket(struct amb_dial *dial, const struct sockaddr_storage *from,
                                   int family, const char *name)
{
    dial->fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (dial->fd < 0) {
        return amb_dial_fail(dial, amb_status_from_errno(errno), "%s: %s", name,
                             strerrordesc_np(errno));
    }
    int on = 1;
    if (family != AF_UNIX) {
        (void)setsockopt(dial->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    }
    if (from == NULL || from->ss_family == AF_UNSPEC) {
        return AMB_OK;
    }
    /* Its port is chosen when it connects, so that all ports serve each target. */
    (void)setsockopt(dial->fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof(on));
    socklen_t len = family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
    if (bind(dial->fd, (const struct sockaddr *)from, len) != 0) {
        return amb_dial_fail(dial, AMB_EUNREACHABLE, "%s: %s", name, strerrordesc_np(errno));
    }
    return AMB_OK;
}

static enum amb_status connect_to(struct amb_dial *dial, const struct sockaddr_storage *from,
                                  const struct sockaddr *address, socklen_t len, const char *name)
{
    enum amb_status opened = open_socket(dial, from, address->sa_family, name);
    if (opened != AMB_OK) {
        return opened;
    }
    int error = 0;
    while (connect(dial->fd, address, len) != 0) {
        error = errno;
        if (error == EINPROGRESS) {
            enum amb_status status = amb_dial_wait(dial, POLLOUT);
            if (status != AMB_OK) {
                return status;
            }
            socklen_t size = sizeof(error);
            (void)getsockopt(dial->fd, SOL_SOCKET, SO_ERROR, &error, &size);
            break;
        }
        if (error != EAGAIN && error != EINTR) {
            break;
        }
        /* A Unix socket whose backlog is full cannot be waited for. */
        if (amb_clock_monotonic_ns() >= dial->until.deadline_ns) {
            return amb_dial_fail(dial, AMB_ETIMEDOUT, "%s: the broker does not answer", name);
        }
        if (amb_is_interrupted(&dial->until.interrupt)) {
            return amb_dial_fail(dial, AMB_ECANCELED, "interrupted");
        }
        struct pollfd cancel = {.fd = dial->until.cancel_fd, .events = POLLIN};
        if (poll(&cancel, 1, 5) > 0) {
            return amb_dial_fail(dial, AMB_ECLOSED, "the connection is being closed");
        }
        error = 0;
    }
    if (error != 0 && error != EISCONN) {
        return amb_dial_fail(dial, AMB_EUNREACHABLE, "%s: %s", name, strerrordesc_np(error));
    }
    return AMB_OK;
}

/* "URL from 192.0.2.2" */
static void name_source(const struct sockaddr_storage *from, const char *url, char *out,
                        size_t size)
{
    char address[NI_MAXHOST] = "";
    socklen_t len =
        from->ss_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
    bool is_known =
        from->ss_family != AF_UNSPEC && getnameinfo((const struct sockaddr *)from, len, address,
                                                    sizeof(address), NULL, 0, NI_NUMERICHOST) == 0;
    (void)snprintf(out, size, "%s%s%s", url, is_known ? " from " : "", address);
}

/* The first of the host's addresses that answers. */
static enum amb_status connect_first(struct amb_dial *dial, const struct amb_url *url,
                                     const struct amb_interfaces *here,
                                     const struct addrinfo *found, const char *name)
{
    enum amb_status status = AMB_EUNREACHABLE;
    bool is_tried = false;
    for (const struct addrinfo *a = found; a != NULL && status != AMB_OK; a = a->ai_next) {
        struct sockaddr_storage to = {.ss_family = AF_UNSPEC}, from;
        char reason[sizeof(dial->error->text)], whole[NAME_MAX_BYTES + NI_MAXHOST];
        memcpy(&to, a->ai_addr, a->ai_addrlen);
        enum amb_status usable = amb_via_prepare(here, url, &to, &from, reason, sizeof(reason));
        if (usable != AMB_OK) {
            status = is_tried ? status : amb_dial_fail(dial, usable, "%s", reason);
            continue;
        }
        if (dial->fd >= 0) {
            (void)close(dial->fd);
            dial->fd = -1;
        }
        is_tried = true;
        name_source(&from, name, whole, sizeof(whole));
        status = connect_to(dial, &from, (const struct sockaddr *)&to, a->ai_addrlen, whole);
    }
    return status;
}

/* A host that is not found may be an interface's name. */
static enum amb_status not_found(struct amb_dial *dial, const struct amb_url *url, int failed,
                                 const char *name)
{
    char reason[sizeof(dial->error->text)];
    struct amb_interfaces here = {NULL, 0};
    bool is_mistaken = amb_interfaces_read(&here) == AMB_OK &&
                       amb_via_mistaken(&here, url, reason, sizeof(reason));
    amb_interfaces_fini(&here);
    return is_mistaken
               ? amb_dial_fail(dial, AMB_EINVAL, "%s", reason)
               : amb_dial_fail(dial, AMB_EUNREACHABLE, "%s: %s", name, gai_strerror(failed));
}

static enum amb_status open_tcp(struct amb_dial *dial, const struct amb_url *url, const char *name)
{
    char port[8], reason[sizeof(dial->error->text)];
    struct amb_interfaces here = {NULL, 0};
    enum amb_status status = amb_via_asks(url) ? amb_interfaces_read(&here) : AMB_OK;
    if (status != AMB_OK) {
        return amb_dial_fail(dial, status, "%s: the interfaces of this machine cannot be read",
                             name);
    }
    if (amb_via_check(&here, url, reason, sizeof(reason)) != AMB_OK) {
        amb_interfaces_fini(&here);
        return amb_dial_fail(dial, AMB_EINVAL, "%s", reason);
    }
    (void)snprintf(port, sizeof(port), "%u", url->port);
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
    struct addrinfo *found = NULL;
    int failed = getaddrinfo(url->host, port, &hints, &found);
    if (failed != 0) {
        status = not_found(dial, url, failed, name);
    } else {
        status = connect_first(dial, url, &here, found, name);
        freeaddrinfo(found);
    }
    amb_interfaces_fini(&here);
    return status;
}

enum amb_status amb_dial_open(struct amb_dial *dial, const struct amb_url *url,
                              const struct amb_dial_until *until, struct amb_error *error)
{
    memset(dial, 0, sizeof(*dial));
    dial->fd = -1;
    dial->until = *until;
    dial->error = error;
    amb_control_reader_init(&dial->reader);
    char name[NAME_MAX_BYTES];
    amb_url_format(url, name, sizeof(name));
    dial->is_tcp = url->scheme == AMB_URL_TCP;
    if (url->scheme != AMB_URL_UNIX) {
        return open_tcp(dial, url, name);
    }
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    memcpy(address.sun_path, url->path, sizeof(address.sun_path));
    return connect_to(dial, NULL, (const struct sockaddr *)&address, sizeof(address), name);
}

static void drop_fds(struct amb_dial *dial)
{
    for (size_t i = 0; i < dial->fd_count; i++) {
        (void)close(dial->fds[i]);
    }
    dial->fd_count = 0;
}

void amb_dial_close(struct amb_dial *dial)
{
    drop_fds(dial);
    if (dial->tls != NULL) {
        amb_tls_farewell(dial->tls);
        amb_tls_destroy(&dial->tls);
    }
    if (dial->fd >= 0) {
        (void)close(dial->fd);
        dial->fd = -1;
    }
    amb_control_reader_fini(&dial->reader);
}

static long send_some(const struct amb_dial *dial, const uint8_t *data, size_t len, int fd)
{
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control = {0};
    struct iovec iov = {.iov_base = (void *)(uintptr_t)data, .iov_len = len};
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
    if (dial->tls != NULL) {
        return amb_tls_send(dial->tls, &iov, 1);
    }
    if (fd >= 0) {
        msg.msg_control = &control;
        msg.msg_controllen = sizeof(control);
        struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(c), &fd, sizeof(fd));
    }
    return sendmsg(dial->fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static enum amb_status gone(struct amb_dial *dial)
{
    if (dial->tls != NULL && amb_tls_why(dial->tls)[0] != '\0') {
        /* A broker refuses our certificate when we are through already. */
        return amb_dial_fail(dial, amb_tls_refusal(dial->tls), "%s", amb_tls_why(dial->tls));
    }
    return amb_dial_fail(dial, AMB_EUNREACHABLE,
                         "the broker closed the connection during the handshake%s",
                         dial->is_tcp && !dial->was_heard ? ": is it a tls:// listener?" : "");
}

/* Until no record waits for room any more. */
static enum amb_status push(struct amb_dial *dial)
{
    while (dial->tls != NULL && amb_tls_has_unsent(dial->tls)) {
        enum amb_status status = amb_dial_wait(dial, POLLOUT);
        if (status != AMB_OK) {
            return status;
        }
        if (!amb_tls_push(dial->tls)) {
            return gone(dial);
        }
    }
    return AMB_OK;
}

enum amb_status amb_dial_send(struct amb_dial *dial, const Amb__Control__Control *message, int fd)
{
    size_t size = amb_control_packed_size(message);
    uint8_t *bytes = size != 0 ? malloc(size) : NULL;
    if (bytes == NULL) {
        return amb_dial_fail(dial, AMB_ENOMEM, "no memory for a control message");
    }
    amb_control_pack(message, bytes);
    enum amb_status status = AMB_OK;
    size_t sent = 0;
    while (sent < size && status == AMB_OK) {
        long n = send_some(dial, bytes + sent, size - sent, sent == 0 ? fd : -1);
        if (n >= 0) {
            sent += (size_t)n;
        } else if (errno == EAGAIN) {
            status = amb_dial_wait(dial, POLLOUT);
        } else if (errno != EINTR) {
            status = gone(dial);
        }
    }
    free(bytes);
    return status == AMB_OK ? push(dial) : status;
}

/* Turns an Error message into its status. */
static enum amb_status check_error(struct amb_dial *dial, Amb__Control__Control **message)
{
    if ((*message)->body_case != AMB__CONTROL__CONTROL__BODY_ERROR) {
        return AMB_OK;
    }
    const Amb__Control__Error *error = (*message)->error;
    enum amb_status status = error->status < 0 ? (enum amb_status)error->status : AMB_EPROTO;
    status = amb_dial_fail(dial, status, "%s", error->text);
    amb_control_free(*message);
    *message = NULL;
    return status;
}

/* The bytes are none of ours. */
static enum amb_status malformed(struct amb_dial *dial, enum amb_status status, uint8_t first)
{
    bool is_alert = dial->is_tcp && !dial->was_heard && first == TLS_ALERT;
    return amb_dial_fail(dial, status, "this is not a broker: malformed answer%s",
                         is_alert ? "; is it a tls:// listener?" : "");
}

enum amb_status amb_dial_receive(struct amb_dial *dial, Amb__Control__Control **out)
{
    drop_fds(dial);
    uint8_t data[4096];
    for (;;) {
        /* No more than this message: what follows may belong to a link. */
        size_t wanted = amb_control_wanted(&dial->reader);
        long n = amb_control_receive(dial->tls, dial->fd, data,
                                     wanted < sizeof(data) ? wanted : sizeof(data), dial->fds,
                                     AMB_DIAL_FDS_MAX, &dial->fd_count);
        if (n < 0 && errno == EAGAIN) {
            enum amb_status status = amb_dial_wait(dial, POLLIN);
            if (status != AMB_OK) {
                return status;
            }
            continue;
        }
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            return gone(dial);
        }
        size_t used;
        Amb__Control__Control *message = NULL;
        enum amb_status status =
            amb_control_read(&dial->reader, data, (size_t)n, &used, &message, NULL);
        if (status != AMB_OK) {
            return malformed(dial, status, data[0]);
        }
        dial->was_heard = true;
        if (message != NULL) {
            status = check_error(dial, &message);
            *out = message;
            return status;
        }
    }
}
