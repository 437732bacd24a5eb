/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The metric table: one row for each figure that the broker counts. It has name, column of a view,
 * kind, unit, labels, help and place. It is copied into the counters file, so that a reader needs
 * nothing else, and docs/metrics.md is made from it. A field of a struct of counters without a row
 * is found by tools/dev/check-metrics.py.
 *
 * The rows of a scope are in the order of the view's columns.
 *
 * Threads: any. Memory: constant.
 */
#pragma once

#include "wire/counters/layout.h"

#include <stddef.h>
#include <stdio.h>

extern const struct amb_counters_metric amb_metrics[];
extern const size_t amb_metric_count;

const char *amb_metric_scope_name(enum amb_counters_scope scope);
const char *amb_metric_kind_name(enum amb_counters_kind kind);
/* docs/metrics.md. */
void amb_metrics_reference(FILE *out);
