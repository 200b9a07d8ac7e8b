// SPDX-License-Identifier: Apache-2.0
#include "apps/cpu_target.h"

#include <fmt/ranges.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "apps/version.h"
#include "base/file.h"
#include "base/folder.h"
#include "base/host.h"
#include "base/log.h"
#include "kernels/matmul/product_rates_json.h"

namespace megalith::apps {
namespace {

namespace fs = std::filesystem;

constexpr double kMeasureSeconds = 1.5;
constexpr int64_t kMaxCacheBytes = int64_t{1} << 20;

/// This very program: one that was built anew may multiply otherwise.
std::string program_mark() {
  struct stat status {};
  if (::stat("/proc/self/exe", &status) != 0) return kVersion;
  return fmt::format("{}, {} bytes of {}.{:09}", kVersion, status.st_size, status.st_mtim.tv_sec,
                     status.st_mtim.tv_nsec);
}

/// What the rates depend on, but for the program: the next build's take the place of these.
std::string machine_key(const device::Target& target) {
  return fmt::format("{}|{}|{} threads|oneDNN {}", device::cpu_name(), target.isa,
                     target.num_threads, kernels::library_version());
}

/// Absent when the user has no home.
std::optional<fs::path> cache_file(const std::string& key) {
  const char* cache = std::getenv("XDG_CACHE_HOME");
  const char* home = std::getenv("HOME");
  fs::path folder;
  if (cache != nullptr && *cache == '/') {
    folder = cache;
  } else if (home != nullptr && *home == '/') {
    folder = fs::path(home) / ".cache";
  } else {
    return std::nullopt;
  }
  const std::string hash = sha256(std::as_bytes(std::span(key))).substr(0, 16);
  return folder / "megalith" / fmt::format("products-{}.json", hash);
}

/// Nothing when absent, damaged or of another machine: it is measured anew.
std::optional<kernels::ProductRates> read_rates(const fs::path& path, const std::string& key) {
  try {
    if (!fs::is_regular_file(path)) return std::nullopt;
    return kernels::rates_in(read_file(path, kMaxCacheBytes), key);
  } catch (const std::exception& error) {
    log::debug("{}: not used: {}", path.string(), error.what());
    return std::nullopt;
  }
}

/// A cache that cannot be written costs the next start as long again.
void write_rates(const fs::path& path, const std::string& key, const kernels::ProductRates& rates) {
  try {
    make_folders(path.parent_path());
    write_file_durable(path, kernels::rates_text(rates, key));
  } catch (const std::exception& error) {
    log::debug("{}: cannot be kept: {}", path.string(), error.what());
  }
}

kernels::ProductRates rates_of(const device::Target& target) {
  const std::string machine = machine_key(target);
  const std::string key = fmt::format("{}|megalith {}", machine, program_mark());
  const auto path = cache_file(machine);
  if (path) {
    if (const auto rates = read_rates(*path, key)) return *rates;
  }
  const kernels::ProductRates rates = kernels::measure_products(target, kMeasureSeconds);
  if (path) write_rates(*path, key, rates);
  return rates;
}

/// Sets what `target` gives to the library to what a run began with.
void keep_choices(const train::ProductChoices& recorded, const kernels::ProductRates& rates,
                  device::Target& target) {
  std::vector<std::string> reasons;
  target.library_products = recorded.products;
  for (size_t i = 0; i < rates.size(); ++i) {
    const uint32_t bit = uint32_t{1} << i;
    if ((recorded.products & bit) == 0 || rates[i].library > 0) continue;
    target.library_products &= ~bit;
    reasons.push_back(fmt::format("its library has no product {}",
                                  name_of(kernels::product_class(static_cast<int>(i)))));
  }
  const std::string isa(name_of(target.isa)), library = kernels::library_version();
  if (recorded.isa != isa) reasons.push_back(fmt::format("it has {}, not {}", isa, recorded.isa));
  if (recorded.library != library)
    reasons.push_back(fmt::format("oneDNN is {}, not {}", library, recorded.library));
  if (reasons.empty()) return;
  log::warning(
      "numerics fast: this machine is not the one the run began on ({}); from here on the "
      "bits are another machine's",
      fmt::join(reasons, "; "));
}

}  // namespace

device::Target cpu_target(int threads, kernels::Numerics numerics,
                          const std::optional<train::ProductChoices>& recorded) {
  device::Target target{.isa = device::detect_isa(), .num_threads = threads};
  if (numerics == kernels::Numerics::exact) return target;
  const kernels::ProductRates rates = rates_of(target);
  target.library_products = kernels::library_products(rates);
  if (recorded) keep_choices(*recorded, rates, target);
  std::vector<std::string> taken;
  for (int i = 0; i < kernels::kNumProductClasses; ++i) {
    const kernels::ProductClass c = kernels::product_class(i);
    const kernels::ProductRate& rate = rates[static_cast<size_t>(i)];
    if (takes_library(target, c))
      taken.push_back(fmt::format("{} ({:.2f}x)", name_of(c), rate.library / rate.exact));
  }
  log::info("numerics fast, {}: oneDNN multiplies {}",
            recorded ? "as the run began" : "as measured on this machine",
            taken.empty() ? "nothing" : fmt::format("{}", fmt::join(taken, "; ")));
  return target;
}

double fast_gain(int threads, DType dtype) {
  const kernels::ProductRates rates =
      rates_of({.isa = device::detect_isa(), .num_threads = threads});
  double exact = 0, fast = 0;  // seconds for one FLOP of each kind
  for (int i = 0; i < kernels::kNumProductClasses; ++i) {
    const kernels::ProductClass c = kernels::product_class(i);
    if (!c.is_large || c.is_bf16 != (dtype == DType::bf16)) continue;
    const kernels::ProductRate& rate = rates[static_cast<size_t>(i)];
    exact += 1 / rate.exact;
    fast += 1 / std::max(rate.exact, rate.library);
  }
  return exact / fast;
}

nlohmann::ordered_json machine_json(const device::Target& target) {
  return {{"cpu", device::cpu_name()},
          {"isa", std::string(name_of(target.isa))},
          {"threads", target.num_threads},
          {"memory_bytes", device::memory_bytes()},
          {"host", host_name()}};
}

}  // namespace megalith::apps
