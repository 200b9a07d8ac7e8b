# SPDX-License-Identifier: Apache-2.0
# Rooms whose threads share data: script/test runs their tests under ThreadSanitizer when asked (tier tsan;
# the target tsan_tests).
set(threaded_rooms base comm data parallel optim checkpoint engine inference train serve)

# The only way to declare a library of ours:
#
#   add_room(kernels LEVEL 3 USES base tensor device LIBRARIES PkgConfig::hwy
#            SOURCES matmul/matmul.cpp ...  TESTS matmul/matmul_test.cpp ...  TEST_USES testing)
#
# makes the static library `kernels` (included as "kernels/matmul/matmul.h") and, from TESTS, the
# program `kernels_test` (with TESTS_READ_SOURCES it knows the folder of the clone as
# MEGA_SOURCE_DIR). FUZZ names fuzz targets (fuzz.cmake). USES must be rooms of a lower level;
# tools/check_rooms.py proves the same from the includes. TEST_USES are further rooms that only
# the tests may include.
function(add_room name)
  cmake_parse_arguments(ROOM "TESTS_READ_SOURCES" "LEVEL"
    "USES;LIBRARIES;SOURCES;TESTS;TEST_USES;TEST_LIBRARIES;FUZZ" ${ARGN})
  set_property(GLOBAL PROPERTY room_level_${name} ${ROOM_LEVEL})
  foreach(used IN LISTS ROOM_USES)
    get_property(used_level GLOBAL PROPERTY room_level_${used})
    if("${used_level}" STREQUAL "")
      message(FATAL_ERROR "room ${name} uses ${used}, which is not declared before it")
    elseif(NOT used_level LESS ROOM_LEVEL)
      message(FATAL_ERROR "room ${name} (level ${ROOM_LEVEL}) may not use ${used} (level ${used_level})")
    endif()
  endforeach()
  add_library(${name} STATIC ${ROOM_SOURCES})
  target_include_directories(${name} PUBLIC $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}/src>
      $<INSTALL_INTERFACE:include/megalith>)
  target_compile_features(${name} INTERFACE cxx_std_20)
  target_link_libraries(${name} PUBLIC ${ROOM_USES} ${ROOM_LIBRARIES} PRIVATE $<BUILD_INTERFACE:mega_flags>)
  set(has_test_rooms ON)
  foreach(used IN LISTS ROOM_TEST_USES)  # a build of some rooms only may lack them
    if(NOT used IN_LIST rooms)
      set(has_test_rooms OFF)
      message(STATUS "no tests of ${name}: they need the room ${used}")
    endif()
  endforeach()
  if(MEGA_TESTS AND ROOM_TESTS AND has_test_rooms)
    add_executable(${name}_test ${ROOM_TESTS})
    target_link_libraries(${name}_test PRIVATE ${name} ${ROOM_TEST_USES} ${ROOM_TEST_LIBRARIES}
                          mega_flags GTest::gtest GTest::gmock GTest::gtest_main)
    set_target_properties(${name}_test PROPERTIES UNITY_BUILD OFF)  # tests name their own things freely
    # What is tested is optimized; its test is compiled in two thirds of the time.
    target_compile_options(${name}_test PRIVATE $<IF:$<BOOL:${MEGA_SANITIZE}>,-O0,-O1>)
    if(ROOM_TESTS_READ_SOURCES)  # of the others no object depends on where the clone is
      target_compile_definitions(${name}_test PRIVATE MEGA_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
    endif()
    add_test(NAME ${name} COMMAND ${name}_test)
    set_tests_properties(${name} PROPERTIES LABELS unit)
    if(MEGA_SANITIZE STREQUAL "thread" AND name IN_LIST threaded_rooms)
      set_tests_properties(${name} PROPERTIES LABELS "unit;tsan")
      if(NOT TARGET tsan_tests)
        add_custom_target(tsan_tests)
      endif()
      add_dependencies(tsan_tests ${name}_test)
    endif()
  endif()
  if(MEGA_FUZZ)
    foreach(target IN LISTS ROOM_FUZZ)
      add_fuzz_target(${target} FOLDER ${CMAKE_CURRENT_SOURCE_DIR}/fuzz USES ${name})
    endforeach()
  endif()
endfunction()
