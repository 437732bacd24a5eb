/* SPDX-License-Identifier: Apache-2.0 */
#include "client/message/sub_end.h"

#include "client/conn/conn.h"
#include "client/message/landing.h"
#include "client/message/release.h"
#include "client/message/sub.h"

#include <stdlib.h>

void amb_sub_unref(struct amb_sub *sub)
{
    /* Acquire: the last one sees what all others did. */
    if (atomic_fetch_sub_explicit(&sub->refs, 1, memory_order_acq_rel) == 1) {
        amb_release_fini(&sub->release);
        amb_landing_destroy(&sub->landing);
        amb_sub_topics_fini(&sub->topics);
        amb_sub_position_fini(&sub->position);
        amb_sub_life_fini(&sub->life);
        free(sub);
    }
}

void amb_sub_free_handle(struct amb_sub *sub)
{
    if (sub->life.is_ended && sub->release.upto == sub->release.last &&
        sub->conn->handles.subs[sub->handle] == sub) {
        sub->conn->handles.numbers[sub->handle].delivered = sub->release.last;
        sub->conn->handles.sub_taken[sub->handle] = false;
    }
}
