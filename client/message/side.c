/* SPDX-License-Identifier: Apache-2.0 */
#include "client/message/side.h"

#include "client/conn/conn.h"
#include "client/memory/gpu.h"
#include "client/memory/view.h"

#include <stdlib.h>

struct amb_side *amb_side_of(const struct amb_msg *msg)
{
    struct amb_arrival *arrival = amb_msg_arrival(msg);
    struct amb_side *sides = atomic_load_explicit(&arrival->sides, memory_order_acquire);
    if (sides == NULL) {
        struct amb_side *fresh = calloc(arrival->count, sizeof(*fresh));
        if (fresh == NULL) {
            return NULL;
        }
        if (atomic_compare_exchange_strong(&arrival->sides, &sides, fresh)) {
            sides = fresh;
        } else {
            free(fresh); /* Another thread was faster. */
        }
    }
    return &sides[msg->index];
}

static const struct amb_side *placed(const struct amb_msg *msg)
{
    const struct amb_arrival *arrival = amb_msg_arrival(msg);
    const struct amb_side *sides = atomic_load_explicit(&arrival->sides, memory_order_acquire);
    return sides != NULL && sides[msg->index].is_placed ? &sides[msg->index] : NULL;
}

/* Memory that the driver knows; DEFAULT: plain host memory. */
static enum amb_mem mem_of(const struct amb_msg *msg)
{
    const struct amb_side *side = placed(msg);
    return side != NULL && side->mem != AMB_MEM_HOST ? side->mem : AMB_MEM_DEFAULT;
}

struct amb_gpu *amb_side_gpu(const struct amb_msg *msg)
{
    const struct amb_side *side = placed(msg);
    return side != NULL ? side->gpu : NULL;
}

const void *amb_msg_bytes(const struct amb_msg *msg)
{
    return amb_mem_is_on_gpu(mem_of(msg)) ? placed(msg)->bytes : amb_msg_payload(msg);
}

enum amb_mem amb_msg_mem(const struct amb_msg *msg)
{
    enum amb_mem mem = mem_of(msg);
    return mem != AMB_MEM_DEFAULT ? mem : AMB_MEM_HOST;
}

int amb_msg_device(const struct amb_msg *msg)
{
    return amb_mem_is_on_gpu(mem_of(msg)) ? amb_gpu_index(amb_side_gpu(msg)) : -1;
}

/* How a lazy message's payload came, if it has. */
static const char *fetched_path(const struct amb_msg *msg)
{
    const struct amb_arrival *arrival = amb_msg_arrival(msg);
    if (amb_msg_payload(msg) == NULL) {
        return "lazy";
    }
    /* Its view was noted before the payload was there to be read. */
    const struct amb_side *sides = atomic_load_explicit(&arrival->sides, memory_order_acquire);
    bool is_mapped = sides != NULL && sides[msg->index].view != NULL;
    return is_mapped ? "mapped" : arrival->conn->link_state.path;
}

const char *amb_msg_path(const struct amb_msg *msg)
{
    const struct amb_arrival *arrival = amb_msg_arrival(msg);
    if (amb_mem_is_on_gpu(mem_of(msg))) {
        return placed(msg)->bytes != NULL ? "staged"
               : arrival->view != NULL    ? "cuda_ipc"
                                          : arrival->conn->link_state.path;
    }
    if (arrival->frame.type == AMB_FRAME_LAZY) {
        return fetched_path(msg);
    }
    if (arrival->view != NULL && arrival->view->gpu != NULL) {
        return "staged"; /* From there to the host. */
    }
    return arrival->view != NULL ? "mapped" : arrival->conn->link_state.path;
}

const void *amb_msg_data_on(const struct amb_msg *msg, void *stream)
{
    (void)stream; /* The bytes were whole before the message was given out. */
    return mem_of(msg) != AMB_MEM_DEFAULT ? (const void *)(uintptr_t)placed(msg)->address : NULL;
}
