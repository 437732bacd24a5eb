/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/ctl/page.h"

#include "tools/common/output.h"
#include "tools/ctl/connect.h"
#include "tools/ctl/forward.h"
#include "tools/ctl/page_url.h"
#include "wire/base/clock.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

#define SLICE_MS 200

/* The broker's answer, for json_decref(). */
static enum amb_exit ask(struct amb_ctl *ctl, json_t **out)
{
    struct amb_msg *answer;
    enum amb_status status = amb_admin(ctl->conn, "page", amb_ctl_answer_ns(ctl), &answer);
    if (status != AMB_OK) {
        return amb_ctl_fail(ctl, "page", status);
    }
    *out = amb_ctl_take_json(answer);
    const json_t *row = json_array_get(*out, 0);
    if (!json_is_string(json_object_get(row, "url")) ||
        !json_is_string(json_object_get(row, "socket"))) {
        json_decref(*out);
        amb_tool_error("page: the broker's answer is not one");
        return AMB_EXIT_SOFTWARE;
    }
    return AMB_EXIT_OK;
}

/* On standard output the address alone, for programs that open it. */
static bool print(const struct amb_ctl *ctl, const char *url)
{
    if (ctl->is_json) {
        amb_ctl_print(ctl, json_pack("{s:s, s:i}", "url", url, "expires_s", AMB_VISITS_KEY_S));
    } else {
        (void)printf("%s\n", url);
    }
    return amb_output_flush();
}

static bool goes_on(const struct amb_ctl *ctl)
{
    return !amb_ctl_stopped() && !amb_output_is_unread() && amb_ctl_slice_ns(ctl) > 0;
}

static enum amb_exit forward(const struct amb_ctl *ctl, const char *socket, uint16_t port)
{
    struct amb_forward *forward = NULL;
    char key[AMB_VISITS_KEY_SIZE], url[96];
    if (access(socket, R_OK | W_OK) != 0 ||
        strlen(socket) >= sizeof(((struct sockaddr_un *)NULL)->sun_path)) {
        amb_tool_error("page: %s: not to be reached from here: run this where the broker runs",
                       socket);
        return AMB_EXIT_UNAVAILABLE;
    }
    enum amb_exit code = amb_forward_open(socket, &port, &forward);
    if (code != AMB_EXIT_OK) {
        return code;
    }
    amb_visits_key(amb_forward_visits(forward), amb_clock_monotonic_ns(), key);
    (void)snprintf(url, sizeof(url), "http://127.0.0.1:%u/?key=%s", (unsigned)port, key);
    amb_tool_error("page: the address works once, within %d s; the page is there until this ends",
                   AMB_VISITS_KEY_S);
    if (print(ctl, url)) {
        while (goes_on(ctl)) {
            amb_forward_turn(forward, SLICE_MS);
        }
    }
    amb_forward_close(&forward);
    return AMB_EXIT_OK;
}

enum amb_exit amb_ctl_page(struct amb_ctl *ctl)
{
    json_t *answer = NULL;
    enum amb_exit code = amb_ctl_connect(ctl);
    if (code == AMB_EXIT_OK) {
        code = ask(ctl, &answer);
    }
    code = amb_ctl_close(ctl, code); /* The page needs no session. */
    if (code != AMB_EXIT_OK) {
        return code;
    }
    const json_t *row = json_array_get(answer, 0);
    const char *url = json_string_value(json_object_get(row, "url"));
    const char *socket = json_string_value(json_object_get(row, "socket"));
    bool wants_port = amb_cli_has(ctl->line, "port");
    const char *fault = url[0] != '\0' ? amb_page_url_fault(url) : NULL;
    if (fault != NULL && !wants_port) {
        amb_tool_error("page: the broker's address %s", fault);
        code = AMB_EXIT_SOFTWARE;
    } else if (url[0] != '\0' && !wants_port) {
        amb_tool_error("page: the address works once, within %d s", AMB_VISITS_KEY_S);
        (void)print(ctl, url);
    } else if (socket[0] == '\0') {
        amb_tool_error("page: --port: the broker has no Unix socket in http.listen");
        code = AMB_EXIT_UNAVAILABLE;
    } else {
        code = forward(ctl, socket, (uint16_t)amb_cli_number(ctl->line, "port", 0));
    }
    json_decref(answer);
    return code;
}
