# SPDX-License-Identifier: Apache-2.0
# The image of docker/Dockerfile with the UCX of Debian, which has InfiniBand and RoCE, and the user
# space drivers of rdma-core.
#     docker build -f docker/Dockerfile -t ambroker .
#     docker build -f docker/rdma.Dockerfile -t ambroker-rdma .
#     docker run --detach --name broker --network host --device /dev/infiniband --ulimit memlock=-1 \
#         --tmpfs /run/ambroker -v ./broker.conf:/etc/ambroker/broker.conf:ro ambroker-rdma
# with transports.trusted naming the fabric's interface or device (etc/profiles/infiniband.conf). Then
#     docker exec broker broker-ctl transports     # UCX of /usr/lib/..., lanes rc/... and ud/...
#     docker exec broker broker-ctl doctor         # what is missing, and what to do about it
# Not part of the tests: no test machine so far has such a device.
# BASE is an image of docker/Dockerfile.
ARG BASE=ambroker
FROM ${BASE}
USER root
RUN apt-get update \
    && apt-get install -y --no-install-recommends libucx0 ibverbs-providers rdma-core \
    && rm -rf /var/lib/apt/lists/* /var/cache/apt/archives/*.deb \
    # All that the module asks for must be there.
    && test -e /usr/lib/*/ucx/libuct_ib.so.0 && ! ldd /usr/lib/*/ucx/libuct_ib.so.0 | grep 'not found'
# By number, as in docker/Dockerfile: Kubernetes' runAsNonRoot knows no names.
USER 4733:4733
LABEL org.opencontainers.image.title="ambroker-rdma"
