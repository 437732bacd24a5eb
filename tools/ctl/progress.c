/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/ctl/progress.h"

#include "tools/common/units.h"
#include "wire/base/clock.h"

#include <stdio.h>
#include <unistd.h>

#define DRAW_NS (100 * AMB_NS_PER_MS)
#define BAR_WIDTH 30

void amb_progress_start(struct amb_progress_bar *bar, uint64_t total_bytes)
{
    int64_t now_ns = amb_clock_monotonic_ns();
    *bar = (struct amb_progress_bar){
        .is_shown = isatty(STDERR_FILENO) == 1,
        .start_ns = now_ns,
        .drawn_ns = now_ns,
        .total_bytes = total_bytes,
    };
}

static void draw(const struct amb_progress_bar *bar, int64_t now_ns)
{
    char done[32];
    char rate[32];
    double seconds = (double)(now_ns - bar->start_ns) / (double)AMB_NS_PER_SEC;
    amb_units_format_bytes((double)bar->done_bytes, done, sizeof(done));
    amb_units_format_bytes((double)bar->done_bytes / seconds, rate, sizeof(rate));
    if (bar->total_bytes == 0) {
        (void)fprintf(stderr, "\r%s  %s/s\033[K", done, rate);
        return;
    }
    double share = (double)bar->done_bytes / (double)bar->total_bytes;
    share = share > 1 ? 1 : share;
    int filled = (int)(share * BAR_WIDTH);
    (void)fprintf(stderr, "\r[%.*s%*s] %3.0f%%  %s  %s/s\033[K", filled,
                  "##############################", BAR_WIDTH - filled, "", share * 100, done,
                  rate);
}

void amb_progress_add(struct amb_progress_bar *bar, uint64_t bytes)
{
    bar->done_bytes += bytes;
    if (!bar->is_shown) {
        return;
    }
    int64_t now_ns = amb_clock_monotonic_ns();
    if (now_ns - bar->drawn_ns >= DRAW_NS) {
        bar->drawn_ns = now_ns;
        draw(bar, now_ns);
    }
}

void amb_progress_end(struct amb_progress_bar *bar)
{
    if (bar->is_shown && bar->drawn_ns != bar->start_ns) {
        (void)fputs("\r\033[K", stderr);
    }
}
