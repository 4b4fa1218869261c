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

TEST_F(Everyday, HolesStayHolesOnTheWayThereAndBack) {
  start({"--chunkservers", "5", "--policy", "rs-3-2-64k"});
  constexpr uint64_t kSize = 300 << 20, kData = 1 << 20;
  const std::string sparse = make_file("sparse", kData, 3), back = path("back");
  {
    std::fstream file(sparse, std::ios::in | std::ios::out | std::ios::binary);
    for (const uint64_t at : {uint64_t{5} << 20, uint64_t{200} << 20})
      file.seekp(static_cast<std::streamoff>(at)).write(read_file(sparse).data(), kData);
  }
  std::filesystem::resize_file(sparse, kSize);
  const std::string hole = path("hole");
  std::ofstream(hole).close();
  std::filesystem::resize_file(hole, kSize);
  struct stat attributes{};
  ASSERT_EQ(stat(sparse.c_str(), &attributes), 0);
  if (attributes.st_blocks * 512 > 16 << 20) GTEST_SKIP() << "the file system here has no holes";

  const uint64_t before = bytes_on_disks();
  const Outcome put = kintsugi({"put", sparse, "/sparse"});
  ASSERT_EQ(put.exit_code, 0) << put.err;
  ASSERT_EQ(kintsugi({"put", hole, "/hole"}).exit_code, 0);
  EXPECT_LT(bytes_on_disks() - before, 30u << 20);
  for (const auto& [local, remote] : {std::pair{sparse, "/sparse"}, std::pair{hole, "/hole"}}) {
    const Outcome get = kintsugi({"get", remote, back});
    ASSERT_EQ(get.exit_code, 0) << get.err;
    EXPECT_EQ(run_command({"/usr/bin/cmp", local, back}).exit_code, 0) << remote;
    ASSERT_EQ(stat(back.c_str(), &attributes), 0);
    EXPECT_LT(attributes.st_blocks * 512, 16 << 20) << remote;
    std::filesystem::remove(back);
  }
  // Where no holes can be, they are zeros.
  const Outcome piped = run_command(
      {"/bin/sh", "-c", command({"cat"}).front() + " cat /sparse | /usr/bin/cmp - " + sparse}, environment());
  EXPECT_EQ(piped.exit_code, 0) << piped.out << piped.err;
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

TEST_F(Everyday, NamesOfAnyKindComeBackAndEachStaysOnItsLine) {
  start({"--chunkservers", "3", "--policy", "rs-2-1-64k"});
  const std::string longest(255, 'n');
  for (const std::string& name :
       std::vector<std::string>{"two\nlines", "\x1b[31mred", "tab\tand\rreturn", "back\\nslash", "it's",
                                "größe", "caf\xe9", longest})
    make_file("names/" + name, 100, 1);
  ASSERT_EQ(kintsugi({"put", path("names"), "/names"}).exit_code, 0);
  const Outcome got = kintsugi({"get", "/names", path("back")});
  EXPECT_EQ(got.exit_code, 0) << got.err;
  EXPECT_EQ(run_command({"/usr/bin/diff", "-r", path("names"), path("back")}).exit_code, 0);
  EXPECT_EQ(kintsugi({"get", "--replace", "/names/" + longest, path("back")}).exit_code, 0);

  EXPECT_EQ(kintsugi({"ls", "/names"}).out,
            "$'\\x1b[31mred'\n$'back\\\\nslash'\n$'caf\\xe9'\ngröße\n$'it\\'s'\n" + longest +
                "\n$'tab\\tand\\x0dreturn'\n$'two\\nlines'\n");
  EXPECT_EQ(kintsugi({"ls", "-lR", "/names"}).out.find('\x1b'), std::string::npos);
  EXPECT_EQ(kintsugi({"stat", "/names/\x1b[31mred"}).out.find('\x1b'), std::string::npos);
  const Outcome gone = kintsugi({"stat", "/names/no\n\x1b[31msuch"});
  EXPECT_EQ(gone.exit_code, 1);
  EXPECT_EQ(std::count(gone.err.begin(), gone.err.end(), '\n'), 1) << gone.err;
  EXPECT_NE(gone.err.find("/names/no\\n\\x1b[31msuch"), std::string::npos) << gone.err;
  // What is shown may be pasted.
  const std::string pasted = command({}).front() + " rm $'/names/two\\nlines'";
  EXPECT_EQ(run_command({"/bin/bash", "-c", pasted}, environment()).exit_code, 0);
  EXPECT_EQ(kintsugi({"ls", "/names"}).out.find("two"), std::string::npos);
}

TEST_F(Everyday, OnlyRmdirAndRmRRemoveDirectories) {
  start({"--chunkservers", "3", "--policy", "rs-2-1-64k"});
  ASSERT_EQ(kintsugi({"mkdir", "/empty", "/full", "/full/inner"}).exit_code, 0);
  ASSERT_EQ(kintsugi({"put", make_file("file", 1000, 1), "/file"}).exit_code, 0);
  const Outcome refused = kintsugi({"rm", "/empty"});
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_EQ(refused.err, "kintsugi: rm: /empty is a directory (use -r, or rmdir)\n");
  const Outcome full = kintsugi({"rmdir", "/full"});
  EXPECT_EQ(full.exit_code, 1);
  EXPECT_EQ(full.err, "kintsugi: rmdir: /full is not empty\n");
  const Outcome file = kintsugi({"rmdir", "/file"});
  EXPECT_EQ(file.exit_code, 1);
  EXPECT_EQ(file.err, "kintsugi: rmdir: /file is not a directory\n");
  EXPECT_EQ(kintsugi({"rmdir", "/nowhere"}).exit_code, 1);
  EXPECT_EQ(kintsugi({"ls", "/"}).out, "empty/\nfile\nfull/\n") << "nothing was removed so far";

  EXPECT_EQ(kintsugi({"rmdir", "/empty", "/full/inner"}).exit_code, 0);
  EXPECT_EQ(kintsugi({"rm", "/file"}).exit_code, 0);
  EXPECT_EQ(kintsugi({"rm", "-r", "/full"}).exit_code, 0);
  EXPECT_EQ(kintsugi({"ls", "/"}).out, "");
}

TEST_F(Everyday, TwoSourcesOfOneNameAreNotStored) {
  start({"--chunkservers", "3", "--policy", "rs-2-1-64k"});
  ASSERT_EQ(kintsugi({"mkdir", "/into"}).exit_code, 0);
  const std::string one = make_file("a/same", 1000, 1), other = make_file("b/same", 1000, 2);
  const Outcome twice = kintsugi({"put", "--replace", one, make_file("c", 1000, 3), other, "/into/"});
  EXPECT_EQ(twice.exit_code, 1);
  EXPECT_EQ(twice.err, "kintsugi: put: two sources would become /into/same\n");
  EXPECT_EQ(kintsugi({"ls", "/into"}).out, "") << "nothing is stored";
}

TEST_F(Everyday, SeveralSourcesAreFetchedIntoADirectory) {
  start({"--chunkservers", "3", "--policy", "rs-2-1-64k"});
  const std::string tree = make_file("tree/inner", 2000, 2);
  ASSERT_EQ(kintsugi({"put", make_file("one", 1000, 1), path("tree"), "/"}).exit_code, 0);
  const std::string into = path("into");
  const Outcome nowhere = kintsugi({"get", "/one", "/tree", into});
  EXPECT_EQ(nowhere.exit_code, 1);
  EXPECT_NE(nowhere.err.find("into is not a directory, but there are several sources"), std::string::npos)
      << nowhere.err;
  EXPECT_FALSE(std::filesystem::exists(into));
  std::filesystem::create_directory(into);
  const Outcome twice = kintsugi({"get", "--replace", "/one", "/tree/inner", "/one", into});
  EXPECT_EQ(twice.exit_code, 1);
  EXPECT_NE(twice.err.find("two sources would become " + into + "/one"), std::string::npos) << twice.err;
  EXPECT_TRUE(std::filesystem::is_empty(into)) << "nothing is fetched";
  const Outcome got = kintsugi({"get", "/one", "/none", "/tree", into});
  EXPECT_EQ(got.exit_code, 1);
  EXPECT_NE(got.err.find("/none"), std::string::npos) << got.err;
  EXPECT_EQ(std::count(got.err.begin(), got.err.end(), '\n'), 1) << got.err;
  EXPECT_EQ(read_file(into + "/one"), read_file(path("one"))) << "what is there comes all the same";
  EXPECT_EQ(read_file(into + "/tree/inner"), read_file(tree));
}

TEST_F(Everyday, LinksInATreeAreNamedAndOneThatIsNamedIsFollowed) {
  start({"--chunkservers", "3", "--policy", "rs-2-1-64k"});
  const std::string file = make_file("tree/file", 1000, 1);
  std::filesystem::create_symlink(file, path("tree/link"));
  const Outcome tree = kintsugi({"put", path("tree"), "/tree"});
  EXPECT_EQ(tree.exit_code, 1);
  EXPECT_NE(tree.err.find("tree/link: symbolic link, skipped"), std::string::npos) << tree.err;
  EXPECT_EQ(kintsugi({"ls", "/tree"}).out, "file\n");
  EXPECT_EQ(kintsugi({"put", path("tree/link"), "/link"}).exit_code, 0);
  EXPECT_EQ(kintsugi({"cat", "/link"}).out, read_file(file));
}

TEST_F(Everyday, PipesAndDevicesAreNotStored) {
  start({"--chunkservers", "3", "--policy", "rs-2-1-64k"});
  make_file("tree/file", 1000, 1);
  ASSERT_EQ(mkfifo(path("tree/pipe").c_str(), 0600), 0);
  const Outcome pipe = kintsugi({"put", path("tree/pipe"), "/pipe"});
  EXPECT_EQ(pipe.exit_code, 1);
  EXPECT_NE(pipe.err.find("tree/pipe is a pipe"), std::string::npos) << pipe.err;
  const Outcome device = kintsugi({"put", "/dev/zero", "/zero"});
  EXPECT_EQ(device.exit_code, 1);
  EXPECT_NE(device.err.find("/dev/zero is a device"), std::string::npos) << device.err;
  EXPECT_EQ(kintsugi({"ls", "/"}).out, "");

  const Outcome tree = kintsugi({"put", path("tree"), "/tree"});
  EXPECT_EQ(tree.exit_code, 1);
  EXPECT_NE(tree.err.find("tree/pipe: pipe, skipped"), std::string::npos) << tree.err;
  EXPECT_EQ(kintsugi({"ls", "/tree"}).out, "file\n") << "the others are stored";
  const std::string from_pipe = "printf stored | " + command({}).front() + " put - /piped";
  EXPECT_EQ(run_command({"/bin/sh", "-c", from_pipe}, environment()).exit_code, 0);
  EXPECT_EQ(kintsugi({"cat", "/piped"}).out, "stored");
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

TEST_F(Everyday, AFileWhoseSizeIsZeroByStatIsStoredWhole) {
  start({"--chunkservers", "3", "--policy", "rs-2-1-64k"});
  for (const char* source : {"/proc/version", "/proc/filesystems"}) {
    const Outcome put = kintsugi({"put", "--replace", source, "/file"});
    EXPECT_EQ(put.exit_code, 0) << put.err;
    const std::string stored = kintsugi({"cat", "/file"}).out;
    EXPECT_FALSE(stored.empty());
    EXPECT_EQ(stored, read_file(source));
  }
}

TEST_F(Everyday, AClusterOfThreeServersStoresFilesWithoutAWordOnPolicies) {
  start({"--chunkservers", "3"});
  EXPECT_EQ(kintsugi({"put", make_file("small", 1000, 1), "/small"}).exit_code, 0);
  EXPECT_EQ(kintsugi({"put", make_file("large", 5'000'000, 2), "/large"}).exit_code, 0);
  EXPECT_NE(kintsugi({"stat", "/large"}).out.find("rs-2-1-1024k"), std::string::npos);
  const Outcome list = kintsugi({"policy", "list"});
  EXPECT_NE(list.out.find("needs  3 servers  (default)"), std::string::npos) << list.out;
  EXPECT_NE(list.out.find("needs  9 servers, 3 are there: too few"), std::string::npos) << list.out;
  const Outcome set = kintsugi({"policy", "set", "/", "rs-6-3-1024k"});
  EXPECT_EQ(set.exit_code, 0) << set.err;
  EXPECT_NE(set.out.find("needs 9 servers and 3 are there"), std::string::npos) << set.out;
  const Outcome refused = kintsugi({"put", path("small"), "/other"});
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_NE(refused.err.find("policy rs-6-3-1024k keeps 4 copies of a small file"), std::string::npos)
      << refused.err;
}

TEST_F(Everyday, MissingDataIsSaidByEverybodyWhoIsAsked) {
  start({"--chunkservers", "3", "--policy", "rs-2-1-64k"});
  ASSERT_EQ(kintsugi({"put", make_file("large", 3'000'000, 2), "/large"}).exit_code, 0);
  EXPECT_EQ(kintsugi({"df"}).out.find("missing"), std::string::npos);
  kill9("chunkserver-2");
  ASSERT_TRUE(
      eventually([&] { return kintsugi({"df"}).out.find("cannot lose another chunk") != std::string::npos; },
                 std::chrono::seconds(40)))
      << kintsugi({"df"}).out;
  EXPECT_NE(kintsugi({"server", "list"}).out.find("missing in"), std::string::npos);
  EXPECT_NE(kintsugi({"df", "--json"}).out.find("\"stripes_without_spare\": 1"), std::string::npos);
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
