// SPDX-License-Identifier: Apache-2.0
// Jinja decides before it runs a template where each name of a scope is kept. A scope that sets a
// name before it reads it, in the order of the text and without the scopes within, keeps the name
// itself from its beginning: scopes within that run before the assignment find it undefined, even
// if the template was given a variable of that name.
#pragma once

#include "chat/tree.h"

namespace megalith::chat {

/// Fills `unset` of all scopes: the names that are undefined when the scope begins.
void find_unset_names(TemplateTree& tree);

}  // namespace megalith::chat
