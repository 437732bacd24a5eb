/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/control/status/why.h"

#include "broker/config/config.h"
#include "broker/control/clients/client.h"
#include "broker/control/clients/client_share.h"
#include "broker/control/clients/control.h"
#include "broker/control/status/status_gpu.h"
#include "broker/doctor/doctor_host.h"
#include "broker/memory/gpupool.h"
#include "broker/shard/shard.h"
#include "wire/base/interface.h"
#include "wire/codec/expect.h"
#include "wire/config/transports.h"
#include "wire/link/ucxlib/ucx_process.h"

#include <stdio.h>

bool amb_why_is_near(const struct amb_client *client)
{
    const struct amb_control *control = client->control;
    return client->is_unix || (client->place.host != 0 && client->place.host == control->host) ||
           amb_address_is_own(client->fd);
}

/* The Unix socket that local clients may take; NULL: there is none. */
static const char *local_door(const struct amb_control *control)
{
    for (unsigned i = 0; i < control->listener_count; i++) {
        if (control->listeners[i].url.scheme == AMB_URL_UNIX) {
            return control->listeners[i].url.path;
        }
    }
    return NULL;
}

/* A client on the broker's machine that came by TCP. */
static void why_not_local(const struct amb_client *client, char out[AMB_WHY_MAX])
{
    const struct amb_control *control = client->control;
    const char *path = local_door(control);
    bool is_apart = client->place.pid_ns != 0 && client->place.pid_ns != control->pid_ns;
    if (path == NULL) {
        (void)snprintf(out, AMB_WHY_MAX,
                       "the client is on the broker's host, and the broker has no unix:// listener "
                       "(listen) for a ring");
    } else {
        (void)snprintf(out, AMB_WHY_MAX,
                       "the client is on the broker's host: unix://%s gives it a ring%s", path,
                       is_apart ? "; share that folder with its container" : "");
    }
}

const char *amb_why_no_rdma(const struct amb_control *control)
{
    const struct amb_transports *transports = control->transports;
    if (control->config->transports.infiniband == AMB_SWITCH_OFF) {
        return "transports.infiniband is off";
    }
    if (control->ucx == NULL) {
        return transports != NULL && transports->why_not != NULL ? transports->why_not
                                                                 : "the broker has no ucx links";
    }
    if (!transports->has_rdma) {
        return "no interface of transports.trusted has an RDMA device that the broker may use";
    }
    const struct amb_ucx_library *library = amb_ucx_library();
    return library != NULL && library->has_ib
               ? NULL
               : "the broker's UCX has no InfiniBand module (libuct_ib): see broker-ctl doctor";
}

/* The client's ucx link has no lane of RDMA. */
static void why_ucx(const struct amb_client *client, const char *lanes, char out[AMB_WHY_MAX])
{
    const char *why = amb_why_no_rdma(client->control);
    if (lanes == NULL || amb_expect_is_rdma(lanes)) {
        return;
    }
    (void)snprintf(out, AMB_WHY_MAX, "no RDMA: %s",
                   why != NULL ? why
                               : "UCX has chosen no lane of it; has the client a trusted RDMA "
                                 "device, and its UCX the module?");
}

static void why_stream(const struct amb_client *client, char out[AMB_WHY_MAX])
{
    if (client->wish == AMB_LINK_STREAM) {
        (void)snprintf(out, AMB_WHY_MAX, "the URL asks for link=stream");
    } else if (client->tls != NULL && client->wish == AMB_LINK_ANY) {
        (void)snprintf(out, AMB_WHY_MAX,
                       "tls:// is a stream: bytes of a ucx link would be readable");
    } else if (client->ucx_obstacle != NULL) {
        (void)snprintf(out, AMB_WHY_MAX, "no ucx link: %s", client->ucx_obstacle);
    } else {
        (void)snprintf(out, AMB_WHY_MAX,
                       "a ucx link is not asked for: ?link=ucx, or transports.tcp = \"on\"");
    }
}

void amb_why_link(const struct amb_client *client, const char *lanes, char out[AMB_WHY_MAX])
{
    out[0] = '\0';
    if (client->link == AMB_LINK_RING) {
        if (!client->knows_process) {
            (void)snprintf(out, AMB_WHY_MAX,
                           "the kernel does not tell the end of its process, so nothing is mapped");
        }
    } else if (client->is_unix) {
        (void)snprintf(out, AMB_WHY_MAX, "%s",
                       client->link_reason != NULL    ? client->link_reason
                       : client->wish == AMB_LINK_ANY ? "the broker gave it no ring"
                       : client->wish == AMB_LINK_UCX ? "the URL asks for link=ucx, not a ring"
                                                      : "the URL asks for link=stream, not a ring");
    } else if (amb_why_is_near(client)) {
        why_not_local(client, out);
    } else if (client->link == AMB_LINK_UCX) {
        why_ucx(client, lanes, out);
    } else {
        why_stream(client, out);
    }
}

/* By UCX, on one machine. */
static const char *why_no_lane(const struct amb_client *client)
{
    const struct amb_control *control = client->control;
    if (!amb_why_is_near(client)) {
        return "the client is on another host, where NVLink does not lead";
    }
    if (control->config->transports.nvlink == AMB_SWITCH_OFF) {
        return "transports.nvlink is off";
    }
    if (amb_doctor_ucx() != AMB_UCX_CUDA_THERE) {
        return "the broker's UCX has no CUDA modules (libuct_cuda.so)";
    }
    return amb_status_gpu_left_out(control);
}

const char *amb_why_no_nvlink(const struct amb_client *client)
{
    const struct amb_control *control = client->control;
    const char *why = amb_client_gpu_obstacle(client);
    if (client->link == AMB_LINK_UCX && control->shards[0]->memory.gpus != NULL) {
        return why_no_lane(client);
    }
    if (why != NULL) {
        return why;
    }
    if (client->place.pid_ns != 0 && client->place.pid_ns != control->pid_ns) {
        return "its PID namespace is not the broker's, and CUDA IPC does not cross it (--pid=host)";
    }
    if (client->place.ipc_ns != 0 && client->place.ipc_ns != control->ipc_ns) {
        return "its IPC namespace is not the broker's, and CUDA IPC does not cross it (--ipc=host)";
    }
    return client->gpu_reason[0] != '\0' ? client->gpu_reason : NULL;
}

const char *amb_why_no_gpu_lane(const struct amb_client *client)
{
    const struct amb_gpus *gpus = client->control->shards[0]->memory.gpus;
    if (gpus == NULL || gpus->count == 0) {
        return amb_client_gpu_obstacle(client);
    }
    const char *why =
        amb_why_is_near(client) ? why_no_lane(client) : amb_why_no_rdma(client->control);
    return why != NULL ? why : "the lanes that UCX has chosen do not reach GPU memory";
}
