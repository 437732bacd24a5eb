/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The things that a worker's progress hands on to its links.
 * Threads: those of the worker (ucx_worker.h). Only this room's files include this.
 */
#pragma once

struct amb_ucx_link;
struct amb_ucx_op;

/* Tells the owner what has become of op, frees op, and the link if that was its end. */
void amb_ucx_link_settled(struct amb_ucx_op *op);
/* Ends a broken link and tells the owner. */
void amb_ucx_link_down(struct amb_ucx_link *link);
