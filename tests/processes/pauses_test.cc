// Daemons that pause, as a machine does that swaps, or whose disk takes long: clients wait for them, or go around them.
#include <chrono>
#include <thread>

#include <signal.h>

#include "tests/processes/process_cluster.h"

namespace kintsugi::processes {
namespace {

using std::chrono::seconds;
using SteadyClock = std::chrono::steady_clock;

constexpr size_t kFileBytes = size_t{24} << 20;
constexpr seconds kMetaserverPause(15);  ///< clients outlive it by default

class Pauses : public ProcessCluster {
 protected:
  void freeze(const std::string& daemon) {
    ASSERT_NO_FATAL_FAILURE(send(daemon, SIGSTOP));
    frozen_ = daemon;
  }
  void thaw() {
    if (!frozen_.empty()) send(frozen_, SIGCONT);
    frozen_.clear();
  }
  /// The command; what it says on stderr can be had by this name.
  std::vector<std::string> complaining(const std::string& name,
                                       const std::vector<std::string>& arguments) const {
    std::vector<std::string> line{"/bin/bash", "-c", "exec \"$@\" 2> " + path(name + ".stderr"), "bash"};
    const auto ours = command(arguments);
    line.insert(line.end(), ours.begin(), ours.end());
    return line;
  }
  std::string complaint(const std::string& name) const { return read_file(path(name + ".stderr")); }
  void TearDown() override {
    thaw();
    ProcessCluster::TearDown();
  }

 private:
  std::string frozen_;
};

TEST_F(Pauses, AMetaserverThatPausesForFifteenSecondsDelaysCommandsAndFailsNone) {
  start({"--chunkservers", "4", "--policy", "rs-2-1-64k"});
  const std::string file = make_file("file", kFileBytes, 1);
  ASSERT_EQ(kintsugi({"put", file, "/before"}).exit_code, 0);
  freeze("metaserver");
  const auto began = SteadyClock::now();
  BackgroundCommand put(complaining("put", {"put", file, "/during"}), environment());
  BackgroundCommand get(complaining("get", {"get", "/before", path("copy")}), environment());
  std::this_thread::sleep_for(kMetaserverPause);
  EXPECT_TRUE(put.running()) << "nothing can be put without a metaserver";
  thaw();
  EXPECT_EQ(put.exit_code(), 0) << complaint("put");
  EXPECT_EQ(get.exit_code(), 0) << complaint("get");
  EXPECT_LT(SteadyClock::now() - began, KINTSUGI_TIME_FACTOR * (kMetaserverPause + seconds(10)));
  EXPECT_EQ(read_file(path("copy")), read_file(file));
  ASSERT_EQ(kintsugi({"get", "/during", path("other")}).exit_code, 0);
  EXPECT_EQ(read_file(path("other")), read_file(file));
}

}  // namespace
}  // namespace kintsugi::processes
