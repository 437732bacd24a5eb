/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connecting: a socket to a front door, and control messages over it one at a time, all within one
 * deadline. Used before a connection has threads.
 * Threads: owner only. Memory: the reader's buffer.
 */
#pragma once

#include "client/conn/interrupt.h"
#include "wire/base/status.h"
#include "wire/codec/control.h"
#include "wire/codec/url.h"

#include <amb/amb.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define AMB_DIAL_FDS_MAX 4u

struct amb_tls;

/* The ends of an attempt, beside its success. */
struct amb_dial_until {
    int64_t deadline_ns;
    int cancel_fd; /* readable: give up; -1: none */
    struct amb_interrupt interrupt;
};

struct amb_dial {
    int fd;                 /* -1: none */
    struct amb_tls *tls;    /* NULL: plain */
    bool is_tcp, was_heard; /* plain TCP; the broker has said something */
    struct amb_control_reader reader;
    int fds[AMB_DIAL_FDS_MAX]; /* descriptors that came with the last message */
    size_t fd_count;
    struct amb_dial_until until;
    struct amb_error *error; /* filled in by the first failure */
};

/* Connects. EUNREACHABLE, ETIMEDOUT, ELIMIT, ECLOSED, ECANCELED; EINVAL: an interface that does not
 * do, or that is in the place of a host. */
AMB_MUST_CHECK enum amb_status amb_dial_open(struct amb_dial *dial, const struct amb_url *url,
                                             const struct amb_dial_until *until,
                                             struct amb_error *error);
/* Closes what nobody took. */
void amb_dial_close(struct amb_dial *dial);
/* Until the socket has one of these events of poll(2), or the deadline is over. */
AMB_MUST_CHECK enum amb_status amb_dial_wait(struct amb_dial *dial, short events);
/* Sends, with a descriptor if fd is not -1. */
AMB_MUST_CHECK enum amb_status amb_dial_send(struct amb_dial *dial,
                                             const Amb__Control__Control *message, int fd);
/* The next message, to be freed with amb_control_free. An Error is returned as its status. */
AMB_MUST_CHECK enum amb_status amb_dial_receive(struct amb_dial *dial, Amb__Control__Control **out);
/* Writes the sentence and returns status. */
enum amb_status amb_dial_fail(struct amb_dial *dial, enum amb_status status, const char *format,
                              ...) __attribute__((format(printf, 3, 4)));
