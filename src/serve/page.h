// SPDX-License-Identifier: Apache-2.0
// The page at /: a chat with the model, and how the engine is doing. One HTML file (page.html).
#pragma once

#include <string_view>

namespace megalith::serve {

extern const std::string_view kPage;

}  // namespace megalith::serve
