# SPDX-License-Identifier: Apache-2.0
# Flags that make a fault of ours harder to use, as target amb_hardening: of every source that is
# compiled here, the generated ones too. tools/dev/check-hardening reads them from the binaries.
include(CheckPIESupported)
check_pie_supported(LANGUAGES C) # Or CMAKE_POSITION_INDEPENDENT_CODE says nothing to the linker.

add_library(amb_hardening INTERFACE)
target_compile_options(amb_hardening INTERFACE -fstack-protector-strong -fstack-clash-protection)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
    # The linker marks a program for CET where the C library's own objects are marked: not in Debian 12.
    target_compile_options(amb_hardening INTERFACE -fcf-protection=full)
elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "aarch64|arm64")
    target_compile_options(amb_hardening INTERFACE -mbranch-protection=standard)
endif()
# Without optimisation FORTIFY does nothing; sanitizers have checks of their own.
if(NOT AMB_SANITIZE AND NOT AMB_FUZZ AND NOT CMAKE_BUILD_TYPE STREQUAL "Debug")
    target_compile_options(amb_hardening INTERFACE -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3)
endif()
# No -ftrivial-auto-var-init=zero: a wait would take up to 45 % more instructions, a lease 37 %.
# No folder of this machine is in a program that is shipped: two builds give the same bytes
# (tools/dev/same-bytes.sh). To debug one, tell gdb `directory` and the top folder of the sources.
if(NOT CMAKE_BUILD_TYPE STREQUAL "Debug")
    set(maps -ffile-prefix-map=${CMAKE_BINARY_DIR}=./build -ffile-prefix-map=${CMAKE_SOURCE_DIR}=.)
    target_compile_options(amb_hardening INTERFACE ${maps})
    target_link_options(amb_hardening INTERFACE ${maps}) # For the optimiser at link time.
endif()
target_link_options(amb_hardening INTERFACE -Wl,-z,relro,-z,now -Wl,-z,noexecstack)
