// What a user does on a good day, and the mistakes a user makes.
#include <filesystem>
#include <fstream>
#include <iomanip>

#include <sys/stat.h>

#include "tests/processes/process_cluster.h"

namespace kintsugi::processes {
namespace {

class Everyday : public ProcessCluster {};

TEST_F(Everyday, StoresATreeAndReadsItBack) {
  start({"--chunkservers", "9"});
  for (const size_t bytes :
       {size_t{0}, size_t{1}, size_t{4095}, size_t{65536}, size_t{1} << 20, (size_t{6} << 20) + 77})
    make_file("tree/sub/file-" + std::to_string(bytes), bytes, unsigned(bytes));
  const std::string large = make_file("tree/large", (size_t{40} << 20) + 12345, 7);
  chmod(large.c_str(), 0640);

  ASSERT_EQ(kintsugi({"put", path("tree"), "/tree"}).exit_code, 0);
  ASSERT_EQ(kintsugi({"get", "/tree", path("back")}).exit_code, 0);
  const Outcome difference = run_command({"/usr/bin/diff", "-r", path("tree"), path("back")});
  EXPECT_EQ(difference.exit_code, 0) << difference.out;
  struct stat attributes{};
  ASSERT_EQ(stat(path("back/large").c_str(), &attributes), 0);
  EXPECT_EQ(attributes.st_mode & 0777, 0640u);

  EXPECT_EQ(kintsugi({"cat", "/tree/sub/file-65536"}).out, read_file(path("tree/sub/file-65536")));
  EXPECT_EQ(kintsugi({"mv", "/tree/large", "/moved"}).exit_code, 0);
  EXPECT_EQ(kintsugi({"stat", "/tree/large"}).exit_code, 1);
  EXPECT_NE(kintsugi({"ls", "/"}).out.find("moved"), std::string::npos);
  EXPECT_EQ(kintsugi({"rm", "-r", "/tree"}).exit_code, 0);
  EXPECT_EQ(kintsugi({"ls", "/tree"}).exit_code, 1);
  EXPECT_TRUE(healthy());
}

TEST_F(Everyday, MistakesGetOneClearLineAndChangeNothing) {
  start({"--chunkservers", "4", "--policy", "rs-2-1-64k"});
  const std::string file = make_file("file", 1000, 1);
  ASSERT_EQ(kintsugi({"put", file, "/file"}).exit_code, 0);

  const auto fails = [&](const std::vector<std::string>& arguments, int code, const std::string& says) {
    const Outcome outcome = kintsugi(arguments);
    EXPECT_EQ(outcome.exit_code, code) << outcome.out << outcome.err;
    EXPECT_NE(outcome.err.find(says), std::string::npos) << outcome.err;
    if (code == 1) {
      EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
    }
  };
  fails({"get", "/nowhere", path("x")}, 1, "/nowhere");
  fails({"put", path("nofile"), "/x"}, 1, "nofile");
  fails({"put", make_file("other", 2000, 2), "/file"}, 1, "exists");
  fails({"mkdir", "/a/b/c"}, 1, "/a");
  fails({"rm", "/"}, 1, "/");
  fails({"put", "--policy", "rs-6-3-64k", make_file("wide", 200000, 3), "/wide"}, 1, "9 servers");
  fails({"policy", "set", "/", "rs-99-1-1024k"}, 1, "rs-99-1-1024k");
  fails({"no-such-command"}, 2, "");
  fails({"repair", "run", "--chunk", "nonsense", "--shape", "ppr"}, 2, "");
  fails({"stripe", "show", "123456789"}, 1, "123456789");
  EXPECT_EQ(kintsugi({"cat", "/file"}).out, read_file(file)) << "the refused put must not have touched it";
}

TEST_F(Everyday, TheWrongSecretIsRefusedWithAClearLine) {
  start({"--chunkservers", "3", "--policy", "rs-2-1-64k"});
  const std::string secret = path("wrong-secret");
  std::ofstream(secret) << std::setfill('a') << std::setw(64) << ""
                        << "\n";
  chmod(secret.c_str(), 0600);
  const Outcome outcome =
      run_command(command({"ls", "/"}), {environment()[0], "KINTSUGI_SECRET_FILE=" + secret});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_NE(outcome.err.find("secret"), std::string::npos) << outcome.err;
  EXPECT_EQ(kintsugi({"ls", "/"}).exit_code, 0) << "others are not affected";
}

TEST_F(Everyday, GarbageOnAPortHarmsNobody) {
  start({"--chunkservers", "3", "--policy", "rs-2-1-64k"});
  const std::string meta = environment()[0].substr(environment()[0].find('=') + 1);
  const std::string host = meta.substr(0, meta.find(':')), port = meta.substr(meta.find(':') + 1);
  const std::string garbage =
      "for i in 1 2 3 4 5; do head -c 100000 /dev/urandom > /dev/tcp/" + host + "/" + port + "; done";
  run_command({"/bin/bash", "-c", garbage});
  EXPECT_EQ(kintsugi({"put", make_file("file", 100000, 3), "/file"}).exit_code, 0);
  EXPECT_EQ(kintsugi({"cat", "/file"}).out, read_file(path("file")));
}

TEST_F(Everyday, ATruncatedConfigStopsADaemonWithOneLine) {
  std::ofstream(path("bad.toml")) << "listen = \"127.0.0.1:0\"\ndisks = [\"";
  for (const char* daemon : {"kintsugi-chunkserver", "kintsugi-metaserver"}) {
    const std::string binary = fmt::format("{}/{}", KINTSUGI_BINARIES, daemon);
    const Outcome outcome = run_command({binary, "--config", path("bad.toml")});
    EXPECT_NE(outcome.exit_code, 0);
    EXPECT_NE(outcome.err.find("bad.toml"), std::string::npos) << outcome.err;
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
  }
}

TEST_F(Everyday, AStoppedClusterStartsAgainWithEverything) {
  start({"--chunkservers", "3", "--policy", "rs-2-1-64k"});
  const std::string file = make_file("file", 3000000, 4);
  ASSERT_EQ(kintsugi({"put", file, "/file"}).exit_code, 0);
  ASSERT_EQ(kintsugi({"cluster", "stop", "--dir", cluster_directory()}).exit_code, 0);
  EXPECT_EQ(kintsugi({"ls", "/"}).exit_code, 1);
  restart_missing();
  EXPECT_TRUE(eventually([&] { return healthy(); }, std::chrono::seconds(30)));
  EXPECT_EQ(kintsugi({"cat", "/file"}).out, read_file(file));
}

}  // namespace
}  // namespace kintsugi::processes
