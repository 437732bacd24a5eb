/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/common/brokerd.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

void amb_brokerd_find(char *out, size_t size)
{
    static const char *const places[] = {"brokerd", "../broker/brokerd", "../sbin/brokerd"};
    char self[512];
    ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
    char *slash = NULL;
    if (n > 0) {
        self[n] = '\0';
        slash = strrchr(self, '/');
    }
    for (size_t i = 0; slash != NULL && i < sizeof(places) / sizeof(places[0]); i++) {
        slash[1] = '\0';
        (void)snprintf(out, size, "%s%s", self, places[i]);
        if (access(out, X_OK) == 0) {
            return;
        }
    }
    (void)snprintf(out, size, "brokerd");
}
