/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From a connection to a session: Hello, Challenge, Auth, Welcome. And Attach, by which a second
 * connection becomes the stream link of a session that has none yet.
 * Threads: the control thread.
 */
#pragma once

#include "broker/control/clients/client.h"

void amb_handshake_hello(struct amb_client *client, const Amb__Control__Hello *hello);
/* A client's words about itself, as logs and people may see them: printable ASCII only. */
void amb_copy_printable(char *out, size_t size, const char *in);
/* Keeps the message (client->kept) where its signature takes time. */
void amb_handshake_auth(struct amb_client *client, const Amb__Control__Control *message);
void amb_handshake_attach(struct amb_client *client, uint64_t id,
                          const Amb__Control__Attach *attach);
