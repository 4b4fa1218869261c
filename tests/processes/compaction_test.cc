// Compaction with real daemons: a file is scattered through a mount that is gone before anything is done about it.
#include <fstream>
#include <thread>

#include <nlohmann/json.hpp>

#include "tests/processes/mounts.h"

namespace kintsugi::processes {
namespace {

using std::chrono::seconds;
using Json = nlohmann::json;

class Compaction : public Mounts {
 protected:
  /// Overwrites 600 blocks of a file of 8 MiB through a mount, which is gone then. The copy at `expected` has what the file has.
  void scatter(const std::string& expected) {
    const std::string directory = start_and_mount();
    const std::string program =
        "import os, random, sys\n"
        "rng = random.Random(1)\n"
        "content = bytearray(rng.randbytes(8 << 20))\n"
        "file = os.open(sys.argv[1], os.O_CREAT | os.O_RDWR)\n"
        "os.pwrite(file, content, 0)\n"
        "os.fsync(file)\n"
        "for _ in range(600):\n"
        "    at, block = rng.randrange(2048) * 4096, rng.randbytes(4096)\n"
        "    content[at:at + 4096] = block\n"
        "    os.pwrite(file, block, at)\n"
        "os.fsync(file)\n"
        "open(sys.argv[2], 'wb').write(content)\n";
    const Outcome written =
        run_command({"/usr/bin/env", "python3", "-c", program, directory + "/file", expected});
    ASSERT_EQ(written.exit_code, 0) << written.err;
    unmount(directory);
  }
  size_t extents() const {
    const Json file = Json::parse(kintsugi({"stat", "/file", "--json"}).out, nullptr, false);
    return file.is_object() ? file.at("extents").size() : 0;
  }
  /// The page of the one repair manager, at a port that the kernel chose. The metaserver says where that is.
  std::string metrics_of_repair_manager() const {
    const Json targets = Json::parse(page_of("metaserver", "/sd"), nullptr, false);
    for (const Json& target : targets)
      if (target["labels"]["daemon"] == "repair-manager") return page_at(target["targets"][0], "/metrics");
    ADD_FAILURE() << "no repair manager: " << targets;
    return "";
  }
  /// The value of a metric without labels.
  static double metric(const std::string& page, const std::string& name) {
    const size_t at = page.find("\n" + name + " ");
    return at == std::string::npos ? -1 : std::stod(page.substr(at + name.size() + 2));
  }
  void expect_content(const std::string& expected) const {
    ASSERT_EQ(kintsugi({"get", "/file", path("back")}).exit_code, 0);
    EXPECT_EQ(run_command({"/usr/bin/cmp", expected, path("back")}).exit_code, 0);
  }
};

TEST_F(Compaction, IsDoneByARepairManagerWhenTheMountIsGone) {
  ASSERT_NO_FATAL_FAILURE(scatter(path("expected")));
  const size_t scattered = extents();
  EXPECT_GT(scattered, 400u);
  EXPECT_TRUE(eventually([&] { return extents() <= 8; }, seconds(60))) << extents() << " of " << scattered;
  EXPECT_GE(metric(metrics_of_repair_manager(), "kintsugi_compacted_bytes_total"), 8 << 20);
  EXPECT_EQ(metric(metrics_of_repair_manager(), "kintsugi_compaction_windows_lost_total"), 0);
  EXPECT_TRUE(
      eventually([&] { return metric(metrics_of_repair_manager(), "kintsugi_compactions_done_total") == 1; },
                 seconds(10)));
  expect_content(path("expected"));
  EXPECT_TRUE(healthy());
}

TEST_F(Compaction, WaitsForARepairManager) {
  ASSERT_NO_FATAL_FAILURE(scatter(path("expected")));
  kill9("repair-manager-1");

  const size_t scattered = extents();
  EXPECT_GT(scattered, 400u) << "it was compacted before the kill: this shows nothing";
  EXPECT_EQ(metric(metrics_of("metaserver"), "kintsugi_files_to_compact"), 1);
  std::this_thread::sleep_for(seconds(8));
  EXPECT_EQ(extents(), scattered);
  restart_missing();
  EXPECT_TRUE(eventually([&] { return extents() <= 8; }, seconds(60))) << extents() << " of " << scattered;
  EXPECT_EQ(metric(metrics_of("metaserver"), "kintsugi_files_to_compact"), 0);
  expect_content(path("expected"));
}

}  // namespace
}  // namespace kintsugi::processes
