/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/tls/tls_names.h"

#include <string.h>
#include <unistd.h>

void amb_tls_own_names_read(struct amb_tls_own_names *out)
{
    struct amb_interfaces here = {NULL, 0};
    out->count = 0;
    out->host[sizeof(out->host) - 1] = '\0';
    if (gethostname(out->host, sizeof(out->host) - 1) == 0 && strcmp(out->host, "localhost") != 0) {
        out->names[out->count++] = out->host;
    }
    out->names[out->count++] = "localhost";
    out->names[out->count++] = "127.0.0.1";
    out->names[out->count++] = "::1";
    out->first = out->count;
    if (amb_interfaces_read(&here) != AMB_OK) {
        return;
    }
    const size_t most = sizeof(out->text) / sizeof(out->text[0]);
    const struct amb_interface *row = NULL;
    for (size_t used = 0; used < most && (row = amb_interfaces_next(&here, NULL, row)) != NULL;) {
        if (amb_interface_reach(row) == AMB_REACH_OTHERS) {
            amb_interface_text(row, out->text[used]);
            out->names[out->count++] = out->text[used++];
        }
    }
    amb_interfaces_fini(&here);
}
