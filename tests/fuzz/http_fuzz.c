/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes of a client of HTTP, from its first one to the end of the connection, on a Unix socket or
 * on TCP. They are answered by whole lines, or the connection is closed. Afterwards nothing of
 * them is left.
 */
#include "broker/config/config.h"
#include "broker/control/clients/control.h"
#include "broker/count/counters.h"
#include "broker/http/http.h"
#include "broker/observe/observer.h"
#include "tests/fuzz/fuzz.h"
#include "wire/base/assert.h"
#include "wire/base/log.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define ON_TCP 1u /* flag of the first byte */
#define TURNS_MAX 1000

static struct amb_config *config;
static struct amb_control control;
static struct amb_counters counters;
static struct amb_observer observer;
static struct amb_http *http;
static struct sockaddr_un unix_address = {.sun_family = AF_UNIX};
static struct sockaddr_in tcp_address = {.sin_family = AF_INET};

/* Its socket file goes, too. */
static void finish(void)
{
    amb_http_destroy(&http);
    amb_inbox_fini(&control.inbox);
    amb_counters_destroy(&counters);
    amb_config_destroy(&config);
}

static void start(void)
{
    char text[256], error[AMB_CONFIG_ERROR_MAX] = "";
    amb_log_set_level(AMB_LOG_ERROR);
    (void)snprintf(unix_address.sun_path, sizeof(unix_address.sun_path), "/tmp/amb-http-fuzz-%d",
                   (int)getpid());
    (void)snprintf(text, sizeof(text),
                   "http = { listen = [\"unix://%s\", \"tcp://127.0.0.1:0\"]; };",
                   unix_address.sun_path);
    const struct amb_config_source source = {.text = text, .text_len = strlen(text)};
    amb_assert(amb_config_create(&source, error, sizeof(error), &config) == AMB_OK);
    const struct amb_counters_options options = {
        .why = "a test", .workers = 1, .objects = 64, .name = "fuzz", .version = "1", .ucx = "off"};
    amb_assert(amb_counters_create(&options, &counters) == AMB_OK);
    amb_assert(amb_inbox_init(&control.inbox, &control) == AMB_OK);
    control.stats = amb_counters_broker(&counters);
    control.listeners[0].url = config->http.doors.items[0];
    amb_assert(amb_http_create(config, &control, &counters, &observer, error, sizeof(error),
                               &http) == AMB_OK);
    tcp_address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    tcp_address.sin_port = htons((uint16_t)atoi(strrchr(amb_http_urls(http), ':') + 1));
    (void)atexit(finish);
}

static int dial(bool is_tcp)
{
    int fd = socket(is_tcp ? AF_INET : AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    amb_assert(fd >= 0);
    int failed = is_tcp ? connect(fd, (struct sockaddr *)&tcp_address, sizeof(tcp_address))
                        : connect(fd, (struct sockaddr *)&unix_address, sizeof(unix_address));
    amb_assert(failed == 0);
    return fd;
}

/* True: the door has closed it. */
static bool hear(int fd, char *out, size_t size, size_t *len)
{
    char more[4096];
    bool is_full = *len == size;
    ssize_t got = is_full ? recv(fd, more, sizeof(more), MSG_DONTWAIT)
                          : recv(fd, out + *len, size - *len, MSG_DONTWAIT);
    if (got > 0) {
        *len += is_full ? 0 : (size_t)got;
        return false;
    }
    return got == 0 || (errno != EAGAIN && errno != EINTR);
}

/* Nothing, or a status line of ours. */
static void judge(const char *answer, size_t len)
{
    static const unsigned allowed[] = {200, 400, 401, 403, 404, 405, 411, 413, 414, 431, 503, 505};
    if (len == 0) {
        return;
    }
    amb_assert(len > 12 && memcmp(answer, "HTTP/1.", 7) == 0);
    unsigned status = (unsigned)atoi(answer + 9);
    bool is_allowed = false;
    for (size_t i = 0; i < sizeof(allowed) / sizeof(allowed[0]); i++) {
        is_allowed = is_allowed || status == allowed[i];
    }
    amb_assert(is_allowed);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    char answer[256];
    size_t answered = 0;
    if (http == NULL) {
        start();
    }
    if (len == 0) {
        return 0;
    }
    int fd = dial((*data & ON_TCP) != 0);
    (void)send(fd, data + 1, len - 1, MSG_NOSIGNAL | MSG_DONTWAIT);
    (void)shutdown(fd, SHUT_WR);
    bool is_closed = false;
    for (int i = 0; i < TURNS_MAX && !is_closed; i++) {
        (void)observer.guest.turn(observer.guest.arg);
        (void)amb_inbox_run(&control.inbox);
        is_closed = hear(fd, answer, sizeof(answer), &answered);
    }
    amb_assert(is_closed);
    judge(answer, answered);
    (void)close(fd);
    (void)observer.guest.turn(observer.guest.arg);
    amb_assert(amb_stat_get(&control.stats->http_connections) == 0);
    return 0;
}
