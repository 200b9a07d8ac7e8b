// SPDX-License-Identifier: Apache-2.0
// One number for a whole state, equal for equal states whatever the layout or the files.
#pragma once

#include <map>
#include <string>

#include "tensor/dtype.h"
#include "tensor/shape.h"

namespace megalith::checkpoint {

/// SHA-256 over one line per logical tensor, in byte order of the names:
///   name '\t' dtype '\t' sizes joined by ',' '\t' SHA-256 of the tensor's bytes (row major) '\n'
class StateDigest {
 public:
  void add(const std::string& name, DType dtype, const Shape& shape, const std::string& sha256);
  /// Lower-case hexadecimal.
  std::string finish() const;

 private:
  std::map<std::string, std::string> lines_;
};

}  // namespace megalith::checkpoint
