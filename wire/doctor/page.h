/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The page of the doctor: docs/doctor.md.
 *
 * Threads: any. Memory: none.
 */
#pragma once

#include <stdio.h>

void amb_doctor_page(FILE *out);
