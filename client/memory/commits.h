/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Commits that have named slots and are not over: a ring of them, by number.
 * Threads: under the connection's lock. Memory: one ring, which doubles.
 */
#pragma once

#include "wire/base/status.h"

#include <stdint.h>

struct amb_conn;
struct amb_leases;
struct amb_slots;

/* Room for one more commit, so that amb_commits_add cannot fail. ENOMEM. */
AMB_MUST_CHECK enum amb_status amb_commits_reserve(struct amb_leases *leases);
/* `taken` slots of a segment, the chain from head, are committed; returns the commit's number. */
uint64_t amb_commits_add(struct amb_leases *leases, struct amb_slots *slots, uint32_t head,
                         uint32_t taken);
/* Commits 1 to upto are over. EPROTO: there are not so many. */
AMB_MUST_CHECK enum amb_status amb_commits_freed(struct amb_conn *conn, uint64_t upto);
/* Commits number... are over before older ones. EPROTO. */
AMB_MUST_CHECK enum amb_status amb_commits_freed_range(struct amb_conn *conn, uint64_t number,
                                                       uint64_t count);
