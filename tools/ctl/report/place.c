/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/ctl/report/place.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool is_standard(const struct amb_place *place)
{
    return strcmp(place->path, "-") == 0;
}

static enum amb_exit fail(const struct amb_place *place, const char *why, enum amb_exit code)
{
    amb_tool_error("report %s: %s", place->path, why);
    return code;
}

static enum amb_exit open_standard(struct amb_place *place)
{
    if (isatty(STDOUT_FILENO) != 0) {
        return fail(place, "standard output is a terminal, and a report is no text",
                    AMB_EXIT_USAGE);
    }
    place->out = stdout;
    return AMB_EXIT_OK;
}

enum amb_exit amb_place_open(struct amb_place *place, const char *path, bool is_forced)
{
    struct stat there;
    *place = (struct amb_place){.path = path, .is_forced = is_forced};
    if (is_standard(place)) {
        return open_standard(place);
    }
    if (lstat(path, &there) == 0) {
        if (!is_forced) {
            return fail(place, "there is one already; --force overwrites it", AMB_EXIT_DATA);
        }
        if (!S_ISREG(there.st_mode)) {
            return fail(place, "that is no regular file, which --force would overwrite",
                        AMB_EXIT_DATA);
        }
    }
    if (!amb_temp_file_create(&place->temp, path, 0600)) {
        return fail(place, strerror(errno),
                    errno == ENAMETOOLONG ? AMB_EXIT_USAGE : AMB_EXIT_SOFTWARE);
    }
    int fd = fcntl(place->temp.fd, F_DUPFD_CLOEXEC, 0); /* The stream's own. */
    place->out = fd < 0 ? NULL : fdopen(fd, "w");
    if (place->out == NULL) {
        int error = errno;
        if (fd >= 0) {
            (void)close(fd);
        }
        amb_temp_file_drop(&place->temp);
        return fail(place, strerror(error), AMB_EXIT_SOFTWARE);
    }
    return AMB_EXIT_OK;
}

enum amb_exit amb_place_keep(struct amb_place *place)
{
    if (is_standard(place)) {
        place->out = NULL;
        return AMB_EXIT_OK; /* The tool's end tells of a pipe that is full or gone. */
    }
    const struct amb_temp_file_end end = {.leaves_others = !place->is_forced};
    bool is_written = fflush(place->out) == 0;
    int error = errno;
    is_written = fclose(place->out) == 0 && is_written;
    place->out = NULL;
    if (is_written && amb_temp_file_rename(&place->temp, &end)) {
        return AMB_EXIT_OK;
    }
    error = is_written ? errno : error;
    amb_temp_file_drop(&place->temp);
    return fail(place, strerror(error), error == EEXIST ? AMB_EXIT_DATA : AMB_EXIT_SOFTWARE);
}

void amb_place_drop(struct amb_place *place)
{
    if (place->out != NULL && !is_standard(place)) {
        (void)fclose(place->out);
        amb_temp_file_drop(&place->temp);
    }
    place->out = NULL;
}
