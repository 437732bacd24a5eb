/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Types of elements: the codes of Python's struct, and DLPack's numbers.
 * Threads: any. Memory: none.
 */
#pragma once

#include <amb/amb.h>
#include <stdbool.h>
#include <stddef.h>

/* The code for an element; NULL: it has none. */
const char *amb_py_format_of(const struct amb_tensor *tensor);
/* Sets code, bits and lanes. False: it is no number of this machine's byte order. */
bool amb_py_dtype_of(const char *format, size_t itemsize, struct amb_tensor *tensor);
