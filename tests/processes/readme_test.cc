// The walk-throughs of README.md, as they are printed there, one after the other in one empty directory.
#include <filesystem>
#include <fstream>
#include <sstream>

#include <gmock/gmock.h>
#include <unistd.h>

#include "tests/processes/process_cluster.h"

namespace kintsugi::processes {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::Not;

class Readme : public ProcessCluster {
 protected:
  void SetUp() override {
    ProcessCluster::SetUp();
    fs::create_directories(path("work/tmp"));
    fs::copy(KINTSUGI_SOURCE "/README.md", path("work/README.md"));
    fs::create_directories(path("work/docs"));
    fs::copy(KINTSUGI_SOURCE "/docs/mount.md", path("work/docs/mount.md"));
  }
  void TearDown() override {
    // Whatever happened, nothing is left mounted, and no daemon runs on.
    run_command({"/bin/bash", "-c", "umount -l " + path("work/tmp/kintsugi") + " 2>/dev/null; true"});
    run_command(command({"cluster", "stop", "--dir", path("work/demo")}));
    ProcessCluster::TearDown();
  }

  /// The shell blocks below a heading, without what builds the programs.
  static std::vector<std::string> blocks(const std::string& heading) {
    std::istringstream text(read_file(KINTSUGI_SOURCE "/README.md"));
    std::vector<std::string> found;
    bool below = false, inside = false;
    for (std::string line; std::getline(text, line);) {
      if (line.starts_with("## ")) below = line == "## " + heading;
      if (!below) continue;
      if (line.starts_with("```")) {
        inside = line == "```sh";
        if (inside) found.emplace_back();
      } else if (inside && !line.starts_with("scripts/") && !line.starts_with("export PATH")) {
        found.back() += line + "\n";
      }
    }
    return found;
  }
  /// Runs a block in the directory, with its mount or without. Each command that fails is told on a line of its own that begins with
  /// "FAILED".
  Outcome run_block(std::string script, bool mounted) const {
    std::istringstream lines(std::exchange(script, ""));
    for (std::string line; std::getline(lines, line);)
      if (mounted || line.find("/tmp/kintsugi") == std::string::npos) script += line + "\n";
    for (size_t at = 0; (at = script.find("/tmp/", at)) != std::string::npos; at += path("work/tmp/").size())
      script.replace(at, 5, path("work/tmp/"));
    const std::string all =
        "cd " + path("work") +
        "\nexport PATH=" KINTSUGI_BINARIES ":$PATH\ntrap 'echo \"FAILED: $BASH_COMMAND\"' ERR\n" + script;
    return run_command({"/bin/bash", "-c", all + "true\n"});
  }
  /// All walk-throughs in their order.
  void walk(bool mounted) const;
  /// Commands that failed and are not to.
  static std::string failures(const Outcome& outcome) {
    std::istringstream lines(outcome.out);
    std::string found;
    for (std::string line; std::getline(lines, line);)
      if (line.starts_with("FAILED") && !line.starts_with("FAILED: kintsugi diagnose")) found += line + "\n";
    return found;
  }
};

void Readme::walk(bool mounted) const {
  const std::vector<std::string> first = blocks("The first five minutes");
  ASSERT_EQ(first.size(), 1u);
  const Outcome stored = run_block(first[0], mounted);
  EXPECT_EQ(failures(stored), "") << stored.out << stored.err;
  EXPECT_THAT(stored.out, HasSubstr("replication-4-1024k")) << "small files are copies";
  EXPECT_THAT(stored.out, HasSubstr("  rs-6-3-1024k  ")) << "and large ones are not";
  EXPECT_THAT(stored.out, HasSubstr("dead")) << "the server list after the kill";
  EXPECT_THAT(stored.out, HasSubstr("all whole"));

  const std::vector<std::string> second = blocks("Five minutes with a culprit");
  ASSERT_EQ(second.size(), 2u);
  const Outcome diagnosed = run_block(second[0], mounted);
  EXPECT_EQ(failures(diagnosed), "") << diagnosed.out << diagnosed.err;
  EXPECT_THAT(diagnosed.out, HasSubstr("nothing is stuck; 10 of 10 servers report"));
  EXPECT_THAT(diagnosed.out, HasSubstr("chunkserver-7: does not report and answers nobody"));
  EXPECT_THAT(diagnosed.out, HasSubstr("metaserver: does not report and answers nobody"));
  EXPECT_THAT(diagnosed.out, HasSubstr("all whole"));
#ifdef KINTSUGI_FAULT_POINTS
  const Outcome faulty = run_block(second[1], mounted);
  EXPECT_EQ(failures(faulty), "") << faulty.out << faulty.err;
  EXPECT_THAT(faulty.out, HasSubstr("chunkserver-3: serve.ReadChunk"));
#endif
}

TEST_F(Readme, ItsWalkThroughsRunOneAfterTheOtherInOneDirectory) {
  walk(/*mounted=*/false);
}

TEST_F(Readme, ItsWalkThroughsRunAlsoWithTheMountBetweenThem) {
  if (::geteuid() != 0 || !fs::exists("/dev/fuse")) GTEST_SKIP() << "nothing can be mounted here";
  walk(/*mounted=*/true);
}

}  // namespace
}  // namespace kintsugi::processes
