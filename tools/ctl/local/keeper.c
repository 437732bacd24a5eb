/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/ctl/local/keeper.h"

#include "tools/common/exit.h"
#include "tools/ctl/local/below.h"
#include "tools/ctl/local/loop.h"
#include "tools/ctl/local/start.h"
#include "wire/base/clock.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#define STOP_NS (5 * AMB_NS_PER_SEC) /* for the broker's own end, and for a reader's last lines */

/* Until the ranks have ended. Those that do not end in time are killed; by a second signal that is
 * what the user wants, and else it is said. */
static void await_ranks(struct amb_loop *loop)
{
    bool is_known = false;
    while (loop->left > 0) {
        int64_t now_ns = amb_clock_monotonic_ns();
        if (loop->is_ending && now_ns >= loop->kill_ns) {
            if (loop->kill_ns != 0 && !is_known) {
                amb_loop_say(loop, "%u of %u processes have not ended in time, and are killed",
                             loop->left, loop->count);
            }
            is_known = true;
            amb_loop_signal(loop, SIGKILL);
            loop->kill_ns = amb_deadline_ns(now_ns, AMB_LOOP_KILLED_NS);
        }
        (void)amb_loop_turn(loop, -1, loop->is_ending ? loop->kill_ns : INT64_MAX);
    }
}

/* The processes that the ranks have left behind. */
static void kill_left(struct amb_loop *loop)
{
    const struct amb_below_spared broker = {.count = 1, .pids = {loop->broker}};
    int64_t until_ns = amb_deadline_ns(amb_clock_monotonic_ns(), AMB_LOOP_KILLED_NS);
    while (amb_below_kill(&broker) > 0 && amb_clock_monotonic_ns() < until_ns) {
        (void)amb_loop_turn(loop, -1, amb_deadline_ns(amb_clock_monotonic_ns(), 5 * AMB_NS_PER_MS));
    }
}

static void stop_broker(struct amb_loop *loop)
{
    int64_t until_ns = amb_deadline_ns(amb_clock_monotonic_ns(), STOP_NS);
    loop->is_broker_wanted = false;
    if (loop->broker > 0) {
        (void)kill(loop->broker, SIGTERM);
    }
    while (loop->broker > 0) {
        if (amb_clock_monotonic_ns() >= until_ns || loop->terms > 1) {
            (void)kill(loop->broker, SIGKILL);
            until_ns = amb_deadline_ns(amb_clock_monotonic_ns(), AMB_LOOP_KILLED_NS);
        }
        (void)amb_loop_turn(loop, -1, until_ns);
    }
}

static bool has_open_lines(const struct amb_loop *loop)
{
    for (unsigned i = 0; i < loop->line_count; i++) {
        if (loop->lines[i].fd >= 0 || loop->lines[i].len > 0) {
            return true;
        }
    }
    return false;
}

/* The lines on their way in pipes and sinks, however long a reader takes. A signal ends that. If it
 * was told to end, a reader has some seconds. */
static void write_last(struct amb_loop *loop)
{
    unsigned terms = loop->terms;
    int64_t told_ns = 0;
    int64_t until_ns = amb_deadline_ns(amb_clock_monotonic_ns(), AMB_LOOP_KILLED_NS);
    while (loop->terms == terms) {
        bool has_sunk = loop->out.len == 0 && loop->err.len == 0;
        /* A pipe that still has a writer then is one of a process that is out of our reach. */
        bool is_through = !has_open_lines(loop) || amb_clock_monotonic_ns() >= until_ns;
        if (loop->is_told && told_ns == 0) {
            told_ns = amb_clock_monotonic_ns();
        }
        bool is_late = loop->is_told && amb_clock_monotonic_ns() - told_ns >= STOP_NS;
        if ((has_sunk && is_through) || is_late) {
            return;
        }
        (void)amb_loop_turn(loop, -1, has_sunk ? until_ns : INT64_MAX);
    }
}

static void end_all(struct amb_loop *loop)
{
    if (loop->left > 0) {
        amb_loop_begin_end(loop, SIGTERM);
    }
    await_ranks(loop);
    kill_left(loop);
    stop_broker(loop);
    if (!amb_below_end(NULL, AMB_LOOP_KILLED_NS)) {
        amb_loop_say(loop, "some processes have not ended, and are left");
    }
    write_last(loop);
    amb_folder_remove(loop->local->folder);
}

int amb_keeper_run(const struct amb_local *local, int alive_fd)
{
    static struct amb_loop keeper;
    struct amb_loop *loop = &keeper;
    sigset_t set;
    *loop = (struct amb_loop){.local = local, .alive_fd = alive_fd, .ready_fd = -1};
    loop->out.fd = STDOUT_FILENO;
    loop->err.fd = STDERR_FILENO;
    loop->limit_ns = local->timeout_ns < 0
                         ? INT64_MAX
                         : amb_deadline_ns(amb_clock_monotonic_ns(), local->timeout_ns);
    amb_local_signals(&set);
    amb_below_adopt();
    loop->signal_fd = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
    loop->fds = calloc(AMB_LOOP_LINES, sizeof(*loop->fds));
    if (loop->signal_fd < 0 || loop->fds == NULL) {
        amb_tool_error("local: %s", strerror(errno));
        return AMB_EXIT_SOFTWARE;
    }
    if (amb_start_gpus(loop) && amb_start_broker(loop) && amb_start_ranks(loop)) {
        await_ranks(loop);
    }
    end_all(loop);
    return loop->code;
}
