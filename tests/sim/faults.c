/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Plants one fault after the other into the broker and runs seeds until one of them finds it.
 *
 *   simulate-faults [SEEDS]                     all of them, with at most so many seeds each
 *   simulate-faults NAME --seed SEED [--trace]  as simulate, with that fault
 */
#include "broker/base/fault.h"
#include "tests/sim/options.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum amb_fault amb_fault;

#define FAULT_NAME(name, text) #name,
#define FAULT_TEXT(name, text) text,
static const char *const names[] = {"NONE", AMB_FAULTS(FAULT_NAME)};
static const char *const texts[] = {"", AMB_FAULTS(FAULT_TEXT)};

/* The facts that a run has told: the seed, and the fault. False: nothing was. */
static bool read_verdict(FILE *in, uint64_t *seed, char *why, size_t size)
{
    char line[512];
    bool is_found = false;
    why[0] = '\0';
    while (fgets(line, sizeof(line), in) != NULL) {
        if (why[0] == '\0' &&
            (strncmp(line, "INVARIANT: ", 11) == 0 || strncmp(line, "SIGNAL", 6) == 0 ||
             strncmp(line, "SANITIZER", 9) == 0)) {
            (void)snprintf(why, size, "%.*s", (int)strcspn(line, "\n"), line);
        }
        is_found = is_found || sscanf(line, "  seed %" SCNu64 ",", seed) == 1;
    }
    return is_found;
}

static FILE *start(const char *program, int fault, uint64_t seeds)
{
    char command[1024];
    (void)snprintf(command, sizeof(command), "'%s' %s --seeds %" PRIu64 " 2>&1", program,
                   names[fault], seeds);
    return popen(command, "r");
}

static bool finish(FILE *in, int fault, uint64_t seeds)
{
    char why[256] = "";
    uint64_t seed = 0;
    bool is_found = in != NULL && read_verdict(in, &seed, why, sizeof(why));
    int status = in != NULL ? pclose(in) : -1;
    if (is_found) {
        (void)printf("| `%s` | %s | %" PRIu64 " | %s |\n", names[fault], texts[fault], seed, why);
    } else {
        (void)printf("| `%s` | %s | NOT FOUND in %" PRIu64 " seeds, ended with %#x | %s |\n",
                     names[fault], texts[fault], seeds, (unsigned)status, why);
    }
    (void)fflush(stdout);
    return is_found;
}

/* As many at once as there are processors; told in their order. */
static int find_all(const char *program, uint64_t seeds)
{
    FILE *running[AMB_FAULT_COUNT];
    int missed = 0, started = 1;
    long at_once = sysconf(_SC_NPROCESSORS_ONLN);
    for (int i = 1; i < AMB_FAULT_COUNT; i++) {
        while (started < AMB_FAULT_COUNT && (started == i || started - i < at_once)) {
            running[started] = start(program, started, seeds);
            started++;
        }
        missed += !finish(running[i], i, seeds);
    }
    return missed;
}

int main(int argc, char **argv)
{
    for (int i = 1; argc > 1 && i < AMB_FAULT_COUNT; i++) {
        if (strcmp(argv[1], names[i]) == 0) {
            amb_fault = (enum amb_fault)i;
            argv[1] = argv[0];
            return sim_main(argc - 1, argv + 1);
        }
    }
    uint64_t seeds = argc > 1 ? strtoull(argv[1], NULL, 10) : 3000;
    return find_all(argv[0], seeds) == 0 ? 0 : 1;
}
