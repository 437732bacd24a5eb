/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows of broker-ctl about GPUs: a row of `memory` for each pool, and two columns of `transports`.
 * Threads: the control thread. Memory: JSON, the caller's.
 */
#pragma once

#include <jansson.h>

struct amb_client;
struct amb_control;
struct amb_gpus;

/* Appends a row for each pool. */
void amb_status_gpu_memory(const struct amb_control *control, json_t *rows);
/* "gpu": cuda_ipc, staged, or possible (it has not asked for any); "gpu_why": why not better. */
void amb_status_gpu_client(const struct amb_client *client, json_t *row);
/* Why the broker's UCX is told to do without cuda_ipc; static; NULL: it is not, or has none. */
const char *amb_status_gpu_left_out(const struct amb_control *control);
/* The broker's GPUs; NULL: it has none. */
const struct amb_gpus *amb_status_gpus(const struct amb_control *control);
