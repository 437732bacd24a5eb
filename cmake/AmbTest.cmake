# SPDX-License-Identifier: Apache-2.0
# amb_unit_test(FOLDER MODULE LIBRARIES...): tests/unit/FOLDER/MODULE_test.c, a CMocka program.
function(amb_unit_test folder module)
    if(NOT AMB_TESTS)
        return()
    endif()
    string(REPLACE "/" "-" prefix ${folder})
    set(name unit-${prefix}-${module})
    add_executable(${name} ${CMAKE_SOURCE_DIR}/tests/unit/${folder}/${module}_test.c)
    target_link_libraries(${name} PRIVATE amb_flags ${ARGN} cmocka Threads::Threads)
    set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
    add_test(NAME ${name} COMMAND ${name})
    set_tests_properties(${name} PROPERTIES LABELS unit TIMEOUT 60)
endfunction()
