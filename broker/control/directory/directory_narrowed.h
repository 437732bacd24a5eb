/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Subscriptions that are narrowed by denies of their user's roles. A subscription is asked where it
 * and a topic come together, and never for a message.
 * Threads: the control thread. Memory: none.
 */
#pragma once

#include "broker/control/directory/directory.h"

/* Is the topic, which its pattern matches, one that it may not read? */
static inline bool amb_dir_sub_leaves_out(const struct amb_dir_sub *sub,
                                          const struct amb_dir_topic *topic)
{
    return sub->rights != NULL &&
           amb_rights_cuts_out(sub->rights, &sub->cut, topic->name, topic->name_len);
}
