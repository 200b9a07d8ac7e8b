// SPDX-License-Identifier: Apache-2.0
// A conversation as a template gets it, and the templates and special tokens of a folder.
#pragma once

#include <filesystem>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "chat/template.h"

namespace megalith::chat {

/// Largest file of messages that is read.
inline constexpr int64_t kMaxMessagesBytes = int64_t{64} << 20;
/// Most values in it, small ones too: each takes a hundred bytes and more.
inline constexpr size_t kMostMessageValues = 1'000'000;

/// Messages with what belongs to them.
class Conversation {
 public:
  /// Reads `[{"role", "content"}, ...]` or `{"messages", "tools", "documents",
  /// "chat_template_kwargs"}`, of which all but the messages may be absent; the last is an object
  /// of further variables. UserError naming `where` and what is wrong.
  static Conversation parse(std::string_view json, std::string_view where);

  bool has_tools() const { return has_tools_; }
  /// The variables of a template, as `transformers` prepares them: keys of a message whose value is
  /// null are left out, and reasoning is found under each of its names.
  Dict variables(const std::vector<std::pair<std::string, std::string>>& special_tokens,
                 bool add_generation_prompt, Budget& budget) const;

 private:
  Value messages_, tools_, documents_;
  Dict further_;
  bool has_tools_ = false;
};

/// The value of a JSON document whose levels are bounded.
Value value_of(const nlohmann::ordered_json& json, Budget& budget);

/// What a tokenizer's folder says of chats.
class ChatFolder {
 public:
  /// Reads chat_template.jinja, additional_chat_templates/*.jinja, and of tokenizer_config.json the
  /// key chat_template and the special tokens (those of special_tokens_map.json, if it is there and
  /// the configuration does not list its added tokens).
  static ChatFolder load(const std::filesystem::path& folder);
  /// The same from the contents of these files by their names in `folder`; others are passed over.
  static ChatFolder parse(const std::map<std::string, std::string>& files,
                          const std::filesystem::path& folder);

  /// The text of a conversation. As in `transformers` the template is "tool_use" if there are tools
  /// and it exists, and "default" otherwise. UserError if the folder has none.
  std::string render(const Conversation& conversation, bool add_generation_prompt,
                     const std::tm& now, const Limits& limits = {}) const;

 private:
  struct Source {
    std::string text;
    std::string name;  // for messages
  };
  void read_configured(const nlohmann::ordered_json& config, const std::string& where);
  std::string folder_;
  std::map<std::string, Source> templates_;
  std::vector<std::pair<std::string, std::string>> special_tokens_;
};

}  // namespace megalith::chat
