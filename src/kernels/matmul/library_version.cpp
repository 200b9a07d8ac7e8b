// SPDX-License-Identifier: Apache-2.0
// A file of its own: whoever only names the library links nothing that multiplies with it.
#include <fmt/format.h>

#include <dnnl.hpp>

#include "kernels/matmul/product_class.h"

namespace megalith::kernels {

std::string library_version() {
  const dnnl_version_t* version = dnnl_version();
  return fmt::format("{}.{}.{}", version->major, version->minor, version->patch);
}

}  // namespace megalith::kernels
