/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/ctl/top.h"

#include "tools/ctl/asked.h"
#include "tools/ctl/connect.h"
#include "tools/ctl/top/run.h"

#define ANSWER_NS (5 * AMB_SEC)

_Static_assert(AMB_CTL_NOTE_MAX == AMB_TOP_NOTE_MAX, "one note");

static enum amb_status ask(void *arg, const char *const *queries, size_t count, json_t **answers,
                           char note[AMB_TOP_NOTE_MAX])
{
    return amb_ctl_ask_all((struct amb_ctl_asked *)arg, queries, count, answers, note);
}

static bool is_stopped(void *arg)
{
    const struct amb_ctl_asked *asked = (const struct amb_ctl_asked *)arg;
    return amb_ctl_stopped() || amb_ctl_slice_ns(asked->ctl) == 0;
}

static void print(void *arg, json_t *block)
{
    struct amb_ctl *ctl = ((struct amb_ctl_asked *)arg)->ctl;
    amb_ctl_print(ctl, block);
    ctl->has_no_head = true;
}

/* While an answer is awaited, ten times a second. */
static int is_interrupted(void *arg)
{
    const struct amb_top *top = (const struct amb_top *)arg;
    return amb_ctl_stopped() || (top->is_unwanted != NULL && top->is_unwanted(top->run));
}

enum amb_exit amb_ctl_top(struct amb_ctl *ctl)
{
    const struct amb_cli_line *line = ctl->line;
    struct amb_ctl_asked asked = {
        .ctl = ctl, .file = amb_cli_text(line, "file"), .timeout_ns = ANSWER_NS};
    struct amb_top top = {
        .ask = ask,
        .is_stopped = is_stopped,
        .arg = &asked,
        .view = AMB_TOP_TOPICS,
        .match = amb_cli_text(line, "match"),
        .sort = amb_cli_text(line, "sort"),
        .interval_ns = amb_cli_ns(line, "interval", AMB_SEC),
        .blocks = amb_cli_number(line, "count", 0),
        .rows = (size_t)amb_cli_number(line, "top", 0),
        .is_wide = amb_cli_has(line, "wide"),
        .is_batch = amb_cli_has(line, "batch") || amb_cli_has(line, "count"),
        .print = ctl->form == AMB_CLI_FORM_TABLE ? NULL : print,
    };
    if (line->arg_count > 0) {
        top.view = amb_top_view_named(line->args[0]);
    }
    ctl->is_interrupted = is_interrupted;
    ctl->interrupted_arg = &top;
    enum amb_exit code = amb_ctl_asked_begin(&asked);
    return code != AMB_EXIT_OK ? code : amb_ctl_close(ctl, amb_top_run(&top));
}
