/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A client's control connection: messages out, queued while the socket is full, and messages in,
 * one at a time. Descriptors come and go with them.
 *
 * Threads: the control thread. Memory: an allocation for each message that is queued, up to
 * AMB_CLIENT_OUT_MAX.
 */
#pragma once

#include "broker/control/clients/client.h"

/* Requests of one client under way. Past it, the client is not read until half of them are
 * answered. So nobody piles up work for a worker faster than it is done. */
#define AMB_CLIENT_WORK_MAX 64u

/* Queues a message and sends what can be sent. fds (may be NULL) go with it and are closed. A
 * client that does not read is ended. */
void amb_client_send(struct amb_client *client, const Amb__Control__Control *message,
                     const int *fds, unsigned fd_count);
/* Answers a Ping. While something waits for the client, one Pong at most waits behind it. */
void amb_client_send_pong(struct amb_client *client, int64_t time_ns);
void amb_client_send_ok(struct amb_client *client, uint64_t id);
/* id 0: the session is over: the connection closes behind it. */
void amb_client_send_error(struct amb_client *client, uint64_t id, enum amb_status status,
                           const char *format, ...) __attribute__((format(printf, 4, 5)));
/* A request is under way that a worker answers as soon as it can, and has been answered. A client
 * with many of them is not read for a while. */
void amb_client_begin_work(struct amb_client *client);
void amb_client_end_work(struct amb_client *client);
/* The connection's events. */
void amb_client_on_events(struct amb_watch *watch, uint32_t events);
/* Reads what has come, up to a round's worth. */
void amb_client_read(struct amb_client *client);
/* Its worker has lost the link. The client says bye before it closes that, and the worker may be
 * the first to hear; so bye is looked for. A client that has said it keeps nothing mapped. */
void amb_client_lose_link(struct amb_client *client, const char *why);
/* So many bytes have come, no more than its reader wants. False: nothing more is read now, or it
 * has ended. */
bool amb_client_take(struct amb_client *client, const uint8_t *bytes, size_t len);
/* Does something wait for room in its socket? */
bool amb_client_has_unsent(const struct amb_client *client);
/* TLS may have bytes of it in hand, of which its socket does not tell: they are read in the next
 * round. */
void amb_client_note_unread(struct amb_client *client);
/* Reads on from all that were noted. */
void amb_client_read_on(struct amb_control *control);
/* That reason for not reading it is over. */
void amb_client_resume(struct amb_client *client, enum amb_client_pause why);
/* Has epoll report what is of interest now: `paused` or what is to be sent has changed. */
void amb_client_rewatch(struct amb_client *client);
/* Drops what was not sent, and a descriptor that nobody took. Harmless twice. */
void amb_client_close_connection(struct amb_client *client);
