# SPDX-License-Identifier: Apache-2.0
if(AMB_TESTS)
    # Debian's runs its own Python, which need not be the first one in PATH.
    find_program(AMB_PYTEST NAMES pytest-3 pytest REQUIRED)
    mark_as_advanced(AMB_PYTEST)
endif()

# amb_unit_test(FOLDER MODULE LIBRARIES...): MODULE_test.c, a CMocka program, in tests/unit/FOLDER or
# in a room below it. Its labels are unit and its room: `ctest -L broker/topic`.
function(amb_unit_test folder module)
    if(NOT AMB_TESTS)
        return()
    endif()
    string(REPLACE "/" "-" prefix ${folder})
    set(name unit-${prefix}-${module})
    file(GLOB_RECURSE file ${CMAKE_SOURCE_DIR}/tests/unit/${folder}/${module}_test.c)
    list(LENGTH file count)
    if(NOT count EQUAL 1)
        message(FATAL_ERROR "tests/unit/${folder}: ${count} files ${module}_test.c")
    endif()
    get_filename_component(room ${file} DIRECTORY)
    file(RELATIVE_PATH room ${CMAKE_SOURCE_DIR}/tests/unit ${room})
    add_executable(${name} ${file})
    target_link_libraries(${name} PRIVATE amb_flags ${ARGN} cmocka Threads::Threads)
    set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
    add_test(NAME ${name} COMMAND ${name})
    if(AMB_SANITIZE MATCHES "thread")
        set(limit 240) # An order of magnitude slower.
    else()
        set(limit 60)
    endif()
    set_tests_properties(${name} PROPERTIES LABELS "unit;${room}" TIMEOUT ${limit})
endfunction()

# amb_process_test(NAME LABEL COMMAND...): a test that starts processes. LABEL: integration (minutes
# in all, in every run of tools/test.sh), links or trust (of integration, too: what the second UCX has
# to pass as well; what keeps somebody out), stress, bench, system or system-long (only when asked
# for; the last two are packages and images, as root). Tests of integration run side by side: each has
# folders, sockets and ports of its own, and most of their time they wait. The others run alone, and so
# does a test of amb_alone.
function(amb_process_test name label)
    if(NOT AMB_TESTS)
        return()
    endif()
    if(label MATCHES "^(links|trust)$")
        set(label "integration;${label}")
    endif()
    add_test(NAME ${name} COMMAND ${ARGN})
    set_tests_properties(${name} PROPERTIES LABELS "${label}" TIMEOUT 300 SKIP_RETURN_CODE 77)
    if(label MATCHES "^(stress|bench|gpu)$")
        set_tests_properties(${name} PROPERTIES RUN_SERIAL TRUE)
    endif()
    if(AMB_SANITIZE MATCHES "address")
        # These look for no leaks, the unit tests do: here UCX's own count too, those of a device that
        # is lost, and those of programs that only judge. See tests/README.md for the other option.
        set_tests_properties(${name} PROPERTIES
            ENVIRONMENT "ASAN_OPTIONS=detect_leaks=0:intercept_tls_get_addr=0")
    endif()
endfunction()

# amb_python_test(NAME LABEL FILE OPTION...): the same by pytest, whose options are those of
# tests/conftest.py.
function(amb_python_test name label file)
    amb_process_test(${name} ${label} ${AMB_PYTEST} ${file} --build ${CMAKE_BINARY_DIR} ${ARGN})
endfunction()

# amb_alone(NAME...): tests that measure time, CPU time or rates, so nothing else runs beside them.
function(amb_alone)
    if(AMB_TESTS)
        set_tests_properties(${ARGN} PROPERTIES RUN_SERIAL TRUE)
    endif()
endfunction()

# amb_long(SECONDS NAME...): tests that take that long. Where several run side by side, ctest starts
# with the longest.
function(amb_long seconds)
    if(AMB_TESTS)
        set_tests_properties(${ARGN} PROPERTIES COST ${seconds})
    endif()
endfunction()
