/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/http/health.h"

#include "broker/count/broker_stats.h"
#include "broker/count/shard_stats.h"
#include "wire/base/clock.h"

#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define ASK_NS AMB_NS_PER_SEC
#define WANTED_NS (60 * AMB_NS_PER_SEC)
#define CONNECT_MS 100

int64_t amb_health_turn(struct amb_health *health, int64_t now_ns)
{
    if (now_ns >= health->wanted_ns) {
        return INT64_MAX;
    }
    if (now_ns >= health->next_ns) {
        amb_pulse_ask(&health->pulse, now_ns);
        health->next_ns = now_ns + ASK_NS;
    }
    return health->next_ns;
}

static bool is_silent(struct amb_health *health, int64_t now_ns, unsigned threads,
                      char why[AMB_HEALTH_WHY_MAX])
{
    unsigned thread = 0;
    health->wanted_ns = now_ns + WANTED_NS;
    int64_t silence_ns = amb_pulse_silence_ns(&health->pulse, threads, now_ns, &thread);
    (void)amb_health_turn(health, now_ns);
    if (silence_ns < AMB_HEALTH_SILENT_NS) {
        return false;
    }
    char name[32] = "the control thread";
    if (thread > 0) {
        (void)snprintf(name, sizeof(name), "worker %u", thread - 1);
    }
    (void)snprintf(why, AMB_HEALTH_WHY_MAX, "%s has not turned for %d s", name,
                   (int)(silence_ns / AMB_NS_PER_SEC));
    return true;
}

int64_t amb_health_silence_ns(struct amb_health *health, int64_t now_ns)
{
    unsigned thread = 0;
    int64_t silence_ns = amb_pulse_silence_ns(&health->pulse, health->pulse.count, now_ns, &thread);
    amb_pulse_ask(&health->pulse, now_ns);
    return silence_ns;
}

bool amb_health_is_good(struct amb_health *health, int64_t now_ns, char why[AMB_HEALTH_WHY_MAX])
{
    return !is_silent(health, now_ns, health->pulse.count, why);
}

/* 0, or errno. A listener of this machine answers at once, or not at all. */
static int reach(const struct sockaddr *address, socklen_t len)
{
    int fd = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) {
        return errno;
    }
    int error = connect(fd, address, len) == 0 ? 0 : errno;
    if (error == EINPROGRESS) {
        struct pollfd out = {.fd = fd, .events = POLLOUT};
        socklen_t size = sizeof(error);
        if (poll(&out, 1, CONNECT_MS) != 1 ||
            getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0) {
            error = ETIMEDOUT;
        }
    }
    (void)close(fd);
    return error;
}

static int reach_front(const struct amb_url *front)
{
    if (front->scheme == AMB_URL_UNIX) {
        struct sockaddr_un address = {.sun_family = AF_UNIX};
        memcpy(address.sun_path, front->path, sizeof(front->path));
        return reach((const struct sockaddr *)&address, sizeof(address));
    }
    char port[8];
    struct addrinfo *found = NULL;
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST};
    (void)snprintf(port, sizeof(port), "%u", (unsigned)front->port);
    /* A name would have to be resolved, and its listener is open all the same. */
    if (getaddrinfo(front->host, port, &hints, &found) != 0) {
        return 0;
    }
    int error = reach(found->ai_addr, found->ai_addrlen);
    freeaddrinfo(found);
    return error;
}

bool amb_health_is_ready(struct amb_health *health, const struct amb_broker_stats *stats,
                         const struct amb_url *front, int64_t now_ns, char why[AMB_HEALTH_WHY_MAX])
{
    if (amb_stat_get(&stats->draining) != 0) {
        (void)snprintf(why, AMB_HEALTH_WHY_MAX, "it drains");
        return false;
    }
    if (is_silent(health, now_ns, 1, why)) {
        return false;
    }
    if (now_ns >= health->reach_ns) {
        health->reach_error = reach_front(front);
        health->reach_ns = now_ns + AMB_HEALTH_REACH_NS;
    }
    if (health->reach_error != 0) {
        (void)snprintf(why, AMB_HEALTH_WHY_MAX, "its first listener takes no connection: %s",
                       strerror(health->reach_error));
    }
    return health->reach_error == 0;
}
