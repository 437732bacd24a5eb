/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/common/output.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

bool amb_output_is_unread(void)
{
    /* A pipe says POLLERR, a socket POLLHUP, without being asked. */
    struct pollfd pfd = {.fd = STDOUT_FILENO};
    return poll(&pfd, 1, 0) == 1 && (pfd.revents & (POLLERR | POLLHUP)) != 0;
}

bool amb_output_flush(void)
{
    static bool is_said;
    errno = 0;
    if (fflush(stdout) == 0 && ferror(stdout) == 0) {
        return true;
    }
    int error = errno;
    if (!is_said && !amb_output_is_unread()) {
        is_said = true;
        amb_tool_error("standard output: cannot write%s%s", error == 0 ? "" : ": ",
                       error == 0 ? "" : strerror(error));
    }
    return false;
}

enum amb_exit amb_output_end(enum amb_exit code)
{
    if (amb_output_flush() || code != AMB_EXIT_OK) {
        return code;
    }
    return amb_output_is_unread() ? AMB_EXIT_OK : AMB_EXIT_SOFTWARE;
}
