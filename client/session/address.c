/* SPDX-License-Identifier: Apache-2.0 */
#include "client/session/address.h"

#include "wire/base/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

_Static_assert(AMB_ADDRESS_MAX > AMB_INTERFACE_ADDRESS_MAX + 2, "brackets around any address");

static enum amb_status fail(struct amb_error *error, enum amb_status status, const char *format,
                            ...) __attribute__((format(printf, 3, 4)));

static enum amb_status fail(struct amb_error *error, enum amb_status status, const char *format,
                            ...)
{
    va_list args;
    va_start(args, format);
    error->status = status;
    (void)vsnprintf(error->text, sizeof(error->text), format, args);
    va_end(args);
    return status;
}

/* The higher the better; 0: others cannot use it. Loopback is for those that ask for it. So is an
 * address of a load balancer's that is bound to lo: others may reach another machine by it. */
static int worth(const struct amb_interface *row, const char *interface)
{
    bool is_v4 = row->family == AF_INET;
    if (row->is_loopback && interface == NULL) {
        return 0;
    }
    switch (amb_interface_reach(row)) {
    case AMB_REACH_OTHERS:
        return is_v4 ? 6 : 5;
    case AMB_REACH_LINK:
        return is_v4 ? 4 : 0; /* Another machine would need a scope of its own. */
    case AMB_REACH_MACHINE:
        return interface == NULL ? 0 : is_v4 ? 2 : 1;
    }
    return 0;
}

enum amb_status amb_address_choose(const struct amb_interfaces *interfaces, const char *interface,
                                   char *out, size_t size, struct amb_error *error)
{
    char list[AMB_INTERFACES_LIST_MAX], address[AMB_INTERFACE_ADDRESS_MAX], shown[32];
    const struct amb_interface *best = NULL, *row = NULL;
    if (interface != NULL &&
        amb_interfaces_check(interfaces, interface, error->text, sizeof(error->text)) != AMB_OK) {
        error->status = AMB_EINVAL;
        return AMB_EINVAL;
    }
    while ((row = amb_interfaces_next(interfaces, interface, row)) != NULL) {
        if (worth(row, interface) > (best == NULL ? 0 : worth(best, interface))) {
            best = row;
        }
    }
    if (best == NULL) {
        return fail(
            error, AMB_EINVAL, "%s has no address that other machines can use (there are %s)",
            interface != NULL ? amb_text_show(interface, shown, sizeof(shown)) : "this machine",
            amb_interfaces_list(interfaces, list));
    }
    amb_interface_text(best, address);
    bool is_v6 = best->family == AF_INET6;
    if (strlen(address) + (is_v6 ? 2 : 0) >= size) {
        return fail(error, AMB_ETOOLARGE, "the address needs more than %zu bytes", size);
    }
    (void)snprintf(out, size, "%s%s%s", is_v6 ? "[" : "", address, is_v6 ? "]" : "");
    return AMB_OK;
}

enum amb_status amb_interface_address(const char *interface, char *out, size_t size,
                                      struct amb_error *error)
{
    struct amb_error own = {.status = AMB_OK};
    struct amb_interfaces here = {NULL, 0};
    enum amb_status status = AMB_EINVAL;
    if (out == NULL || size == 0) {
        (void)fail(&own, status, "no room for an address");
    } else {
        status = amb_interfaces_read(&here);
        status = status == AMB_OK ? amb_address_choose(&here, interface, out, size, &own)
                                  : fail(&own, status, "the interfaces of this machine: %s",
                                         amb_strerror(status));
        amb_interfaces_fini(&here);
    }
    if (status != AMB_OK && error != NULL) {
        *error = own;
    }
    return status;
}
