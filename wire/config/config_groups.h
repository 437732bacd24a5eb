/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Walks the rows of a schema and opens and closes the groups between them, so that everything
 * printed from the schema has one shape.
 * Threads: any. Memory: none.
 */
#pragma once

#include "wire/config/config_key.h"

struct amb_config_visitor {
    /* A group begins: its whole path; depth 0 is outermost. The walk itself prints its end. */
    void (*group)(const char *group, unsigned depth, const void *arg, FILE *out);
    void (*key)(const struct amb_config_key *key, unsigned depth, const void *arg, FILE *out);
};

void amb_config_visit(const struct amb_config_key *keys, size_t count,
                      const struct amb_config_visitor *visitor, const void *arg, FILE *out);
