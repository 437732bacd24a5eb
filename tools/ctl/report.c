/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/ctl/report.h"

#include "tools/ctl/asked.h"
#include "tools/ctl/broker_config.h"
#include "tools/ctl/connect.h"
#include "tools/ctl/counted.h"
#include "tools/ctl/report/facts.h"
#include "tools/ctl/report/place.h"
#include "tools/ctl/report/tar.h"
#include "wire/base/clock.h"
#include "wire/base/memstream.h"

#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define FOLDER "ambroker-report/"
#define NAME_BYTES 96u
#define PATH_BYTES 128u

/* Each view as a file of its own. A broker of another release may not have all of them. */
static const char *const views[] = {
    "status",     "workers", "topics", "subs",   "queues", "clients", "closed", "memory", "metrics",
    "transports", "paths",   "quotas", "doctor", "topo",   "blocked", "errors", "loss"};

struct report {
    struct amb_ctl *ctl;
    struct amb_ctl_asked asked;
    struct amb_tar tar;
    FILE *notes; /* of the file README.txt */
    char counted[AMB_CTL_COUNTED_PATH_MAX];
    bool is_silent; /* the broker has not answered */
    /* Of the broker, as far as they are known. */
    int64_t pid;
    char version[64], ucx[64];
};

static void note(struct report *report, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void note(struct report *report, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    (void)vfprintf(report->notes, format, list);
    va_end(list);
    (void)fputc('\n', report->notes);
}

/* ---- parts ---- */

static bool put(struct report *report, const char *name, const char *text, size_t len)
{
    char path[PATH_BYTES];
    (void)snprintf(path, sizeof(path), FOLDER "%s", name);
    return amb_tar_put(&report->tar, path, text, len);
}

/* Takes the reference. */
static bool put_json(struct report *report, const char *name, json_t *value)
{
    size_t flags = JSON_INDENT(1) | JSON_ENCODE_ANY;
    char *text = value == NULL ? NULL : json_dumps(value, flags);
    json_decref(value);
    bool is_good = text != NULL && put(report, name, text, strlen(text));
    free(text);
    return is_good;
}

/* From here on no answer is waited for: views are of the counters file, or there are none. */
static void be_silent(struct report *report, const char *why)
{
    report->is_silent = true;
    bool has_file = amb_ctl_counted_path(report->ctl, report->counted);
    report->asked.file = has_file ? report->counted : NULL;
    note(report, "The broker has not answered, so %s: %s",
         has_file ? "views are of its counters file" : "there are no views", why);
    amb_tool_error("report: the broker has not answered, so %s",
                   has_file ? "views are of its counters file" : "there are no views");
}

/* NULL: there is none, which stands in the notes. */
static json_t *ask(struct report *report, const char *view)
{
    json_t *answer = NULL;
    char why[AMB_CTL_NOTE_MAX];
    if ((report->is_silent && report->asked.file == NULL) || amb_ctl_stopped()) {
        return NULL;
    }
    enum amb_status status = amb_ctl_ask_all(&report->asked, &view, 1, &answer, why);
    bool is_of_file = status == AMB_OK && answer != NULL && why[0] != '\0';
    if (!report->is_silent && (status != AMB_OK || is_of_file)) {
        be_silent(report, why);
    } else if (report->is_silent && strcmp(view, "status") == 0) {
        note(report, "Views are %s", why);
    } else if (answer == NULL) {
        note(report, "views/%s.json is not there: %s", view,
             report->is_silent ? "a counters file does not have that" : why);
    }
    return answer;
}

static void take_status(struct report *report, const json_t *status)
{
    const char *version = json_string_value(json_object_get(status, "version"));
    const char *ucx = json_string_value(json_object_get(status, "ucx"));
    report->pid = json_integer_value(json_object_get(status, "pid"));
    (void)snprintf(report->version, sizeof(report->version), "%s", version == NULL ? "" : version);
    (void)snprintf(report->ucx, sizeof(report->ucx), "%s", ucx == NULL ? "" : ucx);
}

static bool put_views(struct report *report)
{
    for (size_t i = 0; i < sizeof(views) / sizeof(views[0]); i++) {
        char name[NAME_BYTES];
        json_t *answer = ask(report, views[i]);
        if (strcmp(views[i], "status") == 0) {
            take_status(report, answer);
        }
        (void)snprintf(name, sizeof(name), "views/%s.json", views[i]);
        if (answer != NULL && !put_json(report, name, answer)) {
            return false;
        }
    }
    return true;
}

/* Of brokerd beside this program, which leaves secrets out. */
static bool put_config(struct report *report)
{
    char *text = NULL;
    enum amb_exit code = amb_ctl_broker_config(
        "report: config", amb_cli_text(report->ctl->line, "config"), NULL, &text);
    if (code != AMB_EXIT_OK) {
        note(report,
             "config.txt is not there: there is no configuration or no brokerd here, or it is "
             "wrong.");
        return true;
    }
    bool is_good = put(report, "config.txt", text, strlen(text));
    free(text);
    note(report, "config.txt is the configuration as a broker would read it now. The broker may "
                 "have been started with another one.");
    return is_good;
}

static bool put_versions(struct report *report)
{
    return put_json(report, "versions.json",
                    json_pack("{s:s, s:s, s:s}", "broker_ctl", amb_version(), "broker",
                              report->version, "ucx_of_broker", report->ucx));
}

/* The machine's. The process is the broker's where its socket is on this machine. */
static bool put_facts(struct report *report)
{
    bool is_here = strncmp(amb_ctl_url(report->ctl), "unix:", 5) == 0 &&
                   amb_cli_text(report->ctl->line, "file") == NULL;
    return put_json(report, "system.json",
                    amb_facts_of("", is_here ? report->pid : 0, (const char *const *)environ));
}

/* ---- the archive ---- */

static void begin_notes(struct report *report)
{
    char when[32];
    time_t seconds = (time_t)report->tar.time_s;
    struct tm parts = {0};
    (void)strftime(when, sizeof(when), "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&seconds, &parts));
    note(report, "A report of a broker, made by broker-ctl %s at %s.", amb_version(), when);
    note(report, "It has names of topics, clients and users, addresses, and paths of files.");
    note(report, "It has no message, no token, no key and no password. Look before you send it.");
    note(report, "%s", "");
}

static bool fill(struct report *report)
{
    char *notes = NULL;
    size_t size = 0;
    report->notes = open_memstream(&notes, &size);
    if (report->notes == NULL) {
        return false;
    }
    begin_notes(report);
    bool is_good =
        put_views(report) && put_config(report) && put_versions(report) && put_facts(report);
    is_good = amb_memstream_end(report->notes, &notes) && is_good &&
              put(report, "README.txt", notes, size) && amb_tar_end(&report->tar);
    free(notes);
    return is_good;
}

/* "ambroker-report-20261127-180502.tar" */
static const char *name_of(const struct amb_ctl *ctl, int64_t time_s, char out[NAME_BYTES])
{
    struct tm parts = {0};
    time_t seconds = (time_t)time_s;
    (void)strftime(out, NAME_BYTES, "ambroker-report-%Y%m%d-%H%M%S.tar",
                   gmtime_r(&seconds, &parts));
    return ctl->line->arg_count > 0 ? ctl->line->args[0] : out;
}

static enum amb_exit write_report(struct report *report, struct amb_place *place)
{
    bool is_good = fill(report);
    if (amb_ctl_stopped()) {
        amb_place_drop(place);
        amb_tool_error("report: stopped by a signal");
        return AMB_EXIT_TIMEOUT;
    }
    if (!is_good) {
        amb_place_drop(place);
        amb_tool_error("report %s: it cannot be written, or there is no memory", place->path);
        return AMB_EXIT_SOFTWARE;
    }
    enum amb_exit code = amb_place_keep(place);
    if (code == AMB_EXIT_OK && strcmp(place->path, "-") != 0) {
        (void)printf("%s\n", place->path);
    }
    return code;
}

enum amb_exit amb_ctl_report(struct amb_ctl *ctl)
{
    char name[NAME_BYTES];
    struct amb_place place;
    struct report report = {
        .ctl = ctl,
        .asked = {.ctl = ctl,
                  .file = amb_cli_text(ctl->line, "file"),
                  .timeout_ns = amb_ctl_answer_ns(ctl)},
        .tar = {.time_s = amb_clock_realtime_ns() / AMB_SEC},
        .is_silent = amb_cli_has(ctl->line, "file"),
    };
    enum amb_exit code = amb_place_open(&place, name_of(ctl, report.tar.time_s, name),
                                        amb_cli_has(ctl->line, "force"));
    if (code != AMB_EXIT_OK) {
        return code;
    }
    report.tar.out = place.out;
    code = amb_ctl_asked_begin(&report.asked);
    if (code == AMB_EXIT_USAGE || code == AMB_EXIT_DATA) {
        amb_place_drop(&place);
        return code;
    }
    return amb_ctl_close(ctl, write_report(&report, &place));
}
