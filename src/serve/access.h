// SPDX-License-Identifier: Apache-2.0
// Who may ask: keys, and pages of other places.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "serve/http_request.h"

namespace megalith::serve {

/// The keys in a file, one a line; empty lines and those that begin with # aside. UserError when
/// there is none, or one that no header can carry.
std::vector<std::string> parse_api_keys(const std::string& text, const std::string& where);

/// Which of the keys the request bears, by `Authorization: Bearer KEY`; nothing without a right
/// one. Takes the same time for every wrong key of one length.
std::optional<size_t> key_of(const HttpRequest& request, std::span<const std::string> keys);

/// Whether a browser may show the answer to the page that asks: one of this server, or of a place
/// that is allowed ("*": any). Requests of other programs name no page.
bool may_ask(const HttpRequest& request, std::span<const std::string> allowed);
/// The headers that tell a browser so; none where it need not be told.
std::vector<std::pair<std::string, std::string>> cross_origin_headers(
    const HttpRequest& request, std::span<const std::string> allowed);

}  // namespace megalith::serve
