/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/ctl/doctor_reach.h"

#include "wire/codec/url.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Of a socket that is there. */
static void say_of_socket(const struct amb_url *url, const struct stat *st, char *out, size_t size)
{
    if (!S_ISSOCK(st->st_mode)) {
        (void)snprintf(out, size, "%s is no socket: name the broker's by --url or AMB_URL",
                       url->path);
    } else if (access(url->path, R_OK | W_OK) != 0) {
        (void)snprintf(out, size,
                       "%s is closed to this user (mode %04o, group %u): join its group "
                       "(usermod -aG), or have the listener say ?group= or ?mode=",
                       url->path, (unsigned)st->st_mode & 07777u, (unsigned)st->st_gid);
    } else {
        (void)snprintf(out, size,
                       "start brokerd: the socket is there, and nobody listens; or it hangs, and "
                       "broker-ctl --file %s.counters status says since when",
                       url->path);
    }
}

static void say_of_path(const struct amb_url *url, char *out, size_t size)
{
    struct stat st;
    if (stat(url->path, &st) == 0) { /* A link to a socket is one for a connect, too. */
        say_of_socket(url, &st, out, size);
    } else if (errno == EACCES) {
        (void)snprintf(out, size,
                       "this user may not enter the folder of %s: chmod +x it, or join its group",
                       url->path);
    } else {
        (void)snprintf(out, size,
                       "start brokerd (systemctl start ambroker), or name its socket by --url or "
                       "AMB_URL: there is no %s; a container must share its folder",
                       url->path);
    }
}

const char *amb_doctor_reach(const char *url, enum amb_exit code, char *out, size_t size)
{
    struct amb_url parsed;
    char error[256];
    if (code == AMB_EXIT_FORBIDDEN) {
        (void)snprintf(out, size,
                       "--credentials or AMB_CREDENTIALS must name a file that the broker's "
                       "auth.users or auth.token_file knows");
    } else if (amb_url_parse(url, &parsed, error, sizeof(error)) != AMB_OK) {
        (void)snprintf(out, size, "mend the URL: %s", error);
    } else if (parsed.scheme == AMB_URL_UNIX) {
        say_of_path(&parsed, out, size);
    } else {
        (void)snprintf(out, size,
                       "see on %s that brokerd runs and listens there (listen; ss -ltn), and that "
                       "no firewall is between; the link and the scheme must be the listener's",
                       parsed.host);
    }
    return out;
}
