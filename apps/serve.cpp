// SPDX-License-Identifier: Apache-2.0
// megalith serve
#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <nlohmann/json.hpp>

#include "account/memory_fit.h"
#include "apps/adapters/served_adapters.h"
#include "apps/checkpoint_options.h"
#include "apps/serve/draft.h"
#include "apps/serve/served_model.h"
#include "apps/version.h"
#include "base/file.h"
#include "base/log.h"
#include "base/thread_pool.h"
#include "device/available_memory.h"
#include "device/target.h"
#include "generate/block_plan.h"
#include "report/quantity.h"
#include "serve/access.h"
#include "serve/server.h"

namespace megalith::apps {
namespace {

// Of the memory that is free at the start, without --memory.
constexpr double kShareOfMemory = 0.8;
constexpr int kNoPort = -1;

struct ServeOptions {
  CheckpointOptions checkpoint;
  std::string name, api_key_file, pooling = "mean";
  std::vector<std::string> adapters;  // NAME=DIR
  serve::ServerOptions server;
  int grpc_port = 8001;
  int64_t max_batch = 16, max_queue = -1, pass_tokens = 512, context = 0, memory = 0;
  int64_t lookup = 0, draft_tokens = 4;
  std::optional<std::string> draft;
};

std::string served_name(const ServeOptions& o) {
  if (!o.name.empty()) return o.name;
  std::string path = o.checkpoint.path;
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  const std::filesystem::path last = std::filesystem::path(path).filename();
  return last.extension() == ".gguf" ? last.stem().string() : last.string();
}

kernels::Pooling pooling_of(const std::string& name) {
  if (name == "cls") return kernels::Pooling::first;
  return name == "last" ? kernels::Pooling::last : kernels::Pooling::mean;
}

generate::Scheduler::Limits limits_of(const ServeOptions& o) {
  return {.sequences = o.max_batch, .tokens = o.pass_tokens};
}

/// A rank's share of the threads.
device::Target target_of(const ServeOptions& o, const parallel::Layout& layout) {
  const int threads = o.checkpoint.threads > 0 ? o.checkpoint.threads : available_cores();
  return device::cpu_target(std::max(1, threads / layout.num_ranks()));
}

generate::BlockPlan planned_blocks(const ServeOptions& o, const store::ModelSource& source,
                                   int64_t context, int64_t beside,
                                   std::span<const layers::AdapterRanks> adapters) {
  const auto options = model_options(o.checkpoint, source);
  int64_t memory = o.memory;
  if (memory == 0)
    memory = static_cast<int64_t>(kShareOfMemory *
                                  static_cast<double>(device::available_memory().bytes()));
  const std::vector<generate::RankMemory> ranks = generate::plan_memory(
      source.spec(), options, target_of(o, options.layout), limits_of(o), context, adapters);
  return generate::plan_blocks(source.spec(), ranks, limits_of(o), context, memory,
                               account::kOutsideBytes + beside);
}

void tell_ready(const serve::Server& server, const protocols::ServedModel& model,
                const generate::BlockPlan& plan, int64_t max_batch, bool json) {
  const std::string& rpcs = server.grpc_address();
  if (json) {
    const nlohmann::json grpc = rpcs.empty() ? nlohmann::json() : nlohmann::json(rpcs);
    nlohmann::json names = {model.name};
    for (const protocols::ServedModel& adapter : model.adapters) names.push_back(adapter.name);
    nlohmann::json memory;  // null for a model that writes nothing: it has no blocks to plan
    if (model.writes)
      memory = {{"model_bytes", plan.model_bytes}, {"block_bytes", plan.block_bytes}};
    print_json({{"http", server.address()}, {"grpc", grpc}, {"models", names}, {"memory", memory}});
    std::fflush(stdout);
    return;
  }
  log::info("weights and passes {}, keys and values {}: {:.1f} of {} texts of {} tokens at once",
            report::human_bytes(plan.model_bytes), report::human_bytes(plan.block_bytes),
            plan.sequences, max_batch, model.context);
  log::info("{} is served at http://{}{}", model.name, server.address(),
            rpcs.empty() ? "" : ", over gRPC at " + rpcs);
}

void check(const ServeOptions& o, const store::ModelSource& source) {
  if (launched(o.checkpoint.ranks))
    throw UserError("serve runs in one process: start it without mpirun; --ranks N are threads");
  if (o.context > source.spec().context)
    throw UserError("--context {} is beyond the model's, which is {}", o.context,
                    source.spec().context);
  if (o.lookup > 0 || o.draft)
    inference::check_generates(source.spec());  // who reads guesses nothing
  const bool is_local =
      o.server.host == "localhost" || o.server.host.starts_with("127.") || o.server.host == "::1";
  if (!is_local && o.api_key_file.empty())
    log::warning("--host {} without --api-key-file: whoever reaches this machine may ask",
                 o.server.host);
}

int run_serve(ServeOptions o, bool json) {
  const auto source = store::ModelSource::open(o.checkpoint.path);
  check(o, source);
  protocols::ServedModel model = served_model(source, served_name(o), o.context);
  model.most_beams = o.max_batch;
  const ServedAdapters adapters(o.adapters, model.name, source);
  adapters.check(model.context, o.draft.has_value());
  const auto chats = chat::ChatFolder::parse(source.texts(), o.checkpoint.path);
  if (!model.chat_template.empty()) model.chat = &chats;
  generate::BlockPlan plan;
  const parallel::Layout layout = model_options(o.checkpoint, source).layout;
  std::optional<ServedDraft> draft;
  if (o.draft)
    draft.emplace(plan_draft(o.checkpoint, source, *o.draft, o.max_batch, model.context,
                             target_of(o, layout)));
  if (model.writes)
    plan = planned_blocks(o, source, model.context, draft ? draft->bytes : 0, adapters.ranks());
  if (!o.api_key_file.empty())
    o.server.service.api_keys =
        serve::parse_api_keys(read_file(o.api_key_file, 1 << 20), o.api_key_file);
  o.server.service.version = kVersion;
  serve::EngineLoop loop(
      {.generator = {.limits = limits_of(o),
                     .blocks = plan.blocks,
                     .draft_blocks = draft ? draft->blocks : std::vector<int64_t>()},
       .writes = model.writes,
       .most_queued = o.max_queue >= 0 ? o.max_queue : 4 * o.max_batch,
       .pooling = pooling_of(o.pooling),
       .followers = layout.num_ranks() - 1,
       .lookup = o.lookup,
       .draft = draft ? o.draft_tokens : 0});
  // Nothing but reading is under way then.
  o.server.end_loading = [] { std::_Exit(0); };
  serve::Server server(o.server);  // after what it uses until it ends
  model.most_sequences = loop.most_sequences();
  adapters.add_to(model);
  for (const std::string& name : adapters.names()) loop.load(name, adapters.place(name));
  on_model_ranks(o.checkpoint, source, "", [&](const ModelRank& rank) {
    const int number = rank.world.rank();
    std::unique_ptr<inference::InferenceModel> beside;
    if (draft) beside = draft_beside(o.checkpoint, source, draft->source, draft->path, rank);
    inference::InferenceEngine* const guesser = beside ? &beside->engine() : nullptr;
    // Who follows waits for whoever leads alone: only after all are there.
    rank.world.barrier("serve");
    if (number > 0) return loop.follow(number - 1, rank.engine, model.tokenizer, guesser);
    try {
      server.open(model, loop, [&](const std::string& name) { return adapters.place(name); });
      tell_ready(server, model, plan, o.max_batch, json);
    } catch (...) {
      loop.end_followers();
      throw;
    }
    loop.lead(
        rank.engine, model.tokenizer,
        [&](std::vector<serve::Event> events) { server.deliver(std::move(events)); }, guesser);
  });
  return 0;
}

void declare_guesses(CLI::App& c, ServeOptions& o) {
  auto* const lookup = c.add_option("--lookup", o.lookup,
                                    "guess so many tokens at a time from what followed the same "
                                    "ones before: texts are the same, sooner; 0: none");
  lookup->check(whole_number(0, generate::kMostGuesses))->capture_default_str();
  auto* const draft = c.add_option("--draft", o.draft,
                                   "checkpoint of a smaller model with the same tokenizer, which "
                                   "guesses tokens: texts are the same, sooner");
  draft->excludes(lookup);
  c.add_option("--draft-tokens", o.draft_tokens, "that it guesses at a time")
      ->check(whole_number(1, generate::kMostGuesses))
      ->needs(draft)
      ->capture_default_str();
}

/// "off" is a port below all.
CLI::Validator port_or_off() {
  const auto judge = [](std::string& text) {
    int port = 0;
    if (text == "off") return text = std::to_string(kNoPort), std::string();
    const bool good = CLI::detail::lexical_cast(text, port) && port >= 0 && port <= 65535;
    return good ? std::string() : fmt::format("{} is no port from 0 to 65535 and not off", text);
  };
  return {judge, "[0 - 65535] or off"};
}

void declare_server(CLI::App& c, ServeOptions& o) {
  c.add_option("--host", o.server.host, "the address to listen at; 0.0.0.0: all of this machine")
      ->capture_default_str();
  c.add_option("--port", o.server.port, "0: one that is free")
      ->check(CLI::Range(0, 65535))
      ->capture_default_str();
  c.add_option(
       "--grpc-port", o.grpc_port,
       "of KServe's protocol over gRPC; 0: one that is free; off: none. Unless given, a port "
       "that is taken is a warning")
      ->transform(port_or_off())
      ->capture_default_str();
  c.add_option("--api-key-file", o.api_key_file,
               "a file of keys, one a line; every request must bear one");
  c.add_option("--allow-origin", o.server.service.allow_origins,
               "an origin whose pages may ask, besides the server's own: https://example.com "
               "(repeatable)")
      ->take_all()
      ->allow_extra_args(false);
  c.add_option("--name", o.name,
               "the model's name in requests; default: the last part of the path");
  const auto seconds = [&](const char* name, double& value, const char* what) {
    c.add_option(name, value, what)->check(CLI::Range(0.001, 1e6))->capture_default_str();
  };
  seconds("--deadline-seconds", o.server.service.deadline_seconds,
          "a request may take, waiting included");
  seconds("--drain-seconds", o.server.drain_seconds,
          "running requests have to finish after SIGTERM");
  seconds("--header-seconds", o.server.header_seconds, "a request's headers may take");
  seconds("--stuck-seconds", o.server.stuck_seconds,
          "of one pass after which the log names the requests it serves");
  c.add_option("--max-connections", o.server.most_connections,
               "connections open at once, of HTTP and of gRPC; calls of gRPC")
      ->check(whole_number(1, 1'000'000))
      ->capture_default_str();
}

}  // namespace

void add_serve(CLI::App& app, Invocation& invocation) {
  CLI::App& c = add_command(
      app, invocation, "serve",
      "answer requests: OpenAI's interface, KServe's over HTTP and gRPC, a page",
      "  megalith serve --checkpoint runs/demo\n"
      "  megalith serve --checkpoint chat/ --dtype bf16 --port 8080 --api-key-file keys.txt\n"
      "  megalith serve --checkpoint chat/ --adapter sql=adapters/sql --adapter law=adapters/law\n"
      "  curl http://127.0.0.1:8000/v1/completions -H 'Content-Type: application/json' "
      "-d '{\"model\": \"demo\", \"prompt\": \"candle\"}'\n");
  auto o = std::make_shared<ServeOptions>();
  o->checkpoint.declare(c);
  declare_server(c, *o);
  c.add_option("--max-batch", o->max_batch, "texts that are written at once")
      ->check(whole_number(1, 4096))
      ->capture_default_str();
  c.add_option("--max-queue", o->max_queue, "texts that may wait; default: 4 times --max-batch")
      ->check(whole_number(0, 1'000'000));
  c.add_option(
       "--adapter", o->adapters,
       "NAME=DIR: an adapter of PEFT's (LoRA, DoRA, IA3, virtual tokens) or of AdapterHub's "
       "(bottleneck adapters) that requests select as their model (repeatable)")
      ->take_all()
      ->allow_extra_args(false);
  c.add_option("--context", o->context, "tokens of prompt and text; default: the model's")
      ->check(whole_number(1));
  c.add_option("--max-pass-tokens", o->pass_tokens,
               "tokens of one pass: longer prompts come in pieces")
      ->check(whole_number(1, 1 << 20))
      ->capture_default_str();
  c.add_option("--memory", o->memory,
               "bytes for weights, passes, keys and values; default: 80 % of what is free")
      ->check(whole_number(1));
  declare_guesses(c, *o);
  c.add_option("--pooling", o->pooling, "which rows of the last hidden state make a text's vector")
      ->check(CLI::IsMember({"mean", "cls", "last"}))
      ->capture_default_str();
  c.callback([=, &c, &invocation] {
    if (o->grpc_port != kNoPort) o->server.grpc_port = o->grpc_port;
    o->server.requires_grpc = c.count("--grpc-port") > 0;
    invocation.run = [=, &invocation] {
      o->pass_tokens = std::max(o->pass_tokens, o->max_batch);
      return run_serve(*o, invocation.json);
    };
  });
}

}  // namespace megalith::apps
