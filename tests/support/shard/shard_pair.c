/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/shard/shard_pair.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

struct shard_pair *shard_pair_begin(unsigned shards, const struct client_options *reader)
{
    struct shard_pair *pair = calloc(1, sizeof(*pair));
    assert_non_null(pair);
    harness_init(&pair->h, shards, NULL);
    pair->topic = harness_topic(&pair->h, "t", 0);
    pair->p = shard_client_create(&pair->h, 0, NULL);
    pair->s = shard_client_create(&pair->h, shards - 1, reader);
    return pair;
}

int shard_pair_teardown(void **state)
{
    struct shard_pair *pair = *state;
    harness_fini(&pair->h);
    free(pair);
    return 0;
}

void shard_pair_publish(struct shard_pair *pair, uint64_t len)
{
    if (!client_may_send(pair->p, 0, 1, len)) {
        client_want(pair->p, 0, pair->p->pubs[0].bytes + client_batch_bytes(1, len));
        harness_settle(&pair->h);
    }
    client_send(pair->p, 0, 1, len);
    harness_settle(&pair->h);
}

uint8_t shard_pair_frame_type(const struct shard_pair *pair, uint64_t number)
{
    return client_delivery(pair->s, 0, number)->frame.type;
}
