/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the two files of a client share: client.c is its life, client_io.c its connection.
 *
 * Threads: the control thread.
 */
#pragma once

#include "broker/client.h"

/* Requests of one client under way: past it, it is not read until half of them are answered, so
 * that nobody piles up work for a worker faster than it is done. */
#define AMB_CLIENT_WORK_MAX 64u

/* The connection's events. */
void amb_client_on_events(struct amb_watch *watch, uint32_t events);
/* So many bytes have come, no more than its reader wants. False: nothing more is read now, or it
 * has ended. */
bool amb_client_take(struct amb_client *client, const uint8_t *bytes, size_t len);
/* Has epoll report what is of interest now: is_paused or what is to be sent has changed. */
void amb_client_rewatch(struct amb_client *client);
/* Drops what was not sent, and a descriptor that nobody took. Harmless twice. */
void amb_client_close_connection(struct amb_client *client);
