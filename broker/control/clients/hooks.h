/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The things that the broker's program does, and the control thread asks for: main() has the
 * configuration and the signals.
 *
 * Threads: called by the control thread; each returns at once. Memory: the program's, for as long
 * as the broker lives.
 */
#pragma once

struct amb_control_hooks {
    void (*reload)(void *arg); /* its end comes by amb_broker_reloaded */
    void (*drain)(void *arg);
    void *arg;
};
