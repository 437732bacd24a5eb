/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/shard/shard_segments.h"

#include "broker/memory/maker.h"
#include "broker/memory/segment.h"
#include "broker/shard/shard.h"
#include "wire/link/ucxlib/ucx_context.h"

enum amb_status amb_shard_segment_made(struct amb_shard *shard, struct amb_segment *segment)
{
    if (shard->ucx.context == NULL) {
        return AMB_OK;
    }
    return amb_ucx_register(shard->ucx.context, segment->base, segment->size, &segment->mem);
}

void amb_shard_segment_unmade(struct amb_shard *shard, struct amb_segment *segment)
{
    if (segment->mem != NULL) {
        amb_ucx_unregister(&segment->mem);
    }
    if (shard->upcalls->segment_gone != NULL) {
        shard->upcalls->segment_gone(shard, segment->id);
    }
}

void amb_shard_segment_unmake(struct amb_shard *shard, struct amb_segment *segment)
{
    amb_maker_unmake(shard->memory.maker, shard->memory.bufpool.options.budget, segment);
}
