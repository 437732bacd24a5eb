/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Why a client has no better way than it has: its link, RDMA, memory of GPUs. The same sentences
 * stand in broker-ctl's tables, and in the refusals of what a client or a topic demands.
 *
 * Threads: the control thread. Memory: none; sentences of at most AMB_WHY_MAX - 1 bytes.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#define AMB_WHY_MAX 192u /* an error's text has room for it, and for what is demanded */

struct amb_client;
struct amb_control;

/* Is its process on the broker's machine? By the kernel's number, or by its address. */
bool amb_why_is_near(const struct amb_client *client);
/* Why its link is not a better one; "": there is none. lanes: of that link, or NULL. */
void amb_why_link(const struct amb_client *client, const char *lanes, char out[AMB_WHY_MAX]);
/* Why ucx links have no RDMA here; static; NULL: they may. */
const char *amb_why_no_rdma(const struct amb_control *control);
/* Why no lane of its ucx link reaches GPU memory. */
const char *amb_why_no_gpu_lane(const struct amb_client *client);
/* Why the client does not reach the broker's GPU memory from a GPU; NULL: it may. */
const char *amb_why_no_nvlink(const struct amb_client *client);
