/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/worker/ucxport.h"

#include "wire/base/log.h"
#include "wire/link/ucx/ucx_worker.h"

#include <errno.h>
#include <sys/epoll.h>

/* Has the worker's epoll report UCX's events. */
static enum amb_status watch(struct amb_shard *shard)
{
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = AMB_SHARD_TAG_UCX};
    int fd = amb_ucx_worker_fd(shard->ucx.worker);
    return epoll_ctl(shard->poll.epoll_fd, EPOLL_CTL_ADD, fd, &event) == 0
               ? AMB_OK
               : amb_status_from_errno(errno);
}

enum amb_status amb_ucxport_open(struct amb_shard *shard)
{
    if (shard->ucx.worker != NULL) {
        return AMB_OK;
    }
    if (shard->ucx.context == NULL) {
        return AMB_ENOTSUP;
    }
    enum amb_status status = amb_ucx_worker_create(shard->ucx.context, false, &shard->ucx.worker);
    if (status == AMB_OK) {
        status = watch(shard);
    }
    if (status != AMB_OK) {
        amb_ucxport_close(shard);
        return status;
    }
    amb_info("worker %u: its UCX port is open, the first ucx link has been asked for",
             shard->index);
    return AMB_OK;
}

int64_t amb_ucxport_due(struct amb_shard *shard)
{
    return shard->ucx.worker == NULL
               ? INT64_MAX
               : shard->now_ns + amb_ucx_worker_sleep_max_ns(shard->ucx.worker);
}

void amb_ucxport_close(struct amb_shard *shard)
{
    if (shard->ucx.worker != NULL) {
        amb_ucx_worker_destroy(&shard->ucx.worker);
    }
}
