/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A whole broker inside the test process, and a client that speaks the control protocol byte by
 * byte. So it can also speak it wrongly. The broker listens on a Unix socket in a folder of its own
 * and on a free TCP port of 127.0.0.1. It has 16 MiB of memory and one worker unless the test says
 * otherwise.
 *
 * Every wait has a deadline of DOOR_DEADLINE_MS, after which the test fails instead of hanging.
 * Threads: one test's own.
 */
#pragma once

#include "broker/broker.h"
#include "broker/config/config.h"
#include "wire/codec/control.h"
#include "wire/tls/tls.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <cmocka.h>

#define DOOR_DEADLINE_MS 10000
#define DOOR_FDS_MAX 8u

struct door {
    char folder[64];
    char socket_path[96];
    uint16_t tcp_port, tls_port; /* 0: no such listener */
    uint32_t from; /* that clients connect from, of 127.0.0.0/8; 0: the kernel's word */
    struct amb_config *config;
    struct amb_broker *broker;
};

/* One connection. */
struct door_client {
    int fd;
    struct amb_tls *tls; /* NULL: plain */
    struct amb_control_reader reader;
    int fds[DOOR_FDS_MAX]; /* descriptors that came, in order */
    unsigned fd_count;
    uint64_t next_id;
};

/* The content of Welcome, by value. */
struct door_session {
    uint32_t session, generation;
    uint64_t secret, client_id, ring_size, lease_bytes;
    uint32_t may_map;
    char link[16];
};

/* options: "key=value", ended by NULL; may be NULL. */
void door_open(struct door *door, const char *const *options);
/* The same on given URLs; the folder is made, and `%s` in a URL is replaced by it. */
enum amb_status door_try(struct door *door, const char *const *urls, const char *const *options,
                         char *error, size_t error_size);
/* Drains twice, so it ends at once, and checks that it ends with 0. */
void door_close(struct door *door);

void door_connect_unix(const struct door *door, struct door_client *client);
void door_connect_tcp(const struct door *door, struct door_client *client);
/* Over TLS; the handshake has to succeed. */
void door_connect_tls(const struct door *door, struct door_client *client,
                      struct amb_tls_context *context, const struct amb_tls_wish *wish);
/* A process that connects, hands us its connection and waits to be ended. SO_PEERCRED names it. */
pid_t door_connect_as_another(const struct door *door, struct door_client *client);
void door_disconnect(struct door_client *client);

void door_send_bytes(struct door_client *client, const void *bytes, size_t len);
/* fds may be NULL; they stay the caller's. */
void door_send_with(struct door_client *client, const Amb__Control__Control *message,
                    const int *fds, unsigned fd_count);
void door_send(struct door_client *client, const Amb__Control__Control *message);

/* The next message, to be freed by amb_control_free; NULL: the broker has closed. */
Amb__Control__Control *door_receive(struct door_client *client);
/* The next message, which has to be of this kind. */
Amb__Control__Control *door_expect(struct door_client *client, int body_case);
void door_expect_ok(struct door_client *client, uint64_t id);
/* An Error with this id and status whose text contains `text`. */
void door_expect_error(struct door_client *client, uint64_t id, enum amb_status status,
                       const char *text);
/* Nothing more comes but the end of the connection. */
void door_expect_closed(struct door_client *client);

void door_send_hello(struct door_client *client, const char *link);
/* The same that demands (wire/codec/expect.h), from a client on that machine (wire/base/host.h). */
void door_send_hello_with(struct door_client *client, const char *link, uint32_t expect,
                          uint64_t host);
/* proof: 32 bytes or NULL. */
void door_send_auth(struct door_client *client, const uint8_t *proof);
/* Hello, and Auth that names a former session. unmapped: it says that nothing of that is mapped. */
void door_send_auth_after(struct door_client *client, const struct door_session *session,
                          uint32_t unmapped);
/* Hello and Auth; fails the test if the broker refuses. */
void door_login(struct door_client *client, const char *link, struct door_session *out);
/* The same where a token is asked for. */
void door_login_by_token(struct door_client *client, const char *token, struct door_session *out);
/* The whole way, on the Unix socket. */
void door_login_unix(const struct door *door, struct door_client *client);

/* Requests; the answer is not waited for. They return their id, which is the next one. */
uint64_t door_ask(struct door_client *client, Amb__Control__Control *message);
uint64_t door_ask_pub_open(struct door_client *client, uint32_t handle, const char *topic);
uint64_t door_ask_pub_close(struct door_client *client, uint32_t handle);
uint64_t door_ask_subscribe(struct door_client *client, uint32_t handle, const char *pattern);
uint64_t door_ask_unsubscribe(struct door_client *client, uint32_t handle);
uint64_t door_ask_admin(struct door_client *client, const char *query);
void door_send_ping(struct door_client *client, int64_t time_ns);

/* The same with the answer, which has to be a good one. */
void door_pub_open(struct door_client *client, uint32_t handle, const char *topic);
void door_subscribe(struct door_client *client, uint32_t handle, const char *pattern);
/* The JSON of an admin query; free() it. */
char *door_admin(struct door_client *client, const char *query);

/* How many descriptors this process has open. */
unsigned door_count_fds(void);
/* Waits until that many are open, or fails. */
void door_await_fds(unsigned count);
