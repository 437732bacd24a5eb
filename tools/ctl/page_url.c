/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/ctl/page_url.h"

#include <stddef.h>
#include <string.h>

const char *amb_page_url_fault(const char *url)
{
    static const char *const schemes[] = {"http://", "https://"};
    const char *host = NULL;
    for (size_t i = 0; i < sizeof(schemes) / sizeof(schemes[0]); i++) {
        size_t len = strlen(schemes[i]);
        host = strncmp(url, schemes[i], len) == 0 ? url + len : host;
    }
    if (host == NULL) {
        return "is neither http nor https";
    }
    for (const char *c = url; *c != '\0'; c++) {
        if (*c <= ' ' || *c > '~') { /* Also bytes that are negative. */
            return "has bytes that no address has";
        }
    }
    /* A name or an address, "[::1]" too, and a port. */
    size_t len = strcspn(host, "/?#");
    if (memchr(host, '@', len) != NULL) {
        return "names a user, and may lead elsewhere";
    }
    return len > 0 && host[0] != ':' ? NULL : "has no host";
}
