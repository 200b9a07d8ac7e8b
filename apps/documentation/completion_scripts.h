// SPDX-License-Identifier: Apache-2.0
// Scripts that complete a command line in a shell. Each knows every command, option and choice as
// of the program that printed it, and runs nothing when it completes.
#pragma once

#include <string>

#include "apps/documentation/command_tree.h"

namespace megalith::apps {

/// For bash: a function and its `complete` line, read from share/bash-completion/completions.
std::string bash_completion(const CommandEntry& root);
/// For zsh: `_megalith`, autoloaded from a folder of $fpath such as share/zsh/site-functions.
std::string zsh_completion(const CommandEntry& root);
/// For fish: read from share/fish/vendor_completions.d.
std::string fish_completion(const CommandEntry& root);

}  // namespace megalith::apps
