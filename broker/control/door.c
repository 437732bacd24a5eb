/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/control/door.h"

#include "broker/base/user.h"
#include "broker/config/config.h"
#include "broker/control/clients/client.h"
#include "broker/control/portowner.h"
#include "broker/tls/handshaker.h"
#include "broker/worker/porter.h"
#include "wire/base/assert.h"
#include "wire/base/clock.h"
#include "wire/base/log.h"
#include "wire/tls/tls.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define DOOR_BACKLOG 512
#define DOOR_ACCEPTS_A_ROUND 64u
#define DOOR_PAUSE_NS (100 * AMB_NS_PER_MS)
#define DOOR_CLOSING_NS (5 * AMB_NS_PER_MS) /* the porter closes one sooner, most often */
#define DOOR_LOCK_PAUSE_US 10000u
#define DOOR_LOCK_TRIES 100

/* pid 0: unknown. */
static void say_in_use(const char *address, pid_t pid, char *error, size_t error_size)
{
    if (pid > 0) {
        (void)snprintf(error, error_size, "%s: address in use by pid %d", address, (int)pid);
    } else {
        (void)snprintf(error, error_size, "%s: address in use", address);
    }
}

/* Does anybody answer on this socket file? Then it is *pid's (0: unknown). */
static bool socket_is_served(const struct sockaddr_un *address, pid_t *pid)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) {
        return false;
    }
    /* Only a refusal says that nobody is there: a full backlog or a missing permission does not. */
    bool is_served = connect(fd, (const struct sockaddr *)address, sizeof(*address)) == 0 ||
                     (errno != ECONNREFUSED && errno != ENOENT);
    struct ucred peer = {0};
    socklen_t len = sizeof(peer);
    if (is_served && getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) == 0) {
        *pid = peer.pid;
    }
    (void)close(fd);
    return is_served;
}

enum amb_status amb_door_permit(const struct amb_url *url, char *error, size_t error_size)
{
    mode_t mode = url->mode >= 0 ? (mode_t)url->mode : AMB_DOOR_MODE;
    if (url->group[0] != '\0') {
        const struct group *group = getgrnam(url->group); /* Nobody else asks for groups. */
        if (group == NULL || chown(url->path, (uid_t)-1, group->gr_gid) != 0) {
            (void)snprintf(error, error_size, "%s: group %s: %s", url->path, url->group,
                           group == NULL ? "no such group" : strerror(errno));
            return AMB_EFORBIDDEN;
        }
    }
    if (chmod(url->path, mode) != 0) {
        (void)snprintf(error, error_size, "%s: %s", url->path, strerror(errno));
        return AMB_EFORBIDDEN;
    }
    return AMB_OK;
}

/*
 * Two brokers that start together must not both find the old socket file stale: the second would
 * remove what the first has just made. So looking, removing, binding and listening are done with
 * the folder locked, and no lock file is left. Anybody who may read the folder can hold that lock.
 * After a second we go on without, and have the race again but not the wait. -1: no lock.
 */
static int folder_lock(const char *path)
{
    char folder[sizeof(((struct sockaddr_un *)0)->sun_path)];
    const char *slash = strrchr(path, '/');
    size_t len = slash == NULL ? 0 : (size_t)(slash - path);
    (void)snprintf(folder, sizeof(folder), "%.*s", (int)len, path);
    const char *name = slash == NULL ? "." : len == 0 ? "/" : folder;
    int fd = open(name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (int waited = 0; fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) != 0; waited++) {
        if (errno != EWOULDBLOCK || waited == DOOR_LOCK_TRIES) {
            (void)close(fd);
            return -1;
        }
        (void)usleep(DOOR_LOCK_PAUSE_US);
    }
    return fd;
}

static enum amb_status unix_bind(struct amb_listener *listener, char *error, size_t error_size)
{
    const struct amb_url *url = &listener->url;
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    memcpy(address.sun_path, url->path, sizeof(url->path));
    pid_t pid = 0;
    struct stat st;
    bool is_there = lstat(url->path, &st) == 0;
    if (is_there && !S_ISSOCK(st.st_mode)) {
        (void)snprintf(error, error_size, "%s: it exists and is no socket", url->path);
        return AMB_EUNREACHABLE;
    }
    if (is_there && socket_is_served(&address, &pid)) {
        say_in_use(url->path, pid, error, error_size);
        return AMB_EUNREACHABLE;
    }
    if (is_there) {
        (void)unlink(url->path); /* Nobody answers: left over from a broker that was killed. */
    }
    mode_t before = umask(0177); /* Nobody connects before the mode is right. */
    int bound = bind(listener->fd, (const struct sockaddr *)&address, sizeof(address));
    int bind_errno = errno;
    (void)umask(before);
    if (bound != 0) {
        (void)snprintf(error, error_size, "%s: %s", url->path, strerror(bind_errno));
        return AMB_EUNREACHABLE;
    }
    if (lstat(url->path, &st) == 0) {
        listener->socket_inode = (uint64_t)st.st_ino;
    }
    return amb_door_permit(url, error, error_size);
}

static void tcp_complain(const struct amb_url *url, int why, char *error, size_t error_size)
{
    char address[320];
    amb_url_format(url, address, sizeof(address));
    if (why == EADDRINUSE) {
        say_in_use(address, amb_port_owner(url->port), error, error_size);
    } else {
        (void)snprintf(error, error_size, "%s: %s", address, strerror(why));
    }
}

/* 0, or errno. */
static int tcp_bind(struct amb_listener *listener, const struct addrinfo *info)
{
    listener->fd = socket(info->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_TCP);
    if (listener->fd < 0) {
        return errno;
    }
    int one = 1;
    (void)setsockopt(listener->fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    /* Two sockets may be bound with REUSEADDR, but only one can listen. */
    if (bind(listener->fd, info->ai_addr, info->ai_addrlen) != 0 ||
        listen(listener->fd, DOOR_BACKLOG) != 0) {
        int why = errno;
        (void)close(listener->fd);
        listener->fd = -1;
        return why;
    }
    struct sockaddr_storage bound;
    socklen_t len = sizeof(bound);
    if (getsockname(listener->fd, (struct sockaddr *)&bound, &len) == 0) {
        const struct sockaddr_in *v4 = (const struct sockaddr_in *)(const void *)&bound;
        const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)(const void *)&bound;
        listener->url.port = ntohs(bound.ss_family == AF_INET6 ? v6->sin6_port : v4->sin_port);
    }
    return 0;
}

/* The first of the name's addresses that works. */
static enum amb_status tcp_open(struct amb_listener *listener, char *error, size_t error_size)
{
    char port[8];
    (void)snprintf(port, sizeof(port), "%u", listener->url.port);
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE};
    struct addrinfo *found = NULL;
    int failed = getaddrinfo(listener->url.host, port, &hints, &found);
    if (failed != 0) {
        (void)snprintf(error, error_size, "%s://%s: %s", amb_url_scheme_name(listener->url.scheme),
                       listener->url.host, gai_strerror(failed));
        return AMB_EUNREACHABLE;
    }
    int why = EADDRNOTAVAIL;
    for (const struct addrinfo *info = found; info != NULL && why != 0; info = info->ai_next) {
        why = tcp_bind(listener, info);
    }
    freeaddrinfo(found);
    if (why != 0) {
        tcp_complain(&listener->url, why, error, error_size);
        return AMB_EUNREACHABLE;
    }
    return AMB_OK;
}

static enum amb_status unix_open(struct amb_listener *listener, char *error, size_t error_size)
{
    listener->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (listener->fd < 0) {
        (void)snprintf(error, error_size, "%s: %s", listener->url.path, strerror(errno));
        return AMB_EUNREACHABLE;
    }
    int lock = folder_lock(listener->url.path);
    enum amb_status status = unix_bind(listener, error, error_size);
    if (status == AMB_OK && listen(listener->fd, DOOR_BACKLOG) != 0) {
        (void)snprintf(error, error_size, "%s: %s", listener->url.path, strerror(errno));
        status = AMB_EUNREACHABLE;
    }
    if (lock >= 0) {
        (void)close(lock);
    }
    return status;
}

enum amb_status amb_door_socket(struct amb_listener *listener, char *error, size_t error_size)
{
    listener->fd = -1;
    return listener->url.scheme == AMB_URL_UNIX ? unix_open(listener, error, error_size)
                                                : tcp_open(listener, error, error_size);
}

void amb_door_remove(struct amb_listener *listener)
{
    struct stat st;
    if (listener->socket_inode != 0 && lstat(listener->url.path, &st) == 0 &&
        (uint64_t)st.st_ino == listener->socket_inode) {
        (void)unlink(listener->url.path); /* Ours still, not a newer broker's. */
    }
}

/* Accepting ------------------------------------------------------------------------------------ */

static void door_resume_in(struct amb_control *control, const char *why, int64_t pause_ns)
{
    if (control->pause_logged_ns == 0 ||
        control->now_ns - control->pause_logged_ns >= AMB_NS_PER_SEC) {
        control->pause_logged_ns = control->now_ns; /* A line a second, however long it lasts. */
        amb_warn("accept: %s; pausing for %d ms", why, (int)(pause_ns / AMB_NS_PER_MS));
    }
    control->resume_accept_ns = control->now_ns + pause_ns;
}

static void listener_pause(struct amb_listener *listener)
{
    if (listener->fd >= 0 && !listener->is_paused) {
        amb_watch_remove(&listener->control->watches, &listener->watch, listener->fd);
        listener->is_paused = true;
    }
}

static void door_pause(struct amb_control *control, const char *why, int64_t pause_ns)
{
    door_resume_in(control, why, pause_ns);
    for (unsigned i = 0; i < control->listener_count; i++) {
        listener_pause(&control->listeners[i]);
    }
}

void amb_door_resume(struct amb_control *control)
{
    control->resume_accept_ns = 0;
    for (unsigned i = 0; i < control->listener_count; i++) {
        struct amb_listener *listener = &control->listeners[i];
        if (listener->is_paused && listener->fd >= 0) {
            enum amb_status status =
                amb_watch_add(&control->watches, &listener->watch, listener->fd, EPOLLIN);
            listener->is_paused = status != AMB_OK;
            if (status != AMB_OK) { /* Else nobody would come in there any more. */
                door_resume_in(control, amb_status_text(status), DOOR_PAUSE_NS);
            }
        }
    }
}

/* Closes a half-open connection without a word: a full door tells no failure before its time.
 * *is_at_once: its descriptor is free at once. False: there is no such connection. */
static bool door_evict(struct amb_control *control, bool *is_at_once)
{
    struct amb_half_open_one one = amb_half_open_next(&control->half_open);
    if (one.way != NULL) {
        *is_at_once = false;
        amb_half_open_leave_handshake(&control->half_open, one.way);
        amb_handshakers_evict(one.way);
    } else if (one.client != NULL) {
        *is_at_once = !one.client->is_unix || control->porter == NULL;
        if (one.client->refusal_ns == 0) { /* Else it counts as refused already. */
            amb_stat_add(&control->stats->refused_limit, 1);
        }
        amb_client_end(one.client, "too many connections that have not said who they are");
    }
    return one.way != NULL || one.client != NULL;
}

static void client_describe_peer(struct amb_client *client, const struct sockaddr_storage *from)
{
    if (client->is_unix) {
        struct ucred peer = {.uid = (uid_t)-1, .gid = (gid_t)-1}; /* Unknown is not root. */
        socklen_t len = sizeof(peer);
        (void)getsockopt(client->fd, SOL_SOCKET, SO_PEERCRED, &peer, &len);
        client->pid = peer.pid;
        client->uid = peer.uid;
        client->gid = peer.gid;
        client->user = amb_user_of_uid(peer.uid, client->control->overflow_uid);
        (void)snprintf(client->address, sizeof(client->address), "unix");
        return;
    }
    char host[INET6_ADDRSTRLEN] = "?";
    char port[8] = "?";
    (void)getnameinfo((const struct sockaddr *)from, sizeof(*from), host, sizeof(host), port,
                      sizeof(port), NI_NUMERICHOST | NI_NUMERICSERV);
    (void)snprintf(client->address, sizeof(client->address), "%s:%s", host, port);
    client->uid = (uid_t)-1;
    client->user = AMB_USER_TCP;
    client->gid = (gid_t)-1;
}

/* Handshakes of TLS, also those that are given up and not yet closed. */
static uint32_t door_handshakes(const struct amb_control *control)
{
    return control->handshakers == NULL ? 0 : control->handshakers->half_open;
}

/* One more has come. At the limit a half-open connection goes for it, a client or a handshake. */
static void door_hold_limit(struct amb_control *control)
{
    bool is_at_once;
    if (amb_half_open_count(&control->half_open) >= control->config->server.max_half_open) {
        (void)door_evict(control, &is_at_once);
    }
}

static void tcp_prepare(int fd)
{
    int one = 1;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof(one));
}

static void door_begin_handshake(struct amb_control *control, int fd,
                                 const struct sockaddr_storage *from)
{
    const struct amb_config *config = control->config;
    struct amb_handshake_way *way =
        amb_handshakers_give(control->handshakers, fd, from, config->tls.context,
                             amb_deadline_ns(control->now_ns, config->server.handshake_timeout_ns));
    if (way != NULL) {
        amb_half_open_place_handshake(&control->half_open, way);
    }
}

static void door_admit(struct amb_listener *listener, int fd, const struct sockaddr_storage *from)
{
    struct amb_control *control = listener->control;
    struct amb_client *client;
    bool is_unix = listener->url.scheme == AMB_URL_UNIX;
    amb_stat_add(&control->stats->accepted, 1);
    door_hold_limit(control);
    if (!is_unix) {
        tcp_prepare(fd);
    }
    if (listener->url.scheme == AMB_URL_TLS) {
        door_begin_handshake(control, fd, from);
    } else if (amb_client_create(control, fd, is_unix, &client) == AMB_OK) {
        client_describe_peer(client, from);
        amb_half_open_place(client, from);
    }
}

void amb_door_handshake_over(struct amb_mail *mail, void *owner)
{
    struct amb_control *control = owner;
    struct amb_handshake_way *way = AMB_CONTAINER_OF(mail, struct amb_handshake_way, mail);
    struct amb_client *client;
    if (way->fd < 0 || control->is_over) {
        amb_half_open_leave_handshake(&control->half_open, way);
        amb_handshake_way_close(way);
        return;
    }
    if (amb_client_create(control, way->fd, false, &client) != AMB_OK) {
        amb_half_open_leave_handshake(&control->half_open, way);
        amb_tls_destroy(&way->tls); /* The descriptor is closed. */
        amb_handshake_way_free(way);
        return;
    }
    client_describe_peer(client, &way->from);
    amb_half_open_take_over(client, way);
    client->deadline_ns = way->deadline_ns; /* It began at the door. */
    if (amb_client_use_tls(client, way->tls) != AMB_OK) {
        amb_tls_destroy(&way->tls);
        amb_client_end(client, "its TLS needs more heap than " AMB_HEAP_KEY " allows");
    }
    amb_handshake_way_free(way);
}

unsigned amb_door_quota(unsigned budget, unsigned index, unsigned count, uint32_t round)
{
    return budget / count + ((index + round) % count < budget % count);
}

/* So many connections may all listeners together accept. With more, one that came in this round
 * could be pushed out before it is heard. */
static uint32_t door_round(const struct amb_control *control)
{
    uint32_t half = control->config->server.max_half_open / 2;
    return half < DOOR_ACCEPTS_A_ROUND ? half : DOOR_ACCEPTS_A_ROUND;
}

static unsigned door_accepts(const struct amb_listener *listener)
{
    const struct amb_control *control = listener->control;
    return amb_door_quota(door_round(control), (unsigned)(listener - control->listeners),
                          control->listener_count, control->round);
}

/* A handshake that is given up counts here until its handshaker has closed it. So a round more than
 * the limit is allowed: else a silent crowd would keep everybody out. */
static bool door_is_crowded(const struct amb_listener *listener)
{
    const struct amb_control *control = listener->control;
    return listener->url.scheme == AMB_URL_TLS &&
           control->half_open.clients + door_handshakes(control) >=
               control->config->server.max_half_open + door_round(control);
}

/* Has somebody been told to close a connection, and has not yet? */
static bool door_is_closing(const struct amb_control *control)
{
    return amb_porter_is_behind(control->porter, 0) ||
           (control->handshakers != NULL && control->handshakers->closing > 0);
}

/* Descriptors are used up, and a half-open connection goes for the next one. Where another thread
 * closes it, acceptance waits for its descriptor: else one after the other would go in vain. False:
 * nothing is to be accepted now. */
static bool door_make_room(struct amb_control *control)
{
    bool is_at_once = false;
    if (door_is_closing(control)) {
        door_pause(control, strerror(EMFILE), DOOR_CLOSING_NS);
    } else if (!door_evict(control, &is_at_once)) {
        door_pause(control, strerror(EMFILE), DOOR_PAUSE_NS);
    } else if (!is_at_once) {
        door_pause(control, strerror(EMFILE), DOOR_CLOSING_NS);
    }
    return is_at_once;
}

/* Does somebody wait there? Without a descriptor accept4 does not say, and then nobody need go. */
static bool listener_has_one(const struct amb_listener *listener)
{
    struct pollfd waits = {.fd = listener->fd, .events = POLLIN};
    return poll(&waits, 1, 0) == 1;
}

static void listener_on_events(struct amb_watch *watch, uint32_t events)
{
    (void)events;
    struct amb_listener *listener = AMB_CONTAINER_OF(watch, struct amb_listener, watch);
    /* Clients are let in no faster than sessions are made, and connections closed. */
    struct amb_control *control = listener->control;
    if (amb_porter_is_behind(control->porter, control->config->server.max_closing)) {
        door_pause(control, "too many connections wait to be closed", DOOR_PAUSE_NS);
        return;
    }
    if (control->opening_count >= AMB_OPENING_MAX) {
        door_pause(control, "too many clients wait for their sessions", DOOR_PAUSE_NS);
        return;
    }
    if (control->proofs >= AMB_PROOFS_MAX) {
        door_pause(control, "too many signatures are to be checked", DOOR_CLOSING_NS);
        return;
    }
    if (door_is_crowded(listener)) {
        door_resume_in(control, "too many handshakes of TLS are under way", DOOR_CLOSING_NS);
        listener_pause(listener);
        return;
    }
    for (unsigned i = door_accepts(listener); i > 0; i--) {
        struct sockaddr_storage from;
        socklen_t len = sizeof(from);
        int fd =
            accept4(listener->fd, (struct sockaddr *)&from, &len, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd >= 0) {
            door_admit(listener, fd, &from);
            continue;
        }
        int why = errno;
        if (why == EMFILE && listener_has_one(listener) && door_make_room(control)) {
            continue;
        }
        if (why == ENFILE || why == ENOMEM || why == ENOBUFS) {
            door_pause(control, strerror(why), DOOR_PAUSE_NS);
        }
        if (why != EINTR && why != ECONNABORTED) {
            return;
        }
    }
}

enum amb_status amb_door_open(struct amb_control *control, const struct amb_url *url, char *error,
                              size_t error_size)
{
    if (control->listener_count == AMB_LISTENERS_MAX) {
        (void)snprintf(error, error_size, "listen: at most %u listeners", AMB_LISTENERS_MAX);
        return AMB_ELIMIT;
    }
    struct amb_listener *listener = &control->listeners[control->listener_count++];
    *listener = (struct amb_listener){.control = control, .url = *url, .fd = -1};
    listener->watch.fn = listener_on_events;
    enum amb_status status = amb_door_socket(listener, error, error_size);
    return status == AMB_OK
               ? amb_watch_add(&control->watches, &listener->watch, listener->fd, EPOLLIN)
               : status;
}

void amb_door_close(struct amb_control *control)
{
    for (unsigned i = 0; i < control->listener_count; i++) {
        struct amb_listener *listener = &control->listeners[i];
        if (listener->fd < 0) {
            continue;
        }
        amb_watch_remove(&control->watches, &listener->watch, listener->fd);
        /* Before it is closed: what nobody answers on is another broker's to remove. */
        amb_door_remove(listener);
        if (listener->url.scheme == AMB_URL_UNIX) {
            amb_porter_close(control->porter, listener->fd);
        } else {
            (void)close(listener->fd);
        }
        listener->fd = -1;
    }
}
