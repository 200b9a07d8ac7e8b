// SPDX-License-Identifier: Apache-2.0
// Sets of questions in a folder that goes with the test. For tests only.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "base/error.h"
#include "questions/question_file.h"

namespace megalith::questions {

class QuestionFiles : public ::testing::Test {
 protected:
  QuestionFiles() {
    std::string name = (std::filesystem::temp_directory_path() / "megalith-set-XXXXXX").string();
    EXPECT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  ~QuestionFiles() override { std::filesystem::remove_all(folder_); }
  /// Its path.
  std::string put(const std::string& name, const std::string& content) const {
    const std::string path = (folder_ / name).string();
    std::ofstream(path, std::ios::binary) << content;
    return path;
  }
  QuestionSet read(const std::string& content, AnswerPlaces places = AnswerPlaces::needed) const {
    return read_question_file(put("set.json", content), places);
  }
  static std::string with(const std::string& questions,
                          const std::string& context = "caf\u00e9 x") {
    return R"({"data": [{"paragraphs": [{"context": ")" + context + R"(", "qas": [)" + questions +
           "]}]}]}";
  }

 private:
  std::filesystem::path folder_;
};

/// What was wrong.
template <class Body>
std::string fault_of(const Body& body) {
  try {
    body();
  } catch (const UserError& error) {
    return error.what();
  }
  return "no fault";
}

}  // namespace megalith::questions
