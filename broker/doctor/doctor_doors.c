/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/doctor/doctor_doors.h"

#include "broker/config/config_auth.h"
#include "broker/config/config_listen.h"
#include "wire/doctor/checks.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MODE_MAX 8u
#define TEXT_MAX 400u
#define URL_TEXT_MAX 512u

static const char *mode_text(unsigned mode, char out[MODE_MAX])
{
    (void)snprintf(out, MODE_MAX, "%04o", mode & 07777u);
    return out;
}

/* ---- Unix sockets ---- */

void amb_doctor_socket_folder(const struct amb_url *url, char out[sizeof(url->path)])
{
    const char *slash = strrchr(url->path, '/');
    size_t len = slash == NULL ? 0 : (size_t)(slash - url->path);
    (void)snprintf(out, sizeof(url->path), "%.*s", (int)len, url->path);
    if (out[0] == '\0') {
        (void)strcpy(out, slash == NULL ? "." : "/");
    }
}

/* brokerd makes "ambroker-UID" itself (resources.c). */
static bool makes_it(const char *folder)
{
    char name[32];
    (void)snprintf(name, sizeof(name), "ambroker-%u", (unsigned)geteuid());
    const char *slash = strrchr(folder, '/');
    return slash != NULL && strcmp(slash + 1, name) == 0;
}

/* Why no socket can be made there; NULL: one can. */
static const char *folder_fault(const char *folder, const struct stat *st, bool is_there)
{
    if (!is_there) {
        return makes_it(folder) ? NULL : "is not there";
    }
    if (!S_ISDIR(st->st_mode)) {
        return "is no folder";
    }
    return access(folder, W_OK | X_OK) == 0 ? NULL : "may not be written by the broker";
}

static void look_at_folder(const struct amb_url *url, json_t *rows)
{
    char folder[sizeof(url->path)], mode[MODE_MAX];
    struct stat st;
    amb_doctor_socket_folder(url, folder);
    bool is_there = stat(folder, &st) == 0;
    const char *fault = folder_fault(folder, &st, is_there);
    if (fault != NULL) {
        amb_doctor_find(rows, AMB_DOCTOR_SOCKET_FOLDER, "path", url->path, "folder", folder,
                        "fault", fault, NULL);
    } else if (is_there && (st.st_mode & S_IWOTH) != 0 && (st.st_mode & S_ISVTX) == 0) {
        amb_doctor_find(rows, AMB_DOCTOR_SOCKET_FOLDER_OPEN, "path", url->path, "folder", folder,
                        "mode", mode_text(st.st_mode, mode), NULL);
    }
}

/* The sockets of a broker that runs. */
struct sockets {
    const struct amb_doctor_socket *items; /* NULL: it does not run yet */
    size_t count;
};

/* 0: not known. */
static uint64_t inode_of(const struct sockets *sockets, const char *path)
{
    for (size_t i = 0; i < sockets->count; i++) {
        if (strcmp(sockets->items[i].path, path) == 0) {
            return sockets->items[i].inode;
        }
    }
    return 0;
}

/* Of a broker that runs: as it was made? */
static void look_at_socket(const struct amb_url *url, uint64_t inode, json_t *rows)
{
    char mode[MODE_MAX], wanted[MODE_MAX];
    struct stat st;
    if (lstat(url->path, &st) != 0 || !S_ISSOCK(st.st_mode) ||
        (inode != 0 && (uint64_t)st.st_ino != inode)) {
        amb_doctor_find(rows, AMB_DOCTOR_SOCKET_GONE, "path", url->path, NULL);
    } else if ((st.st_mode & 07777u) != amb_doctor_socket_mode(url)) {
        amb_doctor_find(rows, AMB_DOCTOR_SOCKET_MODE, "path", url->path, "mode",
                        mode_text(st.st_mode, mode), "wanted",
                        mode_text(amb_doctor_socket_mode(url), wanted), NULL);
    }
}

static void look_at_unix(const struct amb_config *config, const struct amb_url *url,
                         const struct sockets *sockets, json_t *rows)
{
    char mode[MODE_MAX];
    look_at_folder(url, rows);
    if (sockets->items != NULL) {
        look_at_socket(url, inode_of(sockets, url->path), rows);
    }
    if ((amb_doctor_socket_mode(url) & S_IWOTH) != 0 && !amb_config_auth_asks(config)) {
        amb_doctor_find(rows, AMB_DOCTOR_SOCKET_OPEN, "path", url->path, "mode",
                        mode_text(amb_doctor_socket_mode(url), mode), NULL);
    }
}

unsigned amb_doctor_socket_mode(const struct amb_url *url)
{
    return url->mode >= 0 ? (unsigned)url->mode : AMB_DOOR_MODE;
}

/* ---- TCP ---- */

static void look_at_tcp(const struct amb_config *config, const struct amb_url *url, json_t *rows)
{
    char text[URL_TEXT_MAX], fault[URL_TEXT_MAX + 80];
    if (amb_config_is_loopback(url->host)) {
        return;
    }
    amb_url_format(url, text, sizeof(text));
    if (amb_config_auth_asks(config)) {
        amb_doctor_find(rows, AMB_DOCTOR_TCP_PLAIN, "url", text, NULL);
        return;
    }
    (void)snprintf(fault, sizeof(fault), "%s takes everybody in: there is neither a token nor TLS",
                   text);
    amb_doctor_find(rows, AMB_DOCTOR_TCP_OPEN, "fault", fault, NULL);
}

/* ---- secrets ---- */

static void look_at_token(const char *key, const char *path, json_t *rows)
{
    char text[TEXT_MAX];
    struct stat st;
    if (path[0] == '\0' || stat(path, &st) != 0 || (st.st_mode & 0077u) == 0) {
        return;
    }
    (void)snprintf(text, sizeof(text), "%s: %.256s can be read by others (mode %04o, wanted 0600)",
                   key, path, (unsigned)st.st_mode & 07777u);
    amb_doctor_find(rows, AMB_DOCTOR_TOKEN_FILE, "fault", text, NULL);
}

void amb_doctor_doors(const struct amb_config *config, const struct amb_doctor_socket *sockets,
                      size_t count, json_t *rows)
{
    const struct sockets all = {sockets, count};
    for (size_t i = 0; i < config->doors.count; i++) {
        const struct amb_url *url = &config->doors.items[i];
        if (url->scheme == AMB_URL_UNIX) {
            look_at_unix(config, url, &all, rows);
        } else if (url->scheme == AMB_URL_TCP) {
            look_at_tcp(config, url, rows);
        }
    }
    look_at_token("auth.token_file", config->auth.token_file, rows);
    look_at_token("http.token_file", config->http.token_file, rows);
}
