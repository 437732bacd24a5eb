# SPDX-License-Identifier: Apache-2.0
# Flags of every target of ours; the presets that are tested have CMAKE_COMPILE_WARNING_AS_ERROR, so
# that another compiler's new warning stops nobody else. UCX and other libraries come in as SYSTEM
# includes.
include(AmbHardening)
add_library(amb_flags INTERFACE)
target_compile_definitions(amb_flags INTERFACE _GNU_SOURCE)
target_include_directories(amb_flags INTERFACE ${CMAKE_SOURCE_DIR} ${CMAKE_SOURCE_DIR}/client/include)
target_compile_options(amb_flags INTERFACE
    -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion -Wstrict-prototypes
    -Wmissing-prototypes -Wpointer-arith -Wcast-qual -Wwrite-strings -Wundef -Wvla -Wswitch-enum
    -Wformat=2 -Wimplicit-fallthrough
    # With optimisation gcc 12 sees null pointers in lists that were built just before.
    $<$<CONFIG:Debug>:-Wnull-dereference>
    -fno-common)
target_link_libraries(amb_flags INTERFACE amb_hardening)
if(CMAKE_C_COMPILER_ID STREQUAL "GNU" AND AMB_SANITIZE)
    # Sanitizers' own instrumentation makes gcc see null dereferences that are not there.
    target_compile_options(amb_flags INTERFACE -Wno-null-dereference)
endif()
if(CMAKE_C_COMPILER_ID MATCHES "Clang")
    # clang looks into the macros of system headers too: protobuf-c's __INIT cast const away. gcc
    # does not, and keeps watch over our own casts.
    target_compile_options(amb_flags INTERFACE -Wno-cast-qual)
endif()
if(AMB_SANITIZE)
    target_compile_options(amb_flags INTERFACE -fsanitize=${AMB_SANITIZE} -fno-omit-frame-pointer)
    # The sanitizers call dlopen in our place, and of the caller's path and the program's the linker
    # asks the caller's only, unless the program's is of the old kind: UCX would be the system's.
    target_link_options(amb_flags INTERFACE -fsanitize=${AMB_SANITIZE} LINKER:--disable-new-dtags)
endif()
if(AMB_FUZZ)
    # Coverage in all of our code; tests/fuzz links libFuzzer itself.
    target_compile_options(amb_flags INTERFACE -fsanitize=fuzzer-no-link)
    target_link_options(amb_flags INTERFACE -fsanitize=fuzzer-no-link)
endif()
