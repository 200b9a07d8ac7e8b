# SPDX-License-Identifier: Apache-2.0
# Fuzz targets: fuzz/NAME_fuzz.cpp of a room becomes the program fuzz_NAME (clang's libFuzzer with
# AddressSanitizer and UndefinedBehaviorSanitizer). As a test it runs for some seconds on its seeds
# (tools/fuzz_seeds.py), the inputs of fuzz/NAME/ (each once was a fault) and fuzz/NAME.dict, with
# the same random numbers each time: script/fuzz is for others.
#   add_fuzz_target(NAME FOLDER folder USES room... SOURCES further.cpp...)
# room.cmake calls it for what a room names as FUZZ.
set(MEGA_FUZZ_SECONDS 2 CACHE STRING "seconds each fuzz target runs as a test")
function(add_fuzz_target name)
  cmake_parse_arguments(FUZZ "" "FOLDER" "USES;SOURCES" ${ARGN})
  add_executable(fuzz_${name} ${FUZZ_FOLDER}/${name}_fuzz.cpp ${FUZZ_SOURCES})
  target_link_libraries(fuzz_${name} PRIVATE ${FUZZ_USES} mega_flags)
  target_include_directories(fuzz_${name} PRIVATE ${CMAKE_SOURCE_DIR}/src)
  target_link_options(fuzz_${name} PRIVATE -fsanitize=fuzzer)
  find_package(Python3 REQUIRED COMPONENTS Interpreter)
  add_test(NAME fuzz_${name}
           COMMAND ${Python3_EXECUTABLE} ${CMAKE_SOURCE_DIR}/tools/run_fuzz.py
                   --inputs ${FUZZ_FOLDER} --work ${CMAKE_BINARY_DIR}/fuzzing
                   --seconds ${MEGA_FUZZ_SECONDS} --random-seed 1 $<TARGET_FILE:fuzz_${name}>)
  set_tests_properties(fuzz_${name} PROPERTIES LABELS fuzz)
endfunction()
