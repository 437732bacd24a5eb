/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/shard/shard_trio.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

int shard_trio_setup(void **state, const char *config)
{
    struct shard_trio *trio = calloc(1, sizeof(*trio));
    assert_non_null(trio);
    harness_init(&trio->h, 3, config);
    const struct client_options maps = {.may_map = true, .answers_offers = true};
    trio->p = shard_client_create(&trio->h, 0, NULL);
    trio->near = shard_client_create(&trio->h, 1, &maps);
    trio->far = shard_client_create(&trio->h, 2, NULL);
    *state = trio;
    return 0;
}

int shard_trio_teardown(void **state)
{
    struct shard_trio *trio = *state;
    harness_fini(&trio->h);
    free(trio);
    return 0;
}
