/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/ctl/top/screen.h"

#include "tools/ctl/top/restore.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define NCURSES_WIDECHAR 1
#include <curses.h>

#define LEAVE_BYTES 256u
#define ESCAPE_DELAY_MS 25 /* Esc alone, or the first byte of a key */

enum pair {
    PAIR_ALARM = 1,
    PAIR_FAINT,
};

static SCREEN *screen;
static bool has_pairs;

bool amb_top_screen_is_possible(void)
{
    const char *kind = getenv("TERM");
    return isatty(STDIN_FILENO) != 0 && isatty(STDOUT_FILENO) != 0 && kind != NULL &&
           kind[0] != '\0';
}

/* The capability's text; "" where this terminal has none. */
static const char *capability(const char *name)
{
    const char *text = tigetstr(name);
    return text == NULL || text == (const char *)-1 ? "" : text;
}

static void set_colours(bool has_colour)
{
    has_pairs = has_colour && has_colors() && start_color() == OK;
    if (has_pairs) {
        (void)use_default_colors();
        (void)init_pair(PAIR_ALARM, COLOR_RED, -1);
        (void)init_pair(PAIR_FAINT, COLOR_CYAN, -1);
    }
}

bool amb_top_screen_enter(bool has_colour, char why[AMB_TOP_NOTE_MAX])
{
    char leave[LEAVE_BYTES];
    amb_restore_keep_modes();
    (void)set_escdelay(ESCAPE_DELAY_MS);
    screen = newterm(NULL, stdout, stdin);
    if (screen == NULL) {
        const char *kind = getenv("TERM");
        (void)snprintf(why, AMB_TOP_NOTE_MAX, "no such terminal is known: '%.60s' ($TERM)",
                       kind == NULL ? "" : kind);
        return false;
    }
    (void)snprintf(leave, sizeof(leave), "%s%s%s%s", capability("sgr0"), capability("cnorm"),
                   capability("rmkx"), capability("rmcup"));
    amb_restore_arm(leave);
    (void)cbreak();
    (void)noecho();
    (void)nonl();
    (void)keypad(stdscr, TRUE);
    (void)curs_set(0);
    set_colours(has_colour);
    return true;
}

void amb_top_screen_leave(void)
{
    if (screen != NULL) {
        (void)endwin();
        delscreen(screen);
        screen = NULL;
        amb_restore_disarm();
    }
}

void amb_top_screen_size(size_t *width, size_t *height)
{
    *width = COLS > 0 ? (size_t)COLS : 0;
    *height = LINES > 0 ? (size_t)LINES : 0;
}

void amb_top_screen_begin(void)
{
    (void)erase();
}

static attr_t attributes(enum amb_top_style style)
{
    switch (style) {
    case AMB_TOP_BOLD:
        return A_BOLD;
    case AMB_TOP_TITLE:
        return A_REVERSE;
    case AMB_TOP_ALARM:
        return has_pairs ? COLOR_PAIR(PAIR_ALARM) : A_BOLD;
    case AMB_TOP_FAINT:
        return has_pairs ? COLOR_PAIR(PAIR_FAINT) : A_NORMAL;
    case AMB_TOP_PLAIN:
        break;
    }
    return A_NORMAL;
}

void amb_top_screen_put(void *arg, size_t line, enum amb_top_style style, const char *text)
{
    (void)arg;
    (void)attrset((int)attributes(style));
    (void)mvaddstr((int)line, 0, text);
    if (style == AMB_TOP_TITLE) { /* A bar over the whole width. */
        (void)chgat(-1, A_REVERSE, 0, NULL);
    }
    (void)attrset(A_NORMAL);
}

void amb_top_screen_end(void)
{
    (void)refresh();
}

static uint32_t key_of(wint_t code, bool is_function)
{
    static const struct {
        wint_t code;
        enum amb_top_key key;
    } keys[] = {
        {KEY_UP, AMB_TOP_KEY_UP},         {KEY_DOWN, AMB_TOP_KEY_DOWN},
        {KEY_LEFT, AMB_TOP_KEY_LEFT},     {KEY_RIGHT, AMB_TOP_KEY_RIGHT},
        {KEY_PPAGE, AMB_TOP_KEY_PAGE_UP}, {KEY_NPAGE, AMB_TOP_KEY_PAGE_DOWN},
        {KEY_HOME, AMB_TOP_KEY_HOME},     {KEY_END, AMB_TOP_KEY_END},
        {KEY_ENTER, AMB_TOP_KEY_ENTER},   {KEY_BACKSPACE, AMB_TOP_KEY_BACKSPACE},
        {KEY_BTAB, AMB_TOP_KEY_BACK_TAB},
    };
    if (is_function && code == KEY_RESIZE) {
        (void)clearok(stdscr, TRUE); /* Terminals move and cut lines, each in its way. */
        return AMB_TOP_KEY_OTHER;
    }
    if (is_function) {
        for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
            if (keys[i].code == code) {
                return (uint32_t)keys[i].key;
            }
        }
        return AMB_TOP_KEY_OTHER;
    }
    switch (code) {
    case '\r':
    case '\n':
        return AMB_TOP_KEY_ENTER;
    case '\t':
        return AMB_TOP_KEY_TAB;
    case 0x1b:
        return AMB_TOP_KEY_ESCAPE;
    case 0x08:
    case 0x7f:
        return AMB_TOP_KEY_BACKSPACE;
    case 0x0c: /* Ctrl-L: somebody else has written on the terminal. */
        (void)clearok(stdscr, TRUE);
        return AMB_TOP_KEY_OTHER;
    default:
        return code < 0x110000 && code != 0 ? (uint32_t)code : (uint32_t)AMB_TOP_KEY_OTHER;
    }
}

uint32_t amb_top_screen_key(int64_t wait_ns)
{
    wint_t code = 0;
    timeout(wait_ns <= 0 ? 0 : (int)(wait_ns / 1000000) + 1);
    int kind = get_wch(&code);
    if (kind == ERR) {
        /* It has come at once, without a time that was over: nobody is there any more. */
        return isatty(STDIN_FILENO) == 0 ? UINT32_MAX : 0;
    }
    return key_of(code, kind == KEY_CODE_YES);
}
