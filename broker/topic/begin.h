/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where in a log a subscription begins to read.
 * Threads: the worker that is the topic's home. Memory: none.
 */
#pragma once

#include "broker/topic/topic.h"

/* At home. NULL: at the end. History begins where `retain` says; SEQ also finds older messages that
 * have not gone yet. */
void amb_begin_find(const struct amb_topic *topic, const struct amb_begin *begin,
                    struct amb_begun *out);
