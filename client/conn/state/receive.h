/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages that come to a connection: arrivals (message/returns.c), acknowledgements
 * (subscribe/ack.c), and pieces of payloads that are asked for (message/fetch.c).
 *
 * Threads: under the connection's lock. Memory: its own; unused arrivals and frames are kept.
 */
#pragma once

#include "client/conn/buffer.h"
#include "wire/base/list.h"

#include <stdint.h>

struct amb_conn_receive {
    struct amb_buffers buffers;       /* for bodies that come by copy */
    void *unused[3];                  /* arrivals, by class */
    struct amb_list_node outstanding; /* arrivals with messages out */
    struct amb_list_node topics;      /* every name that ever came, for messages still held */
};

struct amb_conn_acks {
    struct amb_list_node waiting; /* struct amb_acks.node: something of them is to be said */
    struct amb_list_node unused;  /* frames */
    uint32_t unused_count;
};

struct amb_conn_fetch {
    struct amb_list_node open; /* pieces of payloads that were asked for */
    uint64_t last;             /* number of the last one */
};
