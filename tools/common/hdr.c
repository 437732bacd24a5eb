/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/common/hdr.h"

#include "wire/base/assert.h"

#include <math.h>

#define HALF_BITS 10u
_Static_assert(AMB_HDR_HALF == 1u << HALF_BITS, "steps");

/* How many powers of two the value lies above those that are counted one by one. */
static unsigned shift_of(uint64_t value)
{
    unsigned bits = 64u - (unsigned)__builtin_clzll(value | 1);
    return bits > HALF_BITS + 1 ? bits - HALF_BITS - 1 : 0;
}

static unsigned index_of(uint64_t value)
{
    unsigned shift = shift_of(value);
    /* Shifted, a value above the first 2048 is 1024 to 2047: its own half begins at 1024. */
    return shift * AMB_HDR_HALF + (unsigned)(value >> shift);
}

/* The largest value that is counted there. */
static int64_t top_of(unsigned index)
{
    if (index < 2 * AMB_HDR_HALF) {
        return (int64_t)index;
    }
    unsigned shift = index / AMB_HDR_HALF - 1;
    uint64_t step = index - shift * AMB_HDR_HALF;
    return (int64_t)(((step + 1) << shift) - 1);
}

void amb_hdr_record(struct amb_hdr *hdr, int64_t value)
{
    const int64_t limit = (INT64_C(1) << AMB_HDR_BITS) - 1;
    value = value < 0 ? 0 : value > limit ? limit : value;
    unsigned index = index_of((uint64_t)value);
    amb_assert(index < AMB_HDR_COUNTS);
    if (hdr->total == 0 || value < hdr->min) {
        hdr->min = value;
    }
    if (value > hdr->max) {
        hdr->max = value;
    }
    hdr->sum += (double)value;
    hdr->counts[index]++;
    hdr->total++;
}

void amb_hdr_add(struct amb_hdr *hdr, const struct amb_hdr *other)
{
    if (other->total == 0) {
        return;
    }
    if (hdr->total == 0 || other->min < hdr->min) {
        hdr->min = other->min;
    }
    if (other->max > hdr->max) {
        hdr->max = other->max;
    }
    hdr->sum += other->sum;
    hdr->total += other->total;
    for (unsigned i = 0; i < AMB_HDR_COUNTS; i++) {
        hdr->counts[i] += other->counts[i];
    }
}

int64_t amb_hdr_percentile(const struct amb_hdr *hdr, double fraction)
{
    if (!(fraction > 0)) {
        return hdr->min;
    }
    double wanted = ceil(fraction * (double)hdr->total);
    uint64_t rank = wanted < 1 ? 1 : (uint64_t)wanted;
    uint64_t seen = 0;
    for (unsigned i = 0; i < AMB_HDR_COUNTS; i++) {
        seen += hdr->counts[i];
        if (seen >= rank) {
            int64_t top = top_of(i);
            return top < hdr->max ? top : hdr->max;
        }
    }
    return hdr->max;
}

double amb_hdr_mean(const struct amb_hdr *hdr)
{
    return hdr->total > 0 ? hdr->sum / (double)hdr->total : 0;
}
