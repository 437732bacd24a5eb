/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The choices of the user who looks at top, and the keys that change them.
 * Threads: one. Memory: none of its own.
 */
#pragma once

#include "tools/ctl/top/lens.h"
#include "tools/ctl/top/table.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Keys that are no character; all others are their code in Unicode. */
enum amb_top_key {
    AMB_TOP_KEY_UP = 0x110000,
    AMB_TOP_KEY_DOWN,
    AMB_TOP_KEY_LEFT,
    AMB_TOP_KEY_RIGHT,
    AMB_TOP_KEY_PAGE_UP,
    AMB_TOP_KEY_PAGE_DOWN,
    AMB_TOP_KEY_HOME,
    AMB_TOP_KEY_END,
    AMB_TOP_KEY_ENTER,
    AMB_TOP_KEY_ESCAPE,
    AMB_TOP_KEY_BACKSPACE,
    AMB_TOP_KEY_TAB,
    AMB_TOP_KEY_BACK_TAB,
    AMB_TOP_KEY_OTHER, /* one that has no meaning here */
};

struct amb_top_state {
    enum amb_top_view view;
    struct amb_top_order orders[AMB_TOP_VIEWS];
    int64_t interval_ns;
    size_t first;                 /* the row at the top of the page */
    size_t line_count, page_size; /* of the page as it was drawn: lines that may be moved, and that
                                   * fit */
    bool is_paused;
    bool has_help;  /* the page of help is shown */
    bool is_typing; /* keys go into the filter */
    bool is_over;   /* the user has had enough */
    bool is_stale;  /* another view was chosen: its rows are not there yet */
};

#define AMB_TOP_INTERVAL_MIN_NS INT64_C(100000000)
#define AMB_TOP_INTERVAL_MAX_NS INT64_C(3600000000000)

/* Each view in its own first order. */
void amb_top_state_init(struct amb_top_state *state, enum amb_top_view view, int64_t interval_ns);
void amb_top_state_key(struct amb_top_state *state, uint32_t key);
/* Keeps `first` within the lines there are now. */
void amb_top_state_fit(struct amb_top_state *state);

static inline const struct amb_top_order *amb_top_state_order(const struct amb_top_state *state)
{
    return &state->orders[state->view];
}
