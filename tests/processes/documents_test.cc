// Commands of the documents, run as they are printed: each block of a page that begins with ```sh, unless the line before it
// says why it is not run: <!-- not run: REASON -->.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include <gmock/gmock.h>
#include <unistd.h>

#include "tests/processes/process_cluster.h"

namespace kintsugi::processes {
namespace {

namespace fs = std::filesystem;
using testing::ContainsRegex;
using testing::HasSubstr;

const std::string kSource = KINTSUGI_SOURCE;
/// Its walk-throughs make their own cluster.
const std::string kWalkThroughs = "docs/getting_started.md";

std::string text_of(const std::string& path) {
  std::ifstream in(path);
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

/// The blocks of a page that are run, by the headings above them.
struct Block {
  std::string heading, script;
};
std::vector<Block> blocks_of(const std::string& page) {
  std::istringstream text(text_of(kSource + "/" + page));
  std::vector<Block> found;
  std::string heading, before;
  bool inside = false;
  for (std::string line; std::getline(text, line); before = line) {
    if (line.starts_with("```")) {
      inside = line == "```sh" && !before.starts_with("<!-- not run: ");
      if (inside) found.push_back({heading, ""});
    } else if (inside) {
      // The programs are built already, and stand elsewhere.
      const bool builds = line.starts_with("scripts/build.sh") || line.starts_with("export PATH");
      if (!builds) found.back().script += line + "\n";
    } else if (line.starts_with("## ")) {
      heading = line.substr(3);
    }
  }
  return found;
}

bool can_mount() {
  return ::geteuid() == 0 && fs::exists("/dev/fuse");
}

class Documents : public ProcessCluster {
 protected:
  void SetUp() override {
    ProcessCluster::SetUp();
    fs::create_directories(path("work/tmp"));
    fs::copy(kSource + "/README.md", path("work/README.md"));
    fs::create_directories(path("work/docs"));
    fs::copy(kSource + "/docs/mount.md", path("work/docs/mount.md"));
  }
  void TearDown() override {
    // Whatever happened, nothing is left mounted, and no daemon runs on.
    run_command({"/bin/bash", "-c", "umount -l " + path("work/tmp/kintsugi") + " 2>/dev/null; true"});
    if (!fs::is_symlink(path("work/demo")))
      run_command(command({"cluster", "stop", "--dir", path("work/demo")}));
    ProcessCluster::TearDown();
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
    return run_command({"/bin/bash", "-c", all + "true\n"}, environment());
  }
  /// Commands that failed and are not to.
  static std::string failures(const Outcome& outcome) {
    std::istringstream lines(outcome.out);
    std::string found;
    for (std::string line; std::getline(lines, line);)
      if (line.starts_with("FAILED") && !line.starts_with("FAILED: kintsugi diagnose")) found += line + "\n";
    return found;
  }
  /// All walk-throughs in their order.
  void walk(bool mounted) const;
};

void Documents::walk(bool mounted) const {
  std::vector<std::string> first, second;
  for (const Block& block : blocks_of(kWalkThroughs)) {
    if (block.heading == "The first five minutes") first.push_back(block.script);
    if (block.heading == "Five minutes with a culprit") second.push_back(block.script);
  }
  ASSERT_EQ(first.size(), 1u);
  const Outcome stored = run_block(first[0], mounted);
  EXPECT_EQ(failures(stored), "") << stored.out << stored.err;
  EXPECT_THAT(stored.out, HasSubstr("replication-4-1024k")) << "small files are copies";
  EXPECT_THAT(stored.out, HasSubstr("  rs-6-3-1024k  ")) << "and large ones are not";
  EXPECT_THAT(stored.out, HasSubstr("dead")) << "the server list after the kill";
  EXPECT_THAT(stored.out, HasSubstr("all whole"));

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

TEST_F(Documents, TheWalkThroughsRunOneAfterTheOtherInOneDirectory) {
  walk(/*mounted=*/false);
}

TEST_F(Documents, TheWalkThroughsRunAlsoWithTheMountBetweenThem) {
  if (!can_mount()) GTEST_SKIP() << "nothing can be mounted here";
  walk(/*mounted=*/true);
}

/// What a page takes for granted, done before its first block.
const std::map<std::string, std::string> kBefore{
    {"docs/operations.md",
     "kintsugi mkdir /home /home/ann /home/ann/thesis /projects /projects/web\n"
     "kintsugi put README.md /projects/web/report.txt\n"},
    // The monitor writes its first rows a second or two after its start.
    {"docs/metrics.md",
     "for i in {1..60}; do kintsugi-monitor metrics --export --server chunkserver-1 --name rss "
     "demo/data/monitor && break; sleep 0.5; done >/dev/null 2>&1\n"},
    {"docs/runbooks/full_cluster.md", "kintsugi mkdir /what /what/is /what/is/old\n"},
    {"docs/repair.md", "head -c 20M /dev/urandom >/tmp/video; kintsugi put /tmp/video /video\n"},
};

/// Pages that tell how something was measured or decided: their commands take minutes, or are of another day.
const std::set<std::string> kEvidence{"docs/ARCHITECTURE.md", "docs/benchmarks.md", "docs/reliability.md"};

/// The pages with commands that are run in a cluster which is there: of ten servers, in the directory `demo`, and as the
/// environment says.
std::vector<std::string> pages() {
  std::vector<std::string> found;
  const auto take = [&found](const std::string& page) {
    const bool is_run = page.ends_with(".md") && page != kWalkThroughs && !kEvidence.contains(page);
    if (is_run && !blocks_of(page).empty()) found.push_back(page);
  };
  take("README.md");
  for (const char* folder : {"docs", "docs/runbooks", "docs/reference"})
    for (const auto& file : fs::directory_iterator(kSource + "/" + folder))
      take(fs::relative(file.path(), kSource));
  std::ranges::sort(found);
  return found;
}

class Page : public Documents, public testing::WithParamInterface<std::string> {};

TEST_P(Page, ItsCommandsRun) {
  start({"--chunkservers", "10", "--policy", "rs-6-3-1024k"});
  fs::create_directory_symlink(cluster_directory(), path("work/demo"));
  const auto before = kBefore.find(GetParam());
  std::string script = before == kBefore.end() ? "" : before->second;
  for (const Block& block : blocks_of(GetParam()))
    script += block.script;
  const Outcome outcome = run_block(script, can_mount());
  // Builds under sanitizers cannot record calls.
  if (GetParam() == "docs/tracing.md" &&
      (outcome.out + outcome.err).find("KINTSUGI_SLEDS") != std::string::npos)
    GTEST_SKIP() << outcome.err;
  EXPECT_EQ(failures(outcome), "") << outcome.out << outcome.err;
  if (GetParam() == "docs/tracing.md" && can_mount())
    EXPECT_THAT(outcome.out, HasSubstr("followed to 127.0.0.1:")) << "what was read in the mount meanwhile";
#ifdef KINTSUGI_FAULT_POINTS
  // The walk-through finds what it planted.
  if (GetParam() == "docs/tracing.md")
    EXPECT_THAT(outcome.out,
                ContainsRegex("ReadChunk that came .* to kintsugi-chunkserver " +
                              std::to_string(pid_of("chunkserver-3")) + " .* is unlike the others"));
#endif
}

std::string test_name(const testing::TestParamInfo<std::string>& page) {
  std::string name = fs::path(page.param).stem();
  std::ranges::replace_if(name, [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0; }, '_');
  return name;
}

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(Page);
INSTANTIATE_TEST_SUITE_P(Of, Page, testing::ValuesIn(pages()), test_name);

}  // namespace
}  // namespace kintsugi::processes
