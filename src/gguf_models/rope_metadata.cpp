// SPDX-License-Identifier: Apache-2.0
#include "gguf_models/rope_metadata.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/error.h"
#include "base/one_line.h"

namespace megalith::gguf_models {
namespace {

using layers::RopeScaling;
using layers::RopeSpec;

constexpr int64_t kLlama3Original = 8192;
/// Of factors, which other programs compute in f32.
constexpr double kFactorTolerance = 1e-5;

const std::vector<float>* factors_named(const ModelDescription& description,
                                        std::string_view name) {
  const auto found = description.factors.find(name);
  return found == description.factors.end() ? nullptr : &found->second;
}

/// By which llama3 divides the frequency of each pair (Grattafiori et al. 2024).
std::vector<float> llama3_factors(const RopeSpec& rope, int64_t context) {
  const auto original =
      static_cast<double>(rope.original_context > 0 ? rope.original_context : context);
  std::vector<float> factors;
  for (int64_t i = 0; i < rope.dim; i += 2) {
    const double exponent = static_cast<double>(i) / static_cast<double>(rope.dim);
    const double turns = original / (2 * std::numbers::pi * std::pow(rope.base, exponent));
    double factor = 1;
    if (turns < rope.low_frequency_factor) {
      factor = rope.factor;
    } else if (turns <= rope.high_frequency_factor) {
      const double part = (turns - rope.low_frequency_factor) /
                          (rope.high_frequency_factor - rope.low_frequency_factor);
      factor = 1 / ((1 - part) / rope.factor + part);
    }
    factors.push_back(static_cast<float>(factor));
  }
  return factors;
}

bool are_close(const std::vector<float>& a, const std::vector<float>& b) {
  return std::ranges::equal(a, b, [](float x, float y) {
    return std::fabs(static_cast<double>(x) - static_cast<double>(y)) <=
           kFactorTolerance * std::fabs(static_cast<double>(y));
  });
}

void read_llama3(const MetadataKeys& keys, const std::vector<float>& factors, int64_t context,
                 RopeSpec& rope) {
  if (factors.empty()) throw UserError("{}: {} is empty", keys.where(), kRopeFrequencies);
  const float largest = *std::ranges::max_element(factors);
  if (std::ranges::all_of(factors, [](float factor) { return factor == 1; })) return;
  rope.scaling = RopeScaling::llama3;
  rope.factor = shortest(largest);
  rope.low_frequency_factor = 1;
  rope.high_frequency_factor = 4;
  rope.original_context = keys.size("rope.scaling.original_context_length", kLlama3Original);
  if (!are_close(factors, llama3_factors(rope, context))) {
    throw UserError("{}: the factors of {} are of no scaling that is known (llama3 from {})",
                    keys.where(), kRopeFrequencies, rope.original_context);
  }
  if (rope.original_context == context) rope.original_context = 0;
}

/// What longrope multiplies cosines and sines by, if nothing else is said (Ding et al. 2024).
double longrope_attention(double factor, int64_t original) {
  return factor > 1 ? std::sqrt(1 + std::log(factor) / std::log(static_cast<double>(original))) : 1;
}

std::vector<double> widened(const std::vector<float>& values) {
  std::vector<double> all;
  for (const float value : values) all.push_back(shortest(value));
  return all;
}

void read_longrope(const MetadataKeys& keys, const ModelDescription& description, int64_t context,
                   RopeSpec& rope) {
  const std::vector<float>* const longer = factors_named(description, kRopeLong);
  const std::vector<float>* const shorter = factors_named(description, kRopeShort);
  if (longer == nullptr || shorter == nullptr)
    throw UserError("{}: {} or {} is missing", keys.where(), kRopeLong, kRopeShort);
  rope.scaling = RopeScaling::longrope;
  rope.long_factors = widened(*longer);
  rope.short_factors = widened(*shorter);
  rope.original_context = keys.size("rope.scaling.original_context_length", context);
  rope.factor = static_cast<double>(context) / static_cast<double>(rope.original_context);
  const double usual = longrope_attention(rope.factor, rope.original_context);
  const double own = keys.number("rope.scaling.attn_factor", usual);
  if (std::fabs(own - usual) > kFactorTolerance * usual) rope.attention_factor = own;
  if (rope.original_context == context) rope.original_context = 0;
}

/// Factors that llama.cpp multiplies its own formulas by.
void check_factors(const MetadataKeys& keys, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    if (const double factor = keys.number(name, 1); factor != 1)
      throw UserError("{}: {} {} is not supported", keys.where(), keys.full(name), factor);
  }
}

void read_yarn(const MetadataKeys& keys, int64_t context, RopeSpec& rope) {
  check_factors(keys, {"rope.scaling.yarn_attn_factor", "rope.scaling.yarn_ext_factor"});
  rope.original_context = keys.size("rope.scaling.original_context_length", context);
  if (rope.original_context == context) rope.original_context = 0;
  rope.beta_fast = keys.number("rope.scaling.yarn_beta_fast", 32);
  rope.beta_slow = keys.number("rope.scaling.yarn_beta_slow", 1);
}

void add_original(const RopeSpec& rope, int64_t context, KeyWriter& keys) {
  keys.add_count("rope.scaling.original_context_length",
                 rope.original_context > 0 ? rope.original_context : context);
}

std::vector<float> narrowed(const std::vector<double>& values) {
  std::vector<float> all;
  for (const double value : values) all.push_back(static_cast<float>(value));
  return all;
}

}  // namespace

RopeSpec read_rope(const MetadataKeys& keys, const ModelDescription& description, int64_t context,
                   const RopeSpec& usual) {
  RopeSpec rope = usual;
  rope.dim = keys.count("rope.dimension_count", usual.dim);
  rope.base = keys.number("rope.freq_base", 10000);
  const double older = keys.number("rope.scale_linear", 1);
  const double factor = keys.number("rope.scaling.factor", older);
  const bool has_lists = factors_named(description, kRopeLong) != nullptr;
  const std::string type = keys.text("rope.scaling.type", has_lists ? "longrope" : "linear");
  const std::vector<float>* const frequencies = factors_named(description, kRopeFrequencies);
  keys.count("rope.scaling.original_context_length", 0);  // written without a scaling, too
  const bool is_longrope = type == "longrope" || has_lists;
  if (!is_longrope) check_factors(keys, {"rope.scaling.attn_factor"});
  if (is_longrope) {
    read_longrope(keys, description, context, rope);
  } else if (type == "yarn") {
    rope.scaling = RopeScaling::yarn;
    rope.factor = factor;
    read_yarn(keys, context, rope);
  } else if (type == "linear" && factor != 1 && factor != 0) {
    rope.scaling = RopeScaling::linear;
    rope.factor = factor;
  } else if (type != "linear" && type != "none") {
    throw UserError("{}: {} {} is not supported (none, linear, yarn, longrope)", keys.where(),
                    keys.full("rope.scaling.type"), one_line(type, 40));
  }
  if (frequencies == nullptr) return rope;
  if (rope.scaling != RopeScaling::none) {
    throw UserError("{}: {} and a scaling of {} together are not supported", keys.where(),
                    kRopeFrequencies, settings::name_of(rope.scaling));
  }
  read_llama3(keys, *frequencies, context, rope);
  return rope;
}

void write_rope(const RopeSpec& rope, int64_t context, KeyWriter& keys,
                WrittenDescription& written) {
  keys.add_count("rope.dimension_count", rope.dim);
  keys.add_number("rope.freq_base", rope.base);
  switch (rope.scaling) {
    case RopeScaling::none:
      return;
    case RopeScaling::linear:
      keys.add("rope.scaling.type", gguf::Value::text("linear"));
      return keys.add_number("rope.scaling.factor", rope.factor);
    case RopeScaling::yarn:
      keys.add("rope.scaling.type", gguf::Value::text("yarn"));
      keys.add_number("rope.scaling.factor", rope.factor);
      keys.add_number("rope.scaling.yarn_beta_fast", rope.beta_fast);
      keys.add_number("rope.scaling.yarn_beta_slow", rope.beta_slow);
      return add_original(rope, context, keys);
    case RopeScaling::llama3:
      written.factors[std::string(kRopeFrequencies)] = llama3_factors(rope, context);
      return add_original(rope, context, keys);
    case RopeScaling::longrope: {
      written.factors[std::string(kRopeLong)] = narrowed(rope.long_factors);
      written.factors[std::string(kRopeShort)] = narrowed(rope.short_factors);
      const int64_t original = rope.original_context > 0 ? rope.original_context : context;
      keys.add("rope.scaling.type", gguf::Value::text("longrope"));
      keys.add_number("rope.scaling.attn_factor", rope.attention_factor > 0
                                                      ? rope.attention_factor
                                                      : longrope_attention(rope.factor, original));
      return add_original(rope, context, keys);
    }
    default:
      throw UserError("the GGUF format has no rotary scaling of {}",
                      settings::name_of(rope.scaling));
  }
}

}  // namespace megalith::gguf_models
