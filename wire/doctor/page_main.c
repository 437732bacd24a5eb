/* SPDX-License-Identifier: Apache-2.0 */
/* Prints docs/doctor.md. */
#include "wire/doctor/page.h"

int main(void)
{
    amb_doctor_page(stdout);
    return fflush(stdout) == 0 ? 0 : 1;
}
