/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connections that have not said who they are: clients, and those in a handshake of TLS. A crowd of
 * them comes from one address, or on the Unix socket from one uid. Where there are too many, the
 * largest crowd of all loses one.
 *
 * Threads: the control thread. Memory: a table, made at the start.
 */
#pragma once

#include "broker/tls/crowds.h"

struct amb_client;
struct amb_handshake_way;

struct amb_half_open {
    uint32_t clients; /* also those of no crowd: the door has not named their address */
    uint32_t shaking; /* in a handshake, and not given up */
    struct amb_crowds crowds;
};

/* The connection that goes: one of the two, or neither. */
struct amb_half_open_one {
    struct amb_client *client;
    struct amb_handshake_way *way;
};

AMB_MUST_CHECK enum amb_status amb_half_open_init(struct amb_half_open *half_open);
/* Harmless twice, and on zeros. */
void amb_half_open_fini(struct amb_half_open *half_open);
/* All of them. */
uint32_t amb_half_open_count(const struct amb_half_open *half_open);

/* A client that is counted comes from there; its uid is set. False: there are too many crowds. */
AMB_MUST_CHECK bool amb_half_open_place(struct amb_client *client,
                                        const struct sockaddr_storage *from);
/* It has said who it is, or has ended. */
void amb_half_open_leave(struct amb_client *client);

/* One more is in a handshake. False: as above. */
AMB_MUST_CHECK bool amb_half_open_shake(struct amb_half_open *half_open,
                                        struct amb_handshake_way *way);
/* It is through its handshake, has ended, or is given up. Harmless twice. */
void amb_half_open_leave_shaking(struct amb_half_open *half_open, struct amb_handshake_way *way);
/* It is through, and this client's connection: which is as old as it was. */
void amb_half_open_take_place(struct amb_client *client, struct amb_handshake_way *way);

/* The one that goes where there are too many. */
struct amb_half_open_one amb_half_open_next(const struct amb_half_open *half_open);
