/* SPDX-License-Identifier: Apache-2.0 */
/*
 * UCX may do other things than it was told. Keys that nothing takes are dropped without a word.
 * Other ends that use other TCP segment sizes crash. No call of UCX tells the sizes, but a worker
 * does: its room for a header is TX_SEG_SIZE less UCX's own headers. UCX makes none whose
 * TX_SEG_SIZE exceeds its RX_SEG_SIZE.
 */
#include "wire/link/ucxlib/ucx_prove.h"

#include "wire/link/ucxlib/ucx_api.h"
#include "wire/link/ucxlib/ucx_context_private.h"
#include "wire/link/ucxlib/ucx_log.h"
#include "wire/link/ucxlib/ucx_process.h"
#include "wire/link/ucxlib/ucx_release.h"
#include "wire/link/ucxlib/ucx_settings_private.h"

#include <stdatomic.h>
#include <stdio.h>

/* Makes a TCP worker with these sizes. UCS_ERR_NO_DEVICE: there is no TCP here. is_tried: it was
 * the worker that could be made, or not. */
static ucs_status_t try_sizes(const char *net_devices, uint32_t tx, uint32_t rx, size_t *room,
                              bool *is_tried)
{
    const struct amb_ucx_options options = {
        .net_devices = net_devices, .tls = "tcp", .tx_seg = tx, .rx_seg = rx};
    char unused[128];
    ucp_config_t *config = NULL;
    ucp_context_h context = NULL;
    ucp_worker_h worker = NULL;
    *is_tried = false;
    if (amb_ucx_config_open(&options, unused, sizeof(unused), &config) != AMB_OK) {
        return UCS_ERR_IO_ERROR;
    }
    const ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES,
                                 .features = UCP_FEATURE_AM | UCP_FEATURE_WAKEUP};
    unsigned major, minor;
    amb_ucx_release_interface(amb_ucx_release(), &major, &minor);
    ucs_status_t ucs = amb_ucx_api.ucp_init_version(major, minor, &params, config, &context);
    amb_ucx_api.ucp_config_release(config);
    if (ucs != UCS_OK) {
        return ucs;
    }
    const ucp_worker_params_t worker_params = {.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
                                               .thread_mode = UCS_THREAD_MODE_SINGLE};
    *is_tried = true;
    ucs = amb_ucx_api.ucp_worker_create(context, &worker_params, &worker);
    if (ucs == UCS_OK) {
        ucp_worker_attr_t attr = {.field_mask = UCP_WORKER_ATTR_FIELD_MAX_AM_HEADER};
        ucs = amb_ucx_api.ucp_worker_query(worker, &attr);
        *room = attr.max_am_header;
        amb_ucx_api.ucp_worker_destroy(worker);
    }
    amb_ucx_api.ucp_cleanup(context);
    return ucs;
}

/* UCX's headers in a fragment: 49 bytes on 1.13.1, 52 on 1.22. */
static bool is_near(size_t room, uint32_t seg)
{
    return room < seg && room > seg - 4096;
}

static _Atomic uint64_t proved; /* the pair of sizes that was, in this process */

/* Under the lock: a thread that has waited for it may find that it is done. */
static enum amb_status prove(const struct amb_ucx_context *context, char *error, size_t error_size)
{
    const uint32_t tx = context->tx_seg;
    const uint32_t rx = context->rx_seg;
    const uint64_t pair = (uint64_t)tx << 32 | rx;
    if (atomic_load(&proved) == pair) {
        return AMB_OK;
    }
    size_t small = 0;
    size_t large = 0;
    size_t none = 0;
    bool is_tried;
    ucs_status_t as_meant = try_sizes(context->net_devices, tx, rx, &small, &is_tried);
    ucs_status_t at_limit = try_sizes(context->net_devices, rx, rx, &large, &is_tried);
    amb_ucx_is_hushed = true; /* this one is meant to fail */
    ucs_status_t past_limit = try_sizes(context->net_devices, rx + 1, rx, &none, &is_tried);
    amb_ucx_is_hushed = false;
    if (as_meant == UCS_ERR_NO_DEVICE) {
        return AMB_OK; /* no TCP, no segments */
    }
    if (as_meant != UCS_OK) {
        (void)snprintf(error, error_size, "UCX can open no port on '%s': %s", context->net_devices,
                       amb_ucx_api.ucs_status_string(as_meant));
        return AMB_EUCX;
    }
    if (!is_near(small, tx) || at_limit != UCS_OK || !is_near(large, rx) || past_limit == UCS_OK ||
        !is_tried) {
        char text[AMB_UCX_RELEASE_TEXT_MAX];
        (void)snprintf(error, error_size,
                       "this UCX (%s) does not use the TCP segment sizes it is told, and peers "
                       "with other sizes would crash",
                       amb_ucx_release_text(amb_ucx_release(), text, sizeof(text)));
        return AMB_EUCX;
    }
    atomic_store(&proved, pair);
    return AMB_OK;
}

enum amb_status amb_ucx_context_prove(const struct amb_ucx_context *context, char *error,
                                      size_t error_size)
{
    AMB_UCX_OURS;
    if (atomic_load(&proved) == ((uint64_t)context->tx_seg << 32 | context->rx_seg)) {
        return AMB_OK;
    }
    amb_ucx_process_lock();
    enum amb_status status = prove(context, error, error_size);
    amb_ucx_process_unlock();
    return status;
}
