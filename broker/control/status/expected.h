/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rate that a way could have, to stand beside the one that was measured. It is measured on this
 * machine, told by the kernel, or UCX's own estimate; never a number of ours.
 *
 *   a copy between a ring and memory    copies in this machine's memory, measured
 *   a stream, or ucx, on this machine   a pair of sockets, measured: one thread writes and reads
 *   a stream over TLS, likewise         the pair, and encryption as one core does it, one after
 *                                       the other
 *   a stream to another machine         the speed that the interface tells; over TLS encryption,
 *                                       where that is slower
 *   a ucx link to another machine       UCX's estimate
 *
 * Threads: the control thread. The first question of a broker's life takes some milliseconds.
 * Memory: a buffer for as long.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define AMB_EXPECTED_TEXT_MAX 96u

struct amb_client;

/* Bytes a second of a copy of the link between the client and the broker's memory; 0: nobody says.
 * `by` says what it comes from. ucx_rate: what the link's UCX says, or 0. */
uint64_t amb_expected_rate(const struct amb_client *client, uint64_t ucx_rate,
                           char by[AMB_EXPECTED_TEXT_MAX]);
/* Of copies in memory, and through a pair of sockets, of this machine. */
uint64_t amb_expected_measure_copy(void);
uint64_t amb_expected_measure_socket(void);
/* Of two things that each byte has to go through, one after the other. 0: one has no rate. */
uint64_t amb_expected_both(uint64_t one, uint64_t other);
