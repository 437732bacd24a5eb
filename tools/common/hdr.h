/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A histogram of high dynamic range, in the layout of HdrHistogram with three significant digits.
 * It holds every value from 1 ns to more than an hour in memory of a fixed size. Any percentile of
 * any number of samples is exact to 0.1 %.
 *
 *     counts: | 2048 values one by one | 1024 steps of 2 | 1024 steps of 4 | ... up to 2^42
 *
 * Debian 12 has no package of HdrHistogram for C (it comes with 13), and this one has to live in
 * memory that processes share.
 *
 * Threads: one writer; others read once it has ended. Memory: the caller's; zeroed is empty.
 */
#pragma once

#include <stdint.h>

#define AMB_HDR_HALF 1024u /* steps of each power of two: 1 / 1024 is better than three digits */
#define AMB_HDR_BITS 42u   /* values beyond are counted as the largest */
#define AMB_HDR_COUNTS ((AMB_HDR_BITS - 9u) * AMB_HDR_HALF)

struct amb_hdr {
    uint64_t total;
    int64_t min, max; /* exact; 0 without samples */
    double sum;
    uint64_t counts[AMB_HDR_COUNTS];
};

/* Negative values count as 0. */
void amb_hdr_record(struct amb_hdr *hdr, int64_t value);
/* Adds the samples of another. */
void amb_hdr_add(struct amb_hdr *hdr, const struct amb_hdr *other);
/* The smallest value that at least `fraction` (0 to 1) of the samples do not exceed, by nearest
 * rank. It is the top of its step, as HdrHistogram says it. 0 without samples. */
int64_t amb_hdr_percentile(const struct amb_hdr *hdr, double fraction);
double amb_hdr_mean(const struct amb_hdr *hdr);
