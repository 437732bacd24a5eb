/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/ctl/local.h"

#include "tools/ctl/local/front.h"

enum amb_exit amb_ctl_local(struct amb_ctl *ctl)
{
    const struct amb_cli_line *line = ctl->line;
    const char *sysfs = amb_cli_text(line, "sysfs");
    struct amb_local local = {
        .command = line->args,
        .count = (unsigned)amb_cli_number(line, "n", 0),
        .needs_gpu = amb_cli_has(line, "per-gpu"),
        .pool = amb_cli_text(line, "pool"),
        .sysfs = sysfs != NULL ? sysfs : "/sys",
        .brokerd = amb_cli_text(line, "brokerd"),
        .timeout_ns = ctl->timeout_ns,
    };
    size_t at = 0;
    const char *option;
    while ((option = amb_cli_next(line, "broker-option", &at)) != NULL) {
        local.options[local.option_count++] = option;
    }
    return (enum amb_exit)amb_local_run(&local);
}
