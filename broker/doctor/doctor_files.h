/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The files that the doctor of a running broker reads. They are sockets, tokens, configuration,
 * TLS, users, UCX libraries, drivers, devices, and the rest of /proc and /sys. A file system may
 * hang, as one of a network does, and so may a driver behind /sys. So a thread of its own looks,
 * and the asker waits for at most AMB_DOCTOR_FILES_NS. One such reading of all files is a look.
 *
 *   control ── begin ──► thread: rows ── mail ──► control: take
 *                 └─ leave: the thread frees all of it, once the file system has answered
 *
 * Threads: all calls from the thread of the inbox; none blocks. Memory: an allocation and a thread
 * a look.
 */
#pragma once

#include "broker/auth/users.h"
#include "broker/base/mail.h"
#include "broker/config/config.h"
#include "broker/doctor/doctor_clients.h"
#include "broker/doctor/doctor_doors.h"
#include "broker/doctor/doctor_host.h"
#include "wire/base/clock.h"

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#define AMB_DOCTOR_FILES_NS (2 * AMB_NS_PER_SEC) /* of waiting for a look */
#define AMB_DOCTOR_LOOKS_MAX 4u /* of this process, those that were left included */

struct amb_doctor_look;

struct amb_doctor_files {
    const struct amb_config *config;         /* a look takes references of its own */
    struct amb_auth_users *users;            /* in force; NULL: there are none */
    const struct amb_doctor_socket *sockets; /* that the broker has made; they are copied */
    size_t count;                            /* at most AMB_LISTENERS_MAX */
    unsigned workers;                        /* server.workers, resolved */
    struct amb_doctor_host host; /* without `found`; ucx_why is copied, other texts are static */
    const struct amb_ucx_places *places; /* to look for UCX in; it is copied. NULL: nobody looks */
    struct amb_doctor_proc proc;         /* the processes that /proc is asked about */
    int64_t now_s;                       /* since 1970 */
};

/* done: gets the mail on the thread of `to`, and has to take the look. NULL: there is no room, no
 * memory or no thread for one more. */
AMB_MUST_CHECK struct amb_doctor_look *amb_doctor_look_begin(const struct amb_doctor_files *files,
                                                             struct amb_inbox *to, amb_mail_fn done,
                                                             void *context);
/* In `done`: frees the look, and returns its context. *rows: the caller's. *proc: the
 * answers of /proc. */
void *amb_doctor_look_take(struct amb_mail *mail, json_t **rows, struct amb_doctor_proc *proc);
/* Nobody waits for the look any more. True: it is its thread's, and no mail comes. False: its mail
 * is there, and has to be taken. */
AMB_MUST_CHECK bool amb_doctor_look_leave(struct amb_doctor_look *look);
/* Appends that the files were not looked at. */
void amb_doctor_look_missing(json_t *rows);
