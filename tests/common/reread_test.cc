// Settings that are read again while the program runs.
#include "common/config/reread.h"

#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <unistd.h>

#include "tests/expect_ok.h"

namespace kintsugi::config {
namespace {

using testing::HasSubstr;

class RereadTest : public ::testing::Test {
 protected:
  RereadTest() : path_(::testing::TempDir() + "kintsugi-reread-" + std::to_string(::getpid()) + ".toml") {
    settings_.add("listen", &listen_, "where");
    settings_.add("name", &name_, "what it is called");
    settings_.add("disks", &disks_, "where chunks are");
    settings_.add("pages", &pages_, "where pages are");
    settings_.add("secret", &secret_, "which secret");
    settings_.add_bytes("repair.bandwidth", &bandwidth_, "of repairs", 0, 1ull << 40);
    settings_.require("secret");
    settings_.follow("repair.bandwidth", [this] { followed_.push_back(bandwidth_); });
  }
  ~RereadTest() override { std::filesystem::remove(path_); }

  void write(const std::string& toml) { std::ofstream(path_) << "secret = 'x'\n" << toml; }
  std::vector<const char*> arguments() const {
    std::vector<const char*> all{"kintsugi-test", "--config", path_.c_str()};
    if (!flag_.empty()) all.push_back(flag_.c_str());
    return all;
  }
  void start(const std::string& toml) {
    write(toml);
    const std::vector<const char*> all = arguments();
    KINTSUGI_ASSERT_OK(settings_.parse(static_cast<int>(all.size()), all.data()));
  }
  Result<std::string> reread(const std::string& toml) {
    write(toml);
    const std::vector<const char*> all = arguments();
    return settings_.reread(static_cast<int>(all.size()), all.data());
  }
  std::string said(const std::string& toml) {
    const auto outcome = reread(toml);
    return outcome ? *outcome : "refused: " + outcome.error().message();
  }

  const std::string path_;
  std::string flag_;  ///< empty: none
  runtime::Endpoint listen_{"127.0.0.1", 7000};
  std::string name_ = "default", secret_;
  std::vector<std::string> disks_;
  std::optional<runtime::Endpoint> pages_;
  uint64_t bandwidth_ = 0;
  std::vector<uint64_t> followed_;
  Settings settings_{"kintsugi-test", "Tests settings."};
};

TEST_F(RereadTest, WhatCanBeFollowedIsAndTheRestIsNamed) {
  start("name = 'a'\ndisks = ['/a', '/b']\n");
  EXPECT_EQ(
      said("name = 'b'\ndisks = ['/a']\nrepair.bandwidth = '2MiB'\n"),
      "changed: repair.bandwidth = \"2MiB\"; changed by a restart only: name = \"b\", disks = [\"/a\"]");
  EXPECT_EQ(followed_, std::vector<uint64_t>{2 << 20});
  EXPECT_EQ(bandwidth_, 2u << 20);
  EXPECT_EQ(name_, "a");
  EXPECT_EQ(disks_, (std::vector<std::string>{"/a", "/b"}));
}

TEST_F(RereadTest, AFileThatIsTheSameChangesNothing) {
  start("name = 'a'\nlisten = '127.0.0.1:7001'\npages = '127.0.0.1:7002'\nrepair.bandwidth = '1MiB'\n");
  EXPECT_EQ(
      said("name = 'a'\nlisten = '127.0.0.1:7001'\npages = '127.0.0.1:7002'\nrepair.bandwidth = '1MiB'\n"),
      "");
  EXPECT_TRUE(followed_.empty());
}

TEST_F(RereadTest, WhatIsNoLongerInTheFileHasItsDefaultAgain) {
  start("pages = '127.0.0.1:7002'\nrepair.bandwidth = '1MiB'\n");
  EXPECT_EQ(said(""), "changed: repair.bandwidth = \"0B\"; changed by a restart only: pages = \"\"");
  EXPECT_EQ(followed_, std::vector<uint64_t>{0});
  EXPECT_TRUE(pages_.has_value());
}

TEST_F(RereadTest, AMistakeChangesNothingAndIsNamed) {
  start("name = 'a'\nrepair.bandwidth = '1MiB'\n");
  EXPECT_THAT(said("repair.bandwidth = '3MiB'\nname = 7\n"), HasSubstr("name: expected a string"));
  EXPECT_EQ(bandwidth_, 1u << 20);
  EXPECT_EQ(name_, "a");
  EXPECT_TRUE(followed_.empty());
  std::filesystem::remove(path_);
  const std::vector<const char*> all = arguments();
  EXPECT_FALSE(settings_.reread(static_cast<int>(all.size()), all.data())) << "the file is gone";
  EXPECT_EQ(name_, "a");
}

TEST_F(RereadTest, FlagsGoBeforeTheFileAsAtTheStart) {
  flag_ = "--repair-bandwidth=5MiB";
  start("repair.bandwidth = '1MiB'\n");
  EXPECT_EQ(said("repair.bandwidth = '2MiB'\n"), "");
  EXPECT_EQ(bandwidth_, 5u << 20);
}

}  // namespace
}  // namespace kintsugi::config
