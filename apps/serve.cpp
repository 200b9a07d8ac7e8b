// SPDX-License-Identifier: Apache-2.0
// megalith serve
#include <fmt/format.h>

#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "account/memory_fit.h"
#include "apps/adapters/served_adapters.h"
#include "apps/checkpoint_options.h"
#include "apps/version.h"
#include "base/clock.h"
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

struct ServeOptions {
  CheckpointOptions checkpoint;
  std::string name, api_key_file, pooling = "mean";
  std::vector<std::string> adapters;  // NAME=DIR
  serve::ServerOptions server;
  int64_t max_batch = 16, max_queue = -1, pass_tokens = 512, context = 0, memory = 0;
};

std::string served_name(const ServeOptions& o) {
  if (!o.name.empty()) return o.name;
  std::string path = o.checkpoint.path;
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  const std::filesystem::path last = std::filesystem::path(path).filename();
  return last.extension() == ".gguf" ? last.stem().string() : last.string();
}

/// The template in a folder's files, as it is told to clients.
std::string chat_template_of(const std::map<std::string, std::string>& files) {
  if (const auto own = files.find("chat_template.jinja"); own != files.end()) return own->second;
  const auto config = files.find("tokenizer_config.json");
  if (config == files.end()) return "";
  const auto json = nlohmann::json::parse(config->second, nullptr, false);
  const bool has =
      json.is_object() && json.contains("chat_template") && json.at("chat_template").is_string();
  return has ? json.at("chat_template").get<std::string>() : "";
}

protocols::ServedModel served_model(const ServeOptions& o, const store::ModelSource& source) {
  const models::ModelSpec& spec = source.spec();
  protocols::ServedModel model;
  model.name = served_name(o);
  model.created = static_cast<int64_t>(wall_seconds());
  model.vocab = spec.vocab;
  model.context = o.context > 0 ? o.context : spec.context;
  model.is_encoder_decoder = spec.is_encoder_decoder();
  model.embeds = !model.is_encoder_decoder;
  try {
    engine::check_generates(spec);
  } catch (const UserError&) {
    model.writes = false;
  }
  model.has_types = spec.embedding.token_types >= 2;
  model.end_ids = source.end_ids();
  model.begin_id = source.begin_id();
  model.pad_id = source.pad_id();
  model.tokenizer = source.tokenizer() ? &*source.tokenizer() : nullptr;
  model.chat_template = chat_template_of(source.texts());
  return model;
}

kernels::Pooling pooling_of(const std::string& name) {
  if (name == "cls") return kernels::Pooling::first;
  return name == "last" ? kernels::Pooling::last : kernels::Pooling::mean;
}

generate::Scheduler::Limits limits_of(const ServeOptions& o) {
  return {.sequences = o.max_batch, .tokens = o.pass_tokens};
}

generate::BlockPlan planned_blocks(const ServeOptions& o, const store::ModelSource& source,
                                   int64_t context,
                                   std::span<const layers::AdapterRanks> adapters) {
  const auto options = model_options(o.checkpoint, source);
  const int threads = o.checkpoint.threads > 0 ? o.checkpoint.threads : available_cores();
  int64_t memory = o.memory;
  if (memory == 0)
    memory = static_cast<int64_t>(kShareOfMemory *
                                  static_cast<double>(device::available_memory().bytes()));
  const std::vector<generate::RankMemory> ranks = generate::plan_memory(
      source.spec(), options, device::cpu_target(std::max(1, threads / options.layout.num_ranks())),
      limits_of(o), context, adapters);
  return generate::plan_blocks(source.spec(), ranks, limits_of(o), context, memory,
                               account::kOutsideBytes);
}

void tell_ready(const std::string& address, const protocols::ServedModel& model,
                const generate::BlockPlan& plan, int64_t max_batch, bool json) {
  if (json) {
    nlohmann::json names = {model.name};
    for (const protocols::ServedModel& adapter : model.adapters) names.push_back(adapter.name);
    print_json({{"http", address}, {"grpc", nullptr}, {"models", names}});
    std::fflush(stdout);
    return;
  }
  log::info("weights and passes {}, keys and values {}: {:.1f} of {} texts of {} tokens at once",
            report::human_bytes(plan.model_bytes), report::human_bytes(plan.block_bytes),
            plan.sequences, max_batch, model.context);
  log::info("{} is served at http://{}", model.name, address);
}

void check(const ServeOptions& o, const store::ModelSource& source) {
  if (launched(o.checkpoint.ranks))
    throw UserError("serve runs in one process: start it without mpirun; --ranks N are threads");
  if (o.context > source.spec().context)
    throw UserError("--context {} is beyond the model's, which is {}", o.context,
                    source.spec().context);
  const bool is_local =
      o.server.host == "localhost" || o.server.host.starts_with("127.") || o.server.host == "::1";
  if (!is_local && o.api_key_file.empty())
    log::warning("--host {} without --api-key-file: whoever reaches this machine may ask",
                 o.server.host);
}

int run_serve(ServeOptions o, bool json) {
  const auto source = store::ModelSource::open(o.checkpoint.path);
  check(o, source);
  protocols::ServedModel model = served_model(o, source);
  const ServedAdapters adapters(o.adapters, model.name, source);
  const auto chats = chat::ChatFolder::parse(source.texts(), o.checkpoint.path);
  if (!model.chat_template.empty()) model.chat = &chats;
  generate::BlockPlan plan;
  if (model.writes) plan = planned_blocks(o, source, model.context, adapters.ranks());
  if (!o.api_key_file.empty())
    o.server.service.api_keys =
        serve::parse_api_keys(read_file(o.api_key_file, 1 << 20), o.api_key_file);
  o.server.service.version = kVersion;
  const int ranks = model_options(o.checkpoint, source).layout.num_ranks();
  serve::EngineLoop loop({.generator = {.limits = limits_of(o), .blocks = plan.blocks},
                          .writes = model.writes,
                          .most_queued = o.max_queue >= 0 ? o.max_queue : 4 * o.max_batch,
                          .pooling = pooling_of(o.pooling),
                          .followers = ranks - 1});
  serve::Server server(o.server);  // after what it uses until it ends
  model.most_sequences = loop.most_sequences();
  protocols::add_adapters(model, adapters.names());
  for (const std::string& name : adapters.names()) loop.load(name, adapters.place(name));
  on_model_ranks(o.checkpoint, source, "", [&](const ModelRank& rank) {
    const int number = rank.world.rank();
    if (number > 0) return loop.follow(number - 1, rank.engine, model.tokenizer);
    server.open(model, loop, [&](const std::string& name) { return adapters.place(name); });
    tell_ready(server.address(), model, plan, o.max_batch, json);
    loop.lead(rank.engine, model.tokenizer,
              [&](std::vector<serve::Event> events) { server.deliver(std::move(events)); });
  });
  return 0;
}

/// The library's own range lets through what is no number.
CLI::Validator from_a_millisecond() {
  const auto judge = [](std::string& text) {
    double seconds = 0;
    const bool good =
        CLI::detail::lexical_cast(text, seconds) && seconds >= 0.001 && seconds <= 1e6;
    return good ? std::string() : fmt::format("{} is not from 0.001 to 1000000 seconds", text);
  };
  return {judge, "FLOAT in [0.001 - 1e+06]"};
}

void declare_server(CLI::App& c, ServeOptions& o) {
  c.add_option("--host", o.server.host, "the address to listen at; 0.0.0.0: all of this machine")
      ->capture_default_str();
  c.add_option("--port", o.server.port, "0: one that is free")
      ->check(CLI::Range(0, 65535))
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
    c.add_option(name, value, what)->check(from_a_millisecond())->capture_default_str();
  };
  seconds("--deadline-seconds", o.server.service.deadline_seconds,
          "a request may take, waiting included");
  seconds("--drain-seconds", o.server.drain_seconds,
          "running requests have to finish after SIGTERM");
  seconds("--header-seconds", o.server.header_seconds, "a request's headers may take");
  seconds("--stuck-seconds", o.server.stuck_seconds,
          "of one pass after which the log names the requests it serves");
  c.add_option("--max-connections", o.server.most_connections, "connections open at once")
      ->check(whole_number(1, 1'000'000))
      ->capture_default_str();
}

}  // namespace

void add_serve(CLI::App& app, Invocation& invocation) {
  CLI::App& c = add_command(
      app, invocation, "serve", "answer requests over HTTP: OpenAI's interface, KServe's, a page",
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
  c.add_option("--adapter", o->adapters,
               "NAME=DIR: a LoRA adapter of PEFT's that requests have by naming it as their model "
               "(repeatable)")
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
  c.add_option("--pooling", o->pooling, "which rows of the last hidden state make a text's vector")
      ->check(CLI::IsMember({"mean", "cls", "last"}))
      ->capture_default_str();
  c.callback([=, &invocation] {
    invocation.run = [=, &invocation] {
      o->pass_tokens = std::max(o->pass_tokens, o->max_batch);
      return run_serve(*o, invocation.json);
    };
  });
}

}  // namespace megalith::apps
