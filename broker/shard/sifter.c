/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/shard/sifter.h"

#include <stdlib.h>

void amb_sift_init(struct amb_sift *sift)
{
    *sift = (struct amb_sift){.steps = AMB_SIFT_STEPS, .turn = 1};
    amb_list_init(&sift->waiting);
    amb_list_init(&sift->paused);
}

void amb_sift_fini(struct amb_sift *sift)
{
    free(sift->cache);
    sift->cache = NULL;
}

void amb_sifter_init(struct amb_sifter *sifter)
{
    *sifter = (struct amb_sifter){0};
    amb_list_init(&sifter->node);
    amb_list_init(&sifter->cursors);
}

void amb_sifter_fini(struct amb_sifter *sifter)
{
    amb_list_remove(&sifter->node);
}
