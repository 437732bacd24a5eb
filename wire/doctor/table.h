/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The checks of the doctor: one row of a table for each finding that is not well. brokerd --doctor
 * and broker-ctl doctor find by it, and docs/doctor.md is printed from it.
 *
 * Threads: any. Memory: static.
 */
#pragma once

/* In the order of the page. */
enum amb_doctor_check {
    /* the configuration */
    AMB_DOCTOR_CONFIG_WRONG,
    AMB_DOCTOR_CONFIG_NEWER,
    /* limits and memory */
    AMB_DOCTOR_DESCRIPTORS_SHORT,
    AMB_DOCTOR_DESCRIPTORS_FEW,
    AMB_DOCTOR_MEMLOCK,
    AMB_DOCTOR_MEMORY_RAM,
    AMB_DOCTOR_MEMORY_CGROUP,
    AMB_DOCTOR_ADDRESS_SPACE,
    AMB_DOCTOR_HUGE_PAGES,
    /* processors */
    AMB_DOCTOR_CPU_QUOTA,
    AMB_DOCTOR_CPU_AFFINITY,
    AMB_DOCTOR_CLOCK_SLOW,
    AMB_DOCTOR_CLOCK_FROZEN,
    /* interfaces and RDMA */
    AMB_DOCTOR_INTERFACE_MISSING,
    AMB_DOCTOR_INTERFACE_DOWN,
    AMB_DOCTOR_INTERFACE_SLOW,
    AMB_DOCTOR_INTERFACE_MTU_SMALL,
    AMB_DOCTOR_INTERFACE_MTU,
    AMB_DOCTOR_RDMA_PORT,
    AMB_DOCTOR_RDMA_CLOSED,
    AMB_DOCTOR_RDMA_HIDDEN,
    AMB_DOCTOR_RDMA_DRIVERS,
    AMB_DOCTOR_RDMA_NO_MODULE,
    /* doors and files */
    AMB_DOCTOR_SOCKET_FOLDER,
    AMB_DOCTOR_SOCKET_FOLDER_OPEN,
    AMB_DOCTOR_SOCKET_MODE,
    AMB_DOCTOR_SOCKET_OPEN,
    AMB_DOCTOR_SOCKET_GONE,
    AMB_DOCTOR_TOKEN_FILE,
    AMB_DOCTOR_TCP_OPEN,
    AMB_DOCTOR_TCP_PLAIN,
    AMB_DOCTOR_COUNTERS_PRIVATE,
    AMB_DOCTOR_FILES_SILENT,
    /* UCX */
    AMB_DOCTOR_UCX_MISSING,
    AMB_DOCTOR_UCX_NO_CUDA,
    AMB_DOCTOR_UCX_CUDA_IPC,
    AMB_DOCTOR_UCX_VARIABLES,
    AMB_DOCTOR_UCX_RELEASES,
    /* GPUs */
    AMB_DOCTOR_GPU_HIDDEN,
    AMB_DOCTOR_GPU_CLOSED,
    AMB_DOCTOR_GPU_UNUSED,
    AMB_DOCTOR_GPU_LOST,
    AMB_DOCTOR_GPU_STUCK,
    AMB_DOCTOR_GPU_NO_POOL,
    AMB_DOCTOR_GPU_NO_ROOM,
    AMB_DOCTOR_GPU_FULL,
    AMB_DOCTOR_GPU_NOT_EXPORTED,
    AMB_DOCTOR_GPU_PEERS,
    AMB_DOCTOR_GPU_TRUST,
    AMB_DOCTOR_GPU_USERS,
    AMB_DOCTOR_GPU_MODE,
    AMB_DOCTOR_GPU_VISIBLE,
    AMB_DOCTOR_GPU_MPS,
    AMB_DOCTOR_GPU_MPS_CLOSED,
    AMB_DOCTOR_PEER_MEMORY,
    /* clients */
    AMB_DOCTOR_CLIENT_PID,
    AMB_DOCTOR_CLIENT_IPC,
    AMB_DOCTOR_CLIENT_NET,
    AMB_DOCTOR_CLIENTS_LEFT_OUT,
    AMB_DOCTOR_CLIENT_RELEASE,
    AMB_DOCTOR_CLIENT_TCP,
    AMB_DOCTOR_BROKER_SILENT,
    /* load */
    AMB_DOCTOR_SUBSCRIPTION_SLOW,
    AMB_DOCTOR_SUBSCRIPTION_BEHIND,
    AMB_DOCTOR_MEMORY_FULL,
    AMB_DOCTOR_TOPICS_FULL,
    AMB_DOCTOR_DEAD_LETTERS,
    /* the service */
    AMB_DOCTOR_WATCHDOG,
    /* TLS, users, audit */
    AMB_DOCTOR_TLS_EXPIRED,
    AMB_DOCTOR_TLS_EXPIRES,
    AMB_DOCTOR_TLS_GONE,
    AMB_DOCTOR_TLS_NEWER,
    AMB_DOCTOR_USERS_WRONG,
    AMB_DOCTOR_USERS_GONE,
    AMB_DOCTOR_USERS_MODE,
    AMB_DOCTOR_USERS_NEWER,
    AMB_DOCTOR_USERS_EXPIRE,
    AMB_DOCTOR_AUDIT_STOPPED,
    AMB_DOCTOR_AUDIT_LOST,
    AMB_DOCTOR_CHECKS,
};

enum amb_doctor_state {
    AMB_DOCTOR_OK,
    AMB_DOCTOR_HINT,    /* it works, and could be better */
    AMB_DOCTOR_WARNING, /* it works, and something will not, or is slow */
    AMB_DOCTOR_ERROR,   /* something does not work, or is open to strangers */
};

struct amb_doctor_row {
    const char *id;   /* "memlock"; also its heading on the page */
    const char *name; /* the column `check`, as "interface {name}" */
    enum amb_doctor_state state;
    const char *looked_at;
    const char *finding, *fix; /* sentences; a word in braces stands for a value */
};

const struct amb_doctor_row *amb_doctor_row(enum amb_doctor_check check);
