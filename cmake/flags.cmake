# SPDX-License-Identifier: Apache-2.0
# Flags of every target of ours. `-ffp-contract=off` is part of the arithmetic (docs/design/0001):
# the compiler must not fuse what the source does not fuse.
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()
set(MEGA_OPTIMIZE -O2 CACHE STRING "optimization of a Release build")
set(CMAKE_CXX_FLAGS_RELEASE "${MEGA_OPTIMIZE}")

add_library(mega_flags INTERFACE)
target_compile_options(mega_flags INTERFACE
  -ffp-contract=off -fno-math-errno -fno-omit-frame-pointer -fstack-protector-strong
  -Wall -Wextra -Wshadow -Wconversion -Wno-sign-conversion -Wnon-virtual-dtor)
if(MEGA_WARNINGS_AS_ERRORS)
  target_compile_options(mega_flags INTERFACE -Werror)
endif()
if(MEGA_SANITIZE STREQUAL "address")
  target_compile_options(mega_flags INTERFACE -fsanitize=address,undefined -fno-sanitize-recover=all -g1)
  target_link_options(mega_flags INTERFACE -fsanitize=address,undefined)
  if(MEGA_FUZZ)
    target_compile_options(mega_flags INTERFACE -fsanitize=fuzzer-no-link)
  endif()
elseif(MEGA_SANITIZE STREQUAL "thread")
  target_compile_options(mega_flags INTERFACE -fsanitize=thread -g1)
  target_link_options(mega_flags INTERFACE -fsanitize=thread)
elseif(CMAKE_BUILD_TYPE STREQUAL "Release")
  target_compile_definitions(mega_flags INTERFACE _FORTIFY_SOURCE=2)
endif()
target_link_options(mega_flags INTERFACE -Wl,-z,relro,-z,now)

find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # Paths below the clone are relative in its keys, so that another clone finds what this one compiled.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} CCACHE_NOHASHDIR=1
      ${CCACHE_PROGRAM})
endif()
