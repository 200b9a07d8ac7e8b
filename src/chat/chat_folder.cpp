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
constexpr char kConfigName[] = "tokenizer_config.json";
constexpr char kMapName[] = "special_tokens_map.json";
constexpr char kMainName[] = "chat_template.jinja";
constexpr char kNamedFolder[] = "additional_chat_templates/";
constexpr const char* kTokenNames[] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                       "pad_token", "cls_token", "mask_token"};
constexpr char kExtension[] = ".jinja";

/// Something has this name; what it is, reading it tells.
bool is_there(const fs::path& path) {
  std::error_code error;
  return fs::symlink_status(path, error).type() != fs::file_type::not_found;
}

/// The document of that name; an empty object if there is none.
Json document_of(const std::map<std::string, std::string>& files, const std::string& name,
                 const fs::path& folder) {
  const auto found = files.find(name);
  if (found == files.end()) return Json::object();
  const std::string where = (folder / name).string();
  if (const auto fault = json_fault(found->second)) throw UserError("{}: {}", where, *fault);
  Json json = Json::parse(found->second);
  if (!json.is_object()) throw UserError("{}: is not a JSON object", where);
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

/// The tokens that templates know by a name, as transformers finds them: the older map counts, and
/// wins, unless the configuration lists its added tokens; a model may have further names.
std::vector<std::pair<std::string, std::string>> special_tokens(const Json& config, const Json& map,
                                                                const fs::path& folder) {
  const bool has_map = !config.contains("added_tokens_decoder");
  std::vector<std::pair<std::string, std::string>> tokens;
  const auto add = [&](const Json& from, const std::string& name, const fs::path& path) {
    if (const auto token = token_of(from, name, path)) tokens.emplace_back(name, *token);
  };
  for (const char* name : kTokenNames) {
    const bool is_mapped = has_map && map.contains(name);
    add(is_mapped ? map : config, name, folder / (is_mapped ? kMapName : kConfigName));
  }
  for (const auto& [key, value] : config.items()) {
    const bool is_known =
        std::find(std::begin(kTokenNames), std::end(kTokenNames), key) != std::end(kTokenNames);
    if (!is_known && key.ends_with("_token") && value.is_string())
      add(config, key, folder / kConfigName);
  }
  const auto further = config.find("extra_special_tokens");
  if (further != config.end() && further->is_object())
    for (const auto& [key, unused] : further->items()) add(*further, key, folder / kConfigName);
  return tokens;
}

/// The names of the templates that lie beside the main one, without the folder's.
std::vector<std::string> named_templates(const fs::path& folder) {
  std::vector<std::string> names;
  if (!is_there(folder)) return names;
  std::error_code error;
  fs::directory_iterator entry(folder, error);
  for (; !error && entry != fs::directory_iterator(); entry.increment(error))
    if (entry->path().extension() == kExtension) names.push_back(entry->path().filename().string());
  if (error)
    throw SystemError("{}: reading the folder failed: {}", folder.string(), error.message());
  if (names.size() > kMostTemplates)
    throw UserError("{}: more than {} chat templates", folder.string(), kMostTemplates);
  return names;
}

}  // namespace

ChatFolder ChatFolder::load(const fs::path& folder) {
  std::map<std::string, std::string> files;
  const auto read = [&](const std::string& name, int64_t limit) {
    if (is_there(folder / name)) files[name] = read_regular(folder / name, limit);
  };
  const auto limit = static_cast<int64_t>(Limits().template_bytes);
  read(kConfigName, kMaxConfigBytes);
  read(kMapName, kMaxConfigBytes);
  read(kMainName, limit);
  for (const std::string& name : named_templates(folder / kNamedFolder))
    read(kNamedFolder + name, limit);
  return parse(files, folder);
}

ChatFolder ChatFolder::parse(const std::map<std::string, std::string>& files,
                             const fs::path& folder) {
  ChatFolder made;
  made.folder_ = folder.empty() ? "." : folder.string();
  const Json config = document_of(files, kConfigName, folder);
  const Json map = document_of(files, kMapName, folder);
  made.special_tokens_ = special_tokens(config, map, folder);
  for (const auto& [name, text] : files) {
    const fs::path path = name;
    const bool is_named = name.starts_with(kNamedFolder) && path.extension() == kExtension;
    if (name != kMainName && !is_named) continue;
    made.templates_[is_named ? path.stem().string() : "default"] = {text, (folder / path).string()};
  }
  if (made.templates_.empty()) made.read_configured(config, (folder / kConfigName).string());
  return made;
}

void ChatFolder::read_configured(const Json& config, const std::string& where) {
  const auto found = config.find("chat_template");
  if (found == config.end() || found->is_null()) return;
  const std::string called = where + ": chat_template";
  if (found->is_string()) {
    templates_["default"] = {found->get<std::string>(), called};
    return;
  }
  if (!found->is_array()) throw UserError("{} is neither a text nor a list", called);
  if (found->size() > kMostTemplates)
    throw UserError("{}: more than {} chat templates", where, kMostTemplates);
  for (const Json& item : *found) {
    const bool good = item.is_object() && item.contains("name") && item.at("name").is_string() &&
                      item.contains("template") && item.at("template").is_string();
    if (!good) throw UserError("{} has an entry without \"name\" and \"template\"", called);
    const auto name = item.at("name").get<std::string>();
    templates_[name] = {item.at("template").get<std::string>(),
                        fmt::format("{} \"{}\"", called, name)};
  }
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
