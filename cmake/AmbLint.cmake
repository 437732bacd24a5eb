# SPDX-License-Identifier: Apache-2.0
# The checks of tools/dev as tests of the label lint. They look at sources, not at what is built,
# so they are tests of the builds without sanitizers only.
if(NOT AMB_TESTS OR NOT AMB_LINT OR AMB_SANITIZE)
    return()
endif()
find_package(Python3 REQUIRED COMPONENTS Interpreter)
find_program(AMB_LINT_CXX NAMES g++ clang++ c++)
mark_as_advanced(AMB_LINT_CXX)

function(amb_lint name)
    add_test(NAME lint-${name} COMMAND ${ARGN})
    set_tests_properties(lint-${name} PROPERTIES LABELS lint TIMEOUT 120 SKIP_RETURN_CODE 77
        ENVIRONMENT "PYTHONDONTWRITEBYTECODE=1")
endfunction()

set(dev ${CMAKE_SOURCE_DIR}/tools/dev)
set(options --cc ${CMAKE_C_COMPILER} --include ${CMAKE_BINARY_DIR}/generated)
if(AMB_LINT_CXX)
    list(APPEND options --cxx ${AMB_LINT_CXX})
endif()
if(AMB_UCX STREQUAL "wheel")
    list(APPEND options --system ${AMB_UCX_INCLUDE})
endif()
amb_lint(headers ${Python3_EXECUTABLE} ${dev}/check-headers.py ${options})
amb_lint(readme ${Python3_EXECUTABLE} ${dev}/check-readme.py --cc ${CMAKE_C_COMPILER})
foreach(check IN ITEMS arrows size tests words)
    amb_lint(${check} ${Python3_EXECUTABLE} ${dev}/check-${check}.py)
endforeach()
amb_lint(format ${dev}/check-format.sh)
if(AMB_JEMALLOC AND TARGET brokerd)
    amb_lint(heap sh -c "ldd \"$0\" | grep jemalloc" $<TARGET_FILE:brokerd>)
endif()
