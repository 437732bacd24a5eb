/* SPDX-License-Identifier: Apache-2.0 */
/* The parts that the files of the fake broker share. */
#pragma once

#include "tests/support/fake_broker/fake_broker.h"

#include "wire/codec/control.h"

#define SEGMENT_SIZE (UINT64_C(1) << 20)
#define SEGMENTS 4u
#define FAKE_LEASES 16u
#define FAKE_LEASE_ID 100u

struct outgoing {
    struct amb_link_tx tx;
    struct amb_frame frame;
    uint8_t *body;
};

struct fake_broker {
    struct fake_options options;
    pthread_mutex_t lock;
    pthread_t thread;
    bool must_stop, is_held, is_window_held, is_frozen, is_freed_held, is_stalled;
    char dir[64], url[128];
    int listener, control, newcomer; /* newcomer: a second connection, about to attach */
    struct amb_control_reader reader, newcomer_reader;
    struct amb_link *link;
    int link_epoll;
    struct fake_seen seen;
    uint64_t window[FAKE_HANDLES], delivered[FAKE_HANDLES];
    bool tells_settled[FAKE_HANDLES], topic_told[FAKE_HANDLES][8];
    enum amb_status refuse;
    enum amb_mem kind; /* that deliveries say */
    enum amb_status fetch_status;
    uint64_t fetch_segment, fetch_len;
    struct amb_frame batch; /* the one being received */
    uint8_t *body;
    struct {
        uint64_t id;
        uint8_t *base;
        uint64_t used;
    } segments[SEGMENTS];
    struct {
        uint64_t slot, slots;
        uint8_t *base;
        int fd;
        bool is_mapped, is_closed;
    } leases[FAKE_LEASES]; /* id: 100 and up */
};

extern const struct amb_link_events fake_link_events;

/* Sends a frame on the link; takes its body, which may be NULL. Lock held. */
void fake_send_frame(struct fake_broker *fake, const struct amb_frame *frame, uint8_t *body);
/* Sends one control message with descriptors. */
void fake_say(int socket, const Amb__Control__Control *message, const int *fds, size_t count);
void fake_say_error(int socket, uint64_t id, enum amb_status status, const char *text);
/* The link is new: the thread shall wake for it. */
void fake_watch_link(struct fake_broker *fake);
/* fake_lease.c: lease segments. */
void fake_lease_open(struct fake_broker *fake, const Amb__Control__Control *request);
void fake_lease_mapped(struct fake_broker *fake, const Amb__Control__Control *request);
void fake_lease_close(struct fake_broker *fake, uint64_t segment);
/* A whole COMMIT is here. */
void fake_lease_commit(struct fake_broker *fake, const struct amb_frame *frame,
                       const uint8_t *meta);
void fake_leases_fini(struct fake_broker *fake);

void fake_say_ok(struct fake_broker *fake, int socket, uint64_t id);
/* Reads and handles what a connection has to say; false at its end. Lock held. */
bool fake_read(struct fake_broker *fake, int socket, struct amb_control_reader *reader);
