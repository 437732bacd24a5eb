/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/base/spin.h"

void amb_spin_judge(struct amb_spin *spin, bool is_late, int64_t now_ns)
{
    if (!is_late) {
        spin->late -= (spin->late + AMB_SPIN_WEIGHT - 1) / AMB_SPIN_WEIGHT; /* It ends at 0. */
        if (spin->late < AMB_SPIN_FREE) {
            spin->crowd_ns = 0;
        }
        return;
    }
    spin->late += (AMB_SPIN_ONE - spin->late) / AMB_SPIN_WEIGHT;
    if (spin->late <= AMB_SPIN_CROWD) {
        return;
    }
    spin->late = AMB_SPIN_TRIAL;
    int64_t next_ns = spin->crowd_ns == 0 ? AMB_SPIN_CROWD_MIN_NS : spin->crowd_ns * 2;
    spin->crowd_ns = next_ns < AMB_SPIN_CROWD_MAX_NS ? next_ns : AMB_SPIN_CROWD_MAX_NS;
    spin->crowded_until_ns = amb_deadline_ns(now_ns, spin->crowd_ns);
}
