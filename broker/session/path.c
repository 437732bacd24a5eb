/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/session/path.h"

/* Bytes a second; 0: the time was too short. */
static uint64_t rate_of(uint64_t bytes, int64_t ns)
{
    if (ns < AMB_PATH_BURST_NS) {
        return 0;
    }
    return (uint64_t)((double)bytes * (double)AMB_NS_PER_SEC / (double)ns);
}

void amb_paths_measure(struct amb_paths *paths, int64_t now_ns, bool is_batch)
{
    /* Behind a pause the burst ended with its last batch. */
    bool goes_on = is_batch && now_ns - paths->last_ns < AMB_PATH_PAUSE_NS;
    int64_t ns = paths->since_ns == 0 ? 0 : (goes_on ? now_ns : paths->last_ns) - paths->since_ns;
    for (unsigned class = 0; class < AMB_PATH_CLASSES; class ++) {
        struct amb_path *path = &paths->of[class];
        uint64_t bytes = amb_path_bytes(path), rate = rate_of(bytes - path->seen, ns);
        path->rate = rate > path->rate ? rate : path->rate;
        path->seen = bytes;
    }
    paths->since_ns = is_batch ? now_ns : 0;
    paths->until_ns = is_batch ? now_ns + AMB_PATH_WINDOW_NS : 0;
}

uint64_t amb_paths_msgs(const struct amb_paths *paths)
{
    uint64_t msgs = 0;
    for (unsigned class = 0; class < AMB_PATH_CLASSES; class ++) {
        msgs += amb_path_msgs(&paths->of[class]);
    }
    return msgs;
}

uint64_t amb_paths_bytes(const struct amb_paths *paths)
{
    uint64_t bytes = 0;
    for (unsigned class = 0; class < AMB_PATH_CLASSES; class ++) {
        bytes += amb_path_bytes(&paths->of[class]);
    }
    return bytes;
}

const char *amb_path_way_name(enum amb_path_way way)
{
    static const char *const names[AMB_PATH_WAYS] = {"zero-copy", "one copy", "staged"};
    return names[way];
}

const char *amb_path_class_name(enum amb_path_class class)
{
    static const char *const names[AMB_PATH_CLASSES] = {"small", "large", "gpu"};
    return names[class];
}

const char *amb_path_why_text(enum amb_path_why why)
{
    static const char *const texts[AMB_PATH_WHYS] = {
        [AMB_PATH_BEST] = "",
        [AMB_PATH_LINK] = "the link shares no memory with the broker",
        [AMB_PATH_ASKED] = "the subscription asks for copies (copy)",
        [AMB_PATH_ROOM] = ("the client holds as much in place as it may "
                           "(limits.max_mapped_per_session)"),
        [AMB_PATH_FOREIGN] = "a publisher of another user can still write there (topics.trust)",
        [AMB_PATH_MAPPING] = "the client was still mapping the segment",
        [AMB_PATH_REFUSED] = "the client cannot map the segment",
        [AMB_PATH_PRIVATE] = "replies and requests lie in memory that no client maps",
        [AMB_PATH_GROUP] =
            "its user may not read all topics of that trust group (topics.trust_group)",
        [AMB_PATH_BATCH] = "small messages are copied into a batch (amb_lease writes in place)",
        [AMB_PATH_UNLEASED] = "the publisher has leased no memory for it",
        [AMB_PATH_VERIFIED] = "the topic copies what comes in leased memory (topics.trust)",
        [AMB_PATH_LAZY] = "a lazy reader asked for bytes of it",
        [AMB_PATH_WANTS_HOST] = "the subscription asks for host memory (mem)",
        [AMB_PATH_HOST_ALONE] = "it lies in host memory alone by now",
        [AMB_PATH_EAGER] = "the link brings larger ones alone into the broker's GPU memory",
        [AMB_PATH_BY_LINK] = "the link copies between GPUs; a ring reads in place",
    };
    return texts[why];
}
