// Two daemons on one directory, a copy of a directory, and a directory that goes away under its server.
#include <atomic>
#include <filesystem>
#include <thread>

#include <signal.h>

#include "tests/processes/process_cluster.h"

namespace kintsugi::processes {
namespace {

using std::chrono::seconds;

class Disks : public ProcessCluster {
 protected:
  std::string data_of(const std::string& daemon) const { return cluster_directory() + "/data/" + daemon; }
  /// The command line of another process of this daemon, at ports and with a log of its own.
  std::vector<std::string> again(const std::string& daemon, const std::string& disk) const {
    return {std::string(KINTSUGI_BINARIES) + "/kintsugi-chunkserver",
            "--config",
            cluster_directory() + "/etc/" + daemon + ".toml",
            "--listen",
            "127.0.0.1:0",
            "--http-listen",
            "127.0.0.1:0",
            "--log-file",
            path("again.log"),
            "--disks",
            disk};
  }
  size_t servers_in_state(const char* state) const {
    const std::string list = kintsugi({"server", "list"}).out;
    size_t count = 0;
    for (size_t at = list.find(state); at != std::string::npos; at = list.find(state, at + 1))
      ++count;
    return count;
  }
};

TEST_F(Disks, ASecondDaemonOnADirectoryIsRefusedAndTheFirstGoesOn) {
  start({"--chunkservers", "3", "--policy", "rs-2-1-64k"});
  const std::string file = make_file("file", 3'000'000, 1);
  ASSERT_EQ(kintsugi({"put", file, "/file"}).exit_code, 0);
  const std::string disk = data_of("chunkserver-2");
  std::vector<std::string> command = again("chunkserver-2", disk);
  command.insert(command.begin(), {"/usr/bin/timeout", "30"});
  const Outcome second = run_command(command);
  EXPECT_EQ(second.exit_code, 1);
  EXPECT_EQ(second.err,
            "kintsugi-chunkserver: conflict: disk directory " + disk + " is in use by another process\n");
  EXPECT_EQ(kill(pid_of("chunkserver-2"), 0), 0);
  EXPECT_EQ(servers_in_state(" alive "), 3u);
  ASSERT_EQ(kintsugi({"get", "/file", path("back")}).exit_code, 0);
  EXPECT_EQ(read_file(path("back")), read_file(file));
  // A process that was killed a moment ago is in nobody's way.
  kill9("chunkserver-2");
  restart_missing();
  EXPECT_TRUE(eventually([&] { return servers_in_state(" alive ") == 3; }, seconds(10)));
}

TEST_F(Disks, OfAServerAndACopyOfItsDirectoryTheOneThatRegisteredLaterStays) {
  start({"--chunkservers", "3", "--policy", "rs-2-1-64k"});
  const std::string file = make_file("file", 3'000'000, 2);
  ASSERT_EQ(kintsugi({"put", file, "/file"}).exit_code, 0);
  std::filesystem::copy(data_of("chunkserver-2"), path("copy"), std::filesystem::copy_options::recursive);
  const pid_t first = pid_of("chunkserver-2");
  BackgroundCommand copy(again("chunkserver-2", path("copy")), environment());
  ASSERT_TRUE(eventually([&] { return read_file("/proc/" + std::to_string(first) + "/cmdline").empty(); },
                         seconds(15)))
      << "the first one still runs";
  const std::string log = read_file(cluster_directory() + "/log/chunkserver-2.log");
  EXPECT_NE(log.find("one of the two runs on a copy of the other's disks"), std::string::npos) << log;
  EXPECT_TRUE(copy.running());
  EXPECT_EQ(servers_in_state(" alive "), 3u);
  restart_missing();
  EXPECT_EQ(copy.exit_code(), 3);
  EXPECT_EQ(servers_in_state(" alive "), 3u);
  ASSERT_EQ(kintsugi({"get", "/file", path("back")}).exit_code, 0);
  EXPECT_EQ(read_file(path("back")), read_file(file));
}

TEST_F(Disks, ADirectoryThatIsRemovedUnderLoadIsAFailedDiskWithinSecondsAndIsRepaired) {
  start({"--chunkservers", "9"});  // there is no other place for what it holds
  const std::string large = make_file("large", size_t{60} << 20, 3), small = make_file("small", 3'000'000, 4);
  ASSERT_EQ(kintsugi({"put", large, "/large"}).exit_code, 0);
  std::atomic<bool> ends = false;
  std::vector<std::string> acknowledged;
  std::thread load([&] {
    for (int i = 0; !ends; ++i) {
      const std::string name = "/small-" + std::to_string(i);
      if (kintsugi({"put", small, name}).exit_code == 0) acknowledged.push_back(name);
    }
  });
  std::this_thread::sleep_for(seconds(1));
  std::error_code ignored;  // it makes files there meanwhile
  for (int i = 0; i < 3; ++i)
    std::filesystem::remove_all(data_of("chunkserver-4"), ignored);
  EXPECT_TRUE(eventually([&] { return servers_in_state("1 of 1 disks failed") == 1; }, seconds(15)))
      << kintsugi({"server", "list"}).out;
  EXPECT_TRUE(eventually([&] { return !healthy(); }, seconds(5))) << "its chunks count as whole";
  ends = true;
  load.join();
  EXPECT_FALSE(acknowledged.empty());
  // An empty disk takes the place of the one that failed.
  kill9("chunkserver-4");
  std::filesystem::create_directories(data_of("chunkserver-4"));
  restart_missing();
  ASSERT_TRUE(eventually([&] { return healthy(); }, seconds(90))) << kintsugi({"fsck", "/"}).out;
  // Three more servers end: only what was repaired can replace what the directory held.
  for (const char* next : {"chunkserver-1", "chunkserver-2", "chunkserver-3"})
    kill9(next);
  ASSERT_EQ(kintsugi({"get", "/large", path("large-back")}).exit_code, 0);
  EXPECT_EQ(run_command({"/usr/bin/cmp", large, path("large-back")}).exit_code, 0);
  for (const std::string& name : acknowledged) {
    ASSERT_EQ(kintsugi({"get", name, path("small-back")}).exit_code, 0) << name;
    EXPECT_EQ(run_command({"/usr/bin/cmp", small, path("small-back")}).exit_code, 0) << name;
    std::filesystem::remove(path("small-back"));
  }
}

TEST_F(Disks, AServerStartsWithoutADiskThatIsNotMountedAndShowsItAsFailed) {
  start({"--chunkservers", "3", "--policy", "rs-2-1-64k"});
  const std::string file = make_file("file", 3'000'000, 5);
  ASSERT_EQ(kintsugi({"put", file, "/file"}).exit_code, 0);
  kill9("chunkserver-2");
  const std::string missing = path("not-mounted");
  const BackgroundCommand server(again("chunkserver-2", data_of("chunkserver-2") + "," + missing),
                                 environment());
  const auto shown = [&] { return kintsugi({"server", "list"}).out; };
  EXPECT_TRUE(eventually([&] { return shown().find("disk " + missing + ": failed") != std::string::npos; },
                         seconds(15)))
      << shown();
  EXPECT_EQ(servers_in_state("1 of 2 disks failed"), 1u);
  EXPECT_EQ(servers_in_state(" alive"), 3u);
  EXPECT_FALSE(std::filesystem::exists(missing));
  ASSERT_EQ(kintsugi({"get", "/file", path("back")}).exit_code, 0);
  EXPECT_EQ(read_file(path("back")), read_file(file));
}

TEST_F(Disks, DfCountsAFileSystemThatAllServersShareOnce) {
  start({"--chunkservers", "4", "--policy", "rs-2-1-64k"});
  const auto file_system = std::filesystem::space(cluster_directory());
  const std::string total = "\"total_bytes\": " + std::to_string(file_system.capacity);
  EXPECT_TRUE(eventually([&] { return kintsugi({"df", "--json"}).out.find(total) != std::string::npos; },
                         seconds(10)))
      << kintsugi({"df", "--json"}).out;
  EXPECT_NE(kintsugi({"df"}).out.find("of files with rs-2-1-64k"), std::string::npos) << kintsugi({"df"}).out;
}

}  // namespace
}  // namespace kintsugi::processes
