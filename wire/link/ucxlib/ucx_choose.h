/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The choice of the UCX that a process is to load.
 *
 *   auto     the one that the process has; else, where a trusted device is an RDMA device, the
 *            system's if it has the InfiniBand module, and any other that has; else one with CUDA
 *            modules; else any. A peer's release rules out those that do not understand it
 *   wheel, system, or the path of a libucp or of its folder: that one
 *
 * Threads: any. Memory: the caller's. Nothing is loaded; a path is looked at.
 */
#pragma once

#include "wire/base/status.h"
#include "wire/link/ucxlib/ucx_find.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Wins over every other source of the same wish. */
#define AMB_UCX_LIBRARY_ENV "AMB_UCX_LIBRARY"

struct amb_ucx_wish {
    const char *library; /* "auto", "wheel", "system", a path */
    const char *source;  /* of that wish, for sentences: "AMB_UCX_LIBRARY", "transports.library" */
    bool has_rdma;       /* an RDMA device may be used */
    uint32_t peer;       /* the release of the other end; 0: of any */
};

/*
 * Chooses; loaded: what the process has; NULL: none. *out is a copy. ENOTSUP with a sentence that
 * names the libraries: there is none, or not that one, or it does not fit.
 */
AMB_MUST_CHECK enum amb_status amb_ucx_choose(const struct amb_ucx_libraries *libraries,
                                              const struct amb_ucx_library *loaded,
                                              const struct amb_ucx_wish *wish, char *error,
                                              size_t error_size, struct amb_ucx_library *out);
