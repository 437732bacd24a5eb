/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Publishers come and go, and come again in another session.
 * Threads: as each function says. Memory: freed when it is closed.
 */
#pragma once

#include "client/batch/asking.h"

#include <amb/amb.h>
#include <stdbool.h>

struct amb_conn;
struct amb_pub;

/* As amb_pub_open, options checked. on_asked: it carries requests, and this hears of their
 * fate; or NULL. No lock held. */
enum amb_status amb_pub_open_checked(struct amb_conn *conn, const char *topic,
                                     const struct amb_pub_options *options, amb_asking_fn on_asked,
                                     struct amb_pub **out);
/* Takes it out of the connection: settles the rest with `why`, closes it at the broker. Waits for
 * memory of the user that the link still reads. Lock held, may be given up meanwhile. */
void amb_pub_detach(struct amb_pub *pub, enum amb_status why);
/* Are there publishers, closed without waiting, of which the broker does not have all batches yet?
 * A Bye would overtake those. */
bool amb_pubs_are_closing(const struct amb_conn *conn);
/* Opens it again in another session, under its handle. Connection's lock held. */
void amb_pub_resume(struct amb_pub *pub);
