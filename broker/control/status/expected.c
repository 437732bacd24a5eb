/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/control/status/expected.h"

#include "broker/control/clients/client.h"
#include "broker/control/clients/control.h"
#include "broker/control/status/why.h"
#include "wire/base/clock.h"
#include "wire/base/interface.h"
#include "wire/tls/tls_rate.h"

#include <ifaddrs.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#define COPY_BYTES ((size_t)4 << 20) /* past a core's own cache */
#define COPY_ROUNDS 3u
#define SOCKET_PIECE ((size_t)64 << 10)
#define SOCKET_ROUNDS 64u
#define MBIT UINT64_C(125000) /* bytes a second of a Mb/s */

/* ---- this machine ---- */

static uint64_t rate_of(uint64_t bytes, int64_t ns)
{
    return ns > 0 ? (uint64_t)((double)bytes * 1e9 / (double)ns) : 0;
}

uint64_t amb_expected_measure_copy(void)
{
    uint8_t *from = malloc(COPY_BYTES), *to = malloc(COPY_BYTES);
    int64_t best_ns = 0;
    if (from != NULL && to != NULL) {
        memset(from, 1, COPY_BYTES);
        memset(to, 2, COPY_BYTES);
        for (unsigned i = 0; i < COPY_ROUNDS; i++) {
            int64_t begin = amb_clock_monotonic_ns();
            memcpy(to, from, COPY_BYTES);
            __asm__ volatile("" : : "r"(to) : "memory"); /* Somebody might read it. */
            int64_t ns = amb_clock_monotonic_ns() - begin;
            best_ns = best_ns == 0 || ns < best_ns ? ns : best_ns;
        }
    }
    free(from);
    free(to);
    return rate_of(COPY_BYTES, best_ns);
}

/* A piece through the pair; false: it does not take one. */
static bool pass(const int pair[2], uint8_t *bytes)
{
    size_t wrote = 0, read_bytes = 0;
    while (read_bytes < SOCKET_PIECE) {
        ssize_t n = wrote < SOCKET_PIECE
                        ? send(pair[0], bytes + wrote, SOCKET_PIECE - wrote, MSG_DONTWAIT)
                        : 0;
        wrote += n > 0 ? (size_t)n : 0;
        ssize_t got = recv(pair[1], bytes, SOCKET_PIECE, MSG_DONTWAIT);
        if (n < 0 && got < 0) {
            return false;
        }
        read_bytes += got > 0 ? (size_t)got : 0;
    }
    return true;
}

uint64_t amb_expected_measure_socket(void)
{
    int pair[2];
    uint8_t *bytes = calloc(1, SOCKET_PIECE);
    uint64_t passed = 0;
    if (bytes == NULL || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) {
        free(bytes);
        return 0;
    }
    int64_t begin = amb_clock_monotonic_ns();
    for (unsigned i = 0; i < SOCKET_ROUNDS && pass(pair, bytes); i++) {
        passed += SOCKET_PIECE;
    }
    int64_t ns = amb_clock_monotonic_ns() - begin;
    (void)close(pair[0]);
    (void)close(pair[1]);
    free(bytes);
    return rate_of(passed, ns);
}

/* ---- interfaces ---- */

/* The interface with that address; "": there is none. */
static void interface_of(const struct sockaddr *here, char out[IF_NAMESIZE])
{
    struct ifaddrs *list = NULL;
    out[0] = '\0';
    if (getifaddrs(&list) != 0) {
        return;
    }
    for (const struct ifaddrs *at = list; at != NULL && out[0] == '\0'; at = at->ifa_next) {
        if (at->ifa_addr != NULL && amb_address_is_same(at->ifa_addr, here)) {
            (void)snprintf(out, IF_NAMESIZE, "%s", at->ifa_name);
        }
    }
    freeifaddrs(list);
}

/* As the driver tells it; 0: it does not. */
static uint64_t speed_of(int fd, const char *interface)
{
    struct ethtool_cmd command = {.cmd = ETHTOOL_GSET};
    struct ifreq request = {0};
    (void)snprintf(request.ifr_name, sizeof(request.ifr_name), "%s", interface);
    request.ifr_data = (void *)&command;
    if (ioctl(fd, SIOCETHTOOL, &request) != 0) {
        return 0;
    }
    uint32_t mbit = ethtool_cmd_speed(&command);
    return mbit == (uint32_t)SPEED_UNKNOWN ? 0 : mbit * MBIT;
}

/* An answer holds for a second: rows of many clients ask for the same few addresses. To list a
 * thousand interfaces takes long. NULL: there is no connection. */
static const struct amb_control_network *network_of(const struct amb_client *client)
{
    struct sockaddr_storage here = {0};
    socklen_t len = sizeof(here);
    int64_t now_ns = amb_clock_monotonic_ns();
    if (client->fd < 0 || getsockname(client->fd, (struct sockaddr *)&here, &len) != 0) {
        return NULL;
    }
    struct amb_control_network *oldest = client->control->networks;
    for (unsigned i = 0; i < AMB_CONTROL_NETWORKS; i++) {
        struct amb_control_network *network = &client->control->networks[i];
        if (network->until_ns > now_ns &&
            amb_address_is_same((struct sockaddr *)&network->here, (struct sockaddr *)&here)) {
            return network;
        }
        oldest = network->until_ns < oldest->until_ns ? network : oldest;
    }
    oldest->here = here;
    interface_of((struct sockaddr *)&here, oldest->interface);
    oldest->rate = oldest->interface[0] != '\0' ? speed_of(client->fd, oldest->interface) : 0;
    oldest->until_ns = amb_clock_monotonic_ns() + AMB_NS_PER_SEC;
    return oldest;
}

static uint64_t network_rate(const struct amb_client *client, char by[AMB_EXPECTED_TEXT_MAX])
{
    const struct amb_control_network *network = network_of(client);
    if (network == NULL || network->interface[0] == '\0') {
        (void)snprintf(by, AMB_EXPECTED_TEXT_MAX, "unknown: no interface has its address");
        return 0;
    }
    if (network->rate == 0) {
        (void)snprintf(by, AMB_EXPECTED_TEXT_MAX, "unknown: %s does not tell its speed",
                       network->interface);
    } else {
        (void)snprintf(by, AMB_EXPECTED_TEXT_MAX, "the speed of %s", network->interface);
    }
    return network->rate;
}

/* ---- encryption ---- */

uint64_t amb_expected_both(uint64_t one, uint64_t other)
{
    return one == 0 || other == 0 ? 0 : (uint64_t)(1 / (1 / (double)one + 1 / (double)other));
}

static uint64_t cipher_rate(const struct amb_client *client)
{
    uint64_t *rate = &client->control->rates.cipher[amb_tls_suite_index(client->tls)];
    *rate = *rate != 0 ? *rate : amb_tls_measure(client->tls);
    return *rate;
}

/* ---- what is asked for ---- */

static uint64_t once(uint64_t *rate, uint64_t (*measure)(void))
{
    *rate = *rate != 0 ? *rate : measure();
    return *rate;
}

static uint64_t near_rate(const struct amb_client *client, char by[AMB_EXPECTED_TEXT_MAX])
{
    uint64_t rate = once(&client->control->rates.socket, amb_expected_measure_socket);
    if (client->tls == NULL || client->link != AMB_LINK_STREAM) {
        (void)snprintf(by, AMB_EXPECTED_TEXT_MAX, "a pair of sockets on this machine, measured");
        return rate;
    }
    (void)snprintf(by, AMB_EXPECTED_TEXT_MAX,
                   "a pair of sockets and encryption on this machine, measured");
    return amb_expected_both(rate, cipher_rate(client));
}

/* Packets travel while others are encrypted: the slower of both. */
static uint64_t far_rate(const struct amb_client *client, char by[AMB_EXPECTED_TEXT_MAX])
{
    uint64_t rate = network_rate(client, by);
    uint64_t cipher = client->tls == NULL || rate == 0 ? 0 : cipher_rate(client);
    if (cipher == 0 || cipher >= rate) {
        return rate;
    }
    (void)snprintf(by, AMB_EXPECTED_TEXT_MAX, "encryption on this machine, measured");
    return cipher;
}

uint64_t amb_expected_rate(const struct amb_client *client, uint64_t ucx_rate,
                           char by[AMB_EXPECTED_TEXT_MAX])
{
    struct amb_control *control = client->control;
    bool is_near = amb_why_is_near(client);
    if (client->link == AMB_LINK_UCX &&
        !is_near) { /* Of lo it knows no speed, and takes a guess. */
        (void)snprintf(by, AMB_EXPECTED_TEXT_MAX, "%s",
                       ucx_rate != 0 ? "UCX's estimate" : "unknown: UCX does not say");
        return ucx_rate;
    }
    if (client->link == AMB_LINK_RING) {
        (void)snprintf(by, AMB_EXPECTED_TEXT_MAX, "copies in this machine's memory, measured");
        return once(&control->rates.copy, amb_expected_measure_copy);
    }
    return is_near ? near_rate(client, by) : far_rate(client, by);
}
