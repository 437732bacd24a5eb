/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/http/inboxes.h"

#include "wire/codec/topic.h"

#include <stddef.h>

void amb_inboxes_leave_out(json_t *rows)
{
    for (size_t i = json_array_size(rows); i-- > 0;) {
        const char *topic = json_string_value(json_object_get(json_array_get(rows, i), "topic"));
        if (topic != NULL && amb_topic_is_shown_inbox(topic)) {
            (void)json_array_remove(rows, i);
        }
    }
}
