// SPDX-License-Identifier: Apache-2.0
// What a run must not lose. Whoever keeps a part of it (weights and optimizer, the place in the
// data, guards, later loss scalers and amax histories) registers how it is saved and taken back;
// checkpoints and resumes know nothing else.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/reader.h"
#include "checkpoint/saver.h"

namespace megalith::checkpoint {

class StateRegistry {
 public:
  /// Numbers under `key` of a checkpoint's state; null is left out. `restore` is given the whole
  /// state, of which it may read what others saved before. Throws IntegrityError when its own is
  /// not what `save` gives.
  struct Values {
    std::string key;
    std::function<nlohmann::json()> save;
    std::function<void(const nlohmann::json& state)> restore;
  };
  /// Logical tensors, each rank its pieces. `save` may be collective; what it gives is valid until
  /// the next call. `restore` throws IntegrityError when one is missing or has another shape.
  struct Tensors {
    std::function<std::vector<TensorSource>()> save;
    std::function<void(const Reader& reader)> restore;
  };
  void add(Values values) { values_.push_back(std::move(values)); }
  void add(Tensors tensors) { tensors_.push_back(std::move(tensors)); }

  nlohmann::json values() const {
    nlohmann::json state = nlohmann::json::object();
    for (const Values& v : values_) {
      nlohmann::json value = v.save();
      if (v.key.empty()) {
        state.update(value);  // at the top, as the position is
      } else if (!value.is_null()) {
        state[v.key] = std::move(value);
      }
    }
    return state;
  }
  std::vector<TensorSource> tensors() const {
    std::vector<TensorSource> all;
    for (const Tensors& t : tensors_) {
      for (TensorSource& source : t.save()) all.push_back(std::move(source));
    }
    return all;
  }
  /// Values first, in the order of registering: they refuse before any tensor is read.
  void restore(const Reader& reader) const {
    for (const Values& v : values_) v.restore(reader.state());
    for (const Tensors& t : tensors_) t.restore(reader);
  }

 private:
  std::vector<Values> values_;
  std::vector<Tensors> tensors_;
};

}  // namespace megalith::checkpoint
