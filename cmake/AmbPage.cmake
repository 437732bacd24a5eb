# SPDX-License-Identifier: Apache-2.0
# amb_page(LIBRARY): the page of broker/http/page, in one file with dygraphs of the distribution, as bytes in
# a library; with -DAMB_PAGE=OFF no bytes. Run as a script (-P) it makes that file: -DPAGE=folder -DDYGRAPHS=folder -DGZIP=program -DOUT=file.
if(CMAKE_SCRIPT_MODE_FILE STREQUAL CMAKE_CURRENT_LIST_FILE)
    file(READ ${PAGE}/page.html html)
    foreach(name IN ITEMS dygraph.min.css page.css dygraph.min.js page.js)
        set(folder ${PAGE})
        if(name MATCHES "^dygraph")
            set(folder ${DYGRAPHS})
        endif()
        file(READ ${folder}/${name} text)
        # Maps of their sources would be asked for by a browser's tools.
        string(REGEX REPLACE "\n?(//|/\\*)# sourceMappingURL=[^\n]*" "" text "${text}")
        string(FIND "${html}" "@${name}@" place)
        if(place EQUAL -1)
            message(FATAL_ERROR "page.html has no @${name}@")
        endif()
        string(REPLACE "@${name}@" "${text}" html "${html}")
    endforeach()
    file(WRITE ${OUT}.html "${html}")
    execute_process(COMMAND ${GZIP} -9 -n -c ${OUT}.html OUTPUT_FILE ${OUT}.html.gz COMMAND_ERROR_IS_FATAL ANY)
    set(code "#include \"broker/http/page.h\"\n")
    foreach(pair IN ITEMS "html;html" "gzip;html.gz")
        list(GET pair 0 name)
        list(GET pair 1 suffix)
        file(READ ${OUT}.${suffix} bytes HEX)
        file(SIZE ${OUT}.${suffix} len)
        string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
        string(REGEX REPLACE "(0x[0-9a-f]+,0x[0-9a-f]+,0x[0-9a-f]+,0x[0-9a-f]+,0x[0-9a-f]+,0x[0-9a-f]+,0x[0-9a-f]+,0x[0-9a-f]+,)"
            "\\1\n" bytes "${bytes}")
        string(APPEND code
            "const unsigned char amb_http_page_${name}[] = {\n${bytes}};\nconst size_t amb_http_page_${name}_len = ${len};\n")
    endforeach()
    file(WRITE ${OUT} "${code}")
    return()
endif()

function(amb_page library)
    if(NOT AMB_PAGE)
        add_library(${library} STATIC ${CMAKE_SOURCE_DIR}/broker/http/page_none.c)
        target_link_libraries(${library} PRIVATE amb_flags amb_base PkgConfig::MICROHTTPD)
        return()
    endif()
    find_path(AMB_DYGRAPHS dygraph.min.js PATHS /usr/share/javascript/dygraphs)
    find_program(AMB_GZIP gzip)
    mark_as_advanced(AMB_DYGRAPHS AMB_GZIP)
    if(NOT AMB_DYGRAPHS OR NOT AMB_GZIP)
        message(FATAL_ERROR "the page needs dygraphs (Debian: libjs-dygraphs) and gzip; or -DAMB_PAGE=OFF")
    endif()
    set(folder ${CMAKE_SOURCE_DIR}/broker/http/page)
    set(out ${CMAKE_BINARY_DIR}/generated/page.c)
    add_custom_command(OUTPUT ${out}
        COMMAND ${CMAKE_COMMAND} -DPAGE=${folder} -DDYGRAPHS=${AMB_DYGRAPHS} -DGZIP=${AMB_GZIP} -DOUT=${out}
            -P ${CMAKE_SOURCE_DIR}/cmake/AmbPage.cmake
        DEPENDS ${folder}/page.html ${folder}/page.css ${folder}/page.js ${AMB_DYGRAPHS}/dygraph.min.js
            ${AMB_DYGRAPHS}/dygraph.min.css ${CMAKE_SOURCE_DIR}/cmake/AmbPage.cmake
        COMMENT "The page" VERBATIM)
    add_library(${library} STATIC ${out})
    target_link_libraries(${library} PRIVATE amb_flags amb_base PkgConfig::MICROHTTPD)
endfunction()
