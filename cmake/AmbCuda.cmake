# SPDX-License-Identifier: Apache-2.0
# The CUDA headers that wire/mem/cuda_*.c is built with, as target amb_cuda. Nothing links to the
# driver: it is loaded when a process first wants it (wire/mem/cuda_api.h). AMB_HAS_CUDA says whether
# they are used.
set(AMB_HAS_CUDA OFF)
if(AMB_CUDA)
    find_path(AMB_CUDA_INCLUDE cuda.h
        PATHS $ENV{CUDA_HOME}/include /usr/local/cuda/include ${CMAKE_SOURCE_DIR}/build/deps/cuda/include
            ${AMB_UCX_ROOT}/../nvidia/cu13/include # both wheels in one environment
        NO_DEFAULT_PATH)
    find_path(AMB_CUDA_INCLUDE cuda.h) # A distribution's.
    mark_as_advanced(AMB_CUDA_INCLUDE)
    if(NOT AMB_CUDA_INCLUDE)
        message(FATAL_ERROR "No cuda.h: run tools/deps.sh, or configure with -DAMB_CUDA=OFF")
    endif()
    set(AMB_HAS_CUDA ON)
    add_library(amb_cuda INTERFACE)
    target_include_directories(amb_cuda SYSTEM INTERFACE ${AMB_CUDA_INCLUDE})
endif()
