/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/base/spin.h"

void amb_spin_judge(struct amb_spin *spin, bool is_late, int64_t now_ns)
{
    if (!is_late) {
        spin->late = 0;
        if (spin->crowd_ns != 0 && ++spin->in_time >= AMB_SPIN_IN_TIME_MANY) {
            spin->crowd_ns = 0;
        }
        return;
    }
    spin->in_time = 0;
    if (spin->crowd_ns == 0 && ++spin->late < AMB_SPIN_LATE_MANY) {
        return;
    }
    spin->late = 0;
    int64_t next_ns = spin->crowd_ns == 0 ? AMB_SPIN_CROWD_MIN_NS : spin->crowd_ns * 2;
    spin->crowd_ns = next_ns < AMB_SPIN_CROWD_MAX_NS ? next_ns : AMB_SPIN_CROWD_MAX_NS;
    spin->crowded_until_ns = amb_deadline_ns(now_ns, spin->crowd_ns);
}
