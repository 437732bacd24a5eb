/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stream link: frames on a connected socket of their own, which arrives here after the
 * handshake. Sent with sendmsg straight from the sender's memory, received with readv straight into
 * the receiver's. Large bodies are cut in chunks so that flow values pass between them. Over TLS
 * the same bytes go through wire/tls, and are encrypted from where they lie. Threads and Memory:
 * those of link.h; making: any thread.
 */
#pragma once

#include "wire/link/link.h"

struct amb_tls;

/* The bytes that the kernel may hold for a peer on the same host. Left alone it lets megabytes wait
 * there, which are then read from memory instead of from a cache. A distance to fill, as between
 * hosts, there is not: those connections keep the kernel's own rule. */
#define AMB_STREAM_NEAR_BUFFER (256 << 10)

/* Takes fd (made non-blocking; TCP_NODELAY where it has that, and a send buffer of
 * AMB_STREAM_NEAR_BUFFER where both ends have one address), also on failure. ENOMEM. */
AMB_MUST_CHECK enum amb_status amb_stream_create(int fd, const struct amb_link_events *events,
                                                 void *arg, struct amb_link **out);
/* The same over TLS, whose handshake on fd is done. Takes it, too, also on failure. */
AMB_MUST_CHECK enum amb_status amb_stream_create_tls(int fd, struct amb_tls *tls,
                                                     const struct amb_link_events *events,
                                                     void *arg, struct amb_link **out);
