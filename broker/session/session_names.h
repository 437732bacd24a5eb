/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of topics that a session's client is sent (TOPIC frames). A link may still read a name when
 * the subscription that it was sent for has gone: such a name stays until its session goes.
 * Threads: the worker. Memory: one allocation a name, charged to the session's heap.
 */
#pragma once

#include "wire/base/idmap.h"
#include "wire/base/list.h"
#include "wire/base/status.h"

#include <stdint.h>

struct amb_heap_account;

struct amb_session_name {
    struct amb_idmap_node node;      /* the subscription's, by the topic's id */
    struct amb_list_node of_session; /* once its subscription has gone */
    uint32_t naming;                 /* frames in the link that read it */
    uint32_t len;
    char name[];
};

/* Of one session. */
struct amb_session_names {
    struct amb_list_node kept; /* of subscriptions that have gone */
    struct amb_heap_account *heap;
};

void amb_session_names_init(struct amb_session_names *names, struct amb_heap_account *heap);
/* When no link reads any of them. Those of subscriptions are dropped before. */
void amb_session_names_fini(struct amb_session_names *names);
/* A copy of the name. ELIMIT: the session's heap is full. ENOMEM. */
AMB_MUST_CHECK enum amb_status amb_session_name_create(struct amb_session_names *names,
                                                       const char *text, uint32_t len,
                                                       struct amb_session_name **out);
/* No frame will be sent with it again: it goes, or stays while the link reads it. */
void amb_session_name_drop(struct amb_session_names *names, struct amb_session_name *name);
