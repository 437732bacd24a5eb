# SPDX-License-Identifier: Apache-2.0
# The image of docker/Dockerfile for GPU memory. README.md says what each flag is for.
#     docker build -f docker/Dockerfile -t ambroker .
#     docker build -f docker/cuda.Dockerfile -t ambroker-cuda .
#     docker run --gpus all --ipc host --pid host ... ambroker-cuda -o memory.cuda.size=4G
# It has no driver: NVIDIA's container runtime mounts that of the host.
# BASE is an image of docker/Dockerfile. One upon NVIDIA's is made there, by its own BASE.
ARG BASE=ambroker
FROM ${BASE}
# UCX's modules for CUDA and their runtime are there, and lack nothing but the driver.
RUN ucx=$(find /usr/local/lib -type d -path '*/ambroker/ucx/lib/ucx') \
    && ls "$ucx"/libuct_cuda.so.0 "$ucx"/libucm_cuda.so.0 \
    && ldd "$ucx"/libucm_cuda.so.0 | grep -q 'libcudart.* => /' \
    && ! LD_LIBRARY_PATH="$ucx/.." ldd "$ucx"/libuct_cuda.so.0 "$ucx"/libucm_cuda.so.0 \
        | grep 'not found' | grep -v -E 'libcuda\.so\.1|libnvidia-ml\.so\.1'
# What that runtime mounts: the GPUs that the user names, libcuda (compute), libnvidia-ml (utility).
ENV NVIDIA_VISIBLE_DEVICES=all \
    NVIDIA_DRIVER_CAPABILITIES=compute,utility
LABEL org.opencontainers.image.title="ambroker-cuda"
