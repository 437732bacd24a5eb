/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/ctl/top/state.h"

#include <string.h>

void amb_top_state_init(struct amb_top_state *state, enum amb_top_view view, int64_t interval_ns)
{
    *state = (struct amb_top_state){.view = view, .interval_ns = interval_ns};
    for (unsigned i = 0; i < AMB_TOP_VIEWS; i++) {
        state->orders[i].column = amb_top_lens((enum amb_top_view)i)->sort;
    }
}

void amb_top_state_fit(struct amb_top_state *state)
{
    size_t last = state->line_count > state->page_size ? state->line_count - state->page_size : 0;
    state->first = state->first > last ? last : state->first;
}

static void choose_view(struct amb_top_state *state, unsigned view)
{
    if (view != (unsigned)state->view) {
        state->view = (enum amb_top_view)view;
        state->is_stale = true;
    }
    state->first = 0;
    state->has_help = false;
}

static void move(struct amb_top_state *state, bool is_up, size_t lines)
{
    if (is_up) {
        state->first = state->first > lines ? state->first - lines : 0;
    } else {
        state->first += lines;
        amb_top_state_fit(state);
    }
}

/* ---- the filter ---- */

/* A character at its end, where there is room. */
static void type(char *filter, uint32_t code)
{
    size_t len = strlen(filter);
    char bytes[4];
    size_t count = code < 0x80 ? 1u : code < 0x800 ? 2u : code < 0x10000 ? 3u : 4u;
    if (code < 0x20 || code == 0x7f || len + count >= AMB_TOP_FILTER_MAX) {
        return;
    }
    static const uint8_t heads[] = {0, 0, 0xc0, 0xe0, 0xf0};
    for (size_t i = count - 1; i > 0; i--, code >>= 6) {
        bytes[i] = (char)(0x80 | (code & 0x3f));
    }
    bytes[0] = (char)(heads[count] | code);
    memcpy(filter + len, bytes, count);
    filter[len + count] = '\0';
}

static void take_back(char *filter)
{
    size_t len = strlen(filter);
    while (len > 0 && ((unsigned char)filter[len - 1] & 0xc0) == 0x80) {
        len--;
    }
    filter[len > 0 ? len - 1 : 0] = '\0';
}

static void edit(struct amb_top_state *state, uint32_t key)
{
    char *filter = state->orders[state->view].filter;
    state->first = 0;
    switch (key) {
    case AMB_TOP_KEY_ESCAPE:
        filter[0] = '\0';
        state->is_typing = false;
        break;
    case AMB_TOP_KEY_ENTER:
        state->is_typing = false;
        break;
    case AMB_TOP_KEY_BACKSPACE:
        take_back(filter);
        break;
    default:
        if (key < AMB_TOP_KEY_UP) {
            type(filter, key);
        }
        break;
    }
}

/* ---- all other keys ---- */

static void shift_sort(struct amb_top_state *state, bool is_left)
{
    struct amb_top_order *order = &state->orders[state->view];
    size_t count = amb_top_lens(state->view)->count;
    order->column = (order->column + (is_left ? count - 1 : 1)) % count;
    order->is_reverse = false;
    state->first = 0;
}

static void set_interval(struct amb_top_state *state, bool is_longer)
{
    int64_t ns = is_longer ? state->interval_ns * 2 : state->interval_ns / 2;
    if (ns >= AMB_TOP_INTERVAL_MIN_NS && ns <= AMB_TOP_INTERVAL_MAX_NS) {
        state->interval_ns = ns;
    }
}

static void on_escape(struct amb_top_state *state)
{
    if (state->has_help) {
        state->has_help = false;
    } else {
        state->orders[state->view].filter[0] = '\0';
    }
    state->first = 0;
}

/* False: the key does not move lines. */
static bool on_move(struct amb_top_state *state, uint32_t key)
{
    size_t page = state->page_size > 1 ? state->page_size - 1 : 1;
    switch (key) {
    case AMB_TOP_KEY_UP:
    case AMB_TOP_KEY_DOWN:
        move(state, key == AMB_TOP_KEY_UP, 1);
        return true;
    case AMB_TOP_KEY_PAGE_UP:
    case AMB_TOP_KEY_PAGE_DOWN:
        move(state, key == AMB_TOP_KEY_PAGE_UP, page);
        return true;
    case AMB_TOP_KEY_HOME:
        state->first = 0;
        return true;
    case AMB_TOP_KEY_END:
        move(state, false, state->line_count);
        return true;
    default:
        return false;
    }
}

void amb_top_state_key(struct amb_top_state *state, uint32_t key)
{
    if (state->is_typing) {
        edit(state, key);
        return;
    }
    if (on_move(state, key)) {
        return;
    }
    switch (key) {
    case 'q':
    case 'Q':
        state->is_over = true;
        break;
    case 'h':
    case '?':
        state->has_help = !state->has_help;
        state->first = 0;
        break;
    case AMB_TOP_KEY_ESCAPE:
        on_escape(state);
        break;
    case 'p':
    case ' ':
        state->is_paused = !state->is_paused;
        break;
    case '/':
        state->is_typing = true;
        state->has_help = false;
        break;
    case '<':
    case AMB_TOP_KEY_LEFT:
    case '>':
    case AMB_TOP_KEY_RIGHT:
        shift_sort(state, key == '<' || key == AMB_TOP_KEY_LEFT);
        break;
    case 'r':
        state->orders[state->view].is_reverse = !state->orders[state->view].is_reverse;
        state->first = 0;
        break;
    case '+':
    case '-':
        set_interval(state, key == '+');
        break;
    case AMB_TOP_KEY_TAB:
        choose_view(state, ((unsigned)state->view + 1) % AMB_TOP_VIEWS);
        break;
    case AMB_TOP_KEY_BACK_TAB:
        choose_view(state, ((unsigned)state->view + AMB_TOP_VIEWS - 1) % AMB_TOP_VIEWS);
        break;
    default:
        if (key > '0' && key <= '0' + AMB_TOP_VIEWS) {
            choose_view(state, key - '1');
        }
        break;
    }
}
