/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/config/config_groups.h"

#include "wire/base/assert.h"

#include <string.h>

/* Length of the path's first `depth` parts; of the whole path if it has no more. */
static size_t prefix_len(const char *path, unsigned depth)
{
    const char *at = path;
    while (depth > 0) {
        const char *dot = strchr(at, '.');
        if (dot == NULL) {
            return strlen(path);
        }
        at = dot + 1;
        depth--;
    }
    return at == path ? 0 : (size_t)(at - path - 1);
}

static unsigned depth_of(const char *path)
{
    unsigned depth = 0;
    for (; *path != '\0'; path++) {
        depth += *path == '.';
    }
    return depth;
}

/* How many groups both rows are in. */
static unsigned common_depth(const char *a, const char *b)
{
    unsigned depth = 0;
    while (depth < depth_of(a) && depth < depth_of(b)) {
        size_t len = prefix_len(a, depth + 1);
        if (len != prefix_len(b, depth + 1) || strncmp(a, b, len) != 0) {
            break;
        }
        depth++;
    }
    return depth;
}

static void close_groups(unsigned from, unsigned to, FILE *out)
{
    while (from > to) {
        from--;
        (void)fprintf(out, "%*s};\n", (int)(4 * from), "");
    }
}

void amb_config_visit(const struct amb_config_key *keys, size_t count,
                      const struct amb_config_visitor *visitor, const void *arg, FILE *out)
{
    const char *before = "";
    for (size_t i = 0; i < count; i++) {
        unsigned depth = depth_of(keys[i].path), common = common_depth(before, keys[i].path);
        close_groups(depth_of(before), common, out);
        for (unsigned d = common; d < depth; d++) {
            char group[AMB_CONFIG_PATH_MAX];
            size_t len = prefix_len(keys[i].path, d + 1);
            amb_assert(len < sizeof(group));
            memcpy(group, keys[i].path, len);
            group[len] = '\0';
            visitor->group(group, d, arg, out);
        }
        visitor->key(&keys[i], depth, arg, out);
        before = keys[i].path;
    }
    close_groups(depth_of(before), 0, out);
}
