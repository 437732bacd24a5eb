/* SPDX-License-Identifier: Apache-2.0 */
/*
 * "user test NAME publish|subscribe|admin WHAT": may the user do that, by the roles in force, and
 * by which line of them? The same rights are made and asked as for a session.
 *
 * Threads: the control thread. Memory: the rights, while they are asked.
 */
#pragma once

#include "wire/base/status.h"

#include <jansson.h>
#include <stdint.h>

struct amb_control;

/* words: "NAME publish WHAT", of a user of that tenant, or AMB_TENANT_ANY. *out: rows, the
 * caller's. EINVAL, ENOTFOUND, ENOMEM: *why has the reason, static. */
AMB_MUST_CHECK enum amb_status amb_rights_answer(struct amb_control *control, uint32_t tenant,
                                                 const char *words, json_t **out, const char **why);
