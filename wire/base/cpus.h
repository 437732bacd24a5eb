/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The processors of this machine: sets of them, lists as people write them ("0-3,8"), and how many
 * of them this process may use. Two things limit that: its affinity mask, and the quotas of its
 * control groups, which a container is given in place of a mask.
 *
 * Threads: any. Memory: the caller's; the files are read into the stack.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define AMB_CPUS_MAX 8192u /* as many as Linux can have */

struct amb_cpus {
    uint64_t bits[AMB_CPUS_MAX / 64];
};

static inline bool amb_cpus_has(const struct amb_cpus *cpus, unsigned cpu)
{
    return cpu < AMB_CPUS_MAX && (cpus->bits[cpu / 64] >> cpu % 64 & 1) != 0;
}

static inline void amb_cpus_add(struct amb_cpus *cpus, unsigned cpu)
{
    cpus->bits[cpu / 64] |= UINT64_C(1) << cpu % 64;
}

unsigned amb_cpus_count(const struct amb_cpus *cpus);
/* Those that the calling thread may run on. False: the kernel does not tell; none then. */
bool amb_cpus_allowed(struct amb_cpus *out);
/* Binds the calling thread to one. False: it may not run there. */
bool amb_cpus_bind(unsigned cpu);
/* How many this process can keep busy at a time, at least 1. It is the number of those that the
 * calling thread may run on, or a control group's quota, rounded down, if that is less. Reads
 * files: for starts alone. */
unsigned amb_cpus_usable(void);
/* How many there are for this process and its peers, at least 1. It is the number of those online,
 * or a control group's quota, rounded up, if that is less. The mask of the calling thread does not
 * count: a peer may run elsewhere. Reads files, as above. */
unsigned amb_cpus_around(void);

#define AMB_CPUS_ONE 1000u /* shares are in thousandths of a processor */
/* The share that the quotas of the control groups leave, at least 1; UINT_MAX: no quota.
 * groups is the text of /proc/self/cgroup, root the folder of the control groups. */
unsigned amb_cpus_quota(const char *groups, const char *root);
/* The processors of a share: those that it is enough for, at least 1, and those that it begins. */
static inline unsigned amb_cpus_whole(unsigned share)
{
    return share < AMB_CPUS_ONE ? 1 : share / AMB_CPUS_ONE;
}
static inline unsigned amb_cpus_begun(unsigned share)
{
    return share / AMB_CPUS_ONE + (share % AMB_CPUS_ONE != 0);
}

/* How many a list of the kernel's has, "0-3,8\n"; 0: it is none. */
unsigned amb_cpus_listed(const char *text);

/*
 * "0-3,8" into out, in that order, at most `max`. Returns NULL, or the fault as a static text. A
 * processor that is there twice is one.
 */
const char *amb_cpus_parse(const char *text, uint16_t *out, unsigned max, unsigned *count);
/* The list of a set. A text that is too long ends in "...". Returns out. size: at least 4. */
const char *amb_cpus_format(const struct amb_cpus *cpus, char *out, size_t size);
