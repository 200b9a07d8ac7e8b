# SPDX-License-Identifier: Apache-2.0
# Completion scripts and manual pages: printed by the program itself as soon as it is built, installed
# where shells and man look.
set(documentation ${CMAKE_BINARY_DIR}/documentation)
add_custom_command(
  OUTPUT ${documentation}/made
  COMMAND ${CMAKE_COMMAND} -E rm -rf ${documentation}
  COMMAND ${CMAKE_COMMAND} -E make_directory ${documentation}
  COMMAND megalith completion bash > ${documentation}/megalith
  COMMAND megalith completion zsh > ${documentation}/_megalith
  COMMAND megalith completion fish > ${documentation}/megalith.fish
  COMMAND megalith man --output ${documentation}/man1
  COMMAND ${CMAKE_COMMAND} -E touch ${documentation}/made
  DEPENDS megalith VERBATIM)
add_custom_target(documentation ALL DEPENDS ${documentation}/made)
install(FILES ${documentation}/megalith DESTINATION share/bash-completion/completions)
install(FILES ${documentation}/_megalith DESTINATION share/zsh/site-functions)
install(FILES ${documentation}/megalith.fish DESTINATION share/fish/vendor_completions.d)
install(DIRECTORY ${documentation}/man1 DESTINATION share/man)
