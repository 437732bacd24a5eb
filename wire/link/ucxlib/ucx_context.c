/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/link/ucxlib/ucx_context.h"

#include "wire/base/assert.h"
#include "wire/base/log.h"
#include "wire/link/ucxlib/ucx_api.h"
#include "wire/link/ucxlib/ucx_context_private.h"
#include "wire/link/ucxlib/ucx_log.h"
#include "wire/link/ucxlib/ucx_process.h"
#include "wire/link/ucxlib/ucx_release.h"
#include "wire/link/ucxlib/ucx_settings_private.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static enum amb_status init_context(const struct amb_ucx_options *options, char *error,
                                    size_t error_size, struct amb_ucx_context *context)
{
    ucp_config_t *config = NULL;
    enum amb_status status = amb_ucx_config_open(options, error, error_size, &config);
    if (status != AMB_OK) {
        return status;
    }
    const ucp_params_t params = {
        .field_mask =
            UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_MT_WORKERS_SHARED | UCP_PARAM_FIELD_NAME,
        .features = UCP_FEATURE_AM | UCP_FEATURE_WAKEUP,
        .mt_workers_shared = 1, /* workers of one context live on different threads */
        .name = "ambroker",
    };
    unsigned major, minor;
    amb_ucx_release_interface(amb_ucx_release(), &major, &minor);
    ucs_status_t ucs =
        amb_ucx_api.ucp_init_version(major, minor, &params, config, &context->handle);
    amb_ucx_api.ucp_config_release(config);
    if (ucs != UCS_OK) {
        context->handle = NULL;
        (void)snprintf(error, error_size, "UCX has no transport that it may use on '%s': %s",
                       options->net_devices, amb_ucx_api.ucs_status_string(ucs));
        return AMB_EUCX;
    }
    return AMB_OK;
}

static bool takes_cuda(const struct amb_ucx_context *context)
{
    ucp_context_attr_t attr = {.field_mask = UCP_ATTR_FIELD_MEMORY_TYPES};
    return amb_ucx_release_frees_threads(amb_ucx_release()) &&
           amb_ucx_api.ucp_context_query(context->handle, &attr) == UCS_OK &&
           (attr.memory_types & UCS_BIT(UCS_MEMORY_TYPE_CUDA)) != 0;
}

/* The user's own bound. EINVAL: it is no number. */
static enum amb_status read_device_min(char *error, size_t error_size, uint64_t *out)
{
    const char *text = secure_getenv(AMB_UCX_GPU_MIN_ENV);
    char *end = NULL;
    *out = 0;
    if (text == NULL || text[0] == '\0') {
        return AMB_OK;
    }
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end != '\0' || errno != 0) {
        (void)snprintf(error, error_size, AMB_UCX_GPU_MIN_ENV "='%.32s' is no number of bytes",
                       text);
        return AMB_EINVAL;
    }
    *out = value;
    return AMB_OK;
}

enum amb_status amb_ucx_context_create(const struct amb_ucx_options *options, char *error,
                                       size_t error_size, struct amb_ucx_context **out)
{
    AMB_UCX_OURS;
    char unused[256];
    if (error == NULL || error_size == 0) {
        error = unused;
        error_size = sizeof(unused);
    }
    error[0] = '\0';
    if (access("/sys/class/net", F_OK) != 0) { /* Else it has no devices, and says so each time. */
        (void)snprintf(error, error_size,
                       "link ucx: UCX finds interfaces in /sys, and there is none");
        return AMB_ENOTSUP;
    }
    if (!amb_ucx_load()) {
        (void)snprintf(error, error_size, "link ucx: no UCX library (libucp.so.0) is installed");
        return AMB_ENOTSUP;
    }
    if (options->tx_seg < 16384 || options->rx_seg < options->tx_seg) {
        (void)snprintf(error, error_size, "TCP segment sizes %u and %u make no sense",
                       options->tx_seg, options->rx_seg);
        return AMB_EINVAL;
    }
    uint64_t device_min;
    if (read_device_min(error, error_size, &device_min) != AMB_OK) {
        return AMB_EINVAL;
    }
    struct amb_ucx_context *context = calloc(1, sizeof(*context));
    if (context == NULL) {
        (void)snprintf(error, error_size, "no memory for a UCX context");
        return AMB_ENOMEM;
    }
    amb_ucx_process_lock();
    enum amb_status status = init_context(options, error, error_size, context);
    if (status == AMB_OK && options->use_environment) {
        amb_ucx_signals_release();
    }
    amb_ucx_process_unlock();
    if (status != AMB_OK) {
        goto fail;
    }
    (void)snprintf(context->net_devices, sizeof(context->net_devices), "%s", options->net_devices);
    context->tx_seg = options->tx_seg;
    context->rx_seg = options->rx_seg;
    context->takes_cuda = takes_cuda(context);
    context->device_min = device_min;
    *out = context;
    return AMB_OK;

fail:
    amb_ucx_context_destroy(&context);
    return status;
}

void amb_ucx_context_destroy(struct amb_ucx_context **context)
{
    AMB_UCX_OURS;
    if (*context == NULL) {
        return;
    }
    if ((*context)->handle != NULL) {
        amb_ucx_process_lock();
        amb_ucx_api.ucp_cleanup((*context)->handle);
        amb_ucx_process_unlock();
    }
    free(*context);
    *context = NULL;
}

enum amb_status amb_ucx_register(struct amb_ucx_context *context, void *address, size_t length,
                                 struct amb_link_mem **out)
{
    AMB_UCX_OURS;
    amb_assert(context != NULL && address != NULL && length > 0);
    struct amb_link_mem *mem = calloc(1, sizeof(*mem));
    if (mem == NULL) {
        return AMB_ENOMEM;
    }
    mem->context = context;
    const ucp_mem_map_params_t params = {
        .field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH |
                      UCP_MEM_MAP_PARAM_FIELD_MEMORY_TYPE,
        .address = address,
        .length = length,
        .memory_type = UCS_MEMORY_TYPE_HOST,
    };
    ucs_status_t ucs = amb_ucx_api.ucp_mem_map(context->handle, &params, &mem->handle);
    if (ucs != UCS_OK) {
        amb_warn("ucx: registering %zu bytes failed: %s", length,
                 amb_ucx_api.ucs_status_string(ucs));
        free(mem);
        return ucs == UCS_ERR_NO_MEMORY ? AMB_ENOMEM : AMB_EUCX;
    }
    *out = mem;
    return AMB_OK;
}

void amb_ucx_unregister(struct amb_link_mem **mem)
{
    AMB_UCX_OURS;
    if (*mem == NULL) {
        return;
    }
    ucs_status_t ucs = amb_ucx_api.ucp_mem_unmap((*mem)->context->handle, (*mem)->handle);
    if (ucs != UCS_OK) {
        amb_warn("ucx: giving back a registration failed: %s", amb_ucx_api.ucs_status_string(ucs));
    }
    free(*mem);
    *mem = NULL;
}
