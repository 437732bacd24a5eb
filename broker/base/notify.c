/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/base/notify.h"

#include "wire/base/clock.h"
#include "wire/base/log.h"
#include "wire/base/text.h"

#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define SURELY_SECONDS 5

/* The address of a socket in the file system, or, behind '@', in the abstract namespace. */
static const char *read_address(struct amb_notify *notify, const char *socket)
{
    size_t len = strlen(socket);
    if (socket[0] != '/' && socket[0] != '@') {
        return "neither a path nor @NAME";
    }
    if (len < 2 || len >= sizeof(notify->to.sun_path)) {
        return "too long for a socket, or empty";
    }
    notify->to.sun_family = AF_UNIX;
    memcpy(notify->to.sun_path, socket, len + 1);
    if (socket[0] == '@') {
        notify->to.sun_path[0] = '\0';
    }
    notify->to_len =
        (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len + (socket[0] == '/' ? 1 : 0));
    return NULL;
}

static const char *open_socket(struct amb_notify *notify)
{
    struct timeval patience = {.tv_sec = SURELY_SECONDS};
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return strerrordesc_np(errno);
    }
    (void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
    notify->fd = fd;
    return NULL;
}

/* NULL: good, and *out is set. */
static const char *read_watchdog(const char *watchdog_us, const char *watchdog_pid, int64_t *out)
{
    uint64_t us = 0, pid = 0;
    if (watchdog_pid != NULL && !amb_text_parse_count(watchdog_pid, &pid)) {
        return "WATCHDOG_PID is no number";
    }
    if (watchdog_pid != NULL && pid != (uint64_t)getpid()) {
        return NULL; /* Meant for another process, whose environment we got. */
    }
    if (!amb_text_parse_count(watchdog_us, &us)) {
        return "WATCHDOG_USEC is no number of microseconds";
    }
    if (us < AMB_NOTIFY_WATCHDOG_MIN_US || us > (uint64_t)(INT64_MAX / AMB_NS_PER_US)) {
        return "WATCHDOG_USEC is less than 10000 or more than a clock counts";
    }
    *out = (int64_t)us * AMB_NS_PER_US;
    return NULL;
}

void amb_notify_init(struct amb_notify *notify, const char *socket, const char *watchdog_us,
                     const char *watchdog_pid)
{
    char shown[64];
    memset(notify, 0, sizeof(*notify));
    notify->fd = -1;
    const char *why = NULL;
    if (socket != NULL) {
        why = read_address(notify, socket);
        why = why == NULL ? open_socket(notify) : why;
        if (why != NULL) {
            amb_warn("NOTIFY_SOCKET '%s' is not used: %s", amb_text_show(socket, shown, 64), why);
            return;
        }
    }
    if (watchdog_us == NULL) {
        return;
    }
    why = read_watchdog(watchdog_us, watchdog_pid, &notify->watchdog_ns);
    if (why == NULL && notify->watchdog_ns != 0 && socket == NULL) {
        notify->watchdog_ns = 0;
        why = "there is no NOTIFY_SOCKET to answer at";
    }
    if (why != NULL) {
        amb_warn("the watchdog of the service manager is not fed: %s", why);
    }
}

void amb_notify_fini(struct amb_notify *notify)
{
    if (notify->fd >= 0) {
        (void)close(notify->fd);
    }
    notify->fd = -1;
}

static void notify_write(struct amb_notify *notify, const char *text, int flags)
{
    if (notify->fd < 0) {
        return;
    }
    ssize_t sent;
    do {
        sent = sendto(notify->fd, text, strlen(text), MSG_NOSIGNAL | flags,
                      (const struct sockaddr *)&notify->to, notify->to_len);
    } while (sent < 0 && errno == EINTR);
    if (sent < 0 && errno != EAGAIN &&
        !atomic_exchange_explicit(&notify->has_failed, true, memory_order_relaxed)) {
        amb_warn("the service manager (NOTIFY_SOCKET) cannot be told: %s", strerrordesc_np(errno));
    }
}

void amb_notify_send(struct amb_notify *notify, const char *format, ...)
{
    char text[AMB_NOTIFY_TEXT_MAX];
    if (notify->fd < 0) {
        return;
    }
    va_list args;
    va_start(args, format);
    int len = vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    if (len > 0) {
        notify_write(notify, text, MSG_DONTWAIT);
    }
}

void amb_notify_send_surely(struct amb_notify *notify, const char *text)
{
    notify_write(notify, text, 0);
}
