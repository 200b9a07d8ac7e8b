// SPDX-License-Identifier: Apache-2.0
// megalith doctor: what this machine offers.
#include <fmt/ranges.h>
#include <unicode/uversion.h>
#include <zlib.h>
#include <zstd.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "apps/command.h"
#include "apps/machine.h"
#include "apps/version.h"
#include "base/plugin.h"
#include "base/thread_pool.h"
#include "characters/code_class.h"
#include "comm/mpi/mpi_plugin.h"
#include "device/cpu/bf16_instruction.h"
#include "kernels/matmul/library.h"
#include "report/page.h"
#include "rpc/rpc_server.h"

namespace megalith::apps {
namespace {

nlohmann::ordered_json facts() {
  const device::Target target = device::cpu_target(available_cores());
  nlohmann::ordered_json json = machine_json(target);
  const std::string_view refused = device::bf16_instruction_refused();
  json["bf16_products"] = refused.empty() ? "VDPBF16PS" : fmt::format("FMA: {}", refused);
  json["amx"] = target.has_amx;
  json["dot_products_of_8_bits"] = target.has_dot8;
  json["version"] = kVersion;
  json["devices"] = {"cpu", "trace"};
  json["libraries"] = {{"oneDNN", kernels::library_version()},
                       {"zlib", zlibVersion()},
                       {"zstd", ZSTD_versionString()},
                       {"ICU", U_ICU_VERSION}};
  json["unicode"] = characters::unicode_version();  // of the tokenizer's tables
  json["missing"] = nlohmann::json::array({"cuda", "nccl"});
  if (!has_plugin(comm::kMpiPluginFile))
    json["missing"].push_back("mpi (package libopenmpi-dev, when it is built): ranks as processes");
  if (!has_plugin(rpc::kGrpcPluginFile))
    json["missing"].push_back("grpc (package libgrpc++-dev, when it is built): serve --grpc-port");
  bool charts = false;
  for (const auto& path : report::chart_js_paths())
    charts = charts || std::filesystem::exists(path);
  if (!charts) json["missing"].push_back("chart.js (package libjs-chart.js): needed by report");
  return json;
}

}  // namespace

void add_doctor(CLI::App& app, Invocation& invocation) {
  add_command(app, invocation, "doctor", "what this machine offers and what is missing",
              "  megalith doctor --json\n")
      .callback([&invocation] {
        invocation.run = [&invocation] {
          const auto json = facts();
          if (invocation.json) {
            print_json(json);
          } else {
            for (const auto& [key, value] : json.items())
              fmt::print("{:<14} {}\n", key,
                         value.is_string() ? value.get<std::string>() : value.dump());
          }
          return 0;
        };
      });
}

}  // namespace megalith::apps
