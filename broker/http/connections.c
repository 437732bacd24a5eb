/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/http/connections.h"

#include "broker/http/http_private.h"
#include "wire/base/clock.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define PROGRESS_NS ((int64_t)AMB_HTTP_PROGRESS_S * AMB_NS_PER_SEC)
#define PAUSE_NS (100 * AMB_NS_PER_MS)
#define ACCEPTS_A_TURN 16u
/* One event a turn, so one answer at most is made before the observer looks at its mail. One of
 * many objects takes long, and views wait behind it. epoll keeps the others, and goes round. */
#define EVENTS 1
#define READS 8u /* of what a peer has sent that goes unheard */

#define LAST_WORDS(status)                                                                         \
    "HTTP/1.1 " status "\r\nConnection: close\r\nContent-Length: 0\r\nRetry-After: 1\r\n\r\n"
static const char too_many[] = LAST_WORDS("503 Service Unavailable");
static const char malformed[] = LAST_WORDS("400 Bad Request");
static const char too_long[] = LAST_WORDS("431 Request Header Fields Too Large");

static struct amb_http_connection *find_fd(struct amb_http *http, int fd)
{
    for (unsigned i = 0; i < AMB_HTTP_CONNECTIONS; i++) {
        if (http->connections[i].fd == fd) {
            return &http->connections[i];
        }
    }
    return NULL;
}

static void count(struct amb_http *http, int change)
{
    http->connection_count = (unsigned)((int)http->connection_count + change);
    amb_stat_set(&http->stats->http_connections, http->connection_count);
}

static bool is_late(const struct amb_http_connection *own, int64_t now_ns)
{
    return own->since_ns != 0 && now_ns - own->since_ns >= PROGRESS_NS;
}

/* Its descriptor is closed, or somebody else's to close. */
static void forget(struct amb_http *http, struct amb_http_connection *own)
{
    amb_stat_add(&http->stats->http_stopped, is_late(own, amb_clock_monotonic_ns()) ? 1 : 0);
    own->fd = -1;
    own->is_waiting = false;
    count(http, -1);
}

/* It goes unheard. Its bytes so far are read: a peer whose bytes are dropped unread may lose the
 * answer, too. */
static void say_and_close(int fd, const char *words, size_t len)
{
    char bytes[AMB_HTTP_HEAD_MAX];
    for (unsigned i = 0; i < READS && recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT) > 0; i++) {
    }
    ssize_t sent = send(fd, words, len, MSG_DONTWAIT | MSG_NOSIGNAL);
    (void)sent;
    (void)close(fd);
}

static void end(struct amb_http *http, struct amb_http_connection *own)
{
    (void)close(own->fd); /* So epoll forgets it. */
    forget(http, own);
}

void amb_http_on_connection(void *arg, struct MHD_Connection *connection, void **context,
                            enum MHD_ConnectionNotificationCode code)
{
    struct amb_http *http = arg;
    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        const union MHD_ConnectionInfo *fd =
            MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
        *context = fd == NULL ? NULL : find_fd(http, fd->connect_fd);
    } else if (*context != NULL) {
        forget(http, *context);
    }
}

/* It gets that answer, without libmicrohttpd. */
static void refuse(struct amb_http *http, struct amb_http_connection *own, const char *words,
                   size_t len)
{
    amb_stat_add(&http->stats->http_requests, 1);
    amb_stat_add(&http->stats->http_refused, 1);
    say_and_close(own->fd, words, len);
    forget(http, own);
}

/* Its head is there: libmicrohttpd closes the descriptor, also where this fails. */
static void hand_over(struct amb_http *http, struct amb_http_connection *own)
{
    int fd = own->fd;
    struct sockaddr_storage from = {0};
    socklen_t len = sizeof(from);
    own->is_waiting = false;
    own->since_ns = amb_clock_monotonic_ns();
    (void)epoll_ctl(http->epoll_fd, EPOLL_CTL_DEL, fd, NULL);
    (void)getpeername(fd, (struct sockaddr *)&from, &len);
    if (MHD_add_connection(http->daemon, fd, (const struct sockaddr *)&from, len) != MHD_YES &&
        own->fd == fd) {
        forget(http, own);
    }
}

/* libmicrohttpd passes over blank lines before a request: they are no head. */
static bool has_end(const char *head, size_t len)
{
    for (; len > 0 && (*head == '\r' || *head == '\n'); head++) {
        len--;
    }
    return memmem(head, len, "\n\r\n", 3) != NULL || memmem(head, len, "\n\n", 2) != NULL;
}

static bool is_too_long(const struct amb_http *http, size_t len)
{
    return len == sizeof(http->peeked) && !has_end(http->peeked, len);
}

static ssize_t peek(struct amb_http *http, const struct amb_http_connection *own)
{
    return recv(own->fd, http->peeked, sizeof(http->peeked), MSG_PEEK | MSG_DONTWAIT);
}

/* Its event has not had its turn. */
static bool is_unseen(struct amb_http *http, const struct amb_http_connection *own)
{
    ssize_t got = peek(http, own);
    return got > 0 && (is_too_long(http, (size_t)got) || has_end(http->peeked, (size_t)got));
}

static void look(struct amb_http *http, struct amb_http_connection *own, bool is_at_end)
{
    ssize_t got = peek(http, own);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
        return;
    }
    size_t len = got > 0 ? (size_t)got : 0;
    if (memchr(http->peeked, '\0', len) != NULL) {
        refuse(http, own, malformed, sizeof(malformed) - 1);
    } else if (is_too_long(http, len)) {
        refuse(http, own, too_long, sizeof(too_long) - 1);
    } else if (has_end(http->peeked, len)) {
        hand_over(http, own);
    } else if (len == 0 || is_at_end) {
        end(http, own);
    }
}

/* The one that has waited for its head for longest; NULL: each has its head. */
static struct amb_http_connection *longest_waiting(struct amb_http *http)
{
    struct amb_http_connection *found = NULL;
    for (unsigned i = 0; i < AMB_HTTP_CONNECTIONS; i++) {
        struct amb_http_connection *own = &http->connections[i];
        if (own->is_waiting && (found == NULL || own->since_ns < found->since_ns) &&
            !is_unseen(http, own)) {
            found = own;
        }
    }
    return found;
}

/* A place for a new connection; NULL: there is none. Connections without a whole head have to make
 * room: else 64 of them, which cost their peer nothing, would keep probes out. */
static struct amb_http_connection *make_room(struct amb_http *http)
{
    struct amb_http_connection *own = find_fd(http, -1);
    if (own != NULL) {
        return own;
    }
    amb_stat_add(&http->stats->http_turned_away, 1);
    own = longest_waiting(http);
    if (own != NULL) {
        end(http, own);
    }
    return own;
}

static void admit(struct amb_http *http, const struct amb_listener *listener, int fd)
{
    struct amb_http_connection *own = make_room(http);
    if (own == NULL) {
        say_and_close(fd, too_many, sizeof(too_many) - 1);
        return;
    }
    *own = (struct amb_http_connection){.fd = fd,
                                        .is_unix = listener->url.scheme == AMB_URL_UNIX,
                                        .is_waiting = true,
                                        .since_ns = amb_clock_monotonic_ns()};
    count(http, 1);
    struct epoll_event event = {
        .events = EPOLLIN | EPOLLRDHUP | EPOLLET,
        .data = {.u32 = AMB_HTTP_AT_CONNECTIONS + (uint32_t)(own - http->connections)}};
    if (epoll_ctl(http->epoll_fd, EPOLL_CTL_ADD, fd, &event) != 0) {
        end(http, own);
    }
}

static void listen_for(struct amb_http *http, uint32_t events)
{
    http->is_paused = events == 0;
    for (unsigned i = 0; i < http->listener_count; i++) {
        struct epoll_event event = {.events = events, .data = {.u32 = AMB_HTTP_AT_LISTENERS + i}};
        (void)epoll_ctl(http->epoll_fd, EPOLL_CTL_MOD, http->listeners[i].fd, &event);
    }
}

static void accept_some(struct amb_http *http, const struct amb_listener *listener, int64_t now_ns)
{
    for (unsigned i = 0; i < ACCEPTS_A_TURN; i++) {
        int fd = accept4(listener->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd >= 0) {
            admit(http, listener, fd);
        } else if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS) {
            listen_for(http, 0);
            http->resume_ns = now_ns + PAUSE_NS;
            return;
        } else if (errno != EINTR && errno != ECONNABORTED) {
            return;
        }
    }
}

void amb_http_connections_turn(struct amb_http *http, int64_t now_ns)
{
    struct epoll_event events[EVENTS];
    if (http->is_paused && now_ns >= http->resume_ns) {
        listen_for(http, EPOLLIN);
    }
    int ready = epoll_wait(http->epoll_fd, events, EVENTS, 0);
    for (int i = 0; i < ready; i++) {
        uint32_t at = events[i].data.u32;
        if (at >= AMB_HTTP_AT_CONNECTIONS) {
            struct amb_http_connection *own = &http->connections[at - AMB_HTTP_AT_CONNECTIONS];
            if (own->fd >= 0 && own->is_waiting) {
                look(http, own, (events[i].events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0);
            }
        } else if (at >= AMB_HTTP_AT_LISTENERS) {
            accept_some(http, &http->listeners[at - AMB_HTTP_AT_LISTENERS], now_ns);
        }
    }
}

void amb_http_connections_end_slow(struct amb_http *http, int64_t now_ns)
{
    for (unsigned i = 0; i < AMB_HTTP_CONNECTIONS; i++) {
        struct amb_http_connection *own = &http->connections[i];
        if (own->fd < 0 || !is_late(own, now_ns)) {
            continue;
        }
        if (own->is_waiting && !is_unseen(http, own)) {
            end(http, own);
        } else if (!own->is_waiting) {
            (void)shutdown(own->fd, SHUT_RDWR); /* libmicrohttpd closes it. */
        }
    }
}

void amb_http_connections_close(struct amb_http *http)
{
    for (unsigned i = 0; i < AMB_HTTP_CONNECTIONS; i++) {
        if (http->connections[i].fd >= 0 && http->connections[i].is_waiting) {
            end(http, &http->connections[i]);
        }
    }
}
