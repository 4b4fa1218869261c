// The metadata store's log is damaged while the metaserver does not run: it says so and does not start, instead of starting
// with fewer files.
#include <filesystem>
#include <fstream>

#include "tests/processes/process_cluster.h"

namespace kintsugi::processes {
namespace {

class DamagedLog : public ProcessCluster {
 protected:
  /// The arguments that a daemon was started with.
  std::vector<std::string> command_line_of(const std::string& daemon) const {
    std::istringstream words(read_file("/proc/" + std::to_string(pid_of(daemon)) + "/cmdline"));
    std::vector<std::string> arguments;
    for (std::string word; std::getline(words, word, '\0');)
      arguments.push_back(word);
    return arguments;
  }
  std::string metadata_log() const {
    for (const auto& entry : std::filesystem::directory_iterator(cluster_directory() + "/data/meta"))
      if (entry.path().extension() == ".log" && entry.file_size() > 0) return entry.path();
    return "";
  }
  static void flip_bit(const std::string& file, uint64_t at) {
    std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
    const auto offset = std::streamoff(at);
    const auto flipped = static_cast<char>(stream.seekg(offset).get() ^ 0x40);
    stream.seekp(offset).put(flipped);
  }
};

TEST_F(DamagedLog, TheMetaserverRefusesToStartUntilTheLogIsMended) {
  start({"--chunkservers", "3", "--policy", "rs-2-1-64k"});
  std::vector<std::string> files;
  for (unsigned i = 0; i < 6; ++i) {
    files.push_back(make_file("file" + std::to_string(i), 200'000, i));
    ASSERT_EQ(kintsugi({"put", files.back(), "/file" + std::to_string(i)}).exit_code, 0);
  }
  const std::vector<std::string> metaserver = command_line_of("metaserver");
  kill9("metaserver");
  const std::string log = metadata_log();
  ASSERT_FALSE(log.empty());
  const uint64_t middle = std::filesystem::file_size(log) / 2;
  flip_bit(log, middle);

  const std::string told_file = cluster_directory() + "/log/metaserver.log";
  const size_t told_before = read_file(told_file).size();
  BackgroundCommand refused(metaserver, {});
  ASSERT_TRUE(eventually([&] { return !refused.running(); }, std::chrono::seconds(20))) << "it started";
  EXPECT_NE(refused.exit_code(), 0);
  std::istringstream told(read_file(told_file).substr(told_before));
  size_t errors = 0;
  for (std::string line; std::getline(told, line);) {
    if (line.find("damaged") == std::string::npos) continue;
    ++errors;
    EXPECT_NE(line.find(log + " is damaged from byte "), std::string::npos) << line;
    EXPECT_NE(line.find("intact records"), std::string::npos) << line;
    EXPECT_NE(line.find("restore the directory from a copy"), std::string::npos) << line;
  }
  EXPECT_EQ(errors, 1u);

  flip_bit(log, middle);
  restart_missing();
  for (unsigned i = 0; i < 6; ++i) {
    const std::string back = path("back" + std::to_string(i));
    ASSERT_EQ(kintsugi({"get", "/file" + std::to_string(i), back}).exit_code, 0);
    EXPECT_EQ(read_file(back), read_file(files[i]));
  }
  EXPECT_TRUE(healthy());
}

}  // namespace
}  // namespace kintsugi::processes
