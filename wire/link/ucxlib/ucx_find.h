/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The UCX libraries of this machine, as files; nothing is loaded.
 *
 *   wheel    on the run path of the object that this code is in: what tools/deps.sh has unpacked,
 *            or what was installed beside it
 *   system   in a folder where the dynamic linker looks by itself: LD_LIBRARY_PATH, the folders of
 *            /etc/ld.so.conf, its own
 *
 * Threads: any. Memory: the caller's.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define AMB_UCX_FILE_MAX 512u     /* bytes of a path, with its NUL */
#define AMB_UCX_FOLDERS_MAX 2048u /* bytes of a list of folders */
#define AMB_UCX_LIBRARIES_MAX 8u  /* more are not looked at */

enum amb_ucx_origin {
    AMB_UCX_WHEEL,
    AMB_UCX_SYSTEM,
    AMB_UCX_NAMED,  /* by its path */
    AMB_UCX_LOADED, /* this process has it already */
};

/* Of a sentence about a machine with RDMA devices, whose UCX lacks the module for them. */
#define AMB_UCX_INSTALL_IB                                                                         \
    "install a UCX that has it (Debian, Ubuntu: libucx0 and ibverbs-providers; others: ucx-ib, "   \
    "DOCA or HPC-X), and set transports.library = \"system\""

struct amb_ucx_library {
    char file[AMB_UCX_FILE_MAX]; /* of libucp */
    enum amb_ucx_origin origin;
    uint32_t release; /* 0: not known before it is loaded */
    bool has_ib;      /* its module for InfiniBand and RoCE is there */
    bool has_cuda;    /* those for GPU memory are */
};

struct amb_ucx_libraries {
    struct amb_ucx_library items[AMB_UCX_LIBRARIES_MAX];
    size_t count;
};

/* The places to look in; lists are written "a:b". */
struct amb_ucx_places {
    char run_path[AMB_UCX_FOLDERS_MAX];
    char library_path[AMB_UCX_FOLDERS_MAX];
    const char *linker_conf; /* a file as /etc/ld.so.conf */
};

/* Those of this process. */
void amb_ucx_places_init(struct amb_ucx_places *places);
/* Each library once, the first in the order above. */
void amb_ucx_libraries_find(const struct amb_ucx_places *places, struct amb_ucx_libraries *out);
/*
 * One library by its path: a folder, or the file libucp itself. False: there is none; problem says
 * why not (static).
 */
bool amb_ucx_library_look(const char *path, enum amb_ucx_origin origin, struct amb_ucx_library *out,
                          const char **problem);
/* The library that this process has loaded, whoever did so; false: none. */
bool amb_ucx_library_here(struct amb_ucx_library *out);
/* "wheel", "system", "named", "loaded". */
const char *amb_ucx_origin_name(enum amb_ucx_origin origin);
/* Writes "1.22.0 (/path/libucp.so.0)"; returns out. */
const char *amb_ucx_library_text(const struct amb_ucx_library *library, char *out, size_t size);
