/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The service manager that has started the broker, where there is one: lines of systemd's protocol
 * (sd_notify(3)) to the datagram socket that NOTIFY_SOCKET names.
 *
 *   brokerd ── "READY=1", "STATUS=...", "WATCHDOG=1" ──► NOTIFY_SOCKET
 *
 * A manager that cannot be told anything is no reason to end: one warning in the log, and no more.
 *
 * Threads: init and fini where the process starts and ends; send from any. Memory: a descriptor.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/un.h>

/* Shorter times for a watchdog cannot be kept beside the work. */
#define AMB_NOTIFY_WATCHDOG_MIN_US UINT64_C(10000)
#define AMB_NOTIFY_TEXT_MAX 512u

struct amb_notify {
    int fd; /* -1: there is nobody to tell */
    struct sockaddr_un to;
    socklen_t to_len;
    int64_t watchdog_ns;     /* so often "WATCHDOG=1" is expected at least; 0: it is not */
    _Atomic bool has_failed; /* and the log has it */
};

/* socket, watchdog_us, watchdog_pid: NOTIFY_SOCKET, WATCHDOG_USEC, WATCHDOG_PID as they are in the
 * environment, or NULL. Values that make no sense are logged, once. */
void amb_notify_init(struct amb_notify *notify, const char *socket, const char *watchdog_us,
                     const char *watchdog_pid);
/* Harmless twice. */
void amb_notify_fini(struct amb_notify *notify);
static inline bool amb_notify_is_used(const struct amb_notify *notify)
{
    return notify->fd >= 0;
}
/* Does not block: where the manager is behind, the text is dropped. One that is longer than
 * AMB_NOTIFY_TEXT_MAX - 1 bytes is cut. */
void amb_notify_send(struct amb_notify *notify, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* For what must arrive: waits some seconds for a manager that is behind. */
void amb_notify_send_surely(struct amb_notify *notify, const char *text);
