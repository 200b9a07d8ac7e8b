# SPDX-License-Identifier: Apache-2.0
"""Faults of the server: what it takes, what it tells, what it forgets."""
from fault import Fault

SERVE_FAULTS = [
    Fault("a length told twice taken", "src/serve/http_request.cpp",
          "if (lengths > 1)", "if (lengths > 9)", "serve_test", "HttpRequest.WhatTwoServersCouldReadDifferentlyIsRefused"),
    Fault("a length that is a list taken", "src/serve/http_request.cpp",
          'length.find_first_not_of("0123456789") != length.npos', "false", "serve_test", "HttpRequest.WhatTwoServersCouldReadDifferentlyIsRefused"),
    Fault("an announced body of any size waited for", "src/serve/http_request.cpp",
          "if (announced_body() > most_body_) refuse_size(code);", "", "serve_test", "HttpRequest.IsBounded"),
    Fault("the assertions of the parser's library on", "src/serve/CMakeLists.txt",
          "target_compile_definitions(serve PRIVATE BOOST_DISABLE_ASSERTS)", "", "serve_test", "HttpRequest.IsReadByteByByte"),
    Fault("the beginning of a key taken for it", "src/serve/access.cpp",
          "if (a.size() != b.size()) return false;", "if (a.size() > b.size()) return false;", "serve_test", "ApiKeys.AreBorneWhole"),
    Fault("texts of a client that has gone written on", "src/serve/engine_rank.cpp",
          "if (sequence.number != 0) generator_->cancel(sequence.number);", "(void)sequence;", "serve_test", "EngineLoop.ACancelledRequestFreesItsBlocksBeforeTheNextPass"),
    Fault("places of a refused request lost", "src/serve/engine_loop.cpp",
          "event.kind == Event::Kind::ended ? 1 : at->second", "1", "serve_test", "EngineLoop.WhatMakesNoSenseIsRefusedAndTheOthersGoOn"),
    Fault("a request beyond its deadline written on", "src/serve/service_events.cpp",
          "loop_.cancel(active.ticket);", "", "serve_test", "ServiceTest.DeadlinesEndRequests"),
    Fault("requests taken while it ends", "src/serve/service.cpp",
          "if (phase_ != Phase::ready) throw not_ready(phase_);", "", "serve_test", "ServiceTest.IsNotReadyBeforeAndAfter"),
    Fault("an object of any number of keys", "src/protocols/json_body.cpp",
          "if (++keys_.back() <= limits_.keys) return true;", "return true;", "protocols_test", "JsonBody.IsBounded"),
    Fault("all texts of a prompt with one seed", "src/protocols/generation_fields.cpp",
          "sequences.back().options.sampling.seed += static_cast<uint64_t>(i);", "", "protocols_test", "Completion.ReadsEveryField"),
    Fault("the first token of a prompt scored", "src/protocols/completion_reply.cpp",
          "arrays.add(prompt.ids[0], {}, {}, text);", "arrays.add(prompt.ids[0], 0.0, {}, text);", "protocols_test", "CompletionReply.EchoesWithTheFirstTokenUnscored"),
    Fault("a scored prompt without its one token where that is the end", "src/protocols/completion.cpp",
          "sequence.options.prompt_logprobs && asked == 1", "false", "protocols_test", "CompletionReply.AScoredPromptHasOneTokenMoreEvenIfItIsTheEnd"),
    Fault("a tensor of fewer values than its shape has", "src/protocols/kserve_tensor.cpp",
          "if (tensor.elements() != elements) {", "if (tensor.elements() > elements) {", "protocols_test", "Infer.NamesTheTensorThatIsWrong"),
]
