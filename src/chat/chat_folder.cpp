// SPDX-License-Identifier: Apache-2.0
// The files beside a tokenizer.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/folder.h"
#include "base/json_fault.h"
#include "chat/conversation.h"

namespace megalith::chat {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr int64_t kMaxConfigBytes = int64_t{32} << 20;
constexpr size_t kMostTemplates = 100;

/// Something has this name; what it is, reading it tells.
bool is_there(const fs::path& path) {
  std::error_code error;
  return fs::symlink_status(path, error).type() != fs::file_type::not_found;
}

Json read_json_file(const fs::path& path) {
  if (!is_there(path)) return Json::object();
  const std::string text = read_regular(path, kMaxConfigBytes);
  if (const auto fault = json_fault(text)) throw UserError("{}: {}", path.string(), *fault);
  Json json = Json::parse(text);
  if (!json.is_object()) throw UserError("{}: is not a JSON object", path.string());
  return json;
}

/// A token as a text or as an object with its content; nothing for null and for what is absent.
std::optional<std::string> token_of(const Json& config, const std::string& name,
                                    const fs::path& path) {
  const auto found = config.find(name);
  if (found == config.end() || found->is_null()) return std::nullopt;
  if (found->is_string()) return found->get<std::string>();
  if (found->is_object() && found->contains("content") && found->at("content").is_string())
    return found->at("content").get<std::string>();
  throw UserError("{}: \"{}\" is neither a text nor an object with \"content\"", path.string(),
                  name);
}

}  // namespace

ChatFolder ChatFolder::load(const fs::path& folder) {
  ChatFolder made;
  made.folder_ = folder.empty() ? "." : folder.string();
  const fs::path config_path = folder / "tokenizer_config.json";
  const fs::path map_path = folder / "special_tokens_map.json";
  const Json config = read_json_file(config_path), map = read_json_file(map_path);
  for (const char* name : {"bos_token", "eos_token", "unk_token", "sep_token", "pad_token",
                           "cls_token", "mask_token"}) {
    std::optional<std::string> token = token_of(config, name, config_path);
    if (!token) token = token_of(map, name, map_path);
    if (token) made.special_tokens_.emplace_back(name, *token);
  }
  const auto add = [&](const std::string& name, std::string text, std::string called) {
    if (made.templates_.size() == kMostTemplates)
      throw UserError("{}: more than {} chat templates", made.folder_, kMostTemplates);
    made.templates_[name] = {std::move(text), std::move(called)};
  };
  const auto limit = static_cast<int64_t>(Limits().template_bytes);
  const fs::path main = folder / "chat_template.jinja", more = folder / "additional_chat_templates";
  if (is_there(main)) add("default", read_regular(main, limit), main.string());
  std::error_code error;
  if (is_there(more)) {
    fs::directory_iterator entry(more, error);
    for (; !error && entry != fs::directory_iterator(); entry.increment(error)) {
      const fs::path& path = entry->path();
      if (path.extension() == ".jinja")
        add(path.stem().string(), read_regular(path, limit), path.string());
    }
  }
  if (error) throw SystemError("{}: reading the folder failed: {}", more.string(), error.message());
  const auto found = config.find("chat_template");
  if (!made.templates_.empty() || found == config.end() || found->is_null()) return made;
  const std::string called = config_path.string() + ": chat_template";
  if (found->is_string()) {
    add("default", found->get<std::string>(), called);
    return made;
  }
  if (!found->is_array()) throw UserError("{} is neither a text nor a list", called);
  for (const Json& item : *found) {
    const bool good = item.is_object() && item.contains("name") && item.at("name").is_string() &&
                      item.contains("template") && item.at("template").is_string();
    if (!good) throw UserError("{} has an entry without \"name\" and \"template\"", called);
    const auto name = item.at("name").get<std::string>();
    add(name, item.at("template").get<std::string>(), fmt::format("{} \"{}\"", called, name));
  }
  return made;
}

std::string ChatFolder::render(const Conversation& conversation, bool add_generation_prompt,
                               const std::tm& now, const Limits& limits) const {
  auto chosen = conversation.has_tools() ? templates_.find("tool_use") : templates_.end();
  if (chosen == templates_.end()) chosen = templates_.find("default");
  if (chosen == templates_.end() && templates_.empty())
    throw UserError(
        "{}: there is no chat template; put a chat_template.jinja or a "
        "tokenizer_config.json with \"chat_template\" beside the tokenizer",
        folder_);
  if (chosen == templates_.end())
    throw UserError("{}: of its chat templates none is called \"default\"", folder_);
  const Template parsed(chosen->second.text, chosen->second.name, limits);
  Limits unbounded = limits;  // the file of messages has a limit of its own
  unbounded.memory_bytes = SIZE_MAX / 4;
  unbounded.steps = INT64_MAX / 2;
  Budget budget(unbounded);
  return parsed.render(conversation.variables(special_tokens_, add_generation_prompt, budget), now);
}

}  // namespace megalith::chat
