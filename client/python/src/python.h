/* SPDX-License-Identifier: Apache-2.0 */
/* <Python.h> as the extension wants it: the limited API of 3.11, so that later Pythons load it. */
#pragma once

#define PY_SSIZE_T_CLEAN
#ifndef Py_LIMITED_API
#define Py_LIMITED_API 0x030b0000
#endif
#include <Python.h>
#include <stdint.h>

/* A list of keywords for PyArg_ParseTupleAndKeywords, which reads it alone. */
#define AMB_PY_NAMES(names) ((char **)(uintptr_t)(names))
