/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two kernels in PTX, which every driver compiles for its devices. amb_fill writes base + index
 * into each word; amb_check counts the words that are something else.
 */
#pragma once

/* %d3: the thread's first word; %d5: how far its next one is. */
#define AMB_KERNEL_INDEX                                                                           \
    "mov.u32 %r2, %ctaid.x;\n"                                                                     \
    "mov.u32 %r3, %ntid.x;\n"                                                                      \
    "mov.u32 %r4, %tid.x;\n"                                                                       \
    "mov.u32 %r5, %nctaid.x;\n"                                                                    \
    "mul.wide.u32 %d3, %r2, %r3;\n"                                                                \
    "cvt.u64.u32 %d4, %r4;\n"                                                                      \
    "add.u64 %d3, %d3, %d4;\n"                                                                     \
    "mul.wide.u32 %d5, %r5, %r3;\n"

static const char amb_bench_kernels[] =
    ".version 6.0\n"
    ".target sm_70\n"
    ".address_size 64\n"
    ".visible .entry amb_fill(.param .u64 p_to, .param .u64 p_count, .param .u32 p_base)\n"
    "{\n"
    ".reg .pred %p;\n"
    ".reg .b32 %r<8>;\n"
    ".reg .b64 %d<8>;\n"
    "ld.param.u64 %d1, [p_to];\n"
    "ld.param.u64 %d2, [p_count];\n"
    "ld.param.u32 %r1, [p_base];\n"
    "cvta.to.global.u64 %d1, %d1;\n" AMB_KERNEL_INDEX "again:\n"
    "setp.ge.u64 %p, %d3, %d2;\n"
    "@%p bra done;\n"
    "cvt.u32.u64 %r6, %d3;\n"
    "add.u32 %r6, %r6, %r1;\n"
    "shl.b64 %d6, %d3, 2;\n"
    "add.u64 %d6, %d1, %d6;\n"
    "st.global.u32 [%d6], %r6;\n"
    "add.u64 %d3, %d3, %d5;\n"
    "bra again;\n"
    "done:\n"
    "ret;\n"
    "}\n"
    ".visible .entry amb_check(.param .u64 p_at, .param .u64 p_count, .param .u32 p_base, .param "
    ".u64 p_wrong)\n"
    "{\n"
    ".reg .pred %p;\n"
    ".reg .b32 %r<9>;\n"
    ".reg .b64 %d<9>;\n"
    "ld.param.u64 %d1, [p_at];\n"
    "ld.param.u64 %d2, [p_count];\n"
    "ld.param.u32 %r1, [p_base];\n"
    "ld.param.u64 %d7, [p_wrong];\n"
    "cvta.to.global.u64 %d1, %d1;\n"
    "cvta.to.global.u64 %d7, %d7;\n" AMB_KERNEL_INDEX "again:\n"
    "setp.ge.u64 %p, %d3, %d2;\n"
    "@%p bra done;\n"
    "shl.b64 %d6, %d3, 2;\n"
    "add.u64 %d6, %d1, %d6;\n"
    "ld.global.u32 %r7, [%d6];\n"
    "cvt.u32.u64 %r6, %d3;\n"
    "add.u32 %r6, %r6, %r1;\n"
    "add.u64 %d3, %d3, %d5;\n"
    "setp.eq.u32 %p, %r6, %r7;\n"
    "@%p bra again;\n"
    "mov.u32 %r8, 1;\n"
    "red.global.add.u32 [%d7], %r8;\n"
    "bra again;\n"
    "done:\n"
    "ret;\n"
    "}\n";
