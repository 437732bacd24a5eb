/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The session of a client, as the control thread knows it: the orders to its worker, to the end of
 * its quarantine. The order that opens it is in requests/handshake.c. The session of a client that
 * has ended while OPENING is closed here, too. broker/worker/session_life.h is the other side. A
 * client is held while orders of it are under way.
 *
 * Threads: the control thread. Memory: its end needs none: that order was made with the session.
 */
#pragma once

struct amb_client;
struct amb_control;

/* Tells the worker that the session may hold more in place, if its share has grown. */
void amb_client_raise_mapped(struct amb_client *client);
/* The same for all sessions of users of whom less is in quarantine since the last call. So the end
 * of very many clients at once is one walk a round. */
void amb_client_raise_fallen(struct amb_control *control);
/* Has the worker close the session of a client that has ended. */
void amb_client_close_session(struct amb_client *client);
/* Its process has ended: so does its quarantine, whatever else of it is under way. */
void amb_client_end_quarantine(struct amb_client *client);
/* The broker ends: a quarantine that waits for the client's process is over. */
void amb_client_give_up(struct amb_client *client);
/* An order for the client is under way, and has been answered. */
void amb_client_hold(struct amb_client *client);
void amb_client_release(struct amb_client *client);
