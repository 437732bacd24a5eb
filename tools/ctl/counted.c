/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/ctl/counted.h"

#include "tools/ctl/connect.h"
#include "tools/ctl/view.h"
#include "wire/base/clock.h"
#include "wire/base/file.h"
#include "wire/codec/url.h"
#include "wire/counters/query.h"
#include "wire/counters/view.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* On this machine, since it was started, and with its process there. */
static bool is_alive(const struct amb_counters_header *header)
{
    char boot[sizeof(header->boot_id)];
    return header->has_ended == 0 && amb_file_line("", AMB_COUNTERS_BOOT_ID, boot, sizeof(boot)) &&
           strcmp(boot, header->boot_id) == 0 && header->pid != 0 && header->pid <= INT32_MAX &&
           (kill((pid_t)header->pid, 0) == 0 || errno == EPERM);
}

/* "broker 'x', process 12, is there; last active 0.3 s ago" */
static void describe(const struct amb_counters_image *image, char *out, size_t size)
{
    const struct amb_counters_header *header = image->header;
    /* A file that somebody made up may say any time. */
    double age_s =
        ((double)amb_clock_realtime_ns() - (double)header->beat_real_ns) / (double)AMB_SEC;
    (void)snprintf(out, size, "broker '%s', process %" PRIu64 ", %s %.1f s ago", header->name,
                   header->pid,
                   header->has_ended != 0 ? "ended in order;"
                   : is_alive(header)     ? "is there; last active"
                                          : "is gone; last active",
                   age_s > 0 ? age_s : 0.0);
}

static void tell(const char *path, const struct amb_counters_image *image)
{
    char text[AMB_COUNTERS_REFUSAL_MAX];
    describe(image, text, sizeof(text));
    amb_tool_error("%s: %s", path, text);
    if (image->torn > 0) {
        amb_tool_error("%s: %" PRIu32 " objects were being written, and are left out", path,
                       image->torn);
    }
}

/* The whole answer; NULL: no memory. */
static json_t *answer_of(struct amb_counters_view *view)
{
    char *text = amb_counters_view_all(view);
    json_t *value = text == NULL ? NULL : json_loads(text, 0, NULL);
    free(text);
    return value;
}

static enum amb_exit show(const struct amb_ctl *ctl, const struct amb_counters_image *image,
                          const char *query)
{
    struct amb_counters_view *view;
    char why[AMB_COUNTERS_REFUSAL_MAX] = "no memory";
    if (amb_counters_view_open(image, query, NULL, 0, &view, why) != AMB_OK) {
        amb_tool_error("%s: %s", query, why);
        return AMB_EXIT_USAGE;
    }
    json_t *value = answer_of(view);
    amb_counters_view_close(&view);
    if (value == NULL) {
        amb_tool_error("%s: no memory for the answer", query);
        return AMB_EXIT_SOFTWARE;
    }
    return amb_ctl_show(ctl, value);
}

/* Not OK: it has been said. */
static enum amb_exit load(const char *path, struct amb_counters_image *image)
{
    char why[AMB_COUNTERS_WHY_MAX];
    enum amb_status status = amb_counters_load(path, image, why);
    if (status != AMB_OK) {
        amb_tool_error("%s: %s", path, why);
        return status == AMB_EPROTO ? AMB_EXIT_DATA : amb_exit_of(status);
    }
    return AMB_EXIT_OK;
}

enum amb_exit amb_ctl_counted(const struct amb_ctl *ctl, const char *path, const char *query)
{
    struct amb_counters_image image;
    if (!amb_counters_query_is(query)) {
        amb_tool_error("%s: a counters file does not have that", query);
        return AMB_EXIT_USAGE;
    }
    enum amb_exit code = load(path, &image);
    if (code == AMB_EXIT_OK) {
        tell(path, &image);
        code = show(ctl, &image, query);
        amb_counters_unload(&image);
    }
    return code;
}

enum amb_exit amb_ctl_counted_check(const char *path)
{
    struct amb_counters_image image;
    enum amb_exit code = load(path, &image);
    if (code == AMB_EXIT_OK) {
        amb_counters_unload(&image);
    }
    return code;
}

enum amb_status amb_ctl_counted_all(const char *path, const char *const *queries, size_t count,
                                    json_t **answers, char *note, size_t note_size)
{
    struct amb_counters_image image;
    char why[AMB_COUNTERS_REFUSAL_MAX];
    enum amb_status status = amb_counters_load(path, &image, why);
    if (status != AMB_OK) {
        (void)snprintf(note, note_size, "%s: %s", path, why);
        return status;
    }
    describe(&image, why, sizeof(why));
    (void)snprintf(note, note_size, "of the counters file: %s", why);
    for (size_t i = 0; i < count; i++) {
        struct amb_counters_view *view;
        status = amb_counters_query_is(queries[i])
                     ? amb_counters_view_open(&image, queries[i], NULL, 0, &view, why)
                     : AMB_ENOTFOUND;
        if (status == AMB_OK) {
            answers[i] = answer_of(view);
            amb_counters_view_close(&view);
        } else if (status == AMB_EINVAL) {
            (void)snprintf(note, note_size, "%s: %s", queries[i], why);
        }
    }
    amb_counters_unload(&image);
    return AMB_OK;
}

bool amb_ctl_counted_path(const struct amb_ctl *ctl, char out[AMB_CTL_COUNTED_PATH_MAX])
{
    struct amb_url url;
    char error[160];
    _Static_assert(sizeof(url.path) + sizeof(AMB_COUNTERS_SUFFIX) <= AMB_CTL_COUNTED_PATH_MAX,
                   "room");
    if (amb_url_parse(amb_ctl_url(ctl), &url, error, sizeof(error)) != AMB_OK ||
        url.scheme != AMB_URL_UNIX) {
        return false;
    }
    (void)snprintf(out, AMB_CTL_COUNTED_PATH_MAX, "%s" AMB_COUNTERS_SUFFIX, url.path);
    return access(out, R_OK) == 0;
}

enum amb_exit amb_ctl_counted_instead(const struct amb_ctl *ctl, const char *query,
                                      enum amb_exit code)
{
    char path[AMB_CTL_COUNTED_PATH_MAX];
    if (!amb_counters_query_is(query) || !amb_ctl_counted_path(ctl, path)) {
        return code;
    }
    return amb_ctl_counted(ctl, path, query);
}
