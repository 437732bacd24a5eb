/* SPDX-License-Identifier: Apache-2.0 */
/* Prints the documents that come from the schema, for the files in etc/ and docs/. */
#include "broker/config/config.h"
#include "broker/config/print/config_docs.h"

#include <string.h>

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "example") == 0) {
        amb_config_print_example(stdout);
    } else if (argc == 2 && strcmp(argv[1], "reference") == 0) {
        amb_config_print_reference(stdout);
    } else if (argc == 2 && strcmp(argv[1], "manual") == 0) {
        amb_config_print_manual(stdout);
    } else {
        (void)fprintf(stderr, "usage: broker-config-docs example|reference|manual\n");
        return 64;
    }
    return fflush(stdout) == 0 ? 0 : 1;
}
