/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/doctor/doctor_files.h"

#include "broker/control/clients/control.h"
#include "broker/doctor/doctor_cpu.h"
#include "broker/doctor/doctor_machine.h"
#include "broker/doctor/doctor_service.h"
#include "broker/doctor/doctor_tls.h"
#include "broker/doctor/doctor_users.h"
#include "wire/base/assert.h"
#include "wire/base/list.h"
#include "wire/doctor/checks.h"
#include "wire/doctor/host.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#define NUMBER_MAX 24u

enum look_state {
    LOOKING,
    SEEN, /* its mail comes; the asker frees it */
    LEFT, /* nobody waits any more; its thread frees it */
};

struct amb_doctor_look {
    struct amb_mail mail;
    struct amb_inbox *to;
    amb_mail_fn done;
    void *context;
    _Atomic int state; /* enum look_state: its thread or the asker moves it on, once */
    pthread_t thread;
    bool is_joined;
    struct amb_doctor_files files;
    struct amb_doctor_socket sockets[AMB_LISTENERS_MAX];
    char paths[AMB_LISTENERS_MAX][sizeof(((struct amb_url *)NULL)->path)];
    struct amb_ucx_places places;
    struct amb_ucx_libraries found;
    char ucx_why[AMB_DOCTOR_UCX_WHY_MAX];
    json_t *rows;
};

/* A thread that hangs outlives its broker: the count is the process's. */
static _Atomic unsigned looks;

static void look_free(struct amb_doctor_look *look)
{
    json_decref(look->rows);
    amb_auth_users_unref(&look->files.users);
    amb_config_unref(&look->files.config);
    free(look);
    atomic_fetch_sub_explicit(&looks, 1, memory_order_relaxed);
}

/* Files of /proc and /sys. The workers of a broker that runs have been counted. */
static void look_at_machine(const struct amb_doctor_files *files, json_t *rows)
{
    const struct amb_config *config = files->config;
    const struct amb_doctor_machine machine = {.root = files->host.root,
                                               .trusted = config->transports.trusted.items,
                                               .trusted_count = config->transports.trusted.count,
                                               .has_rdma = files->host.has_rdma,
                                               .connections = config->server.max_connections,
                                               .memory_bytes = config->memory.host.size};
    const struct amb_doctor_cpu cpu = {
        .root = files->host.root, .workers = files->workers, .now_ns = amb_clock_monotonic_ns};
    amb_doctor_machine(&machine, rows);
    amb_doctor_cpu(&cpu, rows);
    if (config->transports.trusted.count != 0) {
        amb_doctor_variables(files->host.root, rows);
    }
}

static void look_at_host(struct amb_doctor_look *look)
{
    if (look->files.places != NULL) {
        amb_ucx_libraries_find(look->files.places, &look->found);
    }
    look->files.host.found = &look->found;
    amb_doctor_host(&look->files.host, look->rows);
}

static void *look_main(void *arg)
{
    struct amb_doctor_look *look = arg;
    const struct amb_doctor_files *files = &look->files;
    const struct amb_config *config = files->config;
    (void)pthread_setname_np(pthread_self(), "amb-doctor");
    look_at_machine(files, look->rows);
    amb_doctor_proc_read(&look->files.proc, files->host.root);
    amb_doctor_doors(config, files->sockets, files->count, look->rows);
    amb_doctor_config_file(config->file, config->file_ns, look->rows);
    amb_doctor_tls(config->tls.context, files->now_s, look->rows);
    amb_doctor_users(files->users, config->auth.users_file, files->now_s, look->rows);
    look_at_host(look);
    int state = LOOKING;
    if (atomic_compare_exchange_strong(&look->state, &state, SEEN)) {
        amb_mail_post(look->to, &look->mail, look->done); /* It is the asker's from here. */
    } else {
        look_free(look);
    }
    return NULL;
}

/* False: AMB_DOCTOR_LOOKS_MAX are under way. */
static bool take_place(void)
{
    if (atomic_fetch_add_explicit(&looks, 1, memory_order_relaxed) < AMB_DOCTOR_LOOKS_MAX) {
        return true;
    }
    atomic_fetch_sub_explicit(&looks, 1, memory_order_relaxed);
    return false;
}

static void copy_sockets(struct amb_doctor_look *look)
{
    for (size_t i = 0; i < look->files.count; i++) {
        const struct amb_doctor_socket *socket = &look->files.sockets[i];
        (void)snprintf(look->paths[i], sizeof(look->paths[i]), "%s", socket->path);
        look->sockets[i] = (struct amb_doctor_socket){look->paths[i], socket->inode};
    }
    look->files.sockets = look->sockets;
}

/* Texts of the asker, which may go before a look that hangs. */
static void copy_host(struct amb_doctor_look *look)
{
    struct amb_doctor_files *files = &look->files;
    if (files->places != NULL) {
        look->places = *files->places;
        files->places = &look->places;
    }
    if (files->host.ucx_why != NULL) {
        (void)snprintf(look->ucx_why, sizeof(look->ucx_why), "%s", files->host.ucx_why);
        files->host.ucx_why = look->ucx_why;
    }
}

struct amb_doctor_look *amb_doctor_look_begin(const struct amb_doctor_files *files,
                                              struct amb_inbox *to, amb_mail_fn done, void *context)
{
    amb_assert(files->count <= AMB_LISTENERS_MAX);
    if (!take_place()) {
        return NULL;
    }
    struct amb_doctor_look *look = calloc(1, sizeof(*look));
    json_t *rows = json_array();
    if (look == NULL || rows == NULL) {
        free(look);
        json_decref(rows);
        atomic_fetch_sub_explicit(&looks, 1, memory_order_relaxed);
        return NULL;
    }
    look->to = to;
    look->done = done;
    look->context = context;
    look->files = *files;
    look->files.config = amb_config_ref(files->config);
    look->files.users = amb_auth_users_ref(files->users);
    look->rows = rows;
    copy_sockets(look);
    copy_host(look);
    if (pthread_create(&look->thread, NULL, look_main, look) != 0) {
        look_free(look);
        return NULL;
    }
    return look;
}

/* The thread of a look that has posted its mail, and so ends at once. */
static void look_join(struct amb_doctor_look *look)
{
    if (!look->is_joined) {
        (void)pthread_join(look->thread, NULL);
        look->is_joined = true;
    }
}

void *amb_doctor_look_take(struct amb_mail *mail, json_t **rows, struct amb_doctor_proc *proc)
{
    struct amb_doctor_look *look = AMB_CONTAINER_OF(mail, struct amb_doctor_look, mail);
    void *context = look->context;
    look_join(look);
    *rows = look->rows;
    *proc = look->files.proc;
    look->rows = NULL;
    look_free(look);
    return context;
}

bool amb_doctor_look_leave(struct amb_doctor_look *look)
{
    const pthread_t thread = look->thread; /* The look may be freed at once. */
    int state = LOOKING;
    bool is_left = atomic_compare_exchange_strong(&look->state, &state, LEFT);
    if (is_left) {
        (void)pthread_detach(thread);
    } else {
        look_join(look);
    }
    return is_left;
}

void amb_doctor_look_missing(json_t *rows)
{
    char count[NUMBER_MAX];
    (void)snprintf(count, sizeof(count), "%u", atomic_load_explicit(&looks, memory_order_relaxed));
    amb_doctor_find(rows, AMB_DOCTOR_FILES_SILENT, "count", count, NULL);
}
