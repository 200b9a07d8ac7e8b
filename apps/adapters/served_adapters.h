// SPDX-License-Identifier: Apache-2.0
// The adapters that `serve --adapter NAME=DIR` names.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

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

  /// UserError where virtual tokens leave no room for a token that is read and one behind it.
  void check_context(int64_t context) const;
  /// Of one, that stand before every text.
  int64_t virtual_tokens(const std::string& name) const;

  /// What places one on a rank, its folder read anew; for any thread. UserError when it has other
  /// products or ranks than at first.
  serve::PlaceAdapter place(const std::string& name) const;

 private:
  std::shared_ptr<store::AdapterSource> open(const std::string& name) const;
  const store::ModelSource& source_;
  std::vector<std::string> names_;
  std::map<std::string, std::string> folders_;  // by name
  std::vector<layers::AdapterRanks> ranks_;
};

}  // namespace megalith::apps
