// SPDX-License-Identifier: Apache-2.0
// Who may ask: keys, and pages of other origins.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "serve/http_request.h"
#include "serve/http_response.h"

namespace megalith::serve {

/// The keys in a file, one a line; lines that are empty or begin with # are skipped. UserError when
/// there is none, or one that no header can carry.
std::vector<std::string> parse_api_keys(const std::string& text, const std::string& where);

/// Which of the keys a request bears, by its header or metadata `Authorization: Bearer KEY`;
/// nothing without a right one. Takes the same time for every wrong key of one length.
std::optional<size_t> key_of(std::string_view authorization, std::span<const std::string> keys);

/// Whether the page that asks may: one of this server, or of an origin that is allowed ("*": any).
/// Requests of other programs name no origin.
bool may_ask(const HttpRequest& request, std::span<const std::string> allowed);
/// The headers without which a browser shows no answer to a page of an allowed origin; none for
/// others.
HttpHeaders cross_origin_headers(const HttpRequest& request, std::span<const std::string> allowed);

}  // namespace megalith::serve
