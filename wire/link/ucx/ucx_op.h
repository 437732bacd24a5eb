/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operations under way in UCX, and the list that callbacks leave for the next progress: operations
 * that have settled, links that are broken.
 * Threads: those of the worker (ucx_worker.h). Only this room's files include this.
 */
#pragma once

#include "wire/link/ucx/ucx_state.h"

/* UCX is through with op: its link hears of it from the next amb_ucx_worker_progress. */
void amb_ucx_op_settle(struct amb_ucx_op *op, ucs_status_t status);
/* NULL without memory. */
struct amb_ucx_op *amb_ucx_op_get(struct amb_ucx_link *link, enum amb_ucx_op_kind kind);
void amb_ucx_op_put(struct amb_ucx_op *op);
/* The link is to go down in this or the next progress; the first reason counts. */
void amb_ucx_link_break(struct amb_ucx_link *link, enum amb_status why, const char *text);
