/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The process that listens on a TCP port of this machine, for the error text of a second broker.
 * Threads: any. It reads /proc and may take milliseconds.
 */
#pragma once

#include <stdint.h>
#include <sys/types.h>

/* 0: nobody, or a process that we may not look into. */
pid_t amb_port_owner(uint16_t port);
