/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/doctor/page.h"

#include "wire/doctor/checks.h"

#include <stddef.h>

static const struct section {
    enum amb_doctor_check first;
    const char *heading;
} sections[] = {
    {AMB_DOCTOR_CONFIG_WRONG, "The configuration"},
    {AMB_DOCTOR_DESCRIPTORS_SHORT, "Limits and memory"},
    {AMB_DOCTOR_CPU_QUOTA, "Processors and the clock"},
    {AMB_DOCTOR_INTERFACE_MISSING, "Interfaces and RDMA devices"},
    {AMB_DOCTOR_SOCKET_FOLDER, "Doors and files"},
    {AMB_DOCTOR_UCX_MISSING, "UCX"},
    {AMB_DOCTOR_GPU_HIDDEN, "GPUs"},
    {AMB_DOCTOR_CLIENT_PID, "Clients"},
    {AMB_DOCTOR_SUBSCRIPTION_SLOW, "Load"},
    {AMB_DOCTOR_WATCHDOG, "The service"},
    {AMB_DOCTOR_TLS_EXPIRED, "TLS, users and the audit log"},
};

static const char head[] =
    "# Doctor\n"
    "\n"
    "The doctor looks at settings, limits, devices and figures, and names what is not as it could "
    "be.\n"
    "Each finding has a fix. Nothing is changed.\n"
    "\n"
    "| command | it looks at |\n"
    "|---|---|\n"
    "| `brokerd --doctor` | the configuration given and this machine, before a start. It opens no "
    "socket, no device and no port |\n"
    "| `broker-ctl doctor` | the running broker, its clients and its figures; and this program's "
    "own side |\n"
    "\n"
    "`brokerd --doctor` takes `--config`, `--dev`, `--listen` and `-o` as a start does, and runs "
    "as the user that starts\n"
    "it. So run it as the broker's user, and with the limits of its unit:\n"
    "\n"
    "    systemd-run --pipe --uid=ambroker -p LimitNOFILE=65536 brokerd --doctor --output json\n"
    "\n"
    "A broker that does not answer is a finding too (`broker-silent`), beside those of the "
    "client's side.\n"
    "\n"
    "| state | meaning |\n"
    "|---|---|\n"
    "| `ok` | as it should be |\n"
    "| `hint` | it works, and could be better |\n"
    "| `warning` | something is slow, is near its limit, or will not work |\n"
    "| `error` | something does not work, or is open to strangers |\n"
    "\n"
    "| exit status | meaning |\n"
    "|---|---|\n"
    "| 0 | no warning and no error |\n"
    "| 1 | warnings |\n"
    "| 2 | errors |\n"
    "| 64 | a wrong command line |\n"
    "| 69, 77 | `broker-ctl`: no broker answers, or it does not let this user look |\n"
    "| 78 | `brokerd`: the configuration is wrong, which is also a finding |\n"
    "\n"
    "Findings are printed as text, as JSON or as CSV (`--output`; of `broker-ctl` also `-o`). The "
    "columns are `check`,\n"
    "`state`, `finding`, `fix`, `id` and `link`. `id` is one of the headings below; a row that is "
    "well has none.\n"
    "Words in braces stand for values. The page is printed from `wire/doctor/table.c`.\n";

static void print_row(const struct amb_doctor_row *row, FILE *out)
{
    (void)fprintf(out, "\n### %s\n\n| `%s` | %s |\n|---|---|\n", row->id, row->name,
                  amb_doctor_state_name(row->state));
    (void)fprintf(out, "| looked at | %s |\n| finding | %s |\n| fix | %s |\n", row->looked_at,
                  row->finding, row->fix);
}

void amb_doctor_page(FILE *out)
{
    size_t section = 0;
    (void)fputs(head, out);
    for (unsigned i = 0; i < AMB_DOCTOR_CHECKS; i++) {
        if (section < sizeof(sections) / sizeof(sections[0]) && sections[section].first == i) {
            (void)fprintf(out, "\n## %s\n", sections[section++].heading);
        }
        print_row(amb_doctor_row((enum amb_doctor_check)i), out);
    }
}
