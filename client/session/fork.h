/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The list of connections that a fork looks at.
 * Threads: any; a lock of its own, below all others. Memory: none.
 */
#pragma once

struct amb_conn;

/* The child of a fork finds it, and closes its copies of the descriptors. */
void amb_fork_register(struct amb_conn *conn);
/* Before its memory goes. */
void amb_fork_unregister(struct amb_conn *conn);
