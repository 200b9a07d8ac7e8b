# SPDX-License-Identifier: Apache-2.0
# The object library `protocol_messages`: what protoc makes of the .proto files. For the room and for its fuzz target,
# of which a build may have one or both.
if(NOT TARGET protocol_messages)
  set(generated ${CMAKE_BINARY_DIR}/generated)
  file(MAKE_DIRECTORY ${generated}/grpc_protocol)
  foreach(proto IN ITEMS inference health)
    add_custom_command(
      OUTPUT ${generated}/grpc_protocol/${proto}.pb.cc ${generated}/grpc_protocol/${proto}.pb.h
      COMMAND protobuf::protoc --proto_path=${CMAKE_SOURCE_DIR}/src --cpp_out=${generated}
              ${CMAKE_CURRENT_LIST_DIR}/${proto}.proto
      DEPENDS ${CMAKE_CURRENT_LIST_DIR}/${proto}.proto VERBATIM)
    list(APPEND messages ${generated}/grpc_protocol/${proto}.pb.cc)
  endforeach()
  add_library(protocol_messages OBJECT ${messages})
  target_include_directories(protocol_messages SYSTEM PUBLIC ${generated})
  target_link_libraries(protocol_messages PUBLIC protobuf::libprotobuf-lite PRIVATE mega_flags)
  # Not ours to judge: the generated code is compiled without our warnings.
  target_compile_options(protocol_messages PRIVATE -w)
endif()
