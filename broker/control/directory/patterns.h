/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Patterns that somebody subscribes to, each once, with its subscriptions. The patterns that match
 * a topic are found by going through its tokens, whatever number of others there are. Each tenant
 * has a tree of its own.
 *
 *   root ─"a"─► · ─"b"─► a.b.>       the topic a.b.c takes, at each token, the branch of that
 *     └───*───► · ─"b"─► *.b          name and the one of "*"; ">" fits all that is left
 *
 * Patterns without a wildcard are names of topics, and are found by a hash of the whole with the
 * tenant.
 *
 * Threads: the control thread. Memory: an allocation a pattern, one a branch and its entry in a
 * hash table (AMB_PATTERN_HEAP for each token of a pattern, at most).
 */
#pragma once

#include "broker/control/directory/readers.h"
#include "wire/base/list.h"
#include "wire/base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define AMB_PATTERN_HEAP UINT64_C(192)

struct amb_map;
struct amb_pattern_branch;

struct amb_pattern {
    struct amb_list_node subs; /* struct amb_dir_sub.same, in the order of their coming */
    uint32_t count;            /* of them */
    uint32_t narrowed; /* those of them that do not read all topics of it; the directory counts */
    struct amb_readers readers;        /* those of them that read in place where they may */
    struct amb_pattern_branch *branch; /* where it ends; NULL: it is a name */
    uint32_t tenant;
    uint32_t len;
    char text[];
};

struct amb_patterns {
    struct amb_map *names;              /* to those without a wildcard */
    struct amb_map *branches;           /* by (branch above, token) */
    struct amb_pattern_branch *root;    /* of those with one, of the operators; */
    struct amb_pattern_branch *tenants; /* ... below it are the roots of other tenants */
    uint64_t generation;                /* changes with the subscriptions of those */
};

AMB_MUST_CHECK enum amb_status amb_patterns_init(struct amb_patterns *patterns);
/* Patterns that are still there go with it. Harmless on a zeroed one. */
void amb_patterns_fini(struct amb_patterns *patterns);
/* Lists a subscription with its pattern, checked before, which is made if there is none.
 * reader: the subscription's user if it reads in place where it may; else NULL. NULL: no memory. */
struct amb_pattern *amb_patterns_add(struct amb_patterns *patterns, uint32_t tenant,
                                     const char *text, size_t len, struct amb_list_node *sub,
                                     const uint32_t *reader);
/* Undoes that; the pattern goes with its last subscription. Sets *pattern to NULL, and does nothing
 * else where it is NULL already. */
void amb_patterns_remove(struct amb_patterns *patterns, struct amb_pattern **pattern,
                         struct amb_list_node *sub, const uint32_t *reader);
/* The pattern that is just that name; NULL: none. */
struct amb_pattern *amb_patterns_name(const struct amb_patterns *patterns, uint32_t tenant,
                                      const char *topic, size_t len);
/* Calls fn for each pattern of the tenant with a wildcard that matches the topic, until it returns
 * false. fn may not change the patterns. *steps: how many branches may be looked at, and how many
 * of them are left. False: they are used up, and there may be more patterns. */
typedef bool (*amb_pattern_fn)(struct amb_pattern *pattern, void *arg);
bool amb_patterns_match(const struct amb_patterns *patterns, uint32_t tenant, const char *topic,
                        size_t len, uint32_t *steps, amb_pattern_fn fn, void *arg);
