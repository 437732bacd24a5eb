/* SPDX-License-Identifier: Apache-2.0 */
/*
 * <amb/event.h>: the events of a connection, which amb_options.on_event hears inside amb_poll; and
 * how a publisher stands, which amb_pub_stat tells. <amb/amb.h> includes it.
 */
#ifndef AMB_EVENT_H
#define AMB_EVENT_H

#include <amb/types.h>

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct amb_conn;
struct amb_pub;
struct amb_sub;

enum amb_event_type {
    AMB_EVENT_LOST = 1,  /* the broker is lost; count: attempts to reconnect so far, 0 at first */
    AMB_EVENT_RESTORED,  /* it is back, and so is every publisher and subscription */
    AMB_EVENT_CLOSED,    /* the session is over for good, or that of sub; status and text say why */
    AMB_EVENT_GAP,       /* count messages of sub were lost, as loss says; seq follows them */
    AMB_EVENT_SLOW,      /* sub has used 75 % of its credit, count messages, or is waited for */
    AMB_EVENT_RECOVERED, /* sub keeps up again; told at most ten times a second */
    AMB_EVENT_SUBSCRIBERS, /* pub has count matching subscriptions; may lag by a second. Changes
                            * since amb_pub_open, after which amb_pub_stat has the first count */
    AMB_EVENT_DRAINING,    /* the broker takes no more and will end: a message published now waits
                            * for the next session, or is refused where there will be none */
    AMB_EVENT_RESOURCE,    /* (later) */
    AMB_EVENT_ROOM, /* a message or a lease of pub that had no room (EAGAIN) may have some now; told
                     * once, however many had none. pub is NULL: of amb_publish, or a reply */
};

struct amb_event {
    uint32_t size;
    enum amb_event_type type;
    enum amb_status status; /* why */
    enum amb_loss loss;     /* GAP */
    struct amb_pub *pub;    /* of whom, or NULL */
    struct amb_sub *sub;
    uint64_t count; /* GAP: messages; SUBSCRIBERS: how many; SLOW, RECOVERED: not given back */
    uint64_t seq;   /* GAP: the first sequence after it */
    int64_t time_ns;
    const char *text; /* one line for a log, never NULL, valid during the call */
};
typedef void (*amb_event_fn)(struct amb_conn *conn, const struct amb_event *event, void *arg);

/* How a publisher stands: amb_pub_stat. */
struct amb_pub_info {
    uint32_t size;
    enum amb_blocked blocked;         /* the reason for which a send would wait now */
    uint64_t posted, settled, failed; /* messages, since open; settled includes failed */
    uint64_t accepted_seq;            /* highest sequence that the broker has */
    uint64_t inflight_msgs, inflight_bytes;
    uint32_t subscribers;
    uint32_t leases;       /* out: neither committed nor abandoned */
    uint64_t leased;       /* messages that left without a copy behind amb_pub_send or the commit */
    uint64_t staged_bytes; /* read from GPU memory by way of the host */
};

#ifdef __cplusplus
}
#endif
#endif
