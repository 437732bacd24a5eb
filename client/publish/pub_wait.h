/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Questions to a publisher: whether all is settled, how many subscribe, how it stands. Most of them
 * are calls of amb.h.
 *
 * Threads: any, no lock held. Memory: none.
 */
#pragma once

struct amb_pub;

/* The open batch leaves as soon as the window lets it. */
void amb_put_push(struct amb_pub *pub);
