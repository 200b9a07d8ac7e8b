// SPDX-License-Identifier: Apache-2.0
#include "prompts/prompt_table.h"

#include "kernels/embedding/embedding.h"

namespace megalith::prompts {
namespace {

using config::PromptEncoderKind;
using layers::Batch;
using layers::Context;
using parameters::Parameter;
using parameters::ParameterSet;

class PromptTable final : public layers::VirtualRows {
 public:
  explicit PromptTable(const Parameter& table) : table_(table) {}

  ConstView rows() const override { return table_.compute(); }
  void backward(Context& context, const Batch& batch, int64_t first,
                ConstView dy_TE) const override {
    if (!table_.has_gradient()) return;
    kernels::embedding_backward(context.exec, {dy_TE, batch.ids_T, first, table_.gradient_sum()});
  }

 private:
  const Parameter& table_;
};

const Parameter& declare_table(ParameterSet& set, int64_t count, const layers::TokenTable& tokens,
                               DType dtype) {
  return declare(set, std::string(kTableName), Shape{count, tokens.width}, tokens.init_std, dtype);
}

/// Adds what the table follows from, too.
const Parameter& declare_encoded(ParameterSet& set, int64_t count, int64_t width,
                                 const EncoderSpec& spec, DType dtype) {
  const size_t first = set.all().size();
  const auto encoder = std::make_shared<const PromptEncoder>(set, count, width, spec, dtype);
  set.add_derived(first, encoder);
  return encoder->table();
}

}  // namespace

layers::VirtualTokens table_of(int64_t count, DType dtype) {
  return {count, [=](ParameterSet& set, const layers::TokenTable& tokens) {
            return std::make_shared<const PromptTable>(declare_table(set, count, tokens, dtype));
          }};
}

layers::VirtualTokens table_of(int64_t count, const EncoderSpec& spec, DType dtype) {
  if (spec.kind == PromptEncoderKind::embedding) return table_of(count, dtype);
  return {count, [=](ParameterSet& set, const layers::TokenTable& tokens) {
            return std::make_shared<const PromptTable>(
                declare_encoded(set, count, tokens.width, spec, dtype));
          }};
}

int64_t trained_elements(int64_t count, int64_t width, const EncoderSpec& spec) {
  ParameterSet set;
  const layers::VirtualTokens tokens = table_of(count, spec, DType::f32);
  tokens.make(set, {.width = width});
  int64_t elements = 0;
  for (const Parameter& parameter : set.all())
    elements += parameter.trainable() ? parameter.shape().num_elements() : 0;
  return elements;
}

}  // namespace megalith::prompts
