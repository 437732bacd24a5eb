/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The facts that broker and client look at alike: devices of the GPU driver, the environment, /proc
 * and /sys. Nothing is loaded, and only small files are opened. root is "" or, in tests, a folder
 * that has dev, proc and sys. Files may have any content.
 *
 * Threads: any. Memory: JSON, the caller's.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* The root that tests give to a whole process (environment AMB_DOCTOR_ROOT); else "". */
const char *amb_doctor_root(void);

/* The first line of a file that begins so, without its end. At most 4,096 lines are looked at.
 * False: there is none. */
bool amb_doctor_line(const char *root, const char *path, const char *start, char *out, size_t size);
/* A number in a file of one; -1: there is none. */
long amb_doctor_number(const char *root, const char *path);

/* The driver's version. False: this host has no NVIDIA driver. */
bool amb_doctor_driver(const char *root, char *out, size_t size);
/* Appends a finding about the first of the driver's devices that is not there, or may not be
 * opened. False: there is none. */
bool amb_doctor_devices(const char *root, json_t *rows);

enum amb_doctor_found {
    AMB_DOCTOR_NO_ANSWER,
    AMB_DOCTOR_UNSET,
    AMB_DOCTOR_SET,
};
/* A variable of this process's environment at its start. It has been made printable ASCII. That of
 * another process is not read: the kernel waits for that process's memory, however long. */
enum amb_doctor_found amb_doctor_environment(const char *root, const char *name, char *out,
                                             size_t size);
/* Appends a finding for each variable of UCX that Ambroker ignores, and that this process was
 * started with. */
void amb_doctor_variables(const char *root, json_t *rows);
/* Such a variable, by number; NULL: no more. *but: what of it counts all the same. */
const char *amb_doctor_variable(size_t index, const char **but);
/* A namespace of a process ("pid", "ipc", "net") by /proc, as its number; pid 0: of this one. 0: it
 * may not be asked. */
uint64_t amb_doctor_namespace(const char *root, pid_t pid, const char *kind);
