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
    ranks_.push_back(adapter->ranks());
    const std::vector<int64_t>& splits = splits_.emplace_back(adapter->splits());
    // A tokenizer of its own, so once.
    if (splits.empty() || marks_.contains(splits)) continue;
    try {
      marks_[splits] = std::make_shared<adapters::PromptMarks>(source.require_tokenizer(),
                                                               source.spec().vocab, splits);
    } catch (const UserError& error) {
      throw UserError("--adapter {}: {}", name, error.what());
    }
  }
}

std::shared_ptr<store::AdapterSource> ServedAdapters::open(const std::string& name) const {
  return std::make_shared<store::AdapterSource>(
      store::AdapterSource::open(folders_.at(name), source_));
}

size_t ServedAdapters::place_of(const std::string& name) const {
  return static_cast<size_t>(std::ranges::find(names_, name) - names_.begin());
}

int64_t ServedAdapters::virtual_tokens(const std::string& name) const {
  const layers::AdapterRanks& ranks = ranks_.at(place_of(name));
  return layers::virtual_tokens_of(ranks) + layers::tokens_in_text_of(ranks);
}

std::shared_ptr<const adapters::PromptMarks> ServedAdapters::marks(const std::string& name) const {
  const auto found = marks_.find(splits_.at(place_of(name)));
  return found == marks_.end() ? nullptr : found->second;
}

void ServedAdapters::check(int64_t context, bool has_draft) const {
  for (const std::string& name : names_) {
    if (has_draft && marks(name) != nullptr) {
      throw UserError(
          "--adapter {}: its virtual tokens stand inside texts, and a draft model does not have "
          "them; leave --draft out",
          name);
    }
    if (const int64_t count = virtual_tokens(name); count == 0 || count + 2 <= context) continue;
    throw UserError("--adapter {}: its {} virtual tokens leave no room in the context of {}", name,
                    virtual_tokens(name), context);
  }
}

void ServedAdapters::add_to(protocols::ServedModel& model) const {
  protocols::add_adapters(model, names_);
  for (protocols::ServedModel& adapter : model.adapters) {
    adapter.context -= virtual_tokens(adapter.name);
    adapter.marks = marks(adapter.name);
  }
}

serve::PlaceAdapter ServedAdapters::place(const std::string& name) const {
  const std::shared_ptr<store::AdapterSource> adapter = open(name);
  const size_t at = place_of(name);
  if (adapter->ranks() != ranks_[at] || adapter->splits() != splits_[at]) {
    throw UserError(
        "{}: has other products, ranks or marks of virtual tokens than when the server was "
        "started; start it again",
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
