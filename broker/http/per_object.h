/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Figures of objects as Prometheus reads them, of a view that was filtered and cut. Each object has
 * labels that tell it from others: names and ids.
 *
 * Threads: the observer. Memory: the rows and the text, for one answer.
 */
#pragma once

#include "wire/base/status.h"
#include "wire/counters/exposition.h"
#include "wire/counters/view.h"

/* query: as of a view (view.h), of at most `most` rows; more are left out, and said. text_out: for
 * free(). EINVAL: the query is wrong, and `why` has a sentence. ENOMEM. */
AMB_MUST_CHECK enum amb_status amb_per_object(const struct amb_counters_image *image,
                                              const char *query, uint32_t most,
                                              enum amb_exposition_form form, char **text_out,
                                              size_t *len_out, char why[AMB_COUNTERS_REFUSAL_MAX]);
