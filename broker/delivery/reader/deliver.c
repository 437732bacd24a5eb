/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/delivery/reader/deliver.h"

#include "broker/base/trust_group.h"

enum amb_path_why amb_deliver_why_refused(const struct amb_session *session,
                                          const struct amb_segment *segment)
{
    const struct amb_trust_group *group = amb_segment_group(segment);
    if (amb_trust_group_is_private(group)) {
        return AMB_PATH_PRIVATE;
    }
    return amb_trust_group_may_map(group, session->tenant, session->maps) ? AMB_PATH_REFUSED
                                                                          : AMB_PATH_GROUP;
}

void amb_deliver_count_gpu(struct amb_subscription *sub, const struct amb_entry *entry,
                           bool is_copy, uint32_t msgs, uint64_t bytes)
{
    struct amb_paths *paths = &sub->session->paths.out;
    int64_t now_ns = sub->session->shard->now_ns;
    if (entry->segment->gpu != NULL) {
        sub->gpu_msgs += msgs;
        sub->gpu_bytes += bytes;
        amb_path_count(paths, AMB_PATH_GPU, is_copy ? AMB_PATH_COPIED : AMB_PATH_IN_PLACE,
                       AMB_PATH_BY_LINK, msgs, bytes, now_ns);
        return;
    }
    enum amb_path_why why =
        paths->gpu_why != AMB_PATH_BEST ? (enum amb_path_why)paths->gpu_why : AMB_PATH_HOST_ALONE;
    paths->gpu_why = AMB_PATH_BEST;
    amb_path_count(paths, AMB_PATH_GPU, AMB_PATH_STAGED, why, msgs, bytes, now_ns);
}
