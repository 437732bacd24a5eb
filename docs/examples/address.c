/* SPDX-License-Identifier: Apache-2.0 */
/* An address of this machine to hand to others: of the interface of the command line, or of any. */
#include <amb/amb.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    struct amb_error error = {0};
    char address[AMB_ADDRESS_MAX];
    const char *interface = argc > 1 ? argv[1] : NULL;
    if (amb_interface_address(interface, address, sizeof(address), &error) != AMB_OK) {
        fprintf(stderr, "%s\n", error.text);
        return 1;
    }
    printf("tcp://%s:4733\n", address);
    return 0;
}
