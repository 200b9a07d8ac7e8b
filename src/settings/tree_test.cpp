// SPDX-License-Identifier: Apache-2.0
#include "settings/tree.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "settings/override.h"

namespace megalith::settings {
namespace {

using testing::HasSubstr;

/// The text of the only fault.
std::string fault_of(std::string_view text) {
  std::vector<Fault> faults;
  parse_tree(text, "r.yaml", faults);
  EXPECT_EQ(faults.size(), 1u) << text;
  return faults.empty() ? "" : faults[0].text();
}

std::string error_of(std::string_view text) {
  std::vector<Fault> faults;
  try {
    parse_tree(text, "r.yaml", faults);
  } catch (const UserError& error) {
    return error.what();
  }
  ADD_FAILURE() << "accepted: " << text;
  return "";
}

TEST(Tree, KnowsKindsTextsAndPlaces) {
  std::vector<Fault> faults;
  const Node root = parse_tree("a: 1\nb:\n  c: [x, 'y']\n  d: \"\"\n  e:\n", "r.yaml", faults);
  EXPECT_TRUE(faults.empty());
  ASSERT_EQ(root.kind, Node::Kind::map);
  EXPECT_EQ(root.find("a")->text, "1");
  EXPECT_FALSE(root.find("a")->quoted);
  const Node& list = *root.find("b")->find("c");
  ASSERT_EQ(list.items.size(), 2u);
  EXPECT_TRUE(list.items[1].quoted);
  EXPECT_EQ(list.items[1].at.where, "r.yaml:3:10");
  EXPECT_EQ(root.find("b")->find("d")->kind, Node::Kind::scalar);
  EXPECT_EQ(root.find("b")->find("e")->kind, Node::Kind::null);
  EXPECT_EQ(root.find("z"), nullptr);
  EXPECT_EQ(root.entries[1].key_at.where, "r.yaml:2:1");
}

TEST(Tree, EmptyTextsAreEmptyMaps) {
  std::vector<Fault> faults;
  EXPECT_EQ(parse_tree("", "r.yaml", faults).kind, Node::Kind::map);
  EXPECT_EQ(parse_tree("# nothing\n", "r.yaml", faults).kind, Node::Kind::map);
  EXPECT_TRUE(faults.empty());
}

TEST(Tree, RefusesWhatRecipesMustNotContain) {
  EXPECT_THAT(fault_of("a: &x 1\n"), HasSubstr("r.yaml:1:4: a: anchors"));
  EXPECT_THAT(fault_of("a: !!str 1\n"), HasSubstr("tag"));
  EXPECT_THAT(fault_of("a:\n  <<: {b: 1}\n"), HasSubstr("r.yaml:2:3: a: merge keys"));
  EXPECT_THAT(fault_of("a: 1\nb: 2\na: 3\n"), HasSubstr("r.yaml:3:1: a: is given twice"));
  EXPECT_THAT(fault_of("a:\n  b: 1\n  b: [1, {c: 2}]\n  d: 1\n"), HasSubstr("a.b: is given twice"));
  EXPECT_THAT(fault_of("~: 1\n"), HasSubstr("a key must be a word"));
  for (const char* text : {"a: \"x\\0y\"\n", "a: [\"\\u0000\"]\n", "a: {\"\\x00\": 1}\n"})
    EXPECT_THAT(fault_of(text), HasSubstr("a: contains a zero byte")) << text;
  EXPECT_THAT(error_of("[a, b]: 1\n"), HasSubstr("a key must be a word"));
  EXPECT_THAT(error_of("? {a: b}\n: 1\n"), HasSubstr("a key must be a word"));
  EXPECT_THAT(error_of("a: 1\n---\nb: 1\n"), HasSubstr("more than one document"));
  std::vector<Fault> faults;
  parse_tree("a: &x [1]\nb: *x\n", "r.yaml", faults);
  ASSERT_EQ(faults.size(), 2u);
  EXPECT_THAT(faults[1].text(), HasSubstr("r.yaml:2:4: b: aliases"));
}

TEST(Tree, ARefusedKeyDoesNotReplaceTheFirst) {
  std::vector<Fault> faults;
  const Node root = parse_tree("a: 1\na: 2\nb: 3\n", "r.yaml", faults);
  EXPECT_EQ(root.find("a")->text, "1");
  EXPECT_EQ(root.find("b")->text, "3");
  EXPECT_EQ(root.entries.size(), 2u);
}

TEST(Tree, SyntaxErrorsNameLineAndColumn) {
  EXPECT_THAT(error_of("a: 1\nb: [1, 2\n"), HasSubstr("r.yaml:3:1: not valid YAML"));
  EXPECT_THAT(error_of("a: b: c\n"), HasSubstr("r.yaml:1:5: not valid YAML"));
  EXPECT_THAT(error_of("a:\n\tb: 1\n"), HasSubstr("r.yaml:2:"));
  EXPECT_THAT(error_of("a: *x\n"), HasSubstr("r.yaml:1:"));
}

TEST(Tree, SizeDepthAndEncodingAreBounded) {
  EXPECT_THAT(error_of(std::string((1 << 20) + 1, ' ')), HasSubstr("at most 1048576"));
  std::vector<Fault> faults;
  EXPECT_NO_THROW(parse_tree(std::string(1 << 20, ' '), "r.yaml", faults));
  EXPECT_NO_THROW(parse_tree(std::string(32, '[') + std::string(32, ']'), "r.yaml", faults));
  EXPECT_THAT(error_of(std::string(33, '[') + std::string(33, ']')), HasSubstr("32 levels"));
  EXPECT_NE(error_of(std::string(20000, '[')), "");
  std::string blocks;
  for (int i = 0; i < 100; ++i) blocks += std::string(static_cast<size_t>(i), ' ') + "a:\n";
  EXPECT_THAT(error_of(blocks), HasSubstr("32 levels"));
  EXPECT_THAT(error_of("a: \xff\n"), HasSubstr("UTF-8"));
  EXPECT_THAT(error_of(std::string("a: \0b\n", 6)), HasSubstr("zero byte"));
}

TEST(Override, SetsMakesAndReplacesValues) {
  std::vector<Fault> faults;
  Node root = parse_tree("a:\n  b: 1\nl: [{w: 1}, {w: 2}]\ns: x\n", "r.yaml", faults);
  for (const char* text : {"a.b=2", "a.c.d=3", "l.1.w=5", "s.t=4", "e=[x, 'y']", "f=", "g=a: b # c",
                           "h=x=y", "i=\"q\"", "j=null"})
    apply_override(root, {text}, 1, faults);
  EXPECT_TRUE(faults.empty());
  EXPECT_EQ(root.find("a")->find("b")->text, "2");
  EXPECT_EQ(root.find("a")->find("b")->at.where, "--set a.b=2");
  EXPECT_EQ(root.find("a")->find("c")->find("d")->text, "3");
  EXPECT_EQ(root.find("l")->items[0].find("w")->text, "1");
  EXPECT_EQ(root.find("l")->items[1].find("w")->text, "5");
  EXPECT_EQ(root.find("s")->find("t")->text, "4");
  EXPECT_EQ(root.find("e")->items[1].text, "y");
  EXPECT_EQ(root.find("f")->kind, Node::Kind::absent);
  EXPECT_EQ(root.find("g")->text, "a: b # c");
  EXPECT_EQ(root.find("h")->text, "x=y");
  EXPECT_EQ(root.find("i")->text, "q");
  EXPECT_TRUE(root.find("i")->quoted);
  EXPECT_EQ(root.find("j")->kind, Node::Kind::null);
}

TEST(Override, RefusesWhatIsNoAssignment) {
  for (const char* text :
       {"a", "=1", "a..b=1", ".a=1", "a.=1", "l.2=1", "l.x=1", "l.-1=1", "l.1="}) {
    std::vector<Fault> faults;
    Node root = parse_tree("l: [1, 2]\n", "r.yaml", faults);
    apply_override(root, {text}, 1, faults);
    ASSERT_EQ(faults.size(), 1u) << text;
    EXPECT_THAT(faults[0].text(), HasSubstr(std::string("--set ") + text));
  }
  std::vector<Fault> faults;
  Node root;
  root.kind = Node::Kind::map;
  EXPECT_THROW(apply_override(root, {"a=[1"}, 1, faults), UserError);
}

}  // namespace
}  // namespace megalith::settings
