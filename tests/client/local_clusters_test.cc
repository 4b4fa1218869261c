// Several local clusters of one user: no port belongs to two of them, whether their daemons run or not.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <set>
#include <vector>

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/cli/cluster_description.h"
#include "client/cli/known_clusters.h"
#include "client/cli/local_cluster.h"
#include "tests/expect_ok.h"

namespace kintsugi::cli {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

/// Two clusters with so many chunkservers would have thirteen ports in common, of those that there are, by chance.
constexpr uint32_t kMany = LocalCluster::kMaxChunkservers;

class LocalClusters : public testing::Test {
 protected:
  LocalClusters() {
    std::string name = (fs::temp_directory_path() / "kintsugi-clusters-XXXXXX").string();
    directory_ = ::mkdtemp(name.data());
    if (const char* state = std::getenv("XDG_STATE_HOME")) before_ = state;
    ::setenv("XDG_STATE_HOME", (directory_ + "/state").c_str(), 1);
  }
  ~LocalClusters() override {
    before_ ? ::setenv("XDG_STATE_HOME", before_->c_str(), 1) : ::unsetenv("XDG_STATE_HOME");
    fs::remove_all(directory_);
  }
  std::string path(const std::string& name) const { return directory_ + "/" + name; }
  Status make(const std::string& name, uint32_t chunkservers) const {
    LocalClusterOptions options;
    options.chunkservers = chunkservers;
    const auto made = LocalCluster::create(path(name), options);
    return made ? Status{} : made.error();
  }
  std::set<std::string> addresses(const std::string& name) const {
    const auto description = ClusterDescription::read(path(name));
    EXPECT_TRUE(description) << description.error();
    auto all = description ? description->addresses() : std::set<std::string>{};
    all.erase("");  // the monitor's, when its program was not built
    return all;
  }
  std::vector<std::string> in_common(const std::string& one, const std::string& other) const {
    const auto left = addresses(one), right = addresses(other);
    std::vector<std::string> common;
    std::set_intersection(left.begin(), left.end(), right.begin(), right.end(), std::back_inserter(common));
    return common;
  }

  std::string directory_;
  std::optional<std::string> before_;  ///< what other tests have
};

TEST_F(LocalClusters, HaveNoPortInCommonAlsoWhenTheyGrow) {
  KINTSUGI_ASSERT_OK(make("first", 2));
  KINTSUGI_ASSERT_OK(make("second", kMany));
  auto first = LocalCluster::load(path("first"));
  ASSERT_TRUE(first) << first.error();
  KINTSUGI_ASSERT_OK(first->grow(kMany));
  EXPECT_GT(addresses("first").size(), 2 * kMany);
  EXPECT_EQ(in_common("first", "second"), std::vector<std::string>{}) << "these cannot run at a time";
}

TEST_F(LocalClusters, ThatAreMadeAtOnceHaveNoPortInCommon) {
  constexpr int kMakers = 5;
  std::vector<pid_t> makers;
  for (int number = 0; number < kMakers; ++number) {
    const pid_t maker = ::fork();
    if (maker == 0) ::_exit(make(std::to_string(number), kMany / 2).ok() ? 0 : 1);
    makers.push_back(maker);
  }
  std::set<std::string> all;
  size_t given = 0;
  for (int number = 0; number < kMakers; ++number) {
    int status = -1;
    ::waitpid(makers[static_cast<size_t>(number)], &status, 0);
    ASSERT_EQ(status, 0) << number;
    auto addresses_of_one = addresses(std::to_string(number));
    given += addresses_of_one.size();
    all.merge(addresses_of_one);
  }
  EXPECT_EQ(all.size(), given);
}

TEST_F(LocalClusters, KeepTheirPortsWhereTheyAreMovedTo) {
  KINTSUGI_ASSERT_OK(make("here", kMany));
  fs::rename(path("here"), path("there"));
  const auto moved = LocalCluster::load(path("there"));
  ASSERT_TRUE(moved) << moved.error();
  KINTSUGI_ASSERT_OK(moved->remember());
  KINTSUGI_ASSERT_OK(make("here", kMany));
  EXPECT_EQ(in_common("here", "there"), std::vector<std::string>{});
}

TEST_F(LocalClusters, ThatAreRemovedGiveTheirPortsBack) {
  // More ports than there are, and room to find a free one by chance.
  for (int round = 0; round < 35; ++round) {
    KINTSUGI_ASSERT_OK(make("cluster", kMany));
    fs::remove_all(path("cluster"));
  }
}

TEST_F(LocalClusters, AreMadeByUsersWhoseListCannotBeKept) {
  ::setenv("XDG_STATE_HOME", "/dev/null/state", 1);
  KINTSUGI_EXPECT_OK(make("cluster", 1));
  ::setenv("XDG_STATE_HOME", path("state").c_str(), 1);
  fs::create_directories(path("state/kintsugi/clusters/in the way"));
  KINTSUGI_EXPECT_OK(make("another", 1));
}

TEST_F(LocalClusters, WaitForAnotherStartForAWhileOnly) {
  const auto held = KnownClusters::open(path("one"));
  ASSERT_TRUE(held) << held.error();
  const auto second = KnownClusters::open(path("two"), 50ms);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code(), Code::kDeadlineExceeded) << second.error();
  EXPECT_NE(second.error().message().find("clusters.lock"), std::string::npos) << second.error();
}

}  // namespace
}  // namespace kintsugi::cli
