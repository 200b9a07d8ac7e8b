// SPDX-License-Identifier: Apache-2.0
// Unicode's four normalisation forms, by ICU, as Unicode 9 had them: Hugging Face's are of that
// version, and characters that came later pass unchanged there.
#pragma once

#include <string>
#include <string_view>

namespace megalith::characters {

enum class NormalForm { nfc, nfd, nfkc, nfkd };

/// Appends `text`, which must be UTF-8, in that form.
void append_normal_form(std::string& out, std::string_view text, NormalForm form);

}  // namespace megalith::characters
