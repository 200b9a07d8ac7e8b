// SPDX-License-Identifier: Apache-2.0
// KServe's model repository: which adapters there are, and which of them are loaded. Names are
// those the server was started with; nothing else of a request is taken.
#include <algorithm>

#include "base/log.h"
#include "base/one_line.h"
#include "serve/active_request.h"

namespace megalith::serve {

using protocols::ApiError;
using protocols::Json;

namespace {

constexpr std::string_view kRepository = "/v2/repository/";
constexpr std::string_view kRepositoryModels = "/v2/repository/models/";

/// "NAME/load" in its parts; nothing else.
struct RepositoryPath {
  std::string name, verb;
};
RepositoryPath repository_path(std::string_view path) {
  path.remove_prefix(std::min(kRepositoryModels.size(), path.size()));
  const size_t slash = path.rfind('/');
  if (slash == std::string_view::npos) return {};
  return {std::string(path.substr(0, slash)), std::string(path.substr(slash + 1))};
}

/// The body, if there is one. Parameters that would say what to load are refused.
Json repository_body(const HttpRequest& request) {
  if (request.body.empty()) return Json::object();
  Json body = protocols::parse_body(request.body);
  const auto parameters = body.find("parameters");
  if (parameters == body.end() || !parameters->is_object()) return body;
  for (const auto& [key, value] : parameters->items()) {
    if (key == "unload_dependents" && value == false) continue;
    throw ApiError(
        "parameters",
        "the parameter '{}' is not taken: an adapter is what the server was started with",
        one_line(key, 100));
  }
  return body;
}

std::string index_json(const std::vector<protocols::RepositoryEntry>& entries, bool ready_alone) {
  Json models = Json::array();
  for (const auto& [name, state] : entries) {
    if (ready_alone && state != "READY") continue;
    models.push_back({{"name", name}, {"version", "1"}, {"state", state}, {"reason", ""}});
  }
  return protocols::text_of_json(models);
}

const char* state_name(AdapterState state) {
  if (state == AdapterState::ready) return "READY";
  return state == AdapterState::leaving ? "UNLOADING" : "UNAVAILABLE";
}

}  // namespace

bool is_repository(const std::string& path) { return path.starts_with(kRepository); }

std::vector<std::string> Service::ready_adapters() const {
  std::vector<std::string> names;
  for (const protocols::ServedModel& adapter : model_.adapters)
    if (loop_.adapter_state(adapter.name) == AdapterState::ready) names.push_back(adapter.name);
  return names;
}

void Service::require_ready(const std::string& adapter) const {
  if (loop_.adapter_state(adapter) == AdapterState::ready) return;
  throw ApiError("model", "the adapter '{}' is not loaded (/v2/repository/models/{}/load)", adapter,
                 adapter)
      .with_status(404)
      .with_reason("model_not_found");
}

std::vector<protocols::RepositoryEntry> Service::repository() const {
  std::vector<protocols::RepositoryEntry> entries;
  entries.push_back({model_.name, phase_ == Phase::ready ? "READY" : "UNAVAILABLE"});
  for (const protocols::ServedModel& adapter : model_.adapters) {
    const bool is_opening = opening_.contains(adapter.name);
    entries.push_back(
        {adapter.name, is_opening ? "LOADING" : state_name(loop_.adapter_state(adapter.name))});
  }
  return entries;
}

void Service::post_repository(const HttpRequest& request,
                              const std::shared_ptr<Exchange>& exchange) {
  if (phase_ != Phase::ready) throw not_ready(phase_);
  const Json body = repository_body(request);
  if (request.path == "/v2/repository/index") {
    const auto ready = body.find("ready");
    const bool ready_alone = ready != body.end() && *ready == true;
    return exchange->respond({.body = index_json(repository(), ready_alone)});
  }
  const auto [name, verb] = repository_path(request.path);
  if (!request.path.starts_with(kRepositoryModels) || (verb != "load" && verb != "unload"))
    throw ApiError("", "there is nothing at {}", one_line(request.path, 100)).with_status(404);
  change_repository(name, verb == "load", exchange);
}

void Service::change_repository(const std::string& name, bool loads,
                                const std::shared_ptr<Exchange>& exchange) {
  if (phase_ != Phase::ready) throw not_ready(phase_);
  const protocols::ServedModel& named = protocols::model_named(model_, name);
  protocols::require_kserve_model(named, name, "");
  if (!named.parent.empty())
    return loads ? load_adapter(name, exchange) : unload_adapter(name, exchange);
  if (!loads) throw ApiError("", "'{}' is the model itself, which stays", named.name);
  exchange->confirm();
}

void Service::load_adapter(const std::string& name, const std::shared_ptr<Exchange>& exchange) {
  const AdapterState state = loop_.adapter_state(name);
  if (state == AdapterState::ready) return exchange->confirm();
  if (state == AdapterState::leaving || opening_.contains(name)) {
    throw ApiError("", "the adapter '{}' is being {}: try again soon", name,
                   state == AdapterState::leaving ? "unloaded" : "loaded")
        .with_status(409)
        .with_retry_after(1);
  }
  struct Opened {
    PlaceAdapter place;
    std::string fault;
  };
  const auto opened = std::make_shared<Opened>();
  opening_.insert(name);
  aside_(
      Errand::prepare,
      [opened, name, open = open_] {
        try {
          opened->place = open(name);
        } catch (const std::exception& error) {
          opened->fault = error.what();
        }
      },
      [this, opened, name, exchange] {
        opening_.erase(name);
        if (!opened->place) {
          // Where its files are is the operator's affair.
          log::warning("the adapter '{}' cannot be loaded: {}", name, opened->fault);
          return exchange->refuse(
              ApiError("", "the adapter '{}' cannot be loaded; the server's log says why", name));
        }
        loop_.load(name, std::move(opened->place));
        exchange->confirm();
      });
}

void Service::unload_adapter(const std::string& name, const std::shared_ptr<Exchange>& exchange) {
  if (loop_.adapter_state(name) != AdapterState::ready)
    throw ApiError("", "the adapter '{}' is not loaded", name);
  leave_[loop_.unload(name)] = exchange;
}

/// The answer that whoever asked for it waits for.
void Service::on_adapter_left(uint64_t number) {
  const auto at = leave_.find(number);
  if (at == leave_.end()) return;
  at->second->confirm();
  leave_.erase(at);
}

}  // namespace megalith::serve
