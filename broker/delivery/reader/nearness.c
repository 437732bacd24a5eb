/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/delivery/reader/nearness.h"

#include "broker/delivery/reader/subscription.h"
#include "broker/session/session.h"

enum amb_nearness amb_nearness_of(const struct amb_subscription *subscription)
{
    const struct amb_session *session = subscription->session;
    const struct amb_subscription_options *options = &subscription->options;
    /* A stream may come later; ucx is there from the session's beginning. */
    bool is_ucx = session->link != NULL && session->link->ops->kind == AMB_LINK_UCX;
    if (!session->is_on_host || is_ucx) {
        return AMB_NEARNESS_REMOTE;
    }
    bool wants_gpu = options->mem == AMB_MEM_CUDA || options->mem == AMB_MEM_AS_SENT;
    /* A lazy one gets no payload in GPU memory in place (lazy.c). */
    return session->may_map_gpu && wants_gpu && options->lazy == AMB_LAZY_OFF ? AMB_NEARNESS_GPU
                                                                              : AMB_NEARNESS_HOST;
}

const char *amb_nearness_name(enum amb_nearness nearness)
{
    static const char *const names[] = {"remote", "host", "gpu"};
    return names[nearness];
}
