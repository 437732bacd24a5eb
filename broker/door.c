/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/door.h"

#include "broker/client.h"
#include "broker/config.h"
#include "wire/base/clock.h"
#include "wire/base/log.h"

#include <arpa/inet.h>
#include <errno.h>
#include <grp.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define DOOR_BACKLOG 512
#define DOOR_ACCEPTS_A_ROUND 64
#define DOOR_PAUSE_NS (100 * AMB_NS_PER_MS)
#define DOOR_MODE_DEFAULT 0660

/* Does anybody answer on this socket file? Then it is *pid's (0: unknown). */
static bool socket_is_served(const struct sockaddr_un *address, pid_t *pid)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) {
        return false;
    }
    bool is_served = connect(fd, (const struct sockaddr *)address, sizeof(*address)) == 0 ||
                     errno == EAGAIN || errno == EINPROGRESS;
    struct ucred peer = {0};
    socklen_t len = sizeof(peer);
    if (is_served && getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) == 0) {
        *pid = peer.pid;
    }
    (void)close(fd);
    return is_served;
}

static enum amb_status unix_permit(const struct amb_url *url, char *error, size_t error_size)
{
    mode_t mode = url->mode >= 0 ? (mode_t)url->mode : DOOR_MODE_DEFAULT;
    if (url->group[0] != '\0') {
        const struct group *group = getgrnam(url->group); /* At start, before other threads. */
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

static enum amb_status unix_bind(struct amb_listener *listener, char *error, size_t error_size)
{
    const struct amb_url *url = &listener->url;
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    memcpy(address.sun_path, url->path, sizeof(url->path));
    pid_t pid = 0;
    if (socket_is_served(&address, &pid)) {
        (void)snprintf(error, error_size, "%s: address in use by pid %d", url->path, (int)pid);
        return AMB_EUNREACHABLE;
    }
    struct stat st;
    if (lstat(url->path, &st) == 0 && S_ISSOCK(st.st_mode)) {
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
    return unix_permit(url, error, error_size);
}

static enum amb_status tcp_bind(struct amb_listener *listener, const struct addrinfo *info,
                                char *error, size_t error_size)
{
    int one = 1;
    (void)setsockopt(listener->fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    if (bind(listener->fd, info->ai_addr, info->ai_addrlen) != 0) {
        (void)snprintf(error, error_size, "tcp://%s:%u: %s", listener->url.host, listener->url.port,
                       strerror(errno));
        return AMB_EUNREACHABLE;
    }
    struct sockaddr_storage bound;
    socklen_t len = sizeof(bound);
    if (getsockname(listener->fd, (struct sockaddr *)&bound, &len) == 0) {
        const struct sockaddr_in *v4 = (const struct sockaddr_in *)(const void *)&bound;
        const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)(const void *)&bound;
        listener->url.port = ntohs(bound.ss_family == AF_INET6 ? v6->sin6_port : v4->sin_port);
    }
    return AMB_OK;
}

static enum amb_status tcp_open(struct amb_listener *listener, char *error, size_t error_size)
{
    char port[8];
    (void)snprintf(port, sizeof(port), "%u", listener->url.port);
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE};
    struct addrinfo *found = NULL;
    int failed = getaddrinfo(listener->url.host, port, &hints, &found);
    if (failed != 0) {
        (void)snprintf(error, error_size, "tcp://%s: %s", listener->url.host, gai_strerror(failed));
        return AMB_EUNREACHABLE;
    }
    enum amb_status status = AMB_EUNREACHABLE;
    listener->fd =
        socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_TCP);
    if (listener->fd < 0) {
        (void)snprintf(error, error_size, "tcp://%s: %s", listener->url.host, strerror(errno));
    } else {
        status = tcp_bind(listener, found, error, error_size);
    }
    freeaddrinfo(found);
    return status;
}

static enum amb_status unix_open(struct amb_listener *listener, char *error, size_t error_size)
{
    listener->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (listener->fd < 0) {
        (void)snprintf(error, error_size, "%s: %s", listener->url.path, strerror(errno));
        return AMB_EUNREACHABLE;
    }
    return unix_bind(listener, error, error_size);
}

/* Accepting ------------------------------------------------------------------------------------ */

static void door_pause(struct amb_control *control, int why)
{
    amb_warn("accept: %s; pausing for %d ms", strerror(why), (int)(DOOR_PAUSE_NS / AMB_NS_PER_MS));
    control->resume_accept_ns = control->now_ns + DOOR_PAUSE_NS;
    for (unsigned i = 0; i < control->listener_count; i++) {
        amb_control_rewatch(control, &control->listeners[i].watch, control->listeners[i].fd, 0);
        control->listeners[i].is_paused = true;
    }
}

void amb_door_resume(struct amb_control *control)
{
    control->resume_accept_ns = 0;
    for (unsigned i = 0; i < control->listener_count; i++) {
        struct amb_listener *listener = &control->listeners[i];
        if (listener->is_paused && listener->fd >= 0) {
            listener->is_paused = false;
            if (amb_control_watch(control, &listener->watch, listener->fd, EPOLLIN) != AMB_OK) {
                amb_error("accept: the listener could not be watched again");
            }
        }
    }
}

/* The oldest connection that has not said who it is goes. */
static void door_evict(struct amb_control *control)
{
    AMB_LIST_FOR_EACH (node, &control->clients) {
        struct amb_client *client = AMB_CONTAINER_OF(node, struct amb_client, node);
        if (client->state == AMB_CLIENT_HELLO || client->state == AMB_CLIENT_AUTH) {
            control->stats.refused_limit++;
            amb_client_end(client, "too many connections that have not said who they are");
            return;
        }
    }
}

static void client_describe_peer(struct amb_client *client, const struct sockaddr_storage *from)
{
    if (client->is_unix) {
        struct ucred peer = {0};
        socklen_t len = sizeof(peer);
        if (getsockopt(client->fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) == 0) {
            client->pid = peer.pid;
            client->uid = peer.uid;
            client->gid = peer.gid;
        }
        (void)snprintf(client->address, sizeof(client->address), "unix");
        return;
    }
    char host[INET6_ADDRSTRLEN] = "?";
    char port[8] = "?";
    (void)getnameinfo((const struct sockaddr *)from, sizeof(*from), host, sizeof(host), port,
                      sizeof(port), NI_NUMERICHOST | NI_NUMERICSERV);
    (void)snprintf(client->address, sizeof(client->address), "%s:%s", host, port);
    client->uid = (uid_t)-1;
    client->gid = (gid_t)-1;
}

static void door_admit(struct amb_listener *listener, int fd, const struct sockaddr_storage *from)
{
    struct amb_control *control = listener->control;
    control->stats.accepted++;
    if (control->half_open_count >= AMB_HALF_OPEN_MAX) {
        door_evict(control);
    }
    struct amb_client *client;
    bool is_unix = listener->url.scheme == AMB_URL_UNIX;
    if (amb_client_create(control, fd, is_unix, &client) != AMB_OK) {
        return;
    }
    client_describe_peer(client, from);
    if (!is_unix) {
        int one = 1;
        (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
        (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof(one));
    }
    if (control->client_count - control->half_open_count >=
        control->config->server.max_connections) {
        control->stats.refused_limit++;
        amb_client_send_error(client, 0, AMB_EBUSY,
                              "limit: %u connections (server.max_connections)",
                              control->config->server.max_connections);
    }
}

static void listener_on_events(struct amb_watch *watch, uint32_t events)
{
    (void)events;
    struct amb_listener *listener = AMB_CONTAINER_OF(watch, struct amb_listener, watch);
    for (int i = 0; i < DOOR_ACCEPTS_A_ROUND; i++) {
        struct sockaddr_storage from;
        socklen_t len = sizeof(from);
        int fd =
            accept4(listener->fd, (struct sockaddr *)&from, &len, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd >= 0) {
            door_admit(listener, fd, &from);
            continue;
        }
        if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS) {
            door_pause(listener->control, errno);
        }
        if (errno != EINTR && errno != ECONNABORTED) {
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
    enum amb_status status = url->scheme == AMB_URL_UNIX ? unix_open(listener, error, error_size)
                                                         : tcp_open(listener, error, error_size);
    if (status != AMB_OK) {
        return status;
    }
    if (listen(listener->fd, DOOR_BACKLOG) != 0) {
        (void)snprintf(error, error_size, "listen: %s", strerror(errno));
        return AMB_EUNREACHABLE;
    }
    return amb_control_watch(control, &listener->watch, listener->fd, EPOLLIN);
}

void amb_door_close(struct amb_control *control)
{
    for (unsigned i = 0; i < control->listener_count; i++) {
        struct amb_listener *listener = &control->listeners[i];
        if (listener->fd < 0) {
            continue;
        }
        (void)close(listener->fd);
        listener->fd = -1;
        struct stat st;
        if (listener->socket_inode != 0 && lstat(listener->url.path, &st) == 0 &&
            (uint64_t)st.st_ino == listener->socket_inode) {
            (void)unlink(listener->url.path); /* Ours still, not a newer broker's. */
        }
    }
}
