/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is asked of a publisher besides taking messages: whether all is settled, who subscribes, how
 * it stands. Most of it are the calls of amb.h. Threads: any, no lock held. Memory: none.
 */
#pragma once

struct amb_pub;

/* What was put leaves as soon as the window lets it. */
void amb_put_push(struct amb_pub *pub);
