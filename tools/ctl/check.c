/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/ctl/check.h"

#include "tools/ctl/connect.h"
#include "tools/ctl/judge.h"

#include <stdio.h>

/* False: it has been said. */
static bool take_limit(const struct amb_ctl *ctl, enum amb_judge judge, const char *name,
                       double *out)
{
    const char *text = amb_cli_text(ctl->line, name);
    if (text == NULL || amb_judge_limit(judge, text, out)) {
        return true;
    }
    amb_tool_error("check %s --%s '%.80s': takes %s", ctl->line->args[0], name, text,
                   amb_judge_takes(judge));
    return false;
}

/* The broker's answer; NULL: out says why there is none. */
static json_t *ask(struct amb_ctl *ctl, enum amb_judge judge, struct amb_judgement *out)
{
    struct amb_msg *answer;
    enum amb_status status =
        amb_admin(ctl->conn, amb_judge_query(judge), amb_ctl_answer_ns(ctl), &answer);
    if (status != AMB_OK) {
        struct amb_error error = amb_last_error(ctl->conn);
        amb_judge_silence(judge, status == AMB_EFORBIDDEN,
                          error.status == status && error.text[0] != '\0' ? error.text
                                                                          : amb_strerror(status),
                          out);
        return NULL;
    }
    json_t *value = amb_ctl_take_json(answer);
    if (value == NULL) {
        amb_judge_silence(judge, true, "the broker's answer is not JSON", out);
    }
    return value;
}

static void print(const struct amb_ctl *ctl, const struct amb_judgement *judgement)
{
    if (!ctl->is_json) {
        (void)printf("%s\n", judgement->text);
        return;
    }
    amb_ctl_print(ctl, json_pack("{s:s, s:s, s:f, s:f, s:f, s:s}", "check", ctl->line->args[0],
                                 "state", amb_judge_state(judgement->state), "value",
                                 judgement->value, "warn", judgement->warn, "critical",
                                 judgement->critical, "text", judgement->text));
}

enum amb_exit amb_ctl_check(struct amb_ctl *ctl)
{
    enum amb_judge judge = amb_judge_named(ctl->line->args[0]);
    double warn, critical;
    struct amb_judgement judgement;
    amb_judge_limits(judge, &warn, &critical);
    if (!take_limit(ctl, judge, "warn", &warn) || !take_limit(ctl, judge, "critical", &critical)) {
        return AMB_EXIT_USAGE;
    }
    if (warn > critical) {
        amb_tool_error("check %s --warn: is above --critical", ctl->line->args[0]);
        return AMB_EXIT_USAGE;
    }
    enum amb_exit code = amb_ctl_connect(ctl);
    if (code == AMB_EXIT_USAGE) {
        return code;
    }
    if (code != AMB_EXIT_OK) {
        amb_judge_silence(judge, code == AMB_EXIT_FORBIDDEN, "no session with the broker",
                          &judgement);
    } else {
        json_t *answer = ask(ctl, judge, &judgement);
        if (answer != NULL) {
            amb_judge(judge, answer, warn, critical, &judgement);
            json_decref(answer);
        }
        (void)amb_ctl_close(ctl, AMB_EXIT_SOFTWARE);
    }
    print(ctl, &judgement);
    static const enum amb_exit codes[] = {AMB_EXIT_OK, AMB_EXIT_WARNING, AMB_EXIT_CRITICAL,
                                          AMB_EXIT_UNKNOWN};
    return codes[judgement.state];
}
