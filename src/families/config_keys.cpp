// SPDX-License-Identifier: Apache-2.0
#include "families/config_keys.h"

#include <algorithm>

#include "base/error.h"
#include "base/json_number.h"

namespace megalith::models {

using Json = nlohmann::json;

const Json* ConfigKeys::find(const char* key) const {
  asked_.insert(key);
  const auto found = json_.find(key);
  return found == json_.end() || found->is_null() ? nullptr : &*found;
}

int64_t ConfigKeys::integer(std::initializer_list<const char*> names, int64_t otherwise) const {
  const char* first = nullptr;
  int64_t value = otherwise;
  for (const char* name : names) {
    const Json* json = find(name);
    if (json == nullptr) continue;
    const auto number = whole_number_in(*json);
    if (!number) {
      throw UserError("{}: {}{} is {}, must be a whole number", where_, prefix_, name,
                      shown(*json));
    }
    if (first != nullptr && *number != value) {
      throw UserError("{}: {} is {}, but {} is {}; they are one setting", where_, first, value,
                      name, *number);
    }
    first = name;
    value = *number;
  }
  return value;
}

int64_t ConfigKeys::size(std::initializer_list<const char*> names, int64_t otherwise) const {
  for (const char* name : names) {
    if (find(name) == nullptr) continue;
    const int64_t value = integer(names, otherwise);
    if (value < 1)
      throw UserError("{}: {}{} is {}, must be at least 1", where_, prefix_, name, value);
    return value;
  }
  return otherwise;
}

double ConfigKeys::number(const char* name, double otherwise) const {
  const Json* json = find(name);
  if (json == nullptr) return otherwise;
  if (!json->is_number())
    throw UserError("{}: {}{} is {}, must be a number", where_, prefix_, name, shown(*json));
  return json->get<double>();
}

bool ConfigKeys::boolean(const char* name, bool otherwise) const {
  const Json* json = find(name);
  if (json == nullptr) return otherwise;
  if (!json->is_boolean())
    throw UserError("{}: {}{} is {}, must be true or false", where_, prefix_, name, shown(*json));
  return json->get<bool>();
}

std::string ConfigKeys::text(const char* name, const char* otherwise) const {
  const Json* json = find(name);
  if (json == nullptr) return otherwise;
  if (!json->is_string())
    throw UserError("{}: {}{} is {}, must be a text", where_, prefix_, name, shown(*json));
  return json->get<std::string>();
}

std::vector<double> ConfigKeys::numbers(const char* name) const {
  const Json* json = find(name);
  if (json == nullptr) return {};
  if (!json->is_array())
    throw UserError("{}: {}{} is {}, must be a list of numbers", where_, prefix_, name,
                    shown(*json));
  std::vector<double> values;
  for (const Json& entry : *json) {
    if (!entry.is_number()) {
      throw UserError("{}: {}{} holds {}, must be a list of numbers", where_, prefix_, name,
                      shown(entry));
    }
    values.push_back(entry.get<double>());
  }
  return values;
}

std::vector<std::string> ConfigKeys::texts(const char* name) const {
  const Json* json = find(name);
  if (json == nullptr) return {};
  if (!json->is_array() ||
      !std::ranges::all_of(*json, [](const Json& entry) { return entry.is_string(); })) {
    throw UserError("{}: {}{} is {}, must be a list of texts", where_, prefix_, name, shown(*json));
  }
  return json->get<std::vector<std::string>>();
}

bool ConfigKeys::is_null(const char* key) const {
  asked_.insert(key);
  const auto found = json_.find(key);
  return found != json_.end() && found->is_null();
}

void ConfigKeys::only(const char* name, bool needed) const {
  if (boolean(name, needed) != needed)
    throw UserError("{}: {}{} {} is not supported", where_, prefix_, name, !needed);
}

void ConfigKeys::only(const char* name, double needed) const {
  const double value = number(name, needed);
  if (value != needed)
    throw UserError("{}: {}{} {} is not supported", where_, prefix_, name, value);
}

void ConfigKeys::absent(const char* name, const char* what) const {
  if (find(name) != nullptr)
    throw UserError("{}: {}{}: {} not supported", where_, prefix_, name, what);
}

void ConfigKeys::no_others(std::string_view harmless) const {
  for (const auto& [key, value] : json_.items()) {
    if (value.empty() || asked_.contains(key)) continue;
    const bool is_word = !key.empty() && key.find(' ') == std::string::npos;
    if (is_word && harmless.find(fmt::format(" {} ", key)) != std::string_view::npos) continue;
    throw UserError(
        "{}: {}{} is not known here and may change what the model computes; remove it if it does "
        "not",
        where_, prefix_, shown(Json(key)));
  }
}

std::string ConfigKeys::shown(const Json& json) {
  if (json.is_structured()) return json.is_array() ? "a list" : "an object";
  std::string text = json.dump(-1, ' ', true, Json::error_handler_t::replace);
  if (text.size() > 60) text = text.substr(0, 60) + "...";
  return text;
}

}  // namespace megalith::models
