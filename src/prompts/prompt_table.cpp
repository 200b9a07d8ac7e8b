// SPDX-License-Identifier: Apache-2.0
#include "prompts/prompt_table.h"

#include "kernels/embedding/embedding.h"

namespace megalith::prompts {
namespace {

using layers::Batch;
using layers::Context;
using parameters::Parameter;

class PromptTable final : public layers::VirtualRows {
 public:
  PromptTable(parameters::ParameterSet& set, const layers::TokenTable& table, int64_t count,
              DType dtype) {
    using parameters::Init;
    const Shape shape{count, table.width};
    parameters::Declaration declaration{std::string(kTableName), shape, Shard::whole(shape),
                                        Init{Init::Kind::normal, table.init_std}};
    declaration.format = plain_format(dtype);
    declaration.is_added = true;
    table_ = &set.declare(declaration);
  }

  ConstView rows() const override { return table_->compute(); }
  void backward(Context& context, const Batch& batch, int64_t first,
                ConstView dy_TE) const override {
    if (!table_->trainable()) return;
    kernels::embedding_backward(context.exec, {dy_TE, batch.ids_T, first, table_->gradient_sum()});
  }

 private:
  Parameter* table_;
};

}  // namespace

layers::VirtualTokens table_of(int64_t count, DType dtype) {
  return {count, [count, dtype](parameters::ParameterSet& set, const layers::TokenTable& table) {
            return std::make_shared<const PromptTable>(set, table, count, dtype);
          }};
}

}  // namespace megalith::prompts
