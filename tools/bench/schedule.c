/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/bench/schedule.h"

int64_t amb_schedule_ns(double messages, double rate)
{
    double ns = messages / rate * 1e9;
    /* Also of what is infinite, or no number. */
    return ns < (double)AMB_SCHEDULE_MAX_NS ? (int64_t)ns : AMB_SCHEDULE_MAX_NS;
}
