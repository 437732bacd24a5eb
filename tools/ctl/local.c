/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/ctl/local.h"

#include "tools/common/units.h"
#include "tools/ctl/connect.h"
#include "tools/ctl/local/front.h"

#include <stdlib.h>

enum {
    OPT_PER_GPU = 256,
    OPT_POOL,
    OPT_SYSFS,
    OPT_BROKERD,
    OPT_BROKER_OPTION,
};

/* One option of its own; false: it is wrong, and has been said. */
static bool take_option(struct amb_ctl *ctl, struct amb_local *local, int option, const char *value)
{
    uint64_t number;
    switch (option) {
    case OPT_PER_GPU:
        local->needs_gpu = true;
        return true;
    case 'n':
        if (!amb_units_count(value, AMB_LOCAL_RANKS_MAX, &number) || number == 0) {
            (void)amb_ctl_bad("-n", value, "a number of processes, 1 to 256");
            return false;
        }
        local->count = (unsigned)number;
        return true;
    case OPT_POOL:
        if (!amb_units_size(value, &number) || number == 0) {
            (void)amb_ctl_bad("--pool", value, "a size, as 64M");
            return false;
        }
        local->pool = value;
        return true;
    case OPT_SYSFS:
        local->sysfs = value;
        return true;
    case OPT_BROKERD:
        local->brokerd = value;
        return true;
    case OPT_BROKER_OPTION:
        if (local->option_count == AMB_LOCAL_OPTIONS_MAX) {
            amb_tool_error("local: at most %u times --broker-option", AMB_LOCAL_OPTIONS_MAX);
            return false;
        }
        local->options[local->option_count++] = value;
        return true;
    default:
        return amb_ctl_option(ctl, option, value);
    }
}

enum amb_exit amb_ctl_local(struct amb_ctl *ctl, int argc, char **argv)
{
    static const struct option options[] = {
        AMB_CTL_OPTIONS,
        {"per-gpu", no_argument, NULL, OPT_PER_GPU},
        {"pool", required_argument, NULL, OPT_POOL},
        {"sysfs", required_argument, NULL, OPT_SYSFS},
        {"brokerd", required_argument, NULL, OPT_BROKERD},
        {"broker-option", required_argument, NULL, OPT_BROKER_OPTION},
        {NULL, 0, NULL, 0}};
    struct amb_local local = {.sysfs = "/sys"};
    int option;
    /* '+': stop at COMMAND; words behind it are its own. */
    while ((option = getopt_long(argc, argv, "+o:hn:", options, NULL)) != -1) {
        if (!take_option(ctl, &local, option, optarg)) {
            return AMB_EXIT_USAGE;
        }
    }
    if (ctl->is_help_wanted) {
        return AMB_EXIT_OK;
    }
    if (local.needs_gpu && local.count != 0) {
        amb_tool_error("local takes --per-gpu or -n, not both");
        return AMB_EXIT_USAGE;
    }
    if (ctl->url != NULL) {
        amb_tool_error("local has a broker of its own, and takes no --url");
        return AMB_EXIT_USAGE;
    }
    if (optind == argc) {
        amb_tool_error("local: a COMMAND is missing (broker-ctl local [OPTION]... -- COMMAND)");
        return AMB_EXIT_USAGE;
    }
    local.command = argv + optind;
    local.timeout_ns = ctl->timeout_ns;
    return (enum amb_exit)amb_local_run(&local);
}
