/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/ctl/forward.h"

#include "tools/common/exit.h"
#include "tools/ctl/visitor.h"
#include "wire/base/clock.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define BUFFER 16384u
#define HEAD_NS (10 * AMB_NS_PER_SEC)

/* Bytes on their way from one end to the other. */
struct pipe {
    char bytes[BUFFER];
    size_t at, len;
    bool is_over; /* its source sends no more */
};

struct connection {
    int browser, broker; /* -1: none */
    struct pipe out, in; /* to the broker; to the browser */
    bool is_judged;      /* its head was seen */
    bool is_ending;      /* when all is written, it is closed */
    int64_t since_ns;    /* when it came */
};

struct amb_forward {
    struct sockaddr_un socket;
    struct amb_visits visits;
    int listener;
    uint16_t port;
    struct connection *connections[AMB_FORWARD_CONNECTIONS];
};

/* ---- one connection ---- */

static void end(struct amb_forward *forward, unsigned i)
{
    struct connection *c = forward->connections[i];
    (void)close(c->browser);
    if (c->broker >= 0) {
        (void)close(c->broker);
    }
    free(c);
    forward->connections[i] = NULL;
}

/* False: the end is broken. */
static bool pull(int fd, struct pipe *pipe)
{
    if (pipe->at == pipe->len) {
        pipe->at = pipe->len = 0;
    } else if (pipe->len == sizeof(pipe->bytes)) {
        return true; /* No room: it is asked again. */
    }
    ssize_t got = recv(fd, pipe->bytes + pipe->len, sizeof(pipe->bytes) - pipe->len, MSG_DONTWAIT);
    if (got < 0) {
        return errno == EAGAIN || errno == EINTR;
    }
    pipe->is_over = pipe->is_over || got == 0;
    pipe->len += (size_t)got;
    return true;
}

static bool push(int fd, struct pipe *pipe)
{
    ssize_t sent =
        send(fd, pipe->bytes + pipe->at, pipe->len - pipe->at, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0) {
        return errno == EAGAIN || errno == EINTR;
    }
    pipe->at += (size_t)sent;
    return true;
}

static void answer(struct connection *c, const char *text)
{
    c->in.at = 0;
    c->in.len = strlen(text);
    memcpy(c->in.bytes, text, c->in.len);
    c->out.at = c->out.len = 0;
    c->is_ending = true;
}

static void reach(struct amb_forward *forward, struct connection *c)
{
    char text[AMB_VISITOR_ANSWER_MAX];
    c->broker = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (c->broker < 0 || connect(c->broker, (const struct sockaddr *)&forward->socket,
                                 sizeof(forward->socket)) != 0) {
        amb_visitor_excuse(c->out.bytes, text);
        answer(c, text);
    }
}

/* Its head may be whole. */
static void judge(struct amb_forward *forward, struct connection *c)
{
    char text[AMB_VISITOR_ANSWER_MAX];
    c->out.bytes[c->out.len] = '\0'; /* A head has at most half of it. */
    enum amb_visitor visitor =
        amb_visitor_judge(&forward->visits, c->out.bytes, c->out.len, forward->port,
                          amb_clock_monotonic_ns(), amb_clock_realtime_ns() / AMB_NS_PER_SEC, text);
    c->is_judged = visitor != AMB_VISITOR_WAITS;
    if (visitor == AMB_VISITOR_ANSWERED) {
        answer(c, text);
    } else if (visitor == AMB_VISITOR_FORWARD) {
        reach(forward, c);
    }
}

static bool read_head(struct amb_forward *forward, struct connection *c)
{
    struct pipe *out = &c->out;
    size_t room = AMB_VISITOR_HEAD_MAX - out->len;
    ssize_t got = recv(c->browser, out->bytes + out->len, room, MSG_DONTWAIT);
    if (got <= 0) {
        return got < 0 && (errno == EAGAIN || errno == EINTR);
    }
    out->len += (size_t)got;
    judge(forward, c);
    return true;
}

/* False: it is to be closed. */
static bool serve(struct amb_forward *forward, struct connection *c, short browser, short broker)
{
    const short bad = POLLERR | POLLNVAL, in = POLLIN | POLLHUP;
    if (!c->is_judged) {
        return (browser & bad) == 0 && ((browser & in) == 0 || read_head(forward, c));
    }
    if (((browser | broker) & bad) != 0) {
        return false;
    }
    bool is_good = true;
    if (!c->is_ending && (browser & in) != 0) {
        is_good = pull(c->browser, &c->out) && !c->out.is_over; /* It has left. */
    }
    if (is_good && c->broker >= 0 && (broker & in) != 0) {
        is_good = pull(c->broker, &c->in);
        c->is_ending = c->is_ending || c->in.is_over;
    }
    if (is_good && c->broker >= 0 && c->out.at < c->out.len) {
        is_good = push(c->broker, &c->out);
    }
    if (is_good && c->in.at < c->in.len) {
        is_good = push(c->browser, &c->in);
    }
    return is_good && !(c->is_ending && c->in.at == c->in.len);
}

/* ---- all of them ---- */

/* A free place, or that of the one which has waited for its head for longest. -1: none. */
static int place(struct amb_forward *forward)
{
    int oldest = -1;
    for (unsigned i = 0; i < AMB_FORWARD_CONNECTIONS; i++) {
        const struct connection *c = forward->connections[i];
        if (c == NULL) {
            return (int)i;
        }
        if (!c->is_judged && (oldest < 0 || c->since_ns < forward->connections[oldest]->since_ns)) {
            oldest = (int)i;
        }
    }
    if (oldest >= 0) {
        end(forward, (unsigned)oldest);
    }
    return oldest;
}

static void take(struct amb_forward *forward)
{
    int fd = accept4(forward->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0) {
        return;
    }
    int at = place(forward);
    struct connection *c = at < 0 ? NULL : calloc(1, sizeof(*c));
    if (c == NULL) {
        (void)close(fd);
        return;
    }
    c->browser = fd;
    c->broker = -1;
    c->since_ns = amb_clock_monotonic_ns();
    forward->connections[at] = c;
}

/* The events that a connection waits for; the two places behind fds[0] are its own. */
static void watch(const struct connection *c, struct pollfd fds[2])
{
    bool is_full = c->out.len == sizeof(c->out.bytes) && c->out.at < c->out.len;
    bool wants_in = !c->is_judged || (!c->is_ending && !is_full);
    fds[0] = (struct pollfd){.fd = c->browser, .events = wants_in ? POLLIN : 0};
    fds[1] = (struct pollfd){.fd = c->broker, .events = 0};
    if (c->in.at < c->in.len) {
        fds[0].events |= POLLOUT;
    } else if (!c->in.is_over) {
        fds[1].events |= POLLIN;
    }
    if (c->is_judged && c->out.at < c->out.len) {
        fds[1].events |= POLLOUT;
    }
    if (fds[1].events == 0) {
        fds[1].fd = -1; /* It would be told again and again that the end has hung up. */
    }
}

void amb_forward_turn(struct amb_forward *forward, int timeout_ms)
{
    struct pollfd fds[1 + 2 * AMB_FORWARD_CONNECTIONS];
    unsigned of[AMB_FORWARD_CONNECTIONS], count = 0;
    fds[0] = (struct pollfd){.fd = forward->listener, .events = POLLIN};
    for (unsigned i = 0; i < AMB_FORWARD_CONNECTIONS; i++) {
        if (forward->connections[i] != NULL) {
            watch(forward->connections[i], &fds[1 + 2 * count]);
            of[count++] = i;
        }
    }
    int ready = poll(fds, 1 + 2 * count, timeout_ms);
    int64_t now_ns = amb_clock_monotonic_ns();
    for (unsigned k = 0; k < count; k++) {
        struct connection *c = forward->connections[of[k]];
        bool is_late = !c->is_judged && now_ns - c->since_ns >= HEAD_NS;
        bool has_news = ready > 0 && (fds[1 + 2 * k].revents | fds[2 + 2 * k].revents) != 0;
        if (is_late ||
            (has_news && !serve(forward, c, fds[1 + 2 * k].revents, fds[2 + 2 * k].revents))) {
            end(forward, of[k]);
        }
    }
    if (ready > 0 && fds[0].revents != 0) {
        take(forward);
    }
}

static bool open_port(struct amb_forward *forward, uint16_t port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    socklen_t len = sizeof(address);
    int on = 1;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    forward->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    bool is_open =
        forward->listener >= 0 &&
        setsockopt(forward->listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) == 0 &&
        bind(forward->listener, (const struct sockaddr *)&address, sizeof(address)) == 0 &&
        listen(forward->listener, 64) == 0 &&
        getsockname(forward->listener, (struct sockaddr *)&address, &len) == 0;
    forward->port = ntohs(address.sin_port);
    return is_open;
}

enum amb_exit amb_forward_open(const char *socket, uint16_t *port, struct amb_forward **out)
{
    struct amb_forward *forward = calloc(1, sizeof(*forward));
    if (forward == NULL || strlen(socket) >= sizeof(forward->socket.sun_path) ||
        amb_visits_init(&forward->visits, "") != AMB_OK) {
        free(forward);
        amb_tool_error("page: no memory");
        return AMB_EXIT_SOFTWARE;
    }
    forward->socket.sun_family = AF_UNIX;
    memcpy(forward->socket.sun_path, socket, strlen(socket) + 1);
    if (!open_port(forward, *port)) {
        amb_tool_error("page: 127.0.0.1:%u: %s", (unsigned)*port, strerror(errno));
        amb_forward_close(&forward);
        return AMB_EXIT_UNAVAILABLE;
    }
    *port = forward->port;
    *out = forward;
    return AMB_EXIT_OK;
}

struct amb_visits *amb_forward_visits(struct amb_forward *forward)
{
    return &forward->visits;
}

void amb_forward_close(struct amb_forward **forward)
{
    struct amb_forward *f = *forward;
    if (f == NULL) {
        return;
    }
    *forward = NULL;
    for (unsigned i = 0; i < AMB_FORWARD_CONNECTIONS; i++) {
        if (f->connections[i] != NULL) {
            end(f, i);
        }
    }
    if (f->listener >= 0) {
        (void)close(f->listener);
    }
    free(f);
}
