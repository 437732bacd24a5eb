/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The records that clients of the delivery test write down, and the checker reads: nothing else is
 * shared by the two. A log is a file of records behind a head, written through a mapping, so the
 * records survive the process.
 */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

#define DELIVERY_MAGIC UINT64_C(0x31676f6c626d6101)
#define DELIVERY_TOPICS 64u /* load.GROUP.TOPIC, 8 in each of 8 groups */
#define DELIVERY_GROUPS 8u
/* Payloads of so many bytes and more begin with a stamp that says whose they are. */
#define DELIVERY_STAMP 24u

/* Settled so: nobody knows. Other numbers: refused. */
#define DELIVERY_UNKNOWN 1u
/* Lost: by the end of a broker, and nobody knows how many. The first message of a subscription from
 * the next broker says so of all its topics. The first of each topic may say so, too. */
#define DELIVERY_LOST_ALL UINT32_MAX

enum delivery_kind {
    DELIVERY_POSTED = 1, /* before the call: publisher, topic, number, size */
    DELIVERY_SETTLED,    /* numbers `number` to `seq` of a topic: `size` 0: accepted; UNKNOWN */
    DELIVERY_RECEIVED,   /* publisher and number 0: too small to say */
    DELIVERY_WRONG,      /* the same, and its bytes are not what its publisher wrote */
    DELIVERY_END,        /* its writer ended as it should */
    DELIVERY_ACKED,      /* about to be */
    DELIVERY_TOLD,       /* behind SETTLED, of a publisher that waits for delivery: `number`
                            delivered, `seq` dropped, `lost` subscriptions matched */
};

enum delivery_mode {
    DELIVERY_PLAIN,
    DELIVERY_ACKS,       /* each message is acknowledged, some at their second delivery only */
    DELIVERY_GROUP,      /* the same; all subscribers of this mode are members of one group */
    DELIVERY_CUMULATIVE, /* an acknowledgement is one of all that its subscription got before;
                            there is a subscription for each of the head's groups */
};

/* A publisher's mode. CONFIRMED: it waits until its messages are delivered; those too small for a
 * stamp have it as a property. */
#define DELIVERY_CONFIRMED 1u
#define DELIVERY_PROPERTY "stamp"

struct delivery_record {
    uint64_t publisher, number;
    uint64_t seq; /* in the topic, as the broker counts */
    uint32_t topic, size, lost;
    uint16_t kind, attempt; /* the number of this delivery of the message, 1: the first */
    int64_t time_ns;        /* received: when the broker took it */
};

struct delivery_head {
    uint64_t magic;
    uint64_t id;     /* publisher's; 0: a subscriber's log */
    uint32_t groups; /* subscriber: bits of the groups that it reads */
    uint32_t mode;   /* the same: enum delivery_mode; publisher: CONFIRMED */
    uint64_t max;
    _Atomic uint64_t count;
    uint32_t is_late; /* subscriber: it came when messages had been published */
    uint8_t pad[20];
};

struct delivery_stamp {
    uint64_t publisher, number;
    uint32_t topic, size;
};
