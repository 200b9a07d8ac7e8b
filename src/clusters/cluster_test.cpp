// SPDX-License-Identifier: Apache-2.0
#include "clusters/cluster.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"

namespace megalith::clusters {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr const char* kText = R"(
name: two nodes
device:
  name: some card
  memory: 80e9
  reserved: 2e9
  bandwidth: 2e12
  products:
    - {type: bf16, peak: 300e12, share: 0.8, depth: 400}
    - {type: fp8, peak: 600e12}
node: {devices: 8, count: 2}
links:
  - {name: inside, devices: 8, bandwidth: 300e9, share: 0.5, latency_seconds: 1e-5}
  - {name: outside, devices: 0, bandwidth: 25e9, oversubscription: 2}
)";

std::string replaced(std::string from, std::string to) {
  std::string text = kText;
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

std::string message_of(const std::string& text) {
  try {
    parse_cluster(text, "c.yaml");
  } catch (const UserError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(Cluster, ReadsWhatTheFileSays) {
  const Cluster c = parse_cluster(kText, "c.yaml");
  EXPECT_EQ(c.devices(), 16);
  EXPECT_EQ(c.usable_memory(), 78'000'000'000);
  EXPECT_EQ(c.known(ProductType::bf16).peak, 300e12);
  EXPECT_EQ(c.joining(8).name, "inside");
  EXPECT_EQ(c.joining(9).name, "outside");
  EXPECT_EQ(c.joining(8).rate(), 150e9);
  EXPECT_EQ(c.joining(16).rate(), 12.5e9);
}

TEST(Cluster, WhatNobodyMeasuredIsSaid) {
  const Cluster c = parse_cluster(kText, "c.yaml");
  EXPECT_EQ(c.find(ProductType::int8), nullptr);
  EXPECT_THAT([&] { c.known(ProductType::fp8); },
              ::testing::ThrowsMessage<UserError>(
                  AllOf(HasSubstr("nobody has measured"), HasSubstr("products[].share"))));
  EXPECT_THAT([&] { c.known(ProductType::f32); },
              ::testing::ThrowsMessage<UserError>(HasSubstr("has no products of f32")));
}

TEST(Cluster, EveryFaultHasItsPlaceAndWhatToChange) {
  const struct {
    const char *from, *to, *message;
  } cases[] = {
      {"share: 0.8", "share: 1.5", "c.yaml:9:41: device.products.0.share: must be"},
      {"peak: 300e12", "peek: 300e12", "the nearest known key is device.products.0.peak"},
      {"peak: 300e12, ", "", "device.products.0.peak: is missing; give operations per second"},
      {"type: fp8", "type: bf16", "device.products.1.type: bf16 is there twice"},
      {"  memory: 80e9\n", "", "device.memory: is missing; give bytes"},
      {"reserved: 2e9", "reserved: 80e9", "leaves nothing of device.memory"},
      {"bandwidth: 2e12", "bandwidth: -2", "device.bandwidth: must be"},
      {"devices: 0", "devices: 12", "links.1.devices: 12 must be a multiple of the 8 inside"},
      {"devices: 0, bandwidth: 25e9", "devices: 8, bandwidth: 25e9", "links.1.devices: 8 must be"},
      {"bandwidth: 25e9", "bandwidth: 400e9", "links go from the inside out"},
      {"count: 2", "count: 1", "links.1.devices: 8 must be a multiple of the 8 inside"},
      {"devices: 8, bandwidth: 300e9", "devices: 4, bandwidth: 300e9",
       "none joins the 8 devices of a node"},
      {"oversubscription: 2", "oversubscription: 0.5", "links.1.oversubscription: must be"},
  };
  for (const auto& c : cases)
    EXPECT_THAT(message_of(replaced(c.from, c.to)), HasSubstr(c.message)) << c.to;
  EXPECT_THAT(message_of("device: {memory: 1e9, bandwidth: 1e9, products: [{peak: 1e9}]}\n"
                         "node: {devices: 2}\n"),
              HasSubstr("links: is empty, but there are 2 devices"));
  EXPECT_THAT(message_of("- 3"), HasSubstr("a cluster is a map of sections"));
}

/// The first entry that reaches to a call's operations a byte is its rate.
TEST(Cluster, RatesOfServingComeByIntensity) {
  const std::string rates =
      "  serving:\n"
      "    - {name: a, type: bf16, bandwidth: 1e9, most_intensity: 1.5}\n"
      "    - {name: a, type: bf16, flops: 1e12}\n";
  const auto with = [](const std::string& more) { return replaced("node:", more + "node:"); };
  const Cluster c = parse_cluster(with(rates), "here.yaml");
  ASSERT_NE(c.find_serving("a", ProductType::bf16, 1.5), nullptr);
  EXPECT_EQ(c.find_serving("a", ProductType::bf16, 1.5)->bandwidth, 1e9);
  EXPECT_EQ(c.find_serving("a", ProductType::bf16, 1.6)->flops, 1e12);
  EXPECT_EQ(c.find_serving("a", ProductType::f32, 1), nullptr);
  EXPECT_EQ(c.find_serving("b", ProductType::bf16, 1), nullptr);
  EXPECT_EQ(c.find_kernel("a", ProductType::bf16), nullptr);
  EXPECT_THAT(message_of(with(rates + "    - {name: a, type: bf16, flops: 1e12}\n")),
              HasSubstr("device.serving.2.name: a in bf16 is there twice"));
  EXPECT_THAT(
      message_of(with(rates + "    - {name: a, type: bf16, flops: 1e12, most_intensity: 3}\n")),
      HasSubstr("device.serving.2.name: a in bf16 is there twice"));
  EXPECT_THAT(message_of(with("  serving: [{name: a, type: bf16}]\n")),
              HasSubstr("device.serving.0.name: takes no time"));
}

TEST(Cluster, EveryFileOfTheProjectIsSound) {
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(
           std::filesystem::path(MEGA_SOURCE_DIR) / "recipes" / "clusters")) {
    if (entry.is_directory()) continue;  // single measurements
    const Cluster c = load_cluster(entry.path());
    EXPECT_FALSE(c.device.name.empty()) << entry.path();
    ++files;
  }
  EXPECT_GE(files, 5);
}

}  // namespace
}  // namespace megalith::clusters
