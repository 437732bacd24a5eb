# SPDX-License-Identifier: Apache-2.0
find_program(AMB_PROTOC_C NAMES protoc-c REQUIRED)

# amb_protobuf_c(TARGET FOLDER/NAME.proto): the generated library, without our warnings.
function(amb_protobuf_c target proto)
    cmake_path(GET proto STEM name)
    cmake_path(GET proto PARENT_PATH folder)
    set(out ${CMAKE_BINARY_DIR}/generated)
    file(MAKE_DIRECTORY ${out}/${folder})
    add_custom_command(
        OUTPUT ${out}/${folder}/${name}.pb-c.c ${out}/${folder}/${name}.pb-c.h
        COMMAND ${AMB_PROTOC_C} --proto_path=${CMAKE_SOURCE_DIR} --c_out=${out} ${proto}
        DEPENDS ${CMAKE_SOURCE_DIR}/${proto}
        COMMENT "Generating ${name}.pb-c.c")
    add_library(${target} STATIC ${out}/${folder}/${name}.pb-c.c)
    target_include_directories(${target} SYSTEM PUBLIC ${out})
    target_link_libraries(${target} PUBLIC PkgConfig::PROTOBUF_C PRIVATE amb_hardening)
    target_compile_options(${target} PRIVATE -w)
endfunction()
