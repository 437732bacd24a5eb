/* SPDX-License-Identifier: Apache-2.0 */
#include "client/message/targets.h"

#include "client/conn/conn.h"
#include "client/conn/error.h"
#include "client/memory/gpu.h"
#include "client/message/landing_private.h"
#include "client/message/side.h"

/* Fills a target with memory of that kind; allocator->alloc NULL: of our pool. ENOTSUP, ENOTFOUND,
 * ECUDA: the last error. */
static enum amb_status target_init(struct amb_conn *conn, struct amb_target *target,
                                   const struct amb_allocator *allocator, enum amb_mem mem,
                                   int device)
{
    bool is_on_gpu = amb_mem_is_on_gpu(mem);
    struct amb_gpu *gpu = NULL;
    if (is_on_gpu || (mem == AMB_MEM_PINNED && allocator->alloc == NULL)) {
        enum amb_status status = amb_gpu_get(conn, device, &gpu);
        if (status != AMB_OK) {
            return status;
        }
    }
    *target = (struct amb_target){.mem = mem,
                                  .device = is_on_gpu ? device : -1,
                                  .gpu = gpu,
                                  .is_copied = allocator->alloc != NULL || mem != AMB_MEM_CUDA,
                                  .allocator = *allocator};
    return AMB_OK;
}

/* All messages go to one kind of memory, or stay where they came. */
static enum amb_status choose_one(struct amb_landing *landing,
                                  const struct amb_sub_options *options,
                                  const struct amb_allocator *allocator)
{
    if (landing->mem == AMB_MEM_AS_SENT || landing->is_lazy) {
        return AMB_OK;
    }
    struct amb_target *target = &landing->targets[0];
    enum amb_status status =
        target_init(landing->conn, target, allocator, allocator->mem, options->device);
    if (status != AMB_OK) {
        return status;
    }
    target->is_copied = target->is_copied || options->copy != 0;
    for (unsigned kind = 0; kind < AMB_SUB_ALLOCATORS_MAX; kind++) {
        landing->of[kind] = target;
    }
    /* Pinned memory is filled from the host copy that all host readers share. */
    landing->mem = amb_mem_is_on_gpu(target->mem) ? AMB_MEM_CUDA : AMB_MEM_HOST;
    landing->is_by_link = target->mem == AMB_MEM_CUDA && allocator->alloc == NULL;
    return AMB_OK;
}

/* Memory that is a driver's needs one in this process. */
static enum amb_status check_kinds(struct amb_conn *conn, const struct amb_allocator *allocators)
{
    static const char *const names[] = {"HOST", "PINNED", "CUDA", "CUDA_MANAGED"};
    for (unsigned kind = 1; kind < AMB_SUB_ALLOCATORS_MAX; kind++) {
        enum amb_status status = allocators[kind].alloc != NULL ? amb_cuda_start() : AMB_OK;
        if (status == AMB_ENOTSUP) {
            return amb_conn_fail(conn, AMB_EINVAL,
                                 "amb_sub_options.allocators: %s memory never comes here: %s",
                                 names[kind], amb_cuda_why_not());
        }
        if (status != AMB_OK) {
            return amb_conn_fail(conn, status, "amb_sub_options.allocators: %s memory: %s",
                                 names[kind], amb_cuda_why_not());
        }
    }
    return AMB_OK;
}

/* Each message goes to the memory that it was sent from. */
static enum amb_status choose_by_kind(struct amb_landing *landing,
                                      const struct amb_sub_options *options)
{
    struct amb_allocator allocators[AMB_SUB_ALLOCATORS_MAX];
    struct amb_complaint complaint;
    enum amb_status status = amb_allocators_read(options, allocators, &complaint);
    if (status != AMB_OK) {
        return amb_conn_fail(landing->conn, status, "%s", complaint.text);
    }
    status = check_kinds(landing->conn, allocators);
    struct amb_target *targets = landing->targets;
    bool is_to_host = options->fallback == AMB_FALLBACK_HOST || options->copy != 0;
    for (unsigned kind = 0; kind < AMB_SUB_ALLOCATORS_MAX && status == AMB_OK; kind++) {
        bool is_served = allocators[kind].alloc != NULL;
        if (is_served || kind == 0) {
            status = target_init(landing->conn, &targets[kind], &allocators[kind],
                                 (enum amb_mem)(AMB_MEM_HOST + kind), options->device);
        }
        landing->of[kind] = is_served ? &targets[kind] : is_to_host ? &targets[0] : NULL;
    }
    /* Without memory on a GPU all of them come to the host: nothing is to be left on one. */
    bool is_on_gpu = landing->of[AMB_MEM_CUDA - AMB_MEM_HOST] != &targets[0] ||
                     landing->of[AMB_MEM_CUDA_MANAGED - AMB_MEM_HOST] != &targets[0];
    bool may_stay = options->copy == 0 && is_on_gpu && amb_cuda_start() == AMB_OK;
    landing->mem = may_stay ? AMB_MEM_AS_SENT : AMB_MEM_HOST;
    return status;
}

enum amb_status amb_targets_choose(struct amb_landing *landing,
                                   const struct amb_sub_options *options,
                                   const struct amb_allocator *allocator)
{
    return options->allocator_count != 0 ? choose_by_kind(landing, options)
                                         : choose_one(landing, options, allocator);
}
