/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The front door: listening sockets, and the acceptance of connections.
 *
 * Acceptance survives the end of descriptors: it pauses and goes on. Half-open connections are
 * limited: where there are too many one of them goes (half_open.h).
 * Threads: the control thread; open and close at start and end.
 */
#pragma once

#include "broker/base/mail.h"
#include "broker/control/clients/control.h"

/*
 * Opens one listener, whose host is no interface any more (config->doors). A stale socket file is
 * removed; one that somebody answers on is EUNREACHABLE. error (may be NULL) then holds a sentence.
 */
AMB_MUST_CHECK enum amb_status amb_door_open(struct amb_control *control, const struct amb_url *url,
                                             char *error, size_t error_size);
/* The socket of one alone: listener->url is set, and the rest zero. Nobody watches it. The fd is
 * set where that fails, too. For other doors than the clients'. */
AMB_MUST_CHECK enum amb_status amb_door_socket(struct amb_listener *listener, char *error,
                                               size_t error_size);
/* The mode and group of a Unix socket that is there. EFORBIDDEN; error then holds a sentence. One
 * thread at a time. */
AMB_MUST_CHECK enum amb_status amb_door_permit(const struct amb_url *url, char *error,
                                               size_t error_size);
/* Removes its socket file, before the fd is closed: what nobody answers on is another's to remove.
 */
void amb_door_remove(struct amb_listener *listener);
/* Mail of a handshaker: a connection that has ended there, or is a client's from here on. */
void amb_door_handshake_over(struct amb_mail *mail, void *owner);
/* Closes all listeners and removes their socket files. Harmless twice. */
void amb_door_close(struct amb_control *control);
/* Accepts again after a pause. */
void amb_door_resume(struct amb_control *control);
/* How many connections the listener at `index` of `count` accepts in a round, so that all together
 * accept `budget`. The remainder goes round. A pure function. */
unsigned amb_door_quota(unsigned budget, unsigned index, unsigned count, uint32_t round);
