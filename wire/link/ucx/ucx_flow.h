/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Flow values, both ways, and the two words that end a link.
 * Threads: those of the worker (ucx_worker.h). Only this room's files include this.
 */
#pragma once

#include "wire/link/ucx/ucx_state.h"

/* The link's; see link.h. */
void amb_ucx_link_flow(struct amb_link *base, enum amb_flow_kind kind, uint32_t handle,
                       uint64_t value);
/* Sends what is dirty, unless enough is under way. */
void amb_ucx_flow_flush(struct amb_ucx_link *link);
/* Sends one message even if nothing is dirty: UCX connects at the first one. */
void amb_ucx_flow_start(struct amb_ucx_link *link);

/* In place of a flow message's count. */
enum amb_ucx_word {
    AMB_UCX_WORD_BYE = 0x40000001, /* I take and send nothing any more */
    AMB_UCX_WORD_DONE,             /* and nothing of mine is under way */
};

/* Says one of these words to the peer, if there is memory for it. */
void amb_ucx_flow_word(struct amb_ucx_link *link, uint32_t word);
/* UCX's handler; arg is the worker. */
ucs_status_t amb_ucx_am_flow(void *arg, const void *header, size_t header_length, void *data,
                             size_t length, const ucp_am_recv_param_t *param);
