# SPDX-License-Identifier: Apache-2.0
# The UCX whose headers wire/link/ucx*/ is built with, as target amb_ucx. Nothing links to it: it is
# loaded when the first ucx link is wanted (wire/link/ucxlib/ucx_api.h).
add_library(amb_ucx INTERFACE)
if(AMB_UCX STREQUAL "wheel")
    set(root ${CMAKE_SOURCE_DIR}/build/deps/ucx)
    if(AMB_WHEEL AND NOT EXISTS ${root})
        # Nobody ran tools/deps.sh for `pip install git+URL`: the environment that pip builds in has it.
        find_package(Python3 REQUIRED COMPONENTS Interpreter)
        execute_process(COMMAND ${Python3_EXECUTABLE} -c "import libucx; print(libucx.__path__[0])"
            OUTPUT_VARIABLE root OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
    endif()
    set(AMB_UCX_ROOT ${root} CACHE PATH "Unpacked libucx wheel")
    # The .pc files of the wheel name a prefix that exists nowhere, so headers and libraries are
    # found by path.
    find_path(AMB_UCX_INCLUDE ucp/api/ucp.h PATHS ${AMB_UCX_ROOT}/include NO_DEFAULT_PATH)
    find_file(AMB_UCP_LIBRARY libucp.so.0 PATHS ${AMB_UCX_ROOT}/lib NO_DEFAULT_PATH)
    if(NOT AMB_UCX_INCLUDE OR NOT AMB_UCP_LIBRARY)
        message(FATAL_ERROR "No UCX in ${AMB_UCX_ROOT}: run tools/deps.sh, or configure with -DAMB_UCX=system")
    endif()
    target_include_directories(amb_ucx SYSTEM INTERFACE ${AMB_UCX_INCLUDE})
    # Of what runs from the build folder; installed programs have their own (AmbInstall.cmake).
    list(APPEND CMAKE_BUILD_RPATH ${AMB_UCX_ROOT}/lib)
elseif(AMB_UCX STREQUAL "system")
    find_package(PkgConfig REQUIRED)
    pkg_check_modules(UCX REQUIRED IMPORTED_TARGET ucx>=1.13)
    target_include_directories(amb_ucx SYSTEM INTERFACE ${UCX_INCLUDE_DIRS})
    if(AMB_PACKAGES)
        set(AMB_UCX_ROOT ${CMAKE_SOURCE_DIR}/build/deps/ucx) # is the package ambroker-ucx
    endif()
else()
    message(FATAL_ERROR "AMB_UCX is wheel or system, not '${AMB_UCX}'")
endif()
