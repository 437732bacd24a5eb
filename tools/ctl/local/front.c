/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/ctl/local/front.h"

#include "tools/common/exit.h"
#include "tools/ctl/local/below.h"
#include "tools/ctl/local/keeper.h"
#include "tools/ctl/local/loop.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* Pipes must not get the numbers of standard descriptors that the caller has closed. */
static void fill_standard(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        if (fcntl(fd, F_GETFD) < 0) {
            (void)open("/dev/null", O_RDWR); /* The lowest number that is free: this one. */
        }
    }
}

/* The status of the keeper once it has ended. */
static int pass_signals(pid_t keeper, const sigset_t *set)
{
    for (;;) {
        int status, number = sigwaitinfo(set, NULL);
        if (number == SIGCHLD) {
            if (waitpid(keeper, &status, WNOHANG) == keeper) {
                return status;
            }
        } else if (number > 0) {
            (void)kill(keeper, number);
        }
        if (number == SIGTSTP) {
            (void)raise(SIGSTOP); /* As its caller's shell expects; the keeper goes on. */
        }
    }
}

static int wait_for(struct amb_local *local, pid_t keeper, const sigset_t *set,
                    struct amb_below_spared *others)
{
    int status = pass_signals(keeper, set);
    bool is_clear = amb_below_end(others, AMB_LOOP_KILLED_NS);
    amb_folder_remove(local->folder);
    if (WIFEXITED(status)) {
        return WEXITSTATUS(status);
    }
    amb_tool_error("local: the process that kept the others was ended by signal %d%s",
                   WTERMSIG(status), is_clear ? ", and so were they" : "; some are left");
    return AMB_EXIT_SOFTWARE;
}

int amb_local_run(struct amb_local *local)
{
    int alive[2];
    sigset_t set;
    struct amb_below_spared others;
    fill_standard();
    if (!amb_below_look(&others)) {
        if (others.count < AMB_BELOW_SPARED_MAX) {
            amb_tool_error("local: /proc: %s", strerror(errno));
        } else {
            amb_tool_error("local: it already has more than %u children", AMB_BELOW_SPARED_MAX);
        }
        return AMB_EXIT_SOFTWARE;
    }
    if (pipe2(alive, O_CLOEXEC) != 0) {
        amb_tool_error("local: %s", strerror(errno));
        return AMB_EXIT_SOFTWARE;
    }
    if (!amb_folder_make("broker-local", local->folder)) {
        amb_tool_error("local: %s: %s", local->folder, strerror(errno));
        return AMB_EXIT_SOFTWARE;
    }
    (void)signal(SIGCHLD, SIG_DFL); /* Ignored, it would take the statuses with it. */
    amb_local_signals(&set);
    (void)sigprocmask(SIG_BLOCK, &set, &local->mask);
    amb_below_adopt();
    (void)fflush(NULL);
    pid_t keeper = fork();
    if (keeper == 0) {
        (void)setpgid(0, 0); /* A terminal's signals come to broker-ctl alone, which passes them. */
        (void)prctl(PR_SET_PDEATHSIG, SIGCONT); /* Stopped, it would not see broker-ctl's end. */
        local->is_ttou_ignored = signal(SIGTTOU, SIG_IGN) == SIG_IGN;
        (void)close(alive[1]);
        _exit(amb_keeper_run(local, alive[0]));
    }
    (void)close(alive[0]);
    if (keeper < 0) {
        amb_tool_error("local: %s", strerror(errno));
        amb_folder_remove(local->folder);
        return AMB_EXIT_SOFTWARE;
    }
    return wait_for(local, keeper, &set, &others);
}
