/* SPDX-License-Identifier: Apache-2.0 */
/*
 * News of a client: events on topics of the broker (events.h), and notes to the client itself.
 *
 * Threads: the control thread.
 */
#pragma once

struct amb_client;
struct amb_note;

/* It can publish and subscribe from here on: tells those who want to know. */
void amb_client_come(const struct amb_client *client);
/* One of its subscriptions is slow, or has lost something: tells it, and those who want to know. */
void amb_client_note(struct amb_client *client, const struct amb_note *note);
/* It has ended, and was live. */
void amb_client_gone(const struct amb_client *client, const char *why);
