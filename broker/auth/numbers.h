/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Numbers of users. Names of publishers, queues and shares belong to a number (broker/base/user.h).
 * So a user keeps one over reloads, and also when he goes and comes back: he finds what is his, and
 * nobody else gets it. A number stands for tenant and name.
 *
 * Threads: any; a lock, for these are questions of people and of a reload. Memory: counted.
 */
#pragma once

#include "wire/base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define AMB_AUTH_NUMBERS_MAX (UINT32_C(1) << 18) /* users of one life of the broker */
#define AMB_AUTH_NAME_MAX 144u                   /* "tenant:name" with its NUL */

struct amb_auth_numbers;

AMB_MUST_CHECK enum amb_status amb_auth_numbers_create(struct amb_auth_numbers **out);
struct amb_auth_numbers *amb_auth_numbers_ref(struct amb_auth_numbers *numbers);
/* Sets *numbers to NULL; NULL is allowed. */
void amb_auth_numbers_unref(struct amb_auth_numbers **numbers);

/* The user's number, AMB_USER_NAMED or more; a new one where there is none. ENOMEM, ELIMIT. */
AMB_MUST_CHECK enum amb_status amb_auth_numbers_take(struct amb_auth_numbers *numbers,
                                                     const char *tenant, const char *name,
                                                     uint32_t *out);
/* "tenant:name" of a number. False: there is no such user. */
bool amb_auth_numbers_name(struct amb_auth_numbers *numbers, uint32_t number,
                           char out[AMB_AUTH_NAME_MAX]);
/* The opposite. False: no user has had that name. */
bool amb_auth_numbers_find(struct amb_auth_numbers *numbers, const char *name, uint32_t *out);
