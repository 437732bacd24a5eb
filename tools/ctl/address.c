/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The listeners of a configuration are those that `brokerd --print-config` prints. So a file means
 * the same here and there.
 */
#include "tools/ctl/address.h"

#include "tools/ctl/broker_config.h"
#include "tools/ctl/connect.h"
#include "tools/ctl/reachable.h"
#include "wire/base/text.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define PORT_DEFAULT 4733

struct wanted {
    const char *interface; /* NULL: all */
    const char *config;    /* NULL: the port of --url, or the default one */
};

/* The listeners; a failure has been said. */
static enum amb_exit find_listeners(const struct amb_ctl *ctl, const struct wanted *wanted,
                                    struct amb_listener_url *out, size_t *count)
{
    if (wanted->config != NULL) {
        char *text = NULL;
        enum amb_exit code = amb_ctl_broker_config("address", wanted->config, NULL, &text);
        if (code != AMB_EXIT_OK) {
            return code;
        }
        *count = amb_listeners_of(text, out, AMB_LISTENER_URLS_MAX);
        free(text);
        if (*count == 0) {
            amb_tool_error("address: %.200s has no TCP listener, so others cannot connect",
                           wanted->config);
            return AMB_EXIT_DATA;
        }
        return AMB_EXIT_OK;
    }
    struct amb_listener_url url = {.host = "::", .port = PORT_DEFAULT};
    if (ctl->url != NULL && !amb_listener_parse(ctl->url, &url)) {
        return amb_ctl_bad("address --url", ctl->url, "takes the port of one, as tcp://host:4733");
    }
    (void)snprintf(url.host, sizeof(url.host), "::"); /* On each address, whatever is asked. */
    url.options[0] = '\0';
    out[0] = url;
    *count = 1;
    return AMB_EXIT_OK;
}

static void print(const struct amb_ctl *ctl, const struct amb_reachables *found)
{
    json_t *rows = json_array();
    for (size_t i = 0; i < found->count; i++) {
        const struct amb_reachable *item = &found->items[i];
        const char *family = item->family == AF_INET    ? "IPv4"
                             : item->family == AF_INET6 ? "IPv6"
                                                        : "any";
        if (ctl->is_json) {
            char name[sizeof(item->interface)]; /* A machine's name may be any bytes. */
            (void)json_array_append_new(
                rows,
                json_pack("{s:s, s:s, s:s}", "url", item->url, "interface",
                          amb_text_show(item->interface, name, sizeof(name)), "family", family));
        } else {
            (void)printf("%s\n", item->url);
        }
    }
    if (ctl->is_json) {
        amb_ctl_print(ctl, rows);
    } else {
        json_decref(rows);
    }
    if (found->is_full) {
        (void)fflush(stdout);
        amb_tool_error("address: there are more than %u", AMB_REACHABLE_MAX);
    }
}

static enum amb_exit show(const struct amb_ctl *ctl, const struct wanted *wanted,
                          const struct amb_interfaces *here)
{
    static struct amb_listener_url listeners[AMB_LISTENER_URLS_MAX];
    static struct amb_reachables found;
    char text[400], list[AMB_INTERFACES_LIST_MAX];
    size_t count = 0;
    if (wanted->interface != NULL &&
        amb_interfaces_check(here, wanted->interface, text, sizeof(text)) != AMB_OK) {
        amb_tool_error("address --interface: %s", text);
        return AMB_EXIT_USAGE;
    }
    enum amb_exit code = find_listeners(ctl, wanted, listeners, &count);
    if (code != AMB_EXIT_OK) {
        return code;
    }
    bool has_port = false;
    for (size_t i = 0; i < count; i++) {
        has_port = has_port || listeners[i].port != 0;
        amb_reachable_add(here, &listeners[i], wanted->interface, &found);
    }
    if (found.count == 0) {
        amb_tool_error("address: %s%s (there are %s)",
                       !has_port ? "port 0 is any free one, which the broker's ready line tells"
                                 : "no listener has an address that others can use",
                       wanted->interface != NULL && has_port ? " on that interface" : "",
                       amb_interfaces_list(here, list));
        return AMB_EXIT_DATA;
    }
    print(ctl, &found);
    return AMB_EXIT_OK;
}

enum amb_exit amb_ctl_address(struct amb_ctl *ctl)
{
    const struct wanted wanted = {
        .interface = amb_cli_text(ctl->line, "interface"),
        .config = amb_cli_text(ctl->line, "config"),
    };
    struct amb_interfaces here = {NULL, 0};
    enum amb_status status = amb_interfaces_read(&here);
    if (status != AMB_OK) {
        amb_tool_error("address: the interfaces of this machine: %s", amb_strerror(status));
        return AMB_EXIT_SOFTWARE;
    }
    enum amb_exit code = show(ctl, &wanted, &here);
    amb_interfaces_fini(&here);
    return code;
}
