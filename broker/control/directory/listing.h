/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Topics, subscriptions and queues as the counters list them: their names, and where they are. It
 * is told when one comes and when one goes. Workers add their figures (broker/observe).
 *
 * Threads: the control thread. Memory: slots of the counters.
 */
#pragma once

#include "broker/control/directory/directory.h"
#include "broker/control/directory/queues.h"

void amb_listing_topic(struct amb_directory *directory, struct amb_dir_topic *topic);
void amb_listing_topic_gone(struct amb_directory *directory, struct amb_dir_topic *topic);
void amb_listing_subscription(struct amb_directory *directory, struct amb_dir_sub *sub);
void amb_listing_subscription_gone(struct amb_directory *directory, struct amb_dir_sub *sub);
/* Also when its members have changed. */
void amb_listing_queue(struct amb_directory *directory, struct amb_dir_queue *queue);
void amb_listing_queue_gone(struct amb_directory *directory, struct amb_dir_queue *queue);
/* All that is there, once more: tenants and owners have other names. */
void amb_listing_anew(struct amb_directory *directory);
