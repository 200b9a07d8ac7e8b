// SPDX-License-Identifier: Apache-2.0
// A message to one of the methods, which its first byte names. The model that it names may have
// marks.
#include <array>

#include "base/fuzz/fuzz_input.h"
#include "grpc_protocol/inference.pb.h"
#include "grpc_protocol/methods.h"
#include "protocols/fuzz/check_prompt.h"
#include "protocols/protocols_fixture.h"

namespace {

using namespace megalith;
using namespace megalith::grpc_protocol;

void infer(std::string_view message, const protocols::ServedModel& model, bool streams) {
  InferNames names;
  protocols::Prepared made = prepare_infer_message(message, model, streams, names);
  std::vector<protocols::Written> written;
  for (const protocols::PreparedSequence& sequence : made.sequences) {
    check_prompt(sequence, protocols::model_named(model, names.adapter));
    written.emplace_back();
  }
  ::inference::ModelStreamInferResponse piece;
  if (streams) {
    const bool searches = made.sequences.front().options.beams > 1;
    const std::string told = made.reply->on_token(0, {{1, -1}, {}, ""});
    MEGA_CHECK(piece.ParseFromString(told));
    MEGA_CHECK(searches ? told.empty() : piece.infer_response().id() == names.id);
  }
  const std::string whole = made.reply->finish(std::move(written)).text;
  ::inference::ModelInferResponse response;
  MEGA_CHECK(streams ? piece.ParseFromString(whole) : response.ParseFromString(whole));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const protocols::ServedModel model = protocols::small_model_with_marks();
  constexpr std::array kQuestions{"ModelReady",          "ModelMetadata",
                                  "ModelConfig",         "RepositoryIndex",
                                  "RepositoryModelLoad", "RepositoryModelUnload"};
  const std::string_view input = fuzz::text_of(data, size);
  if (input.empty()) return 0;
  const auto kind = static_cast<uint8_t>(input[0]) % (2 + kQuestions.size());
  fuzz::accepts([&] {
    if (kind < 2) return infer(input.substr(1), model, kind == 1);
    const Method* const method =
        method_at(std::string("/inference.GRPCInferenceService/") + kQuestions[kind - 2]);
    if (method->kind == MethodKind::repository) {
      repository_change(*method, input.substr(1));
    } else {
      answer_question(*method, input.substr(1), model, {.version = "1", .is_ready = true});
    }
  });
  return 0;
}
