// What fsck says of a cluster whose disks rot and whose processes end, and what fsck --deep does about it.
#include <filesystem>
#include <fstream>
#include <thread>

#include <signal.h>

#include "tests/processes/process_cluster.h"

namespace kintsugi::processes {
namespace {

using std::chrono::seconds;

class Fsck : public ProcessCluster {
 protected:
  /// A file of a chunk with this index, of whatever stripe; empty: there is none.
  std::string file_of_a_chunk(int index) const {
    std::error_code ignored;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(cluster_directory(), ignored))
      if (entry.is_regular_file(ignored) && entry.path().string().find("/chunks/") != std::string::npos &&
          entry.path().filename().string().find(fmt::format("-{}-", index)) == 16)
        return entry.path();
    return "";
  }
  static void flip_a_byte(const std::string& file) {
    const auto middle = std::streamoff(std::filesystem::file_size(file) / 2);
    std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
    stream.seekg(middle);
    const int byte = stream.get();
    stream.seekp(middle);
    stream.put(static_cast<char>(byte ^ 1));
  }
  static bool says(const Outcome& outcome, const std::string& what) {
    return outcome.out.find(what) != std::string::npos || outcome.err.find(what) != std::string::npos;
  }
};

TEST_F(Fsck, DeepFindsARottenParityChunkThatNobodyReadsAndHasItRepaired) {
  start({"--chunkservers", "9"});
  const std::string file = make_file("file", size_t{40} << 20, 1);
  ASSERT_EQ(kintsugi({"put", file, "/file"}).exit_code, 0);
  ASSERT_EQ(kintsugi({"get", "/file", path("before")}).exit_code, 0);
  const std::string parity = file_of_a_chunk(7);
  ASSERT_FALSE(parity.empty());
  const std::string sound = read_file(parity);
  flip_a_byte(parity);

  const Outcome knows = kintsugi({"fsck"});
  EXPECT_EQ(knows.exit_code, 0) << knows.err;
  EXPECT_TRUE(says(knows, "all whole, as far as the metaserver knows (fsck --deep reads every chunk)"))
      << knows.out;
  ASSERT_EQ(read_file(parity) == sound, false);

  const Outcome deep = kintsugi({"fsck", "--deep"});
  EXPECT_EQ(deep.exit_code, 0) << deep.out << deep.err;
  EXPECT_TRUE(says(deep, "/file: chunk ")) << deep.out;
  EXPECT_TRUE(says(deep, "was corrupt")) << deep.out;
  EXPECT_TRUE(says(deep, "1 chunk was damaged, and has been repaired")) << deep.out;
  EXPECT_TRUE(says(deep, ": all whole\n")) << deep.out;
  EXPECT_EQ(deep.err, "");
  EXPECT_EQ(read_file(file_of_a_chunk(7)), sound) << "it was not repaired before the command returned";

  const Outcome again = kintsugi({"fsck", "--deep", "--json"});
  EXPECT_EQ(again.exit_code, 0) << again.out << again.err;
  EXPECT_TRUE(says(again, "\"damaged_chunks\": 0")) << again.out;
  EXPECT_TRUE(says(again, "\"chunks_read\": 9")) << again.out;
  EXPECT_TRUE(healthy());
}

TEST_F(Fsck, DeepFindsDamageOfEveryKindOnSeveralServers) {
  start({"--chunkservers", "10"});
  const std::string file = make_file("file", size_t{90} << 20, 2);
  ASSERT_EQ(kintsugi({"put", file, "/file"}).exit_code, 0);
  ASSERT_EQ(kintsugi({"put", make_file("small", 5000, 3), "/small"}).exit_code, 0);
  flip_a_byte(file_of_a_chunk(2));
  std::filesystem::remove(file_of_a_chunk(8));
  const std::string cut = file_of_a_chunk(6);
  std::filesystem::resize_file(cut, std::filesystem::file_size(cut) - 5000);
  const Outcome deep = kintsugi({"fsck", "/", "--deep", "--rate", "200MiB"});
  EXPECT_EQ(deep.exit_code, 0) << deep.out << deep.err;
  EXPECT_TRUE(says(deep, "3 chunks were damaged, and have been repaired")) << deep.out;
  EXPECT_TRUE(says(kintsugi({"fsck", "--deep"}), "none of them was damaged"));
  for (const char* next : {"chunkserver-1", "chunkserver-4", "chunkserver-7"})
    kill9(next);
  ASSERT_EQ(kintsugi({"get", "/file", path("back")}).exit_code, 0);
  EXPECT_EQ(run_command({"/usr/bin/cmp", file, path("back")}).exit_code, 0);
}

TEST_F(Fsck, SaysWithinTwoSecondsWhatHangsOnAKilledServer) {
  start({"--chunkservers", "10"});
  ASSERT_EQ(kintsugi({"put", make_file("file", size_t{40} << 20, 4), "/file"}).exit_code, 0);
  ASSERT_TRUE(healthy());
  std::string victim;
  for (int i = 1; i <= 10 && victim.empty(); ++i) {
    const std::string name = "chunkserver-" + std::to_string(i);
    if (file_of_a_chunk(0).find("/" + name + "/") != std::string::npos) victim = name;
  }
  ASSERT_FALSE(victim.empty());
  kill9(victim);
  Outcome fsck;
  ASSERT_TRUE(eventually([&] { return (fsck = kintsugi({"fsck"})).exit_code == 1; }, seconds(2))) << fsck.out;
  EXPECT_TRUE(says(fsck, "1 chunk hangs on server ")) << fsck.out;
  EXPECT_TRUE(says(fsck, ", which has not answered for ")) << fsck.out;
  EXPECT_TRUE(says(fsck, "1 chunk on servers that do not answer")) << fsck.err;
  EXPECT_TRUE(says(kintsugi({"server", "list"}), " suspect "));
  const Outcome json = kintsugi({"fsck", "--json"});
  EXPECT_TRUE(says(json, "\"hanging_chunks\": 1")) << json.out;
  EXPECT_TRUE(says(json, "\"liveness\": \"suspect\"")) << json.out;
  const Outcome deep = kintsugi({"fsck", "--deep"});
  EXPECT_EQ(deep.exit_code, 1);
  EXPECT_TRUE(says(deep, "1 chunk on server ")) << deep.out;
  EXPECT_TRUE(says(deep, "could not be read")) << deep.out;
  // It returns before it counts as dead, and all is well with its first heartbeat.
  restart_missing();
  EXPECT_TRUE(eventually([&] { return healthy(); }, seconds(5))) << kintsugi({"fsck"}).out;
  EXPECT_EQ(kintsugi({"repair", "history"}).out, "no repairs since the repair managers started\n")
      << "nothing was to be repaired";
}

TEST_F(Fsck, AnInterruptedDeepCheckEndsAtOnce) {
#if __has_feature(thread_sanitizer)
  GTEST_SKIP() << "the thread sanitizer hands no signal to a command that waits";
#endif
  start({"--chunkservers", "9"});
  ASSERT_EQ(kintsugi({"put", make_file("file", size_t{40} << 20, 5), "/file"}).exit_code, 0);
  BackgroundCommand deep(command({"fsck", "--deep", "--rate", "64KiB"}), environment());
  std::this_thread::sleep_for(seconds(1));
  ASSERT_TRUE(deep.running()) << "it must be cut off in the middle for this test to say anything";
  ASSERT_TRUE(deep.send(SIGTERM));
  ASSERT_TRUE(eventually([&] { return !deep.running(); }, seconds(3)));
  EXPECT_EQ(deep.exit_code(), 128 + SIGTERM);
  EXPECT_TRUE(healthy());
}

}  // namespace
}  // namespace kintsugi::processes
