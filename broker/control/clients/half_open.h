/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connections that have not said who they are. A crowd of them comes from one address, or on the
 * Unix socket from one uid. Where there are too many, the largest crowd loses one.
 * Those that have failed and wait to be told go before all others.
 *
 * Threads: the control thread. Memory: two tables, made at the start.
 */
#pragma once

#include "broker/tls/crowds.h"

struct amb_client;

struct amb_half_open {
    uint32_t count; /* all, also those of no crowd: the door has not named their address */
    struct amb_crowds hopeful, refused;
};

AMB_MUST_CHECK enum amb_status amb_half_open_init(struct amb_half_open *half_open);
/* Harmless twice, and on zeros. */
void amb_half_open_fini(struct amb_half_open *half_open);
/* One that is counted comes from there; its uid is set. False: there are too many crowds. */
AMB_MUST_CHECK bool amb_half_open_place(struct amb_client *client,
                                        const struct sockaddr_storage *from);
/* It has failed, and waits to be told. */
void amb_half_open_refuse(struct amb_client *client);
/* It has said who it is, or has ended. */
void amb_half_open_leave(struct amb_client *client);
/* Is there one that has failed? */
bool amb_half_open_has_refused(const struct amb_half_open *half_open);
/* The one that goes where there are too many; NULL: there is none. */
struct amb_client *amb_half_open_next(const struct amb_half_open *half_open);
