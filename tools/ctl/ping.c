/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/ctl/ping.h"

#include "tools/common/output.h"
#include "tools/common/units.h"
#include "tools/ctl/connect.h"
#include "wire/base/clock.h"

#include <inttypes.h>
#include <stdio.h>

#define COUNT 4u

struct ping {
    struct amb_ctl *ctl;
    uint64_t count, answered;
    int64_t interval_ns;
    int64_t least_ns, most_ns, sum_ns;
};

static void show(const struct ping *p, uint64_t number, int64_t took_ns)
{
    char text[32];
    if (p->ctl->is_json) {
        amb_ctl_print(p->ctl, json_pack("{s:I, s:I}", "number", (json_int_t)number, "round_trip_ns",
                                        (json_int_t)took_ns));
        p->ctl->has_no_head = true;
        return;
    }
    amb_units_format_ns((double)took_ns, text, sizeof(text));
    (void)printf("%s: %" PRIu64 ": %s\n", amb_ctl_url(p->ctl), number, text);
}

/* Least, mean and most. */
static void show_all(const struct ping *p)
{
    char least[32], mean[32], most[32];
    if (p->ctl->is_json || p->answered == 0) {
        return;
    }
    amb_units_format_ns((double)p->least_ns, least, sizeof(least));
    amb_units_format_ns((double)p->sum_ns / (double)p->answered, mean, sizeof(mean));
    amb_units_format_ns((double)p->most_ns, most, sizeof(most));
    (void)printf("%" PRIu64 " of %" PRIu64 " answered: at least %s, on average %s, at most %s\n",
                 p->answered, p->count, least, mean, most);
}

static enum amb_status ping_once(struct ping *p, uint64_t number)
{
    struct amb_msg *answer;
    int64_t begin_ns = amb_clock_monotonic_ns();
    enum amb_status status = amb_admin(p->ctl->conn, "ping", amb_ctl_answer_ns(p->ctl), &answer);
    if (status == AMB_OK) {
        int64_t took_ns = amb_clock_monotonic_ns() - begin_ns;
        amb_msg_release(answer);
        p->least_ns = p->answered == 0 || took_ns < p->least_ns ? took_ns : p->least_ns;
        p->most_ns = took_ns > p->most_ns ? took_ns : p->most_ns;
        p->sum_ns += took_ns;
        p->answered++;
        show(p, number, took_ns);
    }
    return status;
}

/* False: a signal has come, or nobody reads. Without its broker a rest is over: the next question
 * tells why. */
static bool rest(const struct ping *p)
{
    int64_t until_ns = amb_deadline_ns(amb_clock_monotonic_ns(), p->interval_ns);
    bool has_broker = true;
    while (has_broker && amb_clock_monotonic_ns() < until_ns) {
        int64_t left_ns = until_ns - amb_clock_monotonic_ns();
        left_ns = left_ns < AMB_CTL_SLICE_NS ? left_ns : AMB_CTL_SLICE_NS;
        enum amb_status status = amb_poll(p->ctl->conn, left_ns > 0 ? left_ns : 0);
        if (amb_ctl_stopped() || amb_output_is_unread()) {
            return false;
        }
        has_broker = status == AMB_OK || status == AMB_ETIMEDOUT || status == AMB_EAGAIN;
    }
    return true;
}

static enum amb_exit ping_all(struct ping *p)
{
    for (uint64_t i = 1; i <= p->count; i++) {
        enum amb_status status = ping_once(p, i);
        if (status != AMB_OK) {
            return amb_ctl_fail(p->ctl, "ping", status);
        }
        if (!amb_output_flush() || (i < p->count && !rest(p))) {
            break;
        }
    }
    show_all(p);
    return p->answered == p->count ? AMB_EXIT_OK : AMB_EXIT_TIMEOUT;
}

enum amb_exit amb_ctl_ping(struct amb_ctl *ctl)
{
    struct ping p = {
        .ctl = ctl,
        .count = amb_cli_number(ctl->line, "count", COUNT),
        .interval_ns = amb_cli_ns(ctl->line, "interval", AMB_SEC),
    };
    enum amb_exit code = amb_ctl_connect(ctl);
    if (code == AMB_EXIT_OK) {
        code = ping_all(&p);
    }
    return amb_ctl_close(ctl, code);
}
