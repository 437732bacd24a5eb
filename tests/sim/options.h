/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The command line of the simulator, for its program and for that with planted faults.
 * Threads: one. Memory: none.
 */
#pragma once

/* Returns the process's exit status. */
int sim_main(int argc, char **argv);
