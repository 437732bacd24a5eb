/* SPDX-License-Identifier: Apache-2.0 */
#include "client/session/insist.h"

#include "wire/codec/expect.h"
#include "wire/link/link.h"
#include "wire/mem/cuda.h"

#include <stdio.h>
#include <string.h>

#define LANES_MAX 256u /* as long as those of all links: one that is cut off would be missed */
#define SHOWN_MAX 160u /* of them in an error's text */

static enum amb_status refuse(struct amb_error *error, enum amb_status status, uint32_t demand,
                              const char *why, const char *more)
{
    error->status = status;
    (void)snprintf(error->text, sizeof(error->text), "expect=%s: %s%.*s", amb_expect_name(demand),
                   why, (int)SHOWN_MAX, more);
    return status;
}

/* Shared memory: of a ring alone. */
static enum amb_status check_local(const struct amb_url *url, uint32_t demand,
                                   struct amb_error *error)
{
    if (url->scheme != AMB_URL_UNIX) {
        return refuse(error, AMB_EINVAL, demand, "shared memory needs a unix:// URL", "");
    }
    if (url->link != AMB_LINK_ANY && url->link != AMB_LINK_RING) {
        return refuse(error, AMB_EINVAL, demand,
                      "the URL itself asks for another link, link=", amb_link_kind_name(url->link));
    }
    return AMB_OK;
}

enum amb_status amb_insist_url(const struct amb_url *url, struct amb_error *error)
{
    enum amb_status status = AMB_OK;
    bool is_ucx = url->link == AMB_LINK_UCX;
    bool is_stream = url->link == AMB_LINK_STREAM || url->scheme == AMB_URL_TLS;
    for (uint32_t left = url->expect; left != 0 && status == AMB_OK;
         left -= amb_expect_first(left)) {
        uint32_t demand = amb_expect_first(left);
        switch ((enum amb_expect)demand) {
        case AMB_EXPECT_RING:
        case AMB_EXPECT_ZERO_COPY:
            status = check_local(url, demand, error);
            break;
        case AMB_EXPECT_RDMA:
            if (!is_ucx && (url->link != AMB_LINK_ANY || url->scheme != AMB_URL_TCP)) {
                status = refuse(error, AMB_EINVAL, demand,
                                "a ucx link alone has RDMA, and the URL leads to a ",
                                is_stream ? "stream" : "ring");
            }
            break;
        case AMB_EXPECT_NVLINK:
            if (is_stream) {
                status = refuse(error, AMB_EINVAL, demand,
                                "a stream takes host memory alone, and the URL leads to one", "");
            }
            break;
        }
    }
    return status;
}

/* GPU memory: by a driver of this process, on a ring or by a lane of UCX. */
static enum amb_status check_nvlink(const struct amb_conn *conn, const char *lanes,
                                    struct amb_error *error)
{
    if (amb_cuda_start() != AMB_OK) {
        return refuse(error, AMB_ENOTSUP, AMB_EXPECT_NVLINK,
                      "this process has no CUDA driver: ", amb_cuda_why_not());
    }
    if (conn->link->ops->kind == AMB_LINK_UCX && !amb_expect_is_nvlink(lanes)) {
        return refuse(error, AMB_ENOTSUP, AMB_EXPECT_NVLINK,
                      "UCX has chosen no lane of cuda_ipc: ", lanes);
    }
    if (conn->link->ops->kind == AMB_LINK_STREAM) {
        return refuse(error, AMB_ENOTSUP, AMB_EXPECT_NVLINK, "the broker gave a stream", "");
    }
    return AMB_OK;
}

enum amb_status amb_insist_session(const struct amb_conn *conn, struct amb_error *error,
                                   const struct amb_url *url, bool may_map)
{
    char lanes[LANES_MAX];
    enum amb_link_kind kind = conn->link->ops->kind;
    if (url->expect == 0) {
        return AMB_OK;
    }
    amb_link_describe(conn->link, lanes, sizeof(lanes));
    if ((url->expect & AMB_EXPECT_RING) != 0 && kind != AMB_LINK_RING) {
        return refuse(error, AMB_ENOTSUP, AMB_EXPECT_RING, "the broker gave another link: ", lanes);
    }
    if ((url->expect & AMB_EXPECT_ZERO_COPY) != 0 && (kind != AMB_LINK_RING || !may_map)) {
        return refuse(error, AMB_ENOTSUP, AMB_EXPECT_ZERO_COPY,
                      "the broker lets this client map nothing: ", lanes);
    }
    if ((url->expect & AMB_EXPECT_RDMA) != 0 && !amb_expect_is_rdma(lanes)) {
        return refuse(error, AMB_ENOTSUP, AMB_EXPECT_RDMA,
                      "UCX has chosen no lane of RDMA: ", lanes);
    }
    return (url->expect & AMB_EXPECT_NVLINK) != 0 ? check_nvlink(conn, lanes, error) : AMB_OK;
}
