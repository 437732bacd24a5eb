/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The control thread's code and two workers without threads. A test decides whose turn it is, so
 * orders and answers cross in the order that it wants. Clients are the far ends of socket pairs.
 * Threads: one. Memory: one for the whole process, never given back; clients give back all of
 * theirs.
 */
#pragma once

#include "broker/control/clients/client.h"
#include "broker/control/clients/control.h"

#define STEPPED_SHARDS 2u

/* Bodies of messages: Hello for a stream, and Auth. */
extern const uint8_t stepped_hello[14], stepped_auth[2];

/* Makes it at the first call. No UCX, at most 4 sessions, 32 topics, 16 subscriptions. */
struct amb_control *stepped_control(void);
/* A new connection; *fd is the far end. */
struct amb_client *stepped_connect(bool is_unix, int *fd);
/* Hello and Auth; the session has no link: a stream that is never attached. */
void stepped_introduce(struct amb_client *client, int fd);
/* The same, and both answers are heard. */
void stepped_log_in(struct amb_client *client, int fd);
void stepped_say(int fd, const void *bytes, size_t len);
void stepped_say_body(int fd, const uint8_t *body, uint8_t len);
/* An Auth that names the session of `former`, which its client had before. */
void stepped_say_auth_after(int fd, const struct amb_client *former);
/* The control thread reads what the client has said, and does what its mail says. */
void stepped_control_turn(struct amb_client *client);
/* All workers have their turn. Returns how much was done. */
unsigned stepped_workers_turn(void);
/* Until nothing happens any more. */
void stepped_settle(struct amb_client *client);
/* The next message from the broker, to be freed; there has to be one. Reads just that. */
Amb__Control__Control *stepped_hear(int fd);
/* Says it, and settles. */
void stepped_say_message(struct amb_client *client, int fd, const Amb__Control__Control *message);
/* ... and hears the answer. */
Amb__Control__Control *stepped_ask(struct amb_client *client, int fd,
                                   const Amb__Control__Control *message);
/* Closes the far end and buries the client; nothing of anybody may be left if it was the last. */
void stepped_leave(struct amb_client *client, int fd);
