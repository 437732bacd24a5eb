/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The findings of `doctor` of a broker that runs: broker/doctor is given the facts of its control
 * thread. Files were looked at before, on a thread that may wait for them.
 * Threads: the control thread, which reads no file for it. Memory: JSON, the caller's.
 */
#pragma once

#include "broker/base/mail.h"

#include <jansson.h>

struct amb_control;
struct amb_doctor_look;
struct amb_doctor_proc;

/* Looks at files: broker/doctor/doctor_files.h. The context goes to `done`. NULL as there. */
struct amb_doctor_look *amb_status_doctor_look(struct amb_control *control, amb_mail_fn done,
                                               void *context);
/* Rows of {check, state, finding, fix, id, link}: wire/doctor/checks.h. files and proc: of that
 * look, or NULL. */
json_t *amb_status_doctor(const struct amb_control *control, const json_t *files,
                          const struct amb_doctor_proc *proc);
