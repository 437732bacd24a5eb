/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The findings of `doctor` of a broker that runs: broker/doctor is given the facts of its control
 * thread.
 * Threads: the control thread; it reads small files. Memory: JSON, the caller's.
 */
#pragma once

#include <jansson.h>

struct amb_control;

/* Rows of {check, state, finding, fix, id, link}: wire/doctor/checks.h. */
json_t *amb_status_doctor(const struct amb_control *control);
