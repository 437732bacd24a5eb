/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A broker of one session, for tests of libamb. It speaks the control protocol on a Unix socket and
 * frames on a ring or a stream. It notes the client's actions, and speaks as the test tells it to.
 * It routes nothing.
 * Threads: it runs one of its own; every function here may be called from the test's.
 */
#pragma once

#include "wire/codec/frame.h"
#include "wire/link/link.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FAKE_HANDLES 8u
/* These topics are t1 again, in its other priorities. */
#define FAKE_TOPIC_HIGH 6u
#define FAKE_TOPIC_LOW 7u
#define FAKE_BODY_MAX (UINT32_C(4) << 20)

struct fake_options {
    enum amb_link_kind link;               /* RING or STREAM; 0: RING */
    uint64_t window;                       /* of a publisher at first; 0: 64 KiB */
    uint64_t max_message;                  /* 0: 2 MiB */
    uint32_t batch_bytes;                  /* 0: AMB_BATCH_BYTES */
    int64_t heartbeat_ns, peer_timeout_ns; /* 0: 1 s, 5 s */
    uint64_t lease_bytes;                  /* 0: no lease segments */
    bool refuses_leases;                   /* each LeaseOpen is answered ELIMIT */
    bool rejects_gpu;                      /* GPU memory that cannot stay there */
    const char *gpu_why;                   /* why it cannot; NULL: not said */
};

/* The client's actions. Read with fake_broker_look. */
struct fake_seen {
    uint64_t batches[FAKE_HANDLES], msgs[FAKE_HANDLES], bytes[FAKE_HANDLES];
    uint64_t want[FAKE_HANDLES];
    uint64_t closed_at[FAKE_HANDLES]; /* batches, by PubClose */
    uint64_t release[FAKE_HANDLES];
    uint64_t ranges, range_first, range_count;
    uint64_t acks;        /* ACK and TERM frames, */
    struct amb_frame ack; /* the newest of them, */
    char reason[256];     /* and what it said */
    uint64_t synced_acks; /* by AckSync and Unsubscribe: how many the client has sent */
    bool stopped;
    struct {
        uint32_t ack, max_deliver, backoffs;
        int64_t ack_wait_ns, backoff_ns;
        char group[65], durable[65];
    } wish;                         /* the newest Subscribe */
    uint32_t lazy;                  /* of the newest Subscribe */
    uint64_t fetch_places;          /* FETCH frames for all of a payload, in place */
    uint64_t fetches;               /* ... for some bytes, */
    struct amb_frame fetch;         /* and the newest of them */
    uint64_t staged_in, staged_out; /* by the newest Ping */
    char staged_why[128];
    uint64_t pings, opens, closes, subscribes, unsubscribes;
    uint64_t segments_ready, segments_refused, segments_gone;
    bool said_bye, has_client, has_pidfd, hung_up;
    bool had_session, said_unmapped; /* by Auth: a former session, and that nothing of it stays */
    uint64_t leases_opened, leases_mapped, leases_closed, lease_bytes;
    uint64_t commits[FAKE_HANDLES], commit_msgs[FAKE_HANDLES]; /* also in batches and msgs */
    uint64_t commit_number, last_segment, last_offset;
    uint64_t most_queued; /* of its own frames on the link, behind what the client has not read */
    uint32_t last_count;  /* messages of the newest batch */
    uint64_t last_len;    /* its data_len */
    uint8_t last[4096];   /* the beginning of its body; of a commit: of its last payload */
    uint8_t last_meta[256];
};

struct fake_broker;

struct fake_broker *fake_broker_start(const struct fake_options *options);
void fake_broker_stop(struct fake_broker *fake);
const char *fake_broker_url(const struct fake_broker *fake);
void fake_broker_look(struct fake_broker *fake, struct fake_seen *out);

/* Waits up to 5 s until the client has done something; asserts that it has. */
#define FAKE_WAIT(fake, seen, condition)                                                           \
    do {                                                                                           \
        for (int fake_i = 0; fake_i < 50000; fake_i++) {                                           \
            fake_broker_look((fake), (seen));                                                      \
            if (condition) {                                                                       \
                break;                                                                             \
            }                                                                                      \
            fake_broker_nap();                                                                     \
        }                                                                                          \
        assert_true(condition);                                                                    \
    } while (0)
void fake_broker_nap(void);

/* Batches are accepted (ACCEPTED, and WINDOW moved on) as they come, unless held. */
void fake_broker_hold(struct fake_broker *fake, bool is_held);
/* Of those that are held, the first ones of a publisher are accepted. */
void fake_broker_accept(struct fake_broker *fake, uint32_t handle, uint64_t batches);
/* Does not move WINDOW on by itself any more. */
void fake_broker_hold_window(struct fake_broker *fake, bool is_held);
void fake_broker_window(struct fake_broker *fake, uint32_t handle, uint64_t window);
/* The next batches are refused with this status; AMB_OK: taken again. */
void fake_broker_refuse(struct fake_broker *fake, enum amb_status status);
void fake_broker_subscribers(struct fake_broker *fake, uint32_t handle, uint64_t count);
/* Does not answer anything any more, but keeps the connection. */
void fake_broker_freeze(struct fake_broker *fake);
/* Reads nothing from the link any more; then again. The control connection is served. */
void fake_broker_stall(struct fake_broker *fake, bool is_stalled);
/* Closes the control connection. */
void fake_broker_hang_up(struct fake_broker *fake);
/* Error with id 0. */
void fake_broker_kick(struct fake_broker *fake, enum amb_status status, const char *text);

/* Commits are not freed by themselves any more; then again, at once. */
void fake_broker_hold_freed(struct fake_broker *fake, bool is_held);
/* FREED frame. */
void fake_broker_free(struct fake_broker *fake, uint64_t number, uint32_t count);

/* One delivery of `count` messages "<text><i>" with key "k" to subscription handle `sub`, topic
 * "t<topic>". seq of its first message; lost before it. */
void fake_broker_deliver(struct fake_broker *fake, uint32_t sub, uint32_t topic, const char *text,
                         uint32_t count, uint64_t seq, uint64_t lost);
/* The same by map descriptor, from segment `id`, which must be ready. */
void fake_broker_map(struct fake_broker *fake, uint32_t sub, uint32_t topic, const char *text,
                     uint32_t count, uint64_t seq, uint64_t id);
/* As fake_broker_map, but as a leased batch: meta on the link, payloads in the segment, the last
 * message's first. */
void fake_broker_map_leased(struct fake_broker *fake, uint32_t sub, uint32_t topic,
                            const char *text, uint32_t count, uint64_t seq, uint64_t id);
/* From here on these deliveries say that their publisher had the payloads in such memory. */
void fake_broker_kind(struct fake_broker *fake, enum amb_mem mem);
/* One lazy delivery of `count` messages of so many bytes, which are '0' to '9' over and over. */
void fake_broker_lazy(struct fake_broker *fake, uint32_t sub, uint32_t topic, uint32_t size,
                      uint32_t count, uint64_t seq);
/* How a FETCH is answered from here on: AMB_OK: with the bytes; EINTERNAL: not at all. EAGAIN: the
 * next one so, then with the bytes. */
void fake_broker_fetches(struct fake_broker *fake, enum amb_status status);
/* From here on those for all of a payload are answered with `len` bytes of that segment. */
void fake_broker_fetch_places(struct fake_broker *fake, uint64_t segment, uint64_t len);
/* A segment of 1 MiB; sealed as the client wants it, or not. */
void fake_broker_segment(struct fake_broker *fake, uint64_t id, bool is_sealed);
void fake_broker_drop_segment(struct fake_broker *fake, uint64_t id);
/* Overwrites a segment's bytes, as the reuse of a range does. */
void fake_broker_scribble(struct fake_broker *fake, uint64_t id);
/* A frame as it is, without a body. */
void fake_broker_frame(struct fake_broker *fake, const struct amb_frame *frame);
/* The same, with amb_frame_body_len bytes of body. */
void fake_broker_frame_with(struct fake_broker *fake, const struct amb_frame *frame,
                            const void *body);
