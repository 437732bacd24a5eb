/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of libamb's enumerations, as Python has them.
 * Threads: any. Memory: none.
 */
#pragma once

#include <amb/amb.h>

/* Why messages were lost. */
const char *amb_py_loss_name(enum amb_loss loss);
/* A kind of memory; NULL: it has no name. */
const char *amb_py_mem_name(enum amb_mem mem);
const char *amb_py_priority_name(enum amb_priority priority);
const char *amb_py_event_name(enum amb_event_type type);
/* The reason for which a send would wait; NULL: it would not. */
const char *amb_py_blocked_name(enum amb_blocked blocked);
