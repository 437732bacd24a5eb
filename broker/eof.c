/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/eof.h"

#include "wire/base/assert.h"
#include "wire/base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

/* Another process that has the same input may be quicker, and then a read would sleep and outlast
 * amb_eof_stop. The descriptor may not be made not to: it would be so for that process, too. So the
 * file is opened once more. -1: it cannot be, and is read as it is. */
static int open_again(int fd)
{
    char path[32];
    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    return open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
}

static ssize_t read_some(const struct amb_eof *eof, char *bytes, size_t size)
{
    if (eof->own_fd >= 0) {
        return read(eof->own_fd, bytes, size);
    }
    ssize_t got = recv(eof->fd, bytes, size, MSG_DONTWAIT); /* A socket is not opened by a path. */
    return got < 0 && errno == ENOTSOCK ? read(eof->fd, bytes, size) : got;
}

/* Drops what is there. False: nothing more will come. */
static bool drop(const struct amb_eof *eof)
{
    char bytes[4096];
    ssize_t got = read_some(eof, bytes, sizeof(bytes));
    if (got > 0 || (got < 0 && (errno == EINTR || errno == EAGAIN))) {
        return true;
    }
    amb_info("standard input has ended%s%s", got == 0 ? "" : ": ", got == 0 ? "" : strerror(errno));
    return false;
}

static void *run(void *arg)
{
    struct amb_eof *eof = arg;
    struct pollfd fds[2] = {{.fd = eof->fd, .events = POLLIN},
                            {.fd = eof->stop_fd, .events = POLLIN}};
    for (;;) {
        int ready = poll(fds, 2, -1);
        if (ready > 0 && fds[1].revents != 0) {
            return NULL;
        }
        if (ready > 0 && fds[0].revents != 0 && !drop(eof)) {
            eof->on_end(eof->arg);
            return NULL;
        }
    }
}

/* A terminal stops a process in the background that reads from it, unless the thread has TTIN
 * blocked. Then it is an error, and an end. */
static int begin(struct amb_eof *eof)
{
    sigset_t ttin, before;
    (void)sigemptyset(&ttin);
    (void)sigaddset(&ttin, SIGTTIN);
    (void)pthread_sigmask(SIG_BLOCK, &ttin, &before);
    int error = pthread_create(&eof->thread, NULL, run, eof);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error;
}

static void close_both(const struct amb_eof *eof)
{
    if (eof->own_fd >= 0) {
        (void)close(eof->own_fd);
    }
    if (eof->stop_fd >= 0) {
        (void)close(eof->stop_fd);
    }
}

enum amb_status amb_eof_start(struct amb_eof *eof, int fd, amb_eof_fn on_end, void *arg)
{
    *eof = (struct amb_eof){.fd = fd, .on_end = on_end, .arg = arg};
    eof->own_fd = open_again(fd);
    eof->stop_fd = eventfd(0, EFD_CLOEXEC);
    int error = eof->stop_fd < 0 ? errno : begin(eof);
    if (error != 0) {
        amb_error("no thread for the end of standard input: %s", strerror(error));
        close_both(eof);
        return AMB_EINTERNAL;
    }
    (void)pthread_setname_np(eof->thread, "amb-eof");
    return AMB_OK;
}

void amb_eof_stop(struct amb_eof *eof)
{
    uint64_t one = 1;
    amb_assert(write(eof->stop_fd, &one, sizeof(one)) == (ssize_t)sizeof(one));
    amb_assert(pthread_join(eof->thread, NULL) == 0);
    close_both(eof);
}
