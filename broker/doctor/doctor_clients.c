/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/doctor/doctor_clients.h"

#include "wire/doctor/checks.h"
#include "wire/doctor/host.h"
#include "wire/link/ucxlib/ucx_release.h"

#include <stdio.h>
#include <string.h>

/* ---- the answers of /proc ---- */

/* /proc is to be asked about it. */
static bool is_silent(const struct amb_doctor_side *client)
{
    return client->is_local && client->pid > 0 &&
           (client->pid_ns == 0 || client->ipc_ns == 0 || client->net_ns == 0);
}

/* Returns proc->asked where nobody has asked about it. */
static unsigned place_of(const struct amb_doctor_proc *proc, pid_t pid)
{
    unsigned at = 0;
    while (at < proc->asked && proc->of[at].pid != pid) {
        at++;
    }
    return at;
}

bool amb_doctor_proc_ask(struct amb_doctor_proc *proc, const struct amb_doctor_side *client)
{
    if (!is_silent(client) || place_of(proc, client->pid) < proc->asked) {
        return true;
    }
    if (proc->asked == AMB_DOCTOR_ASKED_MAX) {
        proc->left_out++;
        return false;
    }
    proc->of[proc->asked++].pid = client->pid;
    return true;
}

void amb_doctor_proc_read(struct amb_doctor_proc *proc, const char *root)
{
    proc->has_visible = amb_doctor_environment(root, "CUDA_VISIBLE_DEVICES", proc->visible,
                                               sizeof(proc->visible)) == AMB_DOCTOR_SET;
    for (unsigned i = 0; i < proc->asked; i++) {
        proc->of[i].pid_ns = amb_doctor_namespace(root, proc->of[i].pid, "pid");
        proc->of[i].ipc_ns = amb_doctor_namespace(root, proc->of[i].pid, "ipc");
        proc->of[i].net_ns = amb_doctor_namespace(root, proc->of[i].pid, "net");
    }
}

/* ---- comparisons ---- */

void amb_doctor_clients_init(struct amb_doctor_clients *clients, const struct amb_doctor_proc *proc,
                             const struct amb_doctor_side *own)
{
    memset(clients, 0, sizeof(*clients));
    clients->proc = proc;
    clients->own = *own;
}

static void note(struct amb_doctor_clients *clients, enum amb_doctor_misfit misfit,
                 const struct amb_doctor_side *client, const char *theirs, const char *why)
{
    if (clients->misfits[misfit].count++ == 0) {
        (void)snprintf(clients->misfits[misfit].name, sizeof(clients->misfits[misfit].name), "%s",
                       client->name);
        (void)snprintf(clients->misfits[misfit].theirs, sizeof(clients->misfits[misfit].theirs),
                       "%s", theirs);
        clients->misfits[misfit].why = why;
    }
}

/* said: the client's own word; by_proc: that of /proc. 0: not known. */
static void compare_namespace(struct amb_doctor_clients *clients, enum amb_doctor_misfit misfit,
                              const struct amb_doctor_side *client, uint64_t own, uint64_t said,
                              uint64_t by_proc)
{
    uint64_t theirs = said != 0 ? said : by_proc;
    if (own != 0 && theirs != 0 && own != theirs) {
        note(clients, misfit, client, "", "");
    }
}

static void compare_namespaces(struct amb_doctor_clients *clients,
                               const struct amb_doctor_side *client)
{
    const struct amb_doctor_side *own = &clients->own;
    const struct amb_doctor_proc *proc = clients->proc;
    unsigned at = client->pid > 0 ? place_of(proc, client->pid) : proc->asked;
    bool is_asked = at < proc->asked;
    compare_namespace(clients, AMB_DOCTOR_MISFIT_PID, client, own->pid_ns, client->pid_ns,
                      is_asked ? proc->of[at].pid_ns : 0);
    compare_namespace(clients, AMB_DOCTOR_MISFIT_IPC, client, own->ipc_ns, client->ipc_ns,
                      is_asked ? proc->of[at].ipc_ns : 0);
    compare_namespace(clients, AMB_DOCTOR_MISFIT_NET, client, own->net_ns, client->net_ns,
                      is_asked ? proc->of[at].net_ns : 0);
}

/* A broker that sees all GPUs has what a client sees. */
static void compare_visible(struct amb_doctor_clients *clients,
                            const struct amb_doctor_side *client)
{
    const char *theirs = client->visible;
    if (!clients->proc->has_visible || theirs == NULL || theirs[0] == '\0') {
        return;
    }
    bool is_set = theirs[0] == '=';
    if (!is_set || strcmp(theirs + 1, clients->proc->visible) != 0) {
        note(clients, AMB_DOCTOR_MISFIT_VISIBLE, client, is_set ? theirs + 1 : "(unset)", "");
    }
}

/* "1.4" of "1.4.2": the part that must be the same. Returns its length; 0: it is no release. */
static size_t minor_of(const char *release)
{
    size_t major = strspn(release, "0123456789");
    if (major == 0 || release[major] != '.') {
        return 0;
    }
    size_t minor = strspn(release + major + 1, "0123456789");
    return minor == 0 ? 0 : major + 1 + minor;
}

static void compare_release(struct amb_doctor_clients *clients,
                            const struct amb_doctor_side *client)
{
    size_t own = minor_of(clients->own.release), theirs = minor_of(client->release);
    if (own != 0 && theirs != 0 &&
        (own != theirs || memcmp(clients->own.release, client->release, own) != 0)) {
        note(clients, AMB_DOCTOR_MISFIT_RELEASE, client, client->release, "");
    }
}

static void compare_ucx(struct amb_doctor_clients *clients, const struct amb_doctor_side *client)
{
    char release[AMB_UCX_RELEASE_TEXT_MAX];
    const struct amb_doctor_side *own = &clients->own;
    const char *why = NULL;
    if (own->ucx_release == 0 || client->ucx_release == 0 ||
        amb_ucx_compatible(own->ucx_release, own->ucx_tx_seg, own->ucx_rx_seg, client->ucx_release,
                           client->ucx_tx_seg, client->ucx_rx_seg, &why)) {
        return;
    }
    note(clients, AMB_DOCTOR_MISFIT_UCX, client,
         amb_ucx_release_text(client->ucx_release, release, sizeof(release)), why);
}

void amb_doctor_clients_add(struct amb_doctor_clients *clients,
                            const struct amb_doctor_side *client)
{
    if (client->is_local) {
        compare_namespaces(clients, client);
    }
    compare_visible(clients, client);
    compare_release(clients, client);
    compare_ucx(clients, client);
}

static void left_out_row(const struct amb_doctor_proc *proc, json_t *rows)
{
    char count[24], places[24];
    if (proc->left_out > 0) {
        (void)snprintf(count, sizeof(count), "%u", proc->left_out);
        (void)snprintf(places, sizeof(places), "%u", AMB_DOCTOR_ASKED_MAX);
        amb_doctor_find(rows, AMB_DOCTOR_CLIENTS_LEFT_OUT, "count", count, "places", places, NULL);
    }
}

void amb_doctor_clients_rows(const struct amb_doctor_clients *clients, json_t *rows)
{
    static const enum amb_doctor_check checks[] = {
        [AMB_DOCTOR_MISFIT_PID] = AMB_DOCTOR_CLIENT_PID,
        [AMB_DOCTOR_MISFIT_IPC] = AMB_DOCTOR_CLIENT_IPC,
        [AMB_DOCTOR_MISFIT_NET] = AMB_DOCTOR_CLIENT_NET,
        [AMB_DOCTOR_MISFIT_VISIBLE] = AMB_DOCTOR_GPU_VISIBLE,
        [AMB_DOCTOR_MISFIT_RELEASE] = AMB_DOCTOR_CLIENT_RELEASE,
        [AMB_DOCTOR_MISFIT_UCX] = AMB_DOCTOR_UCX_RELEASES};
    char ucx[AMB_UCX_RELEASE_TEXT_MAX], more[32];
    (void)amb_ucx_release_text(clients->own.ucx_release, ucx, sizeof(ucx));
    for (unsigned i = 0; i < AMB_DOCTOR_MISFITS; i++) {
        unsigned count = clients->misfits[i].count;
        if (count == 0) {
            continue;
        }
        const char *own = i == AMB_DOCTOR_MISFIT_UCX       ? ucx
                          : i == AMB_DOCTOR_MISFIT_VISIBLE ? clients->proc->visible
                                                           : clients->own.release;
        more[0] = '\0';
        if (count > 1) {
            (void)snprintf(more, sizeof(more), " (and %u more)", count - 1);
        }
        amb_doctor_find(rows, checks[i], "name", clients->misfits[i].name, "more", more, "theirs",
                        clients->misfits[i].theirs, "own", own, "why", clients->misfits[i].why,
                        NULL);
    }
    left_out_row(clients->proc, rows);
}
