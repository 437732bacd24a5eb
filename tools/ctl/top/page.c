/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/ctl/top/page.h"

#include "tools/common/units.h"
#include "tools/ctl/top/cell.h"

#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define NAME_MIN 20u    /* places of the first column, where there are so many */
#define NUMBER_WIDTH 8u /* "1023 MiB" */
#define TEXT_WIDTH 10u
#define ID_WIDTH 7u   /* a process's number, too */
#define HEAD_LINES 6u /* above the rows of a screen */
#define FIGURE_MAX 32u
#define LINE_MAX 1024u
#define CELL_BYTES AMB_TOP_CELL_BYTES(AMB_TOP_WIDTH_MAX)

/* Lines on their way out. */
struct lines {
    amb_top_put put;
    void *arg;
    size_t next, width, height;
    bool has_utf8;
};

/* `text` has been through amb_top_text, or is of ASCII; it is cut to the width. */
static void put_line(struct lines *lines, enum amb_top_style style, const char *text)
{
    if (lines->next < lines->height) {
        lines->put(lines->arg, lines->next, style, text);
    }
    lines->next++;
}

/* Texts with strangers' words in them. */
static void put_text(struct lines *lines, enum amb_top_style style, const char *text)
{
    char shown[CELL_BYTES];
    (void)amb_top_text(text, lines->width, lines->has_utf8, shown, sizeof(shown));
    put_line(lines, style, shown);
}

/* ---- the head ---- */

/* "12.3 k", or "-" where it is not known. */
static const char *total(const struct amb_top_sample *sample, const char *title,
                         enum amb_top_kind kind, char out[FIGURE_MAX])
{
    double value;
    if (amb_top_sample_sum(sample->workers, title, &value)) {
        amb_top_number(kind, value, out, FIGURE_MAX);
    } else {
        (void)snprintf(out, FIGURE_MAX, "-");
    }
    return out;
}

static double status_number(const struct amb_top_sample *sample, const char *key)
{
    return json_number_value(json_object_get(sample->status, key));
}

static void put_name(struct lines *lines, const struct amb_top_sample *sample)
{
    char text[LINE_MAX], when[32], uptime[FIGURE_MAX];
    time_t seconds = (time_t)(sample->real_ns / 1000000000);
    struct tm parts = {0};
    (void)strftime(when, sizeof(when), "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&seconds, &parts));
    const char *name = json_string_value(json_object_get(sample->status, "name"));
    const char *version = json_string_value(json_object_get(sample->status, "version"));
    double uptime_s = status_number(sample, "uptime_s");
    amb_units_format_ns(uptime_s * 1e9, uptime, sizeof(uptime));
    if (sample->status == NULL) {
        (void)snprintf(text, sizeof(text), "%s  the broker's totals are not for this user", when);
    } else {
        (void)snprintf(text, sizeof(text), "%s  %s %s, process %.0f, up %s%s", when,
                       name == NULL ? "?" : name, version == NULL ? "?" : version,
                       status_number(sample, "pid"), uptime_s > 0 ? uptime : "0 s",
                       status_number(sample, "draining") > 0 ? ", draining" : "");
    }
    put_text(lines, AMB_TOP_BOLD, text);
}

static void put_totals(struct lines *lines, const struct amb_top_sample *sample)
{
    char text[LINE_MAX], in[FIGURE_MAX], in_bytes[FIGURE_MAX], out[FIGURE_MAX],
        out_bytes[FIGURE_MAX], lost[FIGURE_MAX], all[FIGURE_MAX];
    double losing;
    bool is_losing = amb_top_sample_sum(sample->workers, "LOST/S", &losing) && losing > 0;
    (void)snprintf(
        text, sizeof(text), "in %s msg/s %s/s  out %s msg/s %s/s  lost %s msg/s, %s so far",
        total(sample, "IN/S", AMB_TOP_RATE, in),
        total(sample, "BYTES IN/S", AMB_TOP_BYTE_RATE, in_bytes),
        total(sample, "OUT/S", AMB_TOP_RATE, out),
        total(sample, "BYTES OUT/S", AMB_TOP_BYTE_RATE, out_bytes),
        total(sample, "LOST/S", AMB_TOP_RATE, lost), total(sample, "LOST", AMB_TOP_COUNT, all));
    put_text(lines, is_losing ? AMB_TOP_ALARM : AMB_TOP_PLAIN, text);
}

static void put_limits(struct lines *lines, const struct amb_top_sample *sample)
{
    char text[LINE_MAX], used[FIGURE_MAX], limit[FIGURE_MAX];
    double bytes = status_number(sample, "memory_used_bytes"),
           limit_bytes = status_number(sample, "memory_limit_bytes");
    bool is_full = limit_bytes > 0 && bytes * 10 >= limit_bytes * 9;
    amb_units_format_bytes(bytes, used, sizeof(used));
    amb_units_format_bytes(limit_bytes, limit, sizeof(limit));
    (void)snprintf(text, sizeof(text),
                   "memory %s of %s  clients %.0f of %.0f  topics %.0f of %.0f  "
                   "subscriptions %.0f of %.0f",
                   used, limit, status_number(sample, "clients"),
                   status_number(sample, "clients_limit"), status_number(sample, "topics"),
                   status_number(sample, "topics_limit"), status_number(sample, "subscriptions"),
                   status_number(sample, "subscriptions_limit"));
    put_text(lines, is_full ? AMB_TOP_ALARM : AMB_TOP_PLAIN, sample->status == NULL ? "" : text);
}

static void put_note(struct lines *lines, const struct amb_top_page *page)
{
    bool has_notice = page->notice[0] != '\0' || page->sample == NULL;
    const char *note = has_notice ? page->notice : page->sample->note;
    put_text(lines, has_notice && !page->is_alarm ? AMB_TOP_BOLD : AMB_TOP_ALARM, note);
}

static void put_head(struct lines *lines, const struct amb_top_page *page)
{
    if (page->sample == NULL) {
        put_text(lines, AMB_TOP_BOLD, "no figures yet");
        put_line(lines, AMB_TOP_PLAIN, "");
        put_line(lines, AMB_TOP_PLAIN, "");
    } else {
        put_name(lines, page->sample);
        put_totals(lines, page->sample);
        put_limits(lines, page->sample);
    }
    put_note(lines, page);
}

/* ---- columns ---- */

/* Those that there is room for. */
struct layout {
    const struct amb_top_lens *lens;
    size_t columns[AMB_TOP_COLUMNS_MAX], widths[AMB_TOP_COLUMNS_MAX], count;
};

static size_t width_of(const struct amb_top_column *column)
{
    size_t title = strlen(column->title);
    size_t least = column->kind == AMB_TOP_TEXT     ? TEXT_WIDTH
                   : column->kind == AMB_TOP_NUMBER ? ID_WIDTH
                                                    : NUMBER_WIDTH;
    return title > least ? title : least;
}

/* The first column has the rest; the one that rows are in the order of goes before others. */
static void lay_out(struct layout *layout, const struct amb_top_lens *lens, size_t sort,
                    size_t width)
{
    size_t used = width < NAME_MIN ? width : NAME_MIN;
    bool is_in[AMB_TOP_COLUMNS_MAX] = {true};
    *layout = (struct layout){.lens = lens};
    for (size_t pass = 0; pass < 2; pass++) {
        for (size_t i = pass == 0 ? sort : 1; i < lens->count; i++) {
            size_t more = 1 + width_of(&lens->columns[i]);
            if (!is_in[i] && used + more <= width) {
                is_in[i] = true;
                used += more;
            }
            if (pass == 0) {
                break;
            }
        }
    }
    for (size_t i = 0; i < lens->count; i++) {
        if (is_in[i]) {
            layout->columns[layout->count] = i;
            layout->widths[layout->count++] = width_of(&lens->columns[i]);
        }
    }
    used -= width < NAME_MIN ? width : NAME_MIN;
    layout->widths[0] = width - used;
}

/* Appends a cell; numbers stand to the right. */
static void add_cell(FILE *out, const char *text, size_t places, size_t width, bool is_right)
{
    int blanks = places < width ? (int)(width - places) : 0;
    if (is_right) {
        (void)fprintf(out, "%*s%s", blanks, "", text);
    } else {
        (void)fprintf(out, "%s%*s", text, blanks, "");
    }
}

static bool is_right(const struct amb_top_column *column)
{
    return column->kind != AMB_TOP_TEXT;
}

/* A line of cells, without blanks at its end, for free(); NULL: no memory. */
static char *line_of(const struct layout *layout, const struct amb_top_row *row, bool has_utf8)
{
    char *line = NULL, cell[CELL_BYTES];
    size_t size = 0;
    FILE *out = open_memstream(&line, &size);
    if (out == NULL) {
        return NULL;
    }
    for (size_t i = 0; i < layout->count; i++) {
        size_t at = layout->columns[i], width = layout->widths[i], places;
        const struct amb_top_column *column = &layout->lens->columns[at];
        bool is_known = row != NULL && (row->known >> at & 1u) != 0;
        char number[FIGURE_MAX] = "-";
        const char *text = number;
        if (row == NULL) {
            text = column->title;
        } else if (column->kind == AMB_TOP_TEXT) {
            text = amb_top_row_text(row, column);
        } else if (is_known) {
            amb_top_number(column->kind, row->value[at], number, sizeof(number));
        }
        places = amb_top_text(text, width, has_utf8, cell, sizeof(cell));
        (void)fputs(i > 0 ? " " : "", out);
        add_cell(out, cell, places, width, is_right(column) && i > 0);
    }
    if (fclose(out) != 0) {
        free(line);
        return NULL;
    }
    for (size_t len = strlen(line); len > 0 && line[len - 1] == ' '; len--) {
        line[len - 1] = '\0';
    }
    return line;
}

static bool is_losing(const struct amb_top_lens *lens, const struct amb_top_row *row)
{
    for (size_t i = 0; i < lens->count; i++) {
        if (lens->columns[i].is_loss && (row->known >> i & 1u) != 0 && row->value[i] > 0) {
            return true;
        }
    }
    return false;
}

static void put_cells(struct lines *lines, const struct layout *layout,
                      const struct amb_top_row *row)
{
    char *line = line_of(layout, row, lines->has_utf8);
    enum amb_top_style style = row == NULL                    ? AMB_TOP_TITLE
                               : is_losing(layout->lens, row) ? AMB_TOP_ALARM
                                                              : AMB_TOP_PLAIN;
    put_line(lines, style, line == NULL ? "" : line);
    free(line);
}

/* ---- rows ---- */

/* The numbers of a sample's rows of the state's view, for free(); NULL: there is none such. */
static size_t *shown_rows(const struct amb_top_page *page, const struct amb_top_state *state,
                          size_t *count)
{
    *count = 0;
    if (page->sample == NULL || page->sample->table->lens != amb_top_lens(state->view)) {
        return NULL;
    }
    return amb_top_table_show(page->sample->table, amb_top_state_order(state), count);
}

/* Beside the rows: there is none, or not of all objects. */
static void put_remark(struct lines *lines, const struct amb_top_page *page,
                       const struct amb_top_lens *lens, size_t count)
{
    char text[LINE_MAX];
    if (page->sample == NULL || page->sample->table->lens != lens) {
        return;
    }
    const struct amb_top_table *table = page->sample->table;
    if (table->answer == NULL) {
        (void)snprintf(text, sizeof(text), "%s are not for this user", lens->query);
        put_text(lines, AMB_TOP_FAINT, text);
    } else if (count == 0) {
        (void)snprintf(text, sizeof(text), table->count == 0 ? "no %s" : "no %s of this filter",
                       lens->one);
        put_text(lines, AMB_TOP_FAINT, text);
    }
    if (table->not_shown > 0) {
        (void)snprintf(text, sizeof(text),
                       "%" PRIu64 " more have no figures (server.counters_objects)",
                       table->not_shown);
        put_text(lines, AMB_TOP_FAINT, text);
    }
}

static void put_views(struct lines *lines, const struct amb_top_state *state, size_t shown,
                      size_t all)
{
    char text[LINE_MAX];
    size_t used = 0;
    const struct amb_top_order *order = amb_top_state_order(state);
    for (unsigned i = 0; i < AMB_TOP_VIEWS; i++) {
        bool is_chosen = i == (unsigned)state->view;
        used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%u %s%s ",
                                 is_chosen ? "[" : "", i + 1,
                                 amb_top_lens((enum amb_top_view)i)->query, is_chosen ? "]" : "");
    }
    used += (size_t)snprintf(text + used, sizeof(text) - used, " %zu by %s%s", all,
                             amb_top_lens(state->view)->columns[order->column].title,
                             order->is_reverse ? ", reversed" : "");
    if (state->is_typing || order->filter[0] != '\0') {
        (void)snprintf(text + used, sizeof(text) - used, ", %zu with /%s%s", shown, order->filter,
                       state->is_typing ? "_" : "");
    }
    put_text(lines, AMB_TOP_BOLD, text);
}

/* ---- help ---- */

static const char *const key_lines[] = {
    "q            end",
    "1 to 5, Tab  topics, subs, clients, workers, queues",
    "< >          order by the column to the left, to the right",
    "r            reverse the order",
    "/            filter: rows with this text; Enter keeps it, Esc takes it away",
    "p, Space     pause, and go on",
    "+ -          longer, shorter between two looks",
    "Up, Down, PgUp, PgDn, Home, End   move",
    "h, ?         this help, and back",
    "",
};
#define KEY_LINES (sizeof(key_lines) / sizeof(key_lines[0]))

static void put_help(struct lines *lines, struct amb_top_state *state)
{
    const struct amb_top_lens *lens = amb_top_lens(state->view);
    state->line_count = KEY_LINES + lens->count;
    amb_top_state_fit(state);
    for (size_t i = state->first; i < state->line_count && i - state->first < state->page_size;
         i++) {
        char text[LINE_MAX];
        if (i < KEY_LINES) {
            (void)snprintf(text, sizeof(text), "%s", key_lines[i]);
        } else {
            const struct amb_top_column *column = &lens->columns[i - KEY_LINES];
            (void)snprintf(text, sizeof(text), "%-12s %s", column->title, column->help);
        }
        put_text(lines, AMB_TOP_PLAIN, text);
    }
}

/* ---- a screen, a block ---- */

static void put_rows(struct lines *lines, const struct amb_top_page *page,
                     struct amb_top_state *state, const size_t *rows, size_t count)
{
    const struct amb_top_lens *lens = amb_top_lens(state->view);
    struct layout layout;
    state->line_count = count;
    amb_top_state_fit(state);
    lay_out(&layout, lens, amb_top_state_order(state)->column, page->width);
    put_cells(lines, &layout, NULL);
    for (size_t i = state->first; i < count && i - state->first < state->page_size; i++) {
        put_cells(lines, &layout, &page->sample->table->rows[rows[i]]);
    }
    if (count < state->page_size) {
        put_remark(lines, page, lens, count);
    }
}

void amb_top_page(const struct amb_top_page *page, struct amb_top_state *state, amb_top_put put,
                  void *arg)
{
    struct amb_top_page fitted = *page;
    fitted.width = page->width < AMB_TOP_WIDTH_MAX ? page->width : AMB_TOP_WIDTH_MAX;
    struct lines lines = {put, arg, 0, fitted.width, page->height, page->has_utf8};
    size_t count;
    if (page->height == 0) {
        return;
    }
    size_t *rows = shown_rows(&fitted, state, &count);
    state->page_size = page->height > HEAD_LINES + 1 ? page->height - HEAD_LINES - 1 : 0;
    lines.height = page->height - 1;
    put_head(&lines, &fitted);
    put_views(&lines, state, count, rows == NULL ? 0 : page->sample->table->count);
    if (state->has_help) {
        put_text(&lines, AMB_TOP_TITLE, "help: the keys, and the columns of this view");
        put_help(&lines, state);
    } else {
        put_rows(&lines, &fitted, state, rows, count);
    }
    free(rows);
    lines.height = page->height;
    lines.next = page->height - 1;
    put_text(&lines, AMB_TOP_FAINT,
             state->is_typing ? "type the filter; Enter keeps it, Esc takes it away"
                              : "q end  h help  1-5 view  < > order  r reverse  / filter  p pause");
}

void amb_top_block(const struct amb_top_page *page, const struct amb_top_state *state, size_t rows,
                   amb_top_put put, void *arg)
{
    const struct amb_top_lens *lens = amb_top_lens(state->view);
    const struct amb_top_order *order = amb_top_state_order(state);
    struct lines lines = {put, arg, 0, page->width, SIZE_MAX, page->has_utf8};
    struct layout layout;
    size_t count;
    size_t *shown = shown_rows(page, state, &count);
    put_name(&lines, page->sample);
    put_totals(&lines, page->sample);
    put_limits(&lines, page->sample);
    if (page->notice[0] != '\0' || page->sample->note[0] != '\0') {
        put_note(&lines, page);
    }
    lay_out(&layout, lens, order->column, page->width);
    put_cells(&lines, &layout, NULL);
    for (size_t i = 0; i < count && (rows == 0 || i < rows); i++) {
        put_cells(&lines, &layout, &page->sample->table->rows[shown[i]]);
    }
    put_remark(&lines, page, lens, count);
    free(shown);
}
