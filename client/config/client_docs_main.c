/* SPDX-License-Identifier: Apache-2.0 */
/* Prints docs/config-client.md: what a program that uses libamb reads of a configuration file. */
#include "client/config/client_schema.h"
#include "wire/config/config_reference.h"

#include <stdio.h>

int main(void)
{
    (void)printf(
        "# Configuration of programs\n\n"
        "Made from the schema in `client/config/client_schema.c` (`client-config-docs`); edit "
        "that, "
        "not this page.\n\n"
        "A program that uses libamb reads a libconfig file, where one is named: by "
        "`amb_options.config`, else by `$AMB_CONFIG`. `brokerd` reads the same file where no "
        "`--config` is given. So one file can hold both roles: neither looks at the other one's "
        "sections.\n\n"
        "- Options of the program (`amb_options`, the URL of `amb_connect`) beat environment "
        "beats file beats default.\n"
        "- `broker-ctl config --role client --origin` shows what holds and where it came from.\n"
        "- A wrong file is refused with AMB_EINVAL; `options.error` holds `file:line: key: reason "
        "(got X, allowed Y)`.\n"
        "- libamb loads libconfig only where a file is named. AMB_ENOTSUP: it is not installed.\n"
        "- Sizes are `\"64K\"`, `\"64M\"`, `\"1G\"` (powers of 1024), times `\"50us\"`, "
        "`\"500ms\"`, `\"5s\"`, `\"2m\"`.\n"
        "- `@include \"name.conf\"` takes a file below the first file's folder.\n"
        "- A changed value holds for the next `amb_connect`; a reconnect keeps what was read.\n"
        "- A program with more rights than its user (set-user-ID, file capabilities) looks at "
        "neither `$AMB_CONFIG` nor any other variable of these keys.\n\n"
        "```\n"
        "client = {\n"
        "    url = \"tcp://broker:4733\";\n"
        "    credentials = \"/etc/ambroker/token\";\n"
        "    reconnect = { max = \"2s\"; };\n"
        "};\n"
        "transports = { trusted = ( \"ib0\" ); tcp = \"off\"; };\n"
        "```\n\n"
        "## Keys\n\n");
    amb_config_table_print(amb_client_schema.keys, amb_client_schema.count, stdout);
    return fflush(stdout) == 0 ? 0 : 1;
}
