/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The beginning that tests of the forwarder share: a publisher on shard 0, `near` on shard 1, and
 * `far` on shard 2. `near` maps, `far` does not. The functions are CMocka's fixtures; *state is the
 * trio.
 * Threads: one. Memory: setup's, until teardown.
 */
#pragma once

#include "tests/support/shard/shard_client.h"
#include "tests/support/shard/shard_harness.h"

struct shard_trio {
    struct shard_harness h;
    struct shard_client *p, *near, *far;
};

int shard_trio_setup(void **state, const char *config);
int shard_trio_teardown(void **state);
