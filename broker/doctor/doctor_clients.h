/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Clients that do not fit the broker, for the doctor: namespaces, visible GPUs, releases of libamb
 * and of UCX. Of each kind the first client is named, and the others are counted.
 *
 * Most clients say in which namespaces they are. /proc is asked about a few that have not, and the
 * others are counted. The caller sees to it that all have their turns.
 *
 *   ask, for each client ─► read ─► init ─► add, for each client ─► rows
 *
 * Threads: the control thread. Only amb_doctor_proc_read is called by the thread of doctor_files.h,
 * for /proc may hang. Memory: the caller's; texts of clients are copied.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define AMB_DOCTOR_ASKED_MAX 64u     /* clients about whom /proc is asked */
#define AMB_DOCTOR_VISIBLE_SIZE 100u /* of CUDA_VISIBLE_DEVICES with its NUL; the rest is cut */

enum amb_doctor_misfit {
    AMB_DOCTOR_MISFIT_PID,
    AMB_DOCTOR_MISFIT_IPC,
    AMB_DOCTOR_MISFIT_NET,
    AMB_DOCTOR_MISFIT_VISIBLE,
    AMB_DOCTOR_MISFIT_RELEASE,
    AMB_DOCTOR_MISFIT_UCX,
    AMB_DOCTOR_MISFITS,
};

/* The broker's side, or a client's. */
struct amb_doctor_side {
    const char *name;                /* a client's */
    const char *release;             /* of libamb; "": not known */
    pid_t pid;                       /* a client's; 0: not known */
    bool is_local;                   /* it is on this machine */
    uint64_t pid_ns, ipc_ns, net_ns; /* by its own word; 0: not known */
    const char *visible; /* of a client that uses GPUs: Peer.visible_devices; else NULL */
    uint32_t ucx_release, ucx_tx_seg, ucx_rx_seg; /* 0: it has told none */
};

/* The processes that /proc is asked about, and its answers. Zeros: none. */
struct amb_doctor_proc {
    char visible[AMB_DOCTOR_VISIBLE_SIZE]; /* CUDA_VISIBLE_DEVICES of the broker, */
    bool has_visible;                      /* ... if it has any */
    unsigned asked;                        /* processes in `of` */
    unsigned left_out;                     /* clients for which there was no place */
    struct {
        pid_t pid;
        uint64_t pid_ns, ipc_ns, net_ns; /* 0: not known */
    } of[AMB_DOCTOR_ASKED_MAX];
};

struct amb_doctor_clients {
    struct amb_doctor_side own;
    const struct amb_doctor_proc *proc;
    struct {
        unsigned count;
        char name[64], theirs[AMB_DOCTOR_VISIBLE_SIZE];
        const char *why; /* static */
    } misfits[AMB_DOCTOR_MISFITS];
};

/* Notes the process of a client that has not said where it is. False: there is no place for it, and
 * it counts as left out. */
bool amb_doctor_proc_ask(struct amb_doctor_proc *proc, const struct amb_doctor_side *client);
/* Reads /proc about the broker and the processes that are noted, and blocks for that. root: "", or,
 * in tests, a folder that has proc. */
void amb_doctor_proc_read(struct amb_doctor_proc *proc, const char *root);

/* proc and the texts of `own` must live as long as clients. */
void amb_doctor_clients_init(struct amb_doctor_clients *clients, const struct amb_doctor_proc *proc,
                             const struct amb_doctor_side *own);
void amb_doctor_clients_add(struct amb_doctor_clients *clients,
                            const struct amb_doctor_side *client);
void amb_doctor_clients_rows(const struct amb_doctor_clients *clients, json_t *rows);
