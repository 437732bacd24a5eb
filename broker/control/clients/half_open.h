/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Half-open connections have not said who they are: clients, and connections in a handshake of TLS.
 * A crowd of them comes from one address, or on the Unix socket from one uid. Where there are too
 * many, the largest crowd of all loses one.
 *
 * The door lets in at most AMB_HALF_OPEN_MAX of them, and the table has as many crowds. So there is
 * room for the crowd of each.
 *
 * Threads: the control thread. Memory: the table, made at the start.
 */
#pragma once

#include "broker/tls/crowds.h"

struct amb_client;
struct amb_handshake_way;

struct amb_half_open {
    uint32_t clients;    /* also those of no crowd: the door has not named their address */
    uint32_t handshakes; /* under way, and not given up */
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
/* Clients and handshakes. */
uint32_t amb_half_open_count(const struct amb_half_open *half_open);

/* Puts a client that is counted into the crowd of that address, or of its uid, which is set. */
void amb_half_open_place(struct amb_client *client, const struct sockaddr_storage *from);
/* It has said who it is, or has ended. */
void amb_half_open_leave(struct amb_client *client);

/* Counts a handshake that begins, and puts it into the crowd of its address. */
void amb_half_open_place_handshake(struct amb_half_open *half_open, struct amb_handshake_way *way);
/* Its connection has ended, or is given up. Harmless twice. */
void amb_half_open_leave_handshake(struct amb_half_open *half_open, struct amb_handshake_way *way);
/* The handshake is done, and its connection is this client's. It stays in its crowd, as old as it
 * was. */
void amb_half_open_take_over(struct amb_client *client, struct amb_handshake_way *way);

/* The next one to go where there are too many. */
struct amb_half_open_one amb_half_open_next(const struct amb_half_open *half_open);
