/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The world that the tests of publishers share: a scripted client on shard 0. It publishes to a
 * topic at home there, through a window that is small.
 * Threads: one. Memory: the test's.
 */
#pragma once

#include "broker/config/config.h"
#include "broker/ingest/publisher.h"
#include "broker/topic/reclaim.h"
#include "broker/topic/topic.h"
#include "tests/support/shard/shard_client.h"
#include "tests/support/shard/shard_harness.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define KIB UINT64_C(1024)

struct world {
    struct shard_harness h;
    uint32_t topic;
    struct shard_client *p;
};

static const char small_window[] =
    "memory = { host = { size = \"16M\"; segment = \"2M\"; grow_on_demand = true; }; };\n"
    "limits = { window = \"256K\"; };\n";

static inline int setup(void **state)
{
    struct world *w = calloc(1, sizeof(*w));
    assert_non_null(w);
    harness_init(&w->h, 1, small_window);
    w->topic = harness_topic(&w->h, "a.b", 0);
    w->p = shard_client_create(&w->h, 0, NULL);
    client_open_pub(w->p, 0, w->topic, false);
    *state = w;
    return 0;
}

static inline int teardown(void **state)
{
    struct world *w = *state;
    harness_fini(&w->h);
    free(w);
    return 0;
}

static inline struct amb_publisher *publisher(struct world *w, uint32_t handle)
{
    return amb_session_publisher(w->p->session, handle);
}
