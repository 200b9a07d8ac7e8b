// SPDX-License-Identifier: Apache-2.0
// The adapters that `serve --adapter NAME=DIR` names.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "adapters/prompt_marks.h"
#include "protocols/served_model.h"
#include "serve/adapters.h"
#include "store/adapter_source.h"

namespace megalith::apps {

class ServedAdapters {
 public:
  /// Opens each once: memory is planned for what it has now. UserError about a name or a folder;
  /// `model`: the name that is taken. `source` must outlive it.
  ServedAdapters(const std::vector<std::string>& options, const std::string& model,
                 const store::ModelSource& source);

  /// As the options have them.
  const std::vector<std::string>& names() const { return names_; }
  const std::vector<layers::AdapterRanks>& ranks() const { return ranks_; }

  /// UserError where virtual tokens leave no room for a token that is read and one behind it, or
  /// where a draft model would have to have those that stand inside texts.
  void check(int64_t context, bool has_draft) const;
  /// Adds them to a model that is described as a whole.
  void add_to(protocols::ServedModel& model) const;

  /// What places one on a rank, its folder read anew; for any thread. UserError when it has other
  /// products, ranks or marks than at first.
  serve::PlaceAdapter place(const std::string& name) const;

 private:
  std::shared_ptr<store::AdapterSource> open(const std::string& name) const;
  size_t place_of(const std::string& name) const;
  /// Of one, before every text or inside it.
  int64_t virtual_tokens(const std::string& name) const;
  /// Of one whose virtual tokens stand inside texts; else null. Those with equal splits share them.
  std::shared_ptr<const adapters::PromptMarks> marks(const std::string& name) const;
  const store::ModelSource& source_;
  std::vector<std::string> names_;
  std::map<std::string, std::string> folders_;  // by name
  std::vector<layers::AdapterRanks> ranks_;
  std::vector<std::vector<int64_t>> splits_;  // in place of marks; empty: none
  std::map<std::vector<int64_t>, std::shared_ptr<const adapters::PromptMarks>> marks_;  // by splits
};

}  // namespace megalith::apps
