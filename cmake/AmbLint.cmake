# SPDX-License-Identifier: Apache-2.0
# The checks of tools/dev as tests of the label lint, and the test of tools/test.sh. They look at
# sources, and some at programs as they are shipped, so builds with sanitizers have none of them.
if(NOT AMB_TESTS OR NOT AMB_LINT OR AMB_SANITIZE)
    return()
endif()
find_package(Python3 REQUIRED COMPONENTS Interpreter)
find_program(AMB_LINT_CXX NAMES g++ clang++ c++)
mark_as_advanced(AMB_LINT_CXX)

function(amb_lint name)
    add_test(NAME lint-${name} COMMAND ${ARGN})
    set_tests_properties(lint-${name} PROPERTIES LABELS lint TIMEOUT 300 SKIP_RETURN_CODE 77
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
if(AMB_HAS_CUDA)
    list(APPEND options --system ${AMB_CUDA_INCLUDE})
else()
    list(APPEND options --without cuda.h)
endif()
amb_lint(headers ${Python3_EXECUTABLE} ${dev}/check-headers.py ${options})
amb_lint(readme ${Python3_EXECUTABLE} ${dev}/check-readme.py --cc ${CMAKE_C_COMPILER})
foreach(check IN ITEMS arrows cxx mentions names numbers size tests walks warning words)
    amb_lint(${check} ${Python3_EXECUTABLE} ${dev}/check-${check}.py)
endforeach()
amb_lint(prose ${Python3_EXECUTABLE} ${dev}/draw-sentences.py --all)
amb_lint(format ${dev}/check-format.sh)
amb_lint(walks-finds ${AMB_PYTEST} ${CMAKE_SOURCE_DIR}/tests/dev/walks_test.py)
amb_lint(arrows-finds ${AMB_PYTEST} ${CMAKE_SOURCE_DIR}/tests/dev/arrows_test.py)
amb_lint(mentions-finds ${AMB_PYTEST} ${CMAKE_SOURCE_DIR}/tests/dev/mentions_test.py)
amb_lint(names-finds ${AMB_PYTEST} ${CMAKE_SOURCE_DIR}/tests/dev/names_test.py)
amb_lint(numbers-finds ${AMB_PYTEST} ${CMAKE_SOURCE_DIR}/tests/dev/numbers_test.py)
amb_lint(prose-finds ${AMB_PYTEST} ${CMAKE_SOURCE_DIR}/tests/dev/prose_test.py)
amb_lint(new-file ${Python3_EXECUTABLE} ${CMAKE_SOURCE_DIR}/tests/dev/new_file_test.py
    -DAMB_UCX=${AMB_UCX} -DAMB_UCX_ROOT=${AMB_UCX_ROOT} -DAMB_CUDA=${AMB_CUDA}
    -DAMB_CUDA_INCLUDE=${AMB_CUDA_INCLUDE} -DAMB_JEMALLOC=${AMB_JEMALLOC}
    -DCMAKE_C_COMPILER=${CMAKE_C_COMPILER} -DCMAKE_C_COMPILER_LAUNCHER=${CMAKE_C_COMPILER_LAUNCHER})
amb_lint(rig-tells ${AMB_PYTEST} ${CMAKE_SOURCE_DIR}/tests/dev/rig_test.py)
amb_lint(hook ${CMAKE_SOURCE_DIR}/tests/dev/hook_test.sh)
amb_lint(test-script ${CMAKE_SOURCE_DIR}/tests/dev/test_script_test.sh)
amb_lint(hardening-finds ${AMB_PYTEST} ${CMAKE_SOURCE_DIR}/tests/dev/hardening_test.py)
amb_lint(warning-finds ${AMB_PYTEST} ${CMAKE_SOURCE_DIR}/tests/dev/warning_test.py)
if(TARGET brokerd AND TARGET amb)
    amb_lint(hardening ${Python3_EXECUTABLE} ${dev}/check-hardening
        --commands ${CMAKE_BINARY_DIR}/compile_commands.json
        $<TARGET_FILE:brokerd> $<TARGET_FILE:amb> $<TARGET_FILE:broker-ctl>)
endif()
if(AMB_JEMALLOC AND TARGET brokerd)
    amb_lint(heap sh -c "ldd \"$0\" | grep jemalloc" $<TARGET_FILE:brokerd>)
endif()
