/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/ctl/tls.h"

#include "tools/ctl/connect.h"
#include "tools/ctl/tls_files.h"
#include "wire/tls/tls_issue.h"
#include "wire/tls/tls_names.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define DAY_S INT64_C(86400)
#define DAYS_AUTHORITY 3650
#define DAYS_OTHER 365
#define BEFORE_S 300 /* clocks of other machines may be slow by that */
#define ERROR_MAX 512u

struct wanted {
    const char *folder;
    const char *names[AMB_TLS_NAMES_MAX];
    size_t name_count;
    int64_t days; /* 0: not given */
};

static enum amb_exit failed(enum amb_status status, const char *error)
{
    amb_tool_error("tls: %s", error[0] != '\0' ? error : amb_strerror(status));
    return status == AMB_EINVAL ? AMB_EXIT_DATA : AMB_EXIT_SOFTWARE;
}

/* ---- making ---- */

/* From now on: as many days as are wanted, else as many as its kind has. */
static int64_t end_of(const struct wanted *wanted, bool is_authority, int64_t now_s)
{
    int64_t days = is_authority ? DAYS_AUTHORITY : DAYS_OTHER;
    return now_s + (wanted->days != 0 ? wanted->days : days) * DAY_S;
}

static enum amb_exit issue(const struct wanted *wanted, enum amb_tls_role role, const char *name,
                           const struct amb_tls_pair *issuer, struct amb_tls_pair **out)
{
    char error[ERROR_MAX] = "";
    int64_t now_s = (int64_t)time(NULL);
    bool is_authority = role == AMB_TLS_AUTHORITY;
    const struct amb_tls_request request = {
        .role = role,
        .name = name,
        .names = is_authority ? NULL : wanted->names,
        .name_count = is_authority ? 0 : wanted->name_count,
        .from_s = now_s - BEFORE_S,
        .until_s = end_of(wanted, is_authority, now_s),
    };
    enum amb_status status = amb_tls_issue(&request, issuer, error, sizeof(error), out);
    return status == AMB_OK ? AMB_EXIT_OK : failed(status, error);
}

static void say_made(const struct amb_ctl *ctl, const struct wanted *wanted, const char *base,
                     const struct amb_tls_pair *pair)
{
    char pin[AMB_TLS_PIN_TEXT_MAX] = "", names[256];
    if (ctl->is_json) {
        amb_ctl_print(ctl, amb_tls_files_describe(wanted->folder, base, pair));
        return;
    }
    (void)amb_tls_pair_pin(pair, pin, sizeof(pin));
    amb_tls_pair_names(pair, names, sizeof(names));
    (void)printf("made %s/%s.pem and %s/%s.key for %s\n", wanted->folder, base, wanted->folder,
                 base, names);
    (void)printf("its pin: ?pin=%s\n", pin);
}

static enum amb_exit init(struct amb_ctl *ctl, struct wanted *wanted)
{
    struct amb_tls_own_names own;
    static const char *const bases[] = {"ca", "server"};
    if (wanted->name_count == 0) {
        amb_tls_own_names_read(&own);
        memcpy(wanted->names, own.names, own.count * sizeof(own.names[0]));
        wanted->name_count = own.count;
    }
    enum amb_exit code = amb_tls_files_absent(wanted->folder, bases, 2);
    struct amb_tls_pair *authority = NULL, *server = NULL;
    if (code == AMB_EXIT_OK) {
        code = issue(wanted, AMB_TLS_AUTHORITY, "ambroker authority", NULL, &authority);
    }
    if (code == AMB_EXIT_OK) {
        code = issue(wanted, AMB_TLS_SERVER, "ambroker broker", authority, &server);
    }
    if (code == AMB_EXIT_OK) {
        code = amb_tls_files_write(wanted->folder, "ca", authority);
    }
    if (code == AMB_EXIT_OK) {
        code = amb_tls_files_write(wanted->folder, "server", server);
        if (code != AMB_EXIT_OK) {
            amb_tls_files_remove(wanted->folder, "ca"); /* All or nothing. */
        }
    }
    if (code == AMB_EXIT_OK) {
        say_made(ctl, wanted, "server", server);
    }
    amb_tls_pair_free(&authority);
    amb_tls_pair_free(&server);
    return code;
}

static enum amb_exit issue_client(struct amb_ctl *ctl, struct wanted *wanted, const char *name)
{
    struct amb_tls_pair *authority = NULL, *client = NULL;
    if (!amb_tls_files_is_base(name)) {
        amb_tool_error("tls issue: '%.64s' is no name of a file: letters, digits, '.', '-', '_'",
                       name);
        return AMB_EXIT_USAGE;
    }
    if (wanted->name_count == 0) {
        wanted->names[wanted->name_count++] = name;
    }
    enum amb_exit code = amb_tls_files_absent(wanted->folder, &name, 1);
    if (code == AMB_EXIT_OK) {
        code = amb_tls_files_authority(wanted->folder, &authority);
    }
    if (code == AMB_EXIT_OK) {
        code = issue(wanted, AMB_TLS_CLIENT, name, authority, &client);
    }
    if (code == AMB_EXIT_OK) {
        code = amb_tls_files_write(wanted->folder, name, client);
    }
    if (code == AMB_EXIT_OK) {
        say_made(ctl, wanted, name, client);
    }
    amb_tls_pair_free(&authority);
    amb_tls_pair_free(&client);
    return code;
}

static enum amb_exit renew(struct amb_ctl *ctl, const struct wanted *wanted, const char *name)
{
    char error[ERROR_MAX] = "";
    struct amb_tls_pair *authority = NULL, *old = NULL, *young = NULL;
    enum amb_exit code = amb_tls_files_read(wanted->folder, name, &old);
    bool is_authority = strcmp(name, "ca") == 0;
    if (code == AMB_EXIT_OK && !is_authority) {
        code = amb_tls_files_authority(wanted->folder, &authority);
    }
    if (code == AMB_EXIT_OK) {
        int64_t now_s = (int64_t)time(NULL);
        enum amb_status status =
            amb_tls_renew(old, authority, now_s - BEFORE_S, end_of(wanted, is_authority, now_s),
                          error, sizeof(error), &young);
        code = status == AMB_OK ? AMB_EXIT_OK : failed(status, error);
    }
    if (code == AMB_EXIT_OK) {
        code = amb_tls_files_replace(wanted->folder, name, young);
    }
    if (code == AMB_EXIT_OK) {
        say_made(ctl, wanted, name, young);
    }
    amb_tls_pair_free(&authority);
    amb_tls_pair_free(&old);
    amb_tls_pair_free(&young);
    return code;
}

/* ---- the command ---- */

static struct wanted take_options(const struct amb_ctl *ctl)
{
    const char *folder = amb_cli_text(ctl->line, "dir"), *name;
    struct wanted wanted = {
        .folder = folder != NULL ? folder : ".",
        .days = (int64_t)amb_cli_number(ctl->line, "days", 0),
    };
    size_t at = 0;
    while ((name = amb_cli_next(ctl->line, "name", &at)) != NULL) {
        wanted.names[wanted.name_count++] = name;
    }
    return wanted;
}

enum amb_exit amb_ctl_tls_init(struct amb_ctl *ctl)
{
    struct wanted wanted = take_options(ctl);
    return init(ctl, &wanted);
}

enum amb_exit amb_ctl_tls_issue(struct amb_ctl *ctl)
{
    struct wanted wanted = take_options(ctl);
    return issue_client(ctl, &wanted, ctl->line->args[0]);
}

enum amb_exit amb_ctl_tls_renew(struct amb_ctl *ctl)
{
    const struct wanted wanted = take_options(ctl);
    return renew(ctl, &wanted, ctl->line->arg_count > 0 ? ctl->line->args[0] : "server");
}

enum amb_exit amb_ctl_tls_show(struct amb_ctl *ctl)
{
    const struct wanted wanted = take_options(ctl);
    json_t *rows = NULL;
    enum amb_exit code = amb_tls_files_list(wanted.folder, &rows);
    if (rows != NULL) {
        amb_ctl_print(ctl, rows);
    }
    return code;
}
