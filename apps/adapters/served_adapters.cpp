// SPDX-License-Identifier: Apache-2.0
#include "apps/adapters/served_adapters.h"

#include <algorithm>

#include "base/error.h"

namespace megalith::apps {

ServedAdapters::ServedAdapters(const std::vector<std::string>& options, const std::string& model,
                               const store::ModelSource& source)
    : source_(source) {
  for (const std::string& text : options) {
    const size_t sign = text.find('=');
    const std::string name = text.substr(0, sign);
    const bool is_plain = !name.empty() && name.find('/') == std::string::npos;
    if (sign == std::string::npos || !is_plain || sign + 1 == text.size()) {
      throw UserError(
          "--adapter {}: give a name, without a slash, and a folder, as in sql=runs/sql", text);
    }
    if (name == model || name == "fastertransformer" || folders_.contains(name))
      throw UserError("--adapter {}: the name {} is taken", text, name);
    names_.push_back(name);
    folders_.emplace(name, text.substr(sign + 1));
    const auto adapter = open(name);
    if (!adapter->splits().empty()) {
      throw UserError(
          "--adapter {}: its virtual tokens stand inside texts, in place of marks, which serve "
          "does "
          "not read; generate does",
          name);
    }
    ranks_.push_back(adapter->ranks());
  }
}

std::shared_ptr<store::AdapterSource> ServedAdapters::open(const std::string& name) const {
  return std::make_shared<store::AdapterSource>(
      store::AdapterSource::open(folders_.at(name), source_));
}

int64_t ServedAdapters::virtual_tokens(const std::string& name) const {
  return layers::virtual_tokens_of(
      ranks_.at(static_cast<size_t>(std::ranges::find(names_, name) - names_.begin())));
}

void ServedAdapters::check_context(int64_t context) const {
  for (const std::string& name : names_) {
    if (const int64_t count = virtual_tokens(name); count == 0 || count + 2 <= context) continue;
    throw UserError("--adapter {}: its {} virtual tokens leave no room in the context of {}", name,
                    virtual_tokens(name), context);
  }
}

serve::PlaceAdapter ServedAdapters::place(const std::string& name) const {
  const std::shared_ptr<store::AdapterSource> adapter = open(name);
  const auto at = static_cast<size_t>(std::ranges::find(names_, name) - names_.begin());
  if (adapter->ranks() != ranks_[at]) {
    throw UserError(
        "{}: has other products or ranks than when the server planned its memory; start the "
        "server again",
        folders_.at(name));
  }
  adapter->hold();  // the engine's thread neither waits for a file nor fails by one
  return [adapter](engine::ShardedModel& model) {
    auto placed =
        std::make_shared<layers::Adapter>(model.parameters(), model.device(), adapter->ranks());
    adapter->fill(*placed, model.parameters(), model.exec(), model.mesh().tensor());
    return placed;
  };
}

}  // namespace megalith::apps
