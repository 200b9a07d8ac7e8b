// SPDX-License-Identifier: Apache-2.0
// Requests to answers: who may ask, what is asked of the engine, what becomes of its events. All
// calls are of the thread of the sockets; knows no sockets.
#pragma once

#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "protocols/kserve.h"
#include "serve/engine_loop.h"
#include "serve/http_response.h"
#include "serve/metrics.h"
#include "serve/work.h"

namespace megalith::serve {

struct ServiceOptions {
  std::vector<std::string> api_keys{};       // empty: everybody may ask
  std::vector<std::string> allow_origins{};  // pages of other places that may ask; "*": all
  double deadline_seconds = 600;             // of a request
  std::string version{};                     // of the program
};

class Service {
 public:
  /// What is done on other threads.
  enum class Errand : uint8_t {
    read,     // a body: soon done
    prepare,  // a grammar, an adapter's files: not before bodies that others send
  };
  /// Runs `work` on another thread, then `done` on this one; errands of a kind in their order.
  using Aside = std::function<void(Errand, std::function<void()> work, std::function<void()> done)>;
  /// `loop` must outlive it.
  /// `open`: of the model's adapters.
  Service(protocols::ServedModel model, ServiceOptions options, EngineLoop& loop, Aside aside,
          OpenAdapter open = {});
  ~Service();

  enum class Phase : uint8_t { loading, ready, draining };
  void set_phase(Phase phase) { phase_ = phase; }
  void handle(HttpRequest request, std::shared_ptr<Exchange> exchange);
  /// A request of any interface.
  struct Arrival {
    std::shared_ptr<Exchange> exchange;
    std::string path;                                          // for people
    std::string client;                                        // as client_of() names it
    double seconds = std::numeric_limits<double>::infinity();  // that the client gives it
    Errand errand = Errand::read;                              // that `make` is
    /// Reads it, on another thread; ApiError or another UserError when it is wrong.
    std::function<Work(const protocols::ServedModel&)> make;
    std::function<void()> was_read{};  // called after that; may be empty
  };
  /// ApiError, status 503, unless requests are taken.
  void take(Arrival arrival);
  /// Whose turn a request is: its key's, or else its user's or its address's.
  static std::string client_of(std::optional<size_t> key, const std::string& peer);
  void on_events(std::vector<Event> events);
  /// Ends what is beyond its deadline; to be called now and then.
  void tick(double now);
  /// Requests that are not answered yet.
  size_t num_active() const {
    return active_.size() + preparing_ + opening_.size() + leave_.size();
  }
  /// Ends all of them with an error.
  void end_all(const protocols::ApiError& error);
  /// The names of requests, for people.
  std::string names_of(const std::vector<uint64_t>& tickets) const;
  Metrics& metrics() { return metrics_; }
  Phase phase() const { return phase_; }
  const protocols::ServedModel& model() const { return model_; }
  const ServiceOptions& options() const { return options_; }
  /// Names of the adapters that are loaded.
  std::vector<std::string> ready_adapters() const;
  /// The model and its adapters.
  std::vector<protocols::RepositoryEntry> repository() const;
  /// Loads an adapter, or unloads it; confirms when that is done. ApiError when it cannot be.
  void change_repository(const std::string& name, bool loads,
                         const std::shared_ptr<Exchange>& exchange);

 private:
  struct Active;
  void get(const HttpRequest& request, Exchange& exchange);
  void get_kserve(const HttpRequest& request, Exchange& exchange);
  void health(Exchange& exchange) const;
  void post_repository(const HttpRequest& request, const std::shared_ptr<Exchange>& exchange);
  void load_adapter(const std::string& name, const std::shared_ptr<Exchange>& exchange);
  void unload_adapter(const std::string& name, const std::shared_ptr<Exchange>& exchange);
  void require_ready(const std::string& adapter) const;
  void on_adapter_left(uint64_t number);
  void post(HttpRequest request, std::shared_ptr<Exchange> exchange, MakeWork make);
  void start(const std::shared_ptr<Active>& active, Work work);
  void on_event(Active& active, Event& event);
  void on_token(Active& active, Event& event);
  void finish(Active& active);
  void fail(Active& active, const protocols::ApiError& error);
  void send(Active& active, const std::string& events);
  void count_ended(const Active& active, size_t sequence);
  void warn_unknown(const std::vector<std::string>& fields);

  protocols::ServedModel model_;
  ServiceOptions options_;
  EngineLoop& loop_;
  Aside aside_;
  OpenAdapter open_;
  std::set<std::string> opening_;                        // adapters whose files are being read
  std::map<uint64_t, std::shared_ptr<Exchange>> leave_;  // who waits for which to have left
  Metrics metrics_;
  Phase phase_ = Phase::loading;
  std::map<uint64_t, std::shared_ptr<Active>> active_;
  size_t preparing_ = 0;
  std::set<std::string> unknown_fields_;  // that a warning was given of
};

}  // namespace megalith::serve
