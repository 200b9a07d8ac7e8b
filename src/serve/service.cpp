// SPDX-License-Identifier: Apache-2.0
#include "serve/service.h"

#include <algorithm>

#include "base/clock.h"
#include "base/log.h"
#include "base/one_line.h"
#include "protocols/models.h"
#include "serve/access.h"
#include "serve/active_request.h"
#include "serve/page.h"

namespace megalith::serve {

using protocols::ApiError;

namespace {

ApiError not_found(const std::string& path) {
  return ApiError("", "there is nothing at {}", one_line(path, 100)).with_status(404);
}

/// What anybody may see: whether it lives, and the page, which asks for the key itself.
bool is_public(const std::string& path) {
  return path == "/" || path == "/health" || path == "/v1/health" || path == "/ping" ||
         path == "/v2/health/live" || path == "/v2/health/ready";
}

}  // namespace

ApiError not_ready(Service::Phase phase) {
  const char* const what = phase == Service::Phase::loading ? "Loading model" : "Shutting down";
  return ApiError("", "{}", what).with_status(503).with_retry_after(5);
}

HttpResponse response_of(protocols::Body body) {
  return {.content_type = std::move(body.content_type),
          .body = std::move(body.text),
          .headers = std::move(body.headers)};
}

Service::Service(protocols::ServedModel model, ServiceOptions options, EngineLoop& loop,
                 Aside aside, OpenAdapter open)
    : model_(std::move(model)),
      options_(std::move(options)),
      loop_(loop),
      aside_(std::move(aside)),
      open_(std::move(open)) {}
Service::~Service() = default;

void Service::handle(HttpRequest request, std::shared_ptr<Exchange> exchange) {
  const bool kserve = is_kserve(request.path);
  exchange->headers = cross_origin_headers(request, options_.allow_origins);
  exchange->is_kserve = kserve;
  try {
    if (!may_ask(request, options_.allow_origins))
      throw ApiError("", "pages of {} may not ask this server (--allow-origin)",
                     one_line(request.header("origin"), 100))
          .with_status(403);
    if (request.method == "OPTIONS") {
      HttpResponse response{.status = 204, .content_type = ""};
      response.headers.emplace_back("Allow", "GET, HEAD, POST, OPTIONS");
      return exchange->respond(std::move(response));
    }
    if (!options_.api_keys.empty() && !is_public(request.path) &&
        !key_of(request.header("authorization"), options_.api_keys)) {
      throw ApiError("", "this server requires a key: Authorization: Bearer KEY").with_status(401);
    }
    const MakeWork make = work_of_path(request.path);
    const bool reads = request.method == "GET" || request.method == "HEAD";
    if (request.method == "POST" && make != nullptr)
      return post(std::move(request), exchange, make);
    if (request.method == "POST" && is_repository(request.path))
      return post_repository(request, exchange);
    if (reads && kserve) return get_kserve(request, *exchange);
    if (reads && make == nullptr) return get(request, *exchange);
    if (make == nullptr && request.method == "POST") throw not_found(request.path);
    throw ApiError("", "{} does not take {}", one_line(request.path, 100),
                   one_line(request.method, 20))
        .with_status(405);
  } catch (const ApiError& error) {
    ++metrics_.bad_requests;
    HttpResponse response = error_response(error, kserve);
    if (error.status() == 405) response.headers.emplace_back("Allow", "GET, HEAD, POST, OPTIONS");
    exchange->respond(std::move(response));
  } catch (const std::exception& error) {
    exchange->refuse(ApiError("", "{}", error.what()).with_status(500));
  }
}

void Service::health(Exchange& exchange) const {
  if (phase_ == Phase::ready) return exchange.respond({.body = R"({"status":"ok"})"});
  exchange.respond(error_response(not_ready(phase_), false));
}

void Service::get(const HttpRequest& request, Exchange& exchange) {
  const std::string& path = request.path;
  if (path == "/health" || path == "/v1/health" || path == "/ping") return health(exchange);
  if (path == "/") {
    return exchange.respond(
        {.content_type = "text/html; charset=utf-8",
         .body = std::string(kPage),
         .headers = {{"Content-Security-Policy",
                      "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; "
                      "connect-src 'self'; img-src data:; frame-ancestors 'none'"}}});
  }
  if (path == "/metrics") {
    return exchange.respond({.content_type = "text/plain; version=0.0.4; charset=utf-8",
                             .body = metrics_.text(model_.name, loop_.state())});
  }
  if (path == "/version")
    return exchange.respond({.body = protocols::text_of_json({{"version", options_.version}})});
  if (path == "/v1/models")
    return exchange.respond({.body = protocols::models_json(model_, ready_adapters())});
  constexpr std::string_view kModels = "/v1/models/";
  if (path.starts_with(kModels)) {
    const std::string_view name = std::string_view(path).substr(kModels.size());
    const protocols::ServedModel& model = protocols::model_named(model_, name);
    protocols::require_model(model, name);
    if (!model.parent.empty()) require_ready(model.name);
    return exchange.respond({.body = protocols::model_json(model)});
  }
  if (path == "/tokenizer_info")
    return exchange.respond({.body = protocols::tokenizer_info_json(model_)});
  throw not_found(path);
}

void Service::get_kserve(const HttpRequest& request, Exchange& exchange) {
  const std::string& path = request.path;
  bool ready = phase_ == Phase::ready;
  if (path == "/v2/health/live") return exchange.respond({.body = R"({"live":true})"});
  if (path == "/v2/health/ready")
    return exchange.respond(
        {.status = ready ? 200 : 503, .body = ready ? R"({"ready":true})" : R"({"ready":false})"});
  if (path == "/v2" || path == "/v2/")
    return exchange.respond({.body = protocols::kserve_server_json(options_.version)});
  const auto model = model_path(path);
  if (!model) throw not_found(path);
  const protocols::ServedModel& served = protocols::model_named(model_, model->name);
  protocols::require_kserve_model(served, model->name, model->version);
  if (!served.parent.empty())
    ready = ready && loop_.adapter_state(served.name) == AdapterState::ready;
  if (model->verb.empty())
    return exchange.respond({.body = protocols::kserve_model_json(model->name)});
  if (model->verb != "ready") throw not_found(path);
  exchange.respond({.status = ready ? 200 : 503,
                    .body = protocols::text_of_json({{"name", model->name}, {"ready", ready}})});
}

void Service::post(HttpRequest request, std::shared_ptr<Exchange> exchange, MakeWork make) {
  const auto key = key_of(request.header("authorization"), options_.api_keys);
  take({.exchange = std::move(exchange),
        .path = request.path,
        .client = client_of(key, request.peer),
        .errand = may_build_grammar(request.body) ? Errand::prepare : Errand::read,
        .make = [make, request = std::move(request)](const protocols::ServedModel& model) {
          return make(request, model);
        }});
}

std::string Service::client_of(std::optional<size_t> key, const std::string& peer) {
  return key ? fmt::format("key:{}", *key) : "peer:" + peer;
}

void Service::take(Arrival arrival) {
  if (phase_ != Phase::ready) throw not_ready(phase_);
  const auto active = std::make_shared<Active>();
  Active& made = *active;
  made.exchange = std::move(arrival.exchange);
  made.path = std::move(arrival.path);
  made.client = std::move(arrival.client);
  made.begin = monotonic_seconds();
  made.deadline = made.begin + std::min(options_.deadline_seconds, arrival.seconds);
  made.exchange->on_gone = [&made] { made.is_gone = true; };
  struct Outcome {
    Work work;
    std::optional<ApiError> error;
  };
  const auto outcome = std::make_shared<Outcome>();
  ++preparing_;
  aside_(
      arrival.errand,
      [outcome, this, make = std::move(arrival.make)] {
        try {
          outcome->work = make(model_);
        } catch (const ApiError& error) {
          outcome->error = error;
        } catch (const UserError& error) {
          outcome->error = ApiError("", "{}", error.what());
        } catch (const std::exception& error) {
          outcome->error = ApiError("", "{}", error.what()).with_status(500);
        }
      },
      [this, outcome, active, was_read = std::move(arrival.was_read)] {
        --preparing_;
        if (was_read) was_read();
        Active& ours = *active;
        ours.exchange->on_gone = nullptr;
        if (ours.is_gone) return;
        if (outcome->error) {
          ++metrics_.bad_requests;
          return ours.exchange->refuse(*outcome->error);
        }
        if (outcome->work.answer)
          return ours.exchange->respond(response_of(std::move(*outcome->work.answer)));
        const std::string user = outcome->work.texts ? outcome->work.texts->user : "";
        // A key says who it is; an address, of a proxy say, less than the request does.
        if (!user.empty() && ours.client.starts_with("peer:")) ours.client = "user:" + user;
        try {
          if (!outcome->work.adapter.empty()) require_ready(outcome->work.adapter);
        } catch (const ApiError& error) {
          ++metrics_.bad_requests;
          return ours.exchange->refuse(error);
        }
        start(active, std::move(outcome->work));
      });
}

void Service::start(const std::shared_ptr<Active>& active, Work work) {
  Active& made = *active;
  std::optional<uint64_t> ticket;
  ++metrics_.started;
  if (work.vectors) {
    made.reading = std::move(work.vectors);
    made.left = 1;
    ticket = loop_.submit_reading(made.reading->readings, work.adapter);
  } else {
    protocols::Prepared& texts = *work.texts;
    warn_unknown(texts.unknown_fields);
    made.reply = std::move(texts.reply);
    made.left = texts.sequences.size();
    made.written.resize(made.left);
    made.tokens.resize(made.left);
    made.last_tokens.resize(made.left);
    const protocols::ServedModel& model = protocols::model_named(model_, work.adapter);
    int64_t num_texts = 0;
    for (const auto& sequence : texts.sequences) {
      num_texts += sequence.options.best;
      made.prompt_lengths.push_back(protocols::counted_tokens(model, sequence.prompt.size()));
      metrics_.most_tokens.add(static_cast<double>(sequence.options.max_new_tokens));
    }
    metrics_.n.add(static_cast<double>(num_texts));
    if (texts.timeout > 0) made.deadline = std::min(made.deadline, made.begin + texts.timeout);
    ticket = loop_.submit(std::move(texts.sequences), made.client, work.adapter);
  }
  if (!ticket) {
    ++metrics_.rejected;
    if (phase_ != Phase::ready) return made.exchange->refuse(not_ready(phase_));
    return made.exchange->refuse(
        ApiError("", "the queue is full: try again soon").with_status(429).with_retry_after(1));
  }
  made.ticket = *ticket;
  made.exchange->on_gone = [this, number = *ticket] {
    loop_.cancel(number);
    ++metrics_.cancelled;
    active_.erase(number);
  };
  active_.emplace(*ticket, active);
}

void Service::warn_unknown(const std::vector<std::string>& fields) {
  constexpr size_t kMostWarnings = 100;
  for (const std::string& field : fields) {
    if (unknown_fields_.size() < kMostWarnings && unknown_fields_.insert(field).second)
      log::warning("a request has the unknown field '{}': it is ignored", field);
  }
}

}  // namespace megalith::serve
