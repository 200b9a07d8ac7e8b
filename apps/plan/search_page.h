// SPDX-License-Identifier: Apache-2.0
// The result of a search over layouts as a page (report/search_page.h).
#pragma once

#include "apps/plan/search_text.h"

namespace megalith::apps {

/// Plans the best once more, for its schedule and its memory by stage.
void write_search_page(const SearchReport& report, const account::BesideSteps& beside,
                       const std::string& path);

}  // namespace megalith::apps
