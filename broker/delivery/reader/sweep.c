/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/delivery/reader/sweep.h"

#include "broker/shard/shard.h"
#include "broker/topic/cursor.h"
#include "broker/topic/topic.h"

#include <limits.h>
#include <stdlib.h>

void amb_sweep_init(struct amb_sweep *sweep, struct amb_list_node *cursors,
                    void (*done)(struct amb_sweep *sweep))
{
    amb_list_init(&sweep->node);
    sweep->cursors = cursors;
    sweep->done = done;
}

/* Returns how many went. */
static unsigned detach_some(struct amb_list_node *cursors, unsigned max)
{
    unsigned gone = 0;
    for (; gone < max && !amb_list_is_empty(cursors); gone++) {
        struct amb_cursor *cursor = AMB_CONTAINER_OF(cursors->next, struct amb_cursor, of_sub);
        amb_cursor_detach(cursor);
        free(cursor);
    }
    return gone;
}

bool amb_sweep_some(struct amb_list_node *cursors, unsigned max)
{
    (void)detach_some(cursors, max);
    return amb_list_is_empty(cursors);
}

bool amb_sweep_first(struct amb_shard *shard, struct amb_list_node *cursors)
{
    shard->sweep.swept +=
        detach_some(cursors, shard->sweep.swept < AMB_SWEEP_TURN ? AMB_SWEEP_NOW : AMB_SWEEP_FEW);
    return amb_list_is_empty(cursors);
}

void amb_sweep_begin(struct amb_shard *shard, struct amb_sweep *sweep)
{
    if (amb_list_is_empty(&sweep->node)) {
        amb_list_push_back(&shard->sweep.owners, &sweep->node);
    }
}

static void sweep_slice(struct amb_shard *shard, unsigned budget)
{
    while (budget > 0 && !amb_list_is_empty(&shard->sweep.owners)) {
        struct amb_sweep *sweep =
            AMB_CONTAINER_OF(shard->sweep.owners.next, struct amb_sweep, node);
        budget -= detach_some(sweep->cursors, budget);
        if (amb_list_is_empty(sweep->cursors)) {
            amb_list_remove(&sweep->node);
            sweep->done(sweep);
        }
    }
}

unsigned amb_sweep_run(struct amb_shard *shard)
{
    if (amb_list_is_empty(&shard->sweep.owners)) {
        return 0;
    }
    sweep_slice(shard, AMB_SWEEP_TURN);
    return 1;
}

void amb_sweep_finish(struct amb_shard *shard)
{
    sweep_slice(shard, UINT_MAX);
    free(shard->sweep.nobody);
    shard->sweep.nobody = NULL;
}
