/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lists of groups, as `topics` and `roles`. Elements have a schema of their own, and each a name
 * that no other one of the list has. In the struct of the configuration such a list is two fields,
 * one after the other: a pointer to the elements, and their number (size_t).
 *
 * Threads: main, at start and at a reload. Memory: the configuration's own blocks.
 */
#pragma once

#include "wire/config/config_build.h"

#include <stddef.h>

/* One kind of list. */
struct amb_config_elements {
    const struct amb_config_key *(*keys)(size_t *count); /* offsets into one element */
    size_t size;                                         /* of one element */
    const char *name;                                    /* the key that tells elements apart */
    size_t name_offset;                                  /* of its field, a const char * */
    const char *name_help;                               /* "a pattern as \"camera.>\"" */
    const char *example;                                 /* of a group, for errors */
    const char *list_key; /* of a group within: a list in place of it is this key's; or NULL */
    /* Rules over keys of one element; NULL: there are none. */
    enum amb_status (*check)(const struct amb_config_target *element);
};

/* The target is of type ELEMENTS. */
AMB_MUST_CHECK enum amb_status amb_config_elements_set(const struct amb_config_target *target,
                                                       const struct amb_config_value *value);

/* Orders a list by name, once all layers are there. */
void amb_config_elements_sort(const struct amb_config_elements *kind, void *items, size_t count);
/* The element of that name in a list that is in that order; NULL: there is none. */
const void *amb_config_elements_find(const struct amb_config_elements *kind, const void *items,
                                     size_t count, const char *name);
