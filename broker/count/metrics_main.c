/* SPDX-License-Identifier: Apache-2.0 */
/* Prints docs/metrics.md. */
#include "broker/count/metrics.h"

int main(void)
{
    amb_metrics_reference(stdout);
    return fflush(stdout) == 0 ? 0 : 1;
}
