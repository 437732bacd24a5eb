/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Findings of `broker-ctl doctor` on the users file and on the audit log.
 * Threads: of the users file that of doctor_files.h, or the main one before a start; blocks for
 * the file system. Of the audit log the control thread. Memory: JSON, the caller's.
 */
#pragma once

#include "broker/audit/audit.h"
#include "broker/auth/users.h"

#include <jansson.h>
#include <stdint.h>

#define AMB_DOCTOR_USERS_MAX ((int64_t)1 << 20) /* bytes of a file that is judged here */

/* users: those in force; NULL: none. now_s since 1970. */
void amb_doctor_users(const struct amb_auth_users *users, const char *path, int64_t now_s,
                      json_t *rows);
/* audit: NULL: there is no log. */
void amb_doctor_audit(const struct amb_audit *audit, json_t *rows);
