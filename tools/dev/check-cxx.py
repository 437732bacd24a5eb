#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""C++ programs use libamb as C programs do: with each compiler that is here, as C++17 and C++20,
without a warning, docs/examples/hello.cpp and all macros of the headers. Without a compiler: 77."""
import os
import shutil
import subprocess
import sys

import sources

FLAGS = ["-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wold-style-cast", "-Wundef", "-Werror",
         "-fsyntax-only", "-I" + os.path.join(sources.ROOT, "client", "include")]

# Any order of fields, no field, one macro within another, the header of array libraries.
PROBE = """
#include <amb/amb.h>
#include <amb/compat/dlpack/dlpack.h>
static void on_message(amb_msg *, void *) {}
static const amb_sub_options *same(const amb_sub_options *options) { return options; }
int probe(amb_conn *conn, amb_pub *pub, DLTensor *array);
int probe(amb_conn *conn, amb_pub *pub, DLTensor *array)
{
    amb_sub *sub = nullptr;
    amb_conn *other = nullptr;
    amb_out out = AMB_INIT(amb_out);
    amb_tensor tensor{};
    const int64_t pauses[] = {AMB_MS, AMB_SEC, AMB_FOREVER};
    const amb_prop props[] = {AMB_PROP("a", "b"), AMB_PROP("c", "d")};
    amb_status status = amb_connect(nullptr, AMB_OPTIONS(), &other);
    status = amb_subscribe(conn, "a.>", AMB_SUB(.arg = conn, .on_message = on_message,
        .backoff_count = 3, .backoff_ns = pauses, .ack = AMB_ACK_EXPLICIT, .lazy = AMB_LAZY_ON,
        .durable = "d", .group = "g"), &sub);
    status = amb_subscribe(conn, "b", same(AMB_SUB(.slow = AMB_SLOW_BLOCK)), &sub);
    status = amb_out_dlpack(&out, &tensor, array);
    status = amb_pub_post(pub, AMB_OUT(.props = props, .prop_count = 2, .tensor = &tensor), AMB_NOWAIT,
                          nullptr);
    return status;
}
"""


def main():
    compilers = [c for c in ("g++", "clang++") if shutil.which(c)]
    if not compilers:
        print("check-cxx: no C++ compiler")
        return 77
    example = os.path.join(sources.ROOT, "docs", "examples", "hello.cpp")
    problems = []
    for compiler in compilers:
        for standard in ("c++17", "c++20"):
            for what, text in ((example, None), ("-", PROBE)):
                done = subprocess.run([compiler, "-std=" + standard, *FLAGS, "-xc++", what],
                                      input=text, capture_output=True, text=True, check=False)
                if done.returncode != 0:
                    problems.append(f"{compiler} -std={standard} {what}:\n{done.stderr.rstrip()}")
    return sources.finish("check-cxx", problems)


if __name__ == "__main__":
    sys.exit(main())
