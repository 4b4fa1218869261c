// Tokens as their users meet them: on the command line and through mounts, until they are revoked.
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <map>
#include <thread>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/processes/mounts.h"

namespace kintsugi::processes {
namespace {

using std::chrono::seconds;

/// `kintsugi ...` with a token, and without the secret.
Outcome run_with(const std::string& token, std::vector<std::string> command,
                 const std::vector<std::string>& environment) {
  std::vector<std::string> line{"/usr/bin/env", "-u", "KINTSUGI_SECRET_FILE", "KINTSUGI_TOKEN_FILE=" + token};
  line.insert(line.end(), command.begin(), command.end());
  return run_command(line, environment);
}

size_t times(const std::string& text, const std::string& part) {
  size_t found = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + part.size()))
    ++found;
  return found;
}

class Tokens : public ProcessCluster {
 protected:
  Outcome as(const std::string& token, const std::vector<std::string>& arguments) const {
    return run_with(path(token), command(arguments), environment());
  }
  void make(const std::string& name, std::vector<std::string> options) const {
    options.insert(options.begin(), {"token", "create", name, "--out", path(name)});
    const Outcome made = kintsugi(options);
    ASSERT_EQ(made.exit_code, 0) << made.err;
  }
  /// Fails, and says so in one line.
  void expect_refused(const Outcome& outcome, const std::string& why) const {
    EXPECT_EQ(outcome.exit_code, 1);
    EXPECT_NE(outcome.err.find(why), std::string::npos) << outcome.err;
    EXPECT_EQ(times(outcome.err, "\n"), 1u) << outcome.err;
  }
  std::string audit_log() const { return read_file(cluster_directory() + "/log/metaserver.audit.log"); }
};

TEST_F(Tokens, OfAReaderReadUntilTheyAreRevokedAndNeverWrite) {
  start({"--chunkservers", "4", "--policy", "rs-2-1-64k"});
  const std::string file = make_file("file", 1'000'000, 1);
  ASSERT_EQ(kintsugi({"put", file, "/file"}).exit_code, 0);
  make("reader", {"--role", "read"});
  // Chunkservers refuse all tokens until they have heard which ones are revoked.
  ASSERT_TRUE(eventually(
      [&] { return as("reader", {"get", "/file", path("back"), "--replace"}).exit_code == 0; }, seconds(20)));
  EXPECT_EQ(read_file(path("back")), read_file(file));
  EXPECT_EQ(as("reader", {"ls", "/"}).exit_code, 0);
  expect_refused(as("reader", {"put", file, "/other"}), "its role is read, and this takes write");
  expect_refused(as("reader", {"rm", "/file"}), "its role is read, and this takes write");
  expect_refused(as("reader", {"mkdir", "/d"}), "its role is read, and this takes write");
  expect_refused(as("reader", {"mv", "/file", "/moved"}), "its role is read, and this takes write");
  expect_refused(as("reader", {"metadata", "accept"}), "its role is read, and this takes admin");
  expect_refused(as("reader", {"token", "list"}), "its role is read, and this takes admin");
  expect_refused(as("reader", {"fault", "list", "metaserver"}), "its role is read, and this takes admin");
  EXPECT_EQ(kintsugi({"token", "revoke", "reader"}).exit_code, 0);
  expect_refused(as("reader", {"ls", "/"}), "the token reader is revoked");
  const std::string listed = kintsugi({"token", "list"}).out;
  EXPECT_NE(listed.find("revoked"), std::string::npos) << listed;
}

TEST_F(Tokens, ThatAreNoGoodAreToldWhy) {
  start({"--chunkservers", "3", "--policy", "rs-2-1-64k"});
  make("short", {"--role", "read", "--expires", "1s"});
  make("scoped", {"--role", "write", "--path", "/p", "--no-squash"});
  make("changed", {"--role", "read"});
  std::this_thread::sleep_for(seconds(2));
  expect_refused(as("short", {"ls", "/"}), "the token short expired at");
  std::string text = read_file(path("changed"));
  const size_t key = text.rfind(':') + 1;
  text[key] = text[key] == '0' ? '1' : '0';
  std::ofstream(path("changed")) << text;
  expect_refused(as("changed", {"ls", "/"}),
                 "the token changed is not of this cluster, or its file was changed");
  std::ofstream(path("garbage")) << "no token";
  std::filesystem::permissions(path("garbage"), std::filesystem::perms::owner_read);
  expect_refused(as("garbage", {"ls", "/"}), "is not a token");
  expect_refused(as("missing", {"ls", "/"}), "open token file");
  ASSERT_EQ(kintsugi({"mkdir", "/p"}).exit_code, 0);
  EXPECT_EQ(as("scoped", {"mkdir", "/p/d"}).exit_code, 0);
  expect_refused(as("scoped", {"ls", "/"}), "/ is outside of /p, and the token scoped is for nothing else");
  expect_refused(kintsugi({"token", "create", "scoped", "--role", "read"}), "there is a token scoped");
  expect_refused(kintsugi({"token", "create", "x", "--role", "read", "--path", "p"}),
                 "the path of a token is absolute");
  expect_refused(kintsugi({"token", "create", "x", "--role", "read", "--squash", "0:0"}), "is not UID:GID");
}

TEST_F(Tokens, OfAFileThatTheCommandLineNamesStandBeforeThoseOfTheEnvironment) {
  start({"--chunkservers", "3", "--policy", "rs-2-1-64k"});
  make("reader", {"--role", "read"});
  const std::string file = path("reader");
  for (const std::vector<std::string>& words : {std::vector<std::string>{"--token-file", file, "mkdir", "/d"},
                                                {"--token-file=" + file, "mkdir", "/d"},
                                                {"mkdir", "--token-file", file, "/d"},
                                                {"mkdir", "/d", "--token-file=" + file}})
    expect_refused(kintsugi(words), "its role is read, and this takes write");
  EXPECT_EQ(kintsugi({"mkdir", "/d"}).exit_code, 0) << "the environment names the secret";
  for (const std::vector<std::string>& words : {std::vector<std::string>{"--token-file"},
                                                {"--token-file="},
                                                {"--token-file=", "ls", "/"},
                                                {"--token-file", "", "ls", "/"},
                                                {"ls", "/", "--token-file", ""}}) {
    const Outcome wrong = kintsugi(words);
    EXPECT_EQ(wrong.exit_code, 2);
    EXPECT_NE(wrong.err.find("--token-file: no file is named"), std::string::npos) << wrong.err;
    EXPECT_EQ(times(wrong.err, "\n"), 1u) << wrong.err;
  }
}

TEST_F(Tokens, NoneIsMadeForAFileThatCannotBeMade) {
  start({"--chunkservers", "4", "--policy", "rs-2-1-64k"});
  make_file("taken", 3, 1);
  for (const auto& [file, why] : std::map<std::string, std::string>{
           {path("taken"), "exists already"}, {path("no/such/directory"), "No such file or directory"}}) {
    expect_refused(kintsugi({"token", "create", "worker", "--role", "write", "--out", file}), why);
    EXPECT_EQ(kintsugi({"token", "list"}).out.find("worker"), std::string::npos)
        << "there is none that was made and revoked";
  }
  make("worker", {"--role", "write"});
}

TEST_F(Tokens, AdministrationStandsInTheAuditLog) {
  start({"--chunkservers", "3", "--policy", "rs-2-1-64k"});
  make("boss", {"--role", "admin"});
  make("worker", {"--role", "write"});
  EXPECT_EQ(as("boss", {"server", "drain", "chunkserver-3"}).exit_code, 0);
  EXPECT_EQ(as("worker", {"server", "undrain", "chunkserver-3"}).exit_code, 1);
  ASSERT_TRUE(
      eventually([&] { return audit_log().find("token worker (") != std::string::npos; }, seconds(5)));
  const std::string lines = audit_log();
  EXPECT_NE(lines.find("the secret from 127.0.0.1"), std::string::npos) << lines;
  EXPECT_EQ(times(lines, "CreateToken \"boss\", role admin, path \"\", root squashed: done"), 1u) << lines;
  EXPECT_EQ(times(lines, ", drain: done"), 1u) << lines;
  EXPECT_EQ(times(lines, ", undrain: refused or failed: DrainServer needs the right to administer"), 1u)
      << lines;
  EXPECT_EQ(times(lines, "\n"), 4u) << lines;
  // It is moved away, and goes on in a new file.
  const std::string log = cluster_directory() + "/log/metaserver.audit.log";
  std::filesystem::rename(log, log + ".1");
  send("metaserver", SIGHUP);
  ASSERT_TRUE(eventually(
      [&] {
        kintsugi({"server", "undrain", "chunkserver-3"});
        return std::filesystem::exists(log) && audit_log().find(", undrain: done") != std::string::npos;
      },
      seconds(10)));
}

class MountTokens : public Mounts {};

TEST_F(MountTokens, AReadersMountIsReadOnlyAndRootOfAnotherIsNotRoot) {
  const std::string ours = start_and_mount();
  std::filesystem::create_directories(ours + "/p/open");
  std::ofstream(ours + "/p/file") << "for everybody";
  std::ofstream(ours + "/p/secret") << "for root";
  std::ofstream(ours + "/outside") << "for others";
  ASSERT_EQ(::chmod((ours + "/p/open").c_str(), 0777), 0);
  ASSERT_EQ(::chmod((ours + "/p/secret").c_str(), 0600), 0);
  ::sync();
  const auto make = [&](const std::string& name, std::vector<std::string> options) {
    options.insert(options.begin(), {"token", "create", name, "--out", path(name)});
    const Outcome made = kintsugi(options);
    ASSERT_EQ(made.exit_code, 0) << made.err;
  };
  make("reader", {"--role", "read", "--no-squash"});
  make("guest", {"--role", "write", "--path", "/p"});
  const std::string reader = mount({"-o", "token_file=" + path("reader")});
  EXPECT_EQ(read_file(reader + "/p/file"), "for everybody");
  EXPECT_EQ(::open((reader + "/p/file").c_str(), O_WRONLY), -1);
  EXPECT_EQ(errno, EROFS);

  const std::string guest = mount({"-o", "token_file=" + path("guest")});
  EXPECT_EQ(read_file(guest + "/p/file"), "for everybody");
  EXPECT_EQ(::open((guest + "/outside").c_str(), O_RDONLY), -1);
  EXPECT_EQ(read_file(guest + "/p/secret"), "") << "root of that host is not root";
  EXPECT_EQ(::open((guest + "/p/new").c_str(), O_WRONLY | O_CREAT, 0644), -1);
  EXPECT_EQ(errno, EACCES);
  std::ofstream(guest + "/p/open/new") << "written by nobody";
  struct stat made{};
  ASSERT_EQ(::stat((ours + "/p/open/new").c_str(), &made), 0);
  EXPECT_EQ(made.st_uid, 65534u);
  EXPECT_EQ(read_file(ours + "/p/open/new"), "written by nobody");

  // What goes to chunkservers: copies, also of a file that follows at once, and stripes of several cells.
  // Root of the second mount is root, so the mount may keep the names of its directory to itself for a while.
  make("owner", {"--role", "write", "--path", "/p", "--no-squash"});
  const std::string owner = mount({"-o", "token_file=" + path("owner")});
  ASSERT_EQ(::mkdir((owner + "/p/own").c_str(), 0755), 0);
  for (const auto& [at, directory] : {std::pair(guest, "/p/open/"), std::pair(owner, "/p/own/")})
    for (const size_t bytes : {17'000, 18'000, 300'000, 9'000'000}) {
      const std::string name = fmt::format("{}{}", directory, bytes);
      SCOPED_TRACE(name);
      const std::string text(bytes, static_cast<char>('a' + bytes % 26));
      const int fd = ::open((at + name).c_str(), O_WRONLY | O_CREAT, 0644);
      ASSERT_GE(fd, 0);
      EXPECT_EQ(::write(fd, text.data(), text.size()), static_cast<ssize_t>(text.size()));
      EXPECT_EQ(::fsync(fd), 0) << std::strerror(errno);
      EXPECT_EQ(::close(fd), 0);
      EXPECT_EQ(read_file(ours + name), text);
    }
}

}  // namespace
}  // namespace kintsugi::processes
