/* SPDX-License-Identifier: Apache-2.0 */
/* The simulator's program: see options.c for what it takes. */
#include "tests/sim/options.h"

int main(int argc, char **argv)
{
    return sim_main(argc, argv);
}
