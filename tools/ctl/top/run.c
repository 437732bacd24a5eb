/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/ctl/top/run.h"

#include "tools/common/output.h"
#include "tools/ctl/top/page.h"
#include "tools/ctl/top/rows.h"
#include "tools/ctl/top/screen.h"
#include "tools/ctl/top/state.h"
#include "wire/base/clock.h"

#include <amb/amb.h>
#include <langinfo.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SLICE_NS (200 * AMB_MS) /* how long a wait may be deaf to a signal */
#define SOON_NS (500 * AMB_MS)  /* until the first rates of a view that was chosen */
#define AGAIN_NS AMB_SEC        /* at least, until a broker that did not answer is asked again */
#define RESTART_SHOWN_NS (60 * AMB_SEC)
#define BLOCK_WIDTH 100u

struct run {
    const struct amb_top *top;
    struct amb_top_state state;
    struct amb_top_sample *sample; /* NULL: there was none yet */
    int64_t next_ns;               /* of the next look */
    int64_t asked_ns;              /* since when an answer is awaited; 0: none is */
    int64_t lost_ns, restart_ns; /* since when nobody answers; when it was another broker; 0: not */
    char notice[AMB_TOP_NOTE_MAX];
    bool has_utf8, has_screen;
    uint64_t blocks;
};

/* ---- looks ---- */

static void take_notice(struct run *run, enum amb_status status, const char *why)
{
    int64_t now_ns = amb_clock_monotonic_ns();
    if (status == AMB_ECANCELED || status == AMB_ESTOPPED) {
        return; /* By the user. */
    }
    run->notice[0] = '\0';
    if (status != AMB_OK) {
        run->lost_ns = run->lost_ns == 0 ? now_ns : run->lost_ns;
        (void)snprintf(run->notice, sizeof(run->notice), "no answer for %.0f s: %.200s",
                       (double)(now_ns - run->lost_ns) / (double)AMB_SEC, why);
        return;
    }
    run->lost_ns = 0;
    if (run->sample->has_restarted) {
        run->restart_ns = now_ns;
    }
    if (run->restart_ns != 0 && now_ns - run->restart_ns < RESTART_SHOWN_NS &&
        run->sample->note[0] == '\0') {
        (void)snprintf(run->notice, sizeof(run->notice),
                       "another broker answers since %.0f s: it has restarted",
                       (double)(now_ns - run->restart_ns) / (double)AMB_SEC);
    }
}

/* False: no answer has come; the sample is the one before. */
static bool look(struct run *run)
{
    struct amb_top_sample *sample = NULL;
    char note[AMB_TOP_NOTE_MAX];
    const struct amb_top *top = run->top;
    run->asked_ns = amb_clock_monotonic_ns();
    enum amb_status status = amb_top_sample_take(top->ask, top->arg, run->state.view, top->match,
                                                 run->sample, &sample, note);
    run->asked_ns = 0;
    if (status == AMB_OK) {
        amb_top_sample_free(&run->sample);
        run->sample = sample;
    }
    take_notice(run, status, note);
    return status == AMB_OK || status == AMB_ECANCELED;
}

static bool is_over(const struct run *run)
{
    return run->top->is_stopped(run->top->arg) || run->state.is_over;
}

static struct amb_top_page page_of(const struct run *run)
{
    return (struct amb_top_page){.sample = run->sample,
                                 .notice = run->notice,
                                 .is_alarm = run->lost_ns != 0,
                                 .width = BLOCK_WIDTH,
                                 .has_utf8 = run->has_utf8};
}

/* ---- blocks ---- */

static void put_out(void *arg, size_t line, enum amb_top_style style, const char *text)
{
    (void)arg;
    (void)line;
    (void)style;
    (void)printf("%s\n", text);
}

static void print_block(struct run *run, bool is_answered)
{
    const struct amb_top *top = run->top;
    struct amb_top_page page = page_of(run);
    page.width = top->is_wide ? AMB_TOP_WIDTH_WIDE : BLOCK_WIDTH;
    if (top->print != NULL) {
        json_t *block = is_answered ? amb_top_rows(run->sample, &run->state, top->rows) : NULL;
        if (block != NULL) {
            top->print(top->arg, block);
        } else if (!is_answered) {
            amb_tool_error("top: %s", run->notice);
        }
    } else {
        (void)fputs(run->blocks > 0 ? "\n" : "", stdout);
        if (is_answered) {
            amb_top_block(&page, &run->state, top->rows, put_out, NULL);
        } else {
            (void)printf("%s\n", run->notice);
        }
    }
    run->blocks++;
}

/* False: a signal has come, or nobody reads any more. */
static bool wait_until(const struct run *run, int64_t until_ns)
{
    for (;;) {
        int64_t rest_ns = until_ns - amb_clock_monotonic_ns();
        if (is_over(run) || amb_output_is_unread()) {
            return false;
        }
        if (rest_ns <= 0) {
            return true;
        }
        rest_ns = rest_ns < SLICE_NS ? rest_ns : SLICE_NS;
        (void)nanosleep(&(struct timespec){.tv_nsec = rest_ns}, NULL);
    }
}

static enum amb_exit print_blocks(struct run *run)
{
    const struct amb_top *top = run->top;
    run->next_ns = amb_clock_monotonic_ns();
    (void)look(run); /* Rates are of two looks. */
    while (top->blocks == 0 || run->blocks < top->blocks) {
        run->next_ns += top->interval_ns;
        if (!wait_until(run, run->next_ns)) {
            break;
        }
        bool is_answered = look(run);
        if (is_over(run)) {
            break;
        }
        print_block(run, is_answered);
        if (!amb_output_flush()) {
            break;
        }
        int64_t now_ns = amb_clock_monotonic_ns();
        run->next_ns = run->next_ns > now_ns - top->interval_ns ? run->next_ns : now_ns;
    }
    return run->sample == NULL && run->lost_ns != 0 ? AMB_EXIT_UNAVAILABLE : AMB_EXIT_OK;
}

/* ---- the screen ---- */

/* The line of notices: a pause, a wait, or the result of the last look. */
static void write_notice(const struct run *run, char out[AMB_TOP_NOTE_MAX])
{
    int64_t waited_ns = run->asked_ns == 0 ? 0 : amb_clock_monotonic_ns() - run->asked_ns;
    const char *note = run->sample != NULL && run->notice[0] == '\0' ? run->sample->note : "";
    const char *behind = run->notice[0] != '\0' ? run->notice : note;
    if (run->state.is_paused) {
        (void)snprintf(out, AMB_TOP_NOTE_MAX, "paused%s%.300s", behind[0] != '\0' ? ": " : "",
                       behind);
    } else if (waited_ns >= AMB_SEC && run->lost_ns == 0) {
        (void)snprintf(out, AMB_TOP_NOTE_MAX, "an answer is awaited for %.0f s",
                       (double)(waited_ns / AMB_SEC));
    } else {
        (void)snprintf(out, AMB_TOP_NOTE_MAX, "%s", run->notice);
    }
}

static void draw(struct run *run)
{
    struct amb_top_page page = page_of(run);
    char notice[AMB_TOP_NOTE_MAX];
    write_notice(run, notice);
    page.notice = notice;
    amb_top_screen_size(&page.width, &page.height);
    amb_top_screen_begin();
    amb_top_page(&page, &run->state, amb_top_screen_put, NULL);
    amb_top_screen_end();
}

/* Looks where it is time to. True: there is something new to draw. */
static bool look_in_time(struct run *run)
{
    int64_t now_ns = amb_clock_monotonic_ns();
    bool is_due = !run->state.is_paused && now_ns >= run->next_ns;
    if (!is_due && !run->state.is_stale) {
        return false;
    }
    int64_t pause_ns = run->state.interval_ns;
    if (run->state.is_stale && pause_ns > SOON_NS) {
        pause_ns = SOON_NS;
    }
    run->state.is_stale = false;
    if (!look(run) && pause_ns < AGAIN_NS) {
        pause_ns = AGAIN_NS;
    }
    /* From its end on, so that keys have their turn where answers take long. */
    run->next_ns = amb_clock_monotonic_ns() + pause_ns;
    return true;
}

/* Keys, waited for at most so long. True: there was one. */
static bool take_keys(struct run *run, int64_t wait_ns)
{
    bool has_one = false;
    for (;;) {
        uint32_t key = amb_top_screen_key(has_one ? 0 : wait_ns);
        if (key == 0) {
            return has_one;
        }
        has_one = true;
        if (key == UINT32_MAX) {
            run->state.is_over = true;
            return true;
        }
        int64_t before_ns = run->state.interval_ns;
        amb_top_state_key(&run->state, key);
        run->next_ns += run->state.interval_ns - before_ns;
    }
}

static int64_t until_next_ns(const struct run *run)
{
    int64_t wait_ns = run->next_ns - amb_clock_monotonic_ns();
    return run->state.is_paused || wait_ns > SLICE_NS ? SLICE_NS : wait_ns;
}

/* While an answer is awaited. */
static bool is_unwanted(void *arg)
{
    struct run *run = (struct run *)arg;
    if (run->has_screen) {
        bool is_long = amb_clock_monotonic_ns() - run->asked_ns >= AMB_SEC;
        if (take_keys(run, 0) || is_long) {
            draw(run);
        }
    }
    return is_over(run) || run->state.is_stale;
}

static enum amb_exit show_screen(struct run *run)
{
    char why[AMB_TOP_NOTE_MAX];
    bool is_new = true;
    run->state.is_stale = true;
    if (!amb_top_screen_enter(getenv("NO_COLOR") == NULL, why)) {
        amb_tool_error("top: %s; --batch needs none", why);
        return AMB_EXIT_SOFTWARE;
    }
    run->has_screen = true;
    draw(run);
    while (!is_over(run)) {
        is_new = look_in_time(run) || is_new;
        if (is_new) {
            draw(run);
        }
        is_new = take_keys(run, until_next_ns(run));
    }
    run->has_screen = false;
    amb_top_screen_leave();
    return AMB_EXIT_OK;
}

/* ---- together ---- */

/* False: it has been said. */
static bool set_sort(struct run *run)
{
    const struct amb_top_lens *lens = amb_top_lens(run->state.view);
    const char *title = run->top->sort;
    size_t column = title == NULL ? lens->sort : amb_top_column(lens, title);
    if (column >= lens->count) {
        char titles[256] = "";
        for (size_t i = 0, used = 0; i < lens->count && used < sizeof(titles); i++) {
            used += (size_t)snprintf(titles + used, sizeof(titles) - used, "%s%s",
                                     i > 0 ? ", " : "", lens->columns[i].title);
        }
        amb_tool_error("top --sort: %s has no column '%.40s', only %s", lens->query, title, titles);
        return false;
    }
    run->state.orders[run->state.view].column = column;
    return true;
}

enum amb_exit amb_top_run(struct amb_top *top)
{
    struct run run = {.top = top};
    top->is_unwanted = is_unwanted;
    top->run = &run;
    bool is_batch = top->is_batch || top->print != NULL || !amb_top_screen_is_possible();
    (void)setlocale(LC_CTYPE, "");
    run.has_utf8 = strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
    amb_top_state_init(&run.state, top->view, top->interval_ns);
    if (!set_sort(&run)) {
        return AMB_EXIT_USAGE;
    }
    enum amb_exit code = is_batch ? print_blocks(&run) : show_screen(&run);
    amb_top_sample_free(&run.sample);
    top->is_unwanted = NULL;
    return code;
}
