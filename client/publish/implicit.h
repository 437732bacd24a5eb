/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Publishers that nobody opened: those of amb_publish and of requests. One per topic and use, the
 * last ones used are kept.
 * Threads: any; the table has a lock of its own, taken before any other.
 */
#pragma once

#include "client/batch/asking.h"

#include <amb/amb.h>
#include <stdbool.h>

struct amb_conn;
struct amb_pub;
struct amb_implicit_entry;

/* The publisher for the topic, opened if need be, and kept until it is given back. on_asked: it
 * carries requests, see amb_pub_open_checked; or NULL. Errors of amb_pub_open. */
enum amb_status amb_implicit_take(struct amb_conn *conn, const char *topic, amb_asking_fn on_asked,
                                  struct amb_implicit_entry **out);
void amb_implicit_give(struct amb_conn *conn, struct amb_implicit_entry *entry);
struct amb_pub *amb_implicit_pub(const struct amb_implicit_entry *entry);

enum amb_status amb_implicit_init(struct amb_conn *conn);
/* Frees the table; the publishers are gone already. */
void amb_implicit_fini(struct amb_conn *conn);
/* Makes a publisher handle free by closing the one used least. False: there is none. */
bool amb_implicit_evict(struct amb_conn *conn);
