// kill -9 of any one process at any time: the cluster goes on or recovers by itself, and nothing acknowledged
// is lost.
#include <filesystem>
#include <fstream>
#include <thread>

#include <signal.h>

#include "tests/processes/process_cluster.h"

namespace kintsugi::processes {
namespace {

using std::chrono::seconds;

class Kill : public ProcessCluster {
 protected:
  size_t dead_servers() const {
    const std::string list = kintsugi({"server", "list", "--json"}).out;
    size_t count = 0;
    for (size_t at = list.find("\"dead\""); at != std::string::npos; at = list.find("\"dead\"", at + 1))
      ++count;
    return count;
  }
  bool some_server_is_dead() const { return dead_servers() > 0; }

  /// Where the chunk with this index of the only stripe lies; empty: nowhere.
  std::string file_of_a_chunk(int index) const {
    std::error_code ignored;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(cluster_directory(), ignored))
      if (entry.is_regular_file(ignored) &&
          entry.path().filename().string().find(fmt::format("-{}-", index)) == 16)
        return entry.path();
    return "";
  }
};

TEST_F(Kill, AServerDiesAndItsChunksAreReadAndRepaired) {
  start({"--chunkservers", "10", "--repair-delay", "0"});
  const std::string file = make_file("file", size_t{60} << 20, 1);
  ASSERT_EQ(kintsugi({"put", file, "/file"}).exit_code, 0);
  kill9("chunkserver-2");
  ASSERT_EQ(kintsugi({"get", "/file", path("degraded")}).exit_code, 0);
  EXPECT_EQ(read_file(path("degraded")), read_file(file));
  // Dead after ten seconds, then repaired by itself.
  ASSERT_TRUE(eventually([&] { return some_server_is_dead(); }, seconds(30)));
  ASSERT_TRUE(eventually([&] { return healthy(); }, seconds(60))) << kintsugi({"fsck", "/"}).out;
  // Three more die: only what was repaired can replace what the first one held.
  for (const char* next : {"chunkserver-1", "chunkserver-4", "chunkserver-7"})
    kill9(next);
  ASSERT_EQ(kintsugi({"get", "/file", path("again")}).exit_code, 0);
  EXPECT_EQ(read_file(path("again")), read_file(file));
}

TEST_F(Kill, ManySmallFilesAreKeptWhenServersAndMetaserverDieRightAfterThePut) {
  start({"--chunkservers", "10"});
  for (unsigned i = 0; i < 400; ++i)
    make_file("tree/d" + std::to_string(i % 7) + "/file-" + std::to_string(i), i * 173 % 70'000, i);
  ASSERT_EQ(kintsugi({"put", path("tree"), "/tree"}).exit_code, 0);
  for (const char* daemon : {"metaserver", "chunkserver-1", "chunkserver-4", "chunkserver-7"})
    kill9(daemon);
  restart_missing();
  for (const char* daemon : {"chunkserver-2", "chunkserver-5", "chunkserver-8"})
    kill9(daemon);
  const Outcome got = kintsugi({"get", "/tree", path("back")});
  EXPECT_EQ(got.exit_code, 0) << got.err;
  const Outcome difference = run_command({"/usr/bin/diff", "-r", path("tree"), path("back")});
  EXPECT_EQ(difference.exit_code, 0) << difference.out;
}

TEST_F(Kill, AServerDiesDuringAPut) {
  start({"--chunkservers", "10", "--repair-delay", "0"});
  const std::string file = make_file("file", size_t{600} << 20, 2);
  BackgroundCommand put(command({"put", file, "/file"}), environment());
  ASSERT_TRUE(
      eventually([&] { return bytes_on_disks() > (size_t{50} << 20) || !put.running(); }, seconds(30)));
  kill9("chunkserver-5");
  EXPECT_EQ(put.exit_code(), 0);
  ASSERT_EQ(kintsugi({"get", "/file", path("back")}).exit_code, 0);
  EXPECT_EQ(run_command({"/usr/bin/cmp", file, path("back")}).exit_code, 0);
  EXPECT_TRUE(eventually([&] { return healthy(); }, seconds(60))) << kintsugi({"fsck", "/"}).out;
}

TEST_F(Kill, TheMetaserverDiesDuringAPut) {
  start({"--chunkservers", "9"});
  const std::string old_file = make_file("old", 5000000, 3);
  ASSERT_EQ(kintsugi({"put", old_file, "/file"}).exit_code, 0);
  const std::string file = make_file("file", size_t{600} << 20, 4);
  BackgroundCommand put(command({"put", "--replace", file, "/file"}), environment());
  ASSERT_TRUE(
      eventually([&] { return bytes_on_disks() > (size_t{60} << 20) || !put.running(); }, seconds(30)));
  kill9("metaserver");
  restart_missing();
  const int code = put.exit_code();
  ASSERT_TRUE(
      eventually([&] { return kintsugi({"get", "/file", path("back")}).exit_code == 0; }, seconds(30)));
  const std::string& expected = code == 0 ? file : old_file;
  EXPECT_EQ(run_command({"/usr/bin/cmp", expected, path("back")}).exit_code, 0) << "put exited with " << code;
  EXPECT_EQ(code, 0) << "a put survives a metaserver that comes back";
}

TEST_F(Kill, AnyServerDiesDuringAGet) {
  start({"--chunkservers", "10"});
  const std::string file = make_file("file", size_t{600} << 20, 9);
  ASSERT_EQ(kintsugi({"put", file, "/file"}).exit_code, 0);
  for (const char* victim : {"chunkserver-6", "metaserver"}) {
    const std::string target = path(std::string("back-") + victim);
    BackgroundCommand get(command({"get", "/file", target}), environment());
    ASSERT_TRUE(
        eventually([&] { return bytes_open_in(get.pid(), path("")) > (size_t{40} << 20) || !get.running(); },
                   seconds(30)));
    kill9(victim);
    restart_missing();
    EXPECT_EQ(get.exit_code(), 0) << victim;
    EXPECT_EQ(run_command({"/usr/bin/cmp", file, target}).exit_code, 0) << victim;
  }
}

TEST_F(Kill, AServerThatEndsWhileTheClusterIsStartedIsStartedToo) {
  start({"--chunkservers", "3", "--policy", "rs-2-1-64k"});
  const pid_t before = pid_of("chunkserver-2");
  ASSERT_NO_FATAL_FAILURE(
      send("chunkserver-2", SIGSTOP));  // no heartbeats: the start finds it running and waits for them
  BackgroundCommand starting(command({"cluster", "start", "--dir", cluster_directory()}), environment());
  std::this_thread::sleep_for(seconds(1));
  EXPECT_TRUE(starting.running());
  kill9("chunkserver-2");
  EXPECT_EQ(starting.exit_code(), 0);
  EXPECT_NE(pid_of("chunkserver-2"), before);
}

TEST_F(Kill, AHelperDiesDuringRepairs) {
  start({"--chunkservers", "12", "--repair-delay", "0"});
  const std::string file = make_file("file", size_t{600} << 20, 10);
  ASSERT_EQ(kintsugi({"put", file, "/file"}).exit_code, 0);
  kill9("chunkserver-1");
  ASSERT_TRUE(eventually([&] { return some_server_is_dead(); }, seconds(60)));
  kill9("chunkserver-2");
  ASSERT_TRUE(eventually([&] { return dead_servers() == 2; }, seconds(60)));
  ASSERT_TRUE(eventually([&] { return healthy(); }, seconds(60))) << kintsugi({"fsck", "/"}).out;
  for (const char* next : {"chunkserver-3", "chunkserver-4", "chunkserver-5"})
    kill9(next);
  ASSERT_EQ(kintsugi({"get", "/file", path("back")}).exit_code, 0);
  EXPECT_EQ(run_command({"/usr/bin/cmp", file, path("back")}).exit_code, 0);
}

TEST_F(Kill, AnInterruptedPutLeavesTheOldFile) {
  start({"--chunkservers", "9"});
  const std::string old_file = make_file("old", 5000000, 5);
  ASSERT_EQ(kintsugi({"put", old_file, "/file"}).exit_code, 0);
  const uint64_t before = bytes_on_disks();
  const std::string file = make_file("file", size_t{600} << 20, 6);
  {
    BackgroundCommand put(command({"put", "--replace", file, "/file"}), environment());
    ASSERT_TRUE(eventually([&] { return bytes_on_disks() > before + (size_t{40} << 20) || !put.running(); },
                           seconds(30)));
    ASSERT_TRUE(put.running()) << "the put must be cut off in the middle for this test to say anything";
    ASSERT_TRUE(put.send(SIGKILL));
    put.exit_code();
  }
  ASSERT_EQ(kintsugi({"get", "/file", path("back")}).exit_code, 0);
  EXPECT_EQ(run_command({"/usr/bin/cmp", old_file, path("back")}).exit_code, 0);
  EXPECT_TRUE(healthy());
}

TEST_F(Kill, TheMetaserverDiesDuringRepairs) {
  start({"--chunkservers", "10", "--repair-delay", "0"});
  const std::string file = make_file("file", size_t{400} << 20, 7);
  ASSERT_EQ(kintsugi({"put", file, "/file"}).exit_code, 0);
  kill9("chunkserver-1");
  ASSERT_TRUE(eventually(
      [&] {
        return kintsugi({"repair", "status", "--json"}).out.find("\"running\"") != std::string::npos &&
               kintsugi({"server", "list", "--json"}).out.find("\"dead\"") != std::string::npos;
      },
      seconds(60)));
  kill9("metaserver");
  restart_missing();  // brings chunkserver 1 back as well, with stale chunks of whatever was repaired already
  ASSERT_TRUE(eventually([&] { return healthy(); }, seconds(60))) << kintsugi({"fsck", "/"}).out;
  ASSERT_EQ(kintsugi({"get", "/file", path("back")}).exit_code, 0);
  EXPECT_EQ(run_command({"/usr/bin/cmp", file, path("back")}).exit_code, 0);
}

TEST_F(Kill, ACorruptChunkFileIsNeverServedAndGetsRepaired) {
  start({"--chunkservers", "10", "--repair-delay", "0"});
  const std::string file = make_file("file", size_t{60} << 20, 8);
  ASSERT_EQ(kintsugi({"put", file, "/file"}).exit_code, 0);
  const std::string chunk = file_of_a_chunk(0);
  ASSERT_FALSE(chunk.empty());
  const std::string sound = read_file(chunk);
  std::fstream(chunk, std::ios::in | std::ios::out | std::ios::binary)
      .seekp(std::streamoff(sound.size() / 2))
      .write("rot", 3);
  ASSERT_EQ(kintsugi({"get", "/file", path("back")}).exit_code, 0);
  EXPECT_EQ(run_command({"/usr/bin/cmp", file, path("back")}).exit_code, 0);
  // A read that avoids the chunk's server, because another one was faster, does not see that it is corrupt. When two fetches
  // come at once, one finds it corrupt, and the other may be the first to report: for it the chunk is not there any more. The
  // server that found it says so itself, too, and may be heard before the reader.
  ASSERT_TRUE(eventually(
      [&] {
        std::filesystem::remove(path("again"));
        (void)kintsugi({"get", "/file", path("again")});
        return kintsugi({"repair", "history"}).out != "no repairs since the repair managers started\n";
      },
      seconds(60)));
  ASSERT_TRUE(eventually([&] { return healthy(); }, seconds(60))) << kintsugi({"fsck", "/"}).out;
  EXPECT_TRUE(eventually([&] { return read_file(file_of_a_chunk(0)) == sound; }, seconds(20)))
      << "the chunk should be what it was, wherever it is now";
}

}  // namespace
}  // namespace kintsugi::processes
