/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a connection keeps for messages that come: their deliveries (message/returns.c), their
 * acknowledgements (subscribe/ack.c), and pieces that are asked for (message/fetch.c).
 *
 * Threads: under the connection's lock. Memory: its own; unused deliveries and frames are kept.
 */
#pragma once

#include "client/conn/buffer.h"
#include "wire/base/list.h"

#include <stdint.h>

struct amb_conn_receive {
    struct amb_buffers buffers;       /* for bodies that come by copy */
    void *unused[3];                  /* deliveries, by class */
    struct amb_list_node outstanding; /* deliveries with messages out */
    struct amb_list_node topics;      /* every name ever told, for messages still held */
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
