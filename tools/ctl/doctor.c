/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/ctl/doctor.h"

#include "tools/common/findings.h"
#include "tools/common/output.h"
#include "tools/ctl/admin.h"
#include "tools/ctl/connect.h"
#include "tools/ctl/doctor_load.h"
#include "tools/ctl/doctor_reach.h"
#include "tools/ctl/view.h"
#include "wire/doctor/checks.h"
#include "wire/doctor/host.h"

#include <stdlib.h>
#include <string.h>

#define FIX_MAX 512u

/* ---- this side ---- */

static bool has_row(const json_t *rows, const json_t *row)
{
    for (size_t i = 0; i < json_array_size(rows); i++) {
        if (json_equal(json_array_get(rows, i), row)) {
            return true;
        }
    }
    return false;
}

/* Appends those of this process. A finding that the broker has, too, is left out. */
static void add_own(json_t *rows)
{
    char version[160];
    const char *trusted = getenv("AMB_TRUSTED");
    json_t *own = json_array();
    if (amb_doctor_driver(amb_doctor_root(), version, sizeof(version))) {
        (void)amb_doctor_devices(amb_doctor_root(), own);
    }
    if (trusted != NULL && trusted[0] != '\0') {
        amb_doctor_variables(amb_doctor_root(), own);
    }
    for (size_t i = 0; i < json_array_size(own); i++) {
        json_t *row = json_array_get(own, i);
        if (!has_row(rows, row)) {
            (void)json_array_append(rows, row);
        }
    }
    json_decref(own);
}

/* ---- printing ---- */

/* Takes the rows. */
static enum amb_exit print(struct amb_ctl *ctl, json_t *rows)
{
    static const enum amb_findings_form forms[] = {
        [AMB_CLI_FORM_TABLE] = AMB_FINDINGS_TEXT,
        [AMB_CLI_FORM_JSON] = AMB_FINDINGS_JSON,
        [AMB_CLI_FORM_JSONL] = AMB_FINDINGS_JSONL,
        [AMB_CLI_FORM_CSV] = AMB_FINDINGS_CSV,
    };
    const struct amb_cli_line *line = ctl->line;
    ctl->found = (enum amb_exit)amb_doctor_exit(rows);
    bool is_table =
        amb_cli_has(line, "columns") ||
        (ctl->form == AMB_CLI_FORM_TABLE && (ctl->width == 0 || amb_cli_has(line, "no-header")));
    if (is_table) {
        return amb_ctl_show(ctl, json_pack("{s:o}", "doctor", rows));
    }
    amb_findings_print(rows, forms[ctl->form], !ctl->has_no_head, stdout);
    json_decref(rows);
    return AMB_EXIT_OK;
}

/* ---- the broker ---- */

/* The broker's answer; NULL: there is none, and *status says why. */
static json_t *ask(struct amb_ctl *ctl, const char *query, enum amb_status *status)
{
    struct amb_msg *answer;
    *status = amb_admin(ctl->conn, query, amb_ctl_answer_ns(ctl), &answer);
    if (*status != AMB_OK) {
        return NULL;
    }
    json_t *value = amb_ctl_take_json(answer);
    *status = value != NULL ? AMB_OK : AMB_EPROTO;
    return value;
}

/* Figures; views that this user may not see are left out. */
static void add_load(struct amb_ctl *ctl, json_t *rows)
{
    static const char *const queries[] = {"status", "subs sort=lost_slow top=3",
                                          "subs sort=pending_bytes top=3"};
    json_t *answers[sizeof(queries) / sizeof(queries[0])];
    enum amb_status status;
    for (size_t i = 0; i < sizeof(queries) / sizeof(queries[0]); i++) {
        answers[i] = ask(ctl, queries[i], &status);
    }
    amb_doctor_load(answers[0], answers[1], answers[2], rows);
    for (size_t i = 0; i < sizeof(queries) / sizeof(queries[0]); i++) {
        json_decref(answers[i]);
    }
}

static enum amb_exit show(struct amb_ctl *ctl, const char *query)
{
    enum amb_status status;
    json_t *answer = ask(ctl, query, &status);
    if (answer == NULL) {
        return amb_ctl_fail(ctl, query, status);
    }
    json_t *rows = json_incref(json_object_get(answer, "doctor"));
    json_decref(answer);
    if (!json_is_array(rows)) {
        json_decref(rows);
        amb_tool_error("%s: the broker's answer has no rows", query);
        return AMB_EXIT_SOFTWARE;
    }
    add_load(ctl, rows);
    add_own(rows);
    return print(ctl, rows);
}

/* No session: that is a finding, beside those of this side. */
static enum amb_exit show_silence(struct amb_ctl *ctl, enum amb_exit code)
{
    char fix[FIX_MAX];
    json_t *rows = json_array();
    amb_doctor_find(rows, AMB_DOCTOR_BROKER_SILENT, "why", ctl->why, "fix",
                    amb_doctor_reach(amb_ctl_url(ctl), code, fix, sizeof(fix)), NULL);
    add_own(rows);
    enum amb_exit printed = print(ctl, rows);
    return printed != AMB_EXIT_OK ? printed : code;
}

enum amb_exit amb_ctl_doctor(struct amb_ctl *ctl)
{
    int64_t every_ns = amb_ctl_take_form(ctl);
    enum amb_exit code = amb_ctl_connect(ctl);
    if (code == AMB_EXIT_USAGE) {
        return code;
    }
    if (code != AMB_EXIT_OK) {
        return show_silence(ctl, code);
    }
    code = every_ns > 0 ? amb_ctl_watch(ctl, ctl->query, every_ns, show) : show(ctl, ctl->query);
    code = amb_ctl_close(ctl, code);
    return code != AMB_EXIT_OK ? code : ctl->found;
}
